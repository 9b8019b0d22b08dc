"""The alphabet of axes, and the array types that every annotation in memjax is written in.

B batch, T segments of a stream, N items of a segment, K slots, L stream length, C chunk, H heads, D width,
V vocabulary, F fragments, Q words of a query, A candidates, Z heads of a multi-head update, d* widths.

Public ops and memories turn annotations into checks, while JAX traces (`memjax.ops.checked`). All others cost users
nothing; the tests check them at run time (jaxtyping's import hook with beartype).
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int, PRNGKeyArray, PyTree, Shaped

Normalize = Literal["slots", "items"]
WriteNormalize = Literal["slots", "items", "mass"]
ReadScores = Literal["additive", "dot"]
Params = PyTree
State = PyTree
Key = PRNGKeyArray
Split = Literal["train", "valid", "test"]
SPLITS: tuple[Split, ...] = get_args(Split)
Stream = Int[Array, "T N"] | Float[Array, "T N dv"]  # ids of items, or items that are vectors
Batch = dict[str, np.ndarray]  # of examples, on the host: arrays with a leading axis B, by name
FloatDtype = Annotated[Any, "float16, bfloat16, float32 or float64, however JAX takes a dtype; or None"]


@runtime_checkable
class Examples(Protocol):
    """What every task is: any batch of examples at once, the same (split, index) always the same example.

    Attributes:
        shape: what a model must know of it; its `tags` name the values of each tag of an example.
        notes: what must be said beside any figure on this task.
    """

    shape: Any
    notes: Sequence[str]

    def size(self, split: Split) -> int:
        """How many examples the split has."""
        ...

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        """The examples with these indices.

        Args:
            split: which examples.
            indices: `[B]`, each in [0, size(split)).

        Returns:
            A batch.
        """
        ...


@runtime_checkable
class WithLengths(Examples, Protocol):
    """A task that also says how long its examples are, so that those of like length can share a batch."""

    def lengths(self, split: Split) -> np.ndarray:
        """The length of each example, without making any.

        Args:
            split: which examples.

        Returns:
            `[size(split)]` whole numbers from 1 on. Of a stream: so many segments, behind which it has no item.
        """
        ...


@runtime_checkable
class WithGroups(Examples, Protocol):
    """A task that also says which examples share a stream: what is right of them is not independent."""

    def groups(self, split: Split) -> np.ndarray:
        """The stream of each example, without making any.

        Args:
            split: which examples.

        Returns:
            `[size(split)]` whole numbers, the same for examples of one stream.
        """
        ...


@runtime_checkable
class Ordered(Examples, Protocol):
    """A task that also says whether its training examples are to be read in their order, as a curriculum wants it.

    Attributes:
        ordered: True for examples that are independent draws, or pieces of texts in their order: they are read by
            rising index, over and over, and not shuffled.
    """

    ordered: bool


__all__ = [
    "SPLITS",
    "Annotated",
    "Any",
    "Array",
    "Batch",
    "Bool",
    "Examples",
    "Float",
    "FloatDtype",
    "Int",
    "Key",
    "Literal",
    "Normalize",
    "Ordered",
    "Params",
    "PyTree",
    "ReadScores",
    "Shaped",
    "Split",
    "State",
    "WithGroups",
    "WithLengths",
    "WriteNormalize",
]
