import json
import math
import subprocess
import sys

import numpy as np
import pytest

from memjax.errors import MemjaxError
from memjax.reporting import load_run
from memjax.reporting.run_folder import distinct_names, number, with_parts


def line(step, loss, **more):
    return {"phase": "train", "step": step, "seconds": step / 10, "loss": loss, **more}


def test_a_whole_run(make_run):
    lines = [
        {"phase": "sampler", "step": 10, "seconds": 1.0, "loss": 3.0},
        line(10, 2.0, accuracy=0.5),
        {"phase": "train", "split": "valid", "step": 10, "accuracy": 0.4, "tags": {"half": {}}},
        line(20, 1.0),
    ]
    run = load_run(make_run("first", lines=lines))
    assert run.name == "first"
    assert run.config["memory"]["slots"] == 20
    assert (run.label, run.task) == ("rehearsal memory", "evidence")
    assert set(run.curves) == {"sampler", "train"}
    assert set(run.curves["train"]) == {"seconds", "loss", "accuracy"}
    np.testing.assert_array_equal(run.curves["train"]["loss"].steps, [10, 20])
    np.testing.assert_array_equal(run.curves["train"]["loss"].values, [2.0, 1.0])
    np.testing.assert_array_equal(run.curves["train"]["accuracy"].steps, [10])
    assert set(run.validation) == {"train"}
    assert set(run.validation["train"]) == {"accuracy"}
    assert run.validation["train"]["accuracy"].values[0] == 0.4
    assert run.evaluation["examples"] == 1000


def test_after_a_resume_the_later_line_counts_and_steps_stay_in_order(make_run):
    run = load_run(make_run(lines=[line(10, 5.0), line(20, 4.0, accuracy=0.1), line(30, 3.0), line(20, 2.0)]))
    np.testing.assert_array_equal(run.curves["train"]["loss"].steps, [10, 20, 30])
    np.testing.assert_array_equal(run.curves["train"]["loss"].values, [5.0, 2.0, 3.0])
    assert "accuracy" not in run.curves["train"]


def test_half_a_line_at_the_end_is_left_out(make_run):
    folder, text = make_run(lines=[]), [json.dumps(line(step, 1.0 / step)) for step in (10, 20, 30)]
    log = folder / "metrics.jsonl"
    for content, steps in (
        (f"{text[0]}\n{text[1][:30]}", [10]),
        (f"{text[0]}\n{text[1]}", [10, 20]),
        (f"{text[0]}\n\n{text[1]}\n{text[2][:1]}", [10, 20]),
    ):
        log.write_text(content)
        np.testing.assert_array_equal(load_run(folder).curves["train"]["loss"].steps, steps)
    log.write_bytes(f"{text[0]}\n".encode() + b'{"phase": "tr\xc3')
    np.testing.assert_array_equal(load_run(folder).curves["train"]["loss"].steps, [10])


def test_what_is_not_finite_is_a_gap(make_run):
    run = load_run(make_run(lines=[line(10, math.nan), line(20, math.inf), line(30, None), line(40, 1.0)]))
    np.testing.assert_array_equal(run.curves["train"]["loss"].values, [np.nan, np.nan, np.nan, 1.0])


