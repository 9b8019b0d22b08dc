"""States of many streams: written as they come, as if each stream had come at once; kept in a file; asked in batches.

Slips that were tried: the rows of the last call written for all; the mask left out; a file's arrays in another order.
"""

import functools
import inspect
import io
import pickle
import zipfile

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from models.asking import ITEMS, QUERIES, example, memory, method, shape, system
from oracles.checking import assert_close, assert_same
from training.tiny import random_params, tiny

from memjax import memories, state_files, streaming
from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare, trained_model
from memjax.models import MemoryModel
from memjax.packing import pack
from memjax.tasks import TaskShape
from memjax.training import experiment

STREAMS = 6
every_memory = pytest.mark.parametrize("name", ["rehearsal", "dnc", "retention"])


@functools.cache
def made(name="rehearsal"):
    """`(model, params, write, answer)`, the last two jitted."""
    if name == "rehearsal":
        model, params = system()
    else:
        sizes = {"dnc": {"slots": 3, "width": 8, "read_heads": 2, "hidden": 8}}
        sizes["retention"] = {"slots": 3, "width": 8, "policy": "st"}
        model = MemoryModel(shape(), memories.create(name, **sizes[name]), 8, 2, 1, 1, 2)
        params = random_params(model, example())
    write, answer = (jax.jit(functools.partial(f, model)) for f in (streaming.write, streaming.answer))
    return model, params, write, answer


def streams():
    """`[STREAMS, T, N]`: ids and mask; segment 1 of each is padding throughout."""
    examples = [example(seed=seed) for seed in range(STREAMS)]
    return [jnp.stack([one[part] for one in examples]) for part in ("stream", "mask")]


def test_calls_of_one_shape_are_compiled_once(monkeypatch):
    traced = []
    plain = MemoryModel.write

    def counted(self, *arguments, **named):
        traced.append(1)
        return plain(self, *arguments, **named)

    monkeypatch.setattr(MemoryModel, "write", counted)
    model, params = system()
    model = model.clone(head_layers=0)  # of this test alone, so that nothing is compiled yet
    params = random_params(model, example())
    stream, mask = streams()
    traced.clear()
    states = streaming.start(model, params, STREAMS)
    for rows in ([0, 1], [4, 2], [3, 5]):
        rows = jnp.array(rows)
        states = streaming.write(model.clone(), params, states, rows, stream[rows], mask[rows])
    assert len(traced) == 1
    before = streaming._answer._cache_size()
    for row in range(STREAMS):
        streaming.answer(model, params, states, jnp.array([row, 0]), jnp.array([0, 1]))
    assert streaming._answer._cache_size() == before + 1


