"""Agents that remember views: Learning What to Remember (LEMN), 4.1, with MQN and FRMQN as bases.

    memjax train --config=configs/maze.py:imaze,base=mqn,policy=st,entries=4
    memjax train --config=configs/maze.py:single_indicator,base=frmqn,policy=fifo,entries=5 --data_dir=data

imaze: corridors of 5, 7 and 9, tested on 4 to 200. single_indicator: random mazes, tested on those in `tasks.tar.gz` in
the data folder (github.com/junhyukoh/icml2016-minecraft); its 1,000 for training would be memorized, so agents learn
from others like them. policy: fifo, lifo, lru, uniform, im, s, st, shuffled_s, shuffled_st. Published success,
in %, test and large: MQN 68.9 and 60.4 (FIFO), 73.2 and 74.8 (ST); FRMQN 84.3 and 91.2 (FIFO), 88.5 and 93.7 (ST).
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import unknown

# Updates: an I-maze is learned in a few hundred, and the rate then falls; random mazes begin to be learned after
# thousands. The weight of entropy in an I-maze is five times the paper's: with less, nobody looks back for the
# indicator at the start. In random mazes the trace is .95, with which MQN learned in trials; the paper has returns.
STEPS = {"imaze": 2000, "single_indicator": 10_000}
DECAY = {"imaze": 1000, "single_indicator": 0}
ENTROPY = {"imaze": 0.05, "single_indicator": 0.01}
TRACE = {"imaze": 1.0, "single_indicator": 0.95}


def get_config(arg: str = "imaze") -> ConfigDict:
    """The kind of maze before the first comma; then base=, policy=, entries=, seed=."""
    kind, values = parse_arg(arg, "imaze", base="mqn", policy="st", entries=4, seed=0)
    if kind not in STEPS:
        raise unknown("variant of configs/maze.py", kind, STEPS)

    config = ConfigDict({"system": "agent"})
    config.task = ConfigDict({"name": "maze", "kind": kind, "data_dir": "data", "seed": 0})
    config.task.update(train_lengths="5,7,9", test_lengths="4,6,8,10,15,20,25,30,35,40,100,200")
    config.task.update(generated=0 if kind == "imaze" else 10_000)
    config.task.update(train=1_000_000, valid=1000, test=100 if kind == "imaze" else 1000)

    config.model = ConfigDict({"base": values["base"], "width": 32, "entries": values["entries"]})
    config.model.update(policy=values["policy"], nop=True)
    config.actor_critic = ConfigDict({"discount": 0.99, "trace": TRACE[kind], "entropy": ENTROPY[kind], "value": 0.5})

    # Many episodes in one update in place of asynchronous workers, at twice the paper's rate for it.
    config.optimizer = ConfigDict({"learning_rate": 2e-3, "warmup_steps": 0, "clip_norm": 40.0})
    config.optimizer.decay_steps = DECAY[kind]
    config.training = ConfigDict({"steps": STEPS[kind], "batch_size": 64, "microbatches": 1, "log_every": 50})
    config.training.update(seed=values["seed"], validate_every=250, validate_examples=512, checkpoint_every=250)
    return config
