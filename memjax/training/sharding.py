"""Where arrays lie: the mesh of all devices, and how batches and states are put on it. The rules: placement.py."""

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from memjax.config import MeshConfig
from memjax.errors import require
from memjax.training.placement import spec_of
from memjax.typing import Batch, PyTree

ROWS = ("data", "fsdp")  # the rows of a batch are split over both


def make_mesh(config: MeshConfig, batch_size: int) -> Mesh:
    """All devices along the axes that the config says.

    Args:
        config: the axes.
        batch_size: must be a multiple of the devices along data and fsdp.

    Raises:
        MemjaxError: for axes that do not fit the devices, and for a batch that does not divide evenly.
    """
    sizes = axis_sizes(config, jax.device_count())
    mesh = jax.make_mesh(tuple(sizes.values()), tuple(sizes), axis_types=(AxisType.Auto,) * len(sizes))
    parts = row_parts(mesh)
    require(
        batch_size % parts == 0,
        f"config.training.batch_size {batch_size} must be a multiple of {parts}, the devices along data and fsdp",
    )
    require(
        parts % jax.process_count() == 0 or jax.process_count() % parts == 0,
        f"{parts} parts of a batch cannot be shared out evenly to {jax.process_count()} processes; change config.mesh",
    )
    return mesh


def axis_sizes(config: MeshConfig, devices: int) -> dict[str, int]:
    """The size of each axis, outermost first. Axes with the most traffic come last: their devices are neighbours."""
    sizes = {"data": config.data, "fsdp": config.fsdp, "sequence": config.sequence, "model": config.model}
    given = math.prod(size for size in sizes.values() if size != -1)
    wanted = ", ".join(f"{name}={size}" for name, size in sizes.items())
    fits = devices % given == 0 if -1 in sizes.values() else devices == given
    require(fits, f"config.mesh ({wanted}) does not fit the {devices} devices that there are")
    return {name: devices // given if size == -1 else size for name, size in sizes.items()}


def row_parts(mesh: Mesh) -> int:
    """Into how many parts the rows of a batch are split."""
    return math.prod(mesh.shape[axis] for axis in ROWS)


def replicated(mesh: Mesh) -> NamedSharding:
    """Whole on every device."""
    return NamedSharding(mesh, PartitionSpec())


def placed(mesh: Mesh, tree: PyTree) -> PyTree:
    """The sharding of each parameter, or of whatever has a parameter's path and shape, as an optimizer's moments."""

    def one(path, leaf):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        return NamedSharding(mesh, PartitionSpec(*spec_of(name, jnp.shape(leaf), mesh.shape)))

    return jax.tree.map_with_path(one, tree)


def fsdp_specs(mesh: Mesh, tree: PyTree) -> PyTree:
    """Where each parameter is cut over fsdp, and nothing else."""
    return jax.tree.map(
        lambda place: PartitionSpec(*(axis if axis == "fsdp" else None for axis in place.spec)), placed(mesh, tree)
    )


def fetch(mesh: Mesh, tree: PyTree) -> PyTree:
    """A tree that lies on the mesh, whole on the first device of every process."""
    # By way of the host: `jnp.asarray` would compile a program for each shape.
    return jax.device_put(jax.device_get(jax.jit(lambda tree: tree, out_shardings=replicated(mesh))(tree)))


def rows_here(mesh: Mesh, batch_size: int) -> slice:
    """The rows of a batch that this process's devices hold."""
    sharding = NamedSharding(mesh, PartitionSpec(ROWS))
    parts = sharding.addressable_devices_indices_map((batch_size,)).values()
    bounds = [index[0].indices(batch_size) for index in parts if index]
    return slice(min(start for start, _, _ in bounds), max(stop for _, stop, _ in bounds))


def place_batch(mesh: Mesh, batch: Batch, batch_size: int, segmented: Sequence[str] = ()) -> dict[str, jax.Array]:
    """A batch over the whole mesh: its rows over data and fsdp.

    Args:
        mesh: all devices.
        batch: this process's rows.
        batch_size: rows of all processes.
        segmented: the names of what is split over sequence too, along its second axis, which is padded for that.
    """
    parts = mesh.shape["sequence"]

    def place(name: str, x: np.ndarray) -> jax.Array:
        spec = PartitionSpec(ROWS)
        if parts > 1 and name in segmented:
            # Padding segments write nothing.
            x = np.pad(x, [(0, 0), (0, -x.shape[1] % parts)] + [(0, 0)] * (x.ndim - 2))
            spec = PartitionSpec(ROWS, "sequence")
        return jax.make_array_from_process_local_data(NamedSharding(mesh, spec), x, (batch_size, *x.shape[1:]))

    return {name: place(name, np.asarray(x)) for name, x in batch.items()}
