"""From the arguments of a command to a config and a run folder. Whatever a user can get wrong becomes one line."""

import runpy
from pathlib import Path
from typing import Any, NamedTuple

from absl import flags
from ml_collections import ConfigDict, config_flags

from memjax import memories
from memjax.config import AnyConfig, from_mapping
from memjax.errors import MemjaxError, require, unknown


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
    rest = parse_flags(values, arguments)
    require(not rest, f"this command takes no {' '.join(rest)!r}; see memjax --help")
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


class Launch(NamedTuple):
    """How `memjax train` was started: which of several processes it is (see `training.processes.join`), the folder of
    compiled programs, whether to profile.
    """

    processes: dict[str, Any]
    compile_cache: str | None
    profile: bool


def read_launch(arguments: list[str]) -> tuple[Launch, list[str]]:
    """How the command was started, and the rest of its arguments."""
    values = flags.FlagValues()
    flags.DEFINE_boolean("distributed", False, "one of several processes", flag_values=values)
    flags.DEFINE_string("coordinator", None, "HOST:PORT of the first of them", flag_values=values)
    flags.DEFINE_integer("num_processes", None, "how many", flag_values=values, lower_bound=1)
    flags.DEFINE_integer("process_id", None, "which", flag_values=values, lower_bound=0)
    flags.DEFINE_string("compile_cache", None, "keep compiled programs here", flag_values=values)
    flags.DEFINE_boolean("profile", False, "write a trace", flag_values=values)
    known = {*values, *(f"no{name}" for name in ("distributed", "profile"))}
    own = [a for a in arguments if a.startswith("-") and a.lstrip("-").partition("=")[0] in known]
    parse_flags(values, own)
    require(values.compile_cache != "", "--compile_cache= is empty; give it a folder, or leave it out")
    names = "distributed", "coordinator", "num_processes", "process_id"
    launch = Launch({name: values[name].value for name in names}, values.compile_cache, values.profile)
    return launch, [a for a in arguments if a not in own]


def parse_flags(values: flags.FlagValues, arguments: list[str]) -> list[str]:
    """The arguments that are no flags; the values of those that are go into `values`."""
    try:
        return values(["memjax", *arguments])[1:]
    except flags.UnrecognizedFlagError as error:
        raise MemjaxError(f"{error}; see memjax --help") from None
    except (flags.Error, AttributeError, KeyError, TypeError, ValueError) as error:
        raise MemjaxError(f"cannot read the settings: {_line(error)}") from None


def _load_config(source: str) -> ConfigDict:
    """Runs the config file as given, or the one of that name that memjax came with."""
    file, _, arg = source.partition(":")
    package = Path(__file__).parent
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


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
