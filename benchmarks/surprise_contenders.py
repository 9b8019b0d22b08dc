"""What bench_surprise.py times: ours, memjax's layers and titans-pytorch, with a check that equals are equal."""

import dataclasses
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import counting
import jax
import jax.numpy as jnp
import numpy as np
import surprise_layers
import timing

from memjax import ops
from memjax.typing import PyTree

try:
    import torch_titans
except ImportError:
    torch_titans = None

TOLERANCE = 1e-4
BLOCK = 2048  # tokens
JOBS = ("forward", "gradient")
OURS = ("token", "chunk", "mlp", "sequential", "associative")
THEIRS = {  # depth of the memory, tokens that share a gate
    "titans, per token": (1, 1),
    "titans, per chunk": (1, 64),
    "titans mlp, per token": (2, 1),
    "titans mlp, per chunk": (2, 64),
}
CONTENDERS = (*OURS, *surprise_layers.LAYERS, *(THEIRS if torch_titans is not None else ()))


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of one benchmark run."""

    lengths: tuple[int, ...] = (2048, 4096, 16384)
    heads: int = 4
    width: int = 64  # of a head
    expansion: float = 4.0  # of the MLP memory
    chunk: int = 64
    matmul: int = 2048  # rows and columns of the matrices whose product is the measure
    peaks_of: tuple[str, ...] = CONTENDERS  # whose peak memory is measured, in a process for each


QUICK = Sizes(lengths=(128,), heads=2, width=8, matmul=128, peaks_of=("chunk",))


def layer(params: dict, state: PyTree, x: jax.Array, *, name: str, chunk: int) -> tuple[PyTree, jax.Array]:
    """Our side: the layer of titans-pytorch, `[L, d]` in and out, around our op."""
    heads = params["lr"][1].shape[0]

    def norm(weight):
        return x * jax.lax.rsqrt((x**2).mean(-1, keepdims=True) + jnp.finfo(x.dtype).eps) * weight

    def split(y):
        return y.reshape(*y.shape[:-1], heads, -1).swapaxes(0, 1)

    stored, read = norm(params["store_norm"]), norm(params["read_norm"])
    q, k, v = split(read @ params["q"]), split(stored @ params["k"]), split(stored @ params["v"])
    lr, momentum, decay = (stored @ params[gate][0] + params[gate][1] for gate in ("lr", "momentum", "decay"))
    # Its loss is the mean of |M(k) - v|^2 over the width, ours half the sum.
    lr = jax.nn.sigmoid(lr) * (2 / v.shape[-1])
    gates = [gate.T for gate in (jax.nn.log_sigmoid(-decay), jax.nn.log_sigmoid(momentum), lr)]
    out, state = jax.vmap(partial(memory, name, chunk))(state, q, k, v, *gates)
    out = out * jax.nn.sigmoid(read @ params["read_gate"]).T[:, :, None]
    return state, out.swapaxes(0, 1).reshape(x.shape) @ params["out"]


def memory(name: str, chunk: int, state: tuple[PyTree, PyTree], *tokens: jax.Array):
    """One head. Its state: the memory's matrices and their momenta."""
    if name == "mlp":
        gelu = partial(jax.nn.gelu, approximate=False)
        out, end = ops.surprise_mlp(state[0], *tokens, ops.SurpriseState(*state), activation=gelu, chunk_size=chunk)
        return out, (end.memory, end.momentum)
    impl = name if name in ("sequential", "associative") else "closed_form"
    size = len(tokens[0]) if name == "sequential" else chunk  # the plain scan knows no chunks
    start = ops.SurpriseState(*(matrices[0] for matrices in state))
    gradient_at = "chunk" if name == "chunk" else "token"
    out, end = ops.surprise_linear(*tokens, start, gradient_at=gradient_at, impl=impl, chunk_size=size)
    return out, ((end.memory,), (end.momentum,))


def start_of(params: dict) -> tuple[PyTree, PyTree]:
    """The learned memory, and no momentum."""
    return params["memory"], jax.tree.map(jnp.zeros_like, params["memory"])


def read_whole(params: dict, x: jax.Array, *, name: str, chunk: int) -> jax.Array:
    """The layer over a sequence."""
    return layer(params, start_of(params), x, name=name, chunk=chunk)[1]


def read_in_blocks(params: dict, x: jax.Array, *, name: str, chunk: int) -> jax.Array:
    """The same, `BLOCK` tokens at a time where that many divide the sequence."""
    if x.shape[0] % BLOCK:
        return read_whole(params, x, name=name, chunk=chunk)
    step = partial(layer, params, name=name, chunk=chunk)
    return jax.lax.scan(step, start_of(params), x.reshape(-1, BLOCK, x.shape[1]))[1].reshape(x.shape)


def peer(sizes: Sizes, name: str, seed: int):
    """The contender of titans-pytorch; its weights are a function of its sizes and the seed."""
    depth, gates_every = THEIRS[name]
    gates_every = 1 if gates_every == 1 else sizes.chunk
    return torch_titans.make(sizes.heads, sizes.width, depth, sizes.expansion, sizes.chunk, gates_every, seed)


