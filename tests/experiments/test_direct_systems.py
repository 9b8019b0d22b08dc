"""Systems that read the stream directly, as a config makes and trains them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_contracts import Told, ToldSpec, refused
from training.tiny import random_params

from memjax import tasks
from memjax.experiments import families
from memjax.experiments.prepare import prepare
from memjax.experiments.reading import from_mapping
from memjax.experiments.stream_qa.stream_qa_models import DIRECT, build
from memjax.models import (
    DIEN,
    EMN,
    ESA,
    EVQA,
    HCRN,
    MSAN,
    RUM,
    AttentionSumReader,
    Caser,
    DirectlyReason,
    GRU4Rec,
    MemN2NRanker,
    MultiHopReason,
    MultiStream,
    RUMFeatures,
    SASRec,
)
from memjax.tasks import TaskShape

CLICKS = TaskShape(9, 3, 2, 9, None, "click", 2, questions=(2, 2), query_is_item=True)
RECOMMENDERS = {
    "gru4rec": GRU4Rec(CLICKS, 8),
    "caser": Caser(CLICKS, 8),
    "rum": RUM(CLICKS, 8),
    "rum_features": RUMFeatures(CLICKS, 8),
    "dien": DIEN(CLICKS, 8),
    "sasrec": SASRec(CLICKS, 8),
}
TEXTS = TaskShape(9, 3, 2, 9, 4, "candidates", 5)
TEXT_READERS = {
    "as_reader": AttentionSumReader(TEXTS, 8),
    "e2e_mn": MemN2NRanker(TEXTS, 8, hops=2),
    "multi_stream": MultiStream(TEXTS, 8),
    "msan": MSAN(TEXTS, 8),
}
VIDEOS = TaskShape(0, 3, 2, 9, 4, "classes", 5, item_width=6)
VIDEO_READERS = {
    "e_vqa": EVQA(VIDEOS, 8, 3, jnp.float32),
    "e_mn": EMN(VIDEOS, 8, 3, jnp.float32, 4),
    "e_sa": ESA(VIDEOS, 8, 3, jnp.float32),
    "hcrn": HCRN(VIDEOS, 8, 3, jnp.float32),
}


class Clicks(Told):
    """Asked after the second segment and after the third; every third stream only once."""

    shape = CLICKS

    def examples(self, split, indices):
        rows = np.asarray(indices)[:, None, None] + np.arange(2)[:, None] + 3 * np.arange(2)
        batch = {name: x for name, x in super().examples(split, indices).items() if name in ("stream", "mask")}
        asked = (rows % 3 > 0) | (np.arange(2)[:, None] == 0)
        after = np.broadcast_to([2, 3], rows.shape[:2])
        return batch | {"query": rows * 5 % 9, "label": rows % 2, "asked": asked, "after": after}


@pytest.fixture
def settings(monkeypatch):
    def of(system, task=Clicks, **model):
        monkeypatch.setitem(tasks.registry, "told", tasks.registry["evidence"]._replace(spec=ToldSpec, make=task))
        memory, training = {"name": "memn2n", "slots": 2}, {"steps": 2, "batch_size": 8}
        given = {"system": system, "memory": memory, "training": training, "model": {"width": 8, **model}}
        return given | {"task": {"name": "told"}}

    return of


def test_a_config_can_name_a_memory_or_any_system_of_the_table_and_each_is_a_yardstick():
    family = families["stream_qa"]
    assert family.systems == ("memory", *DIRECT) and family.yardsticks == tuple(DIRECT)
    assert set(DIRECT) == {"directly", "multi_hop", *TEXT_READERS, *VIDEO_READERS, *RECOMMENDERS}
    assert len({direct.label for direct in DIRECT.values()}) == len(DIRECT)


@pytest.mark.parametrize("name", TEXT_READERS)
def test_a_config_gives_a_reader_of_texts_its_width_and_dtype(settings, name):
    assert build(from_mapping(settings(name)), TEXTS) == TEXT_READERS[name]
    assert build(from_mapping(settings(name, dtype="bfloat16")), TEXTS).dtype == jnp.bfloat16


@pytest.mark.parametrize("name", VIDEO_READERS)
def test_a_config_gives_a_reader_of_videos_its_sizes_and_dtype(settings, name):
    given = {"head_layers": 3, "hops": 4}
    assert build(from_mapping(settings(name, **given)), VIDEOS) == VIDEO_READERS[name]
    assert build(from_mapping(settings(name, dtype="bfloat16")), VIDEOS).dtype == jnp.bfloat16


@pytest.mark.parametrize("name", RECOMMENDERS)
def test_a_config_gives_the_published_settings_and_its_width_and_dtype(settings, name):
    prepared = prepare(from_mapping(settings(name)))
    assert prepared.recipe.label == DIRECT[name].label
    assert build(from_mapping(settings(name)), CLICKS) == RECOMMENDERS[name]
    assert build(from_mapping(settings(name, dtype="bfloat16")), CLICKS).dtype == jnp.bfloat16


def test_what_only_the_others_take_from_the_config_reaches_them(settings):
    given = {"head_layers": 3, "hops": 4}
    made = [build(from_mapping(settings(name, **given)), CLICKS) for name in ("directly", "multi_hop")]
    assert made == [DirectlyReason(CLICKS, 8, 3, jnp.float32), MultiHopReason(CLICKS, 8, 3, jnp.float32, 4)]


def test_what_sasrec_drops_is_the_configs_to_say_and_nobody_elses(settings):
    dropping = {name: settings(name, dropout=0.5) for name in ("sasrec", "caser", "memory")}
    assert build(from_mapping(dropping["sasrec"]), CLICKS) == SASRec(CLICKS, 8, dropout=0.5)
    for name in ("caser", "memory"):
        assert f"config.model.dropout is for config.system=sasrec alone, not {name}" in refused(dropping[name])


@pytest.mark.parametrize("name", RECOMMENDERS)
def test_a_task_of_other_answers_is_refused_before_anything_compiles(settings, name):
    assert "it needs a task whose answers are clicks" in refused(settings(name, task=Told))


@pytest.mark.parametrize("name", ["rum", "sasrec"])
def test_it_is_trained_on_its_answers_and_on_its_auxiliary_loss(settings, name):
    prepared = prepare(from_mapping(settings(name)))
    (phase,), model = prepared.recipe.phases, RECOMMENDERS[name]
    batch = jax.tree.map(jnp.asarray, prepared.task.examples("train", np.arange(4)))
    params = random_params(model, jax.tree.map(lambda x: x[0], batch))
    keys = jax.random.split(jax.random.key(0), 4)
    given = prepared.recipe.layout.extend(batch | {"key": keys})
    total, metrics = jax.jit(phase.loss)(params, None, given)
    losses, auxiliary = [], []
    for row, key in enumerate(keys):
        one = {name: x[row] for name, x in batch.items()}
        read = (one["stream"], one["mask"], one["after"])
        slots, aux_loss = model.apply(params, *read, key=key, method="memorize_at")
        auxiliary.append(float(aux_loss))
        for time, question in np.argwhere(one["asked"]):
            seen = jax.tree.map(lambda leaf, time=time: leaf[time], slots)
            logit = np.float64(model.apply(params, seen, one["query"][time, question], method="answer")[1])
            losses.append(np.log1p(np.exp(-logit if one["label"][time, question] else logit)))
    assert 8 < len(losses) < 16
    np.testing.assert_allclose(metrics["answer_loss"], np.mean(losses), rtol=1e-5)
    np.testing.assert_allclose(total, np.mean(losses) + np.mean(auxiliary), rtol=1e-5)
    assert (np.mean(auxiliary) > 0) == (name == "sasrec")
