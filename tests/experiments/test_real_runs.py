"""Short runs on real data, from the command line to a tested run: the small files of clicks and of learners."""

import json
from pathlib import Path

import pytest

from memjax import cli
from memjax.commands import train_command

DATA = Path(__file__).parents[3] / "shared" / "data"
SHORT = ("training.steps=2", "training.sampler_steps=1", "training.batch_size=8", "training.buckets=1")
SMALL = ("training.validate_examples=16", "task.length=100", "memory.slots=4", "model.width=16")
SHALLOW = ("memory.layers=1", "rehearsal.layers=1", "model.head_layers=1")
CASES = {
    "clicks": ("clicks.py:small", "movielens_latest_small", 610, {"auc", "auc_popular", "hr_10", "ndcg_10", "mrr"}),
    "learners": ("learners.py:statics2011", "kt_statics2011", 640, {"auc"}),
}


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared data")
@pytest.mark.parametrize("name", CASES)
def test_a_short_run_on_real_data_is_tested(name, tmp_path, monkeypatch, capsys):
    config, folder, examples, metrics = CASES[name]
    monkeypatch.setattr(train_command, "keep_compiled", lambda folder: None)
    settings = [f"--config.{setting}" for setting in (*SHORT, *SMALL, *SHALLOW)]
    command = ["train", f"--config=configs/{config}", f"--data_dir={DATA / folder}", f"--run={tmp_path / 'run'}"]
    assert cli.main([*command, *settings]) == 0, capsys.readouterr().err
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text())
    assert found["examples"] == examples and metrics <= found["metrics"].keys()
    assert 0.2 < found["metrics"]["auc"] < 0.8
    if name == "learners":
        assert found["metrics"]["answers"] == 59_113  # every step of the test split, once
        assert found["metrics"]["tags"]["half"].keys() == {"early", "later"}
