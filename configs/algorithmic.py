"""Algorithmic tasks of Neural Turing Machines (Graves et al. 2014, 1410.5401, 4), with NTM, DNC and NUTM as RNN cells.

    memjax train --config=configs/algorithmic.py:copy                   1 to 20 vectors of 8 bits; tested on 20, 50, 100
    memjax train --config=configs/algorithmic.py:associative_recall,cell=dnc   2 to 6 items of 3 vectors of 6 bits
    memjax train --config=configs/algorithmic.py:repeat_copy,cell=nutm

The evaluation says how many bits of a sequence are wrong in the mean, by length. The loss is the bits' alone: NUTM's
penalty on keys that are alike is not in it.
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import unknown

KINDS = {
    "copy": {"bits": 8, "shortest": 1, "longest": 20, "repeats": 1, "test_lengths": "20,50,100"},
    "repeat_copy": {"bits": 8, "shortest": 1, "longest": 10, "repeats": 10, "test_lengths": "10,20"},
    "associative_recall": {"bits": 6, "shortest": 2, "longest": 6, "repeats": 1, "test_lengths": "6,12,20"},
}


def get_config(arg: str = "copy") -> ConfigDict:
    """The task named before the first comma; then cell=, seed=."""
    kind, values = parse_arg(arg, "copy", cell="ntm", seed=0)
    if kind not in KINDS:
        raise unknown("variant of configs/algorithmic.py", kind, KINDS)

    config = ConfigDict({"system": "cell"})
    config.task = ConfigDict({"name": "algorithmic", "kind": kind, **KINDS[kind]})
    config.task.update(train=1_000_000, valid=500, test=500, seed=0)

    config.model = ConfigDict({"cell": values["cell"], "rows": 128, "memory_width": 20, "read_heads": 1})
    config.model.update(hidden=100, programs=2 if values["cell"] == "nutm" else 1, dtype="float32")

    config.optimizer = ConfigDict({"learning_rate": 1e-3, "warmup_steps": 0, "decay_steps": 0, "clip_norm": 50.0})
    if kind == "associative_recall":  # at a constant rate its validation error goes on rising and falling
        config.optimizer.decay_steps = 10_000
    config.training = ConfigDict({"steps": 20_000, "batch_size": 16, "microbatches": 1, "seed": values["seed"]})
    config.training.update(log_every=50, validate_every=1000, validate_examples=500, checkpoint_every=1000)
    return config
