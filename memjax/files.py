"""The files that memjax writes and reads again: whole or not at all, never through a link, each read by one rule."""

import contextlib
import errno
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol, runtime_checkable

from memjax.errors import MemjaxError, one_line, require

ADVICE = "restore it from a copy, or give another run"
SUM = "sha256"  # the last key of a JSON object: a sum over the others
LARGEST_STEP = 2**31 - 1
_OWN = os.O_NOFOLLOW | os.O_CLOEXEC
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_REFUSALS = (*_FULL, errno.EROFS, errno.EACCES, errno.EIO)
_NUL = "null byte", "null character"  # in what Python 3.11 and later ones say of a path with one
_UNSYNCED = (errno.EINVAL, errno.ENOTSUP)  # of file systems that keep nothing back


@contextlib.contextmanager
def writing(path: object) -> Iterator[None]:
    """Turns what the file system refuses into one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or one_line(error)
    except (RuntimeError, ValueError) as error:
        # What TensorStore, below Orbax, and array_record, below TFDS, say of a full disk.
        known = next((words for words in map(os.strerror, _REFUSALS) if words in str(error)), "")
        other = isinstance(error, ValueError) and any(words in str(error) for words in ("writing", *_NUL))
        if isinstance(error, MemjaxError) or not (known or other):
            raise
        reason = known or one_line(error)
    else:
        return
    advice = ", or make room" if reason in map(os.strerror, _FULL) else ""
    raise MemjaxError(f"cannot write to {path}: {reason}; give another folder{advice}")


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file, which takes the place of `path` when the block is over. If that raises, all is as it was.

    A crash at any time leaves the old file or the new one: it is on the disk before it is renamed, and its folder
    after.

    Raises:
        MemjaxError: where nothing can be written, and where a link, a folder or a device is in its place.
    """
    with writing(path), contextlib.ExitStack() as opened:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, folder)
        with contextlib.suppress(FileNotFoundError):
            _require_regular(os.stat(path.name, dir_fd=folder, follow_symlinks=False), path)
        name = f".{path.name[:32]}.{secrets.token_hex(8)}.tmp"
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OWN, 0o666, dir_fd=folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                yield file
                file.flush()
                _sync(file.fileno())
            os.replace(name, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)
            raise
        _sync(folder)


def replace_folder(new: Path, path: Path, old: Path) -> None:
    """Puts a folder in the place of another, when all of it is on the disk.

    Args:
        new: the folder that is moved.
        path: where it is moved to.
        old: where what was there is moved to.

    Raises:
        OSError: then what was there still is.
    """
    for each in (*new.rglob("*"), new):
        _sync_at(each)
    replaced = path.exists()
    try:
        if replaced:
            path.rename(old)
        new.rename(path)
    except BaseException:  # a Ctrl-C, too
        if replaced and not path.exists() and old.exists():
            old.rename(path)
        raise
    _sync_at(path.parent)


def open_own(path: Path, flags: int) -> int:
    """A descriptor of a regular file, made if it is not there; close it.

    Args:
        path: of the file.
        flags: how it is opened, such as `os.O_WRONLY | os.O_APPEND`; O_EXCL refuses a file that is there already.

    Raises:
        MemjaxError: where a link, a folder or a device is in its place.
        OSError: as of `os.open`.
    """
    with contextlib.suppress(FileNotFoundError):
        _require_regular(path.lstat(), path)  # before it is opened: that of a device may do something
    descriptor = os.open(path, flags | os.O_CREAT | _OWN, 0o666)
    try:
        _require_regular(os.fstat(descriptor), path)
    except MemjaxError:
        os.close(descriptor)
        raise
    return descriptor


