"""The parameters that a module begins with: traced and compiled once for all who ask a process for them."""

from collections.abc import Callable
from functools import partial
from typing import Any

import flax.linen as nn
import jax

from memjax.typing import Key, Params


def initial_params(module: nn.Module, key: Key, *arguments: Any, method: Callable | None = None) -> Params:
    """`module.init`, compiled.

    Training asks for the same several times, for shapes and for numbers; equal modules with arguments of equal shapes
    are traced once.

    Args:
        module: whose parameters. Modules of equal settings are one.
        key: that draws them.
        arguments: of `method`; only their shapes and types count.
        method: of the module, in place of `__call__`; or a function of the module and the arguments.

    >>> initial_params(nn.Dense(2, use_bias=False), jax.random.key(0), jax.numpy.ones(3))["params"]["kernel"].shape
    (3, 2)
    """
    try:
        hash(module)
    except TypeError:  # a setting is an array, perhaps: nobody can say which modules are equal
        return jax.jit(partial(module.init, method=method))(key, *arguments)
    return _initial_params(module, key, *arguments, method=method)


@partial(jax.jit, static_argnames=("module", "method"))
def _initial_params(module: nn.Module, key: Key, *arguments: Any, method: Callable | None) -> Params:
    return module.init(key, *arguments, method=method)
