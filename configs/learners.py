"""Knowledge tracing (in place of Rehearsal Memory's long streams, XLong): will this student solve this problem?

    memjax train --config=configs/learners.py:assist2017 --data_dir=FOLDER                   a segment of 20 ahead
    memjax train --config=configs/learners.py:assist2017,segment=1 --data_dir=FOLDER         step by step
    memjax train --config=configs/learners.py:assist2017,memory=dnc,fold=2 --data_dir=FOLDER
    memjax train --config=configs/learners.py:assist2017,system=gru4rec --data_dir=FOLDER    reads the stream itself
    memjax train --config=configs/learners.py:statics2011 --data_dir=FOLDER

assist2017: ASSISTments 2017, 1,705 students, 552 steps in the mean and 3,057 at most; files assist2017_fold1.csv.gz to
fold5. statics2011: 333 students; statics2011.tar.gz. Both for experiments only, not to be handed on.

A segment of one step cannot be rehearsed, since nothing of it would be left to be seen: `segment=1` has no rehearsal.
Ablations as in configs/evidence.py.
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import unknown
from memjax.memories.memory_registry import memory_settings

FILES = ("assist2017", "statics2011")
# What differs from the defaults of the memories, for those that have it: as in configs/clicks.py.
SIZES = {"layers": 2, "heads": 4, "memory_width": 32, "hidden": 64, "context": 4, "scores": "both", "position_std": 1.0}
OWN = {
    "continual": {"scores": "additive"},
    "retention": {"policy": "st"},
    "hpmn": {"slots": 12},  # layer i is written after 2^(i - 1) items
    "stm": {"memory_width": 16},
}


def get_config(arg: str = "assist2017") -> ConfigDict:
    """`assist2017` or `statics2011` before the first comma; then system=, memory=, fold=, segment=, seed=."""
    given = {"system": "memory", "memory": "rehearsal", "fold": 1, "segment": 20, "seed": 0}
    file, values = parse_arg(arg, "assist2017", **given)
    if file not in FILES:
        raise unknown("variant of configs/learners.py", file, FILES)
    continual, rehearsed = values["memory"] == "continual", values["segment"] > 1

    config = ConfigDict()
    config.system = values["system"]
    config.task = ConfigDict({"name": "learners", "file": file, "fold": values["fold"], "length": 3060})
    config.task.update(segment=values["segment"], data_dir="data")

    config.memory = ConfigDict(memory_settings(values["memory"], 20, SIZES, OWN))
    # HPMN's code has two hidden layers before the click.
    config.model = ConfigDict({"width": 64, "hops": 1, "head_layers": 2, "dtype": "float32", "item_scale": 8.0})

    config.rehearsal = ConfigDict({"recollection": 1.0, "familiarity": 0.5, "answer": 1.0})
    config.rehearsal.update(
        fragments=6 if rehearsed else 0, mask_ratio=0.5, deterministic=False, negatives=200, among="vocabulary"
    )
    config.rehearsal.update(sampler="random" if continual or not rehearsed else "history")
    config.rehearsal.update(layers=2, heads=4, norm_slots=True, position_std=0.12)

    config.optimizer = ConfigDict({"learning_rate": 1e-3, "warmup_steps": 100, "decay_steps": 200, "clip_norm": 1.0})

    config.training = ConfigDict({"batch_size": 32, "microbatches": 1, "seed": values["seed"], "log_every": 10})
    config.training.update(steps=400, sampler_steps=200, validate_every=100, checkpoint_every=100)
    config.training.update(validate_examples=341, buckets=6)
    return config
