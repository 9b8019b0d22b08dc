"""How fast are learned retention and its mazes? Streams learned side by side, and mazes walked without learning.

    python benchmarks/bench_retention.py           # ST, 5 entries, 64 streams of noisy; 1,024 I-mazes, 100 steps
    python benchmarks/bench_retention.py --quick   # tiny sizes: does it run?

Learning: loss and gradient of a batch of streams as `memjax train` computes them, against the same thing as a loop in
Python over jitted steps, all streams in each step; both must give the same gradient first. Mazes: random actions.
"""

import argparse
import dataclasses
import runpy
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import timing

from memjax import environments, tasks
from memjax.experiments.reading import from_mapping
from memjax.experiments.retention import build_reader, retention_objective, rewards, rollout
from memjax.models import StreamReader
from memjax.models.buffer_step import empty_carry
from memjax.models.stream_reader import Read
from memjax.training.actor_critic import ActorCritic, actor_critic_loss
from memjax.training.objective import answer_metrics

ROOT = Path(__file__).parents[1]
TOLERANCE = 1e-4
TARGET = 50_000  # steps of mazes a second


@dataclasses.dataclass(frozen=True)
class Sizes:
    """Sizes of one benchmark run."""

    streams: int = 64
    episodes: int = 256
    mazes: int = 1024
    steps: int = 100


QUICK = Sizes(streams=4, episodes=8, mazes=8, steps=5)


def begin(reader: StreamReader, lines, line):
    """What a stream needs before its first step: the embeddings that its steps take in, and the first carry."""
    weights = jax.vmap(reader.base.weigh)(lines, lines != 0)
    rows = reader.base.embed(weights, jnp.zeros(len(lines), jnp.int32)).reshape(len(lines), -1, reader.width)
    seen = rows[:, 1:2]
    return rows, weights, seen[line], rows[:, 0][line], empty_carry(reader, seen[0], jnp.zeros(reader.width))


def answers(reader: StreamReader, rows, weights, line, asked, entries):
    """What was answered, given who was in the buffer."""
    return reader._answers(rows, weights, line, asked, entries)


def loop_loss(reader: StreamReader, lines, how: ActorCritic):
    """The loss of a batch: a loop in Python over the steps of all its streams, each of them jitted."""
    first = jax.jit(jax.vmap(lambda params, line: reader.apply(params, lines, line, method=begin), (None, 0)))
    step = jax.jit(jax.vmap(lambda params, *args: reader.apply(params, *args, method=StreamReader._step), (None, 0, 0)))

    def last(params, rows, weights, line, label, support, steps):
        asked = label >= 0
        logits = reader.apply(params, rows, weights, line, asked, steps.entries, method=answers)
        found = answer_metrics(logits, jnp.where(asked, label, 0))
        brought = rewards["answers"](steps.entries, asked, support, found["accuracy"])
        loss, _ = actor_critic_loss(rollout(steps, line, brought), jnp.zeros(()), how)
        return jnp.where(asked, found["answer_loss"], 0).sum() + loss / (line != 0).sum()

    last = jax.jit(jax.vmap(last, (None, 0, 0, 0, 0, 0, 0)))

    def loss(params, batch):
        line, label = batch["line"], batch["label"]
        keys = jax.vmap(lambda key: jax.random.split(key, line.shape[1]))(batch["key"])
        rows, weights, seen, inputs, carry = first(params, line)
        steps = []
        for t in range(line.shape[1]):
            at = seen[:, t], inputs[:, t], line[:, t] != 0, label[:, t] >= 0, keys[:, t]
            carry, found = step(params, carry, at)
            steps.append(found)
        together = Read(None, *jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *steps))
        return last(params, rows, weights, line, label, batch["support"], together).mean()

    return loss


