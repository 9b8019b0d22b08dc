"""What a memory is: encode, write, slots."""

import functools
from collections.abc import Callable
from typing import NamedTuple, cast

import flax.linen as nn
import jax
import jax.numpy as jnp
from flax.core.lift import Out
from jax.sharding import PartitionSpec

from memjax.errors import MemjaxError, require
from memjax.ops.checked import checked
from memjax.ops.exportable import exportable
from memjax.ops.recurrence import carry_like, separate
from memjax.typing import Any, Array, Bool, Float, Key, PyTree, Shaped, State


@exportable
class Slots(NamedTuple):
    """What any reader or rehearser sees of a memory: K vectors, and which of them hold something.

    Attributes:
        values: K vectors.
        mask: which of them hold something.
    """

    values: Float[Array, "*B K d"]
    mask: Bool[Array, "*B K"]


class Memory(nn.Module):
    """Reads a stream once into a state of fixed size. One example; `jax.vmap` is the caller's.

    The state is an explicit pytree, never a Flax collection: it may be kept, shipped, written on, and asked many
    times. A new memory subclasses this, overrides `initial_state`, `write`, `slots` (and `encode` where segments are
    read by a network of their own), says in `validate` which sizes it cannot have, and is given to `register_memory`.

    What a subclass overrides is called with arrays only, of the shapes that stand here and with a state of its own:
    all else is one line, a `MemjaxError`, by the rule of `memjax.ops`, and not the subclass's business.

    Args:
        num_slots: K, how many vectors are shown.
    """

    num_slots: int

    def __init_subclass__(cls, **kwargs: Any) -> None:
        for name in {"encode", "write", "write_stream", "slots", "write_item"} & cls.__dict__.keys():
            method = cls.__dict__[name]
            check = {"write": _check_written, "write_stream": _check_written, "slots": _check_shown}.get(name)
            method = _with_own_state(method, check) if check else method
            setattr(cls, name, checked(method, like=getattr(Memory, name, method), name=f"Memory.{name}"))
        if "initial_state" in cls.__dict__:
            setattr(cls, "initial_state", _with_own_arrays(cls.__dict__["initial_state"]))  # noqa: B010
        super().__init_subclass__(**kwargs)

    def validate(self) -> None:
        """Raises `MemjaxError` for sizes that this memory cannot have."""

    def initial_state(self) -> State:
        """The state of a memory that has read nothing: learned or constant. It may be donated."""
        raise NotImplementedError(f"{type(self).__name__} has no initial_state")

    def encode(self, items: Float[Array, "T N d"], mask: Bool[Array, "T N"]) -> Any:
        """Everything that can be computed of each segment on its own: a pytree with leading axes [T, N].

        Args:
            items: of all segments.
            mask: which of them are no padding.

        Returns:
            A pytree of arrays with leading axes `[T, N]`. Default: the items.
        """
        return items

    def write(
        self, state: State, features: PyTree[Shaped[Array, "N ..."]], mask: Bool[Array, "N"], *, key: Key | None = None
    ) -> tuple[State, Float[Array, ""]]:
        """Writes one encoded segment. Padding, which stands at its end, writes nothing.

        Args:
            state: before it.
            features: of the segment, from `encode`.
            mask: which items are no padding.
            key: for a memory that samples while it is trained; without one it does what is likeliest.

        Returns:
            The state after it, and an auxiliary loss, 0 for most.
        """
        raise NotImplementedError(f"{type(self).__name__} has no write")

    def write_stream(
        self,
        state: State,
        features: PyTree[Shaped[Array, "T N ..."]],
        mask: Bool[Array, "T N"],
        *,
        key: Key | None = None,
    ) -> tuple[State, Float[Array, ""]]:
        """Writes all segments in order; a scan of `write`, for a memory with a closed form to override.

        Args:
            state: before the stream.
            features: of all segments.
            mask: which items are no padding.
            key: as of `write`.

        Returns:
            The state after the stream, and the sum of the auxiliary losses.
        """

        def step(memory, state, inputs):
            features, mask, key = inputs
            return memory.write(state, features, mask, key=key)

        return scan_writes(step, self, state, replicate_over_sequence((features, mask)), key)

    def slots(self, state: State) -> Slots:
        """The state as K vectors."""
        raise NotImplementedError(f"{type(self).__name__} has no slots")


def _with_own_arrays(initial_state: Callable) -> Callable:
    """One that may be donated: a learned state is a parameter, and would be taken from the parameters, too."""

    @functools.wraps(initial_state)
    def copied(memory):
        return separate(initial_state(memory))

    return copied


def _with_own_state(method: Callable, check: Callable) -> Callable:
    """A method that is given a state of its own memory, and whose result is checked: a mistake of it is one line."""

    @functools.wraps(method)
    def guarded(memory, state, *args, **kwargs):
        state = state if memory.is_initializing() else own_state(memory, state)
        given = method(memory, state, *args, **kwargs)
        check(f"{type(memory).__name__}.{method.__name__}", state, given)
        return given

    return guarded