def params_of(sizes: Sizes, name: str, seed: int) -> dict:
    """Our weights: the peer's if there is one, else some of the same shapes."""
    depth = 2 if name == "mlp" else 1
    if torch_titans is not None:
        module = peer(sizes, "titans mlp, per token" if depth == 2 else "titans, per token", seed)
        return jax.tree.map(jnp.asarray, torch_titans.weights(module))
    keys = iter(jax.random.split(jax.random.key(seed), 16))
    heads, width, inside = sizes.heads, sizes.heads * sizes.width, int(sizes.expansion * sizes.width)

    def normal(*shape):
        return (
            jax.random.normal(next(keys), shape) * (3 * shape[-2]) ** -0.5
        )  # as torch begins; with more the MLP diverges

    widths = (sizes.width, inside, sizes.width) if depth == 2 else (sizes.width, sizes.width)
    params = {name: normal(width, width) for name in ("q", "k", "v", "out")}
    params |= {
        name: (normal(width, heads), jnp.full(heads, bias))
        for name, bias in (("lr", -3.0), ("momentum", 0.0), ("decay", -4.0))
    }
    params |= {"store_norm": jnp.ones(width), "read_norm": jnp.ones(width), "read_gate": normal(width, heads)}
    return params | {"memory": tuple(normal(heads, a, b) for a, b in itertools.pairwise(widths))}


def stream(sizes: Sizes, length: int, seed: int) -> np.ndarray:
    """One sequence of unit variance `[L, H * d]`."""
    shape = (length, sizes.heads * sizes.width)
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def ready(sizes: Sizes, name: str, job: str, length: int, seed: int) -> tuple[Callable[[], Any], dict]:
    """A contender ready to be called, and the facts of its compilation."""
    x = stream(sizes, length, seed)
    if name in THEIRS:
        return torch_titans.job(job, peer(sizes, name, seed), x[None]), {}
    x = jnp.asarray(x)
    if name in surprise_layers.LAYERS:
        one = surprise_layers.make(name, sizes.heads, sizes.width, sizes.expansion, sizes.chunk)
        params = jax.jit(one.init)(jax.random.key(seed), x[: sizes.chunk])
        function = surprise_layers.jobs(one, BLOCK)[job]
    else:
        params, kind = params_of(sizes, name, seed), {"name": name, "chunk": sizes.chunk}
        slope = jax.value_and_grad(lambda p, x: jnp.square(read_whole(p, x, **kind)).mean(), argnums=(0, 1))
        function = partial(read_in_blocks, **kind) if job == "forward" else slope
    run, facts = timing.compiled(function, params, x)
    facts["flops"] = counting.products(jax.make_jaxpr(function)(params, x).jaxpr)["flops"]
    return partial(run, params, x), facts


def matmul(sizes: Sizes) -> Callable[[], Any]:
    """One product of large matrices, ready to be called."""
    a, b = jax.random.normal(jax.random.key(0), (2, sizes.matmul, sizes.matmul))
    return partial(timing.compiled(partial(jnp.matmul, precision="highest"), a, b)[0], a, b)


def check(sizes: Sizes, seed: int) -> dict[str, float]:
    """Largest differences between outputs of what should be equal, on sequences that end inside a chunk and do not."""
    pairs = [("token", "sequential"), ("token", "associative"), ("LMM", "LMM sequential")]
    if torch_titans is not None:
        pairs += [("chunk", "titans, per token"), ("mlp", "titans mlp, per token")]
    found = {}

    def compare(what: str, ours: np.ndarray, other: np.ndarray) -> None:
        found[what] = float(np.abs(ours - other.reshape(ours.shape)).max() / np.abs(ours).max())
        if not found[what] < TOLERANCE:
            raise SystemExit(f"not the same function: {what} differ by {found[what]:.2e}")

    for length in (3 * sizes.chunk, 2 * sizes.chunk + 5):
        for names in pairs:
            both = (np.asarray(ready(sizes, name, "forward", length, seed)[0]()) for name in names)
            compare(f"{names[0]} and {names[1]}, L={length}", *both)
    x = jnp.asarray(stream(sizes, 2 * BLOCK, seed))
    for name in ("token", "chunk", "mlp"):
        params = params_of(sizes, name, seed)
        ways = (jax.jit(partial(read, name=name, chunk=sizes.chunk)) for read in (read_whole, read_in_blocks))
        compare(f"{name}, whole and in blocks, L={2 * BLOCK}", *(np.asarray(way(params, x)) for way in ways))
    for name in surprise_layers.LAYERS:
        one = surprise_layers.make(name, sizes.heads, sizes.width, sizes.expansion, sizes.chunk)
        params = jax.jit(one.init)(jax.random.key(seed), x[: sizes.chunk])
        ways = (surprise_layers.read_whole, partial(surprise_layers.read_in_blocks, block=BLOCK))
        both = (np.asarray(jax.jit(partial(way, one))(params=params, x=x)) for way in ways)
        compare(f"{name}, whole and in blocks, L={2 * BLOCK}", *both)
    return found
