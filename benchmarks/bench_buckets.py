"""How many steps a second does joint training on bAbI make, with length buckets and without?

    memjax prepare babi --from=ARCHIVE --data_dir=data        once
    python benchmarks/bench_buckets.py --data_dir=data
    python benchmarks/bench_buckets.py --quick                a few made-up stories: does it run?

Both train the same Rehearsal Memory, rehearsal and a history sampler included, on the batches that `memjax train` would
give them, reading and padding included; they differ in `config.training.buckets` alone. Every shape is compiled before.
The two take turns, and ratios are taken turn by turn: what slows the machine for a while slows both. `padded` is how
long the streams of a step are in the mean: what is computed, apart from what a step costs anyway.
"""

import argparse
import importlib.util
import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import timing
from rich.console import Console
from rich.table import Table

from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.tasks.builders import babi
from memjax.tasks.two_facts import large
from memjax.training.data import borders_of, lengths_of, train_batches
from memjax.training.phase import Experiment, initial_state
from memjax.training.sharding import place_batch
from memjax.training.step import make_optimizer, make_step
from memjax.typing import Batch

ROOT = Path(__file__).parents[1]
OFTEN = 8  # steps with buckets for one without: a turn of each takes about as long, and has batches of all buckets
QUICK = {
    "model": {"width": 8},
    "training": {"batch_size": 8},
    "memory": {"slots": 3, "layers": 1},
    "rehearsal": {"fragments": 2, "layers": 1},
}


class Trainer(NamedTuple):
    """A config's training, under way.

    Attributes:
        made: its task, model and losses.
        turn: `turn(steps)` trains so many steps more, and waits for them; the padded length of each.
        shapes: of how many lengths there are batches.
        compile_s: what the first step of each took, most of which is compiling.
    """

    made: Experiment
    turn: Callable[[int], list[int]]
    shapes: list[int]
    compile_s: float


def settings(config: Mapping[str, Any], buckets: int) -> dict[str, Any]:
    """A config, as nested dicts, with another number of buckets."""
    return {**config, "training": {**config["training"], "buckets": buckets}}


def trainer(config: Mapping[str, Any], steps: int) -> Trainer:
    """Begins to train: compiles a step for every length that the first `steps` batches have."""
    made = prepare(from_mapping(config))
    phase, training, layout = made.phases[-1], made.config.training, made.recipe.layout
    frozen = jax.jit(lambda: initial_state(made, made.phases[0]).params)()
    optimizer = make_optimizer(made.config.optimizer, phase.steps)
    step = make_step(phase.loss, optimizer, made.mesh, training.batch_size, 1, training.seed, layout.extend)
    states = [jax.jit(lambda: initial_state(made, phase))()]  # one: a step takes the buffers of the one before

    def train(batches: Iterator[Batch]) -> list[int]:
        lengths = []
        for batch in batches:
            state, _ = step(states.pop(), frozen, place_batch(made.mesh, batch, training.batch_size))
            states.append(state)
            lengths.append(batch["stream"].shape[1])
        jax.block_until_ready(states)
        return lengths

    firsts: dict[int, Batch] = {}
    data = train_batches(made.task, layout, training.batch_size, training.seed)
    for batch in itertools.islice(data, steps):
        firsts.setdefault(batch["stream"].shape[1], batch)
    data.close()
    began = time.perf_counter()
    shapes = train(iter(firsts.values()))
    compile_s = time.perf_counter() - began
    data = train_batches(made.task, layout, training.batch_size, training.seed)
    return Trainer(made, lambda count: train(itertools.islice(data, count)), sorted(shapes), compile_s)