def _check_shown(name: str, state: State, given: Any) -> None:
    require(isinstance(given, Slots), f"{name} must return Slots(values, mask), not {type(given).__name__}")


def _check_written(name: str, state: State, given: Any) -> None:
    pair = isinstance(given, tuple) and len(given) == 2
    require(pair, f"{name} must return a state and an auxiliary loss, not {type(given).__name__}")
    was, now = (_told(tree) for tree in (state, given[0]))
    if was != now:
        place = next(place for place in (*was, *now) if was.get(place) != now.get(place))
        before, after = (kinds.get(place, "nothing") for kinds in (was, now))
        raise MemjaxError(f"{name} must keep the shapes and types of the state: {place}, {before}, became {after}")


def _told(state: State) -> dict[str, str]:
    """Types and shapes of a state's arrays by their places in it."""
    return {
        jax.tree_util.keystr(path).removeprefix(".") or "its value": f"{jnp.result_type(leaf)}{list(jnp.shape(leaf))}"
        for path, leaf in jax.tree.leaves_with_path(state)
    }


def scan_writes(
    step: Callable, memory: Memory, state: State, parts: tuple[Any, ...], key: Key | None
) -> tuple[State, Float[Array, ""]]:
    """The state after `step(memory, state, (*part, key))` for each part of a stream, and the sum of the losses."""
    state, aux_losses = scan_parts(step, memory, state, parts, key)
    return state, aux_losses.sum()


def scan_parts(
    step: Callable, memory: Memory, state: State, parts: tuple[Any, ...], key: Key | None
) -> tuple[State, Any]:
    """As `scan_writes`; what the steps give besides the state, whatever it is, is stacked."""
    first = jax.tree.leaves(parts)[0]
    keys = None if key is None else jax.random.split(key, first.shape[0])
    return scan_module(step, memory)(memory, carry_like(state, first), (*parts, keys))


def scan_module(step: Callable, module: nn.Module) -> Callable:
    """`lax.scan` of `step(module, state, inputs)`, whose parameters are the same at every step."""
    # Once there are parameters, none is made inside, and Flax need not trace the step twice.
    checks = module.is_initializing()
    return nn.scan(
        step,
        variable_broadcast="params",
        # What layers tell of their gates (`memjax.layers.head_memory`); nothing of it goes in.
        variable_axes={"costs": Out(0)},
        split_rngs={"params": False},
        check_constancy_invariants=checks,
    )


def for_each(method: Callable, in_axes: Any = 0) -> Callable:
    """`jax.vmap` of a module's method, `method(module, *inputs)`, whose parameters are the same for all.

    Args:
        method: of the module; or the class of one, to make it and call it.
        in_axes: as of `jax.vmap`, of the inputs.
    """
    return nn.vmap(method, in_axes=in_axes, variable_axes={"params": None}, split_rngs={"params": False})


def stream_shards() -> int:
    """Into how many parts a stream is split: the devices along the axis "sequence" of the mesh, if there is one."""
    return jax.sharding.get_abstract_mesh().shape.get("sequence", 1)


def replicate_over_sequence(segments: Any) -> Any:
    """Features of a stream's segments, whole on each device: a scan would ask another for each of its segments."""
    return jax.lax.with_sharding_constraint(segments, PartitionSpec()) if stream_shards() > 1 else segments


def own_state(memory: Memory, state: State) -> State:
    """The state in the dtypes that this memory keeps it in. Raises `MemjaxError` for the state of another memory."""
    own = jax.eval_shape(memory.initial_state)
    structure, given = cast(Any, (jax.tree.structure(own), jax.tree.structure(state)))
    require(structure == given, f"the state is of another memory: it is {given!s:.80}, this memory's {structure!s:.80}")
    kept = []
    for (path, wanted), leaf in zip(jax.tree.leaves_with_path(own), jax.tree.leaves(state), strict=True):
        same_kind = jnp.issubdtype(leaf.dtype, jnp.floating) == jnp.issubdtype(wanted.dtype, jnp.floating)
        if leaf.shape != wanted.shape or not same_kind:
            name = jax.tree_util.keystr(path).removeprefix(".") or "value"
            raise MemjaxError(
                f"the state is of another memory: its {name} is {leaf.dtype}{list(leaf.shape)}, "
                f"this memory's {wanted.dtype}{list(wanted.shape)}"
            )
        kept.append(leaf.astype(wanted.dtype))
    return jax.tree.unflatten(given, kept)


def check_items(items: Float[Array, "*axes d"], width: int) -> None:
    """Raises `MemjaxError` for items that are not as wide as this memory."""
    given = items.shape[-1]
    require(given == width, f"items are {given} wide, this memory {width}; project the items first")


def check_features(features: Float[Array, "*axes d"], width: int) -> None:
    """Raises `MemjaxError` for features that `encode` of this memory did not make."""
    given = features.shape[-1]
    require(given == width, f"these features are {given} wide, this memory's {width}; give what its encode made")
