"""For each public op: its oracle, and random float64 arguments for both. test_every_op.py runs over them."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from memjax import ops
from oracles import (
    attention,
    compressive,
    gru,
    losses,
    memory_network,
    periodic,
    recurrence,
    rows,
    slots,
    stm,
    surprise,
)
from oracles.case import Case, mask_of, nothing, padded, without_params
from oracles.case import gru as gru_weights
from oracles.external_cases import EXTERNAL
from oracles.retention_cases import RETENTION

A, K, N, T, D, V, F = 3, 3, 4, 3, 4, 5, 4


def additive(rng, left=D, right=D, hidden=5):
    sizes = ((left, hidden), (right, hidden), (hidden,), (hidden,))
    return ops.AdditiveParams(*(rng.normal(size=size) for size in sizes))


def dot(rng, left=D, right=D, hidden=5):
    sizes = ((left, hidden), (right, hidden), (hidden,))
    return ops.DotParams(*(rng.normal(size=size) for size in sizes))


def several(kind):
    """Two heads of one kind of scores."""

    def stacked(rng):
        heads = [kind(rng) for _ in range(2)]
        return ops.MultiHeadScoreParams(type(heads[0])(*(np.stack(leaves) for leaves in zip(*heads, strict=True))))

    return stacked


def single(rng, inputs=D, hidden=D):
    return gru_weights(rng, inputs, hidden)


def multi(rng, heads=2, inputs=D, width=D, hidden=3):
    grus = [single(rng, hidden, hidden) for _ in range(heads)]
    return ops.MultiHeadGRUParams(
        w_slot=rng.normal(size=(heads, width, hidden)),
        w_item=rng.normal(size=(heads, inputs, hidden)),
        gru=ops.GRUParams(*(np.stack(leaves) for leaves in zip(*grus, strict=True))),
        w_out=rng.normal(size=(heads * hidden, width)),
    )


def hops(rng, width=3, query=D, scores=additive):
    two = tuple(ops.HopParams(scores(rng, query, width)) for _ in range(2))
    return ops.ReadParams(two, rng.normal(size=(width + query, query)))


def recollection_aux(rng):
    masked = mask_of(N, name="masked")(rng)
    return {**masked, "target": rng.integers(0, V, N).astype(np.int32), "valid": rng.random((N, V)) < 0.5}


def write_params(update, attention=additive):
    return lambda rng: ops.SlotWriteParams(attention(rng), update(rng))


def write_stream(update, attention=additive, **options):
    return Case(
        partial(ops.write_stream, **options),
        slots.write_stream,
        write_params(update, attention),
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


def multi_hop_read(scores):
    return Case(
        ops.multi_hop_read,
        attention.multi_hop_read,
        partial(hops, scores=scores),
        {"slots": (K, 3), "query": (D,)},
        mask_of(K, name="slot_mask"),
        padding=padded("slots", "slot_mask"),
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


def log_gate(raw, where=np.where):
    """Any number as a number below zero, by a choice: 0 * NaN would hide what an op does with NaN in padding."""
    return where(raw > 0, -raw, raw)


def surprise_case(op, widths, single=False, length=5, by_channel=False, **options):
    """A surprise memory with matrices of these widths: `op(weights, *tokens, state, mask=)`. Gates from any number."""
    shapes = list(itertools.pairwise(widths))
    names = [f"{name}{i}" for name in ("memory", "momentum") for i in range(len(shapes))]
    gate = widths[:1] if by_channel else ()
    ends = {"q": widths[:1], "k": widths[:1], "v": widths[-1:], "keep": gate, "past": (), "lr": ()}
    tokens = {name: (length, *end) for name, end in ends.items()}

    def arguments(q, k, v, keep, past, lr, mask, where=np.where, **matrices):
        state = tuple(tuple(matrices[name] for name in names[i : i + len(shapes)]) for i in (0, len(shapes)))
        return (q, k, v, log_gate(keep, where), log_gate(past, where), -log_gate(lr, where) / 4), mask, state

    def run(**data):
        tokens, mask, (memory, momentum) = arguments(**data, where=jnp.where)
        if single:
            out, state = op(*tokens, ops.SurpriseState(memory[0], momentum[0]), mask=mask)
            return out, (state.memory,), (state.momentum,)
        out, state = op(memory, *tokens, ops.SurpriseState(memory, momentum), mask=mask)
        return out, state.memory, state.momentum

    def oracle(**data):
        tokens, mask, (memory, momentum) = arguments(**data)
        out, memory, momentum = surprise.surprise(memory, momentum, *tokens, mask=mask, **options)
        return out, tuple(memory), tuple(momentum)

    return Case(
        without_params(run),
        without_params(oracle),
        nothing,
        tokens | dict(zip(names, 2 * shapes, strict=True)),
        mask_of(length),
        tuple(names),
        lambda aux: dict.fromkeys(tokens, ~aux["mask"]),
    )


def surprise_linear(gradient_at, impl, by_channel=False, **options):
    op = partial(ops.surprise_linear, gradient_at=gradient_at, impl=impl, chunk_size=3, **options)
    chunk = 3 if gradient_at == "chunk" else None
    return surprise_case(op, (3, 2), single=True, by_channel=by_channel, chunk=chunk, decay_first=bool(options))


def surprise_linear_sharded(gradient_at, by_channel=False, **options):
    """Two shards of three tokens, as an axis of `vmap`; on an axis of a mesh: test_surprise_shards.py."""
    sharded = partial(ops.surprise_linear_sharded, axis_name="shards", gradient_at=gradient_at, chunk_size=3, **options)

    def op(*arguments, mask):
        *tokens, state = arguments
        split = [x.reshape(2, 3, *x.shape[1:]) for x in (*tokens, mask)]
        run = jax.vmap(
            lambda *shard: sharded(*shard[:-1], state, mask=shard[-1]), axis_name="shards", out_axes=(0, None)
        )
        out, state = run(*split)
        return out.reshape(6, -1), state

    chunk = 3 if gradient_at == "chunk" else None
    kind = {"by_channel": by_channel, "chunk": chunk, "decay_first": bool(options)}
    return surprise_case(op, (3, 2), single=True, length=6, **kind)


def surprise_memory(read, impl):
    def op(weights, *arguments, **options):
        apply, loss = lambda w, x: jnp.tanh(x @ w[0]) @ w[1], lambda out, v: ((out - v) ** 2).sum() / 2
        return ops.surprise_memory(apply, loss, weights, *arguments, **options, read=read, impl=impl, chunk_size=3)

    return surprise_case(op, (3, 4, 2), chunk=3, activation="tanh", read=read)


def surprise_mlp(impl, **options):
    op = partial(ops.surprise_mlp, activation=jax.nn.silu, chunk_size=3, impl=impl, **options)
    return surprise_case(op, (3, 4, 2), chunk=3, activation="silu", **options)


def momentum_recurrence(impl, by_channel=False):
    def run(keep, past, surprise, memory, momentum, mask):
        state = (memory, momentum)
        gates = log_gate(keep, jnp.where), log_gate(past, jnp.where)
        return ops.momentum_recurrence(*gates, surprise, state, mask=mask, impl=impl)

    def oracle(keep, past, surprise, memory, momentum, mask):
        return recurrence.momentum_recurrence(log_gate(keep), log_gate(past), surprise, memory, momentum, mask)

    return Case(
        without_params(run),
        without_params(oracle),
        nothing,
        {
            "keep": (5, 2) if by_channel else (5,),
            "past": (5,),
            "surprise": (5, 2, 3),
            "memory": (2, 3),
            "momentum": (2, 3),
        },
        mask_of(5),
        ("memory", "momentum"),
        lambda aux: dict.fromkeys(("keep", "past", "surprise"), ~aux["mask"]),
    )


def sentence_aux(rng):
    return mask_of(N)(rng) | {"ids": rng.integers(0, V, N).astype(np.int32)}


def embed_sentence(encoding):
    return Case(
        without_params(partial(ops.embed_sentence, encoding=encoding)),
        without_params(partial(memory_network.embed_sentence, encoding=encoding)),
        nothing,
        {"words": (N, D)},
        mask_of(N),
        padding=padded("words"),
    )


def sentence_weights(encoding):
    return Case(
        without_params(partial(ops.sentence_weights, vocabulary=V, encoding=encoding)),
        without_params(partial(memory_network.sentence_weights, vocabulary=V, encoding=encoding)),
        nothing,
        {},
        sentence_aux,
    )


def memory_hop(linear=False, moved=False, empty=0):
    """moved: with a transition, as under layer-wise tying."""

    def with_params(function):
        return lambda params, **arguments: function(**arguments, linear=linear, empty=empty, **params)

    return Case(
        with_params(ops.memory_hop),
        with_params(memory_network.memory_hop),
        lambda rng: {"transition": rng.normal(size=(D, D))} if moved else {},
        {"query": (D,), "keys": (N, D), "values": (N, D)},
        mask_of(N),
        ("query",),
        lambda aux: {"keys": ~aux["mask"], "values": ~aux["mask"]},
    )


def sam(rng):
    return ops.SAMParams(*(rng.normal(size=size) for size in ((3, K, D), (3, D), (3, D))))


def two_memory_step():
    def params(rng):
        keep, blend = np.asarray(rng.normal()), np.asarray(rng.normal())
        return ops.TwoMemoryParams(sam(rng), rng.normal(size=(D, 2 * D)), keep, blend)

    def run(params, items, relations, **features):
        state = ops.TwoMemoryState(items, relations)
        return tuple(ops.two_memory_step(params, state, ops.TwoMemoryFeatures(**features)))

    shapes = {"items": (D, D), "relations": (K, D, D), "left": (D,), "right": (D,), "address": (K,), "gates": (2 * D,)}
    return Case(run, stm.two_memory_step, params, shapes, state=("items", "relations"))


def newest_rows(size):
    """Values alone; which of them are filled has no gradient: see test_rows.py."""
    return Case(
        lambda params, rows, mask: ops.newest_rows(rows, mask, size)[0],
        lambda params, **data: rows.newest_rows(**data, size=size)[0],
        nothing,
        {"rows": (5, D)},
        mask_of(5),
        padding=padded("rows"),
    )


def layers_waiting(period):
    """A mask, and layers in any state: of what came, a layer above the first has yet to take in less than a period."""

    def draw(rng):
        waiting = np.concatenate([[0.0], rng.integers(0, period, K - 1)])
        return mask_of(7)(rng) | {"waiting": waiting, "filled": rng.integers(0, 2, K).astype(float)}

    return draw


def periodic_write(period):
    """The layers alone; the rest of the state has no gradient: see tests/memories/test_hpmn.py."""

    def op(params, xs, mask, hidden, **rest):
        state = ops.PeriodicState(hidden, **rest)
        return ops.periodic_write(params, state, xs, mask, period=period).hidden

    def oracle(params, xs, mask, hidden, waiting, filled):
        return periodic.periodic_write(params, (hidden, waiting, filled), xs, mask, period)[0]

    return Case(
        op,
        oracle,
        lambda rng: ops.GRUParams(*(np.stack(leaves) for leaves in zip(*(single(rng) for _ in range(K)), strict=True))),
        {"xs": (7, D), "hidden": (K, D)},
        layers_waiting(period),
        state=("hidden",),
        padding=padded("xs"),
    )


def preceding_rows(size):
    """Values alone, as of `newest_rows`."""
    return Case(
        lambda params, **data: ops.preceding_rows(**data)[0],
        lambda params, **data: rows.preceding_rows(**data)[0],
        nothing,
        {"segments": (T, N, D), "before": (size, D)},
        lambda rng: mask_of(T, N)(rng) | mask_of(size, name="before_mask")(rng),
        state=("before",),
        padding=lambda aux: padded("segments")(aux) | padded("before", "before_mask")(aux),
    )


def compressor(rng):
    return ops.CompressorParams(rng.normal(size=(2, D, D)), rng.normal(size=D))


def memory_attention(rng):
    heads = (rng.normal(size=(D, 2, 3)) for _ in range(3))
    return ops.MemoryAttentionParams(rng.normal(size=D), rng.normal(size=D), *heads)


def reconstruction_loss():
    """Only the compressor has a gradient; all else is drawn for each example as what has none."""

    def separated(function):
        def call(params, x, mask, rows, row_mask, **attention):
            return function(ops.MemoryAttentionParams(**attention), params, x, mask, rows, row_mask)

        return call

    def draw(rng):
        arrays = {"x": rng.normal(size=(N, D)), "rows": rng.normal(size=(5, D)), **memory_attention(rng)._asdict()}
        return {**arrays, **mask_of(N)(rng), **mask_of(5, name="row_mask")(rng)}

    op, oracle = separated(ops.reconstruction_loss), separated(compressive.reconstruction_loss)
    return Case(op, oracle, compressor, {}, draw)


CASES = (
    {
        "additive_scores": Case(
            ops.additive_scores,
            attention.additive_scores,
            partial(additive, left=3),
            {"left": (A, 3), "right": (N, D)},
            state=("left",),
        ),
        "dot_scores": Case(
            ops.dot_scores,
            attention.dot_scores,
            partial(dot, left=3),
            {"left": (A, 3), "right": (N, D)},
            state=("left",),
        ),
        "project_items": Case(ops.project_items, attention.project_items, additive, {"items": (N, D)}),
        "slot_attention over slots": slot_attention("slots"),
        "slot_attention over items": slot_attention("items"),
        "multi_hop_read": multi_hop_read(additive),
        "multi_hop_read by dot products": multi_hop_read(dot),
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
        "segment_features of two heads": Case(
            lambda params, items: tuple(ops.segment_features(params, items)),
            slots.segment_features,
            write_params(single, several(additive)),
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
        "write_stream by dot products": write_stream(single, dot),
        "write_stream by two heads": write_stream(single, several(additive)),
        "write_stream multi-head, by two heads": write_stream(multi, several(dot)),
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
        "momentum_recurrence associative": momentum_recurrence("associative"),
        "momentum_recurrence sequential": momentum_recurrence("sequential"),
        "momentum_recurrence by channel": momentum_recurrence("associative", by_channel=True),
        "momentum_recurrence by channel, sequential": momentum_recurrence("sequential", by_channel=True),
        "surprise_linear": surprise_linear("token", "closed_form"),
        "surprise_linear auto": surprise_linear("token", "auto"),
        "surprise_linear associative": surprise_linear("token", "associative"),
        "surprise_linear sequential": surprise_linear("token", "sequential"),
        "surprise_linear decay first": surprise_linear("token", "closed_form", decay_before_gradient=True),
        "surprise_linear by chunk": surprise_linear("chunk", "closed_form"),
        "surprise_linear by channel": surprise_linear("token", "closed_form", by_channel=True),
        "surprise_linear by channel, decay first": surprise_linear(
            "token", "closed_form", by_channel=True, decay_before_gradient=True
        ),
        "surprise_linear by channel and chunk": surprise_linear(
            "chunk", "closed_form", by_channel=True, decay_before_gradient=True
        ),
        "surprise_linear by channel, associative": surprise_linear(
            "token", "associative", by_channel=True, decay_before_gradient=True
        ),
        "surprise_linear by channel, sequential": surprise_linear("token", "sequential", by_channel=True),
        "surprise_linear_sharded": surprise_linear_sharded("token"),
        "surprise_linear_sharded by chunk": surprise_linear_sharded("chunk", decay_before_gradient=True),
        "surprise_linear_sharded by channel": surprise_linear_sharded("token", by_channel=True),
        "surprise_mlp": surprise_mlp("closed_form"),
        "surprise_mlp associative": surprise_mlp("associative"),
        "surprise_mlp normalised": surprise_mlp("closed_form", normalize_lr=True),
        "surprise_memory": surprise_memory("chunk", "closed_form"),
        "surprise_memory sequential": surprise_memory("chunk", "sequential"),
        "surprise_memory by token": surprise_memory("token", "auto"),
        "position_weights": Case(
            without_params(partial(ops.position_weights, width=D)),
            without_params(partial(memory_network.position_weights, width=D)),
            nothing,
            {},
            mask_of(N),
        ),
        "embed_sentence by position": embed_sentence("position"),
        "embed_sentence as a bag": embed_sentence("bag"),
        "sentence_weights by position": sentence_weights("position"),
        "sentence_weights as a bag": sentence_weights("bag"),
        "centred_weights": Case(
            without_params(partial(ops.centred_weights, width=D, places=N + 3)),
            without_params(partial(memory_network.centred_weights, width=D, places=N + 3)),
            nothing,
            {},
            mask_of(N),
        ),
        "centred_sentence_weights": Case(
            without_params(partial(ops.centred_sentence_weights, vocabulary=V, width=D, places=N + 3)),
            without_params(partial(memory_network.centred_sentence_weights, vocabulary=V, width=D, places=N + 3)),
            nothing,
            {},
            sentence_aux,
        ),
        "embed_weights": Case(
            ops.embed_weights, memory_network.embed_weights, lambda rng: rng.normal(size=(V, D)), {"weights": (2, V)}
        ),
        "memory_hop": memory_hop(),
        "memory_hop beside empty rows": memory_hop(empty=3),
        "memory_hop linear": memory_hop(linear=True),
        "memory_hop with a transition": memory_hop(moved=True),
        "newest_rows all of them": newest_rows(7),
        "preceding_rows fewer than a segment": preceding_rows(2),
        "preceding_rows more than a segment": preceding_rows(N + 2),
        "newest_rows few of them": newest_rows(2),
        "periodic_write": periodic_write(2),
        "periodic_write every third": periodic_write(3),
        "periodic_write all of them": periodic_write(1),
        "covariance_norm": Case(
            without_params(ops.covariance_norm), without_params(periodic.covariance_norm), nothing, {"slots": (K, D)}
        ),
        "compress_rows": Case(
            lambda params, **data: ops.compress_rows(params, **data)[0],
            lambda params, **data: compressive.compress_rows(params, **data)[0],
            compressor,
            {"rows": (5, D)},
            mask_of(5),
            padding=padded("rows"),
        ),
        "memory_attention": Case(
            ops.memory_attention,
            compressive.memory_attention,
            memory_attention,
            {"x": (N, D), "context": (5, D), "ages": (5, D)},
            mask_of(5),
            padding=padded("context"),
        ),
        "reconstruction_loss": reconstruction_loss(),
        "self_attentive_memory": Case(
            ops.self_attentive_memory, stm.self_attentive_memory, sam, {"memory": (D, D)}, state=("memory",)
        ),
        "two_memory_step": two_memory_step(),
    }
    | EXTERNAL
    | RETENTION
)
