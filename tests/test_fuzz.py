"""Random configs, command lines, files and inputs: each runs, or is one clear line; no traceback, no hang, no NaN.

500 configs + 200 command lines + 160 run folders + 160 sizes of a memory + 40 streams + 20 trained = 1,080 examples.
What they found first: names that are no text or have line breaks; a million layers, evidences or episodes, which
hung. A slip that was tried: messages with line breaks; while it looked for the simplest one, it found a compressive
memory's rate of a billion.
"""

import functools
import json
import math
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fuzzing import JUNK, SMALL, changed, changes, refusal, soon, values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from models.asking import ITEMS, QUERIES, N, example, shape
from rich.console import Console
from room import make_room
from shipped import bases
from training.tiny import CONFIGS, TINY, flags, random_params

from memjax import cli, memories, streaming
from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.memories import memorize
from memjax.memories.memory_registry import size_fields
from memjax.models import MemoryModel
from memjax.training import experiment

pytestmark = pytest.mark.slow
EVIDENCE = f"--config={CONFIGS / 'evidence.py'}:demo"


def fuzz(examples):
    """So many examples, the same each time."""
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large]
    return settings(max_examples=examples, derandomize=True, deadline=None, database=None, suppress_health_check=quiet)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@given(st.integers(0, 99), changes)
@fuzz(500)
def test_a_random_config_is_prepared_or_one_clear_line(data, which, made):
    known = bases(data)
    config = changed(known[list(known)[which % len(known)]], made)
    refusal(lambda: prepare(from_mapping(config)))


KEYS = [*TINY, "task.name", "task.seed", "memory.name", "memory.encoder", "model.dtype", "rehearsal.sampler", "x", ""]
words = st.one_of(
    st.sampled_from(["train", "trian", "compare", "evaluate", "report", "prepare", "babi", "--", "-", "--run", "--x"]),
    st.sampled_from(["--run=", "--run=run", "--data_dir=x", "--from=x", "--seeds=0", "--memories=dnc,x", "--out="]),
    st.sampled_from([EVIDENCE, f"{EVIDENCE},x=1", "--config=", "--config=:", "--config", f"--config={CONFIGS}"]),
    st.builds(lambda key, value: f"--config.{key}={value}", st.sampled_from(KEYS), values),
    st.text(st.characters(exclude_characters="\x00/", exclude_categories=["Cs"]), max_size=8),
)


@given(st.one_of(st.sampled_from(["train", "compare", "evaluate", "report", "prepare"]), words), st.lists(words))
@fuzz(200)
def test_a_random_command_line_is_refused_in_one_line_or_accepted(here, capsys, first, rest):
    with soon(), pytest.MonkeyPatch.context() as patch:
        for name in ("train", "evaluate"):  # it would take minutes
            patch.setattr(experiment, name, lambda *_: (_ for _ in ()).throw(MemjaxError("it would be trained here")))
        capsys.readouterr()
        status = cli.main([first, *rest])
    err = capsys.readouterr().err
    assert status in (0, 2)
    assert (err.startswith("memjax: ") and len(err.splitlines()) == 1) if status else not err


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    assert cli.main(["train", EVIDENCE + ",system=directly", *flags(), f"--run={folder}"]) == 0
    return folder


numbers = st.one_of(st.integers(), st.floats(), st.just(10**400))
scalars = st.one_of(st.none(), st.booleans(), numbers, st.text(max_size=5))
trees = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
)


