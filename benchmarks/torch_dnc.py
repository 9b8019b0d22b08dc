"""PyPI's `dnc` (PyTorch), as bench_memories.py compares with it: its access to the memory, and the whole of it."""

from typing import Any

import numpy as np
import torch
from dnc import DNC
from dnc.memory import Memory


def access(rows: int, width: int, heads: int, flat: np.ndarray, state: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """One step of its memory from an interface vector and a state, without its controller."""
    module = Memory(flat.shape[0], rows, width, heads, independent_linears=False)
    with torch.no_grad():
        module.interface_weights.weight.copy_(torch.eye(flat.shape[0]))
        module.interface_weights.bias.zero_()
        hidden = {
            "memory": state["memory"][None],
            "link_matrix": state["links"][None, None],
            "precedence": state["precedence"][None, None],
            "read_weights": state["read_weights"][None],
            "write_weights": state["write_weights"][None, None],
            "usage_vector": state["usage"][None],
        }
        said = torch.tensor(flat[None], dtype=torch.float32)
        reads, hidden = module(said, {name: torch.tensor(x, dtype=torch.float32) for name, x in hidden.items()})
    return {
        "reads": reads[0].numpy(),
        "memory": hidden["memory"][0].numpy(),
        "links": hidden["link_matrix"][0, 0].numpy(),
        "precedence": hidden["precedence"][0, 0].numpy(),
        "read_weights": hidden["read_weights"][0].numpy(),
        "write_weights": hidden["write_weights"][0, 0].numpy(),
        "usage": hidden["usage_vector"][0].numpy(),
    }


def gradient(sizes: Any, x: np.ndarray):
    """Forward and backward of the whole, of a mean square, ready to be called."""
    torch.manual_seed(0)
    module = DNC(
        input_size=x.shape[-1],
        hidden_size=sizes.hidden,
        num_hidden_layers=1,
        nr_cells=sizes.rows,
        read_heads=sizes.heads,
        cell_size=sizes.memory_width,
    )
    x = torch.tensor(x, requires_grad=True)

    def call():
        module.zero_grad()
        x.grad = None
        loss = module(x)[0].square().mean()
        loss.backward()
        return loss.item()

    return call
