"""A language model around sequence layers: tokens in, logits out, an explicit state of fixed size between calls."""

from collections.abc import Callable
from functools import partial

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from memjax.checks import at_least, check_shares
from memjax.errors import require, require_count
from memjax.layers.stream_state import check_documents
from memjax.models.memory_network_language import MemN2NLanguage
from memjax.models.tokens import check_tokens
from memjax.ops.checked import is_key
from memjax.typing import Any, Array, Bool, Float, Int, Key, Params, State

BLOCK = 512  # tokens of a long sequence that are read at once: their logits are in memory together


class LanguageModel(nn.Module):
    """Blocks of a sequence layer and a gated perceptron, each `x + f(rmsnorm(x))`; then logits by the embeddings.

    One example, of any length in any number of calls; the state's size does not depend on it.

    Args:
        vocabulary: token ids are below it.
        width: of the embeddings and of every layer.
        depth: how many blocks.
        hidden: units of the perceptron (SwiGLU, Shazeer 2020), 0 for none.
        make_layer: makes the layer of one block: `LMM`, `MAC`, `MAG`, `MAL`, `WindowAttention`, or anything with their
            signature: `(x [L, width], state or None) -> (x, state)`, and `initial_state`; `reset=` where it is used. A
            tuple has one of these for each block.
        dropout: the share of the embeddings and of every f that training zeroes.
        dtype: of the products.

    >>> import jax, jax.numpy as jnp
    >>> from functools import partial
    >>> from memjax.models import LMM, LanguageModel
    >>> model = LanguageModel(vocabulary=10, width=8, depth=2, hidden=16, make_layer=partial(LMM, width=8, heads=2))
    >>> tokens = jnp.arange(6)
    >>> params = model.init(jax.random.key(0), tokens)
    >>> logits, state = model.apply(params, tokens[:4])
    >>> more, state = model.apply(params, tokens[4:], state)
    >>> more.shape
    (2, 10)
    """

    vocabulary: int
    width: int
    depth: int
    hidden: int
    make_layer: Callable[[], nn.Module] | tuple[Callable[[], nn.Module], ...]
    dropout: float = 0.0
    dtype: Any = jnp.float32

    def setup(self):
        at_least(self, 1, "vocabulary", "width", "depth")
        at_least(self, 0, "hidden")
        check_shares(self, "dropout")
        self.embed = nn.Embed(
            self.vocabulary, self.width, embedding_init=nn.initializers.normal(self.width**-0.5), dtype=self.dtype
        )
        makers = self.make_layer if isinstance(self.make_layer, tuple) else (self.make_layer,) * self.depth
        makes = all(callable(make) and not isinstance(make, nn.Module) for make in makers)
        require(makes, "make_layer must make a layer, or be a tuple of what makes one: partial(LMM, width=8, heads=2)")
        require(len(makers) == self.depth, f"make_layer has {len(makers)} makers, depth is {self.depth}")
        self.layers = [make() for make in makers]
        dense = partial(nn.Dense, use_bias=False, dtype=self.dtype)
        perceptrons = self.depth if self.hidden else 0
        self.opened = [dense(2 * self.hidden) for _ in range(perceptrons)]
        self.closed = [dense(self.width) for _ in range(perceptrons)]
        self.norms = [nn.RMSNorm(dtype=self.dtype) for _ in range(self.depth + perceptrons + 1)]
        self.drop = nn.Dropout(self.dropout)

    def initial_state(self) -> State:
        return tuple(layer.initial_state() for layer in self.layers)

    def __call__(
        self,
        tokens: Int[Array, "L"],
        state: State | None = None,
        *,
        at: Int[Array, "A"] | None = None,
        reset: Bool[Array, "L"] | None = None,
        train: bool = False,
    ) -> tuple[Float[Array, "A V"], State]:
        """Logits of the token after each, and the state.

        Args:
            tokens: of one sequence.
            state: to go on from.
            at: the places whose logits are wanted, if not those of all, which cost most with a large vocabulary.
            reset: the first tokens of documents, if a row has several: each is read as in a row of its own.
            train: whether there is dropout, which needs the rng "dropout".
        """
        check_tokens(tokens, self.vocabulary)
        layers = isinstance(state, tuple) and len(state) == self.depth
        require(state is None or layers, f"a state of this model is a tuple of {self.depth}, one for each layer")
        state, after = (None,) * self.depth if state is None else state, []
        integers = jnp.issubdtype(getattr(at, "dtype", bool), jnp.integer)
        require(at is None or integers, f"at must be an array of places, [A] of integers, not {at!r:.80}")
        if at is not None and at.size and not isinstance(at, jax.core.Tracer):
            low, high, length = int(at.min()), int(at.max()), len(tokens)
            there = low >= -length and high < length
            require(there, f"at must be places of {length} tokens, not from {low} to {high}")
        check_documents(reset, len(tokens))
        documents = {} if reset is None else {"reset": reset}
        norms, drop = iter(self.norms), partial(self.drop, deterministic=not train)
        # Of unit size, though the logits want the table to be small.
        x = drop(self.embed(tokens) * jnp.asarray(self.width**0.5, self.dtype))
        for i, layer in enumerate(self.layers):
            mixed, now = layer(next(norms)(x), state[i], **documents)
            after.append(now)
            x = x + drop(mixed)
            if self.hidden:
                a, b = jnp.split(self.opened[i](next(norms)(x)), 2, axis=-1)
                x = x + drop(self.closed[i](nn.silu(a) * b))
        x = next(norms)(x if at is None else x.at[at].get(mode="fill", fill_value=jnp.nan))
        return self.embed.attend(x).astype(jnp.float32), tuple(after)


