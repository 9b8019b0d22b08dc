"""Features of videos, an array each: from a folder of .npy files, or from one archive .npz."""

import contextlib
import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from memjax.archives import Budget, zip_member
from memjax.errors import MemjaxError, one_line, require
from memjax.tasks.text import guarded

Read = Callable[[], np.ndarray]
_SAVED = {True: "numpy.savez", False: "numpy.save"}


def is_archive(path: Path) -> bool:
    """Whether a path names an archive of features, and no folder of them."""
    return path.suffix == ".npz"


@contextlib.contextmanager
def opened_features(path: Path, videos: Sequence[str]) -> Iterator[dict[str, Read]]:
    """What reads the features of each video that has some, `[frames, d]`; a reader raises `MemjaxError`, too.

    Args:
        path: a folder with NAME.npy or v_NAME.npy for each video; or an archive FILE.npz of `numpy.savez`, with an
            array NAME or v_NAME for each. Together an archive may unpack to no more than `memjax.archives.limit`.
        videos: their names.

    Raises:
        MemjaxError: for an archive that is missing or damaged.

    ::

        with opened_features(Path("features.npz"), ["okC18bPTils"]) as found:
            arrays = {video: read() for video, read in found.items()}
    """
    with contextlib.ExitStack() as opened:
        find = _archived(path, opened) if is_archive(path) else _filed(path)
        both = {video: [find(f"{prefix}{video}.npy") for prefix in ("", "v_")] for video in videos}
        yield {video: next(filter(None, pair)) for video, pair in both.items() if any(pair)}


def _filed(folder: Path) -> Callable[[str], Read | None]:
    def find(name: str) -> Read | None:
        path = folder / name
        there = guarded(path, path.exists)
        return (lambda: _checked(path, lambda: np.load(path, allow_pickle=False))) if there else None

    return find


def _archived(path: Path, opened: contextlib.ExitStack) -> Callable[[str], Read | None]:
    require(guarded(path, path.is_file), f"there is no file {path}; write it with numpy.savez, an array for each video")
    with _readable(path, packed=True):
        # It stays open: to read the list of members once for each video takes minutes.
        archive = opened.enter_context(zipfile.ZipFile(path))
    members: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        require(member.filename not in members, f"{path} has {member.filename!r:.80} twice; write it again")
        members[member.filename] = member
    budget = Budget(path)

    def read(member: zipfile.ZipInfo) -> np.ndarray:
        # Not numpy.load, which unpacks whatever a member says it holds.
        return np.lib.format.read_array(io.BytesIO(zip_member(archive, member, budget)), allow_pickle=False)

    def find(name: str) -> Read | None:
        member = members.get(name)
        return None if member is None else lambda: _checked(path / name, lambda: read(member), packed=True)

    return find


def _checked(where: Path, read: Read, packed: bool = False) -> np.ndarray:
    with _readable(where, packed):
        found = read()
    fits = isinstance(found, np.ndarray) and found.ndim == 2 and found.size and found.dtype.kind in "iuf"
    require(fits, f"{where} must hold numbers [frames, d], at least one frame")
    return found


@contextlib.contextmanager
def _readable(where: Path, packed: bool) -> Iterator[None]:
    try:
        yield
    except MemjaxError:
        raise
    except Exception as error:  # a damaged header fails in many ways
        raise MemjaxError(f"{where} cannot be read: {one_line(error)}; write it with {_SAVED[packed]}") from None
