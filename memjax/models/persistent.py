"""Persistent memory (Titans, 3.3): learned tokens in front of every stream, the same whatever the stream is."""

import flax.linen as nn
import jax.numpy as jnp

from memjax.typing import Array


def persistent_tokens(module: nn.Module, *shape: int) -> Array:
    """The module's learned tokens; none are no parameter, for an empty one could not be saved."""
    return module.param("persistent", nn.initializers.normal(1.0), shape) if all(shape) else jnp.zeros(shape)
