"""Configs: every shipped variant, there and back, and one line for whatever is wrong in one."""

import copy
from pathlib import Path

import pytest
from training.tiny import CONFIGS, config_file, mapping, tiny

from memjax import memories, tasks
from memjax.config import parse_arg
from memjax.errors import MemjaxError
from memjax.experiments.arguments import read_settings
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping, to_mapping
from memjax.experiments.stream_qa import StreamQAConfig, build
from memjax.memories.memory_registry import size_fields

EVIDENCE = [
    f"{variant},{options}"
    for variant in ("demo", "small", "paper", "long")
    for options in ("seed=3", "memory=continual", "memory=surprise", "system=directly", "system=multi_hop,discrete=1")
]
BABI = [
    f"{variant},task={task}"
    for variant in ("rehearsal", "continual", "surprise", "directly", "multi_hop")
    for task in (0, 15)
]
BABI += ["joint,seed=3", "joint,memory=dnc", "joint,memory=directly"]
SHIPPED = [("evidence", arg) for arg in EVIDENCE] + [("babi", arg) for arg in BABI]


def changed(path, value):
    """The tiny config with one setting changed, as a mapping."""
    result = mapping()
    section, key = path.split(".")
    result[section][key] = value
    return result


def error(given):
    with pytest.raises(MemjaxError) as caught:
        from_mapping(given)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(("file", "arg"), SHIPPED)
def test_every_shipped_variant_is_a_config_and_survives_a_round_trip(file, arg):
    config = from_mapping(config_file(file)(arg).to_dict())
    assert isinstance(config, StreamQAConfig)
    assert from_mapping(to_mapping(config)) == config
    assert to_mapping(from_mapping(to_mapping(config))) == to_mapping(config)
    assert "seed=3" not in arg or config.training.seed == 3


@pytest.mark.parametrize("arg", EVIDENCE)
def test_every_shipped_variant_builds_its_system(arg):
    config = from_mapping(config_file("evidence")(arg).to_dict())
    model = build(config, tasks.create(config.task).shape)
    assert model.width == config.model.width
    if config.system == "memory":
        assert type(model.memory) is memories.registry[config.memory.name]
        assert model.memory.num_slots == config.memory.slots
        assert (model.memory.width, model.memory.segment) == (config.model.width, config.task.segment)


def test_the_paper_size_is_the_papers():
    config = from_mapping(config_file("evidence")("paper,memory=continual").to_dict())
    spec = config.task
    assert (spec.facts, spec.length, spec.queries, spec.answers, spec.evidence, spec.groups) == (
        400, 200, 40, 30, 5, 20,
    )  # fmt: skip
    assert (config.model.width, config.memory.slots, spec.segment) == (128, 20, 10)
    assert (config.rehearsal.layers, config.rehearsal.heads, config.memory.sizes["layers"]) == (3, 4, 3)
    assert (config.rehearsal.recollection, config.rehearsal.familiarity, config.rehearsal.answer) == (1, 0.5, 1)
    assert (config.rehearsal.fragments, config.rehearsal.sampler, config.rehearsal.mask_ratio) == (5, "random", 0.5)
    assert config.memory.sizes["update_heads"] == 4 and config.optimizer.learning_rate == 1e-3


def test_at_the_papers_size_streams_grow_for_half_of_training_and_none_is_read_twice():
    for arg in ("paper", "paper,discrete=1", "paper,memory=continual", "paper,memory=dnc", "paper,system=multi_hop"):
        config = from_mapping(config_file("evidence")(arg).to_dict())
        task, read = config.task, config.training.steps * config.training.batch_size
        assert task.train * task.queries * task.answers == read == 2 * task.curriculum
        assert (config.model.embeddings == "sampler") == (config.system == "memory")
    printed = from_mapping(config_file("evidence")("paper,printed=1").to_dict())
    assert (printed.task.train, printed.task.curriculum, printed.model.embeddings) == (400, 0, "random")
    assert printed.memory.sizes["time_constant"] == 1


