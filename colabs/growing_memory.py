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
# items would this user click next? Here one user is followed through 1,000 clicks, and changes taste half way. What
# would be recommended after 8, 104, 504, 552 and 1,000 clicks, and which slots changed?
#
# In a clone of memjax: `pip install -e '.[train,colab]'`. About two minutes on a CPU.

# %%
# %matplotlib inline
# %config InlineBackend.print_figure_kwargs = {"dpi": 72}
import tempfile
from pathlib import Path

import jax
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
# A user who was never seen in training: 504 clicks on kinds A and B, then 496 on kinds E and F. The state is
# written segment by segment, and all 120 items are ranked whenever we like; nothing that was read is kept. The model
# knows an item by its place in `run.task.vocabulary`: item n is n - 1.

# %%
model, params = trained_model(folder / "run")
LENGTH, CHANGE, SEGMENT = 1000, 504, 8
taste = [(0, 1) if click < CHANGE else (4, 5) for click in range(LENGTH)]
items = [min(random.geometric(0.15), OF_A_KIND) - 1 for _ in taste]
history = np.array([kinds[i % 2] * OF_A_KIND + item for i, (kinds, item) in enumerate(zip(taste, items, strict=True))])


@jax.jit
def slots(states):
    return model.apply(params, jax.tree.map(lambda leaf: leaf[0], states), method="slots").values


states = streaming.start(model, params, 1)
shares, changes = [], []
for start in range(0, LENGTH, SEGMENT):
    before = slots(states)
    states = streaming.write(model, params, states, [0], [history[start : start + SEGMENT].tolist()])
    changes.append(np.linalg.norm(slots(states) - before, axis=1))
    best = np.asarray(streaming.rank(model, params, states, [0], k=10).items[0])
    shares.append(np.bincount(best // OF_A_KIND, minlength=KINDS) / 10)
    if start + SEGMENT in (8, 104, CHANGE, CHANGE + 48, LENGTH):
        names = " ".join(f"{'ABCDEF'[item // OF_A_KIND]}{item % OF_A_KIND}" for item in best)
        print(f"after {start + SEGMENT:>5,} clicks: {names}")

# %% [markdown]
# Above, the ten best items by kind, after each segment; below, how much each segment changed each slot. The taste
# changes at click 504, the line.

# %%
figure, (above, below) = plt.subplots(2, 1, figsize=(10, 5.5), sharex=True, layout="constrained")
places = np.arange(SEGMENT, LENGTH + 1, SEGMENT)
above.stackplot(places, np.array(shares).T, labels=list("ABCDEF"), alpha=0.85)
above.axvline(CHANGE, color="black")
above.set(ylabel="share of the ten best", ylim=(0, 1), title="What would be recommended")
above.legend(loc="center left", bbox_to_anchor=(1, 0.5), title="kind")
edges = np.append(places - SEGMENT / 2, places[-1] + SEGMENT / 2)
image = below.pcolormesh(edges, np.arange(9), np.array(changes).T, cmap="Blues")
below.axvline(CHANGE, color="black")
below.set(xlabel="clicks", ylabel="slot", title="Which slots changed")
figure.colorbar(image, ax=below, label="change")
plt.show()

# %%
shares, changes = np.array(shares), np.array(changes).mean(1)
first, last = shares[places <= CHANGE][-5:].mean(0), shares[-5:].mean(0)
print(f"A and B among the ten best before the change: {first[:2].sum():.0%}; E and F at the end: {last[4:].sum():.0%}")
settled = changes[(places > CHANGE - 100) & (places <= CHANGE)].mean()
after = changes[(places > CHANGE) & (places <= CHANGE + 24)].mean()
print(f"a slot's change by a segment: {settled:.2f} before the change of taste, {after:.2f} in the three after it")
