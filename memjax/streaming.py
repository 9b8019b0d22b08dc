"""Memory states as data: many streams, one for each user, written as they come, kept in a file, asked in batches.

The states are a pytree of arrays whose first axis counts the streams. `start`, `write` and `answer` are pure, and
compiled by themselves; inside `jax.jit` they are part of what is compiled there. A state has one size however long its
stream is, so that a file of states never grows with what was written.
"""

import functools
import os
import zipfile
import zlib
from pathlib import Path
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np

from memjax.errors import MemjaxError, require
from memjax.models import AskedMemory
from memjax.ops.checked import checked
from memjax.tasks.contract import check_ids
from memjax.tasks.segments import cut, power_of_two
from memjax.typing import Any, Array, Bool, Float, Int, Params, State

# What flipped bits are to NumPy and to zipfile.
DAMAGE = (OSError, ValueError, EOFError, KeyError, TypeError, RuntimeError, zipfile.BadZipFile, zlib.error)


@checked
def start(model: AskedMemory, params: Params, streams: int) -> State:
    """The states of so many streams of which nothing was read yet.

    >>> import jax, jax.numpy as jnp
    >>> from memjax import memories
    >>> from memjax.tasks import TaskShape
    >>> shape = TaskShape(items=50, segments=4, segment=3, queries=9, query_words=None, answer="classes", classes=5)
    >>> memory = memories.create("rehearsal", slots=4, width=8, segment=3, layers=1, heads=2)
    >>> model = AskedMemory(shape, memory, 8, hops=1, head_layers=0, rehearser_layers=1, rehearser_heads=2)
    >>> new = jnp.ones((2, 4, 3), int), jnp.ones((2, 4, 3), bool)  # two streams, four segments of three items
    >>> both = lambda model, stream, mask, query: model.answer(model.memorize(stream, mask)[0], query)
    >>> params = model.init(jax.random.key(0), new[0][0], new[1][0], jnp.array(0), method=both)
    >>> states = write(model, params, start(model, params, 1000), jnp.array([7, 404]), *new)
    >>> states = write(model, params, states, [404, 2], [[1, 2, 3, 4, 5], [6]])  # ids as they come, of any number
    >>> answer(model, params, states, jnp.array([7, 7, 404]), jnp.array([0, 1, 0])).shape
    (3, 5)
    """
    state = model.apply(params, method="initial_state")
    return jax.tree.map(lambda leaf: jnp.tile(leaf, (streams, *[1] * leaf.ndim)), state)


@checked
def write(
    model: AskedMemory,
    params: Params,
    states: State,
    rows: Int[Array, "R"],
    stream: Int[Array, "R T N"] | list | tuple,
    mask: Bool[Array, "R T N"] | None = None,
) -> State:
    """The states after these rows of them have read on; the others as they were.

    rows: which streams go on, each once. stream, mask: their new segments, padding at the end or in whole segments; the
    states are those that one call on all of a stream would have given. Or, without a mask, a list of what is new of
    each row, of any length: ids, which are cut into segments of the model's size, or segments of ids. A segment that
    is not full is over: what comes later begins the next one.

    It is compiled once for each shape, whoever calls; the numbers of rows and segments of a list are rounded up to
    powers of two, so that there are few. Nothing that is given is used up. Raises `MemjaxError` for what does not fit;
    unless they are traced, for a row twice, or one that there is not, and for items that the model does not know, which
    would be in the state for ever.
    """
    listed = mask is None and isinstance(stream, (list, tuple))
    given = cut(cast(Any, stream), model.shape.segment) if listed else (stream, mask)
    new: Any = _written(states, rows, *given)
    _check_rows(new[0], states, once=True)
    if not any(isinstance(x, jax.core.Tracer) for x in new[1:]):
        _check_ids("the stream has items", np.asarray(new[1])[np.asarray(new[2])], model.shape.items)
    if listed:  # filled up with a row that there is not: it reads nothing, and is written nowhere
        size, values = power_of_two(len(new[0])), (_streams(states), 0, False)
        new = [_filled(x, size, value) for x, value in zip(new, values, strict=True)]
    return _write(_hashable(model), params, states, *new)


@functools.partial(jax.jit, static_argnums=0)
def _write(model, params, states, rows, stream, mask):
    def one(state, stream, mask):
        return model.apply(params, state, stream, mask, method="write")[0]

    written = jax.vmap(one)(jax.tree.map(lambda leaf: leaf[rows], states), stream, mask)
    return jax.tree.map(lambda leaf, new: leaf.at[rows].set(new, mode="drop"), states, written)


