"""Does a memory hold the stream, or only what it was asked for? Questions that are new to it, asked of it frozen.

    python benchmarks/new_questions.py runs/medium/rehearsal-0 runs/medium/no-rehearsal-0 [...] [--untrained]

Of each run on evidence the memory and its embeddings of facts are frozen. A new reader then learns to answer from the
slots alone: the questions that the memory was trained with, and as many others, whose evidence is drawn anew from the
same facts. What it finds must have been in the slots. Kept in results/new_questions.json, with --untrained also for the
memory that the first run in a folder began with.
"""

import argparse
import json
import platform
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
from memjax.errors import require
from memjax.experiments.prepare import trained_model
from memjax.experiments.reading import read_config
from memjax.experiments.stream_qa.rehearsal_objective import init_params
from memjax.memories import Slots
from memjax.models import MemoryModel
from memjax.tasks.evidence import Evidence, EvidenceSpec
from memjax.training.phase import state_bytes
from memjax.training.step import make_optimizer
from memjax.typing import Array, Params, Split

ROOT = Path(__file__).parents[1]
EXAMPLES, TESTED, PASSES, TOGETHER = 32_000, 4000, 10, 32
# As of configs/evidence.py:medium.
ADAM = OptimizerConfig(learning_rate=1e-3, warmup_steps=100, decay_steps=EXAMPLES // TOGETHER, clip_norm=1.0)
LEARNED = ("query", "reader", "head")
UNTRAINED = "/untrained"


class Read(NamedTuple):
    """Streams of a split as a memory has read them: its slots, what is asked, and where the evidence lies."""

    slots: Slots
    query: np.ndarray
    label: np.ndarray
    half: np.ndarray


def questions(spec: EvidenceSpec, seed: int, examples: int) -> Evidence:
    """As many questions as a run's task has, drawn by a seed, with streams of full length."""
    pairs = spec.queries * spec.answers
    return Evidence(replace(spec, seed=seed, train=-(-examples // pairs), shortest=0, curriculum=0))


def read(model: MemoryModel, params: Params, task: Evidence, split: Split, examples: int) -> Read:
    """What the memory makes of the first streams of a split, but for the last few that do not fill a batch."""

    @jax.jit
    def memorized(params: Params, stream: Array, mask: Array) -> Slots:
        return jax.vmap(lambda *one: model.apply(params, *one, method="memorize")[0])(stream, mask)

    parts = []
    for start in range(0, min(examples, task.size(split)) - TOGETHER + 1, TOGETHER):
        batch = task.examples(split, np.arange(start, start + TOGETHER))
        slots = jax.device_get(memorized(params, batch["stream"], batch["mask"]))
        parts.append(Read(slots, batch["query"], batch["label"], batch["half"]))
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
    streams = read(model, params, task, "train", task.size("train"))
    fresh = first_params(model, task, seed)["params"]
    learned = {name: fresh[name] for name in LEARNED}
    frozen = {name: value for name, value in params["params"].items() if name not in LEARNED}
    steps = len(streams.label) // TOGETHER
    optimizer = make_optimizer(ADAM, passes * steps)

    def loss(learned: Params, batch: Read) -> Array:
        logits = answers(model, {"params": frozen | learned}, batch.slots, batch.query)
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch.label).mean()

    @jax.jit
    def step(learned: Params, state: Any, batch: Read) -> tuple[Params, Any]:
        updates, state = optimizer.update(jax.grad(loss)(learned, batch), state)
        return optax.apply_updates(learned, updates), state

    state, random = optimizer.init(learned), np.random.default_rng(seed)
    for _ in range(passes):
        for rows in random.permutation(len(streams.label))[: steps * TOGETHER].reshape(steps, TOGETHER):
            learned, state = step(learned, state, jax.tree.map(itemgetter(rows), streams))
    return {"params": frozen | learned}


def first_params(model: MemoryModel, task: Evidence, seed: int) -> Params:
    """Those that training would begin with."""
    example = {name: jnp.asarray(value[0]) for name, value in task.examples("train", np.zeros(1, int)).items()}
    return init_params(model, jax.random.key(seed), example)


def tested(model: MemoryModel, params: Params, task: Evidence) -> dict[str, float]:
    """The share of right answers on the test split: of early, of later and of all evidence."""
    streams = read(model, params, task, "test", TESTED)
    logits = jax.jit(lambda params, *asked: answers(model, params, *asked))(params, streams.slots, streams.query)
    right, later = np.asarray(logits.argmax(-1)) == streams.label, streams.half == 1
    shares = {"early": right[~later].mean(), "later": right[later].mean(), "all": right.mean()}
    return {name: round(float(share), 4) for name, share in shares.items()}


def probed(model: MemoryModel, params: Params, spec: EvidenceSpec) -> dict[str, dict[str, float]]:
    """What new readers find in the slots, for the questions of training and for as many that are new."""
    found = {}
    for name, seed in (("trained", spec.seed), ("new", spec.seed + 1)):
        task = questions(spec, seed, EXAMPLES)
        found[name] = tested(model, new_reader(model, params, task, PASSES, seed), task)
    return found


def untrained(model: MemoryModel, params: Params, task: Evidence) -> Params:
    """The parameters with a memory that nothing was trained in; its embeddings are still those of the run."""
    return {"params": params["params"] | {"memory": first_params(model, task, 0)["params"]["memory"]}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--untrained", action="store_true", help="a memory as it began, too, for each folder")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "new_questions.json")
    arguments = parser.parse_args()
    found = json.loads(arguments.out.read_text())["runs"] if arguments.out.exists() else {}

    def measure(name: str, model: MemoryModel, params: Params, spec: EvidenceSpec) -> None:
        size = state_bytes(lambda: model.apply(params, method="initial_state"))
        found[name] = {"answers": spec.answers, "state_bytes": size} | probed(model, params, spec)
        print(name, found[name], flush=True)
        runs = [f"runs/{run}" for run in found if not run.endswith(UNTRAINED)]
        command = shlex.join(["python", "benchmarks/new_questions.py", *runs, "--untrained"])
        result = {"command": command, "machine": platform.machine(), "jax": jax.__version__, "runs": found}
        arguments.out.write_text(json.dumps(result, indent=1) + "\n")

    for folder in arguments.runs:
        config = read_config(folder)
        require(isinstance(config.task, EvidenceSpec), f"{folder} is no run on evidence; see configs/evidence.py")
        model, params = trained_model(folder)
        require(isinstance(model, MemoryModel), f"{folder} is no run of a memory")
        size = folder.parent.name
        if arguments.untrained and f"{size}{UNTRAINED}" not in found:
            measure(f"{size}{UNTRAINED}", model, untrained(model, params, Evidence(config.task)), config.task)
        measure(f"{size}/{folder.name}", model, params, config.task)


if __name__ == "__main__":
    sys.exit(main())
