"""What bench_write.py times: ours and the PyTorch port, with a check that they are the same model."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import timing

from memjax import memories, ops
from memjax.memories import memorize

try:
    import torch
    import torch_rehearsal
except ImportError:
    torch = None

TOLERANCE = 1e-4


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of one benchmark run."""

    batch: int = 32
    lengths: tuple[int, ...] = (20, 200, 2000)
    segment: int = 10
    slots: int = 20
    width: int = 128
    layers: int = 3
    heads: int = 4
    questions: tuple[int, ...] = (1, 10, 100, 1000)


QUICK = Sizes(batch=2, lengths=(4,), segment=3, slots=4, width=8, layers=1, heads=2, questions=(1, 5))


class JaxSide:
    """The JAX contenders: functions of `(params, items [B, T, N, d])`."""

    def __init__(self, sizes: Sizes, seed: int):
        self.memory = memories.create(
            "rehearsal",
            slots=sizes.slots,
            width=sizes.width,
            segment=sizes.segment,
            layers=sizes.layers,
            heads=sizes.heads,
        )
        example = jnp.ones((1, sizes.segment, sizes.width))
        self.params = jax.jit(partial(self.memory.init, method=memorize))(jax.random.key(seed), example)
        # Biases start at zero; a comparison of weights copied wrongly should not pass because of that.
        leaves, tree = jax.tree.flatten(self.params)
        keys = jax.random.split(jax.random.key(seed + 1), len(leaves))
        leaves = [x + 0.02 * jax.random.normal(k, x.shape) for x, k in zip(leaves, keys, strict=True)]
        self.params = jax.tree.unflatten(tree, leaves)
        self.optimizer = optax.adam(1e-3)
        self.forwards = {"encoder": self.encode, "memorize": self.memorize, "plain": self.plain}

    def encode(self, params, items, remat=False):
        """The encoder alone, over all segments; with `remat` block by block, of the size that memorize takes."""

        def encode(segments):
            real = jnp.ones(segments.shape[:2], bool)
            return self.memory.apply(params, segments, real, method=lambda m, *a: m.encode_segments(*a))

        if not remat:
            return jax.vmap(encode)(items)
        length, longest = items.shape[1], max(1, 100 // items.shape[2])
        block = next(size for size in range(longest, 0, -1) if length % size == 0)
        blocks = items.reshape(-1, length // block, block, *items.shape[2:]).swapaxes(0, 1)
        return jax.lax.map(jax.checkpoint(jax.vmap(encode), prevent_cse=False), blocks)

    def memorize(self, params, items, remat=False):
        """What the library does."""
        return jax.vmap(lambda x: self.memory.apply(params, x, remat=remat, method=memorize)[0])(items)

    def plain(self, params, items):
        """Segment by segment: encode it, write it."""
        weights = params["params"]
        write = ops.SlotWriteParams(
            ops.AdditiveParams(*(weights[f"attention_{name}"] for name in ops.AdditiveParams._fields)),
            ops.GRUParams(*(weights[f"update_{name}"] for name in ops.GRUParams._fields)),
        )

        def step(slots, segment):
            real = jnp.ones(segment.shape[:1], bool)
            encoded = self.memory.apply(params, segment[None], real[None], method=lambda m, *a: m.encode_segments(*a))[
                0
            ]
            return ops.write_segment(write, slots, encoded, real), None

        start = self.memory.apply(params, method="initial_state")
        return jax.vmap(lambda x: jax.lax.scan(step, start, x)[0])(items)

    def job(self, job: str, name: str, items, remat: bool = False) -> tuple[Callable[[], Any], dict[str, float]]:
        """A contender ready to run, compiled ahead of time, and the facts of its compilation."""
        forward = partial(self.forwards[name], remat=True) if remat else self.forwards[name]
        if job == "forward":
            run, facts = timing.compiled(forward, self.params, items)
            return partial(run, self.params, items), facts
        loss_and_gradient = jax.value_and_grad(lambda p, x: jnp.square(forward(p, x)).mean())
        if job == "gradient":
            run, facts = timing.compiled(loss_and_gradient, self.params, items)
            return partial(run, self.params, items), facts

        def step(params, state, items):
            loss, gradient = loss_and_gradient(params, items)
            updates, state = self.optimizer.update(gradient, state, params)
            return optax.apply_updates(params, updates), state, loss

        params = jax.tree.map(jnp.copy, self.params)
        state = self.optimizer.init(params)
        run, facts = timing.compiled(step, params, state, items, donate=(0, 1))
        held = [params, state]

        def call():
            *held[:], loss = run(*held, items)
            return loss

        return call, facts


class TorchSide:
    """The PyTorch port, in inference mode or training."""

    def __init__(self, sizes: Sizes, params: Any):
        torch.set_num_threads(timing.cores())
        self.make = partial(
            torch_rehearsal.port, params, sizes.slots, sizes.width, sizes.segment, sizes.layers, sizes.heads
        )

    def job(self, job: str, items: np.ndarray) -> Callable[[], Any]:
        """A contender ready to run."""
        model, items = self.make(), torch.tensor(np.asarray(items))
        if job == "forward":
            model.eval()

            def call():
                with torch.inference_mode():
                    return model(items).numpy()

            return call
        model.train()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

        def call():
            optimizer.zero_grad()
            loss = model(items).square().mean()
            loss.backward()
            if job == "step":
                optimizer.step()
            return loss.item()

        return call


def streams(sizes: Sizes, batch: int, length: int, seed: int) -> jax.Array:
    """Items of unit variance `[B, T, N, d]`."""
    rng = np.random.default_rng(seed)
    return jnp.asarray(rng.standard_normal((batch, length, sizes.segment, sizes.width), np.float32))


def check_same_model(ours: JaxSide, theirs: TorchSide | None, items) -> dict[str, float]:
    """Largest differences between the contenders' slots, and between their losses in three training steps."""
    slots = {name: np.asarray(ours.job("forward", name, items)[0]()) for name in ("memorize", "plain")}
    loss = {name: ours.job("step", name, items)[0] for name in ("memorize", "plain")}
    if theirs is not None:
        slots["torch"] = theirs.job("forward", items)()
        loss["torch"] = theirs.job("step", items)
    losses = {name: np.array([float(step()) for _ in range(3)]) for name, step in loss.items()}
    differences = {}
    for name in slots:
        if name != "memorize":
            differences[f"slots: {name}"] = float(np.abs(slots[name] - slots["memorize"]).max())
            differences[f"losses of 3 steps: {name}"] = float(np.abs(losses[name] - losses["memorize"]).max())
    for what, difference in differences.items():
        if not difference < TOLERANCE:
            raise SystemExit(f"not the same model: {what} differs from memorize by {difference:.2e}")
    return differences
