"""Cases of addressing, and of the memories with a controller that are built of it; see `cases.py`."""

from functools import partial

import numpy as np

from memjax import ops
from memjax.ops.induction import mimn_interface_size
from oracles import addressing, external, induction
from oracles.case import Case, above, gru, nothing, ranged_case, share, simplex, without_params

N, D, HEADS, WIDTH, HIDDEN, PROGRAMS = 4, 4, 2, 3, 5, 3


def controller(rng, again=HEADS * WIDTH):
    sizes = ((D, 4 * HIDDEN), (HIDDEN + again, 4 * HIDDEN), (4 * HIDDEN,))
    return ops.LSTMParams(*(rng.normal(size=size) for size in sizes))


def linear(rng, size=6):
    return ops.InterfaceParams(rng.normal(size=(HIDDEN, size)), rng.normal(size=size))


def programs(rng, size=6):
    sizes = ((PROGRAMS, 2), (PROGRAMS, HIDDEN, size), (HIDDEN, 3), (3,), (size,))
    return ops.ProgramParams(*(rng.normal(size=shape) for shape in sizes))


def lstm_case(again):
    def op(params, hidden, cell, x, again=None):
        return ops.lstm_step(params, hidden, cell, ops.lstm_inputs(params, x), again)

    def oracle(params, hidden, cell, x, again=()):
        return external.lstm(params, {"hidden": hidden, "cell": cell, "reads": np.asarray(again)}, x)

    data = {"hidden": (HIDDEN,), "cell": (HIDDEN,), "x": (D,)} | ({"again": (again,)} if again else {})
    return Case(op, oracle, partial(controller, again=again), data, state=("hidden", "cell"))


def both(rng, size):
    return ops.ExternalParams(controller(rng), linear(rng, size))


def start_case(op, begin, oracle, size):
    """One item read from the start: constants, which the oracle is given as they are."""
    written = {name: np.asarray(leaf, np.float64) for name, leaf in begin()._asdict().items()}
    return Case(
        lambda params, x: op(params, begin(), ops.lstm_inputs(params.controller, x))._asdict(),
        lambda params, x: oracle(params, written, x),
        partial(both, size=size),
        {"x": (D,)},
    )


def step_case(op, begin, oracle, size, fixed=(), **ranges):
    """One item read in any state. fixed: what of the state no gradient goes through."""
    begin = begin()
    shapes = {name: leaf.shape for name, leaf in begin._asdict().items() if name not in fixed}

    def after(params, x, **state):
        return op(params, type(begin)(**state), ops.lstm_inputs(params.controller, x))._asdict()

    def expected(params, x, **state):
        return oracle(params, state, x)

    def draw(rng):
        return {name: rng.normal(size=getattr(begin, name).shape) for name in fixed}

    data = {"x": (D,)} | shapes
    return ranged_case(after, expected, partial(both, size=size), data, tuple(shapes), draw, **ranges)


def mimn_params(rng):
    return ops.MIMNParams(
        controller(rng, again=WIDTH),
        linear(rng, mimn_interface_size(WIDTH)),
        rng.normal(size=(N, WIDTH)),
        rng.normal(size=(D, 3 * WIDTH)),
        gru(rng, WIDTH, WIDTH),
    )


def mimn_case(fixed, hidden_from=()):
    """One item read in any state. fixed: what of the state no gradient goes through; hidden_from: what is not put out.

    The channels see the memory as a constant: their gradients are compared in a case where it is one.
    """
    shapes = {name: leaf.shape for name, leaf in MIMN()._asdict().items() if name not in fixed}

    def shown(state):
        return {name: leaf for name, leaf in state.items() if name not in hidden_from}

    return Case(
        lambda params, x, **state: shown(
            ops.mimn_step(params, ops.MIMNState(**state), ops.mimn_inputs(params, x))._asdict()
        ),
        lambda params, x, **state: shown(induction.mimn(params, state, x)),
        mimn_params,
        {"x": (D,)} | shapes,
        lambda rng: {name: rng.normal(size=getattr(MIMN(), name).shape) for name in fixed},
        tuple(shapes),
    )


def addressing_case(op, oracle, *arguments, **ranges):
    return ranged_case(without_params(op), without_params(oracle), nothing, *arguments, **ranges)


NTM = partial(ops.ntm_start, N, WIDTH, HEADS, HIDDEN)
DNC = partial(ops.dnc_start, N, WIDTH, HEADS, HIDDEN)
BLOCKS = partial(ops.dmsdnc_start, 2, N, WIDTH, HEADS, HIDDEN)
MIMN = partial(ops.mimn_start, N, WIDTH, HIDDEN)
WEIGHTS = {"read_weights": simplex, "write_weights": simplex}

