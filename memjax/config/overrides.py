"""From the arguments of a command to the settings of a config file. Whatever a user can get wrong becomes one line."""

import contextlib
import runpy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from absl import flags
from ml_collections import ConfigDict, config_flags

from memjax.errors import MemjaxError, one_line, require, unknown

PACKAGE = Path(__file__).parents[1]  # where an installed memjax has its configs
Explain = Callable[[dict[str, Any], str], None]
Complete = Callable[[dict[str, Any]], dict[str, Any]]


def parse_flags(values: flags.FlagValues, arguments: Sequence[str], command: str = "") -> list[str]:
    """The arguments that are no flags; the values of those that are go into `values`."""
    try:
        return values(["memjax", *arguments])[1:]
    except flags.UnrecognizedFlagError as error:
        raise MemjaxError(f"{error}; see memjax {command} --help".replace("  ", " ")) from None
    except (flags.Error, AttributeError, KeyError, TypeError, ValueError) as error:
        raise MemjaxError(f"cannot read the settings: {' '.join(str(error).split())}") from None


def own_flags(values: flags.FlagValues, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments that `values` defines, and the others."""
    known = {*values, *(f"no{name}" for name in values if values[name].boolean)}
    own = [a for a in arguments if a.startswith("-") and a.lstrip("-").partition("=")[0] in known]
    return own, [a for a in arguments if a not in own]


def split_source(arguments: Sequence[str], default: str) -> tuple[str, list[str]]:
    """What `--config=` names, and the other arguments."""
    require("--config" not in arguments, "write --config=FILE.py:VARIANT, with an equals sign")
    sources = [a.split("=", 1)[1] for a in arguments if a.startswith("--config=")]
    require(len(sources) < 2, f"two configs, {' and '.join(sources[:2])}; give one --config=FILE.py:VARIANT")
    return (sources or [default])[0], [a for a in arguments if not a.startswith("--config=")]


def read_overrides(
    source: str, values: flags.FlagValues, arguments: Sequence[str], complete: Complete, explain: Explain
) -> dict[str, Any]:
    """The settings of a config file with `--config.KEY=VALUE` of the arguments.

    Args:
        source: the file, `FILE.py:VARIANT`.
        values: into which other flags go.
        arguments: of the command.
        complete: fills in the defaults of what the file leaves out.
        explain: is given the settings and the name of one that there is not, and may raise a `MemjaxError` that says
            more.

    Raises:
        MemjaxError: for a file that cannot be run, and for arguments that do not fit.
    """
    settings = load_config(source)
    with contextlib.suppress(MemjaxError):  # what is wrong is told when the overrides are in
        settings = ConfigDict(complete(settings.to_dict()))
    return _override(settings, values, arguments, explain, "train")


def override(settings: dict[str, Any], arguments: Sequence[str], explain: Explain) -> dict[str, Any]:
    """Settings with `--config.KEY=VALUE` of the arguments, which hold nothing else."""
    return _override(ConfigDict(settings), flags.FlagValues(), arguments, explain, "")


def _override(
    settings: ConfigDict, values: flags.FlagValues, arguments: Sequence[str], explain: Explain, command: str
) -> dict[str, Any]:
    own, _ = own_flags(values, arguments)
    _check_overrides(settings, [a for a in arguments if a not in own], explain)
    config_flags.DEFINE_config_dict("config", settings, flag_values=values, sys_argv=["memjax", *arguments])
    rest = parse_flags(values, arguments, command)
    for argument in rest:
        require(not argument.partition(":")[0].endswith(".py"), f"write --config={argument}")
    require(not rest, f"this command takes no {' '.join(rest)!r}; see memjax --help")
    return values.config.to_dict()


def locate(file: str) -> Path:
    """The config file as given, or the one of that name that memjax came with."""
    located = next((path for path in (Path(file), PACKAGE.parent / file, PACKAGE / file) if path.is_file()), None)
    if located is None or located.suffix != ".py":
        what = f"no config file {file}" if located is None and file else f"--config={file} names no .py file"
        raise MemjaxError(f"{what}; give --config=FILE.py:VARIANT, such as configs/evidence.py:demo")
    return located


def load_config(source: str) -> ConfigDict:
    """Runs a config file, `FILE.py:VARIANT`."""
    file, _, arg = source.partition(":")
    located = locate(file)
    try:
        get_config = runpy.run_path(str(located)).get("get_config")
        if not callable(get_config):
            raise MemjaxError(f"config file {file} has no function get_config; see configs/evidence.py")
        settings = get_config(arg) if arg else get_config()
    except MemjaxError:
        raise
    except Exception as error:  # the file is the user's: whatever it raises is theirs to read
        raise MemjaxError(f"config file {file} fails: {type(error).__name__}: {one_line(error)}") from error
    require(isinstance(settings, ConfigDict), f"get_config() of {file} must return a ConfigDict")
    return settings


def _check_overrides(settings: ConfigDict, arguments: Sequence[str], explain: Explain) -> None:
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
        if name in groups:
            keys = [key.removeprefix(f"{name}.") for key in known if key.startswith(f"{name}.")]
            raise MemjaxError(f"{name} is a group of settings; write --{name}.KEY=VALUE with one of {', '.join(keys)}")
        same = [key for key in known if key == f"config.{name}" or ("." not in name and key.endswith(f".{name}"))]
        if same:
            raise MemjaxError(f"unknown option --{name}; did you mean --{' or --'.join(same)}?")
        if name in known and hasattr(ConfigDict, name.rpartition(".")[2]):
            raise MemjaxError(
                f"--{name} cannot be given: a ConfigDict has a method of this name; set it in the config file, or call "
                "the field otherwise"
            )
        if name.startswith("config.") and name not in known:
            explain(settings.to_dict(), name)
            raise unknown("setting", name, known)