def test_the_joint_sizes_are_the_papers_or_a_cpus():
    for arg, width, layers in (("rehearsal,task=0", 128, 3), ("joint", 64, 2)):
        config = from_mapping(config_file("babi")(arg).to_dict())
        assert (config.model.width, config.rehearsal.layers, config.memory.sizes["layers"]) == (width, layers, layers)
        assert (config.memory.slots, config.task.task, config.training.buckets) == (20, 0, 6)
    assert from_mapping(config_file("babi")("joint,memory=dnc").to_dict()).memory.name == "dnc"
    assert from_mapping(config_file("babi")("rehearsal,task=1").to_dict()).training.buckets == 1


def test_what_a_config_leaves_out_has_the_default_of_its_class_and_is_shown():
    given = mapping()
    least = {"system": "memory", "task": given["task"], "memory": {"name": "rehearsal", "slots": 3}}
    config = from_mapping(least | {"training": {"steps": 5}})
    shown = to_mapping(config)
    assert set(shown) == {*given, "mesh"} and from_mapping(shown) == config
    own = {section: set(given[section]) for section in given if section not in ("system", "memory")}
    own["training"] |= {"checkpoints", "keep"}
    own["model"] |= {"dropout"}  # of SASRec, for which evidence is no task
    assert {section: set(shown[section]) for section in own} == own
    assert shown["mesh"] == {"data": -1, "fsdp": 1, "sequence": 1, "model": 1}
    assert (shown["training"]["checkpoints"], shown["training"]["keep"]) == ("", "newest")
    bound = {"width", "segment", "dtype"}  # by task and model
    assert set(shown["memory"]) == {"name", "slots", *size_fields(memories.registry["rehearsal"])} - bound
    assert (shown["optimizer"]["learning_rate"], shown["rehearsal"]["mask_ratio"]) == (1e-3, 0.5)
    assert shown["memory"]["encoder"] == "transformer"


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("training.step", "training.steps"),
        ("rehearsal.fragment", "rehearsal.fragments"),
        ("optimizer.learningrate", "optimizer.learning_rate"),
        ("task.lenght", "task.length"),
        ("model.widht", "model.width"),
    ],
)
def test_an_unknown_setting_is_told_the_nearest_one(path, nearest):
    message = error(changed(path, 1))
    assert f"config.{path}" in message and f"did you mean 'config.{nearest}'?" in message


def test_an_unknown_section_is_told_the_nearest_one():
    given = mapping()
    given["optimiser"] = given.pop("optimizer")
    assert "did you mean 'config.optimizer'?" in error(given)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("training.steps", "many", "must be of type int"),
        ("training.steps", 1.5, "must be of type int"),
        ("training.steps", True, "must be of type int"),
        ("training.steps", None, "must be of type int"),
        ("rehearsal.mask_ratio", "half", "must be of type float"),
        ("rehearsal.mask_ratio", False, "must be of type float"),
        ("rehearsal.deterministic", 1, "must be of type bool"),
        ("optimizer.learning_rate", float("nan"), "must be finite"),
        ("optimizer.learning_rate", float("inf"), "must be finite"),
        ("rehearsal.sampler", "histry", "did you mean 'history'?"),
        ("model.dtype", "float16", "did you mean 'bfloat16'?"),
        ("task.arrangement", 3, "must be of type str"),
        ("task.arrangement", "a\0b", "must have no null character"),
        ("task.name", "evidense", "did you mean 'evidence'?"),
        ("memory.name", ["dnc"], "must be of type str"),
    ],
)
def test_a_wrong_type_or_value_is_one_line_that_names_the_setting(path, value, words):
    message = error(changed(path, value))
    assert f"config.{path}" in message and words in message


@pytest.mark.parametrize("section", ["task", "memory", "model", "rehearsal", "optimizer", "training"])
def test_a_missing_section_or_one_that_is_no_group_is_one_line(section):
    for value in ("nothing", 3, None, [1]):
        given = mapping() | {section: value}
        assert f"config.{section}" in error(given)
    given.pop(section)
    if section in ("task", "memory", "training"):
        assert section in error(given)
    else:
        assert to_mapping(from_mapping(given))[section]


