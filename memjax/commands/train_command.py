"""`memjax train`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from absl import flags
from etils import epath

from memjax.commands.shared import command_line, define_compile_cache, keep_compiled, make_console, report
from memjax.config.overrides import own_flags, parse_flags
from memjax.errors import MemjaxError, require
from memjax.experiments.arguments import read_settings
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import family_of, read_config, resolved, to_mapping
from memjax.reporting import load_run
from memjax.training import checkpoint, experiment, runs
from memjax.training.processes import by_first, everywhere, is_first, join, together

USAGE = """\
memjax train [--config=configs/FILE.py:VARIANT] [--config.KEY=VALUE ...] [--run=FOLDER] [--data_dir=FOLDER]
             [--compile_cache=FOLDER|off] [--profile] [--plugin=MODULE ...]
             [--distributed | --coordinator=HOST:PORT --num_processes=N --process_id=I]

Trains what the config describes, then tests it and writes a report into the run folder. The same command again goes on
where it was stopped. Without --config: the evidence task's demo.

  --config.KEY=VALUE   one setting, such as --config.training.steps=2000; `memjax list` says what configs there are
  --run                where the run is kept; else runs/, by the names of config and variant
  --data_dir           where data lies that `memjax prepare` has made, or the files that the config names
  --compile_cache      where compiled programs are kept for the next time; off: nowhere. Else the user's cache folder
  --profile            writes a trace of some steps into the run folder
  --plugin             a module that registers a task or a memory of your own
  --config.mesh.fsdp=4 and so on say how devices share the work. Of several processes, on one host or many, each is
                       given the same command with --distributed, where TPU VMs, Slurm, Kubernetes or MPI tell them of
                       each other; or the first one's HOST:PORT, their number, and which this one is

Several seeds: `memjax compare --seeds=3`.
"""


def run(arguments: Sequence[str]) -> None:
    """Runs the command."""
    launch, arguments = _read_launch(arguments)
    join(launch.distributed, launch.coordinator, launch.num_processes, launch.process_id)
    with together():
        _train(launch, arguments)


def _train(launch: flags.FlagValues, arguments: Sequence[str]) -> None:
    keep_compiled(launch)
    config, folder = everywhere(lambda: read_settings(arguments))
    console = make_console(quiet=not is_first())
    place = checkpoint.place(folder, config.training.checkpoints)
    by_first(lambda: _check_folder(config, place, folder))  # before the task is made, which may take a minute
    prepared = everywhere(lambda: prepare(config))
    console.out(prepared.recipe.label, style="bold", end="")
    console.out(f" on {prepared.task_name}, in {folder}")
    for note in (*prepared.task.notes, *prepared.recipe.notes):
        console.out(f"note: {note}")
    experiment.train(prepared, folder, console, launch.profile)
    experiment.evaluate(prepared, folder, command=command_line())
    by_first(lambda: report([folder, *yardsticks(folder, config)], folder, console))


def _check_folder(config: Any, place: epath.Path, folder: Path) -> None:
    """Raises `MemjaxError` for a folder that holds another run, and for checkpoints that are out of reach."""
    with checkpoint.reaching(place):
        runs.check_changes(to_mapping(config), resolved, place, folder)


def yardsticks(folder: Path, config: Any) -> list[Path]:
    """Whole runs beside this one, on the same task, of systems that the family's tables are to have."""
    found, systems = [], family_of(to_mapping(config)["task"]["name"]).yardsticks
    for path in sorted(folder.resolve().parent.glob("*/evaluation.json")):
        try:
            other, whole = read_config(path.parent), runs.is_whole(path.parent)
            if whole and other.system in systems and other.task == config.task and path.parent != folder.resolve():
                load_run(path.parent)  # what is damaged there is not this run's matter
                found.append(path.parent)
        except MemjaxError:
            continue
    return found


def _read_launch(arguments: Sequence[str]) -> tuple[flags.FlagValues, list[str]]:
    """How the command was started, and the rest of its arguments."""
    values = flags.FlagValues()
    flags.DEFINE_boolean("distributed", False, "one of several processes", flag_values=values)
    flags.DEFINE_string("coordinator", None, "HOST:PORT of the first of them", flag_values=values)
    flags.DEFINE_integer("num_processes", None, "how many", flag_values=values, lower_bound=1)
    flags.DEFINE_integer("process_id", None, "which", flag_values=values, lower_bound=0)
    define_compile_cache(values)
    flags.DEFINE_boolean("profile", False, "write a trace", flag_values=values)
    several = any(a.lstrip("-").partition("=")[0] in ("seeds", "seed") for a in arguments)
    require(not several, "train takes one seed, --config.training.seed=N; for several: memjax compare --seeds=N")
    own, rest = own_flags(values, arguments)
    parse_flags(values, own, "train")
    return values, rest
