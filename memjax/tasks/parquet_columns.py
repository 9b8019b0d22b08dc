"""Columns of a Parquet file. pyarrow is an extra, `memjax[parquet]`; without it nothing else is missing."""

from pathlib import Path
from typing import Any

from memjax.errors import MemjaxError, one_line, require


def read_columns(path: Path, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """Columns by their names, as pyarrow's; of the optional ones those that the file has.

    Args:
        path: of the file.
        needed: columns that it must have, without gaps.
        optional: others that are read.

    Raises:
        MemjaxError: for a file that is missing or damaged, lacks a column or a value in it, and without pyarrow.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise MemjaxError(f"{path} needs pyarrow: pip install 'memjax[parquet]'") from None
    require(path.exists(), f"there is no {path}; put it there, or name its folder with --data_dir=FOLDER")
    try:
        names = pyarrow.parquet.read_schema(path).names
        for name in needed:
            require(name in names, f"{path} has no column {name!r}; it has {', '.join(names)}")
        wanted = [*needed, *(name for name in optional if name in names)]
        table = pyarrow.parquet.read_table(path, columns=wanted)
    except (OSError, pyarrow.ArrowException) as error:
        raise MemjaxError(f"{path} cannot be read: {one_line(error)}") from None
    for name in wanted:
        require(table[name].null_count == 0, f"{path} has rows without {name!r}; leave them out")
    require(table.num_rows > 0, f"{path} has no rows")
    return {name: table[name] for name in wanted}
