"""Memory states as data: many streams, one for each user, written as they come, kept in a file, asked in batches.

The states are a pytree of arrays whose first axis counts the streams. `start`, `write`, `answer` and `rank` are pure;
the last three are compiled once for each shape. A state has one size however long its stream is, so that a file of
states never grows with what was written.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np

from memjax.errors import MemjaxError, is_too_large, require
from memjax.models import MemoryModel
from memjax.models.own_params import own_params
from memjax.models.readers import click_log_odds
from memjax.packing import array_of, pack
from memjax.state_files import read_states, write_states
from memjax.tasks.stream_task import check_ids
from memjax.typing import Any, Array, Bool, Float, Int, Params, Shaped, State

Rows = Int[Array, "R"] | Int[np.ndarray, "R"] | Sequence[int]


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


def _model(model: Any) -> MemoryModel:
    require(isinstance(model, MemoryModel), f"streaming needs a MemoryModel, not {type(model).__name__}")
    return model


def _initial_state(model: Any, params: Any) -> State:
    _model(model)
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
    if not np.size(queries):
        queries = np.zeros(np.shape(queries), np.int32)  # as of rows: a list of none has a type of its own
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


class Ranking(NamedTuple):
    """The likeliest items of some streams, the first one first.

    Attributes:
        items: their ids.
        log_odds: of a click on each; minus infinity where fewer items than were asked for may be ranked.
    """

    items: Int[Array, "R k"]
    log_odds: Float[Array, "R k"]


def rank(
    model: MemoryModel,
    params: Params,
    states: State,
    rows: Rows,
    k: int,
    left_out: Bool[Array, "R V"] | Bool[np.ndarray, "R V"] | None = None,
) -> Ranking:
    """The k items that are likeliest to be clicked next, among all that the model knows, for each of these streams.

    A state's slots are made once, and then asked about every item: the log odds are those of `answer`.

    Args:
        model: as of `start`, of a task whose questions are items and whose answers are clicks (`configs/clicks.py`).
        params: its parameters.
        states: of all streams.
        rows: the streams for which items are ranked.
        k: how many items.
        left_out: which items are not ranked, for each row; such as those that the user has had.

    Returns:
        The items, and the log odds of a click on each.

    Raises:
        MemjaxError: for a model of another task, a `k` that is no number of items, and as `write` does.

    >>> import jax, jax.numpy as jnp
    >>> from memjax import memories
    >>> from memjax.tasks import TaskShape
    >>> shape = TaskShape(50, 4, 3, queries=50, query_words=None, answer="click", classes=2, query_is_item=True)
    >>> memory = memories.create("rehearsal", slots=4, width=8, segment=3, layers=1, heads=2)
    >>> model = MemoryModel(shape, memory, 8, hops=1, head_layers=1, rehearser_layers=1, rehearser_heads=2)
    >>> stream, mask = jnp.ones((4, 3), int), jnp.ones((4, 3), bool)
    >>> both = lambda model, stream, mask, query: model.answer(model.memorize(stream, mask)[0], query)
    >>> params = model.init(jax.random.key(0), stream, mask, jnp.array(0), method=both)
    >>> states = write(model, params, start(model, params, 1000), [7, 404], [[3, 1, 4], [1, 5, 9]])
    >>> rank(model, params, states, [7, 404], k=10).items.shape
    (2, 10)
    """
    rows = _checked_rows(rows, states, once=False)
    shape = _model(model).shape
    clicks = shape.answer == "click" and shape.query_is_item
    require(
        clicks, "items are ranked by a model whose questions are items and whose answers are clicks; ask with answer"
    )
    whole = isinstance(k, int | np.integer) and not isinstance(k, bool) and 1 <= k <= shape.items
    require(whole, f"k must be a whole number from 1 to {shape.items:,}, as many as there are items, not {k!r:.40}")
    require(len(np.shape(rows)) == 1, f"rows must be [R], not {np.shape(rows)}")
    out: Any = left_out
    if out is not None:
        out = out if isinstance(out, jax.core.Tracer) else array_of(out, "left_out is true or false for each item")
        wanted = (*np.shape(rows), shape.items)
        require(
            out.shape == wanted and out.dtype == bool,
            f"left_out must be true or false [R, V], {list(wanted)}; not {out.dtype} {list(out.shape)}",
        )
    with own_params():
        return _rank(model, int(k), params, states, jnp.asarray(rows), out)


@partial(jax.jit, static_argnums=(0, 1))
def _rank(model: MemoryModel, k: int, params: Params, states: State, rows: Array, left_out: Array | None) -> Ranking:
    def one(given: tuple[Array, Array | None]) -> tuple[Array, Array]:
        row, out = given
        slots: Any = model.apply(params, jax.tree.map(lambda leaf: leaf[row], states), method="slots")
        log_odds = click_log_odds(model, params, slots, jnp.arange(model.shape.items))
        best, items = jax.lax.top_k(log_odds if out is None else jnp.where(out, -jnp.inf, log_odds), k)
        return best, items  # a list of JAX's

    log_odds, items = jax.lax.map(one, (rows, left_out))  # stream by stream: what one needs fills the cache
    return Ranking(items, log_odds)


def save(path: str | Path, states: State) -> None:
    """Writes states into a file (NumPy's .npz), whole or not at all.

    Args:
        path: of the file.
        states: of all streams.

    Raises:
        MemjaxError: if it cannot be written, and where what would be replaced is no regular file.
    """
    _count(states)
    write_states(path, states)


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
    return read_states(path, jax.eval_shape(lambda: _initial_state(model, params)))


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
