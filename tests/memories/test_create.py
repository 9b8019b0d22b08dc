"""Mistakes of the caller: one clear line, before anything is compiled."""

import contextlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled import compiled_programs

from memjax import MemjaxError, memories, register_memory
from memjax.memories import memorize, memory_registry

SIZES = {"slots": 4, "width": 8, "segment": 3, "layers": 1, "heads": 2}


def sizes_of(name):
    """Those of `SIZES` that a memory takes."""
    known = {"slots"} | memories.registry.get(name, memories.RehearsalMemory).__dataclass_fields__.keys()
    return {size: value for size, value in SIZES.items() if size in known}


@pytest.fixture(autouse=True)
def nothing_compiles():
    """None may have been compiled by the end of the test."""
    with compiled_programs() as compiled:
        yield
    assert compiled == []


@contextlib.contextmanager
def raises(*words):
    """A MemjaxError of one line with all the words in it."""
    with pytest.raises(MemjaxError) as caught:
        yield
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("rehersal", {}, ["unknown memory 'rehersal'", "did you mean 'rehearsal'?"]),
        ("nothing like it", {}, ["unknown memory", "known: ", "continual", "rehearsal"]),
        ("rehearsal", {"widht": 8}, ["unknown size", "'widht'", "did you mean 'width'?"]),
        ("rehearsal", {"num_slots": 8}, ["unknown size", "did you mean 'slots'?"]),
        ("rehearsal", {"update_heads": 2}, ["update_heads is a size of memory=continual, not of memory=rehearsal"]),
        ("rehearsal", {"parent": None}, ["unknown size", "'parent'"]),
        ("rehearsal", {"width": ...}, ["the rehearsal memory needs width"]),
        ("continual", {"width": ..., "segment": ...}, ["the continual memory needs width, segment"]),
        ("rehearsal", {"slots": 0}, ["slots", "at least 1", "not 0"]),
        ("rehearsal", {"slots": -3}, ["slots", "at least 1", "not -3"]),
        ("rehearsal", {"segment": 0}, ["segment", "at least 1"]),
        ("rehearsal", {"layers": -1}, ["layers", "at least 0"]),
        ("rehearsal", {"layers": 101}, ["layers must be at most 100, not 101"]),
        ("dnc", {"read_heads": 101}, ["read_heads must be at most 100"]),
        ("dnc", {"hidden": 10**9}, ["hidden must be at most 1048576, not 1000000000"]),
        ("dnc", {"slots": 2**21}, ["slots must be at most 1048576"]),
        ("dnc", {"dtype": "bfloat17"}, ["dtype must be float16, bfloat16, float32 or float64", "not 'bfloat17'"]),
        ("rehearsal", {"dtype": jnp.int32}, ["dtype must be float16, bfloat16"]),
        ("compressive", {"rate": 10**9}, ["rate must be at most 100"]),
        ("rehearsal", {"heads": 0}, ["heads", "at least 1"]),
        ("rehearsal", {"heads": 3}, ["width 8", "multiple of heads 3"]),
        ("rehearsal", {"context": -1}, ["context must be", "-1"]),
        ("rehearsal", {"scores": "cosine"}, ["scores", "cosine", "additive"]),
        ("continual", {"slots": 3, "scores": "both"}, ["slots must be at least 4 for scores of both kinds"]),
        ("rehearsal", {"write_heads": 3}, ["width 8", "multiple of write_heads 3"]),
        ("continual", {"write_heads": 8}, ["update_heads 4", "multiple of write_heads 8"]),
        ("continual", {"update_heads": 3}, ["width 8", "multiple of update_heads 3"]),
        ("continual", {"update_heads": 0}, ["update_heads", "at least 1"]),
        ("rehearsal", {"encoder": "grru"}, ["unknown encoder 'grru'", "did you mean 'gru'?"]),
        ("rehearsal", {"encoder": "gru", "width": 7, "heads": 1}, ["width 7", "even"]),
        ("rehearsal", {"normalize": "item"}, ["unknown normalize 'item'", "did you mean 'items'?"]),
        ("rehearsal", {"time_constant": 0.0}, ["time_constant", "above 0", "not 0.0"]),
        ("continual", {"write_gain": float("inf")}, ["write_gain", "at most 1e6", "not inf"]),
        ("rehearsal", {"write_gain": 1e30}, ["write_gain", "at most 1e6", "not 1e+30"]),
        ("rehearsal", {"time_constant": "long"}, ["time_constant must be a number, not 'long'"]),
        ("rehearsal", {"segment": "3"}, ["segment", "'3'"]),
        ("rehearsal", {"width": 8.0}, ["width", "8.0"]),
        ("continual", {"update_heads": None}, ["update_heads", "None"]),
        ("compressive", {"rate": 0}, ["rate", "at least 1", "not 0"]),
        ("compressive", {"recent": 0}, ["recent", "at least 1", "not 0"]),
        ("compressive", {"layers": 0}, ["layers", "at least 1", "not 0"]),
        ("compressive", {"heads": 3}, ["width 8", "multiple of heads 3"]),
        ("compressive", {"rate": 2, "recent": 3}, ["slots must be at least 6", "recent 3 x segment 3", "not 4"]),
        ("memn2n", {"width": 0}, ["width", "at least 1", "not 0"]),
        ("memn2n", {"slots": -1}, ["slots", "at least 1", "not -1"]),
        ("memn2n", {"heads": 2}, ["heads is a size of memory=", "not of memory=memn2n"]),
        ("stm", {}, ["the stm memory needs memory_width"]),
        ("stm", {"memory_width": 1}, ["memory_width", "at least 2", "not 1"]),
        ("stm", {"memory_width": 4, "width": 0}, ["width", "at least 1", "not 0"]),
        ("stm", {"memory_width": 4, "time_constant": 0.0}, ["time_constant", "above 0", "not 0.0"]),
        ("stm", {"memory_width": 4, "segment": 3}, ["segment is a size of memory=", "not of memory=stm"]),
    ],
    ids=str,
)
def test_a_memory_that_cannot_be_is_one_clear_line(name, change, words):
    sizes = {key: value for key, value in {**sizes_of(name), **change}.items() if value is not ...}
    with raises(*words):
        memories.create(name, **sizes)


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((5, 3, 6), ["items are 6 wide", "this memory 8"]),
        ((5, 4, 8), ["segments of 4 items", "made for 3"]),
    ],
    ids=str,
)
def test_items_that_do_not_fit_are_one_clear_line(shape, words):
    memory = memories.create("rehearsal", **SIZES)
    with raises(*words):
        jax.eval_shape(
            lambda items: memory.init(jax.random.key(0), items, method=memorize),
            jax.ShapeDtypeStruct(shape, jnp.float32),
        )


