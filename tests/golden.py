"""What tiny runs of every family compute, to the bit: run it before and after a change of structure, and compare.

    python tests/golden.py before.json        writes the digests
    python tests/golden.py after.json         after the change
    diff before.json after.json

Each run is a `memjax train` of some 20 steps, so that nothing but the command line has to stay as it is. A digest is
the sha256 of what was logged (losses, metrics), of what was measured on the test split, and of every parameter.
Compare on one machine alone: another compiler rounds in another way.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
import orbax.checkpoint as ocp

ROOT = Path(__file__).parents[1]
STEPS = (
    "training.steps=20 training.batch_size=8 training.log_every=5 training.validate_every=10 "
    "training.checkpoint_every=20 training.validate_examples=16"
)
EVIDENCE = (
    f"{STEPS} training.sampler_steps=20 task.facts=20 task.length=22 task.queries=4 task.answers=3 task.evidence=2 "
    "task.groups=2 task.segment=4 task.train=10 task.test=3 memory.slots=4 model.width=16 rehearsal.fragments=4 "
    "rehearsal.layers=1 rehearsal.heads=2"
)
LAYERS = f"{STEPS} task.length=32 task.longest=2 task.pairs=4 task.train=100 task.valid=16 task.test=8"
LAYERS += " model.width=16 model.depth=1 model.window=8 model.chunk=8"
CELLS = f"{STEPS} task.longest=4 task.test_lengths=4,6 task.train=100 task.valid=16 task.test=8 model.rows=6"
CELLS += " model.memory_width=5 model.hidden=8"
READERS = (
    f"{STEPS} training.base_steps=10 task.train=40 task.valid=16 task.test=16 model.width=8 optimizer.decay_steps=5"
)
SPANS = f"{STEPS} training.base_steps=10 task.words=10 task.cut=100 task.within=50 model.width=8 model.entries=4"
SPANS += " model.longest=5 task.data_dir=../shared/data/fairytaleqa"  # without the data it is refused, before and after
AGENTS = f"{STEPS} task.train=40 task.test_lengths=4,6 model.width=8"
ENCODED = "memory.layers=1 memory.heads=2"
CONTROLLED = "memory.memory_width=5 memory.hidden=8 memory.read_heads=2"
OWN = {"rehearsal": ENCODED, "continual": ENCODED, "compressive": ENCODED, "surprise": ENCODED, "memn2n": ""}
OWN |= dict.fromkeys(("dmsdnc", "dnc", "ntm", "nutm"), CONTROLLED)
OWN |= {"hpmn": "", "mimn": "memory.memory_width=5 memory.hidden=8", "retention": "", "stm": "memory.memory_width=4"}
RUNS = {
    **{f"evidence {name}": f"configs/evidence.py:demo,memory={name} {EVIDENCE} {own}" for name, own in OWN.items()},
    "evidence im": f"configs/evidence.py:demo,memory=retention {EVIDENCE} memory.policy=im",
    "evidence lru": f"configs/evidence.py:demo,memory=retention {EVIDENCE} memory.policy=lru",
    "evidence directly": f"configs/evidence.py:demo,system=directly {EVIDENCE} {ENCODED}",
    "evidence multi_hop": f"configs/evidence.py:demo,system=multi_hop {EVIDENCE} {ENCODED}",
    "evidence answers alone": f"configs/evidence.py:demo {EVIDENCE} {ENCODED} rehearsal.fragments=0",
    **{f"recall {layer}": f"configs/recall.py:{layer} {LAYERS}" for layer in ("attention", "lmm", "mac", "mag", "mal")},
    "recall lmm per chunk": f"configs/recall.py:lmm,rule=titans_chunked {LAYERS}",
    **{f"copy {cell}": f"configs/algorithmic.py:copy,cell={cell} {CELLS}" for cell in ("dnc", "ntm", "nutm")},
    **{
        f"noisy {policy}": f"configs/retention.py:noisy,policy={policy},entries=5 {READERS}"
        for policy in ("im", "lifo", "lru", "s", "shuffled_st", "st", "uniform")
    },
    "noisy facts": f"configs/retention.py:noisy,policy=st,entries=5,reward=facts {READERS}",
    **{f"spans {policy}": f"configs/spans.py:fairytales,policy={policy} {SPANS}" for policy in ("im", "st", "uniform")},
    "spans whole": f"configs/spans.py:fairytales,system=whole {SPANS} training.base_steps=0",
    **{
        f"imaze {base} {policy}": f"configs/maze.py:imaze,base={base},policy={policy},entries=4 {AGENTS}"
        for base, policy in (("mqn", "st"), ("frmqn", "im"), ("mqn", "lru"), ("frmqn", "uniform"))
    },
}


def digest(value) -> str:
    """The first 16 digits of the sha256 of a JSON value, or of bytes."""
    data = value if isinstance(value, bytes) else json.dumps(value, sort_keys=True).encode()
    return hashlib.sha256(data).hexdigest()[:16]


def parameters(folder: Path) -> dict[str, str]:
    """The digest of each parameter in the newest checkpoint of each phase of a run."""
    found = {}
    for place in sorted(folder.glob("*/20/state")) + sorted(folder.glob("*/10/state")):
        tree = ocp.StandardCheckpointer().restore(place.resolve())["params"]
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            name = f"{place.parts[-3]}/{jax.tree_util.keystr(path, simple=True, separator='/')}"
            found[name] = digest(jax.device_get(leaf).tobytes())
    return found


def run(command: str, folder: Path, environment: dict[str, str]) -> dict:
    """Trains, and digests what there is then."""
    config, *settings = command.split()
    flags = [f"--config={config}", *(f"--config.{setting}" for setting in settings)]
    train = [sys.executable, "-m", "memjax.cli", "train", f"--run={folder}", *flags]
    done = subprocess.run(train, cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        return {"logged": "refused", "measured": done.stderr.strip().replace(str(folder), "RUN"), "parameters": {}}
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    logged = [{key: value for key, value in line.items() if key != "seconds"} for line in lines]
    evaluation = json.loads((folder / "evaluation.json").read_text())
    measured = {key: evaluation.get(key) for key in ("metrics", "sampler", "parameters", "state_bytes")}
    return {"logged": digest(logged), "measured": digest(measured), "parameters": parameters(folder)}


def main() -> None:
    """Digests of all runs, or of those whose names hold one of the words behind the file's."""
    out, *words = sys.argv[1:]
    names = [name for name in RUNS if not words or any(word in name for word in words)]
    with tempfile.TemporaryDirectory() as place:
        environment = os.environ | {
            "XLA_FLAGS": "--xla_backend_optimization_level=0",
            "JAX_COMPILATION_CACHE_DIR": f"{place}/compiled",
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "PYTHONPATH": str(ROOT),
        }
        found = {}
        for number, name in enumerate(names):
            found[name] = run(RUNS[name], Path(place) / str(number), environment)
            print(f"{name}: {found[name]['logged']} {found[name]['measured']}", flush=True)
    Path(out).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