EXTERNAL = {
    "lstm_inputs": Case(ops.lstm_inputs, lambda params, xs: xs @ params.w_x + params.b, controller, {"xs": (N, D)}),
    "lstm_step": lstm_case(again=0),
    "lstm_step with what was read": lstm_case(again=HEADS * WIDTH),
    "interface": Case(ops.interface, external.interface, linear, {"hidden": (HIDDEN,)}),
    "interface of programs": Case(ops.interface, external.interface, programs, {"hidden": (HIDDEN,)}),
    "key_similarity": Case(
        lambda params, keys: ops.key_similarity(ops.ProgramParams(keys, *params)),
        lambda params, keys: external.key_similarity(keys),
        lambda rng: programs(rng)[1:],
        {"keys": (PROGRAMS, 2)},
    ),
    "ntm_start": start_case(ops.ntm_step, NTM, external.ntm, ops.ntm_interface_size(WIDTH, HEADS)),
    "ntm_step": step_case(ops.ntm_step, NTM, external.ntm, ops.ntm_interface_size(WIDTH, HEADS), **WEIGHTS),
    "ntm_step that reads first": step_case(
        partial(ops.ntm_step, read_first=True),
        NTM,
        partial(external.ntm, read_first=True),
        ops.ntm_interface_size(WIDTH, HEADS),
        **WEIGHTS,
    ),
    "dnc_start": start_case(ops.dnc_step, DNC, external.dnc, ops.dnc_interface_size(WIDTH, HEADS)),
    "dnc_step": step_case(
        ops.dnc_step,
        DNC,
        external.dnc,
        ops.dnc_interface_size(WIDTH, HEADS),
        ("write_weights",),
        **WEIGHTS,
        usage=share,
        precedence=simplex,
    ),
    "dmsdnc_start": start_case(ops.dmsdnc_step, BLOCKS, external.dmsdnc, ops.dmsdnc_interface_size(2, WIDTH, HEADS)),
    "dmsdnc_step": step_case(
        ops.dmsdnc_step,
        BLOCKS,
        external.dmsdnc,
        ops.dmsdnc_interface_size(2, WIDTH, HEADS),
        ("write_weights",),
        **WEIGHTS,
        usage=share,
    ),
    "mimn_inputs": Case(
        lambda params, xs: tuple(ops.mimn_inputs(params, xs)), induction.mimn_inputs, mimn_params, {"xs": (N, D)}
    ),
    "mimn_start": Case(
        lambda params, x: ops.mimn_step(params, MIMN(), ops.mimn_inputs(params, x))._asdict(),
        lambda params, x: induction.mimn(
            params, {name: np.asarray(leaf, np.float64) for name, leaf in MIMN()._asdict().items()}, x
        ),
        mimn_params,
        {"x": (D,)},
    ),
    "mimn_step": mimn_case(fixed=(), hidden_from=("channels",)),
    "mimn_step, the memory held": mimn_case(fixed=("memory",)),
    "content_weights": addressing_case(
        ops.content_weights,
        addressing.content_weights,
        {"memory": (N, D), "key": (D,), "strength": ()},
        ("memory",),
        strength=above(0),
    ),
    "shift_weights": addressing_case(
        ops.shift_weights, addressing.shift_weights, {"weights": (N,), "shift": (3,)}, weights=simplex, shift=simplex
    ),
    "sharpen_weights": addressing_case(
        ops.sharpen_weights, addressing.sharpen_weights, {"weights": (N,), "power": ()}, weights=simplex, power=above(1)
    ),
    "allocation_weights": addressing_case(
        ops.allocation_weights, addressing.allocation_weights, {"usage": (N,)}, usage=share
    ),
    "link_update": addressing_case(
        ops.link_update,
        addressing.link_update,
        {"links": (N, N), "precedence": (N,), "write_weights": (N,)},
        ("links", "precedence"),
        precedence=simplex,
        write_weights=simplex,
    ),
    "usage_update": addressing_case(
        ops.usage_update,
        addressing.usage_update,
        {"usage": (N,), "read_weights": (2, N), "free_gates": (2,)},
        ("usage",),
        lambda rng: {"write_weights": simplex(rng.normal(size=N), np)},  # no gradient goes through it
        usage=share,
        read_weights=simplex,
        free_gates=share,
    ),
    "erase_and_add": addressing_case(
        ops.erase_and_add,
        addressing.erase_and_add,
        {"memory": (N, D), "weights": (N,), "erase": (D,), "add": (D,)},
        ("memory",),
        weights=simplex,
        erase=share,
    ),
}
