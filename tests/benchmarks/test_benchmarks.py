import importlib.util
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from oracles.checking import assert_close

from memjax import memories, ops
from memjax.experiments.arguments import read_settings
from memjax.experiments.prepare import prepare
from memjax.ops.surprise import SMALL_KEYS

ROOT = Path(__file__).parents[2]
SPREAD = {"median", "q1", "q3", "min", "max"}


def script(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reproduce():
    return script("reproduce")


@pytest.fixture(scope="module")
def counting():
    return script("counting")


def test_a_run_is_finished_at_its_last_step_with_the_config_of_today(reproduce, tmp_path):
    command = "--config=configs/evidence.py:demo,seed=1 --config.rehearsal.fragments=0"
    config = reproduce.config_of(command)
    assert config["rehearsal"]["fragments"] == 0 and config["training"]["seed"] == 1
    assert not reproduce.is_finished(tmp_path, config)
    (tmp_path / "config.json").write_text(json.dumps(config))
    last = config["training"]["steps"]
    for step, finished in ((last - 1, False), (last, True)):
        (tmp_path / "evaluation.json").write_text(json.dumps({"step": step}))
        assert reproduce.is_finished(tmp_path, config) == finished
    other = reproduce.config_of(command.replace("fragments=0", "fragments=2"))
    assert not reproduce.is_finished(tmp_path, other)
    assert reproduce.is_known({"config": config}, config) and not reproduce.is_known({}, config)
    assert not reproduce.is_known({"config": other}, config) and not reproduce.is_known(None, config)


def test_no_hour_of_results_is_thrown_away(reproduce):
    """Every run in results/ has a config of today; what a command of today would train again is not there yet."""
    begun = [table for table in reproduce.TABLES if (ROOT / "results" / f"{table}.json").exists()]
    assert set(reproduce.TABLES) == set(begun)
    for table in begun:
        runs = json.loads((ROOT / "results" / f"{table}.json").read_text())["runs"]
        assert all(reproduce.of_today(entry["config"]) for entry in runs.values())
        wanted = reproduce.commands(table, reproduce.SEEDS.get(table, 1), "data")
        for (row, seed), command in wanted.items():
            entry = runs.get(reproduce.run_name(row, seed))
            assert entry is None or reproduce.is_known(entry, reproduce.config_of(command)), (table, row, seed)


def test_no_result_names_a_place_of_the_machine_that_made_it():
    for file in (ROOT / "results").glob("*.json"):
        assert not re.findall(r"[ =\"](?:/|~/|file:)[\w./-]+", file.read_text()), file.name


def test_a_result_of_before_a_setting_was_there_is_known(reproduce):
    config = reproduce.config_of("--config=configs/evidence.py:demo,printed=1")
    older = {section: dict(keys) if isinstance(keys, dict) else keys for section, keys in config.items()}
    del older["memory"]["write_gain"], older["rehearsal"]["norm_slots"]  # as if they were new
    assert reproduce.is_known({"config": older}, config)
    older["memory"]["encoder"] = "gru"
    assert not reproduce.is_known({"config": older}, config)


@pytest.mark.parametrize(
    ("trained", "tested", "told"),
    [
        ("1 x H100", "1 x cpu", "1 x H100; tested on 1 x cpu"),
        ("1 x cpu", "1 x cpu", "1 x cpu"),
        ("", "1 x cpu", "1 x cpu"),
        (None, "1 x cpu", "1 x cpu"),
        (None, None, None),
    ],
)
def test_what_is_collected_says_where_it_was_trained_and_tested(reproduce, trained, tested, told):
    said = {"trained_on": trained, "devices": tested}
    assert reproduce.devices_of({key: value for key, value in said.items() if value is not None}) == told


def test_what_is_collected_holds_config_and_seconds(reproduce, tmp_path):
    command = "--config=configs/evidence.py:demo"
    config = reproduce.config_of(command)
    folder = reproduce.run_folder(tmp_path, "rehearsal", 0)
    folder.mkdir()
    evaluation = dict.fromkeys(("parameters", "state_bytes", "sampler")) | {"step": 700, "metrics": {"accuracy": 0.5}}
    lines = [
        {"phase": phase, "step": step, "seconds": step * 1.0, "answer_loss": 1 / step}
        for phase in ("sampler", "train")
        for step in (1, 2)
    ]
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evaluation.json").write_text(json.dumps(evaluation))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    reproduce.collect("evidence_demo", tmp_path, {("rehearsal", 0): command}, tmp_path / "out.json")
    (entry,) = json.loads((tmp_path / "out.json").read_text())["runs"].values()
    assert entry["config"] == config and entry["seconds"] == 4.0 and entry["losses"] == {"answer_loss": 0.5}


def test_every_row_of_needles_can_be_trained(reproduce, tmp_path):
    essay = ("What one reads far from where it began is soon forgotten. " * 4000).encode()
    with tarfile.open(tmp_path / "paul_graham_essays.tar.gz", "w:gz") as archive:
        info = tarfile.TarInfo("essay.txt")
        info.size = len(essay)
        archive.addfile(info, io.BytesIO(essay))
    for command in reproduce.commands("needle", 1, str(tmp_path)).values():
        prepare(read_settings([*shlex.split(command), "--config.training.batch_size=256"])[0])  # 8 devices here


def test_spans_have_a_row_for_each_policy_and_one_for_whole_documents(reproduce, monkeypatch):
    wanted = reproduce.commands("spans", 1, "FOLDER")
    configs = {row: reproduce.config_of(command) for (row, _), command in wanted.items()}
    policies = ["fifo", "st", "s", "im", "lifo", "uniform"]
    assert all(configs[policy]["model"]["policy"] == policy for policy in policies)
    assert configs["st held"]["training"]["reward"] == "held" and configs["BiDAF whole"]["system"] == "whole"
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tables = importlib.import_module("downstream_tables")
    tags = {"place": {"early": {"f1": 0.3}, "later": {"f1": 0.1}}}
    run = {"row": "st", "step": 900, "seconds": 600.0}
    run["metrics"] = {"accuracy": 0.1, "f1": 0.25, "held": 0.5, "tags": tags}
    assert tables.spans({"runs": {"st, seed 0": run}}) == [
        "| policy | exact match % | F1 % | early F1 % | later F1 % | held % | seeds | steps | minutes |",
        "|---|---|---|---|---|---|---|---|---|",
        "| st | 10.0 | 25.0 | 30.0 | 10.0 | 50.0 | 1 | 900 | 10 |",
    ]


def test_joint_runs_are_told_by_task_and_by_how_many_they_fail(reproduce, monkeypatch):
    wanted = reproduce.commands("babi_joint", 1, "FOLDER")
    configs = {row: reproduce.config_of(command) for (row, _), command in wanted.items()}
    assert all(config["task"]["task"] == 0 for config in configs.values())
    assert configs["128 wide"]["model"]["width"] == 128 > configs["rehearsal"]["model"]["width"]
    assert configs["no rehearsal"]["rehearsal"]["fragments"] == 0 < configs["dnc"]["rehearsal"]["fragments"]
    assert configs["unit size"]["model"] == configs["rehearsal"]["model"] | {"item_scale": 8.0, "query_scale": 8.0}
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tables = importlib.import_module("tables_of_runs")
    run = {"row": "dnc", "step": 900, "metrics": {"tags": {"task": {"1": {"accuracy": 1.0}, "2": {"accuracy": 0.7}}}}}
    assert tables.joint({"runs": {"dnc, seed 0": run}}) == [
        "| test error % | 1 | 2 | mean | failed | seeds | steps |",
        "|---|---|---|---|---|---|---|",
        "| dnc | 0.0 | 30.0 | 15.0 | 1 | 1 | 900 |",
    ]


def test_single_tasks_have_a_mean_of_those_of_todays_config_beside_what_was_published(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tables = importlib.import_module("tables_of_runs")
    right = {"3": (0.9, 0.7), "17": (1.0,), "3 as embedded": (0.5,)}
    runs = [
        {"row": row, "metrics": {"accuracy": accuracy}, "step": 900, "seconds": 600.0}
        for row, accuracies in right.items()
        for accuracy in accuracies
    ]
    assert tables.babi({"runs": {str(i): run for i, run in enumerate(runs)}}) == [
        "| task | test error % | MemN2N, published, 10k joint: test error % | steps | minutes |",
        "|---|---|---|---|---|",
        "| 3 | 20.0 ± 14.1 | 6.8 | 900 | 10 |",
        "| 3 as embedded | 50.0 | 6.8 | 900 | 10 |",
        "| 17 | 0.0 | 41.8 | 900 | 10 |",
        "| mean of the 2 tasks run with today's config | 10.0 | 24.3 | | |",
    ]


def test_what_needs_no_data_is_given_no_folder_of_it(reproduce):
    assert not any("data_dir" in command for command in reproduce.commands("video", 1, "data").values())
    assert all("--data_dir=data" in command for command in reproduce.commands("spans", 1, "data").values())


def test_a_row_of_all_folds_is_their_mean_and_leaves_the_first_fold_as_it_is(reproduce, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tables = importlib.import_module("downstream_tables")
    wanted = reproduce.commands("learners", 1, "FOLDER")
    folded = {row: reproduce.config_of(command) for (row, _), command in wanted.items() if row.startswith("gru4rec")}
    assert folded["gru4rec fold 4"]["task"]["fold"] == 4 and folded["gru4rec"]["task"]["fold"] == 1
    assert folded["gru4rec fold 4"]["training"] == folded["gru4rec"]["training"]

    def run(row, fold, auc):
        tags = {"half": {"early": {"auc": auc}, "later": {"auc": auc / 2}}}
        sizes = {"step": 900, "state_bytes": None, "parameters": 1234, "config": {"task": {"fold": fold}}}
        return {"row": row, "metrics": {"auc": auc, "tags": tags}} | sizes

    runs = [
        run("dnc", 1, 0.5),
        run("gru4rec", 1, 0.75),
        run("gru4rec fold 2", 2, 0.65),
        run("gru4rec stepwise", 1, 0.8),
    ]
    assert tables.learners({"runs": {one["row"]: one for one in runs}})[2:] == [
        "| dnc | 50.0 | 50.0 | 25.0 | - | 1,234 | 1 | 900 | 1 |",
        "| gru4rec | 75.0 | 75.0 | 37.5 | - | 1,234 | 1 | 900 | 1 |",
        "| gru4rec stepwise | 80.0 | 80.0 | 40.0 | - | 1,234 | 1 | 900 | 1 |",
        "| gru4rec, all folds | 70.0 ± 7.1 | 70.0 ± 7.1 | 35.0 ± 3.5 | - | 1,234 | 2 | 900 | 2 |",
    ]


def test_tables_of_choices_and_videos_say_what_is_right_and_what_it_cost(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tables = importlib.import_module("downstream_tables")
    cost = {"row": "dnc", "step": 900, "seconds": 600.0, "state_bytes": None, "parameters": 1234}
    tags = {"type": {"motion": {"accuracy": 0.5}}, "place": {"early": {"accuracy": 0.3}, "later": {"accuracy": 0.1}}}
    cosines = [[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]  # two of three slots hold the same: 3^2 / 5
    own = cost | {"metrics": {"accuracy": 0.25, "tags": tags}, "slot_cosines": cosines}
    found = {"runs": {"dnc, seed 0": own}}
    assert tables.choices(found)[2:] == ["| dnc | 25.0 | 1.8 | - | 1,234 | 1 | 900 | 10 |"]
    assert tables.videos(found)[0].startswith("| right % | all | motion | early | later |")
    assert tables.videos(found)[2:] == ["| dnc | 25.0 | 50.0 | 30.0 | 10.0 | 1.8 | - | 1,234 | 1 | 900 | 10 |"]
    del own["slot_cosines"]  # as of what reads the stream itself
    assert tables.choices(found)[2:] == ["| dnc | 25.0 | - | - | 1,234 | 1 | 900 | 10 |"]
    own["devices"] = "1 x NVIDIA H100 80GB HBM3; tested on 1 x cpu"
    assert tables.choices(found)[2:] == ["| dnc | 25.0 | - | - | 1,234 | 1 | 900 | 10 (H100) |"]
    own["devices"] = "1 x cpu; tested on 1 x NVIDIA H100 80GB HBM3"
    assert tables.choices(found)[2:] == ["| dnc | 25.0 | - | - | 1,234 | 1 | 900 | 10 |"]


def test_layers_and_memories_in_babilong_stand_in_one_table(reproduce, monkeypatch):
    wanted = reproduce.commands("babilong", 2, "FOLDER")
    configs = {row: reproduce.config_of(command) for (row, seed), command in wanted.items() if seed == 1}
    assert configs["LMM"]["task"]["name"] == "babilong" and configs["dnc"]["task"]["name"] == "babilong_stream"
    assert configs["dnc no rehearsal"]["rehearsal"]["fragments"] == 0 < configs["dnc"]["rehearsal"]["fragments"]
    assert not configs["LMM no curriculum"]["task"]["curriculum"] and configs["LMM"]["task"]["curriculum"]
    read = ("tasks", "haystack", "length", "lengths", "words", "vocabulary", "test", "seed")
    assert len({tuple(config["task"][name] for name in read) for config in configs.values()}) == 1
    assert all(config["training"]["seed"] == 1 for config in configs.values())
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    tables = importlib.import_module("tables_of_runs")

    def made(row, right):
        tags = {"length": {"0": {"accuracy": right}, "2048": {"accuracy": right / 2}}, "task": {"1": {}, "3": {}}}
        tags["task x length"] = {f"{t} x {n}": {"accuracy": right / int(t)} for t in "13" for n in ("0", "2048")}
        sizes = {"step": 2500, "parameters": 1234, "state_bytes": 5120, "seconds": 600.0}
        return sizes | {"row": row, "metrics": {"tags": tags}}

    found = {"runs": {row: made(row, right) for row, right in (("LMM", 0.5), ("dnc", 0.25))}}
    assert tables.hidden_facts(found) == [
        "| accuracy % | facts | 2,048 | bytes of state | parameters | seeds | steps | minutes |",
        "|---|---|---|---|---|---|---|---|",
        "| LMM | 50.0 | 25.0 | 5,120 | 1,234 | 1 | 2,500 | 10 |",
        "| dnc | 25.0 | 12.5 | 5,120 | 1,234 | 1 | 2,500 | 10 |",
    ]
    assert tables.by_task_and_length(found)[2:] == [
        "| LMM | 50.0 / 50.0 | 16.7 / 16.7 |",
        "| dnc | 25.0 / 25.0 | 8.3 / 8.3 |",
    ]


def test_layers_are_to_be_tried_on_every_kind_of_needle_and_on_words_and_characters(reproduce):
    commands = reproduce.commands("needle", 1, "FOLDER")
    configs = {row: reproduce.config_of(command) for (row, _), command in commands.items()}
    assert [configs[f"LMM {kind}"]["task"]["needle"] for kind in ("number", "word")] == ["number", "word"]
    essays = [configs[f"{layer} essays"] for layer in ("LMM", "MAC")]
    assert all(config["task"]["haystack"] == "paul_graham_essays.tar.gz" for config in essays)
    assert all(config["task"]["pieces"] == 8 for config in essays)
    commands = reproduce.commands("language", 1, "FOLDER")
    configs = {row: reproduce.config_of(command) for (row, _), command in commands.items()}
    assert all(("characters" in row) == (config["task"]["unit"] == "character") for row, config in configs.items())
    ablated = {name: configs[f"LMM no {name}"]["model"] for name in ("momentum", "forgetting", "convolution")}
    assert all(ablated[name] == configs["lmm"]["model"] | {name: False} for name in ablated)
    assert configs["LMM deep"]["model"]["memory_layers"] == 2 and configs["LMM persistent"]["model"]["persistent"] == 4


def test_a_row_that_is_none_is_refused(reproduce, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["reproduce.py", "evidence_small", "--only=rehersal"])
    with pytest.raises(SystemExit) as caught:
        reproduce.main()
    assert caught.value.code == 2 and "no row rehersal" in capsys.readouterr().err


def test_sigterm_ends_the_training_too(reproduce, tmp_path):
    def killed_once_it_runs():
        while not (tmp_path / "runs").exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    lines = "import pathlib, sys, time; pathlib.Path(sys.argv[1]).touch(); time.sleep(600)"
    threading.Thread(target=killed_once_it_runs, daemon=True).start()
    begun = time.monotonic()
    with pytest.raises(SystemExit, match="the same command goes on"):
        reproduce.run([sys.executable, "-c", lines, str(tmp_path / "runs")])
    assert time.monotonic() - begun < 300
    assert reproduce.run([sys.executable, "-c", "raise SystemExit(3)"]) == 3


@pytest.mark.parametrize(("arguments", "written"), [([], True), (["--quick"], False)])
def test_a_quick_benchmark_overwrites_no_result(arguments, written, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    bench_write = importlib.import_module("bench_write")
    monkeypatch.setattr(sys, "argv", ["bench_write.py", *arguments])
    assert bench_write.parse().out == (ROOT / "results" / "bench_write.json" if written else None)


def quick_run(script, folder):
    """What a benchmark writes when it is run as a user would, at tiny sizes."""
    out = folder / "results" / "found.json"
    command = [sys.executable, f"benchmarks/{script}.py", "--quick", "--repeats", "2", "--out", str(out)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(out.read_text())


@pytest.mark.slow
def test_bench_write_runs_and_writes_what_it_found(tmp_path):
    found = quick_run("bench_write", tmp_path)

    assert found.keys() >= {"command", "machine", "sizes", "rows", "ratios", "growth", "questions", "targets", "notes"}
    assert "bench_write.py --quick" in found["command"]
    assert found["machine"].keys() >= {"cpu", "cores", "jax", "torch", "python"}
    torch = importlib.util.find_spec("torch") is not None
    contenders = {"encoder", "memorize", "plain"} | ({"torch"} if torch else set())
    for job in ("forward", "step"):
        for length in found["sizes"]["lengths"]:
            rows = [row for row in found["rows"] if (row["job"], row["T"]) == (job, length)]
            assert {row["contender"] for row in rows} == contenders
            assert all(row.keys() >= SPREAD and row["min"] > 0 for row in rows)
    assert all(row.keys() >= SPREAD for row in found["ratios"])
    assert len({row["state_bytes"] for row in found["growth"]}) == 1
    assert [row["Q"] for row in found["questions"]] == list(found["sizes"]["questions"])
    assert all(target["met"] in (True, False) for target in found["targets"])
    assert all(difference < 1e-4 for difference in found["differences"].values())
    assert any("PyTorch left out" in note for note in found["notes"]) == (not torch)


@pytest.mark.slow
def test_bench_surprise_runs_and_writes_what_it_found(tmp_path):
    found = quick_run("bench_surprise", tmp_path)

    theirs = importlib.util.find_spec("titans_pytorch") is not None
    contenders = {"token", "chunk", "mlp", "sequential", "associative", "LMM", "LMM deep", "MAC"}
    for job, more in (("forward", {"LMM sequential"}), ("gradient", set())):
        names = {row["contender"] for row in found["rows"] if row["job"] == job}
        assert {name for name in names if not name.startswith("titans")} == contenders | more
        assert len(names) == len(contenders | more) + 4 * theirs
    ours = [row for row in found["rows"] if not row["contender"].startswith("titans")]
    assert all(row["flops"] > 0 and row["matmul_share"] > 0 for row in ours)
    assert [row["job"] for row in found["matmul"]] == ["forward", "gradient"]
    assert all(row["flops_per_s"].keys() == SPREAD for row in found["matmul"])
    lines = script("tables_of_times").surprise_pace(found)
    assert len(lines) == 2 + len(contenders) + 1 + 4 * theirs and "| LMM sequential | -, " in "\n".join(lines)
    assert all(row.keys() >= SPREAD and row["min"] > 0 for row in found["rows"])
    peaks = {row["contender"]: row["peak_bytes"] for row in found["rows"] if "peak_bytes" in row}
    assert set(peaks) == set(found["sizes"]["peaks_of"]) == {"chunk"} or not os.access("/proc/self/clear_refs", os.W_OK)
    assert all(peak >= 0 for peak in peaks.values())
    assert found["differences"] and all(difference < 1e-4 for difference in found["differences"].values())
    assert any("titans-pytorch left out" in note for note in found["notes"]) == (not theirs)


@pytest.mark.slow
def test_bench_surprise_shards_runs_and_writes_what_it_found(tmp_path):
    found = quick_run("bench_surprise_shards", tmp_path)
    assert [one["job"] for one in found["results"]] == ["forward", "gradient"] and found["devices"] == 8
    for one in found["results"]:
        assert one["unsharded"].keys() >= SPREAD | {"flops"} and max(one["difference"]) < 1e-4
        assert [row["shards"] for row in one["rows"]] == found["sizes"]["shards"]
        assert all(
            row[ratio].keys() == SPREAD for row in one["rows"] for ratio in ("unsharded/share", "unsharded/here")
        )
        few, many = (row["flops_per_device"] for row in one["rows"])
        assert one["unsharded"]["flops"] / 8 < many < few


def test_the_products_of_a_traced_program_are_counted_as_often_as_they_are_made(counting):
    def twice(a, b):
        def step(carry, _):
            return carry @ b, None

        return jax.lax.scan(step, a, length=5)[0] @ b

    jaxpr = jax.make_jaxpr(jax.jit(twice))(jnp.ones((2, 3)), jnp.ones((3, 3))).jaxpr
    assert counting.products(jaxpr) == {"flops": 6 * 2 * 2 * 3 * 3, "bytes": 6 * 4 * (6 + 9 + 6), "count": 6}


def test_the_messages_of_a_compiled_program_are_counted_with_their_bytes(counting):
    mesh = jax.make_mesh((2, 4), ("a", "b"), axis_types=(jax.sharding.AxisType.Auto,) * 2)

    def send(x):
        whole = jax.lax.all_gather(x, "b", tiled=True)
        mean, part = jax.lax.psum(x, "a"), jax.lax.psum_scatter(whole, "b", tiled=True)
        return mean + part + jax.lax.ppermute(x, "a", [(0, 1), (1, 0)])

    sent = jax.shard_map(send, mesh=mesh, in_specs=jax.P(("a", "b")), out_specs=jax.P(("a", "b")), check_vma=False)
    found = counting.messages(
        jax.jit(sent).lower(jnp.ones((64, 16))).compile().as_text(), 4
    )  # 8 x 16 x 4 bytes on each
    assert found == {
        "all-gather": {"count": 1, "bytes": 4 * 512 * 3 / 4, "hops": 3},
        "all-reduce": {"count": 1, "bytes": 512 * 2 * 1 / 2, "hops": 2},
        "reduce-scatter": {"count": 1, "bytes": 512 * 3, "hops": 3},
        "collective-permute": {"count": 1, "bytes": 512, "hops": 1},
    }


@pytest.mark.slow
def test_bench_scaling_runs_and_writes_what_it_found(tmp_path):
    found = quick_run("bench_scaling", tmp_path)
    assert [row["mesh"] for row in found["weak"]] == ["data=1", "data=2", "fsdp=2"]
    whole, again, part = (row["state_bytes_per_device"] for row in found["weak"])
    assert whole == again > part > whole / 2 and all(row["time/ideal"].keys() == SPREAD for row in found["weak"])
    for row in found["flat"]:
        assert len({facts["state_bytes"] for facts in row["written"].values()}) == 1
        assert all(facts["time/first"].keys() == SPREAD for facts in row["written"].values())
    for row in found["pod"]:
        assert row["messages"].keys() >= {"all-reduce", "all-gather", "reduce-scatter"}
        assert row["products"]["flops"] > 0 and len(row["least_seconds"]) == 6


@pytest.mark.slow
def test_bench_length_runs_and_writes_what_it_found(tmp_path):
    rows = quick_run("bench_length", tmp_path)["rows"]
    assert [(row["layer"], row["job"]) for row in rows] == [
        (layer, job) for layer in ("token", "chunk", "mlp") for job in ("forward", "gradient")
    ]
    assert all(row["long/short"].keys() >= SPREAD and row["us_per_token"]["long"] > 0 for row in rows)


def test_a_dncs_step_is_that_of_the_dnc_of_pypi():
    """Without its package: `python benchmarks/dnc_access.py` wrote down what it does."""
    access, said = script("dnc_access"), json.loads((ROOT / "tests" / "oracles" / "pypi_dnc.json").read_text())
    for case in said["cases"]:
        start = {name: np.array(value) for name, value in case["start"].items()}
        after = access.our_access(access.DNCSizes(**case["sizes"]), np.array(case["flat"]), start)
        assert_close(after, {name: np.array(value) for name, value in case["after"].items()}, 2e-6)


@pytest.mark.slow
def test_bench_memories_runs_and_writes_what_it_found(tmp_path):
    found = quick_run("bench_memories", tmp_path)
    theirs = importlib.util.find_spec("dnc") is not None
    for job in ("forward", "gradient"):
        rows = [row for row in found["rows"] if row["job"] == job]
        assert [row["memory"] for row in rows] == list(memories.registry)
        assert all(row.keys() >= SPREAD and row["us_per_token"] > 0 and row["state_bytes"] > 0 for row in rows)
    (race,) = found["dnc"].values()
    assert [row["contender"] for row in race["rows"]] == ["memjax", "memjax, sharded", "PyPI dnc"][: 2 + theirs]
    assert race["devices"] in (1, 2) and race["sharding_difference"] < 1e-5
    assert list(race["ratios"]) == ["memjax", "memjax, sharded"][: 2 * theirs]
    assert bool(found["differences"]) == theirs


@pytest.mark.slow
def test_bench_retention_runs_and_writes_what_it_found(tmp_path):
    found = quick_run("bench_retention", tmp_path)
    assert [row["contender"] for row in found["learning"]["rows"]] == ["memjax", "Python loop"]
    for row in (*found["learning"]["rows"], found["mazes"]):
        assert row.keys() >= SPREAD and row["steps_per_second"] > 0
    assert found["learning"]["ratio"].keys() == SPREAD and found["learning"]["difference"] < 1e-4


@pytest.mark.slow
def test_bench_buckets_runs_and_writes_what_it_found(tmp_path):
    found = quick_run("bench_buckets", tmp_path)
    none, some = found["rows"]
    assert (none["buckets"], some["buckets"]) == (1, 2) and found["ratio"].keys() == SPREAD
    assert len(some["shares"]) == 2 and some["padded"] < none["padded"]
    assert set(some["shares"]) | set(none["shares"]) == set(found["step_s"])
    for row in found["rows"]:
        assert row["steps_per_second"].keys() == SPREAD and min(row["compile_s"], row["read_s"]) > 0
        np.testing.assert_allclose(sum(row["shares"].values()), 1)
    table = script("tables_of_times").buckets(found)
    assert len(table) == 5 and len({line.count("|") for line in table}) == 1


@pytest.mark.slow
def test_bench_serving_runs_and_writes_what_it_found(tmp_path):
    found = quick_run("bench_serving", tmp_path)
    gru, memory = found["rows"]
    assert "writes" not in gru and memory["writes"].keys() == SPREAD and memory["bytes"] > 0 < gru["questions"]["min"]
    assert gru["ratio"]["median"] == 1 and memory["ratio"].keys() == SPREAD
    table = script("tables_of_times").serving(found)
    assert len(table) == 4 and len({line.count("|") for line in table}) == 1


@pytest.mark.slow
def test_bench_kernel_runs_and_writes_what_it_found(tmp_path):
    found = quick_run("bench_kernel", tmp_path)
    assert [row["job"] for row in found["rows"]] == ["forward", "backward"]
    for row in found["rows"]:
        assert row["closed_form/pallas"].keys() == SPREAD and row["pallas"]["share"] > 0
        assert 0 < max(row["pallas"]["error"], row["closed_form"]["error"]) < 1e-5
    table = script("tables_of_times").kernel_pace(found)
    assert len(table) == 4 and len({line.count("|") for line in table}) == 1


@pytest.mark.slow
def test_bench_asked_runs_and_writes_what_it_found(tmp_path):
    found = quick_run("bench_asked", tmp_path)
    assert [row["what"] for row in found["rows"]] == ["asked once", "asked 4 times", "half a stream"]
    assert found["ratio"].keys() == found["anew_ratio"].keys() == SPREAD and found["ratio"]["min"] > 0
    table = script("tables_of_times").asked(found)
    assert len(table) == 5 and len({line.count("|") for line in table}) == 1


@pytest.mark.slow
def test_bench_step_runs_and_writes_what_it_found(tmp_path):
    found = quick_run("bench_step", tmp_path)
    rehearsed, plain = found["rows"]
    assert (rehearsed["kind"], plain["kind"]) == ("rehearsed", "not rehearsed")
    assert rehearsed["flops"] > plain["flops"] > 0 and rehearsed["faster"]["max"] == 1
    for row in found["rows"]:
        measured = ("seconds", "steps_per_s", "flops_per_s", "matmul_share", "matmul_per_s", "faster")
        assert all(row[name].keys() == SPREAD and row[name]["min"] > 0 for name in measured)
    table = script("tables_of_times").step(found)
    assert len(table) == 4 and len({line.count("|") for line in table}) == 1


@pytest.mark.slow
def test_bench_token_by_token_runs_and_writes_what_it_found(tmp_path):
    found = quick_run("bench_token_by_token", tmp_path)
    (row,) = found["rows"]
    assert (row["keys"], row["sequences"], row["tokens"]) == (4, 2, 8)
    assert row["closed_form/sequential"].keys() == SPREAD and row["sequential"]["median"] > 0
    table = script("tables_of_times").token_by_token(found)
    assert len(table) == 3 and len({line.count("|") for line in table}) == 1


def test_keys_are_small_where_a_cpu_was_measured_to_read_token_by_token_sooner():
    rows = json.loads((ROOT / "results" / "bench_token_by_token.json").read_text())["rows"]
    sooner = {row["keys"] for row in rows if row["closed_form/sequential"]["q1"] > 1}
    later = {row["keys"] for row in rows if row["closed_form/sequential"]["q3"] < 1}
    assert f"at most {SMALL_KEYS} numbers" in ops.surprise_linear.__doc__
    assert max(sooner) == SMALL_KEYS and min(later) > SMALL_KEYS and not sooner & later


@pytest.fixture(scope="module")
def memory_networks():
    spec = importlib.util.spec_from_file_location("memory_networks", ROOT / "benchmarks" / "memory_networks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--recipe=joined", "unknown recipe 'joined'; did you mean 'joint'?"),
        ("--restarts=0", "--restarts must be at least 1, not 0"),
        ("--tasks=1", "--tasks is for --recipe=single"),
        ("--data_dir=nowhere", "memjax prepare babi"),
    ],
)
def test_memory_networks_says_in_one_line_what_is_wrong(
    memory_networks, argument, message, monkeypatch, capsys, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["memory_networks.py", argument])
    assert memory_networks.main() == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_memory_networks_reports_the_restart_of_the_lowest_training_error(memory_networks, monkeypatch):
    def restart(**means):
        return {split: {"mean": mean, "loss": 0.1, "tasks": {1: mean, 2: mean}} for split, mean in means.items()}

    restarts = [restart(train=2.0, valid=1.0, test=1.0), restart(train=1.0, valid=3.0, test=5.0)]
    models = {"joint": {"chosen": 1, "seconds": 2.0, "restarts": restarts}}
    monkeypatch.setattr(sys, "argv", ["memory_networks.py", "--restarts=2"])
    found = memory_networks.summary(memory_networks.parse(), models)
    assert found["test_error"] == {"mean": 5.0, "tasks": {1: 5.0, 2: 5.0}} and found["paper"]["mean"] == 12.4
    assert len(found["paper"]["tasks"]) == 20 and found["recipe"]["epochs"] == 60
    assert memory_networks.recipe_of("joint", "en-10k").epochs == 20


def test_memory_networks_errors_are_by_task_and_their_mean(memory_networks):
    np = memory_networks.np
    wrong = np.array([[True, False, False, False, False, True]])
    found = memory_networks.errors(memory_networks.Evaluation(np.array([0.5]), wrong), np.array([1, 1, 2, 2, 2, 2]), 0)
    assert found == {"mean": 37.5, "loss": 0.5, "tasks": {1: 50.0, 2: 25.0}}
