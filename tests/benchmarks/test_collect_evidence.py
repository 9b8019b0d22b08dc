"""What is collected of runs on evidence is what their folders hold."""

import json

import collect_evidence


def test_longer_streams_are_told_by_length_and_half(tmp_path):
    run = tmp_path / "medium" / "no-rehearsal-2"
    run.mkdir(parents=True)
    halves = {"early": {"accuracy": 0.25}, "later": {"accuracy": 0.75}}
    tested = {"devices": "1 x cpu", "metrics": {"answers": 8, "accuracy": 0.5, "tags": {"half": halves}}}
    (run / "evaluation-length-800.json").write_text(json.dumps(tested))
    (run / "evaluation.json").write_text("{}")  # that of the length of training is in its own table
    collect_evidence.main(["longer", str(run), f"--out={tmp_path / 'out.json'}"])
    (found,) = json.loads((tmp_path / "out.json").read_text())["runs"].values()
    assert (found["row"], found["seed"], found["length"]) == ("no rehearsal", 2, 800)
    assert (found["early"], found["later"], found["all"]) == (0.25, 0.75, 0.5)
    assert found["command"] == "memjax evaluate runs/medium/no-rehearsal-2 --config.task.length=800"


def test_training_is_told_by_windows_with_its_largest_gradient(tmp_path):
    run = tmp_path / "rehearsal-0"
    run.mkdir()
    lines = [{"phase": "sampler", "step": 9, "split": "valid", "accuracy": 0.4}]
    lines += [
        {"phase": "train", "step": step, "accuracy": step / 1000, "grad_norm": step} for step in (250, 500, 750, 1000)
    ]
    lines += [{"phase": "train", "step": 500, "split": "valid", "accuracy": 0.9}]
    (run / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = collect_evidence.training(run)["rehearsal-0"]
    assert found["sampler_validation"] == 0.4
    assert found["training"] == [
        {"step": 500, "largest_gradient_norm": 500, "accuracy": 0.375},
        {"step": 1000, "largest_gradient_norm": 1000, "accuracy": 0.875},
    ]
