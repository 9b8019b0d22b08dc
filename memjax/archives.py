"""What archives and compressed files hold, as far as memory goes: nothing unpacks to much more than it is.

Texts are packed to a tenth of their size, data sets of repeated ones to a fortieth. A file of a few megabytes that
unpacks to terabytes is refused when it has unpacked to `limit`.
"""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from memjax.errors import require

FLOOR, RATIO = 2**26, 100
# How a file begins that each of them has packed.
_PACKED: dict[str, Any] = {
    r"\x1f\x8b": gzip.open,
    r"BZh[1-9]1AY&SY": bz2.open,
    r"\xfd7zXZ\x00|]\x00\x00": lzma.open,
}


def limit(packed: int) -> int:
    """The most bytes that so many packed ones may unpack to."""
    return FLOOR + RATIO * packed


class Budget:
    """How many bytes a source, of one file or some, may still unpack to, all of its parts together.

    Args:
        path: of the source, for errors.
        files: of which the source is, if not of that one.
    """

    def __init__(self, path: Path, *files: Path):
        self.path, self.left = path, limit(sum(file.stat().st_size for file in files or (path,)))

    def spend(self, size: int) -> None:
        """Raises `MemjaxError` if there are not so many left."""
        self.left -= size
        require(self.left >= 0, _too_much(self.path))

    def unpack(self, data: bytes) -> bytes:
        """What bytes hold, which may be gzip's."""
        if data[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
                data = Bounded(stream, self.left, self.path).read()
        self.spend(len(data))
        return data


class Bounded:
    """A binary stream that is read up to a position, and raises `MemjaxError` beyond.

    Args:
        stream: the one that is read.
        end: the position, in bytes.
        path: of the source, for errors.
    """

    def __init__(self, stream: Any, end: int, path: Path):
        self._stream, self._end, self._path = stream, end, path

    def read(self, size: int | None = -1) -> bytes:
        """As a stream does."""
        room = self._end - self._stream.tell() + 1
        data = self._stream.read(room if size is None or size < 0 else min(size, room))
        require(len(data) < room, _too_much(self._path))
        return data

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        """As a stream does; what is packed is unpacked on the way."""
        require(whence != os.SEEK_SET or place <= self._end, _too_much(self._path))
        return self._stream.seek(place, whence)

    def tell(self) -> int:
        """As a stream does."""
        return self._stream.tell()


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[Bounded]:
    """What a file holds that may be packed by gzip, bzip2 or xz."""
    with path.open("rb") as file:
        require(stat.S_ISREG(os.fstat(file.fileno()).st_mode), f"{path} is no regular file; give another")
        start = file.read(10).decode("latin-1")
        file.seek(0)
        opened = next((opener for pattern, opener in _PACKED.items() if re.match(pattern, start)), None)
        with opened(file) if opened else contextlib.nullcontext(file) as stream:
            yield Bounded(stream, limit(path.stat().st_size), path)


@contextlib.contextmanager
def opened_tar(path: Path) -> Iterator[tarfile.TarFile]:
    """A tar archive, which may be packed."""
    with unpacked(path) as stream, tarfile.open(fileobj=cast(Any, stream), mode="r:") as archive:
        yield archive


def tar_member(archive: tarfile.TarFile, member: tarfile.TarInfo, budget: Budget) -> bytes | None:
    """The bytes of a member, None of one that has none.

    Args:
        archive: opened.
        member: one of its members.
        budget: of the archive.

    Raises:
        MemjaxError: for more than the budget has left, and for a member with holes, which may say any size.
    """
    require(
        not member.issparse(), f"{budget.path}: {member.name!r} has holes; get the archive from its official address"
    )
    content = archive.extractfile(member)
    if content is None:
        return None
    data = content.read()
    budget.spend(len(data))
    return data


def tar_files(path: Path, pattern: str | re.Pattern) -> Iterator[tuple[str, bytes]]:
    """Of a tar archive, in its order, the files whose names match a pattern, with what they hold; no links.

    Raises:
        MemjaxError: as of `tar_member`.
    """
    budget = Budget(path)
    with opened_tar(path) as archive:
        for member in archive:
            if member.isfile() and re.fullmatch(pattern, member.name):
                yield member.name, tar_member(archive, member, budget) or b""


def zip_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, budget: Budget) -> bytes:
    """The bytes of a member: never more than it says beforehand.

    Args:
        archive: opened.
        member: one of its members.
        budget: of the archive.

    Raises:
        MemjaxError: for more than the budget has left.
    """
    budget.spend(member.file_size)
    return archive.read(member)


def _too_much(path: Path) -> str:
    return f"{path} unpacks to far more than it is, over {FLOOR:,} bytes and {RATIO} times its size; get it again"
