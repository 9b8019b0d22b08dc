"""The gradient of each loss on the memory: together they are the gradient of what the step minimises."""

import jax
import jax.numpy as jnp
import loss_gradients
import numpy as np
import pytest
from rich.console import Console
from training.tiny import tiny

from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare
from memjax.training import experiment
from memjax.training.phase import load_phase
from memjax.training.runs import open_run


def test_the_pulls_add_up_to_the_gradient_of_the_loss(tmp_path, monkeypatch):
    monkeypatch.setattr(loss_gradients, "EXAMPLES", 8)
    monkeypatch.setattr(loss_gradients, "TOGETHER", 8)
    made = prepare(tiny("demo", rehearsal__sampler="random", rehearsal__recollection=1.5))
    experiment.train(made, tmp_path / "run", Console(quiet=True))
    found = loss_gradients.gradients(tmp_path / "run")

    (last,) = made.phases
    _, params = load_phase(made, tmp_path / "run", last)
    batch = {name: jnp.asarray(x) for name, x in made.task.examples("train", np.arange(8)).items()}
    batch = made.recipe.layout.extend(batch | {"key": jax.random.split(jax.random.key(0), 8)})
    whole = jax.jit(jax.grad(lambda params: last.loss(params, None, batch)[0]))(params)["params"]["memory"]
    norm, cosine = found["norm"], found["cosine"]
    squared = sum(x**2 for x in norm.values())
    squared += 2 * sum(c * np.prod([norm[name] for name in pair.split(" and ")]) for pair, c in cosine.items())
    np.testing.assert_allclose(squared**0.5, jnp.linalg.norm(jax.flatten_util.ravel_pytree(whole)[0]), rtol=1e-3)


def test_a_run_without_rehearsal_is_one_line(tmp_path):
    made = prepare(tiny("demo", rehearsal__fragments=0))
    open_run(made.settings, made.resolved, tmp_path)
    with pytest.raises(MemjaxError, match="no run of a memory that was rehearsed"):
        loss_gradients.gradients(tmp_path)
