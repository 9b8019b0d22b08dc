"""The training step: compiled once, donated, the same however the batch is cut and wherever it lies."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from oracles.checking import assert_close, assert_finite
from training.tiny import Unequal, layout_of, random_params, tiny

from memjax.config import MeshConfig, OptimizerConfig
from memjax.experiments.prepare import prepare
from memjax.experiments.stream_qa import build, cut_to, of_other_rows, rehearsal_objective
from memjax.training.data import train_batches
from memjax.training.phase import initial_state
from memjax.training.sharding import make_mesh, place_batch
from memjax.training.step import init_state, make_optimizer, make_step

BATCH = 8


@functools.cache
def rehearsing():
    """`(task, loss, params as NumPy, traces)`; traces grows by one with each trace of the loss."""
    config = tiny(rehearsal__sampler="random")
    made = prepare(config)
    example = {name: value[0] for name, value in made.task.examples("train", np.arange(1)).items()}
    model = build(config, made.task.shape)
    params = jax.device_get(random_params(model, example))
    objective, traces = rehearsal_objective(model, config.rehearsal, True, None), []

    def loss(*arguments):
        traces.append(1)
        return objective(*arguments)

    return made.task, loss, params, traces


def mesh_of(devices):
    axes = ("data", "fsdp", "sequence", "model")
    types = (jax.sharding.AxisType.Auto,) * 4
    return jax.make_mesh((devices, 1, 1, 1), axes, axis_types=types, devices=jax.devices()[:devices])


@functools.cache
def trained(devices=8, microbatches=1, steps=2):
    """`(metrics of each step, parameters at the end, first state, traces)` by plain gradient descent."""
    task, loss, params, traces = rehearsing()
    mesh, optimizer = mesh_of(devices), optax.sgd(0.1)
    step = make_step(loss, optimizer, mesh, BATCH, microbatches, 7, of_other_rows)
    state = first = jax.device_put(init_state(params, optimizer), jax.NamedSharding(mesh, jax.P()))
    metrics, before = [], len(traces)
    counts = []
    for i in range(steps):
        batch = place_batch(mesh, task.examples("train", np.arange(i * BATCH, (i + 1) * BATCH)), BATCH)
        state, measured = step(state, None, batch)
        metrics.append(jax.device_get(measured))
        counts.append(len(traces) - before)
    return metrics, jax.device_get(state), first, counts


def test_the_step_is_compiled_once_for_all_batches():
    *_, counts = trained()
    assert counts[0] >= 1
    assert len(set(counts)) == 1


@pytest.mark.parametrize(("devices", "microbatches"), [(8, 1), (2, 2)])
def test_the_step_is_compiled_once_for_each_bucket(devices, microbatches):
    task, loss, params, traces = rehearsing()
    task, mesh, optimizer = Unequal(task), mesh_of(devices), optax.sgd(0.1)
    step = make_step(loss, optimizer, mesh, BATCH, microbatches, 7, of_other_rows)
    state = jax.device_put(init_state(params, optimizer), jax.NamedSharding(mesh, jax.P()))
    data = train_batches(task, layout_of(task)._replace(buckets=2, cut=cut_to), BATCH, 0)
    counts: dict[int, list[int]] = {}
    for _ in range(10):
        batch, before = next(data), len(traces)
        state, measured = step(state, None, place_batch(mesh, batch, BATCH))
        counts.setdefault(batch["stream"].shape[1], []).append(len(traces) - before)
        assert_finite(jax.device_get(measured))
    data.close()
    assert len(counts) == 2 and all(len(each) > 1 for each in counts.values())
    assert all(each[0] >= 1 and not any(each[1:]) for each in counts.values())


@pytest.mark.parametrize("name", ["sampler", "train"])
def test_what_a_bucket_cuts_off_changes_no_loss_and_no_gradient(name):
    """Of the history sampler's phase, and of rehearsal with what it drew: fragments, and negatives of other streams."""
    made = prepare(tiny())
    sampler, train = made.phases
    phase = {"sampler": sampler, "train": train}[name]
    task = Unequal(made.task)
    params, frozen = (initial_state(made, each).params for each in (phase, sampler))
    rows = np.flatnonzero(task.lengths("train") <= 3)[:BATCH]
    batch = task.examples("train", rows)
    gradient = jax.jit(jax.grad(phase.loss, has_aux=True))

    def gradients(batch):
        batch = {name: jnp.asarray(value) for name, value in batch.items()}
        return gradient(params, frozen, of_other_rows(batch | {"key": jax.random.split(jax.random.key(1), BATCH)}))

    whole, cut = gradients(batch), gradients(cut_to(batch, 3))
    assert set(whole[1]) > {"answer_loss"}
    assert_close(cut[1], whole[1], 1e-6)
    assert_close(cut[0], whole[0], 1e-5)


def test_the_old_states_buffers_are_reused():
    _, _, first, _ = trained()
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(first))


