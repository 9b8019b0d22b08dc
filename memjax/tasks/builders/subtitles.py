"""TVQA's subtitles: a file .srt for each clip, in a folder or in one archive, or all as lines of JSON."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from memjax.archives import tar_files, unpacked
from memjax.errors import require
from memjax.tasks.dialogue_files import TVQA_SUBTITLES, Subtitle, read_subtitles
from memjax.tasks.text import guarded, plain_or_gzipped

NAME = "tvqa_subtitles"
ARCHIVES = tuple(f"{NAME}.{kind}" for kind in ("tar.gz", "tgz", "tar"))
_MEMBER = re.compile(r"(?:.*/)?[^/.][^/]*\.srt")
_TIME = re.compile(r"\s*(\d{1,2}):(\d{1,2}):(\d{1,2})[,.](\d{1,3})\s*-->.*", re.ASCII)


def subtitles_of(folder: Path) -> dict[str, list[Subtitle]]:
    """What is said in each clip, in the order in which it begins.

    Args:
        folder: of TVQA, with tvqa_preprocessed_subtitles.jsonl, which may be gzipped; or else with the folder
            tvqa_subtitles of NAME.srt, or with the archive of it, tvqa_subtitles.tar.gz. Of an archive, members that
            are links or devices are not read.

    Raises:
        MemjaxError: for what is missing, damaged, or of another kind.

    ::

        print(len(subtitles_of(Path("downloads/tvqa"))), "clips")
    """
    if guarded(folder, plain_or_gzipped(folder / TVQA_SUBTITLES).exists):
        return read_subtitles(folder)
    paths = [path for path in map(folder.joinpath, (NAME, *ARCHIVES)) if guarded(path, path.exists)]
    require(
        paths,
        f"{folder} has no subtitles: put there {TVQA_SUBTITLES}, or TVQA's folder {NAME} or its archive {ARCHIVES[0]}",
    )
    found: dict[str, list[Subtitle]] = {}
    for where, data in guarded(paths[0], lambda: list(_files(paths[0]))):
        clip = PurePosixPath(where).stem
        require(clip not in found, f"{paths[0]}: the clip {clip!r:.80} is there twice")
        found[clip] = parse_srt(where, _decoded(data))
    require(found, f"{paths[0]} has no subtitles NAME.srt; get it again")
    return found


def parse_srt(where: str, text: str) -> list[Subtitle]:
    r"""The subtitles of a file .srt, in the order in which they begin; those of several lines as one.

    Args:
        where: its name, for errors.
        text: all of it.

    Raises:
        MemjaxError: for a text that is none.

    >>> parse_srt("a.srt", "1\n00:01:02,500 --> 00:01:04,000\nWhere is\nthe cat?\n")
    [Subtitle(start=62.5, text='Where is the cat?')]
    """
    found: list[tuple[float, list[str]]] = []
    lines = [line.strip() for line in text.replace("\r", "\n").split("\n")]
    lines = [line for line in lines if line]
    for number, line in enumerate(lines):
        if match := _TIME.fullmatch(line):
            hours, minutes, seconds, part = match.groups()
            found.append((3600 * int(hours) + 60 * int(minutes) + int(seconds) + float(f".{part}"), []))
        elif line.isdecimal() and number + 1 < len(lines) and _TIME.fullmatch(lines[number + 1]):
            continue  # that of the subtitle that begins here
        else:
            require(found, f"{where} is no file of subtitles: it begins with {line[:40]!r}; get it again")
            found[-1][1].append(line)
    return sorted((Subtitle(start, " ".join(said)) for start, said in found), key=lambda one: one.start)


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Each with where it stands; without those that begin with a point, which a Mac puts beside the others."""
    if path.is_dir():
        for file in sorted(path.glob("[!.]*.srt")):
            with unpacked(file) as stream:
                yield str(file), stream.read()
        return
    for name, data in tar_files(path, _MEMBER):
        yield f"{path}: {name}", data


def _decoded(data: bytes) -> str:
    """Some of TVQA's are in Latin-1, of which any byte is a letter."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")
