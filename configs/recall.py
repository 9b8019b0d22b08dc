"""Multi-query associative recall (Arora et al. 2023, Zoology) with sequence layers: keys and values, then keys alone.

    memjax train --config=configs/recall.py:lmm                     surprise memory alone, gradients at every token
    memjax train --config=configs/recall.py:lmm,rule=titans_chunked   gradients at the start of each chunk
    memjax train --config=configs/recall.py:lmm,rule=titans_deep      memories of two layers, gradients per chunk
    memjax train --config=configs/recall.py:lmm,rule=deltanet       or another of memjax.layers.RULES
    memjax train --config=configs/recall.py:mac                     or mag, mal; attention: a window, no memory

Trained on sequences of 64 tokens with at most 8 pairs, tested on 64 to 1,024 tokens; results: results/recall.json.
Ablations, each one override:
    --config.model.momentum=False     --config.model.forgetting=False     --config.model.persistent=4
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import unknown
from memjax.layers import rule

LAYERS = ("attention", "lmm", "mac", "mag", "mal")


def get_config(arg: str = "lmm") -> ConfigDict:
    """The layer named before the first comma, or by layer=; then rule=, seed=."""
    layer, values = parse_arg(arg, "lmm", layer="", rule="titans", seed=0)
    layer = values["layer"] or layer
    if layer not in LAYERS:
        raise unknown("variant of configs/recall.py", layer, LAYERS)

    config = ConfigDict({"system": "sequence"})
    config.task = ConfigDict({"name": "recall", "key_tokens": 64, "value_tokens": 64, "noise_tokens": 64, "pairs": 8})
    config.task.update(length=64, longest=16, train=100_000, valid=500, test=100, seed=0)

    config.model = ConfigDict({"layer": layer, "width": 64, "depth": 2, "heads": 2, "hidden": 0, "window": 16})
    config.model.update(
        persistent=0,
        momentum=True,
        forgetting=True,
        convolution=True,
        time_constant=1000.0,
        dropout=0.0,
        carry_state=0.0,
        lower_horizon=0.0,
        gate_cost=0.0,
        dtype="float32",
    )
    config.model.update(gradient_at="token", chunk=16)
    # "token": what was written of a key before does not make a memory diverge when the key comes again, as it does in
    # long sequences.
    config.model.update(memory_layers=1, expansion=2, memory_norm=False, horizon=0.0, rate_bound=0.0, bounded="token")
    config.model.update(loss="l2", decay_before_gradient=False, decay="token", impl="closed_form")
    config.model.update(rule(values["rule"]))

    config.optimizer = ConfigDict({"learning_rate": 3e-3, "warmup_steps": 100, "decay_steps": 500, "clip_norm": 1.0})
    # After 1,500 steps these have learned from some seeds alone, or barely, whose a value is.
    steps = 3000 if layer in ("mac", "mag", "mal") else 1500
    config.training = ConfigDict({"steps": steps, "batch_size": 64, "microbatches": 1, "seed": values["seed"]})
    config.training.update(log_every=25, validate_every=250, validate_examples=500, checkpoint_every=250)
    return config
