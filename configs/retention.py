"""Learned retention: Learning What to Remember, Long-term Episodic Memory Networks (LEMN), Table 2.

    memjax train --config=configs/retention.py:noisy,policy=st,entries=5
    memjax train --config=configs/retention.py:large,policy=s,entries=10
    memjax train --config=configs/retention.py:original,policy=im,entries=10 --data_dir=data
    memjax train --config=configs/retention.py:noisy,policy=st,entries=5,file=emr_noisy_task22 --data_dir=data

Two supporting facts (bAbI, task 2): five questions in a stream of lines, a buffer of few entries. policy: fifo, lifo,
lru, uniform, im, s, st, shuffled_s, shuffled_st. reward, of an eviction: answers, 1 for a right one and -1 for a wrong
one, or facts, the same for whether what the next question needs is still held. noisy and large are generated; the last
command tests on a prepared file too. Published, best of 3 runs, test error %: noisy, N = 5: FIFO 50.2, IM 40.2, S 40.6,
ST 11.7.
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import require, unknown

KINDS = {"noisy": "noisy", "large": "large", "original": "file"}


def get_config(arg: str = "noisy") -> ConfigDict:
    """The task named before the first comma; then policy=, entries=, reward=, seed=, file=."""
    kind, values = parse_arg(arg, "noisy", policy="st", entries=5, reward="answers", seed=0, file="")
    if kind not in KINDS:
        raise unknown("variant of configs/retention.py", kind, KINDS)

    config = ConfigDict({"system": "retention"})
    original = kind == "original"
    require(not (original and values["file"]), "original is a file already, bAbI's task 2: leave out file=")
    config.task = ConfigDict({"name": "episodic", "kind": KINDS[kind], "data_dir": "data", "seed": 0})
    config.task.update(folder="en-10k" if original else values["file"], task=2 if original else 22)
    config.task.update(train=20_000, valid=1000, test=1000)

    config.model = ConfigDict({"width": 20, "hops": 3, "entries": values["entries"]})
    config.model.update(policy=values["policy"], nop=True)
    config.actor_critic = ConfigDict({"discount": 0.99, "trace": 1.0, "entropy": 0.01, "value": 0.5})

    # Many streams in one update in place of asynchronous workers, one stream each: fewer updates, at three times the
    # paper's rate, which falls to 0 over the last phase.
    config.optimizer = ConfigDict({"learning_rate": 3e-3, "warmup_steps": 0, "decay_steps": 10_000, "clip_norm": 40.0})
    config.training = ConfigDict({"base_steps": 3000, "steps": 10_000, "batch_size": 64, "microbatches": 1})
    config.training.update(seed=values["seed"], log_every=50, validate_every=500, validate_examples=500)
    config.training.update(checkpoint_every=500, reward=values["reward"])
    return config
