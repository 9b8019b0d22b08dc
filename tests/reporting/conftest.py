import json

import numpy as np
import pytest

from memjax.experiments.stream_qa.stream_qa_report import stream_qa_report

PLACES = {"half": ("early", "later"), "quarter": ("1st quarter", "2nd quarter", "3rd quarter", "4th quarter")}


def metrics(accuracy, *, tags=None):
    return {"accuracy": accuracy, "loss": 0.25, "tags": tags or {}}


def places(early, later):
    quarters = {"1st quarter": early - 0.05, "2nd quarter": early + 0.05, "3rd quarter": later, "4th quarter": later}
    return {
        "half": {"early": {"accuracy": early, "examples": 500}, "later": {"accuracy": later, "examples": 500}},
        "quarter": {name: {"accuracy": value, "examples": 250} for name, value in quarters.items()},
    }


def curve_lines(phase, *, seed=0, last=1200, floor=0.1, parts=()):
    rng = np.random.default_rng(seed)
    for step in range(20, last + 1, 20):
        left = np.exp(-4 * step / last)
        line = {"phase": phase, "step": step, "seconds": 0.05 * step}
        line |= {"loss": floor + 2 * left * rng.lognormal(0, 0.1), "accuracy": 0.95 - 0.85 * left + 0.03 * rng.normal()}
        line |= {part: (0.4 * left + 0.02) * rng.lognormal(0, 0.1) for part in parts}
        yield line
        if step % 200 == 0:
            yield {
                "phase": phase,
                "split": "valid",
                "step": step,
                "accuracy": 0.92 - 0.85 * left,
                "loss": 2 * left + 0.2,
            }


@pytest.fixture
def make_run(tmp_path):
    """Writes a run folder; whatever it is given replaces what it would have written."""

    def make(name="rehearsal", *, config=None, lines=None, evaluation="usual", accuracy=(0.912, 0.95), seed=0):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        usual = {
            "system": "memory",
            "seed": seed,
            "task": {"name": "evidence"},
            "memory": {"name": "rehearsal", "slots": 20},
            "training": {"steps": 1200},
        }
        (folder / "config.json").write_text(json.dumps(config or usual))
        if lines is None:
            parts = ("answer_loss", "recollection_loss", "familiarity_loss")
            lines = [
                *curve_lines("sampler", seed=seed, last=400),
                *curve_lines("train", seed=seed, parts=parts),
            ]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        if evaluation == "usual":
            rng = np.random.default_rng(seed)
            evaluation = {
                "split": "test",
                "label": "rehearsal memory",
                "task": "evidence",
                "step": 1200,
                "parameters": 123456,
                "state_bytes": 5120,
                "examples": 1000,
                "metrics": metrics(sum(accuracy) / 2, tags=places(*accuracy)),
                "sampler": metrics(0.985, tags=places(0.9, 0.99)),
                "slot_changes": rng.gamma(1.0, 1.0, (30, 20)).tolist(),
                "seconds": 34.5,
                "report": stream_qa_report(PLACES, classes=10, recalled_among=200, sampler=True).to_json(),
            }
        if evaluation is not None:
            (folder / "evaluation.json").write_text(json.dumps(evaluation))
        return folder

    return make
