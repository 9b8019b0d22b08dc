"""What does it cost to ask a stream of 1,000 segments on the way? A gradient with 64 questions against one with 1.

    python benchmarks/bench_asked.py
    python benchmarks/bench_asked.py --quick      a short stream: does it run?

A Rehearsal Memory of the size of configs/clicks.py, without rehearsal: the loss and its gradient for two streams of
1,000 segments of 20 items, asked 1 time at the end, or 64 times on the way; and 64 times read anew, each prefix by
itself, in the time that one prefix of half the length takes. All are compiled first, then take turns.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import timing

from memjax import memories
from memjax.experiments.stream_qa.rehearsal_objective import answer_objective, init_params, of_other_rows
from memjax.models import MemoryModel
from memjax.tasks import TaskShape

ROOT = Path(__file__).parents[1]
ITEMS, SEGMENT, STREAMS = 3416, 20, 2
FULL = {"segments": 1000, "questions": 64, "width": 64, "layers": 2}
QUICK = {"segments": 24, "questions": 4, "width": 8, "layers": 1}


def gradient(segments: int, times: int, width: int, layers: int) -> tuple[Callable[[], Any], dict[str, float]]:
    """A call that computes loss and gradient, and what compiling it took."""
    shape = TaskShape(ITEMS, segments, SEGMENT, ITEMS, None, "click", 2, questions=(times, 1), query_is_item=True)
    memory = memories.create("rehearsal", slots=20, width=width, segment=SEGMENT, layers=layers, heads=4, context=4)
    model, random = MemoryModel(shape, memory, width, 1, 2, layers, 4, item_scale=8.0), np.random.default_rng(0)
    after = np.linspace(0, segments, times + 1, dtype=int)[1:]
    axes = (STREAMS, times, 1)
    batch = {
        "stream": random.integers(ITEMS, size=(STREAMS, segments, SEGMENT)),
        "mask": np.ones((STREAMS, segments, SEGMENT), bool),
        "query": random.integers(ITEMS, size=axes),
        "label": random.integers(2, size=axes),
        "after": np.tile(after, (STREAMS, 1)),
        "asked": np.ones(axes, bool),
    }
    batch = {name: jnp.asarray(value) for name, value in batch.items()}
    params = init_params(model, jax.random.key(0), {name: value[0] for name, value in batch.items()})
    batch = of_other_rows(batch | {"key": jax.random.split(jax.random.key(1), STREAMS)})
    loss = answer_objective(model)
    step, facts = timing.compiled(jax.grad(lambda params, batch: loss(params, None, batch)[0]), params, batch)
    return lambda: step(params, batch), facts


def measure(sizes: dict[str, int], repeats: int) -> dict[str, Any]:
    """Seconds and bytes of each, and what the questions add."""
    segments, questions, model = sizes["segments"], sizes["questions"], (sizes["width"], sizes["layers"])
    made = {
        "asked once": gradient(segments, 1, *model),
        f"asked {questions} times": gradient(segments, questions, *model),
        "half a stream": gradient(segments // 2, 1, *model),
    }
    times = timing.take_turns({name: call for name, (call, _) in made.items()}, repeats)
    once, often, half = times.values()
    rows = [{"what": name, "seconds": timing.spread(times[name]), **facts} for name, (_, facts) in made.items()]
    anew = [questions * seconds for seconds in half]
    return {"rows": rows, "ratio": timing.ratio(often, once), "anew_ratio": timing.ratio(anew, often)}


def main() -> None:
    """Measures, shows and keeps it."""
    args = timing.arguments(__doc__, 5, ROOT / "results" / "bench_asked.json")
    machine, sizes = timing.machine(), QUICK if args.quick else FULL
    found = measure(sizes, args.repeats)
    for row in found["rows"]:
        print(f"{row['what']}: {row['seconds']['median']:.2f} s, {row.get('temp_bytes', 0) / 2**20:,.0f} MiB")
    print(f"{sizes['questions']} questions cost {found['ratio']['median']:.2f} times one")
    if args.out:
        told = {
            "command": timing.command(),
            "machine": machine,
            "quick": args.quick,
            "sizes": {**sizes, "repeats": args.repeats},
        }
        timing.save(args.out, told | found)
        print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
