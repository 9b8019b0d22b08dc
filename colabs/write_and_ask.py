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
# # Write a stream, ask it later
#
# A memory reads a stream once, piece by piece, into a few vectors, the *slots*. Then the stream is thrown away, and
# questions are answered from the slots alone. This notebook trains a very small Rehearsal Memory (under a minute on one
# core), writes a stream into it in pieces, looks at the slots after each piece, and asks.
#
# In a clone of memjax: `pip install -e '.[train,colab]'`.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

from memjax import functional, memories
from memjax.memories import Slots
from memjax.models import MemoryModel
from memjax.tasks import Evidence, EvidenceSpec
from memjax.experiments.stream_qa import init_params

# %% [markdown]
# ## The task
#
# There are 40 facts and 4 questions with 4 answers each. Each (question, answer) has its evidence: 4 facts in order. A
# stream is 8 segments of 4 facts: half of them, anywhere, are the evidence of one answer to each question, the others
# are noise. Whoever sees the evidence go by knows the answers, but the questions come only after the stream.

# %%
SEGMENTS, LENGTH, QUESTIONS, ANSWERS, FACTS = 8, 4, 4, 4, 40
spec = EvidenceSpec(
    facts=FACTS, length=SEGMENTS * LENGTH, queries=QUESTIONS, answers=ANSWERS, evidence=LENGTH, groups=QUESTIONS,
    segment=LENGTH, arrangement="consecutive", train=100, valid=1, test=1, seed=0,
)  # fmt: skip
task = Evidence(spec)  # has one question for each stream; we take its evidence, and lay all four into ours
random = np.random.default_rng(0)


def draw(count):
    """Streams [B, T, N], the answers [B, Q], and the segment in which the evidence for each lies [B, Q]."""
    streams = random.integers(FACTS, size=(count, SEGMENTS, LENGTH))
    answers = random.integers(ANSWERS, size=(count, QUESTIONS))
    places = np.argsort(random.random((count, SEGMENTS)))[:, :QUESTIONS]
    streams[np.arange(count)[:, None], places] = task.chains[np.arange(QUESTIONS), answers]
    return streams, answers, places


for name, value in zip(("stream", "answers", "places of the evidence"), draw(1)):
    print(f"{name}:\n{value[0]}")

# %% [markdown]
# ## A memory of 8 slots, trained for 800 steps
#
# `MemoryModel` puts item embeddings, a question encoder and a reader around a memory. It has two methods: `memorize`
# sees the stream, `answer` sees the slots and a question. Here they stand in a training step of our own: each stream is
# written once and asked four times. The answer loss alone will do here; what rehearsal adds, and its losses in such a
# loop, are in the notebook *What rehearsal changes*.

# %%
memory = memories.create("rehearsal", slots=8, width=32, segment=LENGTH, layers=1, heads=2)
model = MemoryModel(task.shape, memory, width=32, hops=1, head_layers=0, rehearser_layers=1, rehearser_heads=2)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))
everything = jnp.arange(QUESTIONS)
no_padding = jnp.ones((SEGMENTS, LENGTH), bool)


def logits(params, stream):
    """One stream, written once and asked everything: [Q, A]."""
    slots, _ = model.apply(params, stream, no_padding, method="memorize")
    return jax.vmap(lambda question: model.apply(params, slots, question, method="answer"))(everything)


def loss(params, streams, answers):
    all_logits = jax.vmap(logits, (None, 0))(params, streams)
    accuracy = (all_logits.argmax(-1) == answers).mean()
    return optax.softmax_cross_entropy_with_integer_labels(all_logits, answers).mean(), accuracy


@jax.jit
def step(params, opt_state, streams, answers):
    gradients, accuracy = jax.grad(loss, has_aux=True)(params, streams, answers)
    updates, opt_state = optimizer.update(gradients, opt_state)
    return optax.apply_updates(params, updates), opt_state, accuracy


example = {"stream": draw(1)[0][0], "mask": no_padding, "query": jnp.int32(0)}
params = init_params(model, jax.random.key(0), example)
opt_state = optimizer.init(params)
accuracies = []
for _ in range(800):
    streams, answers, _ = draw(32)
    params, opt_state, accuracy = step(params, opt_state, streams, answers)
    accuracies.append(float(accuracy))

fig, ax = plt.subplots(figsize=(6, 2.4), layout="constrained")
ax.plot(np.convolve(accuracies, np.ones(10) / 10, mode="valid"))
ax.axhline(1 / ANSWERS, color="grey", ls=":", label="chance")
ax.set(xlabel="step", ylabel="accuracy", ylim=(0, 1.02))
ax.legend(frameon=False)
plt.show()

# %% [markdown]
# On 1,000 streams that it was not trained on, by the segment in which the evidence lies:

# %%
streams, answers, places = draw(1000)
right = np.asarray(jax.jit(jax.vmap(logits, (None, 0)))(params, streams).argmax(-1)) == answers
print("all:", f"{right.mean():.3f}", "by segment:", *(f"{right[places == t].mean():.2f}" for t in range(SEGMENTS)))

# %% [markdown]
# ## Write a stream in pieces
#
# `functional` takes the memory apart into pure functions. The state between two pieces is an ordinary array that could
# be saved or sent elsewhere. Here a piece is one segment; it may be any number of them.

