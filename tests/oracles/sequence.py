"""Sequence layers token by token, in NumPy: attention over a window, LMM, MAC; written from the equations."""

import numpy as np

from oracles.surprise import apply, layer_norm, surprise


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


def window_attention(params, x, heads, window, in_front=None):
    length, width = x.shape
    size = width // heads

    def projected(x):
        return np.split((x @ params["project"]["kernel"]).reshape(-1, heads, 3 * size), 3, axis=-1)

    q, k, v = projected(x)
    _, front_k, front_v = projected(params["persistent"] if in_front is None else in_front)
    out = np.zeros((length, heads, size))
    for t in range(length):
        for h in range(heads):
            near = range(max(0, t - window + 1), t + 1)
            scores = [key @ q[t, h] for key in front_k[:, h]]
            scores += [turned(k[s, h], s) @ turned(q[t, h], t) for s in near]
            values = np.array([*front_v[:, h], *(v[s, h] for s in near)])
            out[t, h] = softmax(np.array(scores) / np.sqrt(size)) @ values
    return out.reshape(length, width) @ params["out"]["kernel"]


def head_memory(
    params, q, k, v, x, retention=1000.0, chunk=None, only_read=0, loss="l2", decay_first=False, bound=None,
    momentum=True, forgetting=True, horizon=None, bounded="token",
):  # fmt: skip
    """`[L, H, dh]` in and out; each head on its own. The last `only_read` tokens write nothing."""
    gates = x @ params["gates"]["kernel"] + params["gates"]["bias"]
    if "keep" in params:  # for each channel of a head
        keep = (x @ params["keep"]["kernel"] + params["keep"]["bias"]).reshape(len(x), k.shape[1], -1)
        along, lr = np.split(gates, 2, axis=-1)
    else:
        keep, along, lr = np.split(gates, 3, axis=-1)
    deep = "start_0" in params
    out = np.zeros_like(v)
    for h in range(v.shape[1]):
        log_keep, log_momentum = log_sigmoid(keep[:, h] + np.log(retention)), log_sigmoid(along[:, h])
        log_keep = log_keep if forgetting else np.zeros_like(log_keep)
        log_keep = log_keep + (np.log(1 - 1 / horizon) if horizon else 0)
        log_momentum = log_momentum if momentum else np.full_like(log_momentum, -np.inf)
        rate = np.exp(log_sigmoid(lr[:, h]))
        rate = rate * (bound or (min(1, 2 / chunk) if chunk else 1))
        if chunk or bounded == "token":
            rate = rate * (1 - np.exp(log_momentum))
        weights = [np.zeros((k.shape[-1], v.shape[-1]))]
        if deep:
            weights = [params[name][h] for name in sorted(params) if name.startswith("start")]
        keys, queries = unit(k[:, h]), unit(q[:, h])
        tokens = queries, keys, v[:, h] - keys if deep else v[:, h], log_keep, log_momentum, rate
        mask = np.arange(len(x)) < len(x) - only_read
        scale = params["scale"][h] if "scale" in params else None
        options = {
            "chunk": chunk,
            "loss": loss,
            "decay_first": decay_first,
            "scale": scale,
            "normalize_lr": deep and scale is None,
        }
        options["activation"] = "silu" if deep else "none"
        zeros = [np.zeros_like(w) for w in weights]
        # A token that only reads still asks: the oracle's masked tokens ask 0.
        out[mask, h], end, _ = surprise(weights, zeros, *(a[mask] for a in tokens), mask=mask[mask], **options)
        for t in np.flatnonzero(~mask):
            said = apply(end, queries[t], options["activation"])
            out[t, h] = said if scale is None else layer_norm(said, scale)
        out[:, h] += queries if deep else 0
    return out


def convolved(params, inputs):
    """Over the last four tokens, each channel by itself; what has no taps has no convolution."""
    if "taps" not in params:
        return inputs
    mixed = np.zeros_like(inputs)
    for t in range(len(inputs)):
        for back in range(min(t, 3) + 1):
            mixed[t] += params["taps"][3 - back] * inputs[t - back]
    return mixed


def lmm(params, x, heads, chunk=None, **rule):
    length, width = x.shape
    inputs = x @ params["project"]["kernel"]
    mixed = convolved(params, inputs)
    q, k, v = silu(mixed).reshape(length, 3, heads, width // heads).swapaxes(0, 1)
    read = normed(head_memory(params["remember"], q, k, v, x, chunk=chunk, **rule)) * params["norm"]["scale"]
    return (read.reshape(length, width) * silu(x @ params["open"]["kernel"])) @ params["out"]["kernel"]


def mac(params, x, heads, window, chunk=None):
    """Every token with the whole history written again: slow, and plain."""
    length, width = x.shape
    size = width // heads
    kernel = {name: params[name]["kernel"] for name in ("query", "of_tokens", "of_read", "attended")}
    in_front = params.get("persistent", np.zeros((0, width)))
    _, front_k, front_v = (in_front @ kernel["of_tokens"]).reshape(-1, 3, heads, size).swapaxes(0, 1)
    written, out = [], np.zeros_like(x)

    def ask(history, x):
        """What the memory that has been told `history` says to x `[1, d]`."""
        history = np.array(history).reshape(-1, width)
        inputs = history @ params["memory"]["project"]["kernel"]
        mixed = np.concatenate([convolved(params["memory"], inputs), np.zeros((1, 3 * width))])
        _, k, v = silu(mixed).reshape(-1, 3, heads, size).swapaxes(0, 1)
        query = silu(x @ kernel["query"]).reshape(1, heads, size)
        query = np.concatenate([np.zeros((len(history), heads, size)), query])
        x = np.concatenate([history, x])
        return head_memory(params["memory"]["remember"], query, k, v, x, chunk=chunk, only_read=1)[-1:]

    for t in range(length):
        start = t - t % window
        places = params["places"][: t - start + 1]
        read = np.concatenate([ask(written[:start], x[s : s + 1]) for s in range(start, t + 1)]).reshape(-1, width)
        read = read / np.sqrt((read**2).mean(-1, keepdims=True) + 1e-3) * params["norm"]["scale"]
        token = ((x[start : t + 1] + places) @ kernel["of_tokens"]).reshape(-1, 3, heads, size)
        context = ((read + places) @ kernel["of_read"]).reshape(-1, 2, heads, size)
        y = np.zeros((heads, size))
        for h in range(heads):
            keys = np.concatenate([front_k[:, h], context[:, 0, h], token[:, 1, h]])
            values = np.concatenate([front_v[:, h], context[:, 1, h], token[:, 2, h]])
            y[h] = softmax(keys @ token[-1, 0, h] / np.sqrt(size)) @ values
        y = x[t] + y.reshape(width) @ kernel["attended"]
        written.append(y)
        out[t] = lmm(params["memory"], np.array(written), heads, chunk)[-1]
    return out
