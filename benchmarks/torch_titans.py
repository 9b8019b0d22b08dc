"""titans-pytorch's NeuralMemory, as bench_surprise.py compares with it, and its weights for our side."""

from typing import Any

import numpy as np
import timing
import torch
from titans_pytorch import MemoryMLP, NeuralMemory


def make(
    heads: int, width: int, depth: int, expansion: float, anchor: int, gates_every: int, seed: int
) -> NeuralMemory:
    """A memory whose gradients are taken every `anchor` tokens, with momentum and decay for each `gates_every`."""
    torch.manual_seed(seed)
    module = NeuralMemory(
        heads * width,
        chunk_size=gates_every,
        batch_size=anchor,
        dim_head=width,
        heads=heads,
        model=MemoryMLP(width, depth, expansion),
        mem_model_norm_add_residual=False,
    )
    with torch.no_grad():  # gates away from 1/2: learning rates that stay stable over a chunk, memories that last
        module.to_adaptive_step[0].bias.fill_(-3.0)
        module.to_decay_factor[0].bias.fill_(-4.0)
    return module


def weights(module: NeuralMemory) -> dict[str, Any]:
    """What it has learned and how it begins, as arrays; matrices are `[inputs, outputs]`."""

    def matrix(layer):
        return layer.weight.detach().numpy().T.copy()

    def gate(layer):
        return matrix(layer), layer.bias.detach().numpy().copy()

    return {
        "store_norm": module.store_norm.weight.detach().numpy().copy(),
        "read_norm": module.retrieve_norm.weight.detach().numpy().copy(),
        "q": matrix(module.to_queries),
        "k": matrix(module.to_keys),
        "v": matrix(module.to_values),
        "lr": gate(module.to_adaptive_step[0]),
        "momentum": gate(module.to_momentum[0]),
        "decay": gate(module.to_decay_factor[0]),
        "read_gate": matrix(module.retrieve_gate[0]),
        "out": matrix(module.combine_heads),
        "memory": tuple(w.detach().numpy().copy() for w in module.memory_model_parameters),
    }


def job(name: str, module: NeuralMemory, x: np.ndarray):
    """`forward` or `gradient` (of a mean square, in the weights and in x), ready to be called."""
    torch.set_num_threads(timing.cores())
    x = torch.tensor(x)
    if name == "forward":

        def forward():
            with torch.inference_mode():
                return module(x)[0].numpy()

        return forward
    x.requires_grad_()

    def gradient():
        module.zero_grad()
        x.grad = None
        loss = module(x)[0].square().mean()
        loss.backward()
        return loss.item()

    return gradient