@given(
    st.sampled_from(["config.json", "evaluation.json", "metrics.jsonl"]),
    st.one_of(st.binary(max_size=40), trees, st.tuples(st.integers(0, 99), st.integers(0, 99), trees)),
    st.sampled_from(["report", "evaluate"]),
)
@fuzz(160)
def test_a_run_folder_with_random_files_is_shown_or_one_clear_line(trained, here, capsys, name, content, command):
    shutil.rmtree(here / "run", ignore_errors=True)
    shutil.copytree(trained, here / "run")
    path = here / "run" / name
    if isinstance(content, tuple):  # one value of the real file is another
        place, inner, tree = content
        lines = [json.loads(line) for line in path.read_text().splitlines()] if name[-1] == "l" else None
        found = lines[place % len(lines)] if lines else json.loads(path.read_text())
        group = list(found.values())[inner % len(found)]
        group = group if isinstance(group, dict) and group else found
        group[list(group)[place % len(group)]] = tree
        content = found if lines is None else "\n".join(map(json.dumps, lines)).encode()
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    with soon(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("memjax.experiments.prepare.make_evaluator", lambda *_: lambda *_, **__: {"diverged": 0})
        patch.setattr("memjax.commands.report_command.report", _only_rows)
        capsys.readouterr()
        status = cli.main([command, str(here / "run")])
    err = capsys.readouterr().err
    assert status in (0, 2)
    assert (err.startswith("memjax: ") and len(err.splitlines()) == 1) if status else not err


def _only_rows(folders, out, console):
    """A report without its page, which draws for seconds."""
    from memjax.reporting import load_run, print_table

    del out
    print_table([load_run(folder) for folder in folders], console)


FIELDS = sorted({field for cls in memories.registry.values() for field in size_fields(cls)} - {"dtype"})
sizes = st.dictionaries(
    st.sampled_from(["slots", *FIELDS]), st.one_of(st.sampled_from(SMALL), st.sampled_from(JUNK)), max_size=3
)


@given(st.sampled_from([*memories.registry, "rehersal"]), sizes)
@fuzz(160)
def test_a_memory_of_random_sizes_can_be_made_or_is_one_clear_line(unchecked, name, own):
    fields = size_fields(memories.registry.get(name, memories.DNC))
    usual = {"width": 8, "segment": 3, "layers": 1, "heads": 2, "memory_width": 4, "policy": "st"}
    usual = {"slots": 4} | {size: value for size, value in usual.items() if size in fields}

    def make():
        memory = memories.create(name, **{**usual, **own})
        items = jax.ShapeDtypeStruct((2, 3, memory.width), jnp.float32)
        jax.eval_shape(lambda items: memory.init(jax.random.key(0), items, method=memorize), items)

    refusal(make)


@functools.cache
def model():
    """A small system and its parameters."""
    made = MemoryModel(shape(), memories.create("memn2n", slots=3, width=8), 8, 1, 0, 1, 2)
    return made, random_params(made, example())


@given(st.integers(0, 2), st.data())
@fuzz(40)
def test_random_rows_masks_and_lengths_give_finite_answers_or_one_clear_line(segments, data):
    (made, params), count = model(), 2
    rows = np.array(data.draw(st.lists(st.integers(-1, 3), min_size=count, max_size=count)), np.int32)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=segments * count * N, max_size=segments * count * N)))
    mask = mask.astype(bool).reshape(count, segments, N)
    item = data.draw(st.sampled_from([0, 1, ITEMS - 1, ITEMS, -1, 2**31 - 1]))
    query = data.draw(st.integers(-1, QUERIES))
    stream = np.where(mask, item, -7).astype(np.int32)  # what lies under padding is nobody's business

    def ask():
        states = streaming.start(made, params, 3)
        states = streaming.write(made, params, states, jnp.asarray(rows), jnp.asarray(stream), jnp.asarray(mask))
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(states))
        answers = streaming.answer(made, params, states, jnp.arange(3), jnp.full(3, query))
        assert np.isfinite(answers).all()

    said = refusal(ask)
    sound = len(set(rows.tolist())) == len(rows) and all(0 <= row < 3 for row in rows)
    sound = sound and (0 <= item < ITEMS or not mask.any()) and 0 <= query < QUERIES
    assert (said is None) == sound, said


TRAINED = ["system=directly", "lmm", "attention", "bits copy", "memn2n", "mqn", "noisy", "spans", "clicks sasrec"]
ALLOWED = {
    "learning_rate": [0.0, 1e-3, 1.0, 1e38],
    "clip_norm": [1e-30, 1.0, 1e38],
    "width": [2, 4, 8],
    "batch_size": [8, 16],
    "dtype": ["float32", "bfloat16"],
    "seed": [0, 7, 2**31 - 1],
}


@given(st.sampled_from(TRAINED), st.fixed_dictionaries({key: st.sampled_from(value) for key, value in ALLOWED.items()}))
@fuzz(20)
def test_a_valid_config_is_trained_and_tested_without_nan_or_says_what_is_not_finite(data, here, name, chosen):
    config = changed(bases(data)[name], [])
    for group in (config["model"], config["optimizer"], config["training"]):
        group.update({key: value for key, value in chosen.items() if key in group})
    config["training"].update(steps=1, validate_every=1, log_every=1)
    config["training"].update({key: 1 for key in ("base_steps", "sampler_steps") if key in config["training"]})
    folder = here / "run"
    shutil.rmtree(folder, ignore_errors=True)
    make_room()

    def run():
        prepared = prepare(from_mapping(config))
        experiment.train(prepared, folder, Console(quiet=True))
        experiment.evaluate(prepared, folder)

    said = refusal(run)
    assert said is None or "is not finite" in said or "multiple" in said, said
    if said is None:
        _require_no_nan(json.loads((folder / "evaluation.json").read_text()))


def _require_no_nan(tree):
    if isinstance(tree, dict | list):
        for inner in tree.values() if isinstance(tree, dict) else tree:
            _require_no_nan(inner)
    assert not isinstance(tree, float) or math.isfinite(tree)
