"""A needle in a haystack, by characters, with sequence layers: a number hidden in a text, asked for at its end.

    memjax train --config=configs/needle.py:lmm                     in sentences that repeat; needs no data
    memjax train --config=configs/needle.py:lmm,needle=word         or passkey, number
    memjax train --config=configs/needle.py:lmm,haystack=paul_graham_essays.tar.gz --data_dir=FOLDER
    memjax train --config=configs/needle.py:lmm,chunked=1           gradients at the start of each chunk, as published
    memjax train --config=configs/needle.py:lmm,deep=1              memories of two layers, gradients per chunk
    memjax train --config=configs/needle.py:mac                     or mag, mal; attention: a window, no memory

Trained on texts of 256 characters, tested on 256 to 4,096; results: results/needle.json. Titans (2501.00663), Table 2,
at 340M parameters and 16K tokens: LMM 96.2, MAC 98.4, MAG 97.4, MAL 97.8 % of passkeys in sentences that repeat.
Ablations, each one override:
    --config.model.momentum=False     --config.model.forgetting=False     --config.model.persistent=4
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import unknown

LAYERS = ("attention", "lmm", "mac", "mag", "mal")


def get_config(arg: str = "lmm") -> ConfigDict:
    """The layer named before the first comma, or by layer=; then needle=, haystack=, chunked=, deep=, seed=."""
    layer, values = parse_arg(
        arg, "lmm", layer="", needle="passkey", haystack="noise", chunked=False, deep=False, seed=0
    )
    layer = values["layer"] or layer
    if layer not in LAYERS:
        raise unknown("variant of configs/needle.py", layer, LAYERS)

    config = ConfigDict({"system": "sequence"})
    config.task = ConfigDict({"name": "needle", "needle": values["needle"], "size": 5})
    config.task.update(haystack=values["haystack"], length=256, longest=64, data_dir="data")
    config.task.update(train=100_000, valid=200, test=40, seed=0)

    config.model = ConfigDict({"layer": layer, "width": 64, "depth": 2, "heads": 2, "hidden": 128, "window": 32})
    config.model.update(
        persistent=0,
        momentum=True,
        forgetting=True,
        time_constant=1000.0,
        dropout=0.1,
        carry_state=0.95,
        dtype="float32",
    )
    chunked = values["chunked"] or values["deep"]
    config.model.update(gradient_at="chunk" if chunked else "token", chunk=32)
    config.model.update(memory_layers=2 if values["deep"] else 1, expansion=2, memory_norm=False, rate_bound=0.0)
    config.model.update(loss="l2", decay_before_gradient=False, impl="closed_form")

    config.optimizer = ConfigDict({"learning_rate": 3e-3, "warmup_steps": 100, "decay_steps": 500, "clip_norm": 1.0})
    config.training = ConfigDict({"steps": 1000, "batch_size": 32, "microbatches": 1, "seed": values["seed"]})
    config.training.update(log_every=25, validate_every=250, validate_examples=200, checkpoint_every=250)
    config.training.checkpoints = ""
    config.mesh = ConfigDict({"data": -1, "fsdp": 1, "sequence": 1, "model": 1})
    return config
