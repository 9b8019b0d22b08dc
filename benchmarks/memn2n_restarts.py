"""Trains MemN2N as published: plain SGD with linear start and random noise, several restarts side by side.

One compiled function is an epoch of all restarts. Each has its own seed, order of the data, and time of its own at
which the softmaxes are put back. After every epoch all of it is saved, and a stopped run goes on from there.
"""

import dataclasses
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from memn2n_pool import NOBODY, Stories, batches, load, pool_size, pooled_logits

from memjax.errors import MemjaxError, require
from memjax.files import replacing
from memjax.models.memory_network import MemN2N
from memjax.tasks.stream_task import Split, Task
from memjax.training import runs
from memjax.typing import Array, Bool, Float, Int, Key, Params


@dataclass(frozen=True)
class Recipe:
    """How MemN2N is trained (End-To-End Memory Networks, section 4.2).

    The rate begins at `learning_rate` and is halved every `halve_every` epochs of `epochs`. Before them, linear start:
    `linear_epochs` epochs at most at `linear_rate`, ended when the validation loss has had no new lowest value for
    `patience` epochs; 0 for none. The loss is summed over a batch, and the gradient of each matrix clipped to
    `clip_norm`. noise: whether to train with random noise in the time indices.
    """

    batch_size: int
    epochs: int
    learning_rate: float
    halve_every: int
    linear_epochs: int
    linear_rate: float
    patience: int
    clip_norm: float
    noise: bool

    def __post_init__(self):
        for name in ("batch_size", "epochs", "halve_every", "patience"):
            require(getattr(self, name) >= 1, f"{name} of a recipe must be at least 1, not {getattr(self, name)}")
        require(self.linear_epochs >= 0, f"linear_epochs of a recipe must be at least 0, not {self.linear_epochs}")
        for name in ("learning_rate", "linear_rate", "clip_norm"):
            require(getattr(self, name) > 0, f"{name} of a recipe must be above 0, not {getattr(self, name)}")


class Progress(NamedTuple):
    """Where each of the S restarts is. All but the parameters are NumPy arrays.

    linear: whether it is still in its linear start. epoch: how many it has had in its phase. lowest, waited: the lowest
    validation loss of the linear start, and for how many epochs there was none lower. history `[epochs, S, 4]`: mean
    loss and error of training (with noise, as it went) and of validation.
    """

    params: Params
    linear: np.ndarray
    epoch: np.ndarray
    lowest: np.ndarray
    waited: np.ndarray
    history: np.ndarray
    seconds: np.ndarray


class Evaluation(NamedTuple):
    """Of each restart on a split: the mean loss, and for every example whether its answer was wrong."""

    loss: np.ndarray
    wrong: np.ndarray


