"""A straightforward PyTorch port of Rehearsal Memory, to be timed beside ours; weights come from the JAX parameters.

What a PyTorch user would write: `nn.TransformerEncoder` over all segments at once, the items' projection outside the
loop, then a Python loop over the segments with the slot attention spelled out and `nn.GRUCell`. Every item is real: the
port has no masks, and so does not pay for them.
"""

from typing import Any

import numpy as np
import torch
from torch import nn


class TorchRehearsal(nn.Module):
    """Encoder, slot attention over the slots, one GRU cell for all slots; a batch of streams `[B, T, N, d]`."""

    def __init__(self, slots: int, width: int, segment: int, layers: int = 3, heads: int = 4):
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            width,
            heads,
            dim_feedforward=4 * width,
            dropout=0.0,
            activation="relu",
            layer_norm_eps=1e-6,
            batch_first=True,
            norm_first=True,
        )
        norm = nn.LayerNorm(width, eps=1e-6)
        self.positions = nn.Parameter(torch.zeros(segment, width))
        self.encoder = nn.TransformerEncoder(layer, layers, norm, enable_nested_tensor=False)
        self.start = nn.Parameter(torch.zeros(slots, width))
        self.left = nn.Linear(width, width)  # with the bias of the additive attention
        self.right = nn.Linear(width, width, bias=False)
        self.score = nn.Linear(width, 1, bias=False)
        self.update = nn.GRUCell(width, width)

    def encode(self, items: torch.Tensor) -> torch.Tensor:
        """Every segment on its own, all at once: `[B, T, N, d]` in and out."""
        batch, length, segment, width = items.shape
        x = (items + self.positions[:segment]).reshape(batch * length, segment, width)
        return self.encoder(x).reshape(batch, length, segment, width)

    def forward(self, items: torch.Tensor) -> torch.Tensor:
        """Memorizes: the slots `[B, K, d]` after all segments."""
        encoded = self.encode(items)
        projected = self.right(encoded)
        batch, length, _, width = items.shape
        slots = self.start.expand(batch, -1, -1)
        for t in range(length):
            hidden = torch.tanh(self.left(slots)[:, :, None] + projected[:, t, None])
            weights = self.score(hidden).squeeze(-1).softmax(dim=1)  # [B, K, N], over the slots
            aligned = weights @ encoded[:, t]
            slots = self.update(aligned.reshape(-1, width), slots.reshape(-1, width)).reshape(batch, -1, width)
        return slots


def port(params: Any, slots: int, width: int, segment: int, layers: int = 3, heads: int = 4) -> TorchRehearsal:
    """The PyTorch model with the weights of `memories.create("rehearsal", ..).init(..)`."""
    tree = params["params"]
    encoder = tree["encode_segments"]
    model = TorchRehearsal(slots, width, segment, layers, heads)
    weights = {
        "positions": encoder["positions"],
        "start": tree["initial_slots"],
        "left.weight": tree["attention_w_left"].T,
        "left.bias": tree["attention_b"],
        "right.weight": tree["attention_w_right"].T,
        "score.weight": tree["attention_v"][None],
        "update.weight_ih": tree["update_w_x"].T,
        "update.weight_hh": tree["update_w_h"].T,
        "update.bias_ih": tree["update_b_x"],
        "update.bias_hh": tree["update_b_h"],
        **_norm("encoder.norm", encoder[f"LayerNorm_{2 * layers}"]),
    }
    for i in range(layers):
        attention = _attention(encoder[f"Attention_{i}"], width)
        feed_forward = encoder[f"FeedForward_{i}"]
        name = f"encoder.layers.{i}"
        weights |= {
            f"{name}.self_attn.in_proj_weight": attention["in"][0].T,
            f"{name}.self_attn.in_proj_bias": attention["in"][1],
            f"{name}.self_attn.out_proj.weight": attention["out"][0].T,
            f"{name}.self_attn.out_proj.bias": attention["out"][1],
            f"{name}.linear1.weight": feed_forward["Dense_0"]["kernel"].T,
            f"{name}.linear1.bias": feed_forward["Dense_0"]["bias"],
            f"{name}.linear2.weight": feed_forward["Dense_1"]["kernel"].T,
            f"{name}.linear2.bias": feed_forward["Dense_1"]["bias"],
            **_norm(f"{name}.norm1", encoder[f"LayerNorm_{2 * i}"]),
            **_norm(f"{name}.norm2", encoder[f"LayerNorm_{2 * i + 1}"]),
        }
    model.load_state_dict({name: torch.tensor(np.array(w)) for name, w in weights.items()})  # strict: none is missing
    return model


def _norm(name: str, params: Any) -> dict[str, Any]:
    return {f"{name}.weight": params["scale"], f"{name}.bias": params["bias"]}


def _attention(params: Any, width: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Flax keeps a head axis, PyTorch stacks query, key and value."""
    (inner,) = params.values()
    projections = [inner[part] for part in ("query", "key", "value")]
    kernel = np.concatenate([np.reshape(p["kernel"], (width, width)) for p in projections], axis=1)
    bias = np.concatenate([np.reshape(p["bias"], width) for p in projections])
    return {"in": (kernel, bias), "out": (np.reshape(inner["out"]["kernel"], (width, width)), inner["out"]["bias"])}