@pytest.mark.parametrize("path", [f"{s}.{k}" for s, keys in mapping().items() if isinstance(keys, dict) for k in keys])
def test_a_missing_setting_has_its_classs_default_or_is_one_line_that_names_it(path):
    section, key = path.split(".")
    given = mapping()
    del given[section][key]
    if section == "memory" and key not in ("name", "slots"):  # a size of its own has the default of its class
        default = getattr(memories.registry["rehearsal"], key)
        assert from_mapping(given).memory.sizes[key] == default == to_mapping(from_mapping(given))["memory"][key]
    elif path in ("task.shortest", "task.curriculum"):  # of a task's settings those with a default
        assert getattr(from_mapping(given).task, key) == 0 == to_mapping(from_mapping(given))["task"][key]
    elif section not in ("memory", "task") and key not in ("steps", "sampler_steps"):  # the sampler needs some
        default = getattr(type(getattr(tiny(), section)), key)
        assert to_mapping(from_mapping(given | {"rehearsal": given["rehearsal"]}))[section][key] == default
    else:
        assert key in error(given)


def test_a_missing_system_is_one_line():
    given = mapping()
    del given["system"]
    assert "system" in error(given)
    assert "did you mean 'directly'?" in error(mapping() | {"system": "direct"})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("memory.slots", 0),
        ("model.width", 0),
        ("model.width", 15),
        ("model.hops", 0),
        ("model.head_layers", -1),
        ("rehearsal.layers", 0),
        ("rehearsal.heads", 0),
        ("rehearsal.heads", 3),
        ("rehearsal.fragments", -2),
        ("rehearsal.fragments", 3),
        ("rehearsal.negatives", -1),
        ("rehearsal.recollection", -1.0),
        ("rehearsal.mask_ratio", 0.0),
        ("rehearsal.mask_ratio", 1.0),
        ("optimizer.learning_rate", -1.0),
        ("optimizer.clip_norm", 0.0),
        ("optimizer.warmup_steps", -1),
        ("training.steps", 0),
        ("training.sampler_steps", 0),
        ("training.batch_size", 0),
        ("training.batch_size", 1),
        ("training.microbatches", 3),
        ("training.log_every", 0),
        ("training.checkpoint_every", 0),
        ("training.validate_every", 0),
        ("training.seed", -1),
        ("training.buckets", 0),
        ("training.buckets", 10**6),
        ("training.steps", 2**31),
        ("training.steps", -(10**30)),
        ("task.train", 10**20),
        ("memory.slots", 10**12),
        ("memory.layers", 10**12),
        ("model.width", 2**20 + 2),
        ("rehearsal.negatives", 10**11),
        ("optimizer.warmup_steps", 10**19),
        ("optimizer.learning_rate", 1e300),
        ("optimizer.clip_norm", 10**400),
    ],
)
def test_an_impossible_size_is_one_line_that_names_it(path, value):
    assert path.split(".")[1] in error(changed(path, value))


@pytest.mark.parametrize(
    "changes",
    [
        {"memory__heads": 3},
        {"memory__layers": -1},
        {"memory__layers": "two"},
        {"memory__encoder": "gro"},
        {"memory__normalize": "slot"},
        {"memory__name": "rehersal"},
        {"memory__layrs": 2},
        {"memory__update_heads": 2},
    ],
    ids=str,
)
def test_an_impossible_size_of_the_memory_is_one_line_before_anything_is_compiled(changes):
    with pytest.raises(MemjaxError) as caught:
        config = tiny(**changes)
        build(config, tasks.create(config.task).shape)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("size", ["width", "segment", "dtype"])
def test_a_size_of_the_memory_that_comes_from_elsewhere_is_one_line(size):
    with pytest.raises(MemjaxError):
        config = tiny(**{f"memory__{size}": 8})
        build(config, tasks.create(config.task).shape)


def test_a_context_of_more_items_than_a_stream_has_is_one_line():
    shape = tasks.create(tiny().task).shape
    most = shape.segments * shape.segment
    prepare(tiny(memory__context=most))
    with pytest.raises(MemjaxError, match=rf"config.memory.context {most + 1} is more than the {most} items of the"):
        prepare(tiny(memory__context=most + 1))


