"""Recommendation from clicks (Rehearsal Memory, 4.3.3, on data that is to be had): will this user touch this item next?

    memjax train --config=configs/clicks.py:ml1m --data_dir=FOLDER                   of ml-1m.txt.gz
    memjax train --config=configs/clicks.py:ml1m,memory=dnc --data_dir=FOLDER        or any other memory
    memjax train --config=configs/clicks.py:ml1m,system=directly --data_dir=FOLDER   reads the stream itself
    memjax train --config=configs/clicks.py:small --data_dir=FOLDER                  of ratings.csv.gz, for tests

ml1m: MovieLens-1M as sequences, 6,040 users and 3,416 items, in place of the paper's XLong, which is not to be had.
On that file, leave one out, all items ranked, R@10 and NDCG@10: SASRec .2392 and .1259, gSASRec .3003 and .1726
(github.com/asash/gSASRec-pytorch). Its lines are "user item"; GroupLens' terms: for research, not to be handed on.
small: MovieLens latest-small, which GroupLens calls a development set: no figure on it is to be published.

Sizes are the paper's: K = N = 20, width 64, one hop. Ablations as in configs/evidence.py.
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import unknown
from memjax.memories.memory_registry import memory_settings

FILES = {"ml1m": "ml-1m.txt.gz", "small": "ratings.csv.gz"}
# What differs from the defaults of the memories, for those that have it: as in configs/evidence.py on a CPU.
SIZES = {"layers": 2, "heads": 4, "memory_width": 32, "hidden": 64, "context": 4, "scores": "both", "position_std": 1.0}
OWN = {
    # Scores of one kind: with both, Continual Memory stores the stream before it answers, and then is slow to answer.
    "continual": {"scores": "additive"},
    "retention": {"policy": "st"},
    "hpmn": {"slots": 10},  # layer i is written after 2^(i - 1) items
    "stm": {"memory_width": 16},
}


def get_config(arg: str = "ml1m") -> ConfigDict:
    """`ml1m` or `small` before the first comma; then system=, memory=, seed=."""
    variant, values = parse_arg(arg, "ml1m", system="memory", memory="rehearsal", seed=0)
    if variant not in FILES:
        raise unknown("variant of configs/clicks.py", variant, FILES)
    continual = values["memory"] == "continual"

    config = ConfigDict()
    config.system = values["system"]
    config.task = ConfigDict({"name": "clicks", "file": FILES[variant], "length": 1000, "segment": 20})
    # More views of a user than passes over the users: of one, systems memorised the negatives of each user.
    config.task.update(views=100, ahead=20, least=5, seed=0, data_dir="data")

    config.memory = ConfigDict(memory_settings(values["memory"], 20, SIZES, OWN))
    # HPMN's code has two hidden layers before the click.
    config.model = ConfigDict({"width": 64, "hops": 1, "head_layers": 2, "dtype": "float32", "item_scale": 8.0})

    config.rehearsal = ConfigDict({"recollection": 1.0, "familiarity": 0.5, "answer": 1.0})
    config.rehearsal.update(
        fragments=5 if continual else 6, mask_ratio=0.5, deterministic=False, negatives=200, among="vocabulary"
    )
    config.rehearsal.update(sampler="random" if continual else "history")
    config.rehearsal.update(layers=2, heads=4, norm_slots=True, position_std=0.12)

    # Warm-up, fall and clipping are ours to choose (the papers do not say).
    config.optimizer = ConfigDict({"learning_rate": 1e-3, "warmup_steps": 100, "decay_steps": 500, "clip_norm": 1.0})

    config.training = ConfigDict({"batch_size": 64, "microbatches": 1, "seed": values["seed"], "log_every": 10})
    config.training.update(steps=1500, sampler_steps=1000, validate_every=500, checkpoint_every=250)
    # A stream has 1 to 50 segments, 8 in the mean.
    config.training.update(validate_examples=1000, buckets=6)
    return config
