"""What `lighter` leaves out changes no result."""

import flax.linen as nn
import jax.numpy as jnp
import pytest
from flax.errors import ScopeParamShapeError


def test_a_parameter_that_does_not_fit_is_found_however_often_one_that_fits_was_read():
    params = {"params": {"kernel": jnp.ones((2, 3)), "bias": jnp.ones(3)}}
    for _ in range(2):
        assert nn.Dense(3).apply(params, jnp.ones(2)).tolist() == [3, 3, 3]
        with pytest.raises(ScopeParamShapeError):
            nn.Dense(4).apply(params, jnp.ones(2))
        with pytest.raises(ScopeParamShapeError):
            nn.Dense(3).apply({"params": params["params"] | {"bias": jnp.ones(4)}}, jnp.ones(2))
