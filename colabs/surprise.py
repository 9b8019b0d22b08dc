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
# # What surprises a memory
#
# The memory of Titans (Behrouz et al. 2025) learns while it reads: it is a matrix `M`, and each token moves it by one
# step of gradient descent on how badly it predicted that token. The gradient is the *surprise*. Past surprise goes on
# for a while (momentum), and the memory forgets:
#
#     S_t = momentum S_(t-1) - lr * gradient of 1/2 |k_t M - v_t|^2 at M_(t-1)
#     M_t = keep M_(t-1) + S_t
#
# This notebook trains nothing. It reads a nursery rhyme, looks at what momentum and forgetting do to one memory, and
# sees exact gradients and the usual chunked ones part.
#
# In a clone of memjax: `pip install -e '.[train,colab]'`.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

from memjax import ops

# %% [markdown]
# ## Surprise over a text
#
# In "The House That Jack Built" each verse says all verses before it again. Every word is a random vector, and so is
# every pair of words; the key of a token is the pair before it, the value is the word itself. What the memory says to
# `k_t` *before* it is told `v_t` is its prediction: we get it by asking, after token t - 1, for the key of token t.

# %%
LINES = [
    "the house that jack built",
    "the malt that lay in",
    "the rat that ate",
    "the cat that killed",
    "the dog that worried",
    "the cow with the crumpled horn that tossed",
]
verses = [["this", "is", *" ".join(LINES[last::-1]).split()] for last in range(len(LINES))]
words = [word for verse in verses for word in verse]
pairs = list(zip(["", "", *words], ["", *words], strict=False))[: len(words)]
WIDTH = 128


def random_vectors(names, seed):
    """A random vector of length 1 for every different name, `[L, WIDTH]`."""
    different = sorted(set(names))
    vectors = jax.random.normal(jax.random.key(seed), (len(different), WIDTH))
    vectors = vectors / jnp.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors[np.array([different.index(name) for name in names])]


keys, values = random_vectors(pairs, 0), random_vectors(words, 1)


def gates(length, keep=1.0, momentum=0.0, lr=0.9):
    """The same gates for every token; they are given as logs."""
    return [jnp.full(length, value) for value in (np.log(keep), np.log(max(momentum, 1e-30)), lr)]


asked = jnp.roll(keys, -1, axis=0)  # after token t, the key of token t + 1
predicted, _ = ops.surprise_linear(asked, keys, values, *gates(len(words)))
surprise = jnp.linalg.norm(jnp.roll(predicted, 1, axis=0).at[0].set(0) - values, axis=1)

figure, axis = plt.subplots(figsize=(11, 3))
axis.bar(range(len(words)), surprise, width=0.9)
for start in np.cumsum([len(verse) for verse in verses])[:-1]:
    axis.axvline(start - 0.5, color="black", linewidth=0.7)
axis.set_xticks(range(len(words)), words, rotation=90, fontsize=6)
axis.set(ylabel="surprise", title="Each verse (between the lines) surprises where it is new")
figure.tight_layout()

# %%
place = np.concatenate([np.arange(len(verse)) for verse in verses])  # a verse's own line comes after "this is"
own = np.concatenate([np.full(len(verse), len(line.split())) for verse, line in zip(verses, LINES, strict=True)])
new = (place >= 2) & (place < 2 + own)
print(f"surprise of new words {surprise[new].mean():.2f}, of repeated words {surprise[~new].mean():.2f}")

# %% [markdown]
# ## Momentum and forgetting
#
# One token is written; then come 60 others, with keys of their own that have nothing to do with it. How well is it
# still known? Momentum goes on writing what surprised once, more than was asked for, unless the rate is smaller.
# Forgetting lets everything fade alike.

# %%
LATER = 60
apart = jnp.eye(LATER + 1, WIDTH)
told = jax.random.normal(jax.random.key(1), (LATER + 1, WIDTH)) * WIDTH**-0.5
first = jnp.broadcast_to(apart[0], apart.shape)
figure, axis = plt.subplots(figsize=(7, 3))
for keep, momentum, lr in [(1, 0, 0.9), (0.95, 0, 0.9), (1, 0.8, 0.18), (0.95, 0.8, 0.18), (1, 0.8, 0.9)]:
    answers, _ = ops.surprise_linear(first, apart, told, *gates(LATER + 1, keep, momentum, lr))
    share = answers @ told[0] / (told[0] @ told[0])
    axis.plot(share, label=f"keep {keep}, momentum {momentum}, rate {lr}")
    print(f"keep {keep}, momentum {momentum}, rate {lr}: known {share[0]:.2f} at once, {share[-1]:.2f} at the end")
