"""What do the heads of a run's layers write and forget of the text behind a needle, and is the needle found?

    python benchmarks/needle_gates.py runs/needle/lmm-0 [runs/needle/lmm-1 ...]

Of each run of surprise layers on needles, at its newest checkpoint, over 10 texts of 4,096 characters: for each head
the rate of a write (the median over characters), and how often all is forgotten (the sum of `1 - keep` over a text);
and the share of characters of the answers that are right. Where is a needle lost? Of texts with the needle in their
first two fifths the question is also read from states put together: the last block's as it was in the middle of the
text, those of the blocks below from its end, and the other way round. Kept in results/needle_gates.json.
"""

import argparse
import json
import platform
import shlex
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from memjax.errors import require
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import read_config
from memjax.experiments.sequence import build_sequence
from memjax.models import SequenceModel
from memjax.tasks import NeedleSpec
from memjax.tasks.sequence import NOTHING
from memjax.training.phase import load_phase
from memjax.typing import Batch, Params

ROOT = Path(__file__).parents[1]
LENGTH, TEXTS = 4096, 10
QUESTION = 40  # characters at a text's end, in which the question and its answer are


def gates(folder: Path) -> dict[str, Any]:
    """What a run's layers do to a text, and what they answer.

    Args:
        folder: of the run.

    Returns:
        `step`; `accuracy`, of characters of answers; `heads`, for each layer and head its `rate` and how much it has
        `forgotten`; `last_then` and `lower_then`, the accuracy with the last block's state of the middle of a text, and
        with those of the blocks below; `from_end`, without either, of the same texts.

    Raises:
        MemjaxError: for a run without surprise layers, on another task, or without a checkpoint.
    """
    config = read_config(folder)
    needle = isinstance(config.task, NeedleSpec) and config.model.remembers
    require(needle, f"{folder} is no run of a surprise memory on needles")
    experiment = prepare(config)
    step, params = load_phase(experiment, folder, experiment.phases[-1])
    task, model = experiment.task, build_sequence(config.model, experiment.task.shape)
    tags = task.examples("test", np.arange(task.size("test")))["length"]
    rows = np.flatnonzero(tags == task.shape.tags["length"].index(str(LENGTH)))
    texts = task.examples("test", rows)
    batch = {name: values[:: -(-len(rows) // TEXTS)] for name, values in texts.items()}

    @jax.jit
    @jax.vmap
    def read(tokens: jax.Array) -> tuple[jax.Array, Any]:
        (logits, _), kept = model.apply(
            params, tokens, capture_intermediates=lambda _, method: method == "read_gates", mutable="intermediates"
        )
        return logits.argmax(-1), kept["intermediates"]

    answers, kept = jax.device_get(read(jnp.asarray(batch["tokens"])))
    asked = batch["target"] != NOTHING
    settings, heads = config.model, []
    for layer in range(settings.depth):
        log_keep, log_momentum, rate = jax.tree.leaves(kept[f"layers_{layer}"])
        forgotten = -np.expm1(log_keep).reshape(*rate.shape, -1).mean(-1).sum(1).mean(0)
        new = -np.expm1(log_momentum) if settings.bounds_tokens else 1.0
        rates = np.median(settings.bound * new * rate, axis=(0, 1))
        for head, (lost, written) in enumerate(zip(forgotten, rates, strict=True)):
            heads.append(
                {"layer": layer, "head": head, "rate": round(float(written), 3), "forgotten": round(float(lost), 1)}
            )
    accuracy = float((answers == batch["target"])[asked].mean())
    early = {name: values[texts["depth"] <= 1] for name, values in texts.items()}
    return {"step": int(step), "accuracy": round(accuracy, 3), "heads": heads, **put_together(model, params, early)}


def put_together(model: SequenceModel, params: Params, batch: Batch) -> dict[str, float]:
    """Accuracy of characters, where the question is read from states of the middle of a text and of its end.

    Args:
        model: of surprise layers.
        params: its parameters.
        batch: texts with the needle in their first two fifths.
    """

    @jax.jit
    @jax.vmap
    def read(tokens: jax.Array, target: jax.Array) -> dict[str, jax.Array]:
        half, asked = len(tokens) // 2, target[-QUESTION:]
        _, then = model.apply(params, tokens[:half])
        _, now = model.apply(params, tokens[half:-QUESTION], then)
        states = {
            "from_end": now,
            "last_then": (*now[:-1], then[-1]),
            "lower_then": (*then[:-1], now[-1]),
        }
        right = {name: model.apply(params, tokens[-QUESTION:], s)[0].argmax(-1) == asked for name, s in states.items()}
        return {name: (one & (asked != NOTHING)).sum() / (asked != NOTHING).sum() for name, one in right.items()}

    found = read(jnp.asarray(batch["tokens"]), jnp.asarray(batch["target"]))
    return {name: round(float(values.mean()), 3) for name, values in found.items()}


def main() -> None:
    """Measures the runs, and writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "needle_gates.json")
    arguments = parser.parse_args()
    found = {}
    for folder in arguments.runs:
        found[folder.name] = measured = gates(folder)
        print(folder.name, measured["accuracy"], [(head["rate"], head["forgotten"]) for head in measured["heads"]])
    names = [f"runs/needle/{run.name}" for run in arguments.runs]
    command = shlex.join(["python", "benchmarks/needle_gates.py", *names])
    result = {"command": command, "machine": platform.machine(), "jax": jax.__version__, "runs": found}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