def test_streams_of_any_lengths_are_padded_inside_and_few_shapes_are_compiled():
    model, params, write, _ = made()
    rng = np.random.default_rng(0)
    lengths = [0, 1, 5, 9]
    told = [rng.integers(0, ITEMS, length).tolist() for length in lengths]
    rows = [4, 1, 0, 5]
    states = streaming.write(model, params, streaming.start(model, params, STREAMS), rows, told)
    one_by_one = streaming.start(model, params, STREAMS)
    segment = model.shape.segment
    for row, ids in zip(rows, told, strict=True):
        if ids:
            padded = np.zeros((1, -(-len(ids) // segment), segment), int)
            padded.ravel()[: len(ids)] = ids
            real = (np.arange(padded.size) < len(ids)).reshape(padded.shape)
            one_by_one = write(params, one_by_one, jnp.array([row]), padded, real)
    assert_close(states, one_by_one, 1e-5)
    shapes = {pack(range(n), [[1] * n] * n, 4, 9)[1].shape for n in range(1, 33)}
    assert len(shapes) <= 9


@pytest.mark.parametrize(
    ("rows", "told", "words"),
    [
        ([0], [[1], [2]], "there must be a stream for each row"),
        ([0, 0], [[1], [2]], "a row may be written once"),
        ([0], [[ITEMS]], "the stream has items"),
        ([0], [[0.5]], "a stream is a list of whole numbers"),
        ([STREAMS], [[1]], "rows"),
        ([0], [[2**32 + 5]], "items from 4294967301 to 4294967301; ids have 32 bits"),
        ([0], [np.array([2**64 - 1], np.uint64)], "ids have 32 bits"),
        ([[0], [1, 2]], [[1], [2]], "rows are numbers, not lists of several lengths"),
    ],
)
def test_streams_that_cannot_be_told_are_one_line(unchecked, rows, told, words):
    model, params, *_ = made()
    with pytest.raises(MemjaxError, match=words) as caught:
        streaming.write(model, params, streaming.start(model, params, STREAMS), rows, told)
    assert "\n" not in str(caught.value)


@every_memory
def test_streams_written_in_turns_are_those_written_at_once(name):
    model, params, write, _ = made(name)
    stream, mask = streams()
    states = streaming.start(model, params, STREAMS)
    turns = [([0, 2, 4], 0, 2), ([5, 1, 3], 0, 2), ([4, 3, 0], 2, 4), ([1, 2, 5], 2, 4)]
    for rows, begin, end in turns:
        rows = jnp.array(rows)
        before = states
        states = write(params, states, rows, stream[rows, begin:end], mask[rows, begin:end])
        others = np.setdiff1d(np.arange(STREAMS), rows)
        assert_same(*(jax.tree.map(lambda leaf: np.asarray(leaf)[others], s) for s in (states, before)))  # noqa: B023
    slots = jax.jit(jax.vmap(lambda state: model.apply(params, state, method="slots")))(states)
    for i in range(STREAMS):
        whole = jax.jit(functools.partial(model.apply, method="memorize"))(params, stream[i], mask[i])[0]
        assert_close(jax.tree.map(lambda leaf, i=i: leaf[i], slots), whole, 1e-5)


@pytest.mark.parametrize("answer_kind", ["classes", "candidates"])
def test_a_batch_of_questions_is_each_of_them_alone(unchecked, answer_kind):
    model, params = system("memory", answer_kind, answer_kind == "candidates")
    one = [example(answer_kind, answer_kind == "candidates", seed=seed) for seed in range(4)]
    stream, mask = (jnp.stack([e[part] for e in one]) for part in ("stream", "mask"))
    states = streaming.write(model, params, streaming.start(model, params, 4), jnp.arange(4), stream, mask)
    rows = np.array([3, 0, 3, 1])
    asks = [jnp.stack([one[n][part] for n in (0, 1, 2, 3)]) for part in ("query", "candidates") if part in one[0]]
    found = streaming.answer(model, params, states, jnp.asarray(rows), *asks)
    assert_same(streaming.answer(model, params, states, rows.tolist(), *(part.tolist() for part in asks)), found)
    text = answer_kind == "candidates"
    for place, row in enumerate(rows):
        slots, _ = method("memorize", "memory", answer_kind, text)(params, stream[row], mask[row])
        alone = method("answer", "memory", answer_kind, text)(params, slots, *[part[place] for part in asks])
        assert_close(found[place], alone, 1e-5)


@functools.cache
def clicked():
    """`(model, params, states)` of three users, of whom the second has clicked nothing yet."""
    asked = TaskShape(ITEMS, 4, 3, ITEMS, None, "click", 2, query_is_item=True)
    model = MemoryModel(asked, memory(), 8, 2, 1, 1, 2)
    params = random_params(model, example("click"))
    states = streaming.start(model, params, 3)
    return model, params, streaming.write(model, params, states, [0, 2], [[1, 2, 3, 4], [5, 6]])


@pytest.mark.parametrize("some_left_out", [False, True])
def test_the_items_of_a_ranking_are_those_of_the_highest_answers(unchecked, some_left_out):
    model, params, states = clicked()
    rows, every = [2, 0, 2, 1], np.arange(ITEMS)
    out = np.zeros((len(rows), ITEMS), bool)
    out[:, 2:5] = some_left_out
    found = streaming.rank(model, params, states, rows, 4, out if some_left_out else None)
    within = jax.jit(functools.partial(streaming.rank, model, k=4))(params, states, jnp.asarray(rows), left_out=out)
    assert_same(within.items, found.items)
    for place, row in enumerate(rows):
        logits = np.asarray(streaming.answer(model, params, states, [row] * ITEMS, every), np.float64)
        odds = np.where(out[place], -np.inf, logits[:, 1] - logits[:, 0])
        best = np.argsort(-odds)[:4]
        assert found.items[place].tolist() == best.tolist()
        assert_close(found.log_odds[place], odds[best], 1e-5)
    assert (np.asarray(found.log_odds[0]) != np.asarray(found.log_odds[1])).any()


def test_where_too_few_items_are_left_the_rest_of_a_ranking_has_no_odds():
    model, params, states = clicked()
    found = streaming.rank(model, params, states, [0], 3, np.arange(ITEMS)[None] != 7)
    assert found.items[0, 0] == 7 and np.isneginf(found.log_odds[0, 1:]).all()


def test_rankings_that_cannot_be_are_one_clear_line(unchecked):
    model, params, states = clicked()
    rank = functools.partial(streaming.rank, model, params, states)
    for call, words in [
        (lambda: rank([0], 0), f"k must be a whole number from 1 to {ITEMS}, as many as there are items, not 0"),
        (lambda: rank([0], ITEMS + 1), "k must be a whole number"),
        (lambda: rank([0], 2.0), "k must be a whole number"),
        (lambda: rank(0, 2), r"rows must be \[R\]"),
        (lambda: rank([3], 2), "there are 3 streams, and rows"),
        (lambda: rank([0, 1], 2, np.zeros((1, ITEMS), bool)), "left_out must be true or false"),
        (lambda: rank([0], 2, np.zeros(ITEMS, bool)), f"left_out must be true or false .* not bool .{ITEMS}]"),
        (lambda: rank([0], 2, np.zeros((1, ITEMS), int)), "left_out must be true or false .* not int64"),
        (lambda: rank([0, 1], 2, [[True], [True, False]]), "left_out is true or false .* not lists of several lengths"),
        (lambda: streaming.rank(*made()[:2], states, [0], 2), "whose questions are items and whose answers are clicks"),
    ]:
        with pytest.raises(MemjaxError, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)


@every_memory
def test_states_come_back_from_a_file_to_the_bit_and_go_on(name, tmp_path):
    model, params, write, answer = made(name)
    stream, mask = streams()
    rows = jnp.arange(STREAMS)
    first = write(params, streaming.start(model, params, STREAMS), rows, stream[:, :2], mask[:, :2])
    streaming.save(tmp_path / "users.npz", first)
    size = (tmp_path / "users.npz").stat().st_size
    loaded = streaming.load(tmp_path / "users.npz", model, params)
    assert_same(loaded, first)
    after = [write(params, states, rows, stream[:, 2:], mask[:, 2:]) for states in (first, loaded)]
    assert_same(*after)
    assert answer(params, after[1], rows, jnp.arange(STREAMS) % QUERIES).shape[0] == STREAMS
    streaming.save(tmp_path / "users.npz", after[1])
    assert (tmp_path / "users.npz").stat().st_size == size  # however much was written
    assert [path.name for path in tmp_path.iterdir()] == ["users.npz"]


def test_a_file_that_is_replaced_while_it_is_opened_is_read_whole(tmp_path, monkeypatch):
    model, params, *_ = made("rehearsal")
    path, archive = tmp_path / "users.npz", state_files.zipfile.ZipFile
    few, many = (streaming.start(model, params, count) for count in (2, 40))

    def opened(file, *arguments, **options):
        monkeypatch.setattr(state_files.zipfile, "ZipFile", archive)
        streaming.save(path, many)
        return archive(file, *arguments, **options)

    streaming.save(path, few)
    monkeypatch.setattr(state_files.zipfile, "ZipFile", opened)
    assert_same(streaming.load(path, model, params), few)
    assert_same(streaming.load(path, model, params), many)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([0, 6], r"6 streams, and rows from 0 to 6; they must be in \[0, 6\)"),
        ([-1, 0], "rows from -1 to 0"),
        ([2, 2], "written once in a call, not twice"),
        ([0.0, 1.0], "rows of type float32; they must be whole numbers"),
        ([True, False], "rows of type bool"),
        ([0, 1, 2], r"for \(3,\) rows; not \(2, "),
    ],
)
def test_rows_that_cannot_be_are_one_clear_line(unchecked, rows, words):
    model, params, *_ = made()
    stream, mask = (part[:2] for part in streams())
    with pytest.raises(MemjaxError, match=words):
        streaming.write(model, params, streaming.start(model, params, STREAMS), jnp.array(rows), stream, mask)
    for wrong, words in [
        (0, "at least 1, not 0"),
        (True, "not True"),
        (2.0, "not 2.0"),
        (10**15, "do not fit"),
    ]:
        with pytest.raises(MemjaxError, match=words):
            streaming.start(model, params, wrong)
    for nothing in (None, {}):
        with pytest.raises(MemjaxError, match=f"params must be what init made, not {nothing}"):
            streaming.start(model, nothing, 2)
    assert jax.tree.leaves(streaming.start(model, params, np.int64(2)))[0].shape[0] == 2


def test_rows_may_be_of_any_whole_type_however_many_streams_there_are(unchecked):
    model, params, *_ = made()
    states = streaming.start(model, params, 300)
    told = [[1], [2], [3]]
    wanted = streaming.write(model, params, states, [0, 1, 2], told)
    assert_same(streaming.write(model, params, states, np.array([0, 1, 2], np.uint8), told), wanted)


def test_nothing_to_write_leaves_the_states_as_they_are(unchecked):
    model, params, write, _ = made()
    states = write(params, streaming.start(model, params, STREAMS), jnp.arange(STREAMS), *streams())
    assert_same(streaming.write(model, params, states, [], []), states)
    assert streaming.answer(model, params, states, [], []).shape[0] == 0
    assert streaming.answer(model, params, states, [], np.zeros(0, int)).shape[0] == 0


def test_calls_that_cannot_be_are_one_clear_line(unchecked, tmp_path):
    model, params, *_ = made()
    states, rows, asked = streaming.start(model, params, STREAMS), jnp.arange(2), jnp.zeros(2, int)
    write, answer = (functools.partial(f, model, params) for f in (streaming.write, streaming.answer))
    for call, words in [
        (lambda: write(states, rows, [5, 6]), "each a list of items"),
        (lambda: write(states, rows, None), "stream is a list of streams"),
        (lambda: write(states, [0, 1], [[1], None]), "each a list of items"),
        (lambda: write(None, rows, [[1], [2]]), "states must be what start made, not None"),
        (lambda: write(states, 0, [[1]]), "there must be a stream for each row"),
        (lambda: answer(None, rows, asked), "states must be what start made, not None"),
        (lambda: answer(states, 0, jnp.array(0)), "there must be a row for each query"),
        (lambda: answer(states, rows, jnp.zeros((2, 3), int)), r"queries must be ids \[Q\], not \[2, 3\]"),
        (lambda: answer(states, rows, asked, jnp.zeros((2, 3, 4), int)), "the answers are no candidates"),
        (lambda: streaming.save(tmp_path / "users.npz", None), "states must be what start made, not None"),
        (lambda: streaming.load(model, params, tmp_path / "users.npz"), "streaming needs a MemoryModel, not dict"),
    ]:
        with pytest.raises(MemjaxError, match=words) as caught:
            call()
        assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("wrong", [-1, ITEMS, 10**6])
def test_items_and_questions_that_the_model_does_not_know_are_one_clear_line(unchecked, wrong):
    model, params, *_ = made()
    stream, mask = (part[:2] for part in streams())
    states, rows = streaming.start(model, params, STREAMS), jnp.arange(2)
    place = tuple(np.argwhere(np.asarray(mask))[0])
    with pytest.raises(MemjaxError, match=rf"items from .*; they must be in \[0, {ITEMS}\)"):
        streaming.write(model, params, states, rows, stream.at[place].set(wrong), mask)
    # What lies under padding is nobody's business.
    streaming.write(model, params, states, rows, jnp.where(mask, stream, wrong), mask)
    with pytest.raises(MemjaxError, match=rf"ids from .*; they must be in \[0, {QUERIES}\)"):
        streaming.answer(model, params, states, rows, jnp.array([0, wrong]))
    with pytest.raises(MemjaxError, match="a row for each query"):
        streaming.answer(model, params, states, rows, jnp.array([0, 1, 2]))


@pytest.mark.slow
def test_a_file_with_any_flipped_bit_of_its_headers_is_refused_in_one_line_or_the_same(tmp_path):
    model, params, *_ = made()
    states = streaming.start(model, params, 2)
    streaming.save(tmp_path / "good.npz", states)
    good = (tmp_path / "good.npz").read_bytes()
    for place in (*range(64), *range(len(good) - 96, len(good))):
        for bit in range(8):
            altered = bytearray(good)
            altered[place] ^= 1 << bit
            (tmp_path / "bad.npz").write_bytes(altered)
            try:
                found = streaming.load(tmp_path / "bad.npz", model, params)
            except MemjaxError as error:
                assert "\n" not in str(error)
            else:
                assert_same(found, states)


class Evil:
    def __reduce__(self):
        return (exec, ("raise SystemExit('code ran')",))


def damaged(kind, good):
    """The bytes of a file that holds no states of this memory."""
    if kind == "cut":
        return good[: len(good) // 2]
    if kind == "altered":
        middle = len(good) // 2
        return good[:middle] + bytes(byte ^ 255 for byte in good[middle : middle + 64]) + good[middle + 64 :]
    if kind == "pickle":
        return pickle.dumps(Evil())
    buffer = io.BytesIO()
    if kind == "pickled array":
        np.savez(buffer, state=np.array([Evil()], object))
    elif kind == "one array":
        np.save(buffer, np.zeros(3))
    elif kind == "other archive":
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("state", "nothing")
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["cut", "altered", "pickle", "pickled array", "one array", "other archive", "empty"])
def test_a_damaged_or_foreign_file_is_one_clear_line_and_runs_nothing(kind, tmp_path):
    model, params, *_ = made()
    streaming.save(tmp_path / "good.npz", streaming.start(model, params, STREAMS))
    path = tmp_path / "bad.npz"
    path.write_bytes(damaged(kind, (tmp_path / "good.npz").read_bytes()))
    with pytest.raises(MemjaxError, match="holds") as caught:
        streaming.load(path, model, params)
    assert "\n" not in str(caught.value)


class Halved(memories.RehearsalMemory):
    """A memory of one's own, which keeps its slots in bfloat16."""

    def initial_state(self):
        return super().initial_state().astype(jnp.bfloat16)


def test_states_in_bfloat16_come_back_from_a_file_and_nan_is_seen(tmp_path, capsys):
    model = MemoryModel(shape(), Halved(num_slots=3, width=8, segment=3, layers=1, heads=2), 8, 2, 1, 1, 2)
    params = random_params(model, example())
    states = streaming.start(model, params, 2)
    assert {leaf.dtype for leaf in jax.tree.leaves(states)} >= {jnp.dtype(jnp.bfloat16)}
    states = jax.tree.map(lambda x: x.at[1].set(jnp.nan) if x.dtype == jnp.bfloat16 else x, states)
    streaming.save(tmp_path / "users.npz", states)
    bits = [
        [np.asarray(leaf).view(np.uint8) for leaf in jax.tree.leaves(each)]
        for each in (states, streaming.load(tmp_path / "users.npz", model, params))
    ]
    assert_same(*bits)
    assert "the states of 1 of 2 streams are NaN (1)" in capsys.readouterr().err


def test_parameters_of_another_model_are_one_clear_line():
    model, params, *_ = made()
    stream, mask = streams()
    states, rows = streaming.start(model, params, 2), jnp.arange(2)
    for other in (made("dnc")[1], {"params": {}}):
        for call in (
            lambda other=other: streaming.start(model, other, 2),
            lambda other=other: streaming.write(model, other, states, rows, stream[:2], mask[:2]),
            lambda other=other: streaming.answer(model, other, states, rows, rows),
        ):
            with pytest.raises(MemjaxError, match="these params are not this model's") as caught:
                call()
            assert "\n" not in str(caught.value)


def test_inside_jit_streams_of_any_lengths_are_one_clear_line():
    model, params, *_ = made()
    states = streaming.start(model, params, 2)
    with pytest.raises(MemjaxError, match="rows are numbers, not traced ones; inside jit give stream and mask as arr"):
        jax.jit(lambda rows: streaming.write(model, params, states, rows, [[1], [2]]))(jnp.arange(2))


def test_the_states_of_another_memory_are_refused(tmp_path):
    model, params, *_ = made()
    streaming.save(tmp_path / "users.npz", streaming.start(model, params, 2))
    larger = MemoryModel(shape(), memory(slots=5), 8, 2, 1, 1, 2)
    others = [(larger, random_params(larger, example())), made("dnc")[:2]]
    for other in others:
        with pytest.raises(MemjaxError, match="states of another memory"):
            streaming.load(tmp_path / "users.npz", *other)
    with pytest.raises(MemjaxError, match="there is no file"):
        streaming.load(tmp_path / "nobody.npz", model, params)
    with pytest.raises(MemjaxError, match="cannot write"):
        streaming.save(tmp_path / "no" / "users.npz", streaming.start(model, params, 2))


@pytest.mark.slow
def test_a_run_is_a_model_that_streams_can_be_given_to(tmp_path):
    from rich.console import Console

    config = tiny(training__sampler_steps=1, training__steps=2)
    prepared = prepare(config)
    learned = experiment.train(prepared, tmp_path / "run", Console(quiet=True))
    model, params = trained_model(tmp_path / "run")
    assert_same(params, learned)
    batch = prepared.task.examples("test", np.arange(2))
    states = streaming.start(model, params, 3)
    new = jnp.asarray(batch["stream"]), jnp.asarray(batch["mask"])
    states = streaming.write(model, params, states, jnp.array([2, 0]), *new)
    logits = streaming.answer(model, params, states, jnp.array([2, 0]), jnp.asarray(batch["query"]))
    assert logits.shape == (2, prepared.task.shape.classes)
    with pytest.raises(MemjaxError, match="is not a run"):
        trained_model(tmp_path)
    with pytest.raises(MemjaxError, match="streaming needs a MemoryModel, not Dense"):
        inspect.unwrap(streaming.start)(nn.Dense(3), params, 3)  # as it is where no types are checked
