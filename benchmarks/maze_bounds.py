"""How far do a few of the last views take an agent in the original random mazes? Counted over all of them, no agent.

    python benchmarks/maze_bounds.py --data_dir=FOLDER_OF_tasks.tar.gz

Who has the indicator in view before its last step, or among the views that it holds then, leaves by the right exit; all
others by either that they can reach, right half the time. straight: on a shortest way that still has it among the last
views, if there is one. looking back: on any way, after going back to look. Every start in every direction counts the
same; through the other exit there is no way.
"""

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import timing

from memjax import environments
from memjax.environments import Mazes
from memjax.environments.maze import WALL, MazeState
from memjax.tasks.maze_task import ARCHIVE

ROOT = Path(__file__).parents[1]
SETS = {"test": "SingleIndicatorTest", "large": "SingleIndicatorLarge"}
NEVER = 10**6


def step_table(mazes: Mazes) -> tuple[np.ndarray, np.ndarray]:
    """`(place after each action [M, S, 3], whether the indicator is in view [M, S])`, S = rows x columns x 4."""
    count, height, width = mazes.walls.shape
    row, column, facing = (grid.ravel() for grid in np.mgrid[:height, :width, :4])
    ends, objects = np.asarray(mazes.ends), np.asarray(mazes.objects)
    signs = set(np.asarray(mazes.colours)[np.unique(objects[(objects > 0) & ~ends[objects]])].tolist())
    indicator = jnp.asarray([WALL + colour for colour in signs])

    @jax.jit
    @jax.vmap
    def of_maze(maze):
        def of_place(row, column, facing):
            state = MazeState(maze, row, column, facing, jnp.array(0), jnp.array(False))
            view = environments.view(state, mazes)

            def after(action):
                _, there, _, _ = environments.step(jax.random.key(0), state, action, mazes)
                return (there.row * width + there.column) * 4 + there.facing

            return jax.vmap(after)(jnp.arange(3)), jnp.isin(view, indicator).any()

        return jax.vmap(of_place)(*map(jnp.asarray, (row, column, facing)))

    parts = [jax.device_get(of_maze(jnp.arange(begin, min(begin + 64, count)))) for begin in range(0, count, 64)]
    return tuple(np.concatenate(part) for part in zip(*parts))


def bounds(mazes: Mazes, entries: int) -> dict[str, float]:
    """The shares of starts: that reach the right exit and not the other one, and that hold the indicator then."""
    following, seen = step_table(mazes)
    maze, objects = np.arange(len(seen))[:, None, None], np.asarray(mazes.objects)
    exits = np.repeat(objects.reshape(len(objects), -1), 4, axis=1)
    leaves = np.asarray(mazes.ends)[exits]
    right = leaves & (np.asarray(mazes.reward)[exits] > 0)

    def steps_to(exits: np.ndarray) -> np.ndarray:
        found = np.where(exits, 0, NEVER)
        for _ in range(int(np.max(mazes.limit))):
            found = np.minimum(found, np.where(leaves, found, found[maze, following].min(2) + 1))
        return found

    # since: how many steps before the right exit the indicator was seen last, on the best shortest way.
    steps, others = steps_to(right), steps_to(leaves & ~right)
    since = np.full(steps.shape, NEVER)
    for distance in range(1, int(steps[steps < NEVER].max()) + 1):
        shortest = steps[maze, following] == distance - 1
        later = np.where(shortest, since[maze, following], NEVER).min(2)
        since = np.where(steps == distance, np.where(later < NEVER, later, np.where(seen, distance, NEVER)), since)

    walls = np.repeat(np.asarray(mazes.walls).reshape(len(objects), -1), 4, axis=1)
    begins = np.repeat(np.asarray(mazes.starts).reshape(len(objects), -1), 4, axis=1)
    reached = steps < NEVER
    nearest = np.where(seen & ~walls & ~leaves & reached, steps, NEVER).min(1, keepdims=True)
    held = {"straight": since <= entries + 1, "looking_back": np.broadcast_to(nearest <= entries + 1, steps.shape)}
    weight = begins / begins.sum(1, keepdims=True) / len(begins)
    found = {"reachable": float((weight * reached).sum())}
    guessed = np.where(reached & (others < NEVER), 0.5, reached)
    for name, holds in held.items():
        holds = holds & reached
        success = (weight * np.where(holds, 1, guessed)).sum()
        found |= {f"{name}_holds": float((weight * holds).sum()), f"{name}_success": float(success)}
    return found


def main() -> None:
    """Counts, prints, writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data_dir", type=Path, required=True, help="the folder of tasks.tar.gz")
    parser.add_argument("--entries", type=int, default=5, help="views that are held")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "maze_bounds.json", help="where the JSON goes")
    args = parser.parse_args()
    found = {}
    for name, task in SETS.items():
        found[name] = bounds(environments.read_mazes(args.data_dir / ARCHIVE, task), args.entries)
        print(name, ", ".join(f"{key} {100 * value:.1f}%" for key, value in found[name].items()))
    command = f"python benchmarks/maze_bounds.py --data_dir=DATA --entries={args.entries}"
    timing.save(args.out, {"command": command, "entries": args.entries, "sets": found})
    print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
