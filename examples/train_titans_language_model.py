"""A language model of Titans' layers on characters, and text made by it, with an optax loop.

    python examples/train_titans_language_model.py

The text is the manual that comes with Python; replace `TEXT` by any string longer than `TEST`, and `PROMPT` by words of
its characters. The layer is LMM, surprise memory alone, with exact gradients at every token; MAC, MAG and MAL take its
place with a `window`, and so does WindowAttention, which has no `chunk`. Trained on pieces of 128 characters, it reads
a text of any length: the state that goes from call to call never grows.
"""

from functools import partial
from pydoc_data.topics import topics

import jax
import jax.numpy as jnp
import numpy as np
import optax

from memjax.layers import LMM
from memjax.models import LanguageModel, generate

TEXT = "".join(topics[name] for name in sorted(topics))
PROMPT = "The statement "
LENGTH, BATCH, STEPS, TEST = 128, 8, 100, 2048

characters = sorted(set(TEXT))
ids = np.array([characters.index(character) for character in TEXT[:300_000]])
train, test = ids[:-TEST], ids[-TEST:]
random = np.random.default_rng(0)

model = LanguageModel(
    vocabulary=len(characters),
    width=64,
    depth=2,
    hidden=128,
    make_layer=partial(LMM, width=64, heads=2, chunk=32),
)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-3))


def cross_entropy(params, tokens, state=None):
    """Nats a character of one piece [L + 1], and the state when it was read."""
    logits, state = model.apply(params, tokens[:-1], state)
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[1:]).mean(), state


@jax.jit
def step(params, opt_state, tokens):
    def loss(params):
        return jax.vmap(lambda piece: cross_entropy(params, piece)[0])(tokens).mean()

    value, gradients = jax.value_and_grad(loss)(params)
    updates, opt_state = optimizer.update(gradients, opt_state)
    return optax.apply_updates(params, updates), opt_state, value


def read_on(params, text):
    """Perplexity of one long text, read piece by piece; each piece goes on from the state of the one before."""
    read, losses = jax.jit(cross_entropy), []
    state = model.apply(params, method="initial_state")
    for start in range(0, len(text) - LENGTH, LENGTH):
        loss, state = read(params, jnp.asarray(text[start : start + LENGTH + 1]), state)
        losses.append(float(loss))
    return np.exp(np.mean(losses)), state


def main():
    params = model.init(jax.random.key(0), jnp.zeros(LENGTH, int))
    opt_state = optimizer.init(params)
    for number in range(STEPS):
        starts = random.integers(len(train) - LENGTH, size=BATCH)
        batch = np.stack([train[start : start + LENGTH + 1] for start in starts])
        params, opt_state, loss = step(params, opt_state, batch)
        if number % 20 == 19:
            print(f"step {number + 1:4}  nats a character {loss:.3f}", flush=True)

    perplexity, state = read_on(params, test)
    size = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    print(
        f"perplexity of {len(test):,} characters: {perplexity:.1f}, by chance {len(characters)}; state {size:,} bytes"
    )
    prompt = jnp.array([characters.index(character) for character in PROMPT])
    tokens, _ = jax.jit(partial(generate, model, count=80))(params, prompt=prompt, key=jax.random.key(1))
    print(PROMPT + "".join(characters[token] for token in tokens))
    return float(perplexity)


if __name__ == "__main__":
    main()
