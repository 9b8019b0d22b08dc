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
# # Watch a buffer decide
#
# A reader may keep five lines of a story, and is asked about it on the way: where is the milk? Two lines answer that,
# who took it and where they went, and most others do not matter. Which line goes when a sixth one comes? First the
# oldest (FIFO); then what a policy has learned from nothing but whether answers were right (IM-LEMN, Learning What to
# Remember).
#
# In a clone of memjax: `pip install -e '.[train,colab]'`. About a minute on a CPU.

# %%
# %matplotlib inline
# %config InlineBackend.print_figure_kwargs = {"dpi": 72}
import runpy
import tempfile
from pathlib import Path

import jax
import numpy as np
from rich.console import Console

from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.experiments.retention import build_reader, watch
from memjax.reporting.buffer_picture import draw_buffer
from memjax.training import experiment

# %% [markdown]
# ## The task
#
# Episodes are generated: 40 lines and 5 questions, and in some of them lines that say nothing ("mary is thirsty").
# This is `configs/retention.py:noisy`, with fewer episodes and steps.

# %%
root = next(folder for folder in (Path(), Path("..")) if (folder / "configs").is_dir())
settings = runpy.run_path(str(root / "configs" / "retention.py"))["get_config"]("noisy,policy=im,entries=5")
with settings.unlocked():
    settings.task.update(train=3000, valid=200, test=500)
    settings.training.update(base_steps=200, steps=500, batch_size=32, validate_every=250, checkpoint_every=250)
    settings.optimizer.decay_steps = 500
config = from_mapping(settings.to_dict())
run = prepare(config)
task = run.task
episode = task.examples("test", np.array([3]))
for line, label in list(zip(episode["line"][0], episode["label"][0], strict=True))[:18]:
    text = " ".join(task.vocabulary[word] for word in task.lines[line] if word)
    print(text if label < 0 else f"{text}? {task.answers[label]}")

# %% [markdown]
# ## Training
#
# The network that answers is trained under FIFO first, then together with the policy.

# %%
folder = Path(tempfile.mkdtemp()) / "run"
params = experiment.train(run, folder, Console(quiet=True))
found = experiment.evaluate(run, folder)
print(f"right answers: FIFO {found['base']['accuracy']:.3f}, learned {found['metrics']['accuracy']:.3f}")

# %% [markdown]
# ## What was held
#
# A row for each line, a column for each step. A line's bar begins behind the step at which it came and ends when it
# goes; rings are the two lines that a question follows from, on a bar where the buffer has them.
#
# FIFO: every bar is five steps long; six of the ten rings lie on one.

# %%
fifo = build_reader(config.model, task, "fifo")
draw_buffer(watch(fifo, task, params, episode), "FIFO")

# %% [markdown]
# The learned policy: what repeats, or is not asked for, goes early, and lines that may still be needed stay. In this
# episode it holds as many as FIFO, other ones; over many it holds more.

# %%
learned = build_reader(config.model, task, "im")
draw_buffer(watch(learned, task, params, episode), "IM")

# %% [markdown]
# Over many episodes: how many of the lines that questions follow from are held when they are asked?


# %%
def held_share(reader, episodes=200):
    batch = task.examples("test", np.arange(episodes))
    read = jax.jit(jax.vmap(lambda line, asked: reader.apply(params, task.lines, line, asked)))
    entries = read(batch["line"], batch["label"] >= 0).entries
    held = (batch["support"][..., None] == entries[:, :, None]).any(-1) & (batch["support"] >= 0)
    return held.sum() / (batch["support"] >= 0).sum()


print(f"supporting lines held: FIFO {held_share(fifo):.2f}, learned {held_share(learned):.2f}")
