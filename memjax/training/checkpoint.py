"""Checkpoints: the training state and the metrics that are not logged yet, saved together by Orbax.

The position in the data is no part of one: a batch is a function of its number (see data.py). What was saved on one
mesh is restored on any other. Each holds a sum over all its bits; one that does not have it any more is passed over.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import jax
import numpy as np
import orbax.checkpoint as ocp
from etils import epath
from jax.experimental import multihost_utils
from jax.sharding import Mesh

from memjax.errors import MemjaxError, is_too_large, one_line, remark, require
from memjax.files import own_folder
from memjax.training.processes import PATIENCE, within
from memjax.training.sharding import placed
from memjax.training.step import TrainState
from memjax.typing import Any, Array, PyTree

Unlogged = list[dict[str, float]]

# Of several devices with the same array each writes a part, but none less than this: Orbax compiles a program for each
# part of each shape, which takes seconds, for a small model too.
_LEAST_PART = 2**20  # bytes
NEWEST = ocp.checkpoint_managers.LatestN(2)
# What is no damage of a checkpoint: it may be read the next time, and is not to be given up.
_PASSING = (errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE, errno.ETIMEDOUT)


def place(folder: Path, elsewhere: str) -> epath.Path:
    """Where a run's checkpoints lie, a folder for each phase: in the run folder, or `elsewhere`, if that is not ""."""
    if not elsewhere:
        return epath.Path(folder)
    with reaching(elsewhere):
        found = epath.Path(elsewhere) / folder.resolve().name
    require(
        "://" in elsewhere or not Path(found).is_symlink(), f"{found} is a link; no checkpoint is written through it"
    )
    return found


def places(folder: Path, elsewhere: str) -> list[epath.Path]:
    """Both folders of a run, or the one: first that of its checkpoints, which may be out of reach."""
    return list(dict.fromkeys((place(folder, elsewhere), epath.Path(folder))))


@contextlib.contextmanager
def reaching(place: object) -> Iterator[None]:
    """Turns what a bucket's client raises, which may not be installed or not be let in, into one line."""
    try:
        yield
    except (MemjaxError, OSError):
        raise
    except Exception as error:
        raise MemjaxError(
            f"cannot reach checkpoints in {place} ({one_line(error)}); give another config.training.checkpoints"
        ) from None


class Behind:
    """A preservation policy of Orbax: two checkpoints up to a step, and all behind it. step: by now; None for none."""

    def __init__(self, step: Callable[[], int | None]):
        self.step = step

    def should_preserve(self, checkpoints: Sequence[Any], *, context: Any) -> list[bool]:
        """Of checkpoints in order."""
        before = sum(each.step <= (self.step() or 0) for each in checkpoints)
        return [number >= before - 2 for number in range(len(checkpoints))]


def open_checkpoints(
    folder: Path | epath.Path, create: bool = True, keep: ocp.checkpoint_managers.LatestN | Behind = NEWEST
) -> ocp.CheckpointManager:
    """The checkpoints in a folder. Close it: it saves in the background.

    Args:
        folder: of any file system that Orbax knows.
        create: whether a folder that is not there is made.
        keep: which of them are kept; the newest two, if not given.

    Raises:
        MemjaxError: if there is no folder and it is not to be made, and for a folder or a file in it that is a link.
    """
    folder = epath.Path(folder)
    with reaching(folder):
        require(create or folder.is_dir(), f"{folder} holds no checkpoint; train the run first")
        if "://" in str(folder):
            folder.mkdir(parents=True, exist_ok=True)  # Orbax would wait for ever for one that it cannot make
        else:
            text = str(folder).encode("utf-8", "replace").decode() == str(folder)
            require(text, f"{folder} is no name in UTF-8, and no checkpoint can lie there; give another folder")
            # Orbax looks for its own files by a pattern that begins with the path, and would not find them.
            pattern = any(re.search(r"[*?]|\[.+\]", part) for part in Path(folder).resolve().parts)
            require(not pattern, f"{folder} has *, ? or [ ] in its path, and no checkpoint can lie there; give another")
            own = own_folder(Path(folder).parent, folder.name)
            links = [str(path) for path in own.iterdir() if path.is_symlink()]
            require(not links, f"{', '.join(links)}: no checkpoint is read or written through a link; remove it")
    options = ocp.CheckpointManagerOptions(preservation_policy=keep, create=True)
    return ocp.CheckpointManager(folder.resolve(), options=options, handler_registry=_handlers())


