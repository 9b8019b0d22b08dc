"""Training on any mesh is training on one device: the same losses and parameters, parts as small as they should be, and
only the messages that one expects, none of them inside a scan.

Slips that were tried: gradients summed in place of their mean; the mean over data alone; the state placed whole.
"""

import functools
import re

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh
from training.tiny import CONFIGS, TINY, Unequal, flags, mapping, tiny

from memjax import cli
from memjax.config import MeshConfig
from memjax.errors import MemjaxError
from memjax.experiments.prepare import on_these_devices, prepare, trained_model
from memjax.experiments.reading import from_mapping
from memjax.files import read_object
from memjax.training import checkpoint
from memjax.training.data import train_batches
from memjax.training.phase import initial_state
from memjax.training.placement import bytes_per_device, placement_table, spec_of
from memjax.training.runs import write_json
from memjax.training.sharding import axis_sizes, make_mesh, place_batch, placed, rows_here
from memjax.training.step import make_optimizer, make_step

MESHES = {
    "one device": {},
    "data": {"data": 8},
    "fsdp": {"fsdp": 8},
    "model": {"data": 4, "model": 2},
    "mixed": {"data": 2, "fsdp": 2, "model": 2},
    "sequence": {"data": 2, "sequence": 4},
}
SIZES = {"rehearsal": {"context": 2}, "surprise": {}, "dnc": {"memory_width": 4, "read_heads": 2, "hidden": 16}}
AXES = ("data", "fsdp", "sequence", "model")
ALWAYS = {"all-reduce", "collective-permute"}  # the gradients' mean; the neighbours that negatives come from
EXPECTED = {
    "data": ALWAYS,
    "fsdp": ALWAYS | {"all-gather", "reduce-scatter"},
    "model": ALWAYS,
    "mixed": ALWAYS | {"all-gather", "reduce-scatter"},
    "sequence": ALWAYS | {"all-gather"},
}


def mesh_of(**sizes):
    shape = [sizes.get(axis, 1) for axis in AXES]
    devices = np.array(jax.devices()[: np.prod(shape)]).reshape(shape)
    return Mesh(devices, AXES, axis_types=(AxisType.Auto,) * 4)


@functools.cache
def made(memory):
    sizes = {name: value for name, value in TINY.items() if memory == "rehearsal" or not name.startswith("memory.")}
    own = {f"memory__{name}": value for name, value in SIZES[memory].items()}
    if memory == "surprise":
        own |= {"memory__layers": 1, "memory__heads": 2}
    config = from_mapping(mapping(f"demo,memory={memory}", sizes=sizes, memory__slots=3, **own))
    return prepare(config)


@functools.cache
def beginning(memory):
    """`(parameters of the first phase, state of the last)` before any step, in NumPy: the same on every mesh."""
    phases = made(memory).phases
    first, last = (
        jax.jit(lambda phase=phase: initial_state(made(memory), phase))() for phase in (phases[0], phases[-1])
    )
    return jax.device_get((first.params, last))


@functools.cache
def trained(memory, name):
    """`(losses of three steps, parameters, state, compiled step, traced step)` on one of the meshes."""
    made_here, mesh = made(memory), mesh_of(**MESHES[name])
    phase, training = made_here.phases[-1], made_here.config.training
    # Copies, before they are put there: a step uses the memory of its state again.
    start = (jax.tree.map(np.copy, tree) for tree in beginning(memory))
    frozen, state = (jax.device_put(tree, placed(mesh, tree)) for tree in start)
    optimizer, extend = make_optimizer(made_here.config.optimizer, 4), made_here.recipe.layout.extend
    step = make_step(phase.loss, optimizer, mesh, training.batch_size, 1, 0, extend)
    data = train_batches(made_here.task, made_here.recipe.layout, training.batch_size, 0)
    losses, traced, compiled = [], None, None
    for _ in range(3):
        batch = place_batch(mesh, next(data), training.batch_size, made_here.recipe.layout.segmented)
        traced = traced or step.trace(state, frozen, batch)
        compiled = compiled or traced.lower().compile()
        state, metrics = compiled(state, frozen, batch)
        losses.append({key: float(value) for key, value in metrics.items()})
    data.close()
    return losses, jax.tree.map(np.asarray, state.params), state, compiled, str(traced.jaxpr)


