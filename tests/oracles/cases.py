"""For each public op: its oracle, and random float64 arguments for both. test_every_op.py runs over them."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from memjax import ops
from oracles import attention, gru, losses, recurrence, slots

A, K, N, T, D, V, F = 3, 3, 4, 3, 4, 5, 4


class Case(NamedTuple):
    """`op(params, *data, **aux)`; every example has data and aux of its own, params are shared.

    state: the data that stays float32 where the rest is bfloat16. padding(aux): for each data argument that can be
    padded, by position, which of its leading entries are padding.
    """

    op: Callable
    oracle: Callable
    params: Callable[[np.random.Generator], Any]
    data: dict[str, tuple[int, ...]]
    aux: Callable[[np.random.Generator], dict[str, np.ndarray]] = lambda rng: {}
    state: tuple[str, ...] = ()
    padding: Callable[[dict], dict[str, np.ndarray]] = lambda aux: {}

    def example(self, rng):
        return {name: rng.normal(size=shape) for name, shape in self.data.items()}, self.aux(rng)


def without_params(function):
    return lambda params, **arguments: function(**arguments)


def nothing(rng):
    return ()


def additive(rng, left=D, right=D, hidden=5):
    sizes = ((left, hidden), (right, hidden), (hidden,), (hidden,))
    return ops.AdditiveParams(*(rng.normal(size=size) for size in sizes))


def single(rng, inputs=D, hidden=D):
    sizes = ((inputs, 3 * hidden), (hidden, 3 * hidden), (3 * hidden,), (3 * hidden,))
    return ops.GRUParams(*(rng.normal(size=size) for size in sizes))


def multi(rng, heads=2, inputs=D, width=D, hidden=3):
    grus = [single(rng, hidden, hidden) for _ in range(heads)]
    return ops.MultiHeadGRUParams(
        w_slot=rng.normal(size=(heads, width, hidden)),
        w_item=rng.normal(size=(heads, inputs, hidden)),
        gru=ops.GRUParams(*(np.stack(leaves) for leaves in zip(*grus, strict=True))),
        w_out=rng.normal(size=(heads * hidden, width)),
    )


def hops(rng, width=3, query=D):
    two = tuple(ops.HopParams(additive(rng, query, width)) for _ in range(2))
    return ops.ReadParams(two, rng.normal(size=(width + query, query)))


def mask_of(*shape, name="mask"):
    """Never all padding, so that no example is trivial; `test_every_op` sets all of it to padding where it wants to."""

    def draw(rng):
        mask = rng.random(shape) < 0.6
        mask[..., 0] = True
        return {name: mask}

    return draw


def padded(argument, mask="mask"):
    return lambda aux: {argument: ~aux[mask]}


def recollection_aux(rng):
    masked = mask_of(N, name="masked")(rng)
    return {**masked, "target": rng.integers(0, V, N).astype(np.int32), "valid": rng.random((N, V)) < 0.5}


def write_params(update):
    return lambda rng: ops.SlotWriteParams(additive(rng), update(rng))


def write_stream(update, **options):
    return Case(
        partial(ops.write_stream, **options),
        slots.write_stream,
        write_params(update),
        {"slots": (K, D), "segments": (T, N, D)},
        mask_of(T, N),
        ("slots",),
        padded("segments"),
    )


def slot_attention(normalize):
    return Case(
        partial(ops.slot_attention, normalize=normalize),
        partial(attention.slot_attention, normalize=normalize),
        partial(additive, left=3),
        {"slots": (K, 3), "items": (N, D)},
        mask_of(N),
        ("slots",),
        padded("items"),
    )


def gru_scan(reverse):
    return Case(
        partial(ops.gru_scan, reverse=reverse),
        partial(gru.gru_scan, reverse=reverse),
        partial(single, inputs=3),
        {"hidden": (D,), "xs": (N, 3)},
        mask_of(N),
        ("hidden",),
        padded("xs"),
    )


def recurrence_case(impl):
    return Case(
        without_params(partial(ops.linear_recurrence, impl=impl)),
        without_params(recurrence.linear_recurrence),
        nothing,
        {"decay": (5, 2, 3), "x": (5, 2, 3), "initial": (2, 3)},
        state=("initial",),
    )


CASES: dict[str, Case] = {
    "additive_scores": Case(
        ops.additive_scores,
        attention.additive_scores,
        partial(additive, left=3),
        {"left": (A, 3), "right": (N, D)},
        state=("left",),
    ),
    "project_items": Case(ops.project_items, attention.project_items, additive, {"items": (N, D)}),
    "slot_attention over slots": slot_attention("slots"),
    "slot_attention over items": slot_attention("items"),
    "multi_hop_read": Case(
        ops.multi_hop_read,
        attention.multi_hop_read,
        hops,
        {"slots": (K, 3), "query": (D,)},
        mask_of(K, name="slot_mask"),
        padding=padded("slots", "slot_mask"),
    ),
    "gru_step": Case(
        ops.gru_step, gru.gru_step, partial(single, inputs=3), {"hidden": (D,), "x": (3,)}, state=("hidden",)
    ),
    "gru_scan": gru_scan(reverse=False),
    "gru_scan reversed": gru_scan(reverse=True),
    "update_slots single": Case(
        ops.update_slots, gru.update_slots, single, {"slots": (K, D), "aligned": (K, D)}, state=("slots",)
    ),
    "update_slots multi-head": Case(
        ops.update_slots,
        gru.update_slots,
        partial(multi, inputs=3),
        {"slots": (K, D), "aligned": (K, 3)},
        state=("slots",),
    ),
    "project_aligned single": Case(ops.project_aligned, gru.project_aligned, single, {"items": (N, D)}),
    "project_aligned multi-head": Case(
        ops.project_aligned, gru.project_aligned, partial(multi, inputs=3), {"items": (N, 3)}
    ),
    "segment_features": Case(
        lambda params, items: tuple(ops.segment_features(params, items)),
        slots.segment_features,
        write_params(single),
        {"items": (N, D)},
    ),
    "write_segment": Case(
        ops.write_segment,
        slots.write_segment,
        write_params(single),
        {"slots": (K, D), "items": (N, D)},
        mask_of(N),
        ("slots",),
        padded("items"),
    ),
    "write_stream single": write_stream(single),
    "write_stream multi-head, remat": write_stream(multi, remat=True),
    "recollection_loss": Case(
        without_params(ops.recollection_loss),
        without_params(losses.recollection_loss),
        nothing,
        {"predicted": (N, D), "candidates": (V, D)},
        recollection_aux,
        padding=padded("predicted", "masked"),
    ),
    "familiarity_loss": Case(
        without_params(ops.familiarity_loss),
        without_params(losses.familiarity_loss),
        nothing,
        {"positive_logit": (F,), "negative_logit": (F,)},
        mask_of(F),
        padding=lambda aux: {"positive_logit": ~aux["mask"], "negative_logit": ~aux["mask"]},
    ),
    "linear_recurrence sequential": recurrence_case("sequential"),
    "linear_recurrence associative": recurrence_case("associative"),
}
