"""Small systems, and small batches for them, that several test files of models/ share."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from training.tiny import random_params

from memjax import memories
from memjax.models import DirectlyReason, HistorySampler, MemoryModel, MultiHopReason
from memjax.models.fragments import build_fragments
from memjax.tasks.stream_task import TaskShape

T, N, K, WIDTH, ITEMS, QUERIES, WORDS, CHOICES = 4, 3, 3, 8, 11, 9, 4, 5
ANSWERS = ("classes", "candidates", "click")
SYSTEMS = {"directly": DirectlyReason, "multi_hop": MultiHopReason, "sampler": HistorySampler}


def shape(answer="classes", text=False):
    classes = 2 if answer == "click" else CHOICES
    return TaskShape(ITEMS, T, N, QUERIES, WORDS if text else None, answer, classes)


def example(answer="classes", text=False, seed=0):
    """One example as arrays. Segment 1 is padding throughout, and the last one at its end."""
    rng = np.random.default_rng(seed)
    mask = np.ones((T, N), bool)
    mask[1], mask[-1, 1:] = False, False
    query = np.array([*rng.integers(1, QUERIES, WORDS - 1), 0]) if text else rng.integers(QUERIES)
    result = {"stream": np.where(mask, rng.integers(0, ITEMS, (T, N)), 0), "mask": mask, "query": query}
    result["label"] = rng.integers(2 if answer == "click" else CHOICES)
    if answer == "candidates":
        texts = rng.integers(1, QUERIES, (CHOICES, WORDS))
        texts[:, -1] = 0
        result["candidates"] = texts
    return {name: jnp.asarray(value) for name, value in result.items()}


def memory(name="rehearsal", **options):
    sizes = {"slots": K, "width": WIDTH, "segment": N, "layers": 1, "heads": 2}
    return memories.create(name, **{**sizes, **options})


@functools.cache
def system(name="memory", answer="classes", text=False, dtype=jnp.float32, norm_slots=False, **options):
    """`(system, params)`."""
    if name == "memory":
        made = MemoryModel(shape(answer, text), memory(dtype=dtype, **options), WIDTH, 2, 1, 1, 2, norm_slots, dtype)
    else:
        hops = (2,) if name == "multi_hop" else ()
        made = SYSTEMS[name](shape(answer, text), WIDTH, 1, dtype, *hops)
    return made, random_params(made, example(answer, text))


@functools.cache
def method(name, which="memory", *args, **options):
    """A jitted method of a system, `(params, *arguments)`."""
    made, _ = system(which, *args, **options)
    return jax.jit(functools.partial(made.apply, method=name))


def fragments(one, ratio=0.5, drawn=(True, True, False)):
    """Three fragments of an example's stream, with replacements from another one."""
    other = example(seed=1)
    chosen = jnp.array([0, 3, 2])
    arguments = (one["stream"], one["mask"], other["stream"], other["mask"], chosen, jnp.array(drawn))
    traced = isinstance(one["stream"], jax.core.Tracer)  # there a jit of its own may have no options
    plain = functools.partial(build_fragments, mask_ratio=ratio)
    return (plain if traced else _build(ratio))(jax.random.key(2), *arguments)


@functools.cache
def _build(ratio):
    return jax.jit(functools.partial(build_fragments, mask_ratio=ratio))
