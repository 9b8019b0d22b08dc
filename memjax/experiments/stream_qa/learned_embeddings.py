"""Embeddings that the history sampler has learned, for the memory that is trained after it."""

import jax
import optax

from memjax.training.phase import Phase
from memjax.typing import Params


def with_learned_embeddings(phase: Phase, shared: bool) -> Phase:
    """A phase that begins with the sampler's embeddings of items and of questions, and goes on to train them.

    The sampler, which sees every segment, soon learns what a question has to do with an item. A memory guesses until
    its slots keep what its reader looks for, and the gradient of each says little before the other works.

    Args:
        phase: of a memory, after that of the sampler.
        shared: whether items and questions have one embedding, which stays as it is. Without, that of items keeps the
            size (the norm of all its parameters) that the memory's own has at the start: `item_scale` is made for it.
    """

    def begin(own: Params, learned: Params | None) -> Params:
        if learned is None:
            return own
        found = {name: learned["params"][name] for name in ("embed", "query") if name in learned["params"]}
        if not shared:
            scale = optax.global_norm(own["params"]["embed"]) / optax.global_norm(found["embed"])
            found["embed"] = jax.tree.map(lambda table: table * scale, found["embed"])
        return {"params": {**own["params"], **found}}

    return phase._replace(begin=begin)
