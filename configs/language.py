"""Language models of sequence layers: the next word of the Penn Treebank, the next character of War and Peace.

    memjax train --config=configs/language.py:ptb --data_dir=FOLDER           FOLDER has ptb.zip
    memjax train --config=configs/language.py:ptb,layer=mag --data_dir=FOLDER   or attention, mac, mal
    memjax train --config=configs/language.py:ptb,rule=titans_deep --data_dir=FOLDER    memories of two layers
    memjax train --config=configs/language.py:ptb,layer=memn2n --data_dir=FOLDER   End-To-End Memory Network, 6 hops
    memjax train --config=configs/language.py:characters --data_dir=FOLDER    FOLDER has warandpeace.txt.gz

Test perplexity on the Penn Treebank: results/language.json. Published: End-To-End Memory Networks (1503.08895),
Table 2: RNN 129, LSTM 115, memory network of 7 hops 111. A valid or test text is read in streams of `test_length`
tokens.
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import unknown
from memjax.layers import rule

VARIANTS = {
    "ptb": {"file": "ptb.zip", "unit": "word", "length": 128, "test_length": 1024},
    "characters": {"file": "warandpeace.txt.gz", "unit": "character", "length": 256, "test_length": 4096},
}


def get_config(arg: str = "ptb") -> ConfigDict:
    """The variant named before the first comma; then layer=, rule=, seed=."""
    variant, values = parse_arg(arg, "ptb", layer="lmm", rule="titans", seed=0)
    if variant not in VARIANTS:
        raise unknown("variant of configs/language.py", variant, VARIANTS)
    words = variant == "ptb"

    config = ConfigDict({"system": "sequence"})
    config.task = ConfigDict({"name": "language", "data_dir": "data", **VARIANTS[variant]})

    config.model = ConfigDict({"layer": values["layer"], "width": 200 if words else 128, "depth": 2, "heads": 4})
    config.model.update(hidden=400 if words else 256, window=64, persistent=0)
    config.model.update(momentum=True, forgetting=True, convolution=True, time_constant=1000.0)
    config.model.update(gradient_at="token", chunk=32)
    config.model.update(memory_layers=1, expansion=2, memory_norm=False, horizon=0.0, rate_bound=0.0, bounded="write")
    config.model.update(loss="l2", decay_before_gradient=False, decay="token", impl="closed_form")
    config.model.update(rule(values["rule"]))
    if config.model.gradient_at == "chunk":  # with MAC a segment
        config.model.chunk = config.model.window
    config.model.update(dropout=0.3 if words else 0.0, carry_state=0.0, dtype="float32")
    config.model.update(lower_horizon=0.0, gate_cost=0.0)

    if values["layer"] == "memn2n":  # the paper's sizes; it has no dropout, and plain SGD until nothing improves
        config.task.length = 256
        config.model.update(width=150, depth=6, heads=1, hidden=0, window=100)

    config.optimizer = ConfigDict({"learning_rate": 2e-3, "warmup_steps": 200, "clip_norm": 1.0})
    config.optimizer.decay_steps = 5000 if words else 2000
    config.training = ConfigDict({"steps": 7500 if words else 4000, "batch_size": 16, "microbatches": 1})
    config.training.update(seed=values["seed"], log_every=50, validate_every=500, validate_examples=100)
    config.training.update(checkpoint_every=500)
    return config
