"""What may surprise a memory: losses of a residual r, summed over its numbers, and their gradients."""

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp

from memjax.typing import Array

LossName = Literal["l2", "huber", "l3"]

# l2 is Titans' (2501.00663); the other two are Miras' (2504.13173), which calls them attentional biases: Huber's, with
# its border at 1, and l_p with p = 3, the factor p left to the rate.
LOSSES: dict[LossName, Callable[[Array], Array]] = {
    "l2": lambda r: (r**2).sum() / 2,
    "huber": lambda r: jnp.where(jnp.abs(r) < 1, r**2 / 2, jnp.abs(r) - 0.5).sum(),
    "l3": lambda r: (jnp.abs(r) ** 3).sum() / 3,
}
SLOPES = {name: jax.grad(loss) for name, loss in LOSSES.items()}
