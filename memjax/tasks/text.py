"""Texts from files: plain, gzipped, or members of an archive, in UTF-8. Nothing that is read is run or unpacked."""

import json
import lzma
import re
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from memjax.archives import Budget, tar_files, unpacked, zip_member
from memjax.errors import MemjaxError, one_line, require

T = TypeVar("T")
_TARS = (".tar.gz", ".tgz", ".tar")


def read_text(path: Path) -> str:
    """The text of FILE.txt, of FILE.txt.gz, or of all .txt files of FILE.tar.gz, in the order of their names.

    Raises:
        MemjaxError: for a file that is missing, damaged, or no text.
    """
    if path.name.endswith(_TARS):
        return "\n".join(_tar_texts(path))

    def data() -> bytes:
        with unpacked(path) as stream:
            return stream.read()

    return _read(path, data)


def plain_or_gzipped(path: Path) -> Path:
    """FILE.gz where that is there and FILE is not; else FILE."""
    packed = path.with_name(f"{path.name}.gz")
    return packed if packed.exists() and not path.exists() else path


def parsed(where: Path | str, text: str) -> Any:
    """What a text in JSON holds. Raises `MemjaxError` if it is none; where: it stands."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MemjaxError(f"{where} is no JSON: {one_line(error)}; get it again") from None


def read_member(archive: Path, name: str) -> str:
    """The text of one member of a zip or tar archive, by its exact name."""

    def data() -> bytes:
        if archive.name.endswith(_TARS):
            for _, found in tar_files(archive, re.escape(name)):
                return found
            raise MemjaxError(f"{archive} has no member {name}")
        with zipfile.ZipFile(archive) as members:
            require(name in members.namelist(), f"{archive} has no member {name}")
            return zip_member(members, members.getinfo(name), Budget(archive))

    return _read(archive, data)


def without_gutenberg(text: str) -> str:
    """A Project Gutenberg text without its header and trailer; any other text as it is."""
    _, started, rest = text.partition("*** START OF")
    return rest.partition("\n")[2].partition("*** END OF")[0].strip() if started else text


def _tar_texts(path: Path) -> list[str]:
    found = guarded(path, lambda: dict(tar_files(path, r"(?s).*\.txt")))
    require(found, f"{path} holds no .txt file")
    return [decoded(path, found[name]) for name in sorted(found)]


def _read(path: Path, data) -> str:
    return decoded(path, guarded(path, data))


def guarded(path: Path, read: Callable[[], T]) -> T:
    """What `read` gives of a file. Raises `MemjaxError` if that is missing or damaged."""
    try:
        return read()
    except FileNotFoundError:
        raise MemjaxError(f"there is no {path}; put it there, or name its folder with --data_dir=FOLDER") from None
    except (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError) as error:
        reason = " ".join(str(error).split())
        raise MemjaxError(f"{path} cannot be read: {reason}; get it again") from None


def decoded(path: Path | str, data: bytes) -> str:
    """Bytes of a file as text in UTF-8. Raises `MemjaxError` if they are none."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MemjaxError(f"{path} is no text in UTF-8: {error}") from None