some = pytest.mark.parametrize("name", ["data", "fsdp", "model", "mixed"])
memories = pytest.mark.parametrize("memory", list(SIZES))
everywhere = pytest.mark.parametrize("name", list(EXPECTED))


def assert_alike(memory, name):
    (losses, params, *_), (expected, theirs, *_) = trained(memory, name), trained(memory, "one device")
    for got, want in zip(losses, expected, strict=True):
        assert got.keys() == want.keys()
        np.testing.assert_allclose(list(got.values()), list(want.values()), rtol=2e-5, atol=1e-6)
    for (path, got), want in zip(jax.tree_util.tree_leaves_with_path(params), jax.tree.leaves(theirs), strict=True):
        if "key']['bias" not in jax.tree_util.keystr(path):  # softmax does not see it: its gradient is rounding alone
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)


@memories
@some
def test_a_mesh_trains_as_one_device(memory, name):
    assert_alike(memory, name)


@memories
def test_streams_in_parts_train_as_whole_ones(memory):
    assert_alike(memory, "sequence")


def test_an_agent_is_trained_on_a_mesh_as_on_one_device():
    sizes = {"task.train": 16, "task.train_lengths": "3", "task.test_lengths": "3", "training.batch_size": 8}
    sizes |= {"model.width": 4, "model.entries": 3}
    agent = prepare(from_mapping(mapping("imaze,base=frmqn", "maze", sizes)))
    phase, extend = agent.phases[-1], agent.recipe.layout.extend
    found = {}
    for name in ("one device", "data"):
        mesh = mesh_of(**MESHES[name])
        state = initial_state(agent, phase)
        state = jax.device_put(state, placed(mesh, state))
        step = make_step(phase.loss, make_optimizer(agent.config.optimizer, 2), mesh, 8, 1, 0, extend)
        batch = place_batch(mesh, agent.task.examples("train", np.arange(8)), 8, agent.recipe.layout.segmented)
        state, metrics = step(state, None, batch)
        found[name] = float(metrics["policy_loss"]), jax.tree.map(np.asarray, state.params)
    np.testing.assert_allclose(found["data"][0], found["one device"][0], rtol=1e-5)
    for (path, got), want in zip(
        jax.tree_util.tree_leaves_with_path(found["data"][1]), jax.tree.leaves(found["one device"][1]), strict=True
    ):
        if "score_b" not in jax.tree_util.keystr(path):  # softmax does not see it, as above
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-5)


@functools.cache
def in_buckets(name):
    """`(padded length and metrics of each of four steps)` of streams of unequal length, in two buckets."""
    made_here, mesh = made("rehearsal"), mesh_of(**MESHES[name])
    phase, size = made_here.phases[-1], made_here.config.training.batch_size
    frozen, state = (jax.jit(lambda p=p: initial_state(made_here, p))() for p in (made_here.phases[0], phase))
    frozen, state = (jax.device_put(tree, placed(mesh, tree)) for tree in (frozen.params, state))
    layout = made_here.recipe.layout._replace(buckets=2)
    step = make_step(phase.loss, make_optimizer(made_here.config.optimizer, 4), mesh, size, 1, 0, layout.extend)
    data, found = train_batches(Unequal(made_here.task), layout, size, 0), []
    for _ in range(4):
        batch = next(data)
        state, metrics = step(state, frozen, place_batch(mesh, batch, size, layout.segmented))
        found.append((batch["mask"].shape[1], jax.device_get(metrics)))
    data.close()
    return found


def test_buckets_that_the_parts_of_a_stream_do_not_divide_train_as_on_one_device():
    parts = MESHES["sequence"]["sequence"]
    assert len({length for length, _ in in_buckets("sequence")}) == 2
    assert any(length % parts for length, _ in in_buckets("sequence"))
    for (length, got), (same, want) in zip(in_buckets("sequence"), in_buckets("one device"), strict=True):
        assert length == same
        for name, value in want.items():
            np.testing.assert_allclose(got[name], value, rtol=2e-5, atol=1e-6, err_msg=name)


def messages(compiled):
    """`(kinds of messages, those inside of loops)` of a compiled step."""
    text = compiled.as_text()
    bodies = set(re.findall(r"(?:body|condition)=%?([\w.\-]+)", text))
    everything, inside = set(), set()
    for computation in re.split(r"\n(?=\S)", text):
        name = re.match(r"(?:ENTRY )?%?([\w.\-]*)", computation).group(1)
        kinds = re.findall(
            r" (all-reduce|all-gather|reduce-scatter|collective-permute|all-to-all|collective-broadcast)(?:-start)?\(",
            computation,
        )
        everything |= set(kinds)
        inside |= set(kinds) if name in bodies else set()
    assert bodies, "a memory is written by a loop"
    return everything, inside