SequenceModel = LanguageModel | MemN2NLanguage


def generate(
    model: SequenceModel,
    params: Params,
    prompt: Int[Array, "L"],
    count: int,
    *,
    state: State | None = None,
    key: Key | None = None,
    temperature: float | int | np.number = 1.0,
) -> tuple[Int[Array, "count"], State]:
    """Reads the prompt, then makes tokens one by one; compiled once for each model, length of prompt and count.

    To go on as one call would have: `generate(model, params, tokens[-1:], n, state=state)`. A token of -1: the logits
    were not finite.

    Args:
        model: of a sequence.
        params: its parameters.
        prompt: at least one token.
        count: how many are made.
        state: to go on from.
        key: to draw tokens; without one, the likeliest is taken.
        temperature: of what is drawn from.

    Returns:
        The tokens; and the state, which has read all but the last of them.

    >>> import jax, jax.numpy as jnp
    >>> from functools import partial
    >>> from memjax.models import LMM, LanguageModel
    >>> model = LanguageModel(vocabulary=10, width=8, depth=1, hidden=0, make_layer=partial(LMM, width=8, heads=2))
    >>> params = model.init(jax.random.key(0), jnp.arange(3))
    >>> generate(model, params, jnp.arange(3), 5)[0].shape
    (5,)
    """
    require(hasattr(prompt, "ndim"), f"a prompt is an array [L] of token ids, not {prompt!r:.40}")
    require(prompt.ndim == 1 and prompt.size > 0, f"a prompt is [L], of at least one token, not {list(prompt.shape)}")
    check_tokens(prompt, model.vocabulary)
    require_count("count", count)
    warm = isinstance(temperature, int | float | np.number) and temperature > 0
    require(warm, f"temperature must be a number above 0, not {temperature!r:.40}")
    require(key is None or is_key(key), f"key must be a key, as jax.random.key makes one, not {key!r:.40}")
    return _generate(model, count, BLOCK, params, jnp.asarray(prompt), state, key, float(temperature))


@partial(jax.jit, static_argnums=(0, 1, 2))
def _generate(
    model: SequenceModel,
    count: int,
    block: int,
    params: Params,
    prompt: Array,
    state: State | None,
    key: Key | None,
    temperature: Float[Array, ""],
) -> tuple[Array, State]:
    def draw(logits: Array, key: Key | None) -> Array:
        token = logits.argmax(-1) if key is None else jax.random.categorical(key, (logits - logits.max()) / temperature)
        return jnp.where(jnp.isfinite(logits).all(), token, -1)

    def step(carry: tuple[Array, State], key: Key | None) -> tuple[tuple[Array, State], Array]:
        token, state = carry
        logits, state = model.apply(params, token[None], state)
        token = draw(logits[-1], key).astype(token.dtype)
        return (token, state), token

    keys = None if key is None else jax.random.split(key, count)
    logits, state = _prefill(model, block, params, prompt, state)
    first = draw(logits[-1], None if keys is None else keys[0]).astype(prompt.dtype)
    rest = None if keys is None else keys[1:]
    (_, state), tokens = jax.lax.scan(step, (first, state), rest, length=count - 1)
    return jnp.concatenate([first[None], tokens]), state


def _prefill(
    model: SequenceModel, block: int, params: Params, prompt: Array, state: State | None
) -> tuple[Array, State]:
    """The logits after a prompt of any length, and the state."""
    whole = (prompt.size - 1) // block  # blocks before the last one
    if whole:
        state = model.apply(params, method="initial_state") if state is None else state

        def step(state: State, tokens: Array) -> tuple[State, None]:
            return model.apply(params, tokens, state)[1], None

        state, _ = jax.lax.scan(step, state, prompt[: whole * block].reshape(whole, block))
    logits, state = model.apply(params, prompt[whole * block :], state)
    return logits[-1:], state
