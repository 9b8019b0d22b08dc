"""bAbI's text format: stories from a file, an archive or a folder. Members are read in memory, nothing is extracted."""

import lzma
import re
import stat
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import BinaryIO, NamedTuple, cast

from memjax.archives import Budget, opened_tar, tar_member, zip_member
from memjax.errors import MemjaxError, require

_FILE = re.compile(r"qa([0-9]+)_(?:.*_)?(train|valid|test)\.txt(?:\.gz)?")
_EXTRA = re.compile(r"qa([0-9]+)_(?:.*_)?(train|valid|test)(?:\..*)?\.txt(?:\.gz)?")
_DAMAGED = (OSError, EOFError, RuntimeError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile)


class Question(NamedTuple):
    """A question of a story.

    Attributes:
        after: how many statements come before it.
        text: of it.
        answer: to it.
        supporting: the positions (from 0) of the statements that support the answer.
    """

    after: int
    text: str
    answer: str
    supporting: tuple[int, ...]


class Story(NamedTuple):
    """A story.

    Attributes:
        sentences: its statements, in order.
        questions: asked along the way.
    """

    sentences: tuple[str, ...]
    questions: tuple[Question, ...]


Key = tuple[int, str]  # (task, split)
Folder = dict[Key, list[Story]]  # in the order of the file


class Records(NamedTuple):
    """A prepared folder: what each split has of each task, and what reads it.

    Attributes:
        splits: split -> task -> (stories, questions), how many.
        extras: the (task, split) that came from an extra file, and its name.
        stories: (split, task) -> the stories in the order of the file.
    """

    splits: dict[str, dict[int, tuple[int, int]]]
    extras: dict[Key, str]
    stories: Callable[[str, int], list[Story]]


def parse(text: str, where: str) -> list[Story]:
    r"""The stories of a file.

    Args:
        text: of the file.
        where: its name, for errors.

    Raises:
        MemjaxError: at the first line that is not `ID text` or `ID question<TAB>answer<TAB>supporting IDs`.

    >>> parse("1 Mary went home.\n2 Where is Mary?\thome\t1\n", "qa1_train.txt")[0].questions[0]
    Question(after=1, text='Where is Mary?', answer='home', supporting=(0,))
    """
    stories: list[Story] = []
    sentences: list[str] = []
    questions: list[Question] = []
    positions: dict[str, int] = {}  # the ID of a statement -> its position among the statements
    number = last = 0

    def bad(number: int, reason: str) -> MemjaxError:
        return MemjaxError(f"{where}, line {number}: {reason}")

    def finish(number: int) -> None:
        if last and not questions:
            raise bad(number, "the story before has no question; is the file cut short?")
        if last:
            stories.append(Story(tuple(sentences), tuple(questions)))

    # Not splitlines: it would also split at characters that other languages use within a line.
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line:
            continue
        name, _, rest = line.partition(" ")
        if not name.isdecimal() or not rest:
            raise bad(number, f"not bAbI's 'ID text': {line[:60]!r}")
        identifier = int(name)
        if identifier == 1:
            finish(number)
            sentences, questions, positions = [], [], {}
        elif not last or identifier <= last:
            raise bad(number, f"ID {identifier} after {last}; a story starts at 1, IDs grow")
        last = identifier
        content, *fields = [part.strip() for part in rest.split("\t")]
        if not any(map(str.isalnum, content)):
            raise bad(number, f"a sentence without a word: {content[:60]!r}")
        if not fields:
            positions[name] = len(sentences)
            sentences.append(sys.intern(content))
            continue
        if len(fields) > 2 or not fields[0]:
            raise bad(number, "a question needs 'question<TAB>answer<TAB>supporting IDs'")
        if not sentences:
            raise bad(number, "a question before any statement of its story")
        support = fields[1].split() if len(fields) == 2 else []
        if not all(map(positions.__contains__, support)):
            raise bad(number, f"supporting IDs {' '.join(support)[:60]!r} are not all of earlier statements")
        facts = tuple([positions[one] for one in support])
        questions.append(Question(len(sentences), sys.intern(content), sys.intern(fields[0]), facts))
    finish(number)
    require(stories, f"{where}: no story in it")
    return stories


def _key(name: str, pattern: re.Pattern = _FILE) -> Key | None:
    match = pattern.fullmatch(name)
    if match is None:
        return None
    digits = match[1].lstrip("0")
    sound = 0 < len(digits) <= 10 and int(digits) < 2**31
    require(sound, f"{name[:60]}: the number of a task must be from 1 to 2147483647; rename or remove the file")
    return int(digits), match[2]


