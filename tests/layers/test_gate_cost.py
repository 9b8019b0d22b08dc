"""What gates do to a token, told to the loss: it is their numbers, however a stream is cut, and it is learned from."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from oracles.checking import assert_close
from oracles.sequence import log_sigmoid

from memjax.experiments.sequence import sequence_objective
from memjax.layers import LMM, MAC, MAG, MAL, gate_cost
from memjax.layers.head_memory import COSTS
from memjax.models import LanguageModel

WIDTH, HEADS, WINDOW, L = 8, 2, 4, 11
LAYERS = {
    "LMM": LMM(WIDTH, HEADS, rate_bound=0.5, horizon=5.0, bounded="write"),
    "LMM, whole tokens bounded": LMM(WIDTH, HEADS),
    "LMM, deep": LMM(WIDTH, HEADS, memory_layers=2, gradient_at="chunk", chunk=3),
    "MAC": MAC(WIDTH, HEADS, window=WINDOW),
    "MAG": MAG(WIDTH, HEADS, window=WINDOW),
    "MAL": MAL(WIDTH, HEADS, window=WINDOW),
}


@functools.cache
def made(name):
    return jax.jit(LAYERS[name].init)(jax.random.key(0), jnp.ones((2, WIDTH)))


@functools.cache
def run(name):
    return jax.jit(functools.partial(LAYERS[name].apply, mutable=[COSTS]))


def tokens():
    return jnp.asarray(np.random.default_rng(0).normal(size=(L, WIDTH)), jnp.float32)


def costs(name, x, state):
    (_, state), kept = run(name)(made(name), x, state)
    return kept[COSTS], state


def test_it_is_what_a_token_is_written_with_in_all_and_what_is_not_kept():
    layer, params = LAYERS["LMM"], made("LMM")["params"]["remember"]["gates"]
    x = np.asarray(tokens(), np.float64)
    keep, along, rate = np.split(x @ np.asarray(params["kernel"]) + np.asarray(params["bias"]), 3, axis=-1)
    kept = np.exp(log_sigmoid(keep + np.log(layer.time_constant))) * (1 - 1 / layer.horizon)
    got = gate_cost(costs("LMM", tokens(), layer.apply(made("LMM"), method="initial_state"))[0])
    assert_close(
        np.asarray(got), (np.exp(log_sigmoid(rate)) / (1 - np.exp(log_sigmoid(along))) + 1 - kept).mean(), 1e-5
    )


def test_it_is_finite_and_so_is_its_gradient_where_momentum_is_all_but_one():
    params = made("LMM")

    def cost(logit):
        own = params["params"]["remember"]
        bias = jnp.concatenate(
            [own["gates"]["bias"][:HEADS], jnp.full(HEADS, logit), own["gates"]["bias"][2 * HEADS :]]
        )
        own = own | {"gates": own["gates"] | {"bias": bias}}
        _, kept = LAYERS["LMM"].apply({"params": params["params"] | {"remember": own}}, tokens(), mutable=[COSTS])
        return gate_cost(kept[COSTS])

    slope = jax.jit(jax.value_and_grad(cost))
    for logit in (20.0, 60.0, 100.0):
        value, gradient = slope(logit)
        assert value <= 1001 and abs(gradient) <= 1000


@pytest.mark.parametrize("name", LAYERS)
def test_of_a_stream_in_parts_it_adds_up(name):
    """Also where a layer walks over segments that are not full."""
    start = LAYERS[name].apply(made(name), method="initial_state")
    whole, _ = costs(name, tokens(), start)
    total, state = jnp.zeros(2), start
    for token in tokens():
        part, state = costs(name, token[None], state)
        total += sum(leaf.reshape(-1, 2).sum(0) for leaf in jax.tree.leaves(part))
    assert total[1] == L
    assert_close(sum(leaf.reshape(-1, 2).sum(0) for leaf in jax.tree.leaves(whole)), total, 1e-4)


@pytest.mark.parametrize("name", LAYERS)
def test_parameters_are_without_it_and_who_does_not_ask_pays_nothing(name):
    assert set(made(name)) == {"params"}
    out, _ = jax.jit(LAYERS[name].apply)(made(name), tokens())
    assert out.shape == (L, WIDTH)
    assert gate_cost({}) == 0


@pytest.mark.parametrize("chain", [1, 2])
def test_the_loss_has_its_mean_over_layers_and_examples_and_training_lowers_it(chain):
    model = LanguageModel(10, WIDTH, 2, 0, functools.partial(MAC, WIDTH, HEADS, window=WINDOW))
    rng = np.random.default_rng(1)
    batch = {name: jnp.asarray(rng.integers(0, 10, (4, L))) for name in ("tokens", "target")}
    batch["key"] = jax.random.split(jax.random.key(0), 4)
    params = jax.jit(model.init)(jax.random.key(1), batch["tokens"][0])
    assert set(params) == {"params"}
    plain, _ = jax.jit(sequence_objective(model, chain=chain), static_argnums=1)(params, None, batch)
    weighed = jax.jit(jax.value_and_grad(sequence_objective(model, chain=chain, gate_weight=3.0), has_aux=True))
    (loss, metrics), slopes = weighed(params, None, batch)
    assert_close(loss, plain + 3 * metrics["gate_cost"], 1e-5)
    if chain == 1:  # then every text begins in the state of nothing read
        tell = jax.jit(functools.partial(model.apply, mutable=[COSTS]))
        told = [tell(params, row)[1][COSTS] for row in batch["tokens"]]
        assert_close(metrics["gate_cost"], np.mean([gate_cost(one) for one in told]), 1e-5)
    stepped = optax.apply_updates(params, jax.tree.map(lambda slope: -0.1 * slope, slopes))
    assert weighed(stepped, None, batch)[0][1]["gate_cost"] < metrics["gate_cost"]


class Twice(nn.Module):
    def setup(self):
        self.layer = MAC(WIDTH, HEADS, window=WINDOW)

    def __call__(self, x):
        return self.layer(x)[0][:3] + self.layer(x[:3])[0]


def test_a_layer_may_be_used_twice_and_what_was_told_goes_in_again():
    params = jax.jit(Twice().init)(jax.random.key(0), tokens())
    tell = jax.jit(functools.partial(Twice().apply, mutable=[COSTS]))
    out, told = tell(params, tokens())
    again, _ = tell({**params, **told}, tokens())
    assert_close(out, jax.jit(Twice().apply)(params, tokens()), 1e-6)
    assert_close(out, again, 1e-6)


def test_a_model_may_have_another_layer_in_each_block(unchecked):
    makers = (functools.partial(MAG, WIDTH, HEADS, window=WINDOW), functools.partial(LMM, WIDTH, HEADS))
    model = LanguageModel(10, WIDTH, 2, 0, makers)
    params = jax.eval_shape(model.init, jax.random.key(0), jnp.arange(3))["params"]
    assert "attention" in params["layers_0"] and "remember" in params["layers_1"]
