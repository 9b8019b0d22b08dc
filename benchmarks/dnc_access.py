"""One access to a DNC's memory, as memjax and PyPI's `dnc` do it: there the two define the same thing.

    python benchmarks/dnc_access.py

writes tests/oracles/pypi_dnc.json, with which CI tests ours where there is no PyTorch.
"""

import dataclasses
import importlib.metadata
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from memjax import ops

ROOT = Path(__file__).parents[1]
OUT = ROOT / "tests" / "oracles" / "pypi_dnc.json"
Arrays = dict[str, np.ndarray]


@dataclasses.dataclass(frozen=True)
class DNCSizes:
    """Sizes of one DNC."""

    rows: int
    memory_width: int
    heads: int
    hidden: int


SMALL = (DNCSizes(6, 4, 2, 0), DNCSizes(5, 3, 1, 0), DNCSizes(4, 8, 3, 0))  # of the file; no controller takes part


def random_access(sizes: DNCSizes, seed: int) -> tuple[np.ndarray, Arrays]:
    """An interface as PyPI's takes it, and the state before."""
    rng = np.random.default_rng(seed)
    rows, width, heads = sizes.rows, sizes.memory_width, sizes.heads

    def simplex(*shape):
        return rng.dirichlet(np.full(rows, 0.3), shape) * rng.random((*shape, 1))

    links = rng.random((rows, rows)) / rows
    np.fill_diagonal(links, 0)
    start = {
        "memory": rng.normal(size=(rows, width)),
        "usage": rng.random(rows),
        "write_weights": simplex(),
        "read_weights": simplex(heads),
        "links": links,
        "precedence": simplex(),
    }
    flat = rng.normal(size=ops.dnc_interface_size(width, heads))
    strengths = [*range(heads * width, heads * width + heads), heads * width + heads + width]
    flat[strengths] = 2 + np.abs(flat[strengths])  # ours are never below 1
    return flat, start


def our_interface(theirs: np.ndarray, sizes: DNCSizes) -> np.ndarray:
    """Numbers that say to our memory what these say to theirs: tanh of keys and of what is written, its own strengths,
    and the read modes in its order (before, after, by content).
    """
    heads, width = sizes.heads, sizes.memory_width
    cuts = np.cumsum([heads * width, heads, width, 1, width, width, heads + 2])
    keys, strengths, key, strength, erase, add, gates, modes = np.split(theirs, cuts)

    def softplus(x):
        return np.log1p(np.exp(x))

    def less_one(x):  # 1 + softplus(y) = softplus(x)
        return np.log(np.expm1(softplus(x) - 1))

    modes = modes.reshape(heads, 3)[:, [0, 2, 1]].ravel()
    parts = (np.tanh(keys), less_one(strengths), np.tanh(key), less_one(strength), erase, np.tanh(add), gates, modes)
    return np.concatenate(parts)


def our_access(sizes: DNCSizes, flat: np.ndarray, start: Arrays) -> Arrays:
    """The state after `ops.dnc_step`, with a controller that says this whatever it sees."""
    heads, width = sizes.heads, sizes.memory_width
    idle = {"hidden": np.zeros(1), "cell": np.zeros(1), "reads": np.zeros((heads, width))}
    state = ops.DNCState(**{name: jnp.asarray(x, jnp.float32) for name, x in (idle | start).items()})
    controller = ops.LSTMParams(jnp.zeros((1, 4)), jnp.zeros((1 + heads * width, 4)), jnp.zeros(4))
    said = jnp.asarray(our_interface(flat, sizes), jnp.float32)
    params = ops.ExternalParams(controller, ops.InterfaceParams(jnp.zeros((1, said.shape[0])), said))
    after = ops.dnc_step(params, state, jnp.zeros(4))._asdict()
    return {name: np.asarray(x) for name, x in after.items() if name not in ("hidden", "cell")}


def plain(arrays: Arrays) -> dict[str, list]:
    """As JSON can hold them."""
    return {name: x.astype(float).round(8).tolist() for name, x in arrays.items()}


def main() -> None:
    """Writes what PyPI's dnc does with each of the small sizes."""
    import torch_dnc

    cases = []
    for seed, sizes in enumerate(SMALL):
        flat, start = random_access(sizes, seed)
        after = torch_dnc.access(sizes.rows, sizes.memory_width, sizes.heads, flat, start)
        arrays = plain({"flat": flat}) | {"start": plain(start), "after": plain(after)}
        cases.append({"sizes": dataclasses.asdict(sizes)} | arrays)
    said = {"command": "python benchmarks/dnc_access.py", "dnc": importlib.metadata.version("dnc"), "cases": cases}
    OUT.write_text(json.dumps(said) + "\n")
    print(f"wrote {OUT}")


if __name__ == "__main__":
    main()
