"""Memory states as data: many streams, one for each user, written as they come, kept in a file, asked in batches.

The states are a pytree of arrays whose first axis counts the streams. `start`, `write` and `answer` are pure; the last
two are compiled once for each shape. A state has one size however long its stream is, so that a file of states never
grows with what was written.
"""

import math
import os
import stat
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from memjax.errors import MemjaxError, is_too_large, remark, require
from memjax.files import replacing
from memjax.models import MemoryModel
from memjax.models.own_params import own_params
from memjax.packing import array_of, pack
from memjax.tasks.stream_task import check_ids
from memjax.typing import Any, Array, Bool, Float, Int, Params, Shaped, State

Rows = Int[Array, "R"] | Int[np.ndarray, "R"] | Sequence[int]

# What flipped bits are to NumPy and to zipfile.
DAMAGE = (OSError, ValueError, EOFError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error)


def start(model: MemoryModel, params: Params, streams: int) -> State:
    """The states of so many streams of which nothing was read yet.

    Args:
        model: the model that is asked, around any memory.
        params: its parameters.
        streams: how many.

    Returns:
        A pytree of arrays whose first axis counts the streams.

    Raises:
        MemjaxError: for fewer than one stream, and for more than memory has room for.

    >>> import jax, jax.numpy as jnp
    >>> from memjax import memories
    >>> from memjax.tasks import TaskShape
    >>> shape = TaskShape(items=50, segments=4, segment=3, queries=9, query_words=None, answer="classes", classes=5)
    >>> memory = memories.create("rehearsal", slots=4, width=8, segment=3, layers=1, heads=2)
    >>> model = MemoryModel(shape, memory, 8, hops=1, head_layers=0, rehearser_layers=1, rehearser_heads=2)
    >>> new = jnp.ones((2, 4, 3), int), jnp.ones((2, 4, 3), bool)  # two streams, four segments of three items
    >>> both = lambda model, stream, mask, query: model.answer(model.memorize(stream, mask)[0], query)
    >>> params = model.init(jax.random.key(0), new[0][0], new[1][0], jnp.array(0), method=both)
    >>> states = write(model, params, start(model, params, 1000), jnp.array([7, 404]), *new)
    >>> answer(model, params, states, jnp.array([7, 7, 404]), jnp.array([0, 1, 0])).shape
    (3, 5)
    """
    whole = isinstance(streams, int | np.integer) and not isinstance(streams, bool)
    require(whole and streams >= 1, f"streams must be a whole number of at least 1, not {streams!r:.40}")
    state = _initial_state(model, params)
    try:
        return jax.tree.map(lambda leaf: jnp.tile(leaf, (int(streams), *[1] * leaf.ndim)), state)
    except (MemoryError, OverflowError, RuntimeError) as error:
        if not is_too_large(error):
            raise
        raise MemjaxError(f"{streams:,} streams do not fit into memory; start fewer") from error


def write(
    model: MemoryModel,
    params: Params,
    states: State,
    rows: Rows,
    stream: Shaped[Array, "R T N *dv"] | Shaped[np.ndarray, "R T N *dv"] | Sequence[Any],
    mask: Bool[Array, "R T N"] | Bool[np.ndarray, "R T N"] | None = None,
) -> State:
    """The states after these rows of them have read on; the others as they were.

    The states are those that one call on all of a stream would have given, if it is cut into calls between segments.
    Without a mask, `stream` is a sequence of streams of any lengths, each a list of ids: they are cut into segments and
    padded, rows and segments to powers of two, so that few shapes are ever compiled. What does not fill a segment is
    one all the same: to write item by item is to write segments of one item.

    Args:
        model: as of `start`.
        params: its parameters.
        states: of all streams.
        rows: which streams go on, each once.
        stream: the ids or vectors of their new segments; or, for each row, all new ones one after another.
        mask: which of them are no padding; padding is at the end of a segment, or whole segments. None: see above.

    Returns:
        The states of all streams.

    Raises:
        MemjaxError: for shapes that do not fit; unless they are traced, for a row twice, or one that there is not, and
            for items that the model does not know, which would be in the state for ever.
    """
    rows = _checked_rows(rows, states, once=True)
    if mask is None:
        rows, stream, mask = pack(rows, cast(Any, stream), model.shape.segment, _count(states), model.shape.item_width)
    width = () if model.shape.item_width is None else (model.shape.item_width,)
    require(
        np.ndim(mask) == 3 and np.shape(stream) == (*np.shape(mask), *width) and np.shape(rows) == np.shape(mask)[:1],
        f"stream and mask must be [rows, segments, items], for {np.shape(rows)} rows; not {np.shape(stream)} and "
        f"{np.shape(mask)}" + (f"; items are vectors [{width[0]}]" if width else ""),
    )
    if not any(isinstance(x, jax.core.Tracer) for x in (stream, mask)):
        real = np.asarray(stream)[np.asarray(mask, bool)]
        if width:
            require(np.isfinite(real).all(), "the stream has vectors with numbers that are not finite")
        else:
            _check_ids("the stream has items", real, model.shape.items)

    with own_params():
        return _write(model, params, states, *(jnp.asarray(x) for x in (rows, stream, mask)))


@partial(jax.jit, static_argnums=0)
def _write(model: MemoryModel, params: Params, states: State, rows: Array, stream: Array, mask: Array) -> State:
    def one(state, stream, mask):
        return model.apply(params, state, stream, mask, method="write")[0]

    written = jax.vmap(one)(jax.tree.map(lambda leaf: leaf[rows], states), stream, mask)
    # Rows that fill up a batch lie behind the last one, and are dropped.
    return jax.tree.map(lambda leaf, new: leaf.at[rows].set(new, mode="drop"), states, written)


