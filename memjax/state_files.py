"""States of many streams in one file: arrays with a leading axis, whole or not at all, and nothing that is run."""

import math
import os
import stat
import zipfile
import zlib
from pathlib import Path
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from memjax.errors import MemjaxError, remark, require
from memjax.files import replacing
from memjax.typing import Any, State

# What flipped bits are to NumPy and to zipfile.
DAMAGE = (OSError, ValueError, EOFError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error)


def write_states(path: str | Path, states: State) -> None:
    """Writes states, a pytree of arrays, into a file (NumPy's .npz), whole or not at all.

    Args:
        path: of the file.
        states: of all streams.

    Raises:
        MemjaxError: if it cannot be written, and where what would be replaced is no regular file.
    """
    leaves = {name_of(place): np.asarray(leaf) for place, leaf in jax.tree.leaves_with_path(states)}
    leaves = {name: leaf.view(_stored(leaf.dtype)) for name, leaf in leaves.items()}
    with replacing(Path(path)) as file:
        np.savez(file, **cast(Any, leaves))  # no `allow_pickle`, which NumPy 2.0 takes for an array


def read_states(path: str | Path, like: State) -> State:
    """The states in a file. Reading runs no code, and reads no bytes before names, sizes and types fit. A remark names
    streams that are NaN.

    Args:
        path: of the file.
        like: one state, or its shapes and types.

    Returns:
        The states of all streams.

    Raises:
        MemjaxError: for what is no file of states, or one of another memory.
    """
    places, structure = jax.tree_util.tree_flatten_with_path(like)
    names = {name_of(place): leaf for place, leaf in places}
    try:
        regular = stat.S_ISREG(Path(path).stat().st_mode)  # looked at first: to open a pipe would wait for a writer
        require(regular, f"{path} holds no states: it is no regular file")
        # The file that was opened, and no other: `write_states` may put a new one into its place meanwhile.
        with Path(path).open("rb") as file, zipfile.ZipFile(file) as archive:
            _check_headers(path, archive, names, os.fstat(file.fileno()).st_size)
            found = {name: np.lib.format.read_array(archive.open(f"{name}.npy"), allow_pickle=False) for name in names}
    except FileNotFoundError:
        raise MemjaxError(f"there is no file {path}") from None
    except MemjaxError:
        raise
    except DAMAGE:
        raise MemjaxError(f"{path} holds no states, or is damaged; give another file") from None
    leaves = [found[name].view(leaf.dtype) for name, leaf in names.items()]
    _remark_on_nan(path, leaves)
    return jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in leaves])


def _stored(dtype: np.dtype) -> np.dtype:
    """As what a file holds it: NumPy's format has no bfloat16, whose bits are whole numbers there."""
    return np.dtype(f"u{dtype.itemsize}") if dtype.kind == "V" else dtype


def _check_headers(path: str | Path, archive: zipfile.ZipFile, names: dict[str, Any], length: int) -> None:
    """Raises `MemjaxError` unless the arrays of an archive are those of this memory, as far as their headers say, and
    take as much of the file, which has this length, as they will take of memory.
    """
    members = {info.filename: info for info in archive.infolist()}
    fits = len(members) == len(archive.infolist()) and members.keys() == {f"{name}.npy" for name in names}
    require(fits, f"{path} holds the states of another memory")
    streams = set()
    for name, leaf in names.items():
        info = members[f"{name}.npy"]
        with archive.open(info) as member:
            version = np.lib.format.read_magic(member)
            read = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
            shape, _, dtype = read(member)
            size = member.tell() + math.prod(shape) * dtype.itemsize
        same = len(shape) > 0 and shape[1:] == leaf.shape and dtype == _stored(leaf.dtype)
        require(same, f"{path} holds the states of another memory, or of one of other sizes")
        streams.add(shape[0])
        stored = info.compress_type == zipfile.ZIP_STORED and info.file_size == info.compress_size == size <= length
        require(stored, f"{path} holds no states of streaming.save: {size:,} bytes in a file of {length:,}")
    require(len(streams) == 1, f"{path} holds parts of states, for {sorted(streams)} streams; give another file")


def _remark_on_nan(path: str | Path, leaves: list[np.ndarray]) -> None:
    floats = [leaf.reshape(len(leaf), -1) for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.inexact)]
    broken = np.flatnonzero(sum(np.isnan(leaf).any(1) for leaf in floats))
    if broken.size:
        named = ", ".join(map(str, broken[:10])) + (", .." if broken.size > 10 else "")
        remark(f"{path}: the states of {broken.size} of {len(leaves[0])} streams are NaN ({named}); start them anew")


def name_of(place: Any) -> str:
    """What a leaf is called in a file; a state that is one array has a leaf without a path."""
    return jax.tree_util.keystr(place) or "state"