def test_a_run_that_just_began(make_run):
    folder = make_run(evaluation=None, lines=[])
    assert load_run(folder).curves == {}
    (folder / "metrics.jsonl").unlink()
    run = load_run(str(folder))
    assert (run.curves, run.validation, run.evaluation) == ({}, {}, None)
    assert run.label == "rehearsal memory"
    config = {"system": "multi_hop", "task": {"name": "evidence"}}
    assert load_run(make_run("other", config=config, evaluation=None)).label == "multi hop"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("config.json", None, "no config.json"),
        ("config.json", '{"system": ', "config.json is damaged"),
        ("config.json", "[" * 100_000, "config.json is damaged"),
        ("config.json", "[1]", "list, not an object"),
        ("evaluation.json", "", "evaluation.json is damaged"),
        ("evaluation.json", "{}", "no metrics"),
        ("evaluation-b.json", "{}", "evaluation-b.json is damaged: it has no metrics"),
        ("evaluation-b.json", '{"metrics": {}, "report": 1}', "evaluation-b.json is damaged .report is no object"),
        ("config.json", b'{"system": "\xff"}', "config.json is damaged"),
        ("metrics.jsonl", "hello\n{}\n", "line 1 is no JSON"),
        ("metrics.jsonl", '{"phase": "tra\n{}\n', "line 1 is no JSON"),
        ("metrics.jsonl", "[1]\n", "line 1 is no JSON object"),
        ("metrics.jsonl", b"\xff\n{}\n", "line 1 is no JSON"),
        ("metrics.jsonl", '{"phase": "train", "loss": 1}\n', "line 1 has no phase or no step"),
        ("metrics.jsonl", '{"phase": "train", "step": 1e300}\n', "line 1 has no phase or no step"),
        ("metrics.jsonl", '{"phase": "train", "step": -1}\n', "line 1 has no phase or no step"),
    ],
)
def test_damage_is_one_clear_line(make_run, file, content, message):
    folder = make_run()
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(MemjaxError, match=message) as caught:
        load_run(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


def test_no_folder(tmp_path):
    with pytest.raises(MemjaxError, match="no such folder"):
        load_run(tmp_path / "none")


def test_names_tell_runs_apart(make_run):
    a, b, c = (load_run(make_run(name)) for name in ("x/run", "y/run", "z/other"))
    assert distinct_names([a, b, c]) == ["x/run", "y/run", "other"]
    assert distinct_names([c, c]) == [distinct_names([c, c])[0], distinct_names([c, c])[0] + " (2)"]
    assert distinct_names([]) == []


def test_the_last_validation_is_kept_whole(make_run):
    tags = {"half": {"early": {"accuracy": 0.5, "examples": 2}}}
    common = {"phase": "train", "split": "valid", "tags": tags}
    valid = [{**common, "step": step, "accuracy": step / 30} for step in (10, 20, 15)]
    other = {"phase": "sampler", "split": "valid", "step": 30, "accuracy": 1}
    run = load_run(make_run(lines=[line(10, 1.0), *valid, other]))
    assert run.validated == valid[1]
    assert load_run(make_run("b", lines=[line(10, 1.0), other])).validated is None


def test_evaluations_beside_the_first_one_are_found_by_their_names(make_run):
    folder = make_run(lines=[line(10, 1.0)])
    for name in ("evaluation-valid.json", "evaluation-.json", "evaluation-a.b.json", "evaluation-x.json.tmp"):
        (folder / name).write_text(json.dumps({"metrics": {"accuracy": len(name)}}))
    run = load_run(folder)
    assert list(run.more) == ["a.b", "valid"] and run.evaluation["examples"] == 1000
    parts = with_parts([run, run])
    assert [part.part for part in parts] == ["", "a.b", "valid"] * 2
    assert [part.curves for part in parts[:3]] == [run.curves, {}, {}]
    assert distinct_names(parts[:3]) == ["rehearsal", "rehearsal, a.b", "rehearsal, valid"]


@pytest.mark.parametrize("value", [True, "1", None, [], math.nan])
def test_what_is_no_number_is_nan(value):
    assert math.isnan(number(value))


def test_reading_a_run_folder_imports_neither_jax_nor_what_the_run_needs(make_run):
    """Whatever a folder says, nothing that it names is imported."""
    config = {"system": "memory", "task": {"name": "antigravity"}, "plugins": ["antigravity"]}
    found = {"metrics": {"accuracy": 1}, "plugin": "antigravity", "label": "antigravity"}
    folder = make_run(config=config, evaluation=found)
    code = f"import sys; from memjax.reporting import load_run, print_table; print_table([load_run({str(folder)!r})])"
    code += "; sys.exit(bool({'antigravity', 'optax', 'orbax', 'memjax.training', 'memjax.tasks'} & {*sys.modules}))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
