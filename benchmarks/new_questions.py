"""Does a memory hold the stream, or only what it was asked for? Questions that are new to it, asked of it frozen.

    python benchmarks/reproduce.py evidence_medium --runs=runs/medium
    python benchmarks/new_questions.py runs/medium/rehearsal-0 runs/medium/no-rehearsal-0 [...] [--untrained]

Of each run on evidence the memory and its embeddings of facts are frozen. Two new readers learn to answer from the
slots alone: one the questions that the memory was trained with, one as many others, whose evidence is drawn anew from
the same facts. What they find must have been in the slots; what they do not find may be there still. Kept in
results/new_questions.json, run by run; with --untrained of the memories that the runs began with.
"""

import argparse
import json
import platform
import re
import shlex
import sys
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from memjax.config.sections import OptimizerConfig
from memjax.errors import MemjaxError, require
from memjax.experiments.prepare import prepare, trained_model
from memjax.experiments.reading import read_config
from memjax.experiments.stream_qa.rehearsal_objective import init_params
from memjax.memories import Slots
from memjax.models import MemoryModel
from memjax.tasks.evidence import Evidence, EvidenceSpec
from memjax.training.phase import initial_state, load_phase, state_bytes
from memjax.training.step import make_optimizer
from memjax.typing import Array, Params, Split

