"""Where arrays lie: one mesh of all devices, batches split over its data axis, parameters whole on each."""

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from memjax.errors import require
from memjax.typing import PyTree


def make_mesh(batch_size: int) -> Mesh:
    """All devices along one axis, "data". The batch must divide evenly over them."""
    devices = jax.device_count()
    require(
        batch_size % devices == 0,
        f"config.training.batch_size {batch_size} must be a multiple of the {devices} devices",
    )
    return jax.make_mesh((devices,), ("data",), axis_types=(AxisType.Auto,))


def replicated(mesh: Mesh) -> NamedSharding:
    """Whole on every device."""
    return NamedSharding(mesh, PartitionSpec())


def split(mesh: Mesh) -> NamedSharding:
    """Leading axis split over the data axis."""
    return NamedSharding(mesh, PartitionSpec("data"))


def place_batch(mesh: Mesh, batch: dict[str, np.ndarray] | np.ndarray) -> PyTree:
    """This process's rows of a batch as arrays over the whole mesh."""
    return jax.tree.map(lambda x: jax.make_array_from_process_local_data(split(mesh), x), batch)
