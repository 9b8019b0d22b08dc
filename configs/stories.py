"""Ranking the answers of a story (Rehearsal Memory, 4.3.1): which of all answers to its questions is this one's?

    memjax train --config=configs/stories.py:fairytales --data_dir=FOLDER                   of fairytaleqa.tar.gz
    memjax train --config=configs/stories.py:fairytales,memory=dnc --data_dir=FOLDER        or any other memory
    memjax train --config=configs/stories.py:fairytales,system=multi_hop --data_dir=FOLDER  reads the story itself
    memjax prepare narrativeqa --from=NARRATIVEQA --data_dir=FOLDER            checks its folder, copies what is read
    memjax train --config=configs/stories.py:narrativeqa --data_dir=FOLDER
    memjax compare --config=configs/stories.py:fairytales --of=all --data_dir=FOLDER        all memories

FairytaleQA (Xu et al. 2022, Apache-2.0; github.com/uci-soe/FairytaleQAData): 278 stories of 2,200 words in the mean,
10,580 questions, in place of NarrativeQA, which is not to be had in full: no figure on it is one of NarrativeQA's. As
in the paper a sentence is a segment of at most 20 words, K = 20, two hops; the paper has width=256, a CPU 64. The
questions of a story are asked at its end, up to 32 of one reading. A hidden word is told from 200 drawn ones; in the
paper it is from all, which a CPU has no time for (negatives=0). The vectors of words are made of the stories of train
and are not trained. Ablations as in configs/evidence.py:
    --config.rehearsal.fragments=0     --config.rehearsal.familiarity=0.0     --config.rehearsal.sampler=random
    --config.model.words=shared        --config.model.words=own
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import require, unknown
from memjax.memories.memory_registry import memory_settings

FILES = {"fairytales": "fairytaleqa.tar.gz", "narrativeqa": "narrativeqa"}
# What differs from the defaults of the memories, for those that have it: as in configs/clicks.py.
SIZES = {"layers": 1, "heads": 4, "memory_width": 64, "hidden": 64, "context": 4, "scores": "both", "position_std": 1.0}
# A story has 207 segments in the mean: with 1, half of how a slot differs from the others is gone after each, and in
# the end all slots are the same.
KEPT = {"time_constant": 200.0}
OWN = {"rehearsal": KEPT, "continual": {"scores": "additive", **KEPT}, "retention": {"policy": "st"}}
OWN |= {"stm": {"memory_width": 22}}
# Rows that are sums of up to 20 items: of items of unit size memn2n, asked small questions, had learned nothing in 400
# steps.
SUMS = ("memn2n", "retention")


def get_config(arg: str = "fairytales") -> ConfigDict:
    """`fairytales` or `narrativeqa` before the first comma; then system=, memory=, width=, seed=."""
    variant, values = parse_arg(arg, "fairytales", system="memory", memory="rehearsal", width=64, seed=0)
    if variant not in FILES:
        raise unknown("variant of configs/stories.py", variant, FILES)
    continual, width = values["memory"] == "continual", values["width"]
    require(width > 0, f"config argument width={width} must be at least 1")

    config = ConfigDict()
    config.system = values["system"]
    config.task = ConfigDict({"name": "stories", "file": FILES[variant], "words": 20, "answer_words": 20})
    config.task.update(asked=32, least=2, data_dir="data")

    config.memory = ConfigDict(memory_settings(values["memory"], 20, SIZES, OWN))
    config.model = ConfigDict({"width": width, "hops": 2, "head_layers": 0, "dtype": "float32"})
    config.model.item_scale = 1.0 if values["memory"] in SUMS else width**0.5
    # Of unit size: what a question as embedded asks is learned late, or never.
    config.model.query_scale = width**0.5 if config.system == "memory" else 1.0
    # Few stories: an embedding that is learned memorises them. AS Reader looks for the very words, which it then
    # tells apart better; E2E-MN has tables of its own.
    config.model.words = "own" if config.system in ("as_reader", "e2e_mn") else "fixed"

    config.rehearsal = ConfigDict({"recollection": 1.0, "familiarity": 0.5, "answer": 1.0})
    config.rehearsal.update(
        fragments=5 if continual else 6, mask_ratio=0.5, deterministic=False, negatives=200, among="vocabulary"
    )
    config.rehearsal.update(sampler="random" if continual else "history")
    config.rehearsal.update(layers=1, heads=4, norm_slots=True, position_std=width**-0.5)

    config.optimizer = ConfigDict({"learning_rate": 1e-3, "warmup_steps": 100, "decay_steps": 150, "clip_norm": 1.0})

    config.training = ConfigDict({"batch_size": 8, "microbatches": 1, "seed": values["seed"], "log_every": 10})
    # 47 steps are one pass over the stories of train; one takes a core one and a half to three seconds.
    config.training.update(steps=400, sampler_steps=200, validate_every=100, checkpoint_every=50)
    # A story has 19 to 554 segments, that of an example 207 in the mean.
    config.training.update(validate_examples=41, buckets=6)
    return config
