"""Columns of a Parquet file as NumPy arrays. pyarrow is an extra, `memjax[parquet]`, for this alone."""

from pathlib import Path
from typing import Any

import numpy as np

from memjax.errors import MemjaxError, one_line, require
from memjax.tasks.text import guarded
from memjax.tasks.words import composed

# What a column holds, by what is asked for, as errors say it.
_SAID = {
    "names": "whole numbers or words",
    "times": "whole numbers, other numbers, dates or timestamps",
    "items": "whole numbers, words, or lists of numbers",
}


def read_columns(path: Path, needed: dict[str, str], optional: dict[str, str]) -> dict[str, np.ndarray]:
    """Columns by their names; of the optional ones those that the file has.

    Args:
        path: of the file.
        needed: columns that it must have, and what they hold: "names", whole numbers or words; "times", by which is
            sorted; "items", names, or vectors as lists of one length, which come as `[rows, d]`.
        optional: others that are read.

    Raises:
        MemjaxError: for a file that is missing or damaged, lacks a column or a value in it, or holds something else
            in it; and without pyarrow.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise MemjaxError(f"{path} needs pyarrow: pip install 'memjax[parquet]'") from None
    require(guarded(path, path.exists), f"there is no {path}; put it there, or name its folder with --data_dir=FOLDER")
    try:
        schema = pyarrow.parquet.read_schema(path)
        names = schema.names
        for name in needed:
            require(name in names, f"{path} has no column {name!r}; it has {', '.join(names)}")
        for name in optional:  # left out, the rows would be taken as they lie
            near = [field.name for field in schema if field.name not in needed and _may_be(field, name)]
            require(
                name in names or not near,
                f"{path} has no column {name!r}, but {', '.join(near)}: name it {name!r} to sort by it, or drop it",
            )
        wanted = needed | {name: holds for name, holds in optional.items() if name in names}
        table = pyarrow.parquet.read_table(path, columns=list(wanted))
        require(table.num_rows > 0, f"{path} has no rows")
        return {name: _column(f"{path}: {name!r}", table[name], holds) for name, holds in wanted.items()}
    except (OSError, UnicodeDecodeError, pyarrow.ArrowException) as error:
        raise MemjaxError(f"{path} cannot be read: {one_line(error)}") from None


def _may_be(field: Any, name: str) -> bool:
    """Whether a column of another name may hold what is sought, which is a time."""
    from pyarrow import types

    called = field.name.lower() in (name, f"{name}s", f"{name}stamp", f"date{name}", "ts", "date")
    return called or types.is_timestamp(field.type) or types.is_date(field.type)


def _column(place: str, values: Any, holds: str) -> np.ndarray:
    from pyarrow import compute, types

    if types.is_dictionary(values.type):  # a category of pandas
        values = values.cast(values.type.value_type)
    if types.is_string_view(values.type):
        values = values.cast("string")
    kind = values.type
    require(values.null_count == 0, f"{place} has rows without a value; leave them out")
    if types.is_integer(kind):
        numbers = values.to_numpy()
        require(numbers.max() < 2**63, f"{place} has whole numbers of 2^63 or more")
        return numbers.astype(np.int64)
    if holds != "times" and (types.is_string(kind) or types.is_large_string(kind)):
        words = values.to_pylist()
        # NumPy's words end before it: two would become one.
        require(not any(word.endswith("\0") for word in words), f"{place} has words that end in a NUL; mend them")
        return composed(np.array(words, str))
    if holds == "times" and (types.is_floating(kind) or types.is_timestamp(kind) or types.is_date(kind)):
        times = values.to_numpy()
        unknown = np.isnan(times) if types.is_floating(kind) else np.isnat(times)
        require(not unknown.any(), f"{place} has rows without a value; leave them out")
        return times
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    numeric = lists and (types.is_floating(kind.value_type) or types.is_integer(kind.value_type))
    require(holds == "items" and numeric, f"{place} holds {kind}, not {_SAID[holds]}")
    flat = values.combine_chunks().flatten()
    require(flat.null_count == 0, f"{place} has lists with gaps; fill them")
    lengths = compute.list_value_length(values).to_numpy()
    require(lengths.min() == lengths.max() > 0, f"{place} holds vectors of several widths")
    return flat.to_numpy(zero_copy_only=False).reshape(len(lengths), -1)
