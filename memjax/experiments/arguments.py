"""From the arguments of a command to a config of a family and a run folder."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags

from memjax import memories
from memjax.config.overrides import read_overrides, split_source
from memjax.errors import require
from memjax.experiments.reading import from_mapping, resolved

DEFAULT = "configs/evidence.py:demo"


def read_settings(arguments: Sequence[str]) -> tuple[Any, Path]:
    """What the arguments of `memjax train` describe.

    Returns:
        The config, and the run folder.

    Raises:
        MemjaxError: for arguments that describe none.
    """
    values = flags.FlagValues()
    flags.DEFINE_string("run", None, "where the run is kept", flag_values=values)
    flags.DEFINE_string("data_dir", None, "where prepared data lies", flag_values=values)
    source, rest = split_source(arguments, DEFAULT)
    settings = read_overrides(source, values, rest, resolved, explain)
    place_data(settings, values.data_dir)
    require(values.run != "", "--run= is empty; give it a folder, or leave it out")
    name = Path(source.partition(":")[0]).stem + "-" + (source.partition(":")[2] or "default")
    folder = Path(values.run or Path("runs") / re.sub("[,=/]", "-", name))  # a variant may be a path
    return from_mapping(settings), folder


def place_data(settings: dict[str, Any], data_dir: str | None) -> None:
    """Puts the folder of `--data_dir` into the settings of a task, as another working directory finds it too."""
    task = settings["task"]
    require(
        data_dir is None or "data_dir" in task, f"--data_dir is not for the {task['name']} task, which needs no data"
    )
    if "data_dir" in task and (data_dir or task["data_dir"]):
        task["data_dir"] = str(Path(data_dir or task["data_dir"]).absolute())


def explain(settings: dict[str, Any], name: str) -> None:
    """Says of a setting that there is not whether other memories have it."""
    group, _, size = name.rpartition(".")
    if group == "config.memory" and isinstance(settings.get("memory"), dict):
        memories.check_size(settings["memory"].get("name"), size)