def _decode(data: bytes, where: str, budget: Budget) -> list[Story]:
    try:
        data = budget.unpack(data)
    except _DAMAGED as error:
        raise MemjaxError(f"{where} is damaged ({error}); get it again") from None
    try:
        return parse(data.decode("utf-8-sig"), where)
    except UnicodeDecodeError as error:
        raise MemjaxError(f"{where}: not UTF-8 text (byte {error.start}); is it a bAbI file?") from None


def _safe(name: str, path: Path) -> PurePosixPath:
    member = PurePosixPath(name.replace("\\", "/"))
    safe = not member.is_absolute() and ".." not in member.parts
    require(safe, f"{path} has a member that points outside of it, {name!r}; get the archive from its official address")
    return member


def _link(name: str, path: Path) -> MemjaxError:
    return MemjaxError(f"{path}: {name!r} is a link or a device, not a file; get the archive from its official address")


def _tar_members(path: Path, budget: Budget) -> Iterator[tuple[PurePosixPath, bytes]]:
    with opened_tar(path) as tar:
        for info in tar:
            member = _safe(info.name, path)
            if _key(member.name):
                content = tar_member(tar, info, budget) if info.isreg() else None
                if content is None:
                    raise _link(info.name, path)
                yield member, content
        # tarfile takes a broken or missing header for the end of the archive; only the zeros that end one are that.
        file = cast(BinaryIO, tar.fileobj)
        file.seek(tar.offset)
        end = file.read()
        if len(end) < tarfile.BLOCKSIZE or any(end):
            raise tarfile.ReadError("it ends early")


def _zip_members(path: Path, budget: Budget) -> Iterator[tuple[PurePosixPath, bytes]]:
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            member = _safe(info.filename, path)
            if _key(member.name):
                if stat.S_ISLNK(info.external_attr >> 16):
                    raise _link(info.filename, path)
                yield member, zip_member(archive, info, budget)


def _files(folder: Path) -> list[Path]:
    """The files of bAbI in a folder, two folders deep at most."""
    found = (file for level in ("", "*/", "*/*/") for file in sorted(folder.glob(f"{level}qa*")))
    return [file for file in found if _key(file.name)]


def _members(path: Path, budget: Budget) -> Iterator[tuple[str, Key, str, bytes]]:
    """(folder, key, where, content) of every bAbI file of an archive or a folder."""
    if path.is_dir():
        for file in _files(path):
            require(file.is_file(), f"{file} is no file; remove it")
            yield file.parent.resolve().name, cast(Key, _key(file.name)), str(file), file.read_bytes()
        return
    for member, data in (_zip_members if zipfile.is_zipfile(path) else _tar_members)(path, budget):
        yield member.parent.name or path.name.split(".")[0], cast(Key, _key(member.name)), f"{path}: {member}", data


def read_source(path: Path) -> dict[str, Folder]:
    """The folders of an archive (tar, tar.gz, tgz, zip) or of a folder in bAbI's format, by name.

    Raises:
        MemjaxError: if there is no such file, it is damaged, or a file in it is not bAbI's.
    """
    require(path.exists(), f"no such file or folder: {path}")
    folders: dict[str, Folder] = {}
    try:
        budget = Budget(path, *(_files(path) if path.is_dir() else ()))
        for name, key, where, data in _members(path, budget):
            folder = folders.setdefault(name, {})
            require(key not in folder, f"{where}: a second {key[1]} file for task {key[0]} of folder {name!r}")
            folder[key] = _decode(data, where, budget)
    except _DAMAGED as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise MemjaxError(
            f"{path} cannot be read ({reason}): damaged, or no tar or zip archive; get it again"
        ) from None
    require(folders, f"no bAbI folder in {path}: it has no file like qa1_..._train.txt, two folders deep at most")
    return folders


def read_extra(path: Path) -> tuple[Key, list[Story]]:
    """(task, split) and stories of a single file, named like `qa3_..._train.txt` or `qa3_..._train.PARTIAL.txt.gz`.

    Raises:
        MemjaxError: if there is no such file, its name does not tell task and split, or it is not bAbI's.
    """
    require(path.is_file(), f"no such file: {path}")
    key = _key(path.name, _EXTRA)
    if key is None:
        raise MemjaxError(f"{path}: the name must tell task and split, like qa3_train.txt or qa3_train.PARTIAL.txt.gz")
    return key, _decode(path.read_bytes(), str(path), Budget(path))
