"""`memjax compare`."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from absl import flags

from memjax.commands.shared import define_compile_cache, keep_compiled, make_console
from memjax.config.overrides import own_flags, parse_flags, split_source
from memjax.errors import require, unknown
from memjax.experiments.arguments import read_settings
from memjax.experiments.comparing import Planned, check_all, is_finished, train_all
from memjax.experiments.family import Compared
from memjax.experiments.reading import family_of, to_mapping
from memjax.reporting import compare, comparison_rows, load_run, notes, print_comparison, write_report
from memjax.training.runs import write_json

USAGE = """\
memjax compare [--config=configs/FILE.py:VARIANT] [--of=all] [--seeds=1] [--rehearsal=both] [--run=FOLDER]
               [--config.KEY=VALUE ...] [--data_dir=FOLDER] [--compile_cache=FOLDER|off] [--plugin=MODULE ...]

Trains several systems in turn and puts them into one table and one page. A finished run is not run again. Without
--config: memories on the evidence task, configs/evidence.py:small.

  --of             which: all, or names with commas. Memories (--of=dnc,ntm) for tasks that ask a memory; layers for
                   sequences (--of=lmm,mag), cells for algorithmic tasks, policies for retention, spans and mazes.
                   --memories is another name for it
  --rehearsal      with, without, or both: of memories, each is trained with and without rehearsal
  --seeds          how many seeds, from 0
  --run            the folder of all the runs, the table and the page; else runs/compared-CONFIG-VARIANT
  --compile_cache  where compiled programs are kept for the next time; off: nowhere. Else the user's cache folder
"""
OLD_NAME = "memories"
SMALL = "configs/evidence.py:small"


def run(arguments: Sequence[str]) -> None:
    """Runs the command."""
    values = flags.FlagValues()
    flags.DEFINE_string("of", "all", "names, with commas, or all", flag_values=values)
    flags.DEFINE_integer("seeds", 1, "how many seeds, from 0", flag_values=values, lower_bound=1)
    flags.DEFINE_enum("rehearsal", None, ["both", "with", "without"], "which kind", flag_values=values)
    flags.DEFINE_string("run", None, "the folder of all the runs", flag_values=values)
    define_compile_cache(values)
    arguments = [a.replace(f"--{OLD_NAME}", "--of", 1) if a.startswith(f"--{OLD_NAME}") else a for a in arguments]
    own, rest = own_flags(values, arguments)
    parse_flags(values, own, "compare")
    require(values.run != "", "--run= is empty; give it a folder, or leave it out")
    keep_compiled(values)
    folder, plan = _plan(values, rest)
    console = make_console()
    check_all(plan)
    new = not folder.exists()
    console.out(f"{len(plan)} runs in {folder}; --of=NAMES trains fewer; stopped, the same command goes on")
    try:
        train_all(plan, console)
    finally:
        tested = [planned for planned in plan if is_finished(planned)]
        if tested:
            rows = {p.row: [load_run(q.folder) for q in tested if q.row == p.row] for p in tested}
            found = compare(rows)
            write_json(folder / "comparison.json", found)
            compared = comparison_rows(found)
            said = notes([run for runs in rows.values() for run in runs])
            print_comparison(compared, console, said)
            # A line for each row, in the plots: that of its first seed.
            page = write_report([row[0] for row in rows.values()], folder, comparison=compared, noted=said)
            console.out(f"report: {page}")
        elif new:
            with contextlib.suppress(OSError):
                folder.rmdir()  # no run came to anything, and took its own folder away


def _plan(values: flags.FlagValues, arguments: Sequence[str]) -> tuple[Path, list[Planned]]:
    """The folder of a comparison and all its runs, their configs read and checked."""
    source, rest = split_source(arguments, SMALL)
    first, named = read_settings([f"--config={source}"])
    folder = Path(values.run or named.with_name(f"compared-{named.name}"))
    compared = family_of(to_mapping(first)["task"]["name"]).compared
    changed = {a.lstrip("-").partition("=")[0] for a in arguments}
    for setting in ("memory.name", f"model.{compared.argument}", "training.seed", "system"):
        require(f"config.{setting}" not in changed, f"compare sets config.{setting} itself; see --of and --seeds")
    for setting in (compared.argument, "seed"):
        given = any(part.startswith(f"{setting}=") for part in source.partition(":")[2].split(","))
        require(not given, f"compare sets {setting}= itself; leave it out of {source}; see --of and --seeds")
    known = compared.values()
    names = list(known) if values.of == "all" else [name for name in values.of.split(",") if name]
    require(names, f"--of= is empty; name some of {', '.join(known)}, or write all")
    plan = []
    for name in dict.fromkeys(names):
        if name not in known:
            raise unknown(compared.argument, name, known)
        for kind, overrides in _kinds(compared, values.rehearsal).items():
            for seed in range(values.seeds):
                comma = "," if ":" in source else ":"
                variant = f"--config={source}{comma}{compared.argument}={name},seed={seed}"
                config, _ = read_settings([variant, *rest, *overrides])
                compared.check(config, kind)
                _require_own(to_mapping(config), compared.argument, name, seed, source)
                run = folder / f"{name + kind.replace(' ', '-')}-{seed}"
                plan.append(Planned(name + kind, seed, config, run))
    return folder, plan


def _require_own(settings: Mapping[str, Any], argument: str, name: str, seed: int, source: str) -> None:
    """Raises `MemjaxError` for a config file that does not heed what compare tells it: all rows would be the same."""
    own = settings.get("memory", {}).get("name") if argument == "memory" else settings.get("model", {}).get(argument)
    require(own in (name, None), f"{source} takes no account of {argument}={name}: it has {own}; mend the file")
    trained = settings["training"]["seed"]
    require(trained == seed, f"{source} takes no account of seed={seed}: it has {trained}; mend the file")


def _kinds(compared: Compared, rehearsal: str | None) -> dict[str, tuple[str, ...]]:
    """The kinds of rows that --rehearsal picks: the first one is with it, those behind it are without."""
    kinds = dict(compared.kinds)
    require(len(kinds) > 1 or rehearsal is None, "--rehearsal is for memories, which alone can be rehearsed")
    if rehearsal == "with":
        return dict(list(kinds.items())[:1])
    return dict(list(kinds.items())[1:]) if rehearsal == "without" else kinds
