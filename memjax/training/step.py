"""One training step: pure, compiled once, its state donated."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, PartitionSpec

from memjax.config import OptimizerConfig
from memjax.training.data import same
from memjax.training.objective import Example, Loss, Metrics
from memjax.training.sharding import ROWS, fsdp_specs, placed, replicated, row_parts
from memjax.typing import Array, Int, Key, Params


class TrainState(NamedTuple):
    """All that a step changes. Randomness is not part of it: a step's key is a function of the seed and its number.

    Attributes:
        step: how many were made.
        params: after them.
        opt_state: of the optimizer.
    """

    step: Array
    params: Params
    opt_state: optax.OptState


def make_optimizer(config: OptimizerConfig, steps: int) -> optax.GradientTransformation:
    """Adam as the config says, for a run of this many steps."""
    rise = optax.linear_schedule(0.0, config.learning_rate, config.warmup_steps)
    fall = optax.linear_schedule(config.learning_rate, 0.0, config.decay_steps, max(steps - config.decay_steps, 0))
    if not config.decay_steps:
        fall = optax.constant_schedule(config.learning_rate)

    def schedule(count: Array) -> Array | float:
        # Step 0 must move too: the ramp counts from 1.
        return jnp.minimum(rise(count + 1), fall(count)) if config.warmup_steps else fall(count)

    return optax.chain(optax.clip_by_global_norm(config.clip_norm), optax.adam(schedule))


def init_state(params: Params, optimizer: optax.GradientTransformation) -> TrainState:
    """The state before the first step."""
    return TrainState(jnp.zeros((), jnp.int32), params, optimizer.init(params))


def make_step(
    loss: Loss,
    optimizer: optax.GradientTransformation,
    mesh: Mesh,
    batch_size: int,
    microbatches: int,
    seed: int,
    extend: Callable[[Example], Example] = same,
) -> Callable[[TrainState, Params, Example], tuple[TrainState, Metrics]]:
    """A step of training, jitted over a mesh.

    Args:
        loss: what is minimised.
        optimizer: as `make_optimizer` makes one.
        mesh: all devices.
        batch_size: rows of a batch, of all processes.
        microbatches: into how many parts the rows of a device are cut, one after another.
        seed: of the keys of all examples.
        extend: adds what an example takes from other rows, before the batch is cut into microbatches (see `Layout`).

    Returns:
        `step(state, frozen, batch) -> (state, metrics)`; the old state's buffers are reused. To the metrics it
        adds `grad_norm` and `param_norm`.
    """
    gradient = jax.grad(loss, has_aux=True)
    if microbatches > 1:
        gradient = optax.microbatching.microbatch(
            gradient,
            argnums=2,
            microbatch_size=batch_size // row_parts(mesh) // microbatches,
            accumulator=optax.microbatching.AccumulationType.MEAN,
        )

    def step(state: TrainState, frozen: Params, batch: Example) -> tuple[TrainState, Metrics]:
        key = jax.random.fold_in(jax.random.key(seed), state.step)
        extended = extend(batch | step_fields(key, state.step, batch_size))
        gradients, metrics = over_rows(gradient, mesh, state.params, frozen, extended)
        updates, opt_state = optimizer.update(gradients, state.opt_state, state.params)
        params = optax.apply_updates(state.params, updates)
        # Of the new parameters: what is not finite must be seen before it is saved.
        metrics |= {"grad_norm": optax.global_norm(gradients), "param_norm": optax.global_norm(params)}
        new = TrainState(state.step + 1, params, opt_state)
        return jax.lax.with_sharding_constraint((new, metrics), (placed(mesh, new), replicated(mesh)))

    return jax.jit(step, donate_argnums=0)


def step_fields(key: Key, step: Int[Array, ""] | int, batch_size: int) -> dict[str, Array]:
    """What a step adds to a batch: of each row a key of its own, and the number of the step."""
    return {"key": jax.random.split(key, batch_size), "step": jnp.full(batch_size, step)}


def over_rows(gradient: Callable, mesh: Mesh, params: Params, frozen: Params, batch: Example) -> tuple[Params, Metrics]:
    """Gradients and metrics, each the mean over all devices' rows; gradients lie as their parameters do.

    Each device takes its rows alone, so that there are messages before and after, and none inside: left to the
    compiler, the gradient of a scan over a stream is summed over the devices at every segment.
    """
    specs, frozen_specs = (fsdp_specs(mesh, tree) for tree in (params, frozen))
    axes = tuple(axis for axis in ROWS if mesh.shape[axis] > 1)

    def gather(kept: Array, spec: PartitionSpec) -> Array:
        return jax.lax.all_gather(kept, "fsdp", axis=spec.index("fsdp"), tiled=True) if "fsdp" in spec else kept

    def mean(gradient: Array, spec: PartitionSpec) -> Array:
        """Over all devices; of what is cut over fsdp only the part that is kept here."""
        if "fsdp" not in spec:
            return jax.lax.pmean(gradient, axes)
        kept = jax.lax.psum_scatter(gradient, "fsdp", scatter_dimension=spec.index("fsdp"), tiled=True)
        return jax.lax.psum(kept, tuple(set(axes) - {"fsdp"})) / row_parts(mesh)

    def local(params: Params, frozen: Params, batch: Example) -> tuple[Params, Metrics]:
        params, frozen = jax.tree.map(gather, params, specs), jax.tree.map(gather, frozen, frozen_specs)
        gradients, metrics = gradient(params, frozen, batch)
        return jax.tree.map(mean, gradients, specs), jax.lax.pmean(metrics, axes)

    return jax.shard_map(
        local,
        mesh=mesh,
        in_specs=(specs, frozen_specs, PartitionSpec(ROWS)),
        out_specs=(specs, PartitionSpec()),
        axis_names=set(ROWS),
        check_vma=False,
    )(params, frozen, batch)