class Trainer:
    """MemN2N on a task whose data lies on the device. Restart i has seed i of `seeds`, whatever else runs beside it.

        trainer = Trainer(task, model, recipe, seeds=range(10))
        progress = trainer.train(Path("runs/memn2n"))
        best = lowest_training_error(progress)

    Raises `MemjaxError` for what does not fit.
    """

    def __init__(self, task: Task, model: MemN2N, recipe: Recipe, seeds: Sequence[int]):
        require(len(seeds) >= 1, "there must be at least one restart")
        require(len(set(seeds)) == len(seeds), f"two restarts have the same seed: {list(seeds)}")
        size = task.size("train")
        require(size >= recipe.batch_size, f"{size} training examples are fewer than one batch of {recipe.batch_size}")
        self.task, self.model, self.recipe, self.seeds = task, model, recipe, tuple(seeds)
        self._texts, self._stories = load(task, model, ("train", "valid", "test"))
        epochs = range(recipe.linear_epochs + recipe.epochs)
        orders = (self._order(seed, epoch) for seed in self.seeds for epoch in epochs)
        self._size = max(pool_size(self._stories["train"], order) for order in orders)
        self._epoch = jax.jit(jax.vmap(partial(_epoch, model, recipe, self._size), (None, None, 0, 0, 0, 0, 0)))
        self._evaluate = jax.jit(jax.vmap(partial(_evaluate, model), (0, None, None, None, None, 0)), static_argnums=4)

    def start(self) -> Progress:
        """All restarts before their first epoch."""
        count, linear = len(self.seeds), self.recipe.linear_epochs > 0
        example = {k: jnp.asarray(v[0]) for k, v in self.task.examples("train", np.arange(1)).items()}
        arguments = example["stream"], example["mask"], example["query"]
        keys = jnp.stack([_key(seed, 0) for seed in self.seeds])
        params = jax.jit(jax.vmap(lambda key: self.model.init(key, *arguments)))(keys)
        zeros, history = np.zeros(count, np.int32), np.zeros((0, count, 4))
        lowest = np.full(count, np.inf)
        return Progress(params, np.full(count, linear), zeros, lowest, zeros.copy(), history, np.zeros(()))

    def finished(self, progress: Progress) -> bool:
        """Whether every restart has had all its epochs."""
        return bool((self._rate(progress) == 0).all())

    def step(self, progress: Progress) -> Progress:
        """One epoch of every restart that is not finished, then validation."""
        began, done = time.perf_counter(), len(progress.history)
        rate = self._rate(progress)
        order = np.stack([self._order(seed, done) for seed in self.seeds])
        keys = jnp.stack([_key(seed, done + 1) for seed in self.seeds])
        params, loss, error = self._epoch(
            self._texts, self._stories["train"], progress.params, order, jnp.asarray(rate, jnp.float32),
            jnp.asarray(progress.linear), keys,
        )  # fmt: skip
        valid = self.evaluate(params, "valid", progress.linear)
        training = rate > 0
        figures = np.stack([np.asarray(loss), np.asarray(error), valid.loss, valid.wrong.mean(1)], 1)
        figures = figures if not done else np.where(training[:, None], figures, progress.history[-1])

        better = valid.loss < progress.lowest
        waited = np.where(better, 0, progress.waited + 1).astype(np.int32)
        epoch = progress.epoch + training.astype(np.int32)
        ended = progress.linear & ((waited >= self.recipe.patience) | (epoch >= self.recipe.linear_epochs))
        return Progress(
            params,
            progress.linear & ~ended,
            np.where(ended, 0, epoch).astype(np.int32),
            np.where(better, valid.loss, progress.lowest),
            waited,
            np.concatenate([progress.history, figures[None]]),
            progress.seconds + time.perf_counter() - began,
        )

    def train(self, folder: Path, report: Callable[[Progress], None] = lambda progress: None) -> Progress:
        """Trains to the end, going on from what the folder holds; calls `report` after every epoch."""
        with runs.writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with runs.locked(folder):
            path = folder / "progress.npz"
            progress = self.restore(path) if path.exists() else self.start()
            while not self.finished(progress):
                progress = self.step(progress)
                self.save(path, progress)
                report(progress)
        return progress

    def evaluate(self, params: Params, split: Split, linear: np.ndarray | None = None) -> Evaluation:
        """All restarts on a split, without noise; with softmaxes, but for those that are in their linear start."""
        stories, size = self._stories[split], self.task.size(split)
        order = batches(np.arange(size), self.recipe.batch_size)
        linear = np.zeros(len(self.seeds), bool) if linear is None else linear
        rows = pool_size(stories, order)
        loss, wrong = self._evaluate(params, self._texts, stories, order, rows, jnp.asarray(linear))
        wrong = np.asarray(wrong)[:, order != NOBODY]
        by_number = np.zeros((len(self.seeds), size), bool)
        by_number[:, order[order != NOBODY]] = wrong
        return Evaluation(np.asarray(loss, np.float64) / size, by_number)

    def save(self, path: Path, progress: Progress) -> None:
        """Writes a file of plain arrays, at once or not at all."""
        leaves = {f"params{i}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(progress.params))}
        leaves |= {name: value for name, value in progress._asdict().items() if name != "params"}
        leaves["about"] = np.array(self._about())
        with replacing(path) as file:
            np.savez(file, allow_pickle=False, **leaves)

    def restore(self, path: Path) -> Progress:
        """Reads what `save` wrote. Raises `MemjaxError` if it is damaged, or of another recipe, model or seeds."""
        like = jax.eval_shape(lambda: self.start().params)
        leaves, tree = jax.tree.flatten(like)
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            about = str(arrays["about"])
            params = [jnp.asarray(arrays[f"params{i}"]) for i in range(len(leaves))] if about == self._about() else []
            rest = {name: arrays[name] for name in Progress._fields if name != "params"}
        except Exception as error:  # a damaged archive raises many things
            raise MemjaxError(f"{path} is damaged ({type(error).__name__}); delete it to start again") from None
        same = "it holds a run of another recipe, model or seeds; give another folder, or delete it"
        require(about == self._about(), f"{path}: {same}")
        require([x.shape for x in params] == [x.shape for x in leaves], f"{path}: {same}")
        return Progress(jax.tree.unflatten(tree, params), **rest)

    def _about(self) -> str:
        model = {f.name: str(getattr(self.model, f.name)) for f in dataclasses.fields(self.model) if f.name != "parent"}
        return json.dumps({"recipe": dataclasses.asdict(self.recipe), "model": model, "seeds": list(self.seeds)})

    def _rate(self, progress: Progress) -> np.ndarray:
        recipe = self.recipe
        falling = recipe.learning_rate * 0.5 ** (progress.epoch // recipe.halve_every)
        return np.where(progress.linear, recipe.linear_rate, np.where(progress.epoch < recipe.epochs, falling, 0.0))

    def _order(self, seed: int, epoch: int) -> np.ndarray:
        """The batches of an epoch; of the examples that fill no batch, others are left out every time."""
        order = np.random.default_rng([seed, epoch]).permutation(self.task.size("train")).astype(np.int32)
        size = self.recipe.batch_size
        return order[: len(order) // size * size].reshape(-1, size)


def lowest_training_error(progress: Progress) -> int:
    """The restart that is reported: that with the lowest error in its last epoch, as it went, then with the lowest
    loss. That is the training error that the code of the paper's authors prints: under random noise, which what
    generalises has learned to bear.
    """
    loss, error = progress.history[-1, :, 0], progress.history[-1, :, 1]
    finite = np.isfinite(loss)
    return int(np.lexsort((np.where(finite, loss, np.inf), np.where(finite, error, np.inf)))[0])


def clip_each(gradients: Params, norm: float) -> Params:
    """Each matrix of a gradient, the last two axes of each array, scaled down to a norm of at most `norm`.

    >>> clip_each({"a": jnp.array([[[3.0, 4.0]], [[0.3, 0.4]]])}, 1.0)["a"].tolist()
    [[[0.6000000238418579, 0.800000011920929]], [[0.30000001192092896, 0.4000000059604645]]]
    """

    def clip(gradient: Array) -> Array:
        size = jnp.sqrt(jnp.square(gradient).sum((-2, -1), keepdims=True))
        return gradient * (norm / jnp.maximum(size, norm))

    return jax.tree.map(clip, gradients)


def _epoch(
    model: MemN2N,
    recipe: Recipe,
    size: int,
    texts: Float[Array, "U 2 V"],
    stories: Stories,
    params: Params,
    order: Int[Array, "S B"],
    rate: Float[Array, ""],
    linear: Bool[Array, ""],
    key: Key,
) -> tuple[Params, Float[Array, ""], Float[Array, ""]]:
    """One restart's epoch: its parameters, and the mean loss and error of its batches before each was learned from."""

    def step(params, batch):
        numbers, place = batch
        noise = jax.random.fold_in(key, place) if recipe.noise else None

        def loss(params):
            logits = pooled_logits(model, params, texts, stories, numbers, size, key=noise, linear=linear)
            return _loss(logits, stories.target[numbers])

        (total, wrong), gradients = jax.value_and_grad(loss, has_aux=True)(params)
        clipped = clip_each(gradients, recipe.clip_norm)
        return jax.tree.map(lambda p, g: p - rate * g, params, clipped), (total, wrong.sum())

    params, (loss, wrong) = jax.lax.scan(step, params, (order, jnp.arange(len(order))))
    return params, loss.sum() / order.size, wrong.sum() / order.size


def _evaluate(
    model: MemN2N,
    params: Params,
    texts: Float[Array, "U 2 V"],
    stories: Stories,
    order: Int[Array, "S B"],
    size: int,
    linear: Bool[Array, ""],
) -> tuple[Float[Array, ""], Bool[Array, "S B"]]:
    def one(total, numbers):
        logits = pooled_logits(model, params, texts, stories, numbers, size, linear=linear)
        target = jnp.where(numbers == NOBODY, NOBODY, stories.target[numbers])
        loss, wrong = _loss(logits, target)
        return total + loss, wrong

    return jax.lax.scan(one, jnp.zeros(()), order)


def _loss(logits: Float[Array, "B E"], target: Int[Array, "B"]) -> tuple[Float[Array, ""], Bool[Array, "B"]]:
    """Cross-entropy, summed over the answers that there are, and which are wrong: an answer that is none always is."""
    likelihood = jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.maximum(target, 0)[:, None], 1)[:, 0]
    return -jnp.where(target >= 0, likelihood, 0).sum(), logits.argmax(1) != target


def _key(seed: int, number: int) -> Key:
    return jax.random.fold_in(jax.random.key(seed), number)
