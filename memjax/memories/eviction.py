"""One step of a full buffer: something arrives, a policy says which entry is evicted for it (LEMN, 3.1)."""

from collections.abc import Callable
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp

from memjax import ops
from memjax.typing import Any, Array, Bool, Float, Int, Key

NEVER = -1e30  # the log-probability of what cannot be: no softmax sees it, and unlike -inf it is never NaN


class Candidates(NamedTuple):
    """What may be evicted: the entries in the order of arrival, and behind them what has arrived, or a cell for "keep
    all".

    Attributes:
        encodings: as the base network has them.
        mask: which of them there are.
        used: when a question last attended to each, or else when it came.
        input: what has just arrived.
        logits: the base network's attention between the input, as a question, and each of them; for a policy that
            looks at it.
    """

    encodings: Float[Array, "M d"]
    mask: Bool[Array, "M"]
    used: Int[Array, "M"] | Float[Array, "M"]
    input: Float[Array, "d"]
    logits: Float[Array, "M"] | None


class BaseView(NamedTuple):
    """What the network around a policy tells it at one step, each thing only if the policy asks.

    Attributes:
        input: what has just arrived, as a question.
        mask: which candidates there are: the entries, and the last one.
        nop: whether the new entry itself may be evicted, so that the buffer stays as it is.
        nothing: what the policy keeps with a cell of its own for "keep all".
        own_cell: gives that cell as an entry.
        candidates: given the entry that stands behind those of the buffer, the encodings of all of them, and the logits
            of the input's attention to them: those only through a function that is given too, which may not want them.
        attended: which entries of the buffer the input attends to most.
    """

    input: Float[Array, "d"]
    mask: Bool[Array, "M"]
    nop: bool
    nothing: Float[Array, "k"]
    own_cell: Callable[[], Any]
    candidates: Callable[[Any, Callable[[Callable[[], Array]], Array | None]], tuple[Array, Array | None]]
    attended: Callable[[], Array]


class Choice(NamedTuple):
    """Which candidate is evicted.

    Attributes:
        evicted: its number.
        log_prob: of it.
        entropy: of the choice.
        probabilities: of each candidate to be evicted.
    """

    evicted: Int[Array, ""]
    log_prob: Float[Array, ""]
    entropy: Float[Array, ""]
    probabilities: Float[Array, "M"]


def choice_of(evicted: Int[Array, ""], log_probs: Float[Array, "M"], mask: Bool[Array, "M"]) -> Choice:
    """The choice of a candidate.

    Args:
        evicted: its number.
        log_probs: of all candidates to be evicted.
        mask: which of them there are.
    """
    chosen = jnp.arange(log_probs.shape[0]) == evicted  # no gather: on an Explicit mesh it has no gradient
    probs = jnp.exp(log_probs)
    entropy = -(probs * jnp.where(mask, log_probs, 0)).sum()
    return Choice(evicted, jnp.where(chosen, log_probs, 0).sum(), entropy, probs)


class Eviction(NamedTuple):
    """A step before it is written.

    Attributes:
        choice: of the candidate that is evicted, if the buffer is full.
        candidates: among which.
        write: gives the buffer after it, and what the policy now keeps with a cell of its own; by `ops.buffer_evict`,
            or by what it is given in its place.
    """

    choice: Choice
    candidates: Candidates
    write: Callable[..., tuple[ops.Buffer, Array]]


