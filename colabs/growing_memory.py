# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A user's memory as it grows
#
# A shop keeps one state of fixed size for each user, writes what was clicked today, and asks it at any time: which
# items would this user click next? Here one user is followed through 320 clicks, and changes taste half way. What
# would be recommended after 8, 40, 160, 200 and 320 clicks, and which slots changed?
#
# In a clone of memjax: `pip install -e '.[train,colab]'`. About two minutes on a CPU.

# %%
# %matplotlib inline
# %config InlineBackend.print_figure_kwargs = {"dpi": 72}
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console

from memjax import streaming
from memjax.experiments.prepare import prepare, trained_model
from memjax.experiments.reading import from_mapping
from memjax.training import experiment

# %% [markdown]
# ## A made-up shop
#
# 120 items of 6 kinds. Each of 400 users clicks items of two kinds, and little else; every 40 clicks or so one of the
# two gives way to another. The file has a line "user item" for each click, as in [Your
# clicks](../guides/own_clicks.md).

# %%
KINDS, OF_A_KIND, USERS = 6, 20, 400
folder, random = Path(tempfile.mkdtemp()), np.random.default_rng(0)


def clicks(count, random):
    """So many clicks of one user: item numbers from 1."""
    liked, found = random.permutation(KINDS)[:2], []
    for _ in range(count):
        if random.random() < 1 / 40:
            liked[random.integers(2)] = random.integers(KINDS)
        kind = liked[random.integers(2)] if random.random() < 0.9 else random.integers(KINDS)
        found.append(1 + kind * OF_A_KIND + min(random.geometric(0.15), OF_A_KIND) - 1)
    return found


lines = [f"{user} {item}" for user in range(USERS) for item in clicks(80, random)]
(folder / "shop.txt").write_text("\n".join(lines) + "\n")

# %% [markdown]
# ## Training
#
# `configs/clicks.py`, made small, and rehearsed: the memory is to complete what it has read, too. Users are asked on
# the way, after each segment of 8 clicks.

# %%
settings = {
    "system": "memory",
    "task": {"name": "clicks", "file": "shop.txt", "length": 80, "segment": 8, "views": 1, "least": 5, "seed": 0},
    "memory": {"name": "rehearsal", "slots": 8, "layers": 1, "heads": 2, "context": 2},
    "model": {"width": 32, "hops": 1, "head_layers": 1, "item_scale": 32**0.5},
    "rehearsal": {"fragments": 2, "sampler": "random", "negatives": 40, "layers": 1, "heads": 2, "norm_slots": True},
    "training": {"steps": 600, "batch_size": 32, "validate_every": 200, "checkpoint_every": 300},
    "optimizer": {"learning_rate": 3e-3, "warmup_steps": 50, "decay_steps": 300},
}
settings["task"]["data_dir"] = str(folder)
run = prepare(from_mapping(settings))
experiment.train(run, folder / "run", Console(quiet=True))
evaluation = experiment.evaluate(run, folder / "run")
found = evaluation["metrics"]
print(f"AUC {found['auc']:.3f}, against popular items {found['auc_popular']:.3f}")
print(f"{evaluation['state_bytes']:,} bytes for each user")

# %% [markdown]
# ## One user, as time goes by
#
# A user who was never seen in training: 160 clicks on kinds A and B, then 160 on kinds E and F. The state is written
# segment by segment, and asked about all 120 items whenever we like; nothing that was read is kept. The model knows an
# item by its place in `run.task.vocabulary`: item n is n - 1.

# %%
model, params = trained_model(folder / "run")
taste = [(0, 1)] * 160 + [(4, 5)] * 160
items = [min(random.geometric(0.15), OF_A_KIND) - 1 for _ in taste]
history = np.array([kinds[i % 2] * OF_A_KIND + item for i, (kinds, item) in enumerate(zip(taste, items, strict=True))])


@jax.jit
def scores(states):
    items = jnp.arange(KINDS * OF_A_KIND)
    logits = streaming.answer(model, params, states, jnp.zeros_like(items), items)
    return logits[:, 1] - logits[:, 0]


@jax.jit
def slots(states):
    return model.apply(params, jax.tree.map(lambda leaf: leaf[0], states), method="slots").values


states = streaming.start(model, params, 1)
shares, changes = [], []
for start in range(0, len(history), 8):
    before = slots(states)
    states = streaming.write(model, params, states, [0], [history[start : start + 8].tolist()])
    changes.append(np.linalg.norm(slots(states) - before, axis=1))
    best = np.argsort(-np.asarray(scores(states)))[:10]
    shares.append(np.bincount(best // OF_A_KIND, minlength=KINDS) / 10)
    if start + 8 in (8, 40, 160, 200, 320):
        names = " ".join(f"{'ABCDEF'[item // OF_A_KIND]}{item % OF_A_KIND}" for item in best)
        print(f"after {start + 8:>3} clicks: {names}")

# %% [markdown]
# Above, the ten best items by kind, after each segment; below, how much each segment changed each slot. The taste
# changes at click 160, the line.

# %%
figure, (above, below) = plt.subplots(2, 1, figsize=(10, 5.5), sharex=True, layout="constrained")
places = np.arange(8, len(history) + 1, 8)
above.stackplot(places, np.array(shares).T, labels=list("ABCDEF"), alpha=0.85)
above.axvline(160, color="black")
above.set(ylabel="share of the ten best", ylim=(0, 1), title="What would be recommended")
above.legend(loc="center left", bbox_to_anchor=(1, 0.5), title="kind")
image = below.pcolormesh(np.append(places - 4, places[-1] + 4), np.arange(9), np.array(changes).T, cmap="Blues")
below.axvline(160, color="black")
below.set(xlabel="clicks", ylabel="slot", title="Which slots changed")
figure.colorbar(image, ax=below, label="change")
plt.show()

# %%
first, last = np.array(shares)[places <= 160][-5:].mean(0), np.array(shares)[-5:].mean(0)
print(f"A and B among the ten best before the change: {first[:2].sum():.0%}; E and F at the end: {last[4:].sum():.0%}")
