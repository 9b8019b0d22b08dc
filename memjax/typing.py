"""The alphabet of axes, and the array types that every annotation in memjax is written in.

B batch, T segments of a stream, N items of a segment, K slots, L stream length, C chunk, H heads, D width,
V vocabulary, F fragments, Q words of a query, A candidates, Z heads of a multi-head update, d* widths.

Annotations cost users nothing; the tests check them at run time (jaxtyping's import hook with beartype).
"""

from typing import Any, Literal

import numpy as np
from jax import Array
from jaxtyping import Bool, Float, Int, PRNGKeyArray, PyTree

Normalize = Literal["slots", "items"]
Params = PyTree
State = PyTree
Key = PRNGKeyArray
Split = Literal["train", "valid", "test"]
Batch = dict[str, np.ndarray]  # of examples, on the host: arrays with a leading axis B, by name

__all__ = [
    "Any",
    "Array",
    "Batch",
    "Bool",
    "Float",
    "Int",
    "Key",
    "Literal",
    "Normalize",
    "Params",
    "PyTree",
    "Split",
    "State",
]