# %%
(stream,), (true_answers,), (lies_in,) = draw(1)
print("segments with the evidence for questions 0 to 3:", lies_in)

pure = functional(memory)
own = {"params": params["params"]["memory"]}  # the memory's own parameters
table = params["params"]["embed"]["embedding"]  # a vector for each fact
memorize = jax.jit(pure.memorize)

states = [pure.initial_state(own)]
for segment in stream:
    piece = table[segment][None]  # [1, N, d]: a stream of one segment
    now, _ = memorize(own, piece, state=states[-1])
    states.append(now)
states = np.stack(states)
print("the state before, and after each of the 8 pieces:", states.shape)

# %% [markdown]
# Writing in pieces gives what one call on the whole stream gives, and the size of the state has nothing to do with the
# length of the stream:

# %%
at_once, _ = memorize(own, table[stream])
long, _ = memorize(own, table[np.tile(stream, (100, 1))])
print("same slots:", np.allclose(at_once, states[-1], atol=1e-5))
print("state after 8 segments:", at_once.nbytes, "bytes; after 800:", long.nbytes, "bytes")

# %% [markdown]
# ## See the slots
#
# Each panel is the memory: a row for each slot, a column for each of its 32 numbers.

# %%
names = ["before", *(f"after segment {t}" for t in range(SEGMENTS))]
fig, axes = plt.subplots(3, 3, figsize=(9, 5), sharex=True, sharey=True, layout="constrained")
for ax, values, name in zip(axes.flat, states, names):
    image = ax.imshow(values, cmap="RdBu_r", vmin=-1.5, vmax=1.5, aspect="auto", interpolation="nearest")
    ax.set_title(name, fontsize=9)
for ax in axes[:, 0]:
    ax.set_ylabel("slot")
fig.colorbar(image, ax=axes, shrink=0.6)
plt.show()

# %% [markdown]
# How far each slot moved with each segment. All move at first, from where they start; after that, evidence moves a few
# slots far, and noise hardly moves any.

# %%
change = np.linalg.norm(np.diff(states, axis=0), axis=-1)  # [T, K]
holds = {segment: f"{segment}\nevidence\nfor {question}" for question, segment in enumerate(lies_in)}
fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
image = ax.imshow(change.T, cmap="viridis", vmin=0, aspect="auto")
ax.set_xticks(range(SEGMENTS), [holds.get(t, f"{t}\nnoise") for t in range(SEGMENTS)], fontsize=8)
ax.set(xlabel="segment", ylabel="slot")
fig.colorbar(image, ax=ax, label="distance moved")
plt.show()

# %% [markdown]
# ## Delete the stream, ask
#
# One memory, four questions. There is no stream left that `answer` could look at.

# %%
del stream, segment, piece


@jax.jit
def ask(values, question):
    """The probabilities of the answers."""
    slots = Slots(values, jnp.ones(len(values), bool))
    return jax.nn.softmax(model.apply(params, slots, question, method="answer"))


for question, answer in enumerate(true_answers):
    says = np.asarray(ask(states[-1], question))
    print(f"question {question}: says {says.argmax()} (probability {says.max():.2f}), it was {answer}")

# %% [markdown]
# Asking after each piece shows when each answer came to be known, and whether later pieces wiped it out. A frame marks
# the segment that holds the evidence. Before it, the memory can only guess.

# %%
ask_all = jax.jit(jax.vmap(jax.vmap(ask, (None, 0)), (0, None)))
probabilities = np.asarray(ask_all(states, everything))  # [state, question, answer]
of_the_right_one = probabilities[:, everything, true_answers].T

fig, ax = plt.subplots(figsize=(8, 2.6), layout="constrained")
image = ax.imshow(of_the_right_one, cmap="Greens", vmin=0, vmax=1, aspect="auto")
for (question, t), p in np.ndenumerate(of_the_right_one):
    ax.text(t, question, f"{p:.2f}", ha="center", va="center", fontsize=8, color="white" if p > 0.6 else "black")
for question, segment in enumerate(lies_in):
    ax.add_patch(plt.Rectangle((segment + 0.5, question - 0.5), 1, 1, fill=False, ec="tab:red", lw=2))
ax.set_xticks(range(SEGMENTS + 1), ["before", *range(SEGMENTS)])
ax.set(yticks=range(QUESTIONS), ylabel="question", xlabel="last segment written")
fig.colorbar(image, ax=ax, label="probability of\nthe right answer")
plt.show()

# %% [markdown]
# ## How long does it hold?
#
# This memory was trained on streams of 8 segments. What is left of the answers after more and more noise?

# %%
state = jax.jit(jax.vmap(lambda stream: pure.memorize(own, table[stream])[0]))(streams)
go_on = jax.jit(jax.vmap(lambda state, stream: pure.memorize(own, table[stream], state=state)[0]))
ask_everyone = jax.jit(jax.vmap(jax.vmap(ask, (None, 0)), (0, None)))
for segments in range(0, 41, 8):
    right = np.asarray(ask_everyone(state, everything).argmax(-1)) == answers
    print(f"{segments:2d} segments of noise later: {right.mean():.2f}")
    state = go_on(state, random.integers(FACTS, size=(len(streams), 8, LENGTH)))
