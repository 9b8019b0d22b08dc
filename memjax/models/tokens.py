"""The check of what language models are called with."""

import jax
import jax.numpy as jnp
import numpy as np

from memjax.errors import require
from memjax.typing import Array


def check_tokens(tokens: Array, vocabulary: int) -> None:
    """Raises `MemjaxError` for what is no sequence of tokens, and for tokens out of range if they are known."""
    require(hasattr(tokens, "ndim"), f"tokens are an array [L] of whole numbers, not {tokens!r:.40}")
    one = tokens.ndim == 1 and jnp.issubdtype(tokens.dtype, jnp.integer)
    require(one, f"tokens are one sequence of whole numbers, [L], not {tokens.dtype}{list(tokens.shape)}")
    if tokens.size and not isinstance(tokens, jax.core.Tracer):
        known = np.asarray(tokens)
        low, high = known.min(), known.max()
        require(low >= 0 and high < vocabulary, f"tokens must be in [0, {vocabulary}); they go from {low} to {high}")
