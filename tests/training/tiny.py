"""The shipped configs at sizes that compile and train in seconds; what several test files start from."""

import copy
import functools
import importlib.util
from pathlib import Path

import jax
import numpy as np

from memjax.experiments.reading import from_mapping
from memjax.experiments.stream_qa import init_params, of_other_rows, trimmed
from memjax.tasks import check_batch
from memjax.training.data import Layout

CONFIGS = Path(__file__).parents[2] / "configs"
TINY = {
    "task.facts": 20,
    "task.length": 22,  # the last of 6 segments is half padding
    "task.queries": 4,
    "task.answers": 3,
    "task.evidence": 2,
    "task.groups": 2,
    "task.segment": 4,
    "task.train": 10,
    "task.valid": 2,
    "task.test": 3,  # 36 examples: 8 do not divide them
    "memory.slots": 3,
    "memory.layers": 1,
    "memory.heads": 2,
    "model.width": 16,
    "model.hops": 1,
    "model.head_layers": 0,
    "rehearsal.fragments": 4,
    "rehearsal.layers": 1,
    "rehearsal.heads": 2,
    "optimizer.warmup_steps": 2,
    "training.steps": 4,
    "training.sampler_steps": 2,
    "training.batch_size": 8,
    "training.log_every": 1,
    "training.validate_every": 2,
    "training.validate_examples": 8,
    "training.checkpoint_every": 2,
}


@functools.cache
def config_file(name):
    """`get_config` of a file of configs/."""
    spec = importlib.util.spec_from_file_location(f"config_{name}", CONFIGS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.get_config


def mapping(arg="demo", file="evidence", sizes=TINY, **changes):
    """A config as nested dicts, tiny; `changes` are named like `task__train`."""
    result = copy.deepcopy(config_file(file)(arg).to_dict())
    changes = {name.replace("__", "."): value for name, value in changes.items()}
    for path, value in {**sizes, **changes}.items():
        section, key = path.split(".") if "." in path else (None, path)
        (result.setdefault(section, {}) if section else result)[key] = value
    return result


def tiny(arg="demo", **changes):
    return from_mapping(mapping(arg, **changes))


def layout_of(task):
    """How batches of a task of stream QA lie."""
    return Layout(functools.partial(check_batch, task.shape), trimmed, of_other_rows, ("stream", "mask"))


class Unequal:
    """A task of stream QA whose streams end at different segments, and which says so."""

    notes = ()

    def __init__(self, task):
        self.shape, self.size, self._examples = task.shape, task.size, task.examples

    def lengths(self, split):
        return 1 + np.arange(self.size(split)) * 7 % self.shape.segments

    def examples(self, split, indices):
        batch = self._examples(split, indices)
        real = np.arange(self.shape.segments) < self.lengths(split)[indices, None]
        return batch | {"mask": batch["mask"] & real[:, :, None]}


def flags(sizes=TINY, **changes):
    """The same sizes as arguments of the command line."""
    changes = {name.replace("__", "."): value for name, value in changes.items()}
    return [f"--config.{path}={value}" for path, value in {**sizes, **changes}.items()]


def random_params(model, example):
    """Parameters without compiling an initialization; no bias is zero, so that none hides a mistake."""
    example = {name: jax.numpy.asarray(value) for name, value in example.items()}
    shapes = jax.eval_shape(lambda: init_params(model, jax.random.key(0), example))
    rng = np.random.default_rng(5)

    def draw(path, leaf):
        values = rng.normal(size=leaf.shape) / (1 if "embedding" in str(path[-1]) else 3)
        return jax.numpy.asarray(values + ("scale" in str(path[-1])), leaf.dtype)

    return jax.tree.map_with_path(draw, shapes)
