"""BABILong by one command, with a layer and with a memory: trained in order, tested by length, in one table."""

import json

import pytest
from tasks.test_babilong import SPEC, write_data
from training.test_sequence_runs import SIZES
from training.tiny import CONFIGS, TINY, config_file, flags

from memjax import cli, memories
from memjax.experiments.reading import from_mapping, to_mapping
from memjax.experiments.sequence import LAYERS

TASK = {f"task.{name}": value for name, value in SPEC.items()}
OURS = {path: value for path, value in TINY.items() if not path.startswith("task.")} | {"training.sampler_steps": 0}
VARIANTS = ["attention", "lmm", "mac", "mag", "mal", "directly", "multi_hop", *memories.registry]
RUNS = {"lmm": SIZES, "rehearsal": OURS}


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("babilong"))


@pytest.mark.slow
@pytest.mark.parametrize("variant", RUNS)
def test_it_is_trained_tested_and_reported_by_one_command(variant, data, tmp_path, capsys):
    run = tmp_path / "run"
    sizes = RUNS[variant] | TASK | {"training.steps": 2}
    arguments = [f"--config={CONFIGS / 'babilong'}.py:{variant}", f"--data_dir={data}", f"--run={run}", *flags(sizes)]
    assert cli.main(["train", *arguments]) == 0, capsys.readouterr().err
    found = json.loads((run / "evaluation.json").read_text())
    assert found["step"] == 2 and found["examples"] == 2 * 4 * SPEC["test"] and found["state_bytes"] > 0
    tags = found["metrics"]["tags"]
    assert list(tags["length"]) == ["0", "200", "400", "1600"] and list(tags["task"]) == ["1", "2"]
    assert len(tags["task x length"]) == 8 and (run / "report.html").exists()
    assert any("task 2: 10% of the questions" in note for note in found["notes"])


@pytest.mark.parametrize(
    "variant", ["attention", "lmm", "mac", "mag", "mal", "directly", "multi_hop", *memories.registry]
)
def test_every_layer_and_every_memory_is_a_variant(variant):
    settings = config_file("babilong")(f"{variant},task=2,seed=3").to_dict()
    config = from_mapping(settings)
    assert from_mapping(to_mapping(config)) == config and to_mapping(config)["task"] == settings["task"]
    assert (config.task.tasks, config.training.seed) == ("2", 3)
    assert config.task.train == config.training.steps * config.training.batch_size  # each example once
    if variant in LAYERS and variant not in memories.registry:
        assert config.model.layer == variant and settings["task"]["name"] == "babilong"
    else:
        assert variant in (config.memory.name, config.system) and settings["task"]["name"] == "babilong_stream"


def test_layer_and_memory_stand_above_the_variant_as_compare_wants_it():
    make = config_file("babilong")
    assert make("lmm,memory=dnc").memory.name == "dnc" and make("rehearsal,layer=mac").model.layer == "mac"
    assert make("lmm,rule=deltanet").model.momentum is False
    for wrong in ("lnm", "lmm,layer=memn2n", "lmm,memory=mac"):
        with pytest.raises(Exception, match=r"variant of configs/babilong\.py"):
            make(wrong)
