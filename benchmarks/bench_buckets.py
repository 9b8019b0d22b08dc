"""How many steps a second does joint training on bAbI make, with length buckets and without?

    memjax prepare babi --from=ARCHIVE --data_dir=data        once
    python benchmarks/bench_buckets.py --data_dir=data
    python benchmarks/bench_buckets.py --quick                a few made-up stories: does it run?

Both train the same Rehearsal Memory, rehearsal and a history sampler included, on the same examples; only
`config.training.buckets` differs, and with it how long the streams of each batch are padded. So first the batches that
`memjax train` would give are read, which says how often each padded length comes, and what reading takes. Then a step
of each length is compiled, and all lengths take turns. A mean step is what these take, each as often as it comes, and
reading; ratios are taken turn by turn: what slows the machine for a while slows both.
"""

import argparse
import contextlib
import importlib.util
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import timing
from rich.console import Console
from rich.table import Table

from memjax.errors import MemjaxError
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.tasks.builders import babi_records
from memjax.tasks.two_facts import large
from memjax.training.data import lengths_of, train_batches
from memjax.training.phase import Experiment, initial_state
from memjax.training.sharding import place_batch, placed
from memjax.training.step import make_optimizer, make_step
from memjax.typing import Batch

ROOT = Path(__file__).parents[1]
QUICK = {
    "model": {"width": 8, "hops": 1, "head_layers": 0},
    "training": {"batch_size": 32},  # nearly every batch has one of the longest stories: fewer lengths to compile
    "memory": {"slots": 3, "layers": 1},
    "rehearsal": {"fragments": 2, "layers": 1},
}


class Read(NamedTuple):
    """The batches of a phase, as far as they were read.

    Attributes:
        firsts: of each padded length, the first batch that has it, shortest first.
        shares: how often each length comes; they sum to 1.
        seconds: that reading and padding a batch takes, in the mean.
    """

    firsts: dict[int, Batch]
    shares: dict[int, float]
    seconds: float


def read(made: Experiment, buckets: int, batches: int) -> Read:
    """Reads so many batches of training, in so many buckets."""
    training, layout = made.config.training, made.recipe.layout._replace(buckets=buckets)
    firsts: dict[int, Batch] = {}
    counts: Counter[int] = Counter()
    began = time.perf_counter()
    with contextlib.closing(train_batches(made.task, layout, training.batch_size, training.seed)) as data:
        for batch in itertools.islice(data, batches):
            length = batch["stream"].shape[1]
            firsts.setdefault(length, batch)
            counts[length] += 1
    seconds = (time.perf_counter() - began) / batches
    return Read(dict(sorted(firsts.items())), {length: counts[length] / batches for length in sorted(counts)}, seconds)


def steppers(made: Experiment, firsts: Mapping[int, Batch]) -> dict[str, Callable[[], Any]]:
    """For each padded length, a call that trains on its batch once more: all of them one model, on and on."""
    phase, training = made.phases[-1], made.config.training
    frozen = jax.jit(lambda: initial_state(made, made.phases[0]).params)()
    optimizer = make_optimizer(made.config.optimizer, phase.steps)
    step = make_step(phase.loss, optimizer, made.mesh, training.batch_size, 1, training.seed, made.recipe.layout.extend)
    start = jax.jit(lambda: initial_state(made, phase))()
    # One: a step takes the buffers of the one before. It lies where a step leaves it, or the first would compile again.
    states = [jax.device_put(start, placed(made.mesh, start))]

    def stepper(batch: Batch) -> Callable[[], Any]:
        def call() -> Any:
            state, metrics = step(states.pop(), frozen, place_batch(made.mesh, batch, training.batch_size))
            states.append(state)
            return metrics, state.step

        return call

    return {str(length): stepper(batch) for length, batch in firsts.items()}


def measure(config: Mapping[str, Any], buckets: int, batches: int, repeats: int) -> dict[str, Any]:
    """Rows without and with buckets, their ratio, what a step of each length takes, and what the lengths are."""
    made = prepare(from_mapping(config))
    kinds = {count: read(made, count, batches) for count in (1, buckets)}
    calls = steppers(
        made, dict(sorted({length: x for kind in kinds.values() for length, x in kind.firsts.items()}.items()))
    )
    compile_s = {}
    for length, call in calls.items():
        print(f"compiling a step of {length} segments", file=sys.stderr, flush=True)
        began = time.perf_counter()
        jax.block_until_ready(call())
        compile_s[length] = time.perf_counter() - began
    print("timing", file=sys.stderr, flush=True)
    times = timing.take_turns(calls, repeats)

    rates, rows = {}, []
    for count, kind in kinds.items():
        turns = zip(*([share * each for each in times[str(length)]] for length, share in kind.shares.items()))
        rates[count] = [1 / (kind.seconds + sum(turn)) for turn in turns]
        facts = {
            "padded": sum(length * share for length, share in kind.shares.items()),
            "shares": kind.shares,
            "read_s": kind.seconds,
            "compile_s": sum(compile_s[str(length)] for length in kind.shares),
        }
        rows.append({"buckets": count, "steps_per_second": timing.spread(rates[count]), **facts})
    lengths = lengths_of(made.task, "train")
    facts = {"examples": len(lengths), "mean": float(lengths.mean()), "longest": int(lengths.max())}
    return {
        "rows": rows,
        "ratio": timing.ratio(rates[buckets], rates[1]),
        "step_s": {length: timing.spread(seconds) for length, seconds in times.items()},
        "lengths": facts | {"notes": list(made.task.notes)},
    }


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
    babi_records.prepare(raw, folder)


def main() -> None:
    """Runs everything, prints the table, writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tiny model, made-up stories; no number means anything")
    parser.add_argument("--data_dir", default="data", help="where bAbI was prepared")
    parser.add_argument("--buckets", type=int, default=6)
    parser.add_argument("--batches", type=int, default=2048, help="that are read, to know how often each length comes")
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
            config["task"]["data_dir"], args.batches, args.buckets = folder, 50, 2
            for section, keys in QUICK.items():
                config[section] |= keys
        try:
            found = measure(config, args.buckets, args.batches, args.repeats)
        except MemjaxError as error:
            parser.error(str(error))
    table = Table("buckets", "steps/s (quartiles)", "padded length", "share of each", "compiling s")
    for row in found["rows"]:
        rate = row["steps_per_second"]
        spread = f"{rate['median']:.2f} ({rate['q1']:.2f}-{rate['q3']:.2f})"
        shares = ", ".join(f"{length}: {share:.1%}" for length, share in row["shares"].items())
        table.add_row(str(row["buckets"]), spread, f"{row['padded']:.1f}", shares, f"{row['compile_s']:.0f}")
    Console(width=120).print(table)
    print(f"{found['ratio']['median']:.1f} times as many steps ({found['ratio']['q1']:.1f}-{found['ratio']['q3']:.1f})")
    if out:
        sizes = {"batch_size": config["training"]["batch_size"], "width": config["model"]["width"]}
        sizes |= {"slots": config["memory"]["slots"], "batches": args.batches, "repeats": args.repeats}
        told = {"command": timing.command(), "machine": machine, "sizes": sizes, "quick": args.quick}
        timing.save(out, told | found)
        print(f"wrote {out}")


if __name__ == "__main__":
    main()
