"""Streams and questions of one's own, from a folder, without code. Ids or vectors; questions in words.

    memjax train --config=configs/files.py:FOLDER
    memjax train --config=configs/files.py:FOLDER,memory=dnc,slots=40
    memjax train --config=configs/files.py:FOLDER,system=directly   reads the stream itself: what can be known at all
    memjax compare --config=configs/files.py:FOLDER
    memjax train --config=configs/files.py:FOLDER --config.task.asked=20    up to 20 questions of one pass over a stream

A folder whose name has a comma or an equals sign: --config=configs/files.py --data_dir=FOLDER.
FOLDER/streams/NAME.npy or FOLDER/streams.parquet, and FOLDER/questions.jsonl: docs/guides/own_embeddings.md.
The settings are those that served on a CPU elsewhere: for more than a few minutes' data give more training.steps.
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.memories.memory_registry import memory_settings

# What differs from the defaults of the memories, for those that have it: as in configs/evidence.py on a CPU.
SIZES = {"layers": 2, "heads": 4, "memory_width": 32, "hidden": 64, "context": 4, "scores": "both", "position_std": 1.0}
# For about how many segments a slot keeps what is not overwritten: with 1, all slots of a long stream become the same;
# 20 does no harm to one of 8.
KEPT = {"time_constant": 20.0}
OWN = {"rehearsal": KEPT, "continual": {"scores": "additive", **KEPT}, "retention": {"policy": "st"}}
OWN |= {"stm": {"memory_width": 16}}
SUMS = ("memn2n", "retention")  # rows that are sums of items stay as embedded, as in configs/stories.py


def get_config(arg: str = "data") -> ConfigDict:
    """The folder before the first comma; then system=, memory=, slots=, segment=, seed=."""
    given = {"system": "memory", "memory": "rehearsal", "slots": 20, "segment": 20, "seed": 0}
    folder, values = parse_arg(arg, "data", **given)

    config = ConfigDict()
    config.system = values["system"]
    config.task = ConfigDict({"name": "files", "segment": values["segment"], "length": 1000 * values["segment"]})
    config.task.update(data_dir=folder, asked=1)

    config.memory = ConfigDict(memory_settings(values["memory"], values["slots"], SIZES, OWN))
    config.model = ConfigDict({"width": 64, "hops": 2, "head_layers": 1, "dtype": "float32", "query_scale": 8.0})
    # Items and questions of unit size: smaller ones are learned later, or never, as in configs/babi.py and stories.py.
    config.model.item_scale = 1.0 if values["memory"] in SUMS else 8.0

    config.rehearsal = ConfigDict({"recollection": 1.0, "familiarity": 0.5, "answer": 1.0})
    config.rehearsal.update(fragments=4, mask_ratio=0.5, deterministic=False, sampler="random")
    config.rehearsal.update(among="stream", negatives=30, layers=2, heads=4, norm_slots=True, position_std=0.12)

    config.optimizer = ConfigDict({"learning_rate": 1e-3, "warmup_steps": 100, "decay_steps": 1000, "clip_norm": 1.0})

    config.training = ConfigDict({"batch_size": 32, "microbatches": 1, "seed": values["seed"], "log_every": 10})
    config.training.update(steps=2000, validate_every=200, validate_examples=500, checkpoint_every=200, buckets=4)
    return config
