import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SPREAD = {"median", "q1", "q3", "min", "max"}


@pytest.mark.slow
def test_bench_write_runs_and_writes_what_it_found(tmp_path):
    out = tmp_path / "results" / "bench_write.json"
    command = [sys.executable, "benchmarks/bench_write.py", "--quick", "--repeats", "2", "--out", str(out)]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    environment["XLA_FLAGS"] = "--xla_backend_optimization_level=0"  # compiling is most of the work
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text())

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
