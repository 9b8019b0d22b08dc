"""Every argument of every memory, made wrong in every way: a result, or one line."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from memories.test_contract import VARIANTS, made, stream
from mistakes import outcome, places, quick_errors, replaced, wrong

from memjax import functional, memories
from memjax.memories import memorize


@functools.cache
def valid_calls(variant):
    """For each function of a memory: its arguments by name."""
    memory, params = made(variant)
    items, mask = stream()
    pure = functional(memory)
    state = pure.initial_state(params)
    features = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[1:], leaf.dtype), pure.encode(params, items, mask))
    inputs = {"items": items, "mask": mask}
    return pure, {
        "init": {"key": jax.random.key(0)} | inputs,
        "initial_state": {"params": params},
        "encode": {"params": params} | inputs,
        "write": {"params": params, "state": state, "features": features, "mask": mask[0], "key": jax.random.key(1)},
        "slots": {"params": params, "state": state},
        "memorize": {"params": params, "state": state, "key": jax.random.key(1), "block": 2, "remat": False} | inputs,
    }


def call(function, arguments):
    arguments = dict(arguments)
    first = (arguments.pop("params"),) if "params" in arguments else ()
    positional = [
        arguments.pop(name) for name in ("state", "features") if name in arguments and "items" not in arguments
    ]
    return jax.eval_shape(lambda: function(*first, *positional, **arguments))


FIRST = {name: variant for variant, (name, _) in reversed(VARIANTS.items())}  # of each memory one


@pytest.mark.parametrize("variant", FIRST.values())
def test_a_call_with_one_wrong_argument_works_or_is_one_line(variant, unchecked):
    pure, calls = valid_calls(variant)
    refused = total = 0
    with quick_errors():
        for name, arguments in calls.items():
            function = getattr(pure, name)
            assert outcome(functools.partial(call, function, arguments)) == "works", name
            inside = [(path, value) for path, value in places(arguments) if len(path) > 1]
            last = {path[0]: (path, value) for path, value in inside}  # of a state, features and parameters one leaf
            for path, value in [((key,), value) for key, value in arguments.items()] + list(last.values()):
                for mistake, bad, must_fail in wrong(value, few=len(path) > 1 or name != "memorize"):
                    total += 1
                    found = outcome(functools.partial(call, function, replaced(arguments, path, bad)))
                    at = f"{name}: {path} as {mistake}"
                    assert found == "works" or found.startswith("MemjaxError"), f"{at}: {found}"
                    must_fail &= path[0] != "params"  # what is not used is not looked at
                    assert not must_fail or found != "works", f"{at} is taken"
                    refused += found != "works"
    assert total >= 150 and refused >= total / 2, f"{refused} of {total} refused"


@pytest.mark.parametrize("variant", FIRST.values())
def test_methods_called_through_flax_check_as_well(variant, unchecked):
    memory, params = made(variant)
    items, mask = stream()
    run = functools.partial(memory.apply, params)
    state = run(method="initial_state")
    for bad in (None, 1j, "x", np.zeros((4, 2), complex), jnp.zeros((4, 3), int), items[0, :2], np.full((4, 3), None)):
        calls = (
            lambda bad=bad: run(items, bad, method="encode"),
            lambda bad=bad: run(bad, mask, method="encode"),
            lambda bad=bad: run(bad, method="slots"),
            lambda bad=bad: run(bad, items[0], mask[0], method="write"),
            lambda bad=bad: run(state, items[0], bad, method="write"),
            lambda bad=bad: run(items, bad if bad is not None else 0, method=memorize),
        )
        for one in calls:
            assert outcome(lambda one=one: jax.eval_shape(one)).startswith("MemjaxError")


@pytest.mark.parametrize("name", memories.registry)
def test_a_wrong_size_is_one_line(name, unchecked):
    sizes = next(sizes for known, sizes in VARIANTS.values() if known == name)
    everything = sizes | {"dtype": jnp.float32}
    for path, value in places({"name": name, **everything}):
        for mistake, bad, must_fail in wrong(value):
            given = replaced({"name": name, **everything}, path, bad)
            found = outcome(lambda given=given: memories.create(given.pop("name"), **given))
            at = f"{path} as {mistake}"
            assert found == "works" or found.startswith("MemjaxError"), f"{at}: {found}"
            assert not must_fail or found != "works", f"{at} is taken"


def test_a_memory_of_a_strangers_is_checked_as_ours(unchecked):
    """Which has no check of its own anywhere."""

    class Sums(memories.Memory):
        width: int

        def initial_state(self):
            return jnp.zeros((self.num_slots, self.width))

        def write(self, state, features, mask, *, key=None):
            return state + jnp.where(mask[:, None], features, 0).sum(0), jnp.zeros(())

        def slots(self, state):
            return memories.Slots(state, jnp.ones(self.num_slots, bool))

    pure = functional(Sums(2, 3))
    ones = [[[1, 2, 3.0], [4, 5, 6]]]
    state, _ = pure.memorize({}, ones, [[True, False]])
    assert pure.slots({}, state).values.tolist() == [[1, 2, 3]] * 2
    for call, line in (
        (
            lambda: pure.memorize({}, ones, [[1, 0]]),
            "memorize: mask must be a bool array [T, N], not a list (int64[1, 2])",
        ),
        (
            lambda: pure.memorize({}, ones[0]),
            "memorize: items must be a float array [T, N, d], not a list (float64[2, 3])",
        ),
        (
            lambda: pure.write({}, state, jnp.ones((2, 3)), jnp.ones(3, bool)),
            "Memory.write: mask must be a bool array [N] with N = 2 as in features, not bool[3]",
        ),
        (
            lambda: pure.slots({}, jnp.zeros(3)),
            "the state is of another memory: its value is float32[3], this memory's float32[2, 3]",
        ),
        (lambda: pure.slots(None, state), "slots: params must be what init made, not None"),
    ):
        assert outcome(call) == f"MemjaxError: {line}"


@pytest.mark.parametrize(
    ("written", "shown", "line"),
    [
        (lambda state: state, None, "Slip.write must return a state and an auxiliary loss, not "),
        (lambda state: (state, 0, 0), None, "Slip.write must return a state and an auxiliary loss, not tuple"),
        (
            lambda state: (jnp.concatenate([state, state]), jnp.zeros(())),
            None,
            "Slip.write must keep the shapes and types of the state: its value, float32[2, 3], became float32[4, 3]",
        ),
        (
            lambda state: (state.astype(jnp.bfloat16), jnp.zeros(())),
            None,
            "Slip.write must keep the shapes and types of the state: its value, float32[2, 3], became bfloat16[2, 3]",
        ),
        (
            lambda state: ({"a": state}, jnp.zeros(())),
            None,
            "Slip.write must keep the shapes and types of the state: its value, float32[2, 3], became nothing",
        ),
        (None, lambda state: state, "Slip.slots must return Slots(values, mask), not "),
    ],
)
def test_what_a_strangers_memory_gives_is_checked_too(unchecked, written, shown, line):
    class Slip(memories.Memory):
        def initial_state(self):
            return jnp.zeros((self.num_slots, 3))

        def write(self, state, features, mask, *, key=None):
            return written(state) if written else (state, jnp.zeros(()))

        def slots(self, state):
            return shown(state) if shown else memories.Slots(state, jnp.ones(self.num_slots, bool))

    pure = functional(Slip(2))

    def read():
        state, _ = pure.memorize({}, jnp.ones((4, 2, 3)))
        return pure.slots({}, state)

    assert outcome(read).startswith(f"MemjaxError: {line}")