@everywhere
def test_a_step_sends_what_it_must_and_nothing_in_a_loop(name):
    everything, inside = messages(trained("rehearsal", name)[3])
    assert everything <= EXPECTED[name] and everything >= EXPECTED[name] - {"collective-permute"}
    assert not inside


def test_a_surprise_memory_writes_in_shards_and_sends_their_maps():
    gathered = re.compile(r"all_gather\[[^\]]*sequence")
    assert gathered.search(trained("surprise", "sequence")[4]) and not messages(trained("surprise", "sequence")[3])[1]
    assert not gathered.search(trained("rehearsal", "sequence")[4])


def test_one_device_sends_nothing():
    assert messages(trained("rehearsal", "one device")[3]) == (set(), set())


@pytest.mark.parametrize(("name", "part"), [("data", 1), ("fsdp", 1 / 8), ("mixed", 1 / 2)])
def test_the_optimizers_bytes_fall_with_fsdp(name, part):
    leaves = [leaf for leaf in jax.tree.leaves(trained("rehearsal", name)[2].opt_state) if leaf.ndim > 1]
    here, whole = (sum(map(of, leaves)) for of in (bytes_per_device, lambda leaf: leaf.nbytes))
    assert here == sum(leaf.addressable_shards[0].data.nbytes for leaf in leaves)
    # All but the matrices that fsdp does not divide; with a model axis some are cut twice.
    assert here <= whole * min(1, 1.25 * part)
    assert here >= whole * part / 2


def test_moments_lie_where_their_parameters_lie():
    state = trained("rehearsal", "mixed")[2]
    moments = [leaf for leaf in jax.tree.leaves(state.opt_state) if leaf.ndim]
    places = [leaf.sharding.spec for leaf in jax.tree.leaves(state.params)]
    assert [leaf.sharding.spec for leaf in moments] == places * 2
    assert {axis for spec in places for axis in spec} == {"fsdp", "model", None}


def test_what_writes_into_a_memory_is_not_cut_over_model():
    for memory in SIZES:
        state = jax.eval_shape(lambda memory=memory: initial_state(made(memory), made(memory).phases[-1]))
        own = placed(mesh_of(data=4, model=2), state.params)["params"]["memory"]
        for path, place in jax.tree_util.tree_leaves_with_path(own):
            assert "encode" in str(path) or "model" not in place.spec


def test_rules_leave_out_what_does_not_divide():
    sizes = {"fsdp": 4, "model": 2}
    assert spec_of("a/key/kernel", (8, 2, 4), sizes) == ("fsdp", "model", None)
    assert spec_of("a/key/kernel", (6, 3, 4), sizes) == (None, None, None)
    assert spec_of("a/monkey_bias", (8,), sizes) == (None,)
    assert spec_of("count", (), sizes) == ()


def test_the_table_says_what_lies_where():
    table = placement_table(trained("rehearsal", "mixed")[2])
    columns = [list(column.cells) for column in table.columns]
    rows = list(zip(*columns, strict=True))
    assert {row[0] for row in rows} == {"step", "params", "opt_state", "all"}
    assert any("fsdp cuts axis 0 of 2" in row[1] for row in rows)
    numbers = [[int(cell.replace(",", "")) for cell in row[2:]] for row in rows]
    assert [sum(column) for column in zip(*numbers[:-1], strict=True)] == numbers[-1]
    state = trained("rehearsal", "mixed")[2]
    assert numbers[-1][1] == sum(leaf.size for leaf in jax.tree.leaves(state))


def test_axes_take_all_devices():
    assert axis_sizes(MeshConfig(-1, 2, 1, 2), 8) == {"data": 2, "fsdp": 2, "sequence": 1, "model": 2}
    assert axis_sizes(MeshConfig(2, 1, 1, 4), 8)["data"] == 2
    for wrong in (MeshConfig(-1, 3, 1, 1), MeshConfig(2, 2, 1, 1), MeshConfig(-1, 16, 1, 1)):
        with pytest.raises(MemjaxError, match=r"config.mesh \(data=.* does not fit the 8 devices"):
            axis_sizes(wrong, 8)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"data": 0}, "config.mesh.data must be at least 1, or -1"),
        ({"fsdp": -2}, "config.mesh.fsdp must be at least 1"),
        ({"data": -1, "model": -1}, "one axis may be"),
    ],
)
def test_a_mesh_that_cannot_be_is_one_line(sizes, message):
    with pytest.raises(MemjaxError, match=message):
        tiny(**{f"mesh__{axis}": size for axis, size in sizes.items()})


