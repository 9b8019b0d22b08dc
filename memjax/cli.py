"""The command line: train, evaluate, report, prepare. Thin; everything behind it can be imported."""

import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from absl import flags, logging
from ml_collections import ConfigDict, config_flags
from rich.console import Console

import memjax
from memjax import memories
from memjax.config import AnyConfig, Config, from_mapping
from memjax.errors import MemjaxError, require, unknown

USAGE = """\
memjax train    [--config=configs/FILE.py:VARIANT] [--config.KEY=VALUE ...] [--run=FOLDER] [--data_dir=FOLDER]
memjax evaluate RUN ...
memjax report   RUN ... [--out=FOLDER]
memjax prepare  babi --from=ARCHIVE --data_dir=FOLDER [--extra=FOLDER_NAME=FILE ...]

train     trains what the config describes, then tests it and writes a report into the run folder; the same command
          again goes on where it was stopped. Without --config: the evidence task's demo.
evaluate  tests the newest checkpoint of each run again.
report    a table in the terminal, and a page with plots; several runs side by side.
prepare   reads bAbI's archive (or a folder of its files) into a form that is quick to load. --extra adds one file
          that the archive lacks, such as --extra=en-10k=qa3_three-supporting-facts_train.txt.
"""

TOO_LARGE = (
    "this does not fit into memory; lower config.training.batch_size, config.model.width, config.memory.slots "
    "or the sizes in config.task and config.rehearsal"
)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns the exit status: 0, or 2 after one line about what the user can mend."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    commands: dict[str, Callable[[list[str]], None]] = {
        "evaluate": _evaluate,
        "prepare": _prepare,
        "report": _report,
        "train": _train,
    }
    if not arguments or arguments[0] == "help" or {"-h", "--help"} & set(arguments):
        print(USAGE)
        return 0
    if arguments[0] == "--version":
        print(memjax.__version__)
        return 0
    logging.set_verbosity(logging.ERROR)
    if not flags.FLAGS.is_parsed():
        flags.FLAGS.mark_as_parsed()  # grain reads absl's flags, and they are not ours
    try:
        if arguments[0] not in commands:
            raise unknown("command", arguments[0], commands)
        commands[arguments[0]](arguments[1:])
    except MemjaxError as error:
        print(f"memjax: {error}", file=sys.stderr)
        return 2
    except (MemoryError, OverflowError, RuntimeError) as error:
        # Of JAX's errors of one class, this word tells the one that sizes cause.
        if isinstance(error, RuntimeError) and "RESOURCE_EXHAUSTED" not in str(error):
            raise
        print(f"memjax: {TOO_LARGE}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("memjax: interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        return 130
    return 0


def read_settings(arguments: list[str]) -> tuple[AnyConfig, Path]:
    """What the arguments of `memjax train` describe: the config, and the run folder."""
    values = flags.FlagValues()
    flags.DEFINE_string("run", None, "where the run is kept", flag_values=values)
    flags.DEFINE_string("data_dir", None, "where prepared data lies", flag_values=values)
    sources = [a.split("=", 1)[1] for a in arguments if a.startswith("--config=")]
    require(len(sources) < 2, f"two configs, {' and '.join(sources[:2])}; give one --config=FILE.py:VARIANT")
    source = sources[0] if sources else "configs/evidence.py:demo"
    arguments = [a for a in arguments if not a.startswith("--config=")]
    require("--config" not in arguments, "write --config=FILE.py:VARIANT, with an equals sign")
    settings = _load_config(source)
    _check_overrides(settings, arguments)
    config_flags.DEFINE_config_dict("config", settings, flag_values=values, sys_argv=["memjax", *arguments])
    rest = _parse(values, arguments)
    require(not rest, f"train takes no {' '.join(rest)!r}; see memjax --help")
    settings = values.config
    if values.data_dir is not None:
        require(
            "data_dir" in settings.task, f"--data_dir is not for the {settings.task.name} task, which needs no data"
        )
        settings.task.data_dir = values.data_dir
    require(values.run != "", "--run= is empty; give it a folder, or leave it out")
    name = Path(source.partition(":")[0]).stem + "-" + (source.partition(":")[2] or "default")
    folder = Path(values.run or Path("runs") / name.replace(",", "-").replace("=", "-"))
    return from_mapping(settings.to_dict()), folder


def _train(arguments: list[str]) -> None:
    from memjax.training import experiment

    config, folder = read_settings(arguments)
    console = _console()
    prepared = experiment.prepare(config)
    console.print(f"[bold]{prepared.label}[/bold] on {experiment.task_name(config)}, in {folder}")
    for note in prepared.task.notes:
        console.print(f"note: {note}")
    experiment.train(prepared, folder, console)
    experiment.evaluate(prepared, folder)
    _write_report([folder, *_yardsticks(folder, config)], folder, console)


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
    rest = _parse(values, arguments)
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
    console.print(f"report: {page}", soft_wrap=True)


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
    rest = _parse(values, arguments)
    require(rest, "name at least one run folder, such as runs/evidence-demo")
    return [Path(folder) for folder in rest]


def _parse(values: flags.FlagValues, arguments: list[str]) -> list[str]:
    """The arguments that are no flags. Whatever a user can get wrong in a flag becomes one line."""
    try:
        return values(["memjax", *arguments])[1:]
    except flags.UnrecognizedFlagError as error:
        raise MemjaxError(f"{error}; see memjax --help") from None
    except (flags.Error, AttributeError, KeyError, TypeError, ValueError) as error:
        raise MemjaxError(f"cannot read the settings: {_line(error)}") from None


def _load_config(source: str) -> ConfigDict:
    """Runs the config file as given, or the one of that name that memjax came with."""
    file, _, arg = source.partition(":")
    package = Path(memjax.__file__).parent
    candidates = (Path(file), package.parent / file, package / file)
    located = next((path for path in candidates if path.is_file()), None)
    hint = "give --config=FILE.py:VARIANT, such as configs/evidence.py:demo"
    require(located is not None and located.suffix == ".py", f"no config file {file}; {hint}")
    try:
        get_config = runpy.run_path(str(located)).get("get_config")
        if not callable(get_config):
            raise MemjaxError(f"config file {file} has no function get_config; see configs/evidence.py")
        settings = get_config(arg) if arg else get_config()
    except MemjaxError:
        raise
    except Exception as error:  # the file is the user's: whatever it raises is theirs to read
        raise MemjaxError(f"config file {file} fails: {type(error).__name__}: {_line(error)}") from error
    require(isinstance(settings, ConfigDict), f"get_config() of {file} must return a ConfigDict")
    return settings


def _check_overrides(settings: ConfigDict, arguments: list[str]) -> None:
    known, groups = [], []

    def walk(group: ConfigDict, path: str) -> None:
        for key, value in group.items():
            known.append(f"{path}.{key}")
            if isinstance(value, ConfigDict):
                groups.append(known.pop())
                walk(value, groups[-1])

    walk(settings, "config")
    for argument in arguments:
        name = argument.lstrip("-").partition("=")[0]
        group, _, size = name.rpartition(".")
        if name in groups:
            keys = [key.removeprefix(f"{name}.") for key in known if key.startswith(f"{name}.")]
            raise MemjaxError(f"{name} is a group of settings; write --{name}.KEY=VALUE with one of {', '.join(keys)}")
        if group == "config.memory" and group in groups and name not in known:
            memories.check_size(settings.memory.get("name"), size)
        if name.startswith("config.") and name not in known:
            raise unknown("setting", name, known)


def _console() -> Console:
    """The terminal; what is no terminal has room for every table."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, 240))


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


if __name__ == "__main__":
    sys.exit(main())
