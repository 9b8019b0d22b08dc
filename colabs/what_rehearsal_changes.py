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
# # What rehearsal changes
#
# A memory that is trained by its answers alone keeps what the questions of training ask for. Rehearsal asks for the
# stream itself. This notebook trains the same memory both ways, freezes it, and looks at what its slots hold: how much
# of the stream can be recollected from them, by age, and whether they answer questions that nobody asked while the
# memory was learning. About two minutes on one core.
#
# In a clone of memjax: `pip install -e '.[train,colab]'`.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import optax

from memjax import memories
from memjax.experiments.stream_qa import init_params
from memjax.models import MemoryModel
from memjax.models.fragments import build_fragments, draw_anywhere
from memjax.tasks import TaskShape

# %% [markdown]
# ## The streams
#
# A stream is 6 segments of 3 items; each of 8 persons is once said to be in one of 4 places, and the rest is chatter.
# The questions are "where is this person?". While the memory learns, only the first 4 persons are asked for.

# %%
PEOPLE, PLACES, CHATTER, SEGMENTS, LENGTH, SLOTS, WIDTH = 8, 4, 8, 6, 3, 8, 32
FACTS = PEOPLE * PLACES
ITEMS = FACTS + CHATTER
ASKED, NEVER_ASKED = jnp.arange(PEOPLE // 2), jnp.arange(PEOPLE // 2, PEOPLE)
everything = jnp.ones((SEGMENTS, LENGTH), bool)


def draw(random, count):
    """Streams [B, T, N] of items, and the place of each person [B, P]."""
    places = random.integers(PLACES, size=(count, PEOPLE))
    items = random.integers(FACTS, ITEMS, size=(count, SEGMENTS * LENGTH))
    where = np.argsort(random.random(items.shape))[:, :PEOPLE]
    np.put_along_axis(items, where, np.arange(PEOPLE) * PLACES + places, 1)
    return items.reshape(count, SEGMENTS, LENGTH), places


# %% [markdown]
# ## The losses
#
# Rehearsal hides half of a segment's items and asks which they were (recollection), and tells the segment from one in
# which items were replaced (familiarity); Rehearsal Memory, Eq. 3 to 7. Any memory can be rehearsed so, for the
# rehearser sees nothing but the slots.

# %%
shape = TaskShape(ITEMS, SEGMENTS, LENGTH, PEOPLE, None, "classes", PLACES)
memory = memories.create(
    "rehearsal", slots=SLOTS, width=WIDTH, segment=LENGTH, layers=1, heads=2, scores="dot", position_std=1.0
)
model = MemoryModel(
    shape, memory, width=WIDTH, hops=1, head_layers=0, rehearser_layers=1, rehearser_heads=2,
    rehearser_norm_slots=True, item_scale=WIDTH**0.5, rehearser_position_std=WIDTH**-0.5,
)  # fmt: skip
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


def answers(params, slots, places, people):
    """Cross-entropy of the places of these people, and the share that is right."""
    logits = jax.vmap(lambda person: model.apply(params, slots, person, method="answer"))(people)
    right = (logits.argmax(-1) == places[people]).mean()
    return optax.softmax_cross_entropy_with_integer_labels(logits, places[people]).mean(), right


def rehearsed(params, slots, stream, other, key):
    """Recollection and half of familiarity, of all segments."""
    draw_key, build_key, sample_key = jax.random.split(key, 3)
    chosen, drawn = draw_anywhere(draw_key, everything, SEGMENTS)
    fragments = build_fragments(build_key, stream, everything, other, everything, chosen, drawn, mask_ratio=0.5)
    recollection, familiarity = model.apply(params, slots, fragments, negatives=0, key=sample_key, method="rehearse")
    return recollection + 0.5 * familiarity


def learn(loss, learned, frozen, steps, seed):
    """Adam on the mean of loss(params, stream, places, other, key); what is frozen stays as it is."""

    def mean(learned, frozen, streams, places, keys):
        params = {"params": {**learned, **frozen}}
        each = jax.vmap(loss, (None, 0, 0, 0, 0))
        return each(params, streams, places, jnp.roll(streams, 1, axis=0), keys).mean()

    @jax.jit
    def step(learned, state, frozen, streams, places, key):
        gradients = jax.grad(mean)(learned, frozen, streams, places, jax.random.split(key, len(streams)))
        updates, state = optimizer.update(gradients, state)
        return optax.apply_updates(learned, updates), state

    random, state = np.random.default_rng(seed), optimizer.init(learned)
    for number in range(steps):
        learned, state = step(learned, state, frozen, *draw(random, 32), jax.random.key(number))
    return learned


def memorized(params, stream):
    return model.apply(params, stream, everything, method="memorize")[0]


def by_answers(params, stream, places, other, key):
    return answers(params, memorized(params, stream), places, ASKED)[0]


def by_both(params, stream, places, other, key):
    slots = memorized(params, stream)
    return answers(params, slots, places, ASKED)[0] + rehearsed(params, slots, stream, other, key)


# %% [markdown]
# ## Two memories
#
# The same start, the same streams and as many steps; one learns by the answers, the other by the answers and rehearsal.

# %%
STEPS = 800
example = {"stream": draw(np.random.default_rng(0), 1)[0][0], "mask": everything, "query": jnp.int32(0)}
start = init_params(model, jax.random.key(0), example)["params"]
trained = {
    "answers alone": learn(by_answers, start, {}, STEPS, seed=1),
    "with rehearsal": learn(by_both, start, {}, STEPS, seed=1),
}

# %% [markdown]
# ## What do the slots hold?
#
# The memories are frozen now. For each a new rehearser learns to recollect from its slots, and a new reader learns to
# answer the questions that the memory has never been asked: what they find must have been in the slots.

# %%
FROZEN = ("memory", "embed")
new = init_params(model, jax.random.key(1), example)["params"]
tested, ages = draw(np.random.default_rng(2), 500), np.arange(SEGMENTS)[::-1]


def probes(params, stream, places, other, key):
    slots = memorized(params, stream)
    return answers(params, slots, places, NEVER_ASKED)[0] + rehearsed(params, slots, stream, other, key)


@jax.jit
def recollected(params, stream, other, key):
    """For each segment, which share of its hidden items is named first among all items."""
    every = jnp.arange(SEGMENTS)
    fragments = build_fragments(
        key, stream, everything, other, everything, every, every >= 0, mask_ratio=0.5
    )  # fmt: skip
    found = model.apply(params, memorized(params, stream), fragments, method="recollect")
    return (fragments.hidden & (found == fragments.items)).sum(-1) / fragments.hidden.sum(-1)


def right_of(params, people):
    each = jax.jit(jax.vmap(lambda stream, places: answers(params, memorized(params, stream), places, people)[1]))
    return float(each(*tested).mean())


curves = {}
for name, params in trained.items():
    frozen = {part: params[part] for part in FROZEN}
    others = {part: value for part, value in new.items() if part not in FROZEN}
    probe = {"params": {**learn(probes, others, frozen, STEPS, seed=3), **frozen}}
    keys = jax.random.split(jax.random.key(4), len(tested[0]))
    shares = jax.vmap(recollected, (None, 0, 0, 0))(probe, tested[0], np.roll(tested[0], 1, axis=0), keys)
    curves[name] = np.asarray(shares).mean(0)
    asked, never = right_of({"params": params}, ASKED), right_of(probe, NEVER_ASKED)
    print(f"{name:14}  asked {asked:.2f}  never asked {never:.2f}  recollected {curves[name].mean():.2f}")

# %%
fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
for name, shares in curves.items():
    ax.plot(ages, shares, marker="o", label=name)
ax.set(xlabel="segments written after it", ylabel="recollected", ylim=(0, 1.02))
ax.invert_xaxis()
ax.legend(frameon=False, ncols=2)
plt.show()

# %% [markdown]
# By chance a place is right once in four times, and a hidden item is named once in 40. One seed of a small task is a
# picture, not a result: how the memories of the papers fare, rehearsed and not, is in the manual, under *Results*, and
# *What is in the slots?* says what it took until rehearsal stored anything.
