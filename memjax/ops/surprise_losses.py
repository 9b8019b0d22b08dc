"""What may surprise a memory: losses of a residual r, number by number, by their gradients."""

from collections.abc import Callable
from typing import Literal

import jax.numpy as jnp

from memjax.typing import Array

LossName = Literal["l2", "huber", "l3"]

# l2 is Titans' (2501.00663); the other two are Miras' (2504.13173), which calls them attentional biases: Huber's, with
# its border at 1, and l_p with p = 3, the factor p left to the rate.
SLOPES: dict[LossName, Callable[[Array], Array]] = {
    "l2": lambda r: r,
    "huber": lambda r: jnp.clip(r, -1, 1),
    "l3": lambda r: r * jnp.abs(r),
}
