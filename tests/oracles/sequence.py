"""Sequence layers token by token, in NumPy: attention over a window, LMM, MAC; written from the equations."""

import numpy as np

from oracles.surprise import surprise


def silu(x):
    return x / (1 + np.exp(-x))


def log_sigmoid(x):
    return -np.logaddexp(0, -x)


def normed(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)


def unit(x):
    return x / np.sqrt((x**2).sum(-1, keepdims=True) + 1e-6)


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def turned(x, position):
    """Rotary position: number i and i + half of a head are a complex number, turned by position * 10000^(-i / half)."""
    half = len(x) // 2
    z = (x[:half] + 1j * x[half:]) * np.exp(1j * position * 10_000.0 ** (-np.arange(half) / half))
    return np.concatenate([z.real, z.imag])


def window_attention(params, x, heads, window):
    length, width = x.shape
    size = width // heads
    q, k, v = np.split((x @ params["project"]["kernel"]).reshape(length, heads, 3 * size), 3, axis=-1)
    front_k, front_v = params["persistent"]
    out = np.zeros((length, heads, size))
    for t in range(length):
        for h in range(heads):
            near = range(max(0, t - window + 1), t + 1)
            scores = [key @ q[t, h] for key in front_k[:, h]]
            scores += [turned(k[s, h], s) @ turned(q[t, h], t) for s in near]
            values = np.array([*front_v[:, h], *(v[s, h] for s in near)])
            out[t, h] = softmax(np.array(scores) / np.sqrt(size)) @ values
    return out.reshape(length, width) @ params["out"]["kernel"]


def head_memory(params, q, k, v, x, retention=1000.0, chunk=None):
    """`[L, H, dh]` in and out; each head on its own."""
    gates = x @ params["gates"]["kernel"] + params["gates"]["bias"]
    keep, momentum, lr = np.split(gates, 3, axis=-1)
    out = np.zeros_like(v)
    for h in range(v.shape[1]):
        log_keep, log_momentum = log_sigmoid(keep[:, h] + np.log(retention)), log_sigmoid(momentum[:, h])
        zero = np.zeros((k.shape[-1], v.shape[-1]))
        tokens = unit(q[:, h]), unit(k[:, h]), v[:, h], log_keep, log_momentum, np.exp(log_sigmoid(lr[:, h]))
        out[:, h] = surprise((zero,), (zero,), *tokens, mask=np.ones(len(x), bool), chunk=chunk)[0]
    return out


def lmm(params, x, heads, chunk=None):
    length, width = x.shape
    inputs = x @ params["project"]["kernel"]
    mixed = np.zeros_like(inputs)
    for t in range(length):
        for back in range(min(t, 3) + 1):
            mixed[t] += params["taps"][3 - back] * inputs[t - back]
    q, k, v = silu(mixed).reshape(length, 3, heads, width // heads).swapaxes(0, 1)
    read = normed(head_memory(params["remember"], q, k, v, x, chunk=chunk)) * params["norm"]["scale"]
    return (read.reshape(length, width) * silu(x @ params["open"]["kernel"])) @ params["out"]["kernel"]


def mac(params, x, heads, window):
    """Every token with the whole history written again: slow, and plain."""
    length, width = x.shape
    size = width // heads
    kernel = {name: params[name]["kernel"] for name in ("query", "stored", "of_tokens", "of_read", "out")}
    front_k, front_v = params["persistent"]
    written, out = [], np.zeros_like(x)

    def asked(x):
        return unit(silu(x @ kernel["query"]).reshape(-1, heads, size))

    def ask(history, x):
        """What the memory that has been told `history` says to x `[1, d]`."""
        history = np.array(history).reshape(-1, width)
        if not len(history):
            return np.zeros((1, heads, size))
        told = silu(history @ kernel["stored"]).reshape(-1, 2, heads, size)
        query = np.concatenate([np.zeros((len(history) - 1, heads, size)), asked(x)])
        return head_memory(params["remember"], query, told[:, 0], told[:, 1], history)[-1:]

    for t in range(length):
        start = t - t % window
        places = params["places"][: t - start + 1]
        read = np.concatenate([ask(written[:start], x[s : s + 1]) for s in range(start, t + 1)]).reshape(-1, width)
        token = ((x[start : t + 1] + places) @ kernel["of_tokens"]).reshape(-1, 3, heads, size)
        context = ((read + places) @ kernel["of_read"]).reshape(-1, 2, heads, size)
        y = np.zeros((heads, size))
        for h in range(heads):
            keys = np.concatenate([front_k[:, h], context[:, 0, h], token[:, 1, h]])
            values = np.concatenate([front_v[:, h], context[:, 1, h], token[:, 2, h]])
            y[h] = softmax(keys @ token[-1, 0, h] / np.sqrt(size)) @ values
        y = y.reshape(1, width) @ kernel["out"]
        written.append(y[0])
        out[t] = (y * (normed(ask(written, y)) * params["norm"]["scale"]).reshape(1, width))[0]
    return out
