"""Whether a gradient points where a loss falls, by central differences of a value that is computed in another way."""

import jax
import numpy as np


def assert_slopes(gradient, value, params, move=0.02, tolerance=0.05, noise=1e-6):
    """Along two random directions in each group of parameters `gradient` is the central difference of `value`.

    move: how far to both sides, all of the group's numbers together. Error: `tolerance` of what the gradient is along a
    direction in the mean. noise: of a value.
    """
    rng = np.random.default_rng(0)
    for group in sorted(params["params"]):
        of_group = jax.tree.leaves(gradient["params"][group])
        size = sum(leaf.size for leaf in of_group)
        usual = np.sqrt(sum((np.float64(leaf) ** 2).sum() for leaf in of_group) / size)
        for _ in range(2):
            drawn = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape) / np.sqrt(size), params["params"][group])
            ends = []
            for sign in (1, -1):
                moved = jax.tree.map(
                    lambda leaf, d, by=sign * move: np.float32(leaf + by * d), params["params"][group], drawn
                )
                ends.append(value({"params": {**params["params"], group: moved}}))
            found = sum(np.vdot(np.float64(g), d) for g, d in zip(of_group, jax.tree.leaves(drawn), strict=True))
            error = abs(found - (ends[0] - ends[1]) / (2 * move))
            assert error <= tolerance * usual + noise / move, (group, found, (ends[0] - ends[1]) / (2 * move), usual)