@checked
def answer(
    model: AskedMemory,
    params: Params,
    states: State,
    rows: Int[Array, "Q"],
    queries: Int[Array, "Q *W"],
    candidates: Int[Array, "Q A V"] | None = None,
) -> Float[Array, "Q C"]:
    """Logits of the answers to a batch of questions, each about the stream in its row; any row any number of times.

    Compiled once for each shape, whoever calls; the number of questions is rounded up to a power of two. Raises
    `MemjaxError` as `write` does.
    """
    asked: Any = (rows, queries, candidates)
    _check_rows(rows, states, once=False)
    for texts in asked[1:]:
        if texts is not None and not isinstance(texts, jax.core.Tracer):
            _check_ids("questions and candidates have ids", np.asarray(texts), model.shape.queries)
    one_id = model.shape.query_words is None
    require(
        asked[1].ndim == (1 if one_id else 2),
        f"a question to this model is {'one id' if one_id else 'a list of ids of words'}; "
        f"the queries have the shape {list(asked[1].shape)}",
    )
    count = len(asked[0])
    if not any(isinstance(x, jax.core.Tracer) for x in asked):
        asked = [None if x is None else _filled(x, power_of_two(count), 0) for x in asked]
    logits = _answer(_hashable(model), params, states, *asked)
    return logits if len(logits) == count else logits[:count]


@functools.partial(jax.jit, static_argnums=0)
def _answer(model, params, states, rows, queries, candidates):
    def one(state, query, candidates):
        slots = model.apply(params, state, method="slots")
        return model.apply(params, slots, query, candidates, method="answer")

    asked = jax.tree.map(lambda leaf: leaf[rows], states)
    return jax.vmap(one, (0, 0, None if candidates is None else 0))(asked, queries, candidates)


def save(path: str | Path, states: State) -> None:
    """Writes states into a file (NumPy's .npz), whole or not at all. Raises `MemjaxError` if it cannot."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    leaves = {_name(place): np.asarray(leaf) for place, leaf in jax.tree.leaves_with_path(states)}
    try:
        try:
            with temporary.open("wb") as file:
                np.savez(file, **cast(Any, leaves))
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise MemjaxError(f"cannot write {path}: {error.strerror}; make room, or give another file") from None


def load(path: str | Path, model: AskedMemory, params: Params) -> State:
    """The states in a file, of this model's memory. Loading runs no code. Raises `MemjaxError` for any other file."""
    like = jax.eval_shape(lambda: model.apply(params, method="initial_state"))
    places, structure = jax.tree_util.tree_flatten_with_path(like)
    names = {_name(place): leaf for place, leaf in places}
    try:
        with np.load(path, allow_pickle=False) as file:
            found = {name: np.asarray(file[name]) for name in file.files}
    except FileNotFoundError:
        raise MemjaxError(f"there is no file {path}") from None
    except DAMAGE:
        raise MemjaxError(f"{path} holds no states, or is damaged; give another file") from None
    fits = found.keys() == names.keys() and len({leaf.shape[:1] for leaf in found.values()}) == 1
    fits = fits and all(
        found[name].shape[1:] == leaf.shape and found[name].dtype == leaf.dtype for name, leaf in names.items()
    )
    require(fits, f"{path} holds the states of another memory, or of one of other sizes")
    return jax.tree.unflatten(structure, [jnp.asarray(found[name]) for name in names])


def _name(place: Any) -> str:
    """What a leaf is called in a file; a state that is one array has a leaf without a path."""
    return jax.tree_util.keystr(place) or "state"


@functools.partial(checked, name="write")
def _written(
    states: State, rows: Int[Array, "R"], stream: Int[Array, "R T N"], mask: Bool[Array, "R T N"]
) -> tuple[Array, ...]:
    return rows, stream, mask


def _filled(x: Array, length: int, value: int) -> np.ndarray:
    """The same with rows of a value behind, in all so many."""
    known = np.asarray(x)
    return np.pad(known, [(0, length - len(known))] + [(0, 0)] * (known.ndim - 1), constant_values=value)


def _hashable(model: AskedMemory) -> AskedMemory:
    """The model, which names what is compiled for it: models alike share it."""
    try:
        hash(model)
    except TypeError as error:
        raise MemjaxError(f"the settings of a model must be hashable, tuples in place of lists: {error}") from None
    return model


def _streams(states: State) -> int:
    """How many streams there are states of."""
    sizes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(states)}
    require(len(sizes) == 1 and () not in sizes, "the states must be those that streaming.start makes, of some streams")
    return sizes.pop()[0]


def _check_rows(rows: Int[Array, "R"], states: State, *, once: bool) -> None:
    count = _streams(states)
    if isinstance(rows, jax.core.Tracer):
        return
    known = np.asarray(rows)
    _check_ids(f"there are {count} streams, and rows", known, count)
    require(not once or len(np.unique(known)) == len(known), "a row may be written once in a call, not twice")


def _check_ids(what: str, ids: np.ndarray, end: int) -> None:
    if ids.size:
        check_ids(what, ids, 0, end)