class Policy(nn.Module):
    """Scores of the candidates, the highest most likely to be evicted; and what is kept with each, moving with it.

    A subclass overrides `__call__`, and whatever it does otherwise than as written here: an entry is known by its
    encoding, the last candidate is what has arrived, nothing is learned, and with a key all is drawn. What of a step
    needs nothing that is kept is in `features`: of steps that are over they are computed side by side.

    Args:
        width: of an encoding.
    """

    width: int

    def kept(self) -> Float[Array, "k"]:
        """What is kept for an entry that is new."""
        return jnp.zeros(1)

    def features(self, candidates: Candidates, key: Key | None) -> tuple[Any, Key | None]:
        """What `__call__` scores, and the key that is left to draw with.

        Args:
            candidates: what is scored.
            key: to draw with, if there is one.
        """
        return candidates, key

    def __call__(self, features: Any, kept: Float[Array, "M k"]) -> tuple[Float[Array, "M"], Any]:
        """Scores of the candidates, and what is kept with each afterwards.

        Args:
            features: of them.
            kept: with each, before.
        """
        raise NotImplementedError(f"{type(self).__name__} has no __call__")

    def evict(self, buffer: ops.Buffer, new: Any, key: Key | None, view: BaseView) -> Eviction:
        """What is evicted for an entry that has arrived, ready to be written.

        Args:
            buffer: its entries a NamedTuple with `kept` and `used` among its fields.
            new: the entry that has arrived, with what is kept for a new one, and the time as `used`.
            key: to draw with; without one the likeliest is evicted.
            view: what the base network tells the policy.
        """
        size = buffer.entries.kept.shape[0]
        used, last = self.used(buffer.entries.used, new.used, view), self.last(new, view)
        candidates = self.candidates(used, last, new, view)
        choice, kept = self.choose(candidates, jnp.append(buffer.entries.kept, last.kept[None], axis=0), key)

        def write(put: Callable[..., ops.Buffer] = ops.buffer_evict) -> tuple[ops.Buffer, Array]:
            before = ops.Buffer(buffer.entries._replace(kept=kept[:size], used=used), buffer.filled)
            written, nothing = self.written(new, kept[size], view)
            return put(before, choice.evicted, written), nothing

        return Eviction(choice, candidates, write)

    def repeat(
        self, buffer: ops.Buffer, new: Any, features: Any, evicted: Int[Array, ""], view: BaseView
    ) -> tuple[Choice, ops.Buffer, Array]:
        """A step that is over, once more, from its features: for a gradient through what is kept.

        Args:
            buffer: as of `evict`; its entries need no more than `kept` and `used`.
            new: as of `evict`.
            features: of the step's candidates.
            evicted: the candidate that went, or would have gone from a full buffer.
            view: as of `evict`; its candidates are not asked for.

        Returns:
            The choice of that candidate, the buffer after it, and what the policy now keeps with a cell of its own.
        """
        size = buffer.entries.kept.shape[0]
        scores, kept = self(features, jnp.append(buffer.entries.kept, self.last(new, view).kept[None], axis=0))
        choice = choice_of(evicted, jax.nn.log_softmax(jnp.where(view.mask, scores, NEVER)), view.mask)
        written, nothing = self.written(new, kept[size], view)
        before = ops.Buffer(buffer.entries._replace(kept=kept[:size]), buffer.filled)
        return choice, ops.buffer_evict(before, evicted, written), nothing

    def candidates(self, used: Array, last: Any, new: Any, view: BaseView) -> Candidates:
        """What may be evicted at a step.

        Args:
            used: when the entries of the buffer were last used.
            last: the entry that is the last candidate.
            new: the entry that has arrived.
            view: what the base network tells the policy.
        """
        encodings, logits = view.candidates(last, self.logits)
        return Candidates(encodings, view.mask, jnp.append(used, new.used), view.input, logits)

    def choose(
        self, candidates: Candidates, kept: Float[Array, "M k"], key: Key | None
    ) -> tuple[Choice, Float[Array, "M k"]]:
        """Which candidate is evicted, and what is kept with each afterwards.

        Args:
            candidates: among which.
            kept: with each of them, before.
            key: to draw with; without one the likeliest is evicted.
        """
        features, key = self.features(candidates, key)
        scores, kept = self(features, kept)
        evicted, log_probs = self.decide(jax.nn.log_softmax(jnp.where(candidates.mask, scores, NEVER)), key)
        return choice_of(evicted, log_probs, candidates.mask), kept

    def decide(self, log_probs: Float[Array, "M"], key: Key | None) -> tuple[Int[Array, ""], Float[Array, "M"]]:
        """The candidate that is evicted, and the log-probabilities that it was evicted with."""
        return log_probs.argmax() if key is None else jax.random.categorical(key, log_probs), log_probs

    def acts(self, full: Bool[Array, ""]) -> Bool[Array, ""]:
        """Whether what was done at a step teaches it; full: whether something had to be evicted."""
        return full & False

    @staticmethod
    def test_key(key: Key) -> Key | None:
        """What a test draws with, given a key that is the same in every test."""
        return None

    def places(self, size: int) -> int:
        """Of how many places the encodings count, with a buffer of `size` entries: without the new one."""
        return size

    def seen(self, embeddings: Array, encodings: Array) -> Array:
        """What must be held of an entry: its encodings, or all its embeddings for a policy that wants attention."""
        return encodings

    def own(self, declare: Callable[[], Any]) -> Any:
        """The parameters that the network around it declares for a policy with a cell of its own; None for others."""
        return None

    def last(self, new: Any, view: BaseView) -> Any:
        """The entry that is the last candidate."""
        return new

    def used(self, used: Array, now: Array, view: BaseView) -> Array:
        """When the entries of the buffer were last used.

        Args:
            used: as it was.
            now: the time of what has arrived.
            view: what the base network tells the policy.
        """
        return used

    def logits(self, attention: Callable[[], Array]) -> Array | None:
        """The logits of the input's attention to the candidates."""
        return None

    def written(self, new: Any, kept: Array, view: BaseView) -> tuple[Any, Array]:
        """The new entry as it is written, and what is kept with a cell of its own.

        Args:
            new: the entry.
            kept: with the last candidate, afterwards.
            view: what the base network tells the policy.
        """
        # If it could be evicted, it was a candidate already.
        return new._replace(kept=kept) if view.nop else new, view.nothing
