"""What a config says of a run with a memory reaches its model, its start and its report."""

import math

import jax
import pytest
from training.tiny import mapping, tiny

from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.experiments.stream_qa import build
from memjax.training.phase import initial_state


def test_every_seed_begins_with_parameters_of_its_own():
    for phase in (0, 1):
        first, same, other = (
            initial_state(made, made.phases[phase]).params
            for made in (prepare(tiny(rehearsal__sampler="history", training__seed=seed)) for seed in (0, 0, 1))
        )
        leaves = list(zip(*map(jax.tree.leaves, (first, same, other)), strict=True))
        assert all((a == b).all() for a, b, _ in leaves) and any((a != c).any() for a, _, c in leaves)


def test_what_the_config_says_of_the_model_reaches_it():
    model = {"model__item_scale": 2.0, "model__query_scale": 3.0, "model__words": "own", "model__read_scores": "dot"}
    own = {"tied": True, "position_std": 0.5, "norm_slots": True, "layers": 3, "heads": 4}
    config = tiny(**model, **{f"rehearsal__{name}": value for name, value in own.items()})
    made = build(config, prepare(config).task.shape)
    assert {name: getattr(made, f"rehearser_{name}") for name in own} == own
    assert (made.item_scale, made.query_scale, made.shared_words, made.read_scores) == (2.0, 3.0, False, "dot")


def test_a_guess_is_among_the_right_one_and_the_negatives():
    for changes, among in (({}, 20), ({"rehearsal__negatives": 7}, 8)):
        found = prepare(tiny(**changes)).recipe.report["guessing"]["recollection_loss"]
        assert found == math.log(among)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"rehearsal__fragments": 6}, "6 fragments are all 6 segments of a stream; give fewer than 6 fragments, or"),
        ({"rehearsal__fragments": 2, "task__length": 4}, "2 fragments are all 1 segments of a stream; give longer"),
        ({"rehearsal__fragments": 4}, ""),
        ({"rehearsal__fragments": 6, "rehearsal__sampler": "random"}, ""),
        ({"rehearsal__fragments": 0}, ""),
    ],
)
def test_a_history_sampler_with_nothing_to_choose_is_told(changes, told):
    notes = [note for note in prepare(tiny(**changes)).recipe.notes if "nothing to choose" in note]
    assert len(notes) == bool(told) and all(told in note for note in notes)


@pytest.mark.parametrize("size", ["demo", "small", "medium", "paper"])
@pytest.mark.parametrize("memory", ["rehearsal", "continual"])
def test_the_evidence_config_leaves_a_history_sampler_a_choice(size, memory):
    notes = prepare(from_mapping(mapping(f"{size},memory={memory}", sizes={}))).recipe.notes
    assert not [note for note in notes if "nothing to choose" in note]
