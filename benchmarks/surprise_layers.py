"""The layers of memjax that bench_surprise.py times: LMM, also token by token and with a deep memory, and MAC."""

from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax.layers import LMM, MAC

LAYERS = ("LMM", "LMM sequential", "LMM deep", "MAC")
INFERENCE = ("LMM sequential",)  # forward alone: for a gradient it would keep a state for every token


def make(name: str, heads: int, width: int, expansion: float, chunk: int) -> nn.Module:
    """The layer of this name; width: of a head; chunk: a segment of MAC, too."""
    sizes = {"width": heads * width, "heads": heads, "chunk": chunk}
    if name == "MAC":
        return MAC(**sizes, window=chunk)
    if name == "LMM deep":
        return LMM(**sizes, gradient_at="chunk", memory_layers=2, expansion=int(expansion))
    return LMM(**sizes, impl="sequential" if name == "LMM sequential" else "closed_form")


def read_whole(layer: nn.Module, params: dict, x: jax.Array) -> jax.Array:
    """What comes out for a sequence."""
    return layer.apply(params, x)[0]


def read_in_blocks(layer: nn.Module, block: int, params: dict, x: jax.Array) -> jax.Array:
    """The same, so many tokens at a time where that many divide the sequence, with the state between."""
    if x.shape[0] % block or x.shape[0] == block:
        return read_whole(layer, params, x)

    def step(state, x):
        out, state = layer.apply(params, x, state)
        return state, out

    # The first block alone: its state has the structure and the types of all later ones.
    blocks = x.reshape(-1, block, x.shape[1])
    first, state = layer.apply(params, blocks[0])
    state = jax.tree.map(jnp.asarray, state)
    rest = jax.lax.scan(step, state, blocks[1:])[1]
    return jnp.concatenate([first[None], rest]).reshape(x.shape)


def jobs(layer: nn.Module, block: int) -> dict:
    """`forward` and `gradient`, of a mean square in the weights and in x: functions of params and x."""

    def loss(params, x):
        return jnp.square(read_whole(layer, params, x)).mean()

    return {"forward": partial(read_in_blocks, layer, block), "gradient": jax.value_and_grad(loss, argnums=(0, 1))}
