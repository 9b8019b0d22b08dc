"""Embeddings that the history sampler has learned, for the memory that is trained after it."""

import jax
import optax

from memjax.training.phase import Phase
from memjax.typing import Params


def with_learned_embeddings(phase: Phase) -> Phase:
    """A phase that begins with the sampler's embeddings of items and of questions, and goes on to train them.

    The sampler, which sees every segment, soon learns what a question has to do with an item; a memory guesses until
    its slots keep what its reader looks for, and neither has a gradient before the other works. Items keep the size
    that the memory's own have at the start, since `item_scale` is made for it.

    Args:
        phase: of a memory, after that of the sampler.
    """

    def begin(own: Params, learned: Params | None) -> Params:
        if learned is None:
            return own
        items, size = learned["params"]["embed"], optax.global_norm(own["params"]["embed"])
        scale = size / optax.global_norm(items)
        found = {"embed": jax.tree.map(lambda table: table * scale, items)}
        found |= {name: learned["params"][name] for name in ("query",) if name in learned["params"]}
        return {"params": {**own["params"], **found}}

    return phase._replace(begin=begin)
