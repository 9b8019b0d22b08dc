"""The command line: train, evaluate, report, prepare. Thin; everything behind it can be imported."""

import _thread
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import jax
from absl import flags, logging
from rich.console import Console

import memjax
from memjax import memories, program
from memjax.arguments import parse_flags, read_launch, read_settings
from memjax.config import AnyConfig, Config
from memjax.errors import TOO_LARGE, Interrupted, MemjaxError, Preempted, is_too_large, one_line, require, unknown
from memjax.program import INTERRUPTED

if TYPE_CHECKING:
    from memjax.training.compare import Planned

USAGE = """\
memjax train    [--config=configs/FILE.py:VARIANT] [--config.KEY=VALUE ...] [--run=FOLDER] [--data_dir=FOLDER]
                [--compile_cache=FOLDER] [--profile] [--distributed | --coordinator= --num_processes= --process_id=]
memjax compare  --config=configs/FILE.py:VARIANT [--memories=all] [--seeds=1] [--rehearsal=both] [--run=FOLDER]
                [--config.KEY=VALUE ...] [--data_dir=FOLDER]
memjax evaluate RUN ...
memjax report   RUN ... [--out=FOLDER]
memjax prepare  babi --from=ARCHIVE --data_dir=FOLDER [--extra=FOLDER_NAME=FILE ...]

train     trains what the config describes, then tests it and writes a report into the run folder; the same command
          again goes on where it was stopped. Without --config: the evidence task's demo. --config.mesh.fsdp=4 and so on
          say how devices share the work. Of several processes, on one host or many, each is given the same command with
          --distributed, where TPU VMs, Slurm, Kubernetes or MPI tell them of each other; or the first one's HOST:PORT,
          their number, and which this one is. --profile writes a trace of some steps into the run folder,
          --compile_cache keeps compiled programs for the next time.
compare   trains several memories in turn, each with and without rehearsal, and puts them into one table and one page. A
          finished run is not run again. --memories=dnc,ntm picks some, --rehearsal=with or without one kind.
evaluate  tests the newest checkpoint of each run again.
report    a table in the terminal, and a page with plots; several runs side by side.
prepare   reads bAbI's archive (or a folder of its files) into a form that is quick to load. --extra adds one file
          that the archive lacks, such as --extra=en-10k=qa3_three-supporting-facts_train.txt.
"""

# What --rehearsal of `compare` picks: what it adds to a row's name, and to its settings.
WITH: dict[str, list[str]] = {"": []}
WITHOUT = {" without rehearsal": ["--config.rehearsal.fragments=0"]}
KINDS = {"both": WITH | WITHOUT, "with": WITH, "without": WITHOUT}
TERMINATED = 143  # of what was ended by SIGTERM: not 0, for the run is to be started again
UNREAD = 141  # of what printed more than was read, as SIGPIPE's


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status: 0, or 2 after one line about what the user can mend."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        return _run(arguments)
    except MemjaxError as error:
        print(f"memjax: {error}", file=sys.stderr)
        return 2
    except (BrokenPipeError, program.Unread):
        program.drop_output()
        return UNREAD


