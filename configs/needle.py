"""A needle in a haystack, by characters, with sequence layers: a number hidden in a text, asked for at its end.

    memjax train --config=configs/needle.py:lmm                     in sentences that repeat; needs no data
    memjax train --config=configs/needle.py:lmm,needle=word         or passkey, number
    memjax train --config=configs/needle.py:lmm,haystack=paul_graham_essays.tar.gz --data_dir=FOLDER
    memjax train --config=configs/needle.py:lmm,rule=titans_chunked   gradients at the start of each chunk
    memjax train --config=configs/needle.py:lmm,rule=titans_deep      memories of two layers, gradients per chunk
    memjax train --config=configs/needle.py:lmm,carry=1             state passing between texts, and dropout
    memjax train --config=configs/needle.py:lmm,long=1              that, and texts of up to 8 times 256 characters, in
                                                                    pieces of 256 without a gradient between them; a
                                                                    short memory below a long one; a cost of gates
    memjax train --config=configs/needle.py:mac                     or mag, mal; attention: a window, no memory

Trained on 256 characters at a time, tested on 256 to 16,384; results: results/needle.json. Titans (2501.00663), Table
2, at 340M parameters and 16K tokens: LMM 96.2, MAC 98.4, MAG 97.4, MAL 97.8 % of passkeys in sentences that repeat.
With long=1 a third of task.train is read before texts of several pieces come, and all of it in training.steps: change
both together. Ablations, each one override:
    --config.model.momentum=False     --config.model.forgetting=False     --config.model.persistent=4
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import unknown
from memjax.layers import rule

LAYERS = ("attention", "lmm", "mac", "mag", "mal")


def get_config(arg: str = "lmm") -> ConfigDict:
    """The layer named before the first comma, or by layer=; then needle=, haystack=, rule=, carry=, long=, seed=."""
    layer, values = parse_arg(
        arg, "lmm", layer="", needle="passkey", haystack="noise", rule="titans", carry=False, long=False, seed=0
    )
    carry, long = values["carry"] or values["long"], values["long"]
    steps, batch = 1500 if long else 1000, 32
    layer = values["layer"] or layer
    if layer not in LAYERS:
        raise unknown("variant of configs/needle.py", layer, LAYERS)

    config = ConfigDict({"system": "sequence"})
    config.task = ConfigDict({"name": "needle", "needle": values["needle"], "size": 5})
    config.task.update(haystack=values["haystack"], length=256, longest=64, pieces=8 if long else 1, data_dir="data")
    # Texts of several pieces are read in their order, the first third one piece each: as many as the steps read.
    config.task.update(train=steps * batch if long else 100_000, valid=200, test=40, seed=0)

    config.model = ConfigDict({"layer": layer, "width": 64, "depth": 2, "heads": 2, "hidden": 128, "window": 32})
    config.model.update(
        persistent=0,
        momentum=True,
        forgetting=True,
        convolution=True,
        time_constant=1000.0,
        dropout=0.1 if carry else 0.0,
        carry_state=0.95 if carry else 0.0,
        lower_horizon=32.0 if long and layer == "lmm" else 0.0,  # MAG, which has a window, learns far later with it
        gate_cost=0.3 if long and layer != "attention" else 0.0,
        dtype="float32",
    )
    config.model.update(gradient_at="token", chunk=32)
    # "write" as the runs in results/ were trained; with it MAC's gradient was not finite in texts of several pieces.
    bounded = "token" if long and layer == "mac" else "write"
    config.model.update(memory_layers=1, expansion=2, memory_norm=False, horizon=0.0, rate_bound=0.0, bounded=bounded)
    config.model.update(loss="l2", decay_before_gradient=False, decay="token", impl="closed_form")
    config.model.update(rule(values["rule"]))

    config.optimizer = ConfigDict({"learning_rate": 3e-3, "warmup_steps": 100, "decay_steps": 500, "clip_norm": 1.0})
    config.training = ConfigDict({"steps": steps, "batch_size": batch, "microbatches": 1, "seed": values["seed"]})
    config.training.update(log_every=25, validate_every=250, validate_examples=200, checkpoint_every=250)
    return config