def _initial_state(model: Any, params: Any) -> State:
    require(isinstance(model, MemoryModel), f"streaming needs a MemoryModel, not {type(model).__name__}")
    given = isinstance(params, Mapping) and "params" in params
    require(given, f"params must be what init made, not {params!r:.40}")
    with own_params():
        return model.apply(params, method="initial_state")


def _count(states: State) -> int:
    leaves = jax.tree.leaves(states)
    require(leaves and all(np.ndim(leaf) for leaf in leaves), f"states must be what start made, not {states!r:.40}")
    return cast(Any, leaves[0]).shape[0]


def answer(
    model: MemoryModel,
    params: Params,
    states: State,
    rows: Rows,
    queries: Int[Array, "Q *W"] | Int[np.ndarray, "Q *W"],
    candidates: Int[Array, "Q A W"] | None = None,
) -> Float[Array, "Q C"]:
    """Logits of the answers to a batch of questions, each about the stream in its row; any row any number of times.

    Args:
        model: as of `start`.
        params: its parameters.
        states: of all streams.
        rows: the stream that each question is about.
        queries: ids of questions, or texts of word ids.
        candidates: the texts among which each answer is, for tasks that have them.

    Returns:
        Logits, for each question.

    Raises:
        MemjaxError: as `write` does.
    """
    require(
        len(np.shape(rows)) == 1 and np.shape(rows) == np.shape(queries)[:1],
        f"there must be a row for each query; {np.shape(rows)} rows do not fit queries of shape {np.shape(queries)}",
    )
    axes = ["Q"] if model.shape.query_words is None else ["Q", "W"]
    require(np.ndim(queries) == len(axes), f"queries must be ids [{', '.join(axes)}], not {list(np.shape(queries))}")
    if model.shape.answer == "candidates":
        given = () if candidates is None else np.shape(candidates)
        fits = len(given) == 3 and given[:1] == np.shape(rows)
        require(fits, "candidates must be texts of ids [Q, A, W], some for each query")
    else:
        require(candidates is None, "the answers are no candidates")
    rows = _checked_rows(rows, states, once=False)
    for texts in (queries, candidates):
        if texts is not None and not isinstance(texts, jax.core.Tracer):
            _check_ids("questions and candidates have ids", np.asarray(texts), model.shape.queries)

    texts = None if candidates is None else jnp.asarray(candidates)
    with own_params():
        return _answer(model, params, states, jnp.asarray(rows), jnp.asarray(queries), texts)


@partial(jax.jit, static_argnums=0)
def _answer(
    model: MemoryModel, params: Params, states: State, rows: Array, queries: Array, candidates: Array | None
) -> Array:
    def one(state, query, candidates):
        slots = model.apply(params, state, method="slots")
        return model.apply(params, slots, query, candidates, method="answer")

    asked = jax.tree.map(lambda leaf: leaf[rows], states)
    return jax.vmap(one, (0, 0, None if candidates is None else 0))(asked, queries, candidates)


def save(path: str | Path, states: State) -> None:
    """Writes states into a file (NumPy's .npz), whole or not at all.

    Args:
        path: of the file.
        states: of all streams.

    Raises:
        MemjaxError: if it cannot be written, and where what would be replaced is no regular file.
    """
    _count(states)
    leaves = {_name(place): np.asarray(leaf) for place, leaf in jax.tree.leaves_with_path(states)}
    leaves = {name: leaf.view(_stored(leaf.dtype)) for name, leaf in leaves.items()}
    with replacing(Path(path)) as file:
        np.savez(file, **cast(Any, leaves))  # no `allow_pickle`, which NumPy 2.0 takes for an array


def load(path: str | Path, model: MemoryModel, params: Params) -> State:
    """The states in a file, of this model's memory. Loading runs no code, and reads no bytes before names, sizes and
    types fit. A remark names streams that are NaN.

    Args:
        path: of the file.
        model: as of `start`.
        params: its parameters.

    Returns:
        The states of all streams.

    Raises:
        MemjaxError: for what is no file of states, or one of another memory.
    """
    like = jax.eval_shape(lambda: _initial_state(model, params))
    places, structure = jax.tree_util.tree_flatten_with_path(like)
    names = {_name(place): leaf for place, leaf in places}
    try:
        regular = stat.S_ISREG(Path(path).stat().st_mode)  # looked at first: to open a pipe would wait for a writer
        require(regular, f"{path} holds no states: it is no regular file")
        # The file that was opened, and no other: `save` may put a new one into its place meanwhile.
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


def _name(place: Any) -> str:
    """What a leaf is called in a file; a state that is one array has a leaf without a path."""
    return jax.tree_util.keystr(place) or "state"


def _checked_rows(rows: Rows, states: State, *, once: bool) -> Rows:
    count = _count(states)
    if isinstance(rows, jax.core.Tracer):
        return rows
    known = array_of(rows, "rows are numbers")
    if not known.size:
        return known.astype(np.int32)  # a list of none has a type of its own
    _check_ids(f"there are {count} streams, and rows", known, count)
    require(not once or len(np.unique(known)) == known.size, "a row may be written once in a call, not twice")
    return known


def _check_ids(what: str, ids: np.ndarray, end: int) -> None:
    if ids.size:
        check_ids(what, ids, 0, end)
