"""What the builders share that check a data set and copy what is read of it: the new folder, and what they tell."""

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from memjax.errors import require
from memjax.files import replace_folder, writing
from memjax.typing import Split


class Copied(NamedTuple):
    """What was written.

    Attributes:
        streams: of each split, how many documents or clips.
        questions: of each split, how many.
        left_out: what was not, and what the task will not read: a line each.
    """

    streams: dict[Split, int]
    questions: dict[Split, int]
    left_out: tuple[str, ...]


def require_place(path: Path, own: Sequence[str], *sources: Path) -> None:
    """Raises `MemjaxError` unless a folder can be written, or replaced without a loss.

    Args:
        path: of the folder.
        own: patterns of what is replaced, such as "streams/*.npy"; "*" stands for slashes, too.
        sources: what is read: it must not lie there.
    """
    with writing(path.parent):
        place = path.resolve()
        for source in sources:
            own_source = place == source.resolve() or place in source.resolve().parents
            require(not own_source, f"{source} lies where the prepared data goes, {path}; give another folder for that")
        require(path.is_dir() or not path.exists(), f"{path} is no folder; move it, or give another folder")
        for file in sorted(path.rglob("*")):
            name = file.relative_to(path).as_posix()
            known = (file.is_dir() and not file.is_symlink()) or any(fnmatchcase(name, pattern) for pattern in own)
            require(known, f"{path} holds {name}, which was not prepared; move it, or give another folder")


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """An empty folder of the same name, which takes the place of `path` when the block is over.

    If that raises, what was there still is.

    Raises:
        MemjaxError: where nothing can be written.

    ::

        with new_folder(Path("data", "tvqa")) as new:
            (new / "tvqa_train.jsonl").write_text(text)
    """
    with writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Beside the final place, so that moving is a rename.
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as work:
            new = Path(work, "new", path.name)
            new.mkdir(parents=True)
            yield new
            replace_folder(new, path, Path(work, "old"))


def write_names(path: Path, names: Iterable[str]) -> None:
    """Writes names, a line each; half of a pair of surrogates, which UTF-8 lacks, as its escape.

    Args:
        path: of the file.
        names: in the order of the lines.
    """
    text = "".join(f"{name}\n" for name in names)
    path.write_text(text, encoding="utf-8", errors="backslashreplace")
