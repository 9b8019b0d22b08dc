"""Multi-query associative recall of Zoology (Arora et al. 2023), the field's form, with sequence layers.

    memjax train --config=configs/mqar.py:64x4                      100,000 rows of 64 tokens with 4 pairs, width 64
    memjax train --config=configs/mqar.py:128x8,width=128           or 256x16, 256x32, 256x64
    memjax train --config=configs/mqar.py:all                       the published mixture of all five
    memjax train --config=configs/mqar.py:64x4,layer=mac            or mag, mal; attention: a window, no memory
    memjax train --config=configs/mqar.py:64x4,rule=deltanet        or another of memjax.layers.RULES

8,192 ids; two layers without perceptrons, as published. Tested on the cell itself, or, with `all`, on seven cells from
64 x 4 to 1,024 x 256. Results: results/mqar.json.
"""

from ml_collections import ConfigDict

from memjax.config import parse_arg
from memjax.errors import unknown
from memjax.layers import rule

ROWS = {"64x4": 100_000, "128x8": 20_000, "256x16": 20_000, "256x32": 20_000, "256x64": 20_000}
TEST = "64x4,64x8,64x16,128x32,256x64,512x128,1024x256"
VARIANTS = (*ROWS, "all")


def get_config(arg: str = "64x4") -> ConfigDict:
    """The cell named before the first comma; then layer=, width=, heads=, rule=, seed=."""
    cell, values = parse_arg(arg, "64x4", layer="lmm", width=64, heads=2, rule="titans", seed=0)
    if cell not in VARIANTS:
        raise unknown("variant of configs/mqar.py", cell, VARIANTS)
    cells = list(ROWS) if cell == "all" else [cell]

    config = ConfigDict({"system": "sequence"})
    config.task = ConfigDict({"name": "mqar", "vocabulary": 8192, "cells": ",".join(cells), "power": 0.01})
    config.task.rows = ",".join(str(ROWS[name]) for name in cells)
    config.task.update(test_cells=TEST if cell == "all" else cell, noise=False, valid=500, test=1000, seed=0)

    config.model = ConfigDict({"layer": values["layer"], "width": values["width"], "depth": 2})
    config.model.update(heads=values["heads"], hidden=0, window=16, persistent=0, dropout=0.0)
    config.model.update(carry_state=0.0, lower_horizon=0.0, gate_cost=0.0)
    config.model.update(momentum=True, forgetting=True, convolution=True, time_constant=1000.0, dtype="float32")
    config.model.update(gradient_at="token", chunk=16)
    config.model.update(memory_layers=1, expansion=2, memory_norm=False, horizon=0.0, rate_bound=0.0, bounded="write")
    config.model.update(loss="l2", decay_before_gradient=False, decay="token", impl="closed_form")
    config.model.update(rule(values["rule"]))

    config.optimizer = ConfigDict({"learning_rate": 3e-3, "warmup_steps": 100, "decay_steps": 1000, "clip_norm": 1.0})
    config.training = ConfigDict({"steps": 3000, "batch_size": 64, "microbatches": 1, "seed": values["seed"]})
    config.training.update(log_every=25, validate_every=250, validate_examples=500, checkpoint_every=500)
    return config