def learning(sizes: Sizes, args: argparse.Namespace) -> dict[str, Any]:
    """Seconds for loss and gradient of a batch, ours and the loop's."""
    make = runpy.run_path(str(ROOT / "configs" / "retention.py"))["get_config"]
    settings = make("noisy,policy=st,entries=5").to_dict()
    settings["task"] |= {"train": sizes.episodes, "valid": 1, "test": 1}
    config = from_mapping(settings)
    task = tasks.create(config.task)
    reader, lines = build_reader(config.model, task, "st"), jnp.asarray(task.lines)
    batch = {name: jnp.asarray(x) for name, x in task.examples("train", np.arange(sizes.streams)).items()}
    batch["key"] = jax.random.split(jax.random.key(args.seed), sizes.streams)
    params = jax.jit(reader.init)(jax.random.key(args.seed), lines, batch["line"][0], batch["label"][0] >= 0)
    how = ActorCritic(**vars(config.actor_critic))
    objective = retention_objective(reader, lines, how, rewards["answers"])
    ours = jax.jit(jax.grad(lambda params, batch: objective(params, None, batch)[0]))
    theirs = jax.grad(loop_loss(reader, lines, how))
    pairs = zip(jax.tree.leaves(ours(params, batch)), jax.tree.leaves(theirs(params, batch)), strict=True)
    difference = max(float(jnp.abs(a - b).max()) for a, b in pairs)
    if not difference < TOLERANCE:
        raise SystemExit(f"not the same gradient: it differs by {difference:.2e}")
    contenders = {"memjax": partial(ours, params, batch), "Python loop": partial(theirs, params, batch)}
    times = timing.take_turns(contenders, args.repeats)
    steps = int((batch["line"] != 0).sum())
    rows = [
        {"contender": name, "steps_per_second": steps / timing.spread(values)["median"], **timing.spread(values)}
        for name, values in times.items()
    ]
    return {
        "difference": difference,
        "steps": steps,
        "rows": rows,
        "ratio": timing.ratio(times["Python loop"], times["memjax"]),
    }


def mazes(sizes: Sizes, args: argparse.Namespace) -> dict[str, Any]:
    """Seconds for random walks through many I-mazes at once."""
    params = environments.imazes([5, 7, 9])

    def walk(key):
        first, rest = jax.random.split(key)
        seen, states = jax.vmap(environments.reset, (0, None))(jax.random.split(first, sizes.mazes), params)

        def step(states, key):
            actions = jax.random.randint(key, (sizes.mazes,), 0, len(environments.ACTIONS))
            seen, states, reward, _ = jax.vmap(environments.step, (None, 0, 0, None))(key, states, actions, params)
            return states, (seen, reward)

        return seen, jax.lax.scan(step, states, jax.random.split(rest, sizes.steps))

    run, facts = timing.compiled(walk, jax.random.key(args.seed))
    times = timing.take_turns({"mazes": partial(run, jax.random.key(args.seed))}, args.repeats)["mazes"]
    spread = timing.spread(times)
    return {"steps_per_second": sizes.mazes * sizes.steps / spread["median"], **spread, **facts}


def main() -> None:
    """Runs everything, prints it, writes the JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny sizes; no number means anything")
    parser.add_argument("--repeats", type=int, default=7, help="timed turns of each contender")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="where the JSON goes; default: results/, but nowhere with --quick")
    args = parser.parse_args()
    args.out = args.out or (None if args.quick else ROOT / "results" / "bench_retention.json")
    sizes, machine = QUICK if args.quick else Sizes(), timing.machine()
    results = {
        "command": timing.command(),
        "machine": machine,
        "sizes": dataclasses.asdict(sizes),
        "quick": args.quick,
        "learning": learning(sizes, args),
        "mazes": mazes(sizes, args),
    }
    for row in results["learning"]["rows"]:
        print(f"learning, {row['contender']}: {row['steps_per_second']:,.0f} steps of streams a second")
    ratio = results["learning"]["ratio"]
    print(f"Python loop / memjax: {ratio['median']:.2f} ({ratio['q1']:.2f}-{ratio['q3']:.2f})")
    pace = results["mazes"]["steps_per_second"]
    print(f"mazes: {pace:,.0f} steps a second; at least {TARGET:,} asked: {'met' if pace >= TARGET else 'NOT met'}")
    if args.out:
        timing.save(args.out, results)
        print(f"wrote {args.out}")


if __name__ == "__main__":
    main()