def _run(arguments: list[str]) -> int:
    if not arguments or arguments[0] == "help" or {"-h", "--help"} & set(arguments):
        print(USAGE, flush=True)
        return 0
    if arguments[0] == "--version":
        print(memjax.__version__, flush=True)
        return 0
    commands: dict[str, Callable[[list[str]], None]] = {
        "compare": _compare,
        "evaluate": _evaluate,
        "prepare": _prepare,
        "report": _report,
        "train": _train,
    }
    logging.set_verbosity(logging.FATAL)  # what damage is to Orbax, we say in a line of ours
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()  # grain reads absl's flags, and they are not ours
    try:
        if arguments[0] not in commands:
            raise unknown("command", arguments[0], commands)
        commands[arguments[0]](arguments[1:])
    except (AssertionError, MemoryError, OverflowError, RuntimeError) as error:
        if not isinstance(error, AssertionError) and is_too_large(error):
            raise MemjaxError(TOO_LARGE) from None
        _require_devices()
        raise
    except Interrupted as error:
        print(f"memjax: interrupted; {error}, and the same command goes on from there", file=sys.stderr)
        return INTERRUPTED
    except KeyboardInterrupt:
        print("memjax: interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        return INTERRUPTED
    except Preempted as error:
        print(f"memjax: asked to stop; {error}, and the same command goes on from there", file=sys.stderr)
        return TERMINATED
    return 0


def _train(arguments: list[str]) -> None:
    from memjax.training import experiment, runs
    from memjax.training.processes import by_first, is_first, join

    launch, arguments = read_launch(arguments)
    join(**launch.processes)
    if launch.compile_cache:
        experiment.keep_compiled(launch.compile_cache)
    config, folder = read_settings(arguments)
    console = _console(quiet=not is_first())
    by_first(lambda: runs.holds(folder, config))  # before the task is made, which may take a minute
    prepared = experiment.prepare(config)
    console.out(prepared.label, style="bold", end="")
    console.out(f" on {experiment.task_name(config)}, in {folder}")
    for note in prepared.task.notes:
        console.out(f"note: {note}")
    experiment.train(prepared, folder, console, launch.profile)
    experiment.evaluate(prepared, folder)
    by_first(lambda: _write_report([folder, *_yardsticks(folder, config)], folder, console))


def _compare(arguments: list[str]) -> None:
    from memjax.reporting import compare, comparison_rows, load_run, print_comparison, write_report
    from memjax.training.compare import check_all, is_finished, train_all
    from memjax.training.runs import write_json

    values = flags.FlagValues()
    flags.DEFINE_string("memories", "all", "names, with commas, or all", flag_values=values)
    flags.DEFINE_integer("seeds", 1, "how many seeds, from 0", flag_values=values, lower_bound=1)
    flags.DEFINE_enum("rehearsal", "both", list(KINDS), "which kind", flag_values=values)
    flags.DEFINE_string("run", "runs/compared", "the folder of all the runs", flag_values=values)
    own = [a for a in arguments if a.lstrip("-").partition("=")[0] in ("memories", "seeds", "rehearsal", "run")]
    parse_flags(values, own)
    require(values.run, "--run= is empty; give it a folder, or leave it out")
    plan = _plan(values, [a for a in arguments if a not in own])
    console, folder = _console(), Path(values.run)
    check_all(plan)
    try:
        train_all(plan, console)
    finally:
        tested = [planned for planned in plan if is_finished(planned)]
        if tested:
            rows = {p.row: [load_run(q.folder) for q in tested if q.row == p.row] for p in tested}
            found = compare(rows)
            write_json(folder / "comparison.json", found)
            compared = comparison_rows(found)
            print_comparison(compared, console)
            # A line for each row, in the plots: that of its first seed.
            page = write_report([row[0] for row in rows.values()], folder, comparison=compared)
            console.out(f"report: {page}")


def _plan(values: flags.FlagValues, arguments: list[str]) -> list["Planned"]:
    """All runs of a comparison, their configs read and checked."""
    from memjax.training.compare import Planned

    sources = [a for a in arguments if a.startswith("--config=")] or ["--config=configs/evidence.py:small"]
    names = list(memories.registry) if values.memories == "all" else [n for n in values.memories.split(",") if n]
    require(names, "--memories= is empty; name some, or write all")
    for setting in ("memory.name", "training.seed", "system"):
        given = any(a.startswith(f"--config.{setting}") for a in arguments)
        require(not given, f"compare sets config.{setting} itself; see --memories and --seeds")
    asked, _ = read_settings([sources[0]])
    require(isinstance(asked, Config), "compare is for tasks that ask a memory; see configs/evidence.py")
    plan = []
    for name in dict.fromkeys(names):
        if name not in memories.registry:
            raise unknown("memory", name, memories.registry)
        for kind, overrides in KINDS[values.rehearsal].items():
            for seed in range(values.seeds):
                variant = f"{sources[0]}{',' if ':' in sources[0] else ':'}memory={name},seed={seed}"
                rest = [a for a in arguments if a != sources[0]]
                config, _ = read_settings([variant, *rest, *overrides])
                wanted = isinstance(config, Config) and config.rehearses != bool(kind)
                require(wanted, "with these settings nothing is rehearsed; say --rehearsal=without")
                folder = Path(values.run) / f"{name + kind.replace(' ', '-')}-{seed}"
                plan.append(Planned(name + kind, seed, config, folder))
    return plan


def _evaluate(arguments: list[str]) -> None:
    from memjax.reporting import load_run, print_table
    from memjax.training import experiment, runs

    folders = _runs(arguments, flags.FlagValues())
    for folder in folders:
        experiment.evaluate(experiment.prepare(runs.read_config(folder)), folder)
    print_table([load_run(folder) for folder in folders], _console())


def _report(arguments: list[str]) -> None:
    values = flags.FlagValues()
    flags.DEFINE_string("out", None, "where the page and the plots go", flag_values=values)
    folders = _runs(arguments, values)
    out = values.out or (folders[0] if len(folders) == 1 else Path("runs") / "report")
    _write_report(folders, Path(out), _console())


def _prepare(arguments: list[str]) -> None:
    values = flags.FlagValues()
    flags.DEFINE_string("from", None, "an archive, or a folder of files", flag_values=values)
    flags.DEFINE_string("data_dir", "data", "where the prepared data goes", flag_values=values)
    flags.DEFINE_multi_string("extra", [], "FOLDER_NAME=FILE that the archive lacks", flag_values=values)
    rest = parse_flags(values, arguments)
    require(rest == ["babi"], "say what to prepare: memjax prepare babi --from=ARCHIVE --data_dir=FOLDER")
    from memjax.tasks.builders import babi

    source = getattr(values, "from")
    require(source, f"name {babi.ARCHIVE}, or a folder of its files: memjax prepare babi --from=ARCHIVE")
    extra = {}
    for pair in values.extra:
        name, equals, file = pair.partition("=")
        require(equals, f"--extra={pair} must be FOLDER_NAME=FILE")
        extra[name] = file
    for folder, split, stories, questions in babi.prepare(source, values.data_dir, extra=extra):
        print(f"{folder:<14} {split:<6} {len(questions):>3} tasks {sum(stories.values()):>7,} stories", end="")
        print(f" {sum(questions.values()):>8,} questions")


def _write_report(folders: list[Path], out: Path, console: Console) -> None:
    from memjax.reporting import load_run, print_table, write_report

    loaded = [load_run(folder) for folder in folders]
    print_table(loaded, console)
    try:
        page = write_report(loaded, out)
    except OSError as error:
        raise MemjaxError(f"cannot write the report to {out}: {error.strerror}; give another folder") from None
    console.out(f"report: {page}")


def _yardsticks(folder: Path, config: AnyConfig) -> list[Path]:
    """Whole runs beside this one that read the same task's stream directly: they stand in its table."""
    from memjax.training import runs

    found = []
    for path in sorted(folder.resolve().parent.glob("*/evaluation.json")):
        try:
            other, whole = runs.read_config(path.parent), runs.is_whole(path.parent)
        except MemjaxError:
            continue
        reads_directly = isinstance(other, Config) and other.system != "memory"
        if whole and reads_directly and other.task == config.task and path.parent != folder.resolve():
            found.append(path.parent)
    return found


def _runs(arguments: list[str], values: flags.FlagValues) -> list[Path]:
    rest = parse_flags(values, arguments)
    require(rest, "name at least one run folder, such as runs/evidence-demo")
    return [Path(folder) for folder in rest]


def _console(quiet: bool = False) -> Console:
    """The terminal; what is no terminal has room for every table."""
    console = Console(quiet=quiet)
    return console if console.is_terminal else Console(width=max(console.width, 240), quiet=quiet)


def _require_devices() -> None:
    """Raises `MemjaxError` where JAX is told to use devices that are not here."""
    try:
        jax.devices()
    except (AssertionError, RuntimeError) as error:
        asked, reason = os.environ.get("JAX_PLATFORMS", ""), one_line(error) or "it has no plugin for them"
        raise MemjaxError(
            f"JAX has no devices for JAX_PLATFORMS={asked} ({reason}); set JAX_PLATFORMS=cpu, or install its plugin"
        ) from None


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Ctrl-C. What is raised in JAX's callback of the garbage collector is swallowed: there it comes a little later."""
    del number
    if frame is not None and frame.f_code.co_name == "_xla_gc_callback":
        threading.Timer(0.1, _thread.interrupt_main).start()
        return
    raise KeyboardInterrupt


def run() -> NoReturn:
    """The program: `main`, and the end of the process."""
    signal.signal(signal.SIGINT, _interrupt)
    program.guard_streams()
    program.leave_at_the_second_interrupt()
    program.quiet_threads()
    status = main()
    try:
        sys.stdout.flush()
    except program.Unread:
        status = UNREAD
        program.drop_output()
    except MemjaxError as error:
        if not status:  # else it was told
            print(f"memjax: {error}", file=sys.stderr)
        status = status or 2
        program.drop_output()
    if status == INTERRUPTED:
        # At once: XLA's threads that still compile would crash an interpreter that is taken down around them.
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    run()