@contextlib.contextmanager
def saving(
    folder: Path | epath.Path, keep: ocp.checkpoint_managers.LatestN | Behind = NEWEST
) -> Iterator[ocp.CheckpointManager]:
    """`open_checkpoints` for a phase that is trained.

    To close it, processes wait for each other. One of several that has failed, as of a full disk, does not wait for
    long: the others wait for it elsewhere, and nobody would be told of the failure.
    """
    manager = open_checkpoints(folder, keep=keep)
    try:
        yield manager
    except BaseException:
        if jax.process_count() == 1:
            manager.close()
        else:
            within(PATIENCE, manager.close)
        raise
    manager.close()


def _handlers() -> ocp.DefaultCheckpointHandlerRegistry:
    """What saves and restores the parts of a checkpoint: Orbax's own, but for `_LEAST_PART`."""
    arrays = ocp.type_handlers.ArrayHandler(min_slice_bytes_for_replica_parallel=_LEAST_PART)
    types = ocp.type_handlers.create_type_handler_registry((jax.Array, arrays))
    found = ocp.DefaultCheckpointHandlerRegistry()
    found.add("state", ocp.args.PyTreeSave, ocp.PyTreeCheckpointHandler(type_handler_registry=types))
    found.add("state", ocp.args.StandardRestore, ocp.StandardCheckpointHandler())
    for arguments in (ocp.args.JsonSave, ocp.args.JsonRestore):
        found.add("record", arguments, ocp.JsonCheckpointHandler())
    return found


def save(manager: ocp.CheckpointManager, step: int, state: TrainState, unlogged: Unlogged) -> None:
    """Saves all of it, in the background.

    Args:
        manager: of `open_checkpoints`.
        step: how many steps were trained.
        state: after them.
        unlogged: the metrics that are not logged yet.
    """
    # A copy of the list: it is written in the background, while the loop adds to it.
    record = {"unlogged": list(unlogged), "digest": _seal(step, state._asdict(), unlogged), "x64": _has_64_bits()}
    arguments = ocp.args.Composite(state=ocp.args.PyTreeSave(state._asdict()), record=ocp.args.JsonSave(record))
    manager.save(step, args=arguments)


def restore(
    manager: ocp.CheckpointManager, like: TrainState, mesh: Mesh, deleted: str = "to start again"
) -> tuple[TrainState, Unlogged]:
    """The newest state that is whole; a remark on newer ones, which are damaged.

    Args:
        manager: of `open_checkpoints`.
        like: arrays or their shapes, as those of the state.
        mesh: on which the state is put.
        deleted: what for a folder in which none is whole may be deleted.

    Returns:
        The state, and the metrics that were not logged then.

    Raises:
        MemjaxError: if none is whole, or all are of another model.
    """
    target = jax.tree.map(
        lambda leaf, place: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place),
        like._asdict(),
        placed(mesh, like)._asdict(),
    )
    steps = sorted(manager.all_steps(), reverse=True)
    if not steps:
        raise MemjaxError(f"{manager.directory} holds no checkpoint; train the run first")
    damaged = []
    for step in steps:
        try:
            state, unlogged = _read(manager, step, target)
        except Exception as error:  # damage, and another model, are anything to Orbax, a bare `Exception` too
            _require_damage(error, f"checkpoint {step} in {manager.directory}")
            damaged.append((step, one_line(error) or type(error).__name__))
            continue
        for newer, reason in damaged:
            remark(f"checkpoint {newer} in {manager.directory} is damaged ({reason}); step {step} takes its place")
        return TrainState(**state), unlogged
    raise MemjaxError(
        f"checkpoint {steps[0]} in {manager.directory} is damaged or of another model ({damaged[0][1]}); "
        f"give the run another folder, or delete {manager.directory} {deleted}"
    )


