"""Whether a gradient points where a loss falls, by central differences of a value that is computed in another way."""

import jax
import numpy as np


def assert_slopes(gradient, value, params, depth=2, move=0.02, tolerance=0.02, noise=2e-7):
    """Along two random directions in each group of parameters `gradient` is the central difference of `value`.

    depth: the keys of a path that make a group. move: how far to both sides, all numbers of a group together. Error: up
    to `tolerance` of what the gradient is along a direction in the mean. noise: of a value.
    """
    rng = np.random.default_rng(0)
    paths = [jax.tree_util.keystr(path[:depth]) for path, _ in jax.tree.leaves_with_path(params)]
    leaves, structure = jax.tree.flatten(params)
    slopes = [np.float64(leaf) for leaf in jax.tree.leaves(gradient)]
    for group in dict.fromkeys(paths):
        chosen = [i for i, path in enumerate(paths) if path == group]
        size = sum(leaves[i].size for i in chosen)
        usual = np.sqrt(sum((slopes[i] ** 2).sum() for i in chosen) / size)
        for _ in range(2):
            drawn = {i: rng.normal(size=leaves[i].shape) / np.sqrt(size) for i in chosen}
            ends = []
            for by in (move, -move):
                moved = [np.float32(leaf + by * drawn.get(i, 0)) for i, leaf in enumerate(leaves)]
                ends.append(value(jax.tree.unflatten(structure, moved)))
            found, rises = sum(np.vdot(slopes[i], drawn[i]) for i in chosen), (ends[0] - ends[1]) / (2 * move)
            assert abs(found - rises) <= tolerance * usual + noise / move, (group, found, rises, usual)
