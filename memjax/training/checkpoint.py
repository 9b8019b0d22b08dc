"""Checkpoints: the training state, the position in the data, metrics not logged yet, saved together by Orbax."""

from pathlib import Path

import grain
import jax
import orbax.checkpoint as ocp

from memjax.errors import MemjaxError
from memjax.training.step import TrainState
from memjax.typing import Params


def open_checkpoints(folder: Path, keep: int = 2) -> ocp.CheckpointManager:
    """The checkpoints in a folder, the newest `keep` of them kept. Close it: it saves in the background."""
    folder.mkdir(parents=True, exist_ok=True)  # Orbax would wait for ever for one that it cannot make
    policy = ocp.checkpoint_managers.LatestN(keep)
    options = ocp.CheckpointManagerOptions(preservation_policy=policy, create=True)
    return ocp.CheckpointManager(folder.resolve(), options=options)


Unlogged = list[dict[str, float]]


def save(
    manager: ocp.CheckpointManager, step: int, state: TrainState, data: grain.DatasetIterator, unlogged: Unlogged
) -> None:
    """Saves all of it. To be called before the next batch is drawn, so that the position is that of the state."""
    arguments = ocp.args.Composite(
        state=ocp.args.StandardSave(state._asdict()),
        data=grain.checkpoint.CheckpointSave(data),
        unlogged=ocp.args.JsonSave({"entries": unlogged}),
    )
    manager.save(step, args=arguments)


def restore(
    manager: ocp.CheckpointManager, like: TrainState, data: grain.DatasetIterator
) -> tuple[TrainState, Unlogged]:
    """The newest state, in the shapes, types and shardings of `like`, and what was not logged; moves `data` too."""
    step = manager.latest_step()
    target = _abstract(like._asdict())
    arguments = ocp.args.Composite(
        state=ocp.args.StandardRestore(target),
        data=grain.checkpoint.CheckpointRestore(data),
        unlogged=ocp.args.JsonRestore(),
    )
    try:
        restored = manager.restore(step, args=arguments)
    except (ValueError, KeyError, TypeError, FileNotFoundError) as error:
        raise _foreign(manager, step) from error
    return TrainState(**restored["state"]), restored["unlogged"]["entries"]


def restore_params(manager: ocp.CheckpointManager, like: TrainState) -> tuple[int, Params]:
    """(step, parameters) of the newest checkpoint. Raises `MemjaxError` if it holds another model."""
    step = manager.latest_step()
    if step is None:
        raise MemjaxError(f"{manager.directory} holds no checkpoint; train the run first")
    try:
        restored = manager.restore(
            step, args=ocp.args.Composite(state=ocp.args.StandardRestore(_abstract(like._asdict())))
        )
    except (ValueError, KeyError, TypeError, FileNotFoundError) as error:
        raise _foreign(manager, step) from error
    return step, restored["state"]["params"]


def _abstract(tree):
    return jax.tree.map(ocp.utils.to_shape_dtype_struct, tree)


def _foreign(manager: ocp.CheckpointManager, step: int | None) -> MemjaxError:
    return MemjaxError(
        f"checkpoint {step} in {manager.directory} is damaged or of another model; "
        "give the run another folder, or delete it to start again"
    )
