"""Multiple choice about dialogues (Continual Memory, 4.3, which has TVQA): which of the choices answers the question?

    memjax train --config=configs/dialogues.py:dream --data_dir=FOLDER                       DREAM's folder dream
    memjax train --config=configs/dialogues.py:dream,memory=continual --data_dir=FOLDER      or any other memory
    memjax train --config=configs/dialogues.py:dream,system=multi_stream --data_dir=FOLDER   reads the dialogue itself
    memjax prepare tvqa --from=TVQA --data_dir=FOLDER                                        checks, copies what is read
    memjax train --config=configs/dialogues.py:tvqa --data_dir=FOLDER
    memjax compare --config=configs/dialogues.py:dream --of=all --data_dir=FOLDER            all memories

DREAM (Sun et al. 2019; github.com/nlpdata/dream, for research alone): 6,444 dialogues of 69 words in the mean, 10,197
questions of three choices, in place of TVQA, which is not to be had in full: no figure on it is one of TVQA's. A turn
is a segment of at most 20 words, a longer one several; K = 20, two hops; the paper has width=256, a CPU 64. Two
fragments are rehearsed, as many as a short dialogue has (the papers have 6 and 5), and a hidden word is told from 200
drawn ones, not from all (negatives=0). The vectors of words are made of all texts of train and are not trained.
Ablations as in configs/evidence.py:
    --config.rehearsal.fragments=0     --config.rehearsal.familiarity=0.0     --config.rehearsal.sampler=random
    --config.model.words=shared        --config.model.words=own
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import require, unknown
from memjax.memories.memory_registry import memory_settings

VARIANTS = ("dream", "tvqa")
# What differs from the defaults of the memories, for those that have it: as in configs/stories.py.
SIZES = {"layers": 1, "heads": 4, "memory_width": 64, "hidden": 64, "context": 4, "scores": "both", "position_std": 1.0}
# For about how many segments a slot keeps what is not overwritten: with 1, half of it is gone after each.
KEPT = {"time_constant": 20.0}
OWN = {"rehearsal": KEPT, "continual": {"scores": "additive", **KEPT}, "retention": {"policy": "st"}}
OWN |= {"stm": {"memory_width": 22}}
SUMS = ("memn2n", "retention")  # rows that are sums of items stay as embedded, as in configs/stories.py


def get_config(arg: str = "dream") -> ConfigDict:
    """`dream` or `tvqa` before the first comma; then system=, memory=, width=, seed=."""
    variant, values = parse_arg(arg, "dream", system="memory", memory="rehearsal", width=64, seed=0)
    if variant not in VARIANTS:
        raise unknown("variant of configs/dialogues.py", variant, VARIANTS)
    continual, width = values["memory"] == "continual", values["width"]
    require(width > 0, f"config argument width={width} must be at least 1")

    config = ConfigDict()
    config.system = values["system"]
    config.task = ConfigDict({"name": "dialogues", "folder": variant, "words": 20, "answer_words": 20, "least": 2})
    config.task.data_dir = "data"

    config.memory = ConfigDict(memory_settings(values["memory"], 20, SIZES, OWN))
    config.model = ConfigDict({"width": width, "hops": 2, "head_layers": 0, "dtype": "float32"})
    config.model.item_scale = 1.0 if values["memory"] in SUMS else width**0.5
    config.model.query_scale = width**0.5 if config.system == "memory" else 1.0
    config.model.words = "own" if config.system == "e2e_mn" else "fixed"  # E2E-MN has tables of its own

    config.rehearsal = ConfigDict({"recollection": 1.0, "familiarity": 0.5, "answer": 1.0})
    config.rehearsal.update(fragments=2, mask_ratio=0.5, deterministic=False, negatives=200, among="vocabulary")
    config.rehearsal.update(sampler="random" if continual else "history")
    config.rehearsal.update(layers=1, heads=4, norm_slots=True, position_std=width**-0.5)

    config.optimizer = ConfigDict({"learning_rate": 1e-3, "warmup_steps": 100, "decay_steps": 500, "clip_norm": 1.0})

    config.training = ConfigDict({"batch_size": 32, "microbatches": 1, "seed": values["seed"], "log_every": 25})
    # 191 steps are one pass over DREAM's questions.
    config.training.update(steps=1000, sampler_steps=200, validate_every=200, checkpoint_every=200)
    # A dialogue has 2 to 65 segments, that of a question 10 in the mean.
    config.training.update(validate_examples=1000, buckets=5)
    return config