def read_newest(place: Path | epath.Path, like: TrainState, mesh: Mesh, **advice: str) -> TrainState:
    """As `restore`, from a folder that a run may be saving into: what goes while it is listed is looked for again.

    Args:
        place: the folder.
        like: as of `restore`.
        mesh: as of `restore`.
        **advice: as of `restore`.
    """
    for wait in (0.2, 1.0):
        with contextlib.suppress(FileNotFoundError), open_checkpoints(place, create=False) as manager:
            if manager.all_steps():
                return restore(manager, like, mesh, **advice)[0]
        time.sleep(wait)
    try:
        with open_checkpoints(place, create=False) as manager:
            return restore(manager, like, mesh, **advice)[0]
    except FileNotFoundError as error:
        raise MemjaxError(f"cannot read checkpoints in {place} ({one_line(error)}); try again") from None


def _read(manager: ocp.CheckpointManager, step: int, target: PyTree) -> tuple[dict[str, Any], Unlogged]:
    arguments = ocp.args.Composite(state=ocp.args.StandardRestore(target), record=ocp.args.JsonRestore())
    found = manager.restore(step, args=arguments)
    state, unlogged, kept = found["state"], found["record"]["unlogged"], found["record"]["digest"]
    if found["record"].get("x64", _has_64_bits()) is not _has_64_bits():
        other = "JAX_ENABLE_X64=0" if _has_64_bits() else "JAX_ENABLE_X64=1"
        raise MemjaxError(f"{manager.directory} was trained with {other}, and its numbers are others here; set it")
    # Before there were versions, the sum was over the state alone.
    if kept != (_seal(step, state, unlogged) if kept.startswith("2:") else digest(state)):
        raise ValueError("its sum is another")
    if int(state["step"]) != step:
        raise ValueError(f"it is that of step {int(state['step'])}")
    if not all(entry.keys() == unlogged[0].keys() and all(map(np.isscalar, entry.values())) for entry in unlogged):
        raise ValueError("its metrics are none")
    return state, unlogged


def _has_64_bits() -> bool:
    """Whether numbers of 64 bits are what they say, and not of 32."""
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]


def _require_damage(error: Exception, what: str) -> None:
    """Raises what is no damage: another precision, that memory is short, or that files cannot be read now."""
    if isinstance(error, MemjaxError):
        raise error
    if isinstance(error, (MemoryError, RuntimeError)) and is_too_large(error):
        raise error
    reason = next((words for words in map(os.strerror, _PASSING) if words in str(error)), "")
    require(not reason, f"cannot read {what}: {reason}; make it readable, and start again")


def _seal(step: int, state: PyTree, unlogged: Unlogged) -> str:
    """The sum of a checkpoint, version 2: over its step, its metrics and its state."""
    text = json.dumps([step, unlogged, digest(state)], sort_keys=True)
    return f"2:{hashlib.sha256(text.encode()).hexdigest()}"


def digest(tree: PyTree) -> str:
    """A sum over the bits of all leaves, each weighted by its place: the same however the leaves lie on devices."""
    sums = np.array([_weighted_sum(leaf) for leaf in jax.tree.leaves(tree)], np.uint64)
    if jax.process_count() > 1:
        own = sums.view(np.uint32)  # JAX has no 64 bits, unless asked
        every = np.ascontiguousarray(multihost_utils.process_allgather(own)).view(np.uint64)
        sums = every.sum(axis=0, dtype=np.uint64)
    return hashlib.sha256(sums.tobytes()).hexdigest()


def _weighted_sum(leaf: Array) -> np.uint64:
    """The part of a leaf's sum that this process has: of its shards, without the copies."""
    total, strides = np.zeros(1, np.uint64), np.cumprod((1, *leaf.shape[:0:-1]))[::-1]
    for shard in leaf.addressable_shards:
        if shard.replica_id:
            continue
        bits = np.asarray(shard.data)
        bits = bits.view(f"u{bits.itemsize}").astype(np.uint64)
        place = np.zeros((1,) * bits.ndim, np.uint64)
        for axis, (part, stride) in enumerate(zip(shard.index, strides)):
            along = np.arange(*part.indices(leaf.shape[axis]), dtype=np.uint64) * np.uint64(stride)
            place = place + along.reshape([-1 if i == axis else 1 for i in range(bits.ndim)])
        # Odd weights, far from each other: no bit is lost, and what changes places changes the sum.
        weights = (place * np.uint64(2) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        total += (bits * weights).sum(dtype=np.uint64)
    return total[0]