def test_a_config_without_any_loss_is_one_line():
    weights = {"rehearsal__recollection": 0, "rehearsal__familiarity": 0, "rehearsal__answer": 0}
    for changes in (weights, {"rehearsal__answer": 0, "rehearsal__fragments": 0}):
        with pytest.raises(MemjaxError, match="no loss is left to train with"):
            tiny(**changes)
    tiny(rehearsal__answer=0)
    tiny(rehearsal__answer=0, rehearsal__answer_after=4)
    with pytest.raises(MemjaxError, match=r"answer_after 4 is not below config\.training\.steps 4"):
        tiny(rehearsal__answer_after=4)


@pytest.mark.parametrize(
    "other", [{"answer": 0}, {"answer_after": 1}, {"anneal_steps": 2}], ids=lambda other: next(iter(other))
)
def test_rehearsal_is_balanced_beside_answers_of_every_step(other):
    tiny(rehearsal__balance=0.5)
    with pytest.raises(
        MemjaxError, match=r"config\.rehearsal\.balance makes rehearsal pull as hard as the answer does"
    ):
        tiny(rehearsal__balance=0.5, **{f"rehearsal__{name}": value for name, value in other.items()})


def test_heads_that_do_not_divide_the_width_are_one_line_without_rehearsal_too():
    with pytest.raises(MemjaxError):
        tiny(rehearsal__heads=3, rehearsal__fragments=0)


def test_a_task_name_that_is_no_name_is_one_line():
    error(changed("task.name", ["evidence"]))


@pytest.mark.parametrize("given", [[1], "config", 3], ids=str)
def test_what_is_no_mapping_is_one_line(given):
    error(given)


def test_a_config_is_not_changed_by_reading_it():
    given = mapping()
    before = copy.deepcopy(given)
    from_mapping(given)
    assert given == before


@pytest.mark.parametrize(
    ("changes", "rehearses", "needs_sampler"),
    [
        ({}, True, True),
        ({"rehearsal__fragments": 0}, False, False),
        ({"rehearsal__recollection": 0, "rehearsal__familiarity": 0}, False, False),
        ({"rehearsal__recollection": 0}, True, True),
        ({"rehearsal__sampler": "random"}, True, False),
        ({"model__embeddings": "sampler", "rehearsal__fragments": 0}, False, True),
        ({"system": "directly"}, False, False),
    ],
    ids=str,
)
def test_what_is_rehearsed_follows_from_the_weights(changes, rehearses, needs_sampler):
    config = tiny(**changes)
    assert (config.rehearses, config.needs_sampler) == (rehearses, needs_sampler)


def test_arguments_of_a_config_file():
    assert parse_arg("", "demo", seed=0) == ("demo", {"seed": 0})
    assert parse_arg("paper,seed=3,memory=x", "demo", seed=0, memory="y") == ("paper", {"seed": 3, "memory": "x"})
    assert parse_arg("discrete=1", "demo", discrete=False) == ("demo", {"discrete": True})
    with pytest.raises(MemjaxError, match="must be 0 or 1"):
        parse_arg("discrete=2", "demo", discrete=False)
    with pytest.raises(MemjaxError, match="two variants, 'demo' and 'small'"):
        parse_arg("demo,small", "demo", seed=0)
    for arg, words in (("demo,sed=1", "did you mean 'seed'?"), ("demo,seed=one", "must be of type int")):
        with pytest.raises(MemjaxError) as caught:
            parse_arg(arg, "demo", seed=0)
        assert words in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("file", ["recall:", "needle:", "babilong:", "mqar:64x4,layer=", "language:ptb,layer="])
def test_a_rule_of_memories_is_refused_for_attention(file):
    name, layer = file.split(":")
    for rule, words in (("deltanet", "attention has none"), ("huber", "attention has none"), ("x", "unknown rule")):
        with pytest.raises(MemjaxError, match=words):
            from_mapping(config_file(name)(f"{layer}attention,rule={rule}").to_dict())


@pytest.mark.parametrize("file", ["evidence", "babi"])
def test_an_unknown_variant_is_told_what_there_is(file):
    with pytest.raises(MemjaxError, match="variant of configs/"):
        config_file(file)("dmo")


def test_a_variant_that_is_a_path_is_one_folder_of_runs(tmp_path):
    _, folder = read_settings([f"--config={CONFIGS}/files.py:{tmp_path}"])
    assert folder.parent == Path("runs") and folder.name == f"files-{str(tmp_path).replace('/', '-')}"