def own_folder(root: Path, *names: str) -> Path:
    """A folder below another, made if it is not there.

    Args:
        root: where it begins; this may be a link.
        names: of the folders on the way, the last one its own.

    Raises:
        MemjaxError: where one of them is a link, for what is written below would land elsewhere.
        OSError: where one cannot be made.
    """
    root.mkdir(parents=True, exist_ok=True)
    for name in names:
        root = root / name
        require(not root.is_symlink(), f"{root} is a link, and nothing is written through it; remove the link")
        root.mkdir(exist_ok=True)
    return root


def _require_regular(status: os.stat_result, path: Path) -> None:
    kinds = {stat.S_IFLNK: "a link", stat.S_IFDIR: "a folder"}
    kind = kinds.get(stat.S_IFMT(status.st_mode), "a device or a pipe")
    require(stat.S_ISREG(status.st_mode), f"{path} is {kind}, not a file of ours; remove it, or give another name")


def _sync_at(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _sync(descriptor)
    finally:
        os.close(descriptor)


def _sync(descriptor: int) -> None:
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _UNSYNCED:
            raise


@runtime_checkable
class Readable(Protocol):
    """A path, of this machine or in a bucket."""

    def read_bytes(self) -> bytes:
        """All that the file holds."""
        ...


def json_text(value: Any, summed: bool = False) -> str:
    """The text of a JSON file.

    Args:
        value: what it holds.
        summed: whether the last key of an object is a sum over all that it holds.

    >>> json_text({"x": [1, 2]}, summed=True).splitlines()[-2][:10]
    ' "sha256":'
    """
    if summed:
        value = {key: part for key, part in value.items() if key != SUM}
        value[SUM] = _sum(json.loads(json.dumps(value, allow_nan=False)))
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def read_object(path: Readable) -> dict[str, Any]:
    """The JSON object in a file, without its sum.

    Raises:
        MemjaxError: if it is damaged or cannot be read.
    """
    try:
        value = _parse(_read(path))
    except (ValueError, RecursionError) as error:
        raise MemjaxError(f"{path} is damaged ({one_line(error)}); {ADVICE}") from None
    require(isinstance(value, dict), f"{path} is damaged (it holds {type(value).__name__}, not an object); {ADVICE}")
    kept = value.pop(SUM, None)  # what an earlier version wrote has none
    require(
        kept is None or kept == _sum(value),
        f"{path} is damaged, or was changed by hand (its {SUM} is another); {ADVICE}, or if you changed it, remove the "
        f"key {SUM}",
    )
    return value


def read_entries(path: Path) -> list[dict[str, Any]]:
    """The entries of a `metrics.jsonl`, each with a phase and a step; [] without the file.

    A crash may leave half a line at the end, which is left out.

    Raises:
        MemjaxError: at any other line that is none.
    """
    if not path.is_file():
        return []
    lines = _read(path).split(b"\n")
    entries = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entry = _parse(line)
        except (ValueError, RecursionError) as error:
            if number == len(lines):  # no line break after it
                break
            raise _damaged(path, number, f"is no JSON ({one_line(error)})") from None
        if not isinstance(entry, dict):
            raise _damaged(path, number, "is no JSON object")
        if not (isinstance(entry.get("phase"), str) and _is_step(entry.get("step"))):
            raise _damaged(path, number, "has no phase or no step")
        entries.append(entry)
    return entries


def _sum(value: dict[str, Any]) -> str:
    """A sum over an object that was read: of its canonical text."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _parse(text: bytes) -> Any:
    return json.loads(text.decode(), parse_int=_whole_number)


def _whole_number(text: str) -> int | float:
    """A number that no computation of ours overflows on: what is larger than 64 bits is a float."""
    value = int(text)
    return value if abs(value) < 2**63 else float(text)


def _is_step(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= LARGEST_STEP and value == int(value)


def _read(path: Readable) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise MemjaxError(f"cannot read {path} ({error.strerror}); make it readable, or give another run") from None


def _damaged(path: Path, number: int, reason: str) -> MemjaxError:
    return MemjaxError(f"{path} is damaged: line {number} {reason}; remove the line, or give another run")
