"""Work of other libraries that the tests can do without.

Whenever a parameter is read, Flax traces its initializer anew, to compare its shape: a tenth of all tracing. Orbax cuts
what lies on eight devices into eight parts, and JAX compiles each cut.
"""

import functools
from types import FunctionType

import flax.linen as nn
import jax
import numpy as np
import orbax.checkpoint as ocp
from flax.core import Scope, meta

_fits = set()


def save_whole_arrays() -> None:
    """From now on in this process; the processes that tests start save as a user's do."""
    ocp.type_handlers.get_type_handler(jax.Array)._use_replica_parallel = False


def trace_initializers_once() -> None:
    """For the same arguments and the same shape; what does not fit is found as before."""
    plain = Scope.param

    @functools.wraps(plain)
    def param(scope, name, init_fn, *args, unbox=True, **kwargs):
        value = scope.get_variable("params", name)
        known = (_identity(init_fn), args, tuple(kwargs.items()), np.shape(value))
        if value is None or isinstance(value, meta.AxisMetadata) or not _has_hash(known):
            return plain(scope, name, init_fn, *args, unbox=unbox, **kwargs)
        if known not in _fits:
            plain(scope, name, init_fn, *args, unbox=unbox, **kwargs)
            _fits.add(known)
        else:
            scope.reserve(name, "params")
        return value

    Scope.param = param


def _identity(part):
    """What an initializer is made of. Most are made anew for each module: the same code around the same numbers."""
    if isinstance(part, FunctionType):
        cells = part.__closure__ or ()
        return part.__code__, tuple(_identity(cell.cell_contents) for cell in cells)
    return type(part) if isinstance(part, nn.Module) else part


def _has_hash(key):
    try:
        hash(key)
    except TypeError:
        return False
    return True
