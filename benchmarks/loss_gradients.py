"""How hard does each loss pull at the memory, and do they pull the same way?

    python benchmarks/loss_gradients.py runs/small/rehearsal-0 [runs/small/rehearsal-1 ...]

Of each run that was rehearsed, at its newest checkpoint: the gradient of each loss, as the step weighs it, with
respect to the memory's own parameters, over 256 training examples. Kept in results/loss_gradients.json: the norm of
each, and the cosine between each two of them; printed are the norms as multiples of the answer loss's.
"""

import argparse
import itertools
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
from memjax.training.phase import load_phase
from memjax.training.step import step_fields
from memjax.typing import Params

ROOT = Path(__file__).parents[1]
EXAMPLES, TOGETHER = 256, 32
LOSSES = ("answer", "recollection", "familiarity")


def gradients(folder: Path) -> dict[str, Any]:
    """What a run's losses ask of its memory.

    Args:
        folder: of the run.

    Returns:
        `step`; the `loss` of each; its `norm`; and the `cosine` between each two.

    Raises:
        MemjaxError: for a run that was not rehearsed, or that has no checkpoint.
    """
    config = read_config(folder)
    require(getattr(config, "rehearses", False), f"{folder} is no run of a memory that was rehearsed")
    experiment = prepare(config)
    *before, last = experiment.phases
    frozen = load_phase(experiment, folder, before[0])[1] if before else None
    step, params = load_phase(experiment, folder, last)
    weights = jnp.array([getattr(config.rehearsal, name) for name in LOSSES])

    @jax.jit
    def one(params: Params, frozen: Params, batch: dict, key: jax.Array) -> tuple[jax.Array, jax.Array]:
        batch = experiment.recipe.layout.extend(batch | step_fields(key, step, TOGETHER))

        def losses(memory: Params) -> jax.Array:
            own = {"params": params["params"] | {"memory": memory}}
            metrics = last.loss(own, frozen, batch)[1]
            return jnp.stack([metrics[f"{name}_loss"] for name in LOSSES])

        values, pull = jax.vjp(losses, params["params"]["memory"])
        flat = [jax.flatten_util.ravel_pytree(pull(each)[0])[0] for each in jnp.diag(weights)]
        return values, jnp.stack(flat)

    parts = []
    for start in range(0, EXAMPLES, TOGETHER):
        batch = experiment.task.examples("train", np.arange(start, start + TOGETHER))
        parts.append(jax.device_get(one(params, frozen, batch, jax.random.key(start))))
    values, flat = (np.mean(each, axis=0, dtype=np.float64) for each in zip(*parts))
    norms = np.linalg.norm(flat, axis=1)
    cosines = {
        f"{a} and {b}": round(float(flat[i] @ flat[j] / (norms[i] * norms[j])), 4)
        for (i, a), (j, b) in itertools.combinations(enumerate(LOSSES), 2)
    }
    return {
        "step": step,
        "loss": dict(zip(LOSSES, values.round(4).tolist())),
        "norm": dict(zip(LOSSES, norms.round(6).tolist())),
        "cosine": cosines,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "loss_gradients.json")
    arguments = parser.parse_args()
    found = {}
    for folder in arguments.runs:
        found[folder.name] = measured = gradients(folder)
        relative = {name: norm / measured["norm"]["answer"] for name, norm in measured["norm"].items()}
        print(folder.name, {name: f"{ratio:.2f}x" for name, ratio in relative.items()}, measured["cosine"])
    command = shlex.join(
        ["python", "benchmarks/loss_gradients.py", *(f"runs/small/{run.name}" for run in arguments.runs)]
    )
    result = {"command": command, "machine": platform.machine(), "jax": jax.__version__, "runs": found}
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