def test_sizes_may_be_numbers_of_numpy():
    memory = memories.create("surprise", slots=np.int32(4), width=np.int64(8), segment=3, time_constant=np.float32(0.5))
    assert memory == memories.create("surprise", slots=4, width=8, segment=3, time_constant=0.5)


def test_a_module_made_by_hand_is_checked_too():
    memory = memories.RehearsalMemory(num_slots=4, width=8, segment=3, heads=3)
    with raises("width 8", "multiple of heads 3"):
        jax.eval_shape(
            lambda items: memory.init(jax.random.key(0), items, method=memorize),
            jax.ShapeDtypeStruct((5, 3, 8), jnp.float32),
        )


def test_segments_shorter_than_the_encoder_was_made_for_are_welcome():
    memory = memories.create("rehearsal", **SIZES)
    params = jax.eval_shape(
        lambda items: memory.init(jax.random.key(0), items, method=memorize),
        jax.ShapeDtypeStruct((5, 2, 8), jnp.float32),
    )
    assert params["params"]["encode_segments"]["positions"].shape == (3, 8)


@pytest.mark.parametrize("name", memories.registry)
def test_every_memory_refuses_to_have_no_slots(name):
    own = {"retention": {"policy": "st"}, "stm": {"memory_width": 4}}.get(name, {})
    memories.create(name, **sizes_of(name), **own)
    with raises("slots must be at least 1, not 0"):
        memories.create(name, **{**sizes_of(name), **own, "slots": 0})


@pytest.fixture
def own(monkeypatch):
    """A memory of a stranger's, and a registry that forgets it."""
    monkeypatch.setattr(memory_registry, "registry", dict(memories.registry))

    class Sums(memories.Memory):
        width: int
        decay: float = 0.5

    return Sums


def test_a_registered_memory_is_created_as_any_other(own):
    assert register_memory("my-sums", own) is own
    assert memories.create("my-sums", slots=2, width=3, decay=1) == own(2, width=3, decay=1.0)
    with raises("unknown memory 'my_sums'", "did you mean 'my-sums'?"):
        memories.create("my_sums", slots=2)
    with raises("unknown size of the my-sums memory 'wide'"):
        memories.create("my-sums", slots=2, width=3, wide=3)
    with raises("the my-sums memory needs width"):
        memories.create("my-sums", slots=2)
    with raises("width must be a whole number, not '3'"):
        memories.create("my-sums", slots=2, width="3")


def test_register_memory_is_a_decorator_too(own):
    assert register_memory("sums")(own) is own
    assert isinstance(memories.create("sums", slots=2, width=3), own)


def test_a_class_that_is_defined_anew_takes_the_place_of_the_old_one(own):
    anew = type("Sums", (own,), {"__qualname__": own.__qualname__, "__module__": own.__module__})
    register_memory("sums", own)
    register_memory("sums", own)
    register_memory("sums", anew)
    assert type(memories.create("sums", slots=2, width=3)) is anew


@pytest.mark.parametrize("name", ["dnc", "rehearsal"])
def test_a_name_that_another_class_has_is_refused(own, name):
    for register in (register_memory, lambda name, cls: register_memory(name)(cls)):
        with raises(f"the name '{name}' is taken by memjax.memories.", "register", "under another"):
            register(name, own)
    assert memory_registry.registry == memories.registry


@pytest.mark.parametrize("cls", [int, "DNC", 3, memories.DNC(4, 8, 2, 4)], ids=repr)
def test_what_is_no_class_of_memories_is_refused(own, cls):
    for register in (register_memory, lambda name, cls: register_memory(name)(cls)):
        for name in ("sums", "dnc"):
            with raises("a memory is a subclass of memjax.memories.Memory, not"):
                register(name, cls)


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a=b", "1a", "a.b", "a\nb", None, 3, memories.DNC], ids=repr)
def test_what_is_no_name_is_refused(own, name, unchecked):
    with raises("a memory's name has letters, digits, _ and - alone"):
        register_memory(name, own)


def test_sizes_of_an_unknown_kind_are_one_line(own):
    own.__annotations__["decay"] = "Nowhere"
    with raises("of what kind the sizes of Sums are is unknown", "Nowhere"):
        register_memory("sums", own)
        memories.create("sums", slots=2, width=3)


@pytest.mark.parametrize("name", [None, 3, ["dnc"], {}, b"dnc"], ids=repr)
def test_create_of_what_is_no_name_is_one_line(name, unchecked):
    with raises("unknown memory"):
        memories.create(name, slots=2)
