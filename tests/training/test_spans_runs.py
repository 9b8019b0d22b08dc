"""Experiments with spans of documents: scores by SQuAD's rule, rewards, losses, one command, the reader handed on."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import spans as oracle
from oracles.checking import assert_same
from tasks.test_spans import members, write
from training.tiny import CONFIGS, config_file, flags, mapping

from memjax import cli
from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare, trained_model
from memjax.experiments.reading import from_mapping, to_mapping
from memjax.experiments.spans import fifo_blocks, held_span, rewards, squad_scores, trimmed
from memjax.experiments.spans.span_watch import watch
from memjax.models.document_reader import Retained
from memjax.reporting.buffer_picture import draw_buffer
from memjax.tasks.span_files import ARTICLES, scored_words
from memjax.training.evaluate import make_evaluator

SIZES = {
    "task.words": 3, "task.cut": 12, "task.within": 9, "task.least": 1, "task.file": "tales.tar.gz", "model.width": 4,
    "model.longest": 3, "model.entries": 2, "training.base_steps": 2, "training.steps": 2, "training.batch_size": 8,
    "training.log_every": 1, "training.validate_every": 2, "training.validate_examples": 2,
    "training.checkpoint_every": 2,
}  # fmt: skip
WORDS = ("the", "a", "fox", "wolf", "fox's", "grey,", "...")


def prepared(folder, arg="fairytales,policy=st", **changes):
    return prepare(from_mapping(mapping(arg, "spans", SIZES | {"task.data_dir": str(folder)}, **changes)))


def tales(folder):
    """The folder, with nine questions of train and three of test."""
    files = members()
    train = {name: text for name, text in files.items() if "train" in name}
    more = {name.replace("fox", f"fox{i}"): text for name, text in train.items() for i in (2, 3)}
    return write(folder, files | more)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tales(tmp_path_factory.mktemp("tales"))


@functools.cache
def made(folder):
    """(experiment, parameters far from 0, a batch of the test, as it is trimmed)."""
    trained = prepared(folder)
    batch = trained.recipe.layout.trim(trained.task.examples("test", np.arange(3)))
    batch = {name: jnp.asarray(x) for name, x in batch.items()}
    example = {name: x[0] for name, x in batch.items()}
    shapes = jax.eval_shape(lambda: trained.phases[-1].init(jax.random.key(0), example))
    rng = np.random.default_rng(4)
    params = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape) / 2, leaf.dtype), shapes)
    return trained, params, batch


texts = st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join)


@functools.cache
def scorer():
    return jax.jit(squad_scores)


@given(st.text(alphabet="\u201c\u2013\u2014-' .athen\u00e9", max_size=12))
@settings(max_examples=300, deadline=None)
def test_words_that_are_scored_are_those_of_squads_rule(text):
    assert [word for word in scored_words(text) if word not in ARTICLES] == oracle.normalized(text).split()


@given(texts, st.lists(texts, min_size=1, max_size=3))
@settings(max_examples=200, deadline=None)
def test_scores_are_those_of_squads_rule_on_texts(said, answers):
    answers = [text for text in answers if oracle.normalized(text)]
    if not answers or not oracle.normalized(said):
        return  # a span and an answer have a word that counts, or are wrong by both
    ids = {word: place for place, word in enumerate(("<pad>", "<unknown>", *ARTICLES, "fox", "wolf", "foxs", "grey"))}
    rows = [[ids[word] for word in scored_words(text)] for text in (said, *answers)]
    table = np.zeros((4, 5), np.int32)
    for row, own in zip(table, rows, strict=False):
        row[: len(own)] = own
    found = scorer()(jnp.asarray(table[0]), jnp.asarray(table[1:]))
    np.testing.assert_allclose(found, oracle.squad(said, answers), rtol=1e-6)


@pytest.mark.parametrize(
    ("said", "answer", "exact", "f1"),
    [
        ([5, 6], [[4, 5, 6]], 1, 1),  # articles do not count
        ([5, 5], [[5, 0, 0]], 0, 2 / 3),  # a word is in common as often as it is in both
        ([4, 2], [[5, 0, 0]], 0, 0),
        ([6, 5], [[5, 6, 0]], 0, 1),
        ([5, 6], [[7, 0, 0], [6, 7, 0]], 0, 0.5),  # the best of both
        ([1, 1], [[5, 0, 0]], 0, 0),
    ],
)
def test_known_cases_of_the_rule(said, answer, exact, f1):
    found = squad_scores(jnp.array(said), jnp.array(answer))
    np.testing.assert_allclose(found, (exact, f1), rtol=1e-6)


@given(st.sets(st.integers(0, 5), max_size=4), st.integers(0, 17), st.integers(0, 6))
@settings(max_examples=100, deadline=None)
def test_a_span_is_held_if_every_word_of_it_is(held, first, more):
    last, held = min(first + more, 17), [*sorted(held), *[-1] * (4 - len(held))]
    words = [3 * n + i if n >= 0 else None for n in held for i in range(3)]  # blocks of three
    there, begin, end = held_span(jnp.array(held), jnp.array(first), jnp.array(last), 3)
    assert bool(there) == (set(range(first, last + 1)) <= set(words))
    expected = (words.index(first), words.index(last)) if there else (0, 0)
    assert (int(begin), int(end)) == expected


def retained(held):
    zeros = jnp.zeros(len(held))
    return Retained(zeros > 0, zeros, zeros, zeros, jnp.array(held), jnp.zeros(jnp.shape(held)))


def test_rewards_come_behind_the_last_block_or_while_the_span_is_held():
    stream = np.zeros((6, 2), np.int32)
    stream[:5] = 7
    example = {"stream": jnp.asarray(stream), "first": jnp.array(3), "last": jnp.array(4)}  # blocks 1 and 2
    held = retained([[0, -1], [0, 1], [1, 2], [1, 2], [2, 4], [2, 4]])
    assert rewards["f1"](held, example, jnp.array(0.3)).tolist() == pytest.approx([0, 0, 0, 0, 0.3, 0])
    assert rewards["held"](held, example, jnp.array(0.3)).tolist() == pytest.approx([0, 0, 0.2, 0.2, -0.2, 0])


def test_what_fifo_holds_when_it_still_has_the_answer_is_its_last_blocks():
    stream = np.ones((9, 2), np.int32)
    stream[8] = 0
    for first, last, entries in ((0, 1, 3), (5, 6, 3), (14, 15, 3), (2, 9, 3)):
        example = {"stream": jnp.asarray(stream), "first": jnp.array(first), "last": jnp.array(last)}
        keys = jax.random.split(jax.random.key(0), 60)
        ends = set()
        for row in jax.vmap(fifo_blocks, (None, None, 0))(example, entries, keys).tolist():
            numbers = [n for n in row if n >= 0]
            end = numbers[-1]
            assert row == [*range(max(0, end - entries + 1), end + 1), *[-1] * (entries - len(numbers))]
            ends.add(end)
        possible = [n for n in range(8) if last // 2 <= n and first // 2 > n - entries]
        assert ends == set(possible or [last // 2])


def test_what_is_measured_is_the_mean_over_a_split_and_by_the_place_of_the_answer(folder):
    trained, params, batch = made(folder)
    phase = trained.phases[-1]
    found = make_evaluator(phase.measure, trained.task, trained.recipe.layout, trained.mesh, 8)(params, "test")
    rows = [jax.jit(phase.measure)(params, {name: x[i] for name, x in batch.items()}) for i in range(3)]
    for name in ("f1", "held"):
        values = np.array([row.means[name] for row in rows])
        np.testing.assert_allclose(found[name], values.mean(), rtol=1e-5)
        for place, own in found["tags"]["place"].items():
            chosen = np.asarray(batch["place"]) == trained.task.shape.tags["place"].index(place)
            np.testing.assert_allclose(own[name], values[chosen].mean(), rtol=1e-5)
    assert found["examples"] == 3 and found["accuracy"] == np.mean([row.correct for row in rows])


def test_a_rule_that_draws_is_tested_by_the_same_draws_whatever_the_padding(folder):
    _, params, batch = made(folder)
    example = {name: x[0] for name, x in batch.items()}
    measure = jax.jit(prepared(folder, "fairytales,policy=uniform").phases[-1].measure)
    padded = example | {"stream": jnp.pad(example["stream"], ((0, 3), (0, 0)))}
    assert_same(measure(params, padded), measure(params, example))


def test_what_is_shown_is_what_was_answered_and_what_was_held(folder):
    trained, params, batch = made(folder)
    batch = {name: np.asarray(x) for name, x in batch.items()}
    found = watch(trained.recipe.model, 3, trained.task, params, batch)
    measure = jax.jit(trained.phases[-1].measure)
    right = [bool(measure(params, {name: x[row] for name, x in batch.items()}).correct) for row in range(3)]
    assert [one["answer"] == one["prediction"] for one in found["examples_shown"]] == right
    assert [one["tags"]["place"] for one in found["examples_shown"]] == [("early", "later")[x] for x in batch["place"]]

    shown, lengths = found["buffer"], (batch["stream"] != 0).any(2).sum(1)
    row = int(lengths.argmin())
    words = [trained.task.vocabulary[word] for word in batch["stream"][row].ravel() if word]
    *blocks, asked = shown["lines"]
    assert " ".join(blocks).split() == words and asked == found["examples_shown"][row]["question"]
    (question,) = shown["questions"]
    span = range(batch["first"][row], batch["last"][row] + 1)
    assert question["step"] == lengths[row] and {place // 3 for place in span} == set(question["support"])
    stream = jnp.asarray(batch["stream"][row])
    kept = jax.jit(functools.partial(trained.recipe.model.apply, method="retain"))(params, stream).held
    after = [[int(block) for block in kept[t] if block >= 0] for t in range(lengths[row])]
    assert shown["held"] == [[], *after]
    likely = dict(enumerate(shown["eviction"]))
    assert all(len(likely[t]) == len(held) and sum(likely[t]) <= 1 + 1e-3 for t, held in enumerate(shown["held"]))
    gone = [(t, set(held) - set(shown["held"][t + 1])) for t, held in enumerate(shown["held"][:-1])]
    assert any(left for _, left in gone)  # and it is the likeliest
    assert all(likely[t][shown["held"][t].index(block)] == max(likely[t]) > 0 for t, left in gone for block in left)
    draw_buffer(shown)


def test_batches_are_trimmed_to_a_multiple_of_trains_blocks(folder):
    trained, _, _ = made(folder)
    shape, batch = trained.task.shape, trained.task.examples("train", np.arange(3))
    assert shape.train_blocks == 4 < shape.blocks == 8
    cut = trimmed(shape, batch)
    assert cut["stream"].shape == (3, 4, 3) and (batch["stream"][:, 4:] == 0).all()
    assert trimmed(shape, trained.task.examples("test", np.arange(3)))["stream"].shape == (3, 8, 3)


def test_the_policy_begins_with_what_the_reader_has_learned(folder):
    trained, params, batch = made(folder)
    first, last = trained.phases
    base = first.init(jax.random.key(7), {name: value[0] for name, value in batch.items()})
    begun = last.begin(params, base)["params"]
    assert_same(begun["base"], base["params"]["base"])
    assert_same(begun["evictor"], params["params"]["evictor"])
    assert last.begin(params, None) is params


@pytest.mark.slow
@pytest.mark.parametrize("arg", ["fairytales,policy=st", "fairytales,policy=im,reward=held", "fairytales,system=whole"])
def test_it_is_trained_tested_and_reported_by_one_command(arg, folder, tmp_path, capsys):
    run, sizes = tmp_path / "run", SIZES | ({"training.base_steps": 0} if "whole" in arg else {})
    arguments = ["train", f"--config={CONFIGS / 'spans'}.py:{arg}", f"--run={run}", f"--data_dir={folder}"]
    arguments += flags(sizes)
    assert cli.main(arguments) == 0, capsys.readouterr().err
    found = json.loads((run / "evaluation.json").read_text())
    assert found["metrics"]["answers"] == 3 and 0 <= found["metrics"]["f1"] <= 1 and found["step"] == 2
    assert (run / "base").exists() == ("whole" not in arg) and (run / "report.html").exists()
    assert "F1 %" in capsys.readouterr().out
    assert type(trained_model(run)[0]).__name__ == ("BiDAF" if "whole" in arg else "DocumentReader")
    assert len(found["examples_shown"]) == 3 and ("buffer" in found) == ("whole" not in arg)
    assert "fox" in (run / "report.html").read_text()
    if "whole" in arg:
        assert found["metrics"]["held"] == 1


@pytest.mark.parametrize("arg", ["fairytales,policy=im", "triviaqa,system=whole", "triviaqa,policy=lru,reward=held"])
def test_a_config_is_the_same_after_a_round_trip(arg):
    config = from_mapping(config_file("spans")(arg).to_dict())
    assert from_mapping(to_mapping(config)) == config


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model__policy": "sst"}, "did you mean 'st'"),
        ({"model__entries": 0}, "entries must be at least 1"),
        ({"model__width": 5}, r"config\.model\.width must be even, not 5"),
        ({"model__dropout": 1.0}, r"config\.model\.dropout must be in \[0, 1\)"),
        ({"training__reward": "hold"}, "did you mean 'held'"),
        ({"training__base_steps": -1}, "base_steps"),
        ({"system": "whole"}, "base_steps is for a buffer"),
        ({"mesh__sequence": 2}, "mesh.sequence"),
        ({"training__batch_size": 32}, "fewer than one batch"),
        ({"task__within": 13}, r"config\.task\.within must be at most 12"),
    ],
)
def test_what_cannot_be_is_one_clear_line_before_anything_compiles(folder, changes, words):
    with pytest.raises(MemjaxError, match=words) as caught:
        prepared(folder, **changes)
    assert "\n" not in str(caught.value)