def test_a_step_counts_and_changes_every_parameter_that_is_used():
    metrics, state, *_ = trained()
    assert state.step == 2
    assert set(metrics[0]) == {
        "answer_loss", "accuracy", "aux_loss", "recollection_loss", "familiarity_loss", "grad_norm",
        "param_norm",
    }  # fmt: skip
    assert_finite(metrics)
    _, _, before, _ = rehearsing()
    for (path, old), new in zip(jax.tree.leaves_with_path(before), jax.tree.leaves(state.params), strict=True):
        where = jax.tree_util.keystr(path)
        if "['text']" not in where and not where.endswith("['key']['bias']"):
            assert (old != new).any(), where


def test_microbatches_change_nothing():
    whole, cut = trained(), trained(devices=4, microbatches=2)
    assert_close(cut[0], whole[0], 1e-5)
    assert_close(cut[1], whole[1], 1e-5)


def test_eight_devices_and_one_train_alike():
    many, one = trained(), trained(devices=1)
    assert_close(one[0], many[0], 1e-5)
    assert_close(one[1], many[1], 1e-5)


# What a step gives the loss: a loss that shows its batch.


def shown(step_number=0, seed=7):
    def loss(params, frozen, batch):
        streams = {name: batch[name].astype(float) for name in ("stream", "other_stream", "other_mask")}
        return (params * 0).sum(), streams | {"bits": jax.random.bits(batch["key"][0]).astype(float)[None]} | {
            "noise": jax.vmap(jax.random.normal)(batch["key"])
        }

    optimizer, mesh = optax.sgd(0.1), mesh_of(1)
    step = make_step(loss, optimizer, mesh, BATCH, 1, seed, of_other_rows)
    state = init_state(jnp.ones(()), optimizer)._replace(step=jnp.asarray(step_number, jnp.int32))
    rng = np.random.default_rng(0)
    batch = {"stream": rng.integers(0, 9, (BATCH, 3, 2)), "mask": rng.random((BATCH, 3, 2)) < 0.5}
    return batch, jax.device_get(step(state, None, place_batch(mesh, batch, BATCH))[1])


def test_negatives_come_from_another_stream_of_the_batch():
    batch, seen = shown()
    for i in range(BATCH):
        source = [j for j in range(BATCH) if (batch["stream"][j] == seen["other_stream"][i]).all()]
        assert source and source != [i]
        np.testing.assert_array_equal(seen["other_mask"][i], batch["mask"][source[0]])
    np.testing.assert_array_equal(seen["stream"], batch["stream"])


def test_randomness_is_a_function_of_seed_and_step_and_differs_between_examples():
    noises = [shown(*at)[1]["noise"] for at in ((0, 7), (0, 7), (1, 7), (0, 8))]
    np.testing.assert_array_equal(noises[0], noises[1])
    assert len(np.unique(np.concatenate(noises[1:]))) == 3 * BATCH


# The optimizer.


def rates(steps, **settings):
    """The learning rate of each step: Adam moves by it while the gradient is always the same."""
    config = OptimizerConfig(**{"learning_rate": 1.0, "warmup_steps": 0, "decay_steps": 0, "clip_norm": 1e9} | settings)
    optimizer = make_optimizer(config, steps)
    x = jnp.zeros(())
    state, result = optimizer.init(x), []
    for _ in range(steps):
        update, state = optimizer.update(jnp.ones(()), state, x)
        result.append(-float(update))
    return result


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [1, 1, 1, 1]),
        ({"learning_rate": 0.5}, [0.5] * 4),
        ({"warmup_steps": 4}, [1 / 4, 2 / 4, 3 / 4, 1, 1, 1]),
        ({"decay_steps": 3}, [1, 1, 1, 2 / 3, 1 / 3]),
        ({"warmup_steps": 2, "decay_steps": 2}, [1 / 2, 1, 1, 1, 1 / 2]),
        ({"decay_steps": 8}, [1, 7 / 8, 6 / 8, 5 / 8]),
    ],
    ids=str,
)
def test_the_learning_rate_rises_stays_and_falls(settings, expected):
    np.testing.assert_allclose(rates(len(expected), **settings), expected, rtol=1e-4)


def test_gradients_are_clipped_by_their_norm():
    config = OptimizerConfig(learning_rate=1.0, warmup_steps=0, decay_steps=0, clip_norm=1.0)
    optimizer = make_optimizer(config, 10)
    x = jnp.zeros(2)
    _, state = optimizer.update(jnp.array([30.0, 40.0]), optimizer.init(x), x)
    moments = [leaf for leaf in jax.tree.leaves(state) if leaf.shape == (2,)]
    np.testing.assert_allclose(moments[0], 0.1 * np.array([0.6, 0.8]), rtol=1e-5)


def test_a_batch_that_the_devices_do_not_divide_is_one_line():
    with pytest.raises(ValueError, match="batch_size 12 must be a multiple of 8, the devices") as caught:
        make_mesh(MeshConfig(-1, 1, 1, 1), 12)
    assert "\n" not in str(caught.value)