def test_only_streams_of_segments_are_split_over_sequence():
    with pytest.raises(MemjaxError, match=r"config\.mesh\.sequence is for streams"):
        from_mapping(mapping("imaze", "maze", {}, mesh__sequence=2))


def test_the_whole_batch_is_here_when_there_is_one_process():
    assert rows_here(mesh_of(data=4, model=2), 24) == slice(0, 24)


def test_microbatches_that_do_not_divide_a_devices_rows_are_one_line():
    with pytest.raises(MemjaxError, match="microbatches 2 must divide 1, the rows"):
        prepare(tiny(training__microbatches=2))


@pytest.mark.parametrize(("before", "after"), [("mixed", "one device"), ("one device", "fsdp"), ("fsdp", "model")])
def test_a_checkpoint_is_restored_on_another_mesh(before, after, tmp_path):
    state = trained("rehearsal", before)[2]
    mesh = mesh_of(**MESHES[after])
    like = jax.eval_shape(lambda: initial_state(made("rehearsal"), made("rehearsal").phases[-1]))
    with checkpoint.open_checkpoints(tmp_path) as manager:
        checkpoint.save(manager, 3, state, [{"answer_loss": 1.5}])
        manager.wait_until_finished()
        restored, unlogged = checkpoint.restore(manager, like, mesh)
    assert unlogged == [{"answer_loss": 1.5}]
    for got, want, place in zip(*map(jax.tree.leaves, (restored, state, placed(mesh, state))), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
        assert got.sharding == place


def test_the_digest_is_that_of_the_numbers_and_not_of_their_places():
    state = trained("rehearsal", "mixed")[2]._asdict()
    other = jax.device_put(state, jax.devices()[0])
    assert checkpoint.digest(state) == checkpoint.digest(other)
    leaf = state["params"]["params"]["embed"]["embedding"]
    for changed in (leaf.at[0, 0].add(1e-6), leaf[::-1], leaf.at[1].set(leaf[2]).at[2].set(leaf[1])):
        params = jax.tree.map(lambda x: x, state["params"])
        params["params"]["embed"]["embedding"] = changed
        assert checkpoint.digest(state | {"params": params}) != checkpoint.digest(state)


@pytest.mark.parametrize(
    ("trained", "batch", "tested"),
    [
        ({"data": 4, "model": 2}, 8, {"data": 4, "model": 2}),  # it fits
        ({"data": 2, "fsdp": 2}, 8, {"data": 8}),  # of four devices
        ({"data": 3}, 9, {"model": 8}),  # of three, among which rows were shared out
    ],
)
def test_a_run_is_tested_on_the_devices_that_there_are(trained, batch, tested):
    axes = {f"mesh__{axis}": size for axis, size in trained.items()}
    config = tiny(training__batch_size=batch, training__microbatches=batch, **axes)
    here = on_these_devices(config)
    mesh = make_mesh(here.mesh, batch)
    assert {axis: size for axis, size in mesh.shape.items() if size > 1} == tested
    assert here.training.microbatches == 1 and here.task == config.task


def test_what_is_tested_on_other_devices_has_the_same_results(tmp_path):
    """Trained on two of the devices' worth of rows; nothing is left of its mesh but its results."""
    sizes = flags(mesh__data=4, mesh__model=2, rehearsal__fragments=0, training__steps=2)
    run = tmp_path / "run"
    assert cli.main(["train", f"--config={CONFIGS / 'evidence.py'}:demo", *sizes, f"--run={run}"]) == 0
    first = read_object(run / "evaluation.json")["metrics"]
    config = read_object(run / "config.json") | {"mesh": {"data": 2, "fsdp": 2, "sequence": 1, "model": 1}}
    write_json(run / "config.json", config)
    assert cli.main(["evaluate", str(run)]) == 0
    second = read_object(run / "evaluation.json")["metrics"]
    assert second["accuracy"] == first["accuracy"] and second["answer_loss"] == pytest.approx(first["answer_loss"])
    trained_model(run)