ROOT = Path(__file__).parents[1]
EXAMPLES, TESTED, TOGETHER = 32_000, 4000, 32
# The optimizer of configs/evidence.py:medium; its rate falls over the last pass.
ADAM = OptimizerConfig(learning_rate=1e-3, warmup_steps=100, decay_steps=EXAMPLES // TOGETHER, clip_norm=1.0)
PROGRAM = ("python", "benchmarks/new_questions.py")
LEARNED = ("query", "reader", "head")


class Memorized(NamedTuple):
    """What a memory holds of some streams, what is asked, and where the evidence lies."""

    slots: Slots
    query: np.ndarray
    label: np.ndarray
    half: np.ndarray


def new_task(spec: EvidenceSpec, seed: int, examples: int) -> Evidence:
    """A task of as many questions, drawn by a seed, and of streams of full length."""
    pairs = spec.queries * spec.answers
    return Evidence(replace(spec, seed=seed, train=-(-examples // pairs), shortest=0, curriculum=0))


def memorized(model: MemoryModel, params: Params, task: Evidence, split: Split, examples: int) -> Memorized:
    """What the memory makes of the first streams of a split, but for the last few that do not fill a batch."""

    @jax.jit
    def memorize(params: Params, stream: Array, mask: Array) -> Slots:
        return jax.vmap(lambda *one: model.apply(params, *one, method="memorize")[0])(stream, mask)

    parts = []
    for start in range(0, min(examples, task.size(split)) - TOGETHER + 1, TOGETHER):
        batch = task.examples(split, np.arange(start, start + TOGETHER))
        slots = jax.device_get(memorize(params, batch["stream"], batch["mask"]))
        parts.append(Memorized(slots, batch["query"], batch["label"], batch["half"]))
    return jax.tree.map(lambda *each: np.concatenate(each), *parts)


def answers(model: MemoryModel, params: Params, slots: Slots, query: Array) -> Array:
    """Logits of the answers to a batch of questions."""
    return jax.vmap(lambda *one: model.apply(params, *one, method="answer"))(slots, query)


def new_reader(model: MemoryModel, params: Params, task: Evidence, passes: int, seed: int) -> Params:
    """The parameters with a reader that has learned to answer; nothing else is changed.

    Args:
        model: the memory, and what stands around it.
        params: of a run.
        task: whose training examples it learns from.
        passes: over them.
        seed: of the reader's first parameters, and of the order of the examples.
    """
    streams = memorized(model, params, task, "train", task.size("train"))
    example = {name: jnp.asarray(value[0]) for name, value in task.examples("train", np.zeros(1, int)).items()}
    fresh = init_params(model, jax.random.key(seed), example)["params"]
    learned = {name: fresh[name] for name in LEARNED}
    frozen = {name: value for name, value in params["params"].items() if name not in LEARNED}
    steps = len(streams.label) // TOGETHER
    optimizer = make_optimizer(ADAM, passes * steps)

    def loss(learned: Params, batch: Memorized) -> Array:
        logits = answers(model, {"params": frozen | learned}, batch.slots, batch.query)
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch.label).mean()

    @jax.jit
    def step(learned: Params, state: Any, batch: Memorized) -> tuple[Params, Any]:
        updates, state = optimizer.update(jax.grad(loss)(learned, batch), state)
        return optax.apply_updates(learned, updates), state

    state, random = optimizer.init(learned), np.random.default_rng(seed)
    for _ in range(passes):
        for rows in random.permutation(len(streams.label))[: steps * TOGETHER].reshape(steps, TOGETHER):
            learned, state = step(learned, state, jax.tree.map(itemgetter(rows), streams))
    return {"params": frozen | learned}


def tested(model: MemoryModel, params: Params, task: Evidence) -> dict[str, float]:
    """The share of right answers on the test split: of early, of later and of all evidence."""
    streams = memorized(model, params, task, "test", TESTED)
    logits = jax.jit(lambda params, *asked: answers(model, params, *asked))(params, streams.slots, streams.query)
    right, later = np.asarray(logits.argmax(-1)) == streams.label, streams.half == 1
    shares = {"early": right[~later].mean(), "later": right[later].mean(), "all": right.mean()}
    return {name: round(float(share), 4) for name, share in shares.items()}


def first_params(folder: Path) -> Params:
    """The parameters that the last phase of a run began with."""
    experiment = prepare(read_config(folder))
    *before, last = experiment.phases
    learned = load_phase(experiment, folder, before[-1])[1] if before else None
    return last.begin(initial_state(experiment, last).params, learned)


def measured(folder: Path, untrained: bool, passes: int) -> dict[str, Any]:
    """What new readers find in a run's slots, for the questions of its training and for as many that are new.

    Raises:
        MemjaxError: for a folder that is no run of a memory on evidence.
    """
    config = read_config(folder)
    require(isinstance(config.task, EvidenceSpec), f"{folder} is no run on evidence; see configs/evidence.py")
    model, params = trained_model(folder)
    require(isinstance(model, MemoryModel), f"{folder} is no run of a memory")
    params = first_params(folder) if untrained else params
    row = "untrained" if untrained else re.sub(r"-\d+$", "", folder.name).replace("-", " ")  # as reproduce.py names it
    flags = [*(["--untrained"] if untrained else []), f"--passes={passes}"]
    found: dict[str, Any] = {
        "size": folder.parent.name,
        "row": row,
        "seed": config.training.seed,
        "passes": passes,
        "command": shlex.join([*PROGRAM, f"runs/{folder.parent.name}/{folder.name}", *flags]),
        "answers_each": config.task.answers,
        "state_bytes": state_bytes(lambda: model.apply(params, method="initial_state")),
    }
    for name, seed in (("trained", config.task.seed), ("new", config.task.seed + 1)):
        task = new_task(config.task, seed, EXAMPLES)
        found[name] = tested(model, new_reader(model, params, task, passes, seed), task)
    return found


def main(argv: list[str] | None = None) -> int:
    """Measures every run that is named, and writes the results after each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--untrained", action="store_true", help="the memories that the runs began with")
    parser.add_argument("--passes", type=int, default=10, help="of a reader over its examples")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "new_questions.json")
    arguments = parser.parse_args(argv)
    runs = json.loads(arguments.out.read_text())["runs"] if arguments.out.exists() else {}
    about = {"command": shlex.join([*PROGRAM, "RUNS"]), "machine": platform.machine(), "jax": jax.__version__}
    for folder in arguments.runs:
        try:
            found = measured(folder, arguments.untrained, arguments.passes)
        except MemjaxError as error:
            print(f"new_questions: {error}", file=sys.stderr)
            return 2
        key = "{size}, {row}, seed {seed}, {passes} passes".format_map(found)
        runs[key] = found
        print(key, found["trained"], found["new"], flush=True)
        arguments.out.write_text(
            json.dumps(about | {"examples": EXAMPLES, "tested": TESTED, "runs": runs}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