axis.axhline(1, color="black", linewidth=0.7)
axis.set(xlabel="tokens since", ylabel="how much of it comes back", title="One token, remembered")
axis.legend(fontsize=7)
figure.tight_layout()

# %% [markdown]
# ## Exact and chunked gradients
#
# Training takes all gradients of a chunk where the chunk began, because that is easily done at once. But tokens of one
# chunk do not know of each other then: with keys that are alike, each corrects the same error again, and the memory
# overshoots. `gradient_at="token"`, the default, is exact for every chunk size, by a triangular system for each chunk:
# there the chunk size is a matter of speed alone.

# %%
LENGTH = 512
common, own = jax.random.normal(jax.random.key(2), (WIDTH,)), jax.random.normal(jax.random.key(3), (LENGTH, WIDTH))
alike = common + own  # two keys have a cosine of about 1/2
alike = alike / jnp.linalg.norm(alike, axis=1, keepdims=True)
targets = jax.random.normal(jax.random.key(4), (LENGTH, WIDTH)) * WIDTH**-0.5
largest = {}
for chunk in (1, 2, 4, 8, 16, 32):
    for mode in ("token", "chunk"):
        _, state = ops.surprise_linear(
            alike, alike, targets, *gates(LENGTH, lr=0.5), gradient_at=mode, chunk_size=chunk
        )
        largest[mode, chunk] = float(jnp.abs(state.memory).max())
figure, axis = plt.subplots(figsize=(7, 3))
for mode in ("token", "chunk"):
    sizes = [chunk for m, chunk in largest if m == mode]
    axis.loglog(sizes, [largest[mode, chunk] for chunk in sizes], "o-", label=f'gradient_at="{mode}"')
axis.set(xlabel="chunk size", ylabel="largest entry of the memory", title="512 tokens with keys that are alike")
axis.legend()
figure.tight_layout()
print(f"chunks of 16: exact {largest['token', 16]:.2f}, chunked {largest['chunk', 16]:.2g}")

# %% [markdown]
# ## A deep memory
#
# A matrix of 16 by 16 holds at most 16 pairs, whatever it is told. A memory of two layers holds as many as its weights
# allow; it is written by the same rule, with gradients per chunk, and a stream of it may be cut anywhere, too. Both
# read the same pairs, again and again.

# %%
SIZE, PASSES = 16, 100
start = [
    jax.random.normal(jax.random.key(5 + i), shape) for i, shape in enumerate([(SIZE, 4 * SIZE), (4 * SIZE, SIZE)])
]
start = tuple(weights * weights.shape[0] ** -0.5 for weights in start)


def unit(x):
    return x / jnp.linalg.norm(x, axis=1, keepdims=True)


errors = {"a matrix": {}, "two layers": {}}
for pairs in (4, 8, 16, 32, 64):
    key, value = (unit(jax.random.normal(jax.random.key(seed), (pairs, SIZE))) for seed in (7, 8))
    tokens = [jnp.tile(key, (PASSES, 1)), jnp.tile(key, (PASSES, 1)), jnp.tile(value, (PASSES, 1))]
    tokens += gates(len(tokens[0]), lr=0.2)
    _, linear = ops.surprise_linear(*tokens)
    _, deep = ops.surprise_mlp(start, *tokens, activation=jax.nn.silu, chunk_size=4)
    first, second = deep.memory
    said = {"a matrix": key @ linear.memory, "two layers": jax.nn.silu(key @ first) @ second}
    for name, answer in said.items():
        errors[name][pairs] = float(((answer - value) ** 2).sum(1).mean())
figure, axis = plt.subplots(figsize=(7, 3))
for name, found in errors.items():
    axis.plot(list(found), list(found.values()), "o-", label=name)
axis.axvline(SIZE, color="black", linewidth=0.7)
axis.set(xlabel="pairs, with keys of 16 numbers", ylabel="squared error", title="What a matrix and a deep memory hold")
axis.set_xscale("log", base=2)
axis.set_xticks(list(found), list(found))
axis.legend()
figure.tight_layout()
print(f"64 pairs: a matrix {errors['a matrix'][64]:.2f}, two layers {errors['two layers'][64]:.2g}")
