"""The original maps of Oh et al. 2016, out of their archive, which is not unpacked."""

import io
import math
import posixpath
import re
import tarfile
import zlib
from pathlib import Path
from typing import cast

import jax.numpy as jnp
import numpy as np

from memjax.archives import Budget, tar_member, unpacked
from memjax.environments.maze import Mazes, stack
from memjax.errors import MemjaxError, one_line, require
from memjax.typing import Array

SOURCE = "environment/Forge/eclipse/tasks.tar.gz of github.com/junhyukoh/icml2016-minecraft"
MOST_KINDS = 1000  # of objects; the archive has up to nine
FLOOR = 1  # in topology.csv; 3 and 5 are walls


def read_mazes(archive: str | Path, task: str) -> Mazes:
    """All mazes of a task of `tasks.tar.gz` (github.com/junhyukoh/icml2016-minecraft), each with each set of its goals.

    Args:
        archive: the file.
        task: "SingleIndicator", "SingleIndicatorTest", "SingleIndicatorLarge", "IMaze", "IMazeTest", "Single", ..; the
            sequential ones, whose rewards depend on the order, are not for these mazes.

    Returns:
        The mazes.

    Raises:
        MemjaxError: for a file that is not there or damaged, and for a task that it has not.
    """
    try:
        # Whole, so that its checksum is looked at: to tarfile, a damaged header is the end of the archive.
        with unpacked(Path(archive)) as file:
            data = file.read()
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            return _read(tar, task, Budget(Path(archive)))
    except FileNotFoundError:
        raise MemjaxError(f"there is no file {archive}; the mazes are read from {SOURCE}") from None
    except MemjaxError:
        raise
    except (tarfile.TarError, zlib.error, EOFError, OSError, LookupError, ValueError, OverflowError) as error:
        raise MemjaxError(f"{archive} is no archive of mazes, or is damaged: {one_line(error)}") from None


def _read(tar: tarfile.TarFile, task: str, budget: Budget) -> Mazes:
    texts, links = _contents(tar, task, budget)
    root = f"tasks/{task}"

    def text(name: str) -> str:
        place = _resolved(links, name)
        require(place in texts, f"the archive has no {place}")
        return texts[place]

    rewards, ends = _goals(text(f"{root}/goalInfo.xml"), task)
    colours = _colours(text(f"{root}/blockTypeInfo.xml"), len(rewards))
    (limit,) = re.findall(r'after="(\d+)"', text(f"{root}/task.xml"))
    require(1 <= int(limit) < 2**31, f"task {task!r} of the archive ends after {limit:.20} steps")
    limits = jnp.full(1, int(limit), jnp.int32)
    kinds = jnp.asarray(colours), jnp.asarray(rewards), jnp.asarray(ends)
    folders = {name.rsplit("/", 1)[0] for name in texts if name.startswith(f"{root}/maps/")}
    folders |= {name for name in links if posixpath.dirname(name) == f"{root}/maps"}
    inside: dict[str, list[str]] = {}
    for name in sorted(texts):
        inside.setdefault(posixpath.dirname(name), []).append(posixpath.basename(name))
    parts = []
    for folder in sorted(folders):
        place = _resolved(links, folder)
        for goal in (name for name in inside.get(place, ()) if name.startswith("goal_")):
            grids = [_grid(text(f"{place}/{name}")) for name in ("topology.csv", goal, goal.replace("goal_", "spawn_"))]
            require(len({grid.shape for grid in grids}) == 1, f"the archive's {place} has grids of several sizes")
            grids = [grids[0] != FLOOR, grids[1], grids[2] == 1]
            walls, objects, starts = (cast(Array, grid[None]) for grid in grids)
            parts.append(Mazes(walls, objects, starts, limits, *kinds))
    require(parts, f"task {task!r} of the archive has no maps")
    mazes = stack(*parts)
    begins = np.asarray(mazes.starts & ~mazes.walls).any((1, 2)).all()
    require(begins, f"task {task!r} of the archive has a maze without a start")
    most = int(mazes.objects.max())
    require(
        int(mazes.objects.min()) >= 0 and most < len(rewards),
        f"task {task!r} of the archive has no reward for object {most}",
    )
    return mazes


def _contents(tar: tarfile.TarFile, task: str, budget: Budget) -> tuple[dict[str, str], dict[str, str]]:
    """(texts of the files that this task may need, targets of the links), by name; in one pass over the archive."""
    texts, links, tasks = {}, {}, set()
    for member in tar:
        name = posixpath.normpath(member.name)
        if name.startswith("tasks/"):
            tasks.add(name.split("/")[1])
        wanted = name.startswith((f"tasks/{task}/", "maps/")) or name.endswith(".xml")
        if member.issym():
            links[name] = posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname))
        elif wanted and (data := tar_member(tar, member, budget)) is not None:
            texts[name] = data.decode()
    require(task in tasks, f"the archive has no task {task!r}; it has {', '.join(sorted(tasks))}")
    return texts, links


def _resolved(links: dict[str, str], name: str) -> str:
    """The name with the links on its way followed; links in a circle are an error of one line."""
    for _ in range(8):
        ahead = name.split("/")
        linked = next((n for n in range(1, len(ahead) + 1) if "/".join(ahead[:n]) in links), None)
        if linked is None:
            return name
        name = posixpath.join(links["/".join(ahead[:linked])], *ahead[linked:])
    raise MemjaxError(f"the archive's links for {name} go in a circle")


def _grid(text: str) -> np.ndarray:
    return np.array([[int(cell) for cell in line.split(",")] for line in text.split()], np.int32)


def _goals(text: str, task: str) -> tuple[np.ndarray, np.ndarray]:
    """Reward of each kind, and whether it ends the episode; what has no kind is kind 0."""
    found = {}
    for reward, ends, kind in re.findall(r'<goal reward="([^"]*)"\s*terminate="(\d)"\s*(?:objectID="([^"]*)")?', text):
        require(" " not in kind, f"task {task!r} rewards an order of objects, which these mazes do not")
        known = 0 <= int(kind or 0) < MOST_KINDS and math.isfinite(float(reward))
        require(known, f"task {task!r} of the archive gives {reward:.20} for object {kind:.20}")
        found[int(kind or 0)] = float(reward), ends == "1"
    rewards, ends = np.zeros(max(found) + 1, np.float32), np.zeros(max(found) + 1, bool)
    for kind, (reward, end) in found.items():
        rewards[kind], ends[kind] = reward, end
    return rewards, ends


def _colours(text: str, kinds: int) -> np.ndarray:
    """The colour of each kind: the number of the kind of block that stands for it."""
    colours = np.zeros(kinds, np.int32)
    for block, own in re.findall(r'<block id="(\d+)"\s*goalID="([^"]*)"', text):
        for kind in map(int, own.split()):
            if kind < kinds:
                colours[kind] = int(block)
    return colours
