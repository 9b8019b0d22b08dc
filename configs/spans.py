"""Spans in long documents with learned retention (LEMN, 4.3): which words of a story answer a question?

    memjax train --config=configs/spans.py:fairytales,policy=st --data_dir=FOLDER    of fairytaleqa.tar.gz
    memjax train --config=configs/spans.py:fairytales,policy=st,reward=held --data_dir=FOLDER
    memjax train --config=configs/spans.py:fairytales,system=whole --data_dir=FOLDER      BiDAF reads all of a story
    memjax train --config=configs/spans.py:triviaqa,policy=st --data_dir=FOLDER      of TriviaQA's folder triviaqa-rc
    memjax compare --config=configs/spans.py:fairytales --of=fifo,lifo,uniform,im,s,st --data_dir=FOLDER

A buffer of 10 blocks of 20 words, and BiDAF on what it holds at the story's end. policy: fifo, lifo, lru, uniform,
im, s, st, shuffled_s, shuffled_st. reward, of an eviction: f1 of the answer, or held, at every block from the end of
the answer's span on, a share for holding it, or as much off where it is lost. Trained on 800 words of a story with
the answer within 400, tested on whole ones. FairytaleQA (Xu et al. 2022, Apache-2.0) stands in for TriviaQA, which is
not to be had here: no figure on it is one of TriviaQA's. Published there, exact match / F1, distant supervision: FIFO
18.5 / 20.3, IM 34.9 / 38.7, S 43.0 / 46.6, ST 45.2 / 49.0. Width 64, and vectors of words that are made of the
documents of train, where the paper has pretrained ones: half an hour on a core.
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import require, unknown

FILES = {"fairytales": "fairytaleqa.tar.gz", "triviaqa": "triviaqa-rc"}


def get_config(arg: str = "fairytales") -> ConfigDict:
    """`fairytales` or `triviaqa` before the first comma; then system=, policy=, entries=, reward=, seed=."""
    variant, values = parse_arg(arg, "fairytales", system="buffer", policy="st", entries=10, reward="f1", seed=0)
    if variant not in FILES:
        raise unknown("variant of configs/spans.py", variant, FILES)

    given = {name for name in ("policy", "entries", "reward") if f"{name}=" in arg}
    require(
        values["system"] != "whole" or not given,
        f"config arguments {', '.join(sorted(given))} are for a buffer; system=whole has none",
    )

    config = ConfigDict({"system": values["system"]})
    config.task = ConfigDict({"name": "spans", "file": FILES[variant], "words": 20, "cut": 800, "within": 400})
    config.task.update(least=2, data_dir="data")

    config.model = ConfigDict({"width": 64, "layers": 1, "dropout": 0.2, "longest": 16})
    config.model.update(entries=values["entries"], policy=values["policy"])
    config.actor_critic = ConfigDict({"discount": 0.99, "trace": 1.0, "entropy": 0.01, "value": 0.5})

    # 142 steps are one pass over train. BiDAF on whole documents takes as many steps as the reader alone.
    base, joint = (2000, 1000) if values["system"] == "buffer" else (0, 2000)
    config.optimizer = ConfigDict({"learning_rate": 1e-3, "warmup_steps": 100, "decay_steps": 500, "clip_norm": 40.0})
    config.training = ConfigDict({"base_steps": base, "steps": joint, "batch_size": 32, "microbatches": 1})
    config.training.update(seed=values["seed"], log_every=50, validate_every=250, validate_examples=192)
    config.training.update(checkpoint_every=250, reward=values["reward"])
    return config