def measure(config: Mapping[str, Any], buckets: int, steps: int, repeats: int) -> dict[str, Any]:
    """Rows without and with buckets, their ratio, and what is known of the lengths."""
    trainers = {}
    turn_steps = {1: steps, buckets: OFTEN * steps}
    for count in turn_steps:
        print(f"buckets={count}: compiling", file=sys.stderr, flush=True)
        trainers[count] = trainer(settings(config, count), turn_steps[count] * (repeats + 1))
    padded: dict[int, list[int]] = {count: [] for count in trainers}

    def turns(count: int) -> Callable[[], None]:
        def turn() -> None:
            print(f"buckets={count}: {turn_steps[count]} steps", file=sys.stderr, flush=True)
            padded[count] += trainers[count].turn(turn_steps[count])

        return turn

    times = timing.take_turns({str(count): turns(count) for count in trainers}, repeats)
    rates = {count: [turn_steps[count] / seconds for seconds in times[str(count)]] for count in trainers}
    rows = []
    for count, each in trainers.items():
        facts = {"padded": float(np.mean(padded[count])), "shapes": each.shapes, "compile_s": each.compile_s}
        rows.append({"buckets": count, "steps_per_second": timing.spread(rates[count]), **facts})
    made = trainers[buckets].made
    lengths = lengths_of(made.task, "train")
    facts = {"examples": len(lengths), "mean": float(lengths.mean()), "longest": int(lengths.max())}
    facts |= {"borders": borders_of(made.task, made.recipe.layout), "notes": list(made.task.notes)}
    return {"rows": rows, "ratio": timing.ratio(rates[buckets], rates[1]), "lengths": facts}


def joint_config(arguments: str) -> dict[str, Any]:
    """`configs/babi.py:ARGUMENTS`, as nested dicts."""
    spec = importlib.util.spec_from_file_location("babi_config", ROOT / "configs" / "babi.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config(arguments).to_dict()


def made_up(folder: Path) -> None:
    """Stories of 20 to 80 lines in bAbI's format, prepared in `folder`, as if they were tasks 1 and 2."""
    raw = folder / "raw" / "made"
    raw.mkdir(parents=True)
    for task, split in itertools.product((1, 2), ("train", "test")):
        lines = []
        for story in range(20):
            for number, line in enumerate(large(task + 2 * (split == "test"), story), 1):
                asked = "" if line.answer is None else f"\t{line.answer}\t{line.support[0] + 1}"
                lines.append(f"{number} {line.text}{asked}")
        (raw / f"qa{task}_made_{split}.txt").write_text("\n".join(lines) + "\n")
    babi.prepare(raw, folder)


def main() -> None:
    """Runs everything, prints the table, writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tiny model, made-up stories; no number means anything")
    parser.add_argument("--data_dir", default="data", help="where bAbI was prepared")
    parser.add_argument("--buckets", type=int, default=6)
    parser.add_argument(
        "--steps", type=int, default=32, help=f"of a turn without buckets; {OFTEN} times as many with them"
    )
    parser.add_argument("--repeats", type=int, default=5, help="timed turns of each")
    parser.add_argument("--out", type=Path, help="where the JSON goes; default: results/, but nowhere with --quick")
    args = parser.parse_args()
    out = args.out or (None if args.quick else ROOT / "results" / "bench_buckets.json")
    machine = timing.machine()
    config = joint_config("joint,folder=made" if args.quick else "joint")
    config["task"]["data_dir"] = args.data_dir
    with tempfile.TemporaryDirectory() as folder:
        if args.quick:
            made_up(Path(folder))
            config["task"]["data_dir"], args.steps, args.buckets = folder, 2, 2
            for section, keys in QUICK.items():
                config[section] |= keys
        try:
            found = measure(config, args.buckets, args.steps, args.repeats)
        except MemjaxError as error:
            parser.error(str(error))
    table = Table("buckets", "steps/s (quartiles)", "padded length", "shapes", "compiling s")
    for row in found["rows"]:
        rate = row["steps_per_second"]
        spread = f"{rate['median']:.2f} ({rate['q1']:.2f}-{rate['q3']:.2f})"
        shapes = ", ".join(map(str, row["shapes"]))
        table.add_row(str(row["buckets"]), spread, f"{row['padded']:.1f}", shapes, f"{row['compile_s']:.0f}")
    Console(width=120).print(table)
    print(f"{found['ratio']['median']:.1f} times as many steps ({found['ratio']['q1']:.1f}-{found['ratio']['q3']:.1f})")
    if out:
        sizes = {"batch_size": config["training"]["batch_size"], "width": config["model"]["width"]}
        sizes |= {"slots": config["memory"]["slots"], "steps": args.steps, "repeats": args.repeats}
        told = {"command": timing.command(), "machine": machine, "sizes": sizes, "quick": args.quick}
        timing.save(out, told | found)
        print(f"wrote {out}")


if __name__ == "__main__":
    main()
