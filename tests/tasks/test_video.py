"""Questions about made-up films: every answer is told again from what the recorded scene shows, frame by frame."""

import re
from collections import Counter

import numpy as np
import pytest

from memjax import tasks
from memjax.errors import MemjaxError
from memjax.tasks.video_questions import ANSWERS, TYPES, longest
from memjax.tasks.video_scenes import ACTS, COLOURS, RADIUS, SHAPES, SIZE, covered, drawn

SMALL = {"frames": 48, "segment": 5, "features": 32, "asked": 3, "train": 300, "valid": 4, "test": 4, "seed": 3}


@pytest.fixture(scope="module")
def task():
    return tasks.create(tasks.VideoSpec(**SMALL))


def recorded(scene):
    """(colour, shape) -> where it is in each frame of the film, NaN where it is not on the screen."""
    found = {}
    for actor in scene.actors:
        path = np.full((len(scene.acts) * scene.frames, 2), np.nan)
        path[actor.act * scene.frames : (actor.act + 1) * scene.frames] = actor.path
        found[actor.colour, actor.shape] = path
    return found


def moved(path):
    """Whither, by its first and last place on the screen; "" where it stayed."""
    places = path[~np.isnan(path[:, 0])]
    across, down = places[-1] - places[0]
    if max(abs(across), abs(down)) < 1:
        return ""
    return ("left", "right")[int(across > 0)] if abs(across) > abs(down) else ("up", "down")[int(down > 0)]


def seen(path):
    return np.flatnonzero(~np.isnan(path[:, 0]))


def name_in(words):
    return re.fullmatch(r"(\w+) (\w+)", words).groups()


def told(text, record):
    """(answer, frames that show it) of a question, from the record alone."""
    if match := re.fullmatch(r"where does the (.+) move", text):
        path = record[name_in(match[1])]
        return moved(path), seen(path)
    if match := re.fullmatch(r"on which side of the (.+) is the (.+)", text):
        other, one = (record[name_in(words)] for words in match.groups())
        frames = np.intersect1d(seen(one), seen(other))
        across, down = (one - other)[frames].mean(0)
        side = ("left", "right")[int(across > 0)] if abs(across) > abs(down) else ("above", "below")[int(down > 0)]
        return side, frames
    if match := re.fullmatch(r"what colour is the one that comes after the (.+)", text):
        gone = seen(record[name_in(match[1])])[-1]
        ((colour, path),) = [(name[0], path) for name, path in record.items() if seen(path)[0] == gone + 1]
        return colour, seen(path)
    if match := re.fullmatch(r"what colour is the (\w+) that moves (\w+)", text):
        alike = [
            (colour, path) for (colour, shape), path in record.items() if shape == match[1] and moved(path) == match[2]
        ]
        ((colour, path),) = alike
        return colour, seen(path)
    if match := re.fullmatch(r"how many (\w+) ones are there", text):
        return str(sum(colour == match[1] for colour, _ in record)), None
    one, other = (record[name_in(words)] for words in re.fullmatch(r"does the (.+) meet the (.+)", text).groups())
    frames = np.intersect1d(seen(one), seen(other))
    nearest = np.linalg.norm((one - other)[frames], axis=1).min()
    assert nearest < 2 * RADIUS + 0.1 or nearest > 3 * RADIUS, "neither near nor far"
    return ("yes" if nearest < 2 * RADIUS + 0.1 else "no"), frames


@pytest.mark.parametrize("kind", TYPES)
def test_every_answer_is_what_the_recorded_scene_shows(task, kind):
    answers = set()
    asked = [(film, own) for film in range(SMALL["train"]) for of, own in task.questions("train", film) if of == kind]
    for film, question in asked:
        scene = task.scene("train", film)
        answer, frames = told(question.text, recorded(scene))
        assert question.answer == answer in ANSWERS, question
        assert (question.act is None) == (frames is None)
        if frames is not None:
            assert (frames // scene.frames == question.act).all()
        answers.add(answer)
        assert len(question.text.split()) <= longest()
    assert len(answers) == {"motion": 4, "spatial": 4, "temporal": 6, "colour": 6, "count": 5, "yes/no": 2}[kind]


def test_half_of_the_evidence_is_in_the_first_half(task):
    batch = task.examples("train", np.arange(task.size("train")))
    tasks.check_batch(task.shape, batch)
    for number, kind in enumerate(TYPES):
        early, later, several = np.bincount(batch["place"][batch["asked"] & (batch["type"] == number)], minlength=3)
        assert (several > 0) == (early + later == 0) == (kind == "count")
        # Nothing comes before the first act, so that of eleven only five are early.
        share = 5 / 11 if kind == "temporal" else 0.5
        assert kind == "count" or abs(early / (early + later) - share) < 0.1, kind


def test_a_film_is_asked_different_questions_of_each_type(task):
    batch = task.examples("train", np.arange(task.size("train")))
    assert (batch["after"] == task.shape.segments).all()
    for film in range(task.size("train")):
        questions = task.questions("train", film)
        kinds = Counter(kind for kind, _ in questions)
        assert len(set(questions)) == len(questions) and set(kinds) == set(TYPES)
        # Of a pair there are two ways to ask: four questions about both. What comes after one may be two.
        assert all(kinds[kind] == SMALL["asked"] for kind in TYPES if kind not in ("temporal", "colour", "spatial"))
        own = {name: batch[name][film, 0][batch["asked"][film, 0]] for name in ("query", "label", "type", "place")}
        words = [" ".join(task.vocabulary[id] for id in ids if id) for ids in own["query"]]
        assert words == [question.text for _, question in questions]
        assert [TYPES[number] for number in own["type"]] == [kind for kind, _ in questions]
        assert [ANSWERS[label] for label in own["label"]] == [question.answer for _, question in questions]
        places = [2 if question.act is None else int(question.act >= 6) for _, question in questions]
        assert own["place"].tolist() == places


def test_films_of_train_may_have_fewer_acts_and_are_asked_as_whole_ones_are():
    short = tasks.create(tasks.VideoSpec(**SMALL, shortest=4))
    batch = short.examples("train", np.arange(60))
    tasks.check_batch(short.shape, batch)
    frames = batch["mask"].sum((1, 2))
    assert set(frames // 4) == set(range(4, 13)) and set(frames % 4) == {0}  # of an act 48 / 12
    for film in range(60):
        scene = short.scene("train", film)
        assert len(scene.acts) * scene.frames == frames[film] and not Counter(scene.acts) - Counter(ACTS)
        segments = batch["mask"][film].any(1).sum()
        assert batch["mask"][film].reshape(-1)[: frames[film]].all() and batch["after"][film] == segments
        assert short.lengths("train")[film] == segments
        own = batch["place"][film, 0][batch["asked"][film, 0]]
        for (kind, question), place in zip(short.questions("train", film), own, strict=True):
            answer, seen_in = told(question.text, recorded(scene))
            assert question.answer == answer
            assert kind == "count" or place == int(seen_in[0] >= frames[film] / 2)
    assert set(Counter(kind for kind, _ in short.questions("train", 0))) == set(TYPES)
    assert short.lengths("test").tolist() == [10] * 4  # whole ones


def test_no_two_actors_of_a_film_are_alike_and_all_stay_on_the_screen(task):
    for film in range(50):
        scene = task.scene("train", film)
        assert sorted(scene.acts) == sorted(ACTS)
        assert len({actor.name for actor in scene.actors}) == len(scene.actors)
        paths = np.concatenate([actor.path for actor in scene.actors])
        assert paths.min() >= RADIUS - 1e-9 and paths.max() <= SIZE - RADIUS + 1e-9


def test_a_frame_shows_the_shapes_of_its_act_in_their_colours_and_nothing_else(task):
    scene = task.scene("train", 1)
    film = drawn(scene)
    assert film.shape == (48, SIZE, SIZE, 3)
    for frame in range(48):
        act, place = divmod(frame, scene.frames)
        expected = np.zeros((SIZE, SIZE, 3))
        for actor in scene.cast(act):
            expected[covered(actor.shape, actor.path[place : place + 1])[0]] = COLOURS[actor.colour]
        np.testing.assert_array_equal(film[frame], expected)
        assert 0 < (film[frame].max(-1) > 0).mean() < 0.15


def test_shapes_can_be_told_apart():
    pixels = {shape: covered(shape, np.array([[16.0, 16.0]]))[0] for shape in SHAPES}
    assert pixels["square"].sum() == 49 and pixels["cross"].sum() == 13
    assert all((pixels[a] != pixels[b]).sum() >= 8 for a in SHAPES for b in SHAPES if a < b)


def test_features_are_of_size_one_and_tell_colours_and_places_apart(task):
    stream = task.examples("train", np.arange(100))["stream"]
    flat = stream.reshape(100, -1, 32)[:, :48]
    assert abs(flat.mean()) < 0.1 and 0.8 < flat.std() < 1.2
    assert np.linalg.matrix_rank(flat.reshape(-1, 32)) == 32


def test_features_are_maxima_of_a_convolution_over_the_frame_and_means_in_its_cells(task):
    scene = task.scene("train", 5)
    film, found = drawn(scene), task._features(scene)
    for frame in (0, 30, 47):
        maps = np.zeros((28, 28, 16))
        for row in range(28):
            for column in range(28):
                # Patches are read colour by colour.
                patch = film[frame, row : row + 5, column : column + 5].transpose(2, 0, 1).reshape(-1)
                maps[row, column] = np.maximum(patch @ task._filters + task._bias, 0)
        cells = [maps[7 * i : 7 * i + 7, 7 * j : 7 * j + 7, :1].mean((0, 1)) for i in range(4) for j in range(4)]
        mean, spread = task._scale
        wanted = (np.concatenate([maps.max((0, 1)), *cells]) - mean) / spread
        np.testing.assert_allclose(found[frame], wanted, atol=1e-4)


def test_an_example_depends_on_seed_split_and_index_alone(task):
    again, other = tasks.create(tasks.VideoSpec(**SMALL)), tasks.create(tasks.VideoSpec(**SMALL | {"seed": 4}))
    one, two = (t.examples("test", np.array([3, 2])) for t in (task, again))
    assert all((one[name] == two[name]).all() for name in one)
    assert (task.examples("test", np.array([2]))["stream"][0] == one["stream"][1]).all()
    assert (other.examples("test", np.array([3, 2]))["stream"] != one["stream"]).any()
    assert (task.examples("valid", np.array([3, 2]))["stream"] != one["stream"]).any()
    assert one["mask"].sum() == 2 * 48 and not one["stream"][~one["mask"]].any()


def test_pictures_are_frames_of_their_segments_and_where_an_answer_is_seen_frames_of_its_act(task):
    film, record = drawn(task.scene("train", 2)), recorded(task.scene("train", 2))
    for place, (_, question) in enumerate(task.questions("train", 2)):
        pictures, seen = task.pictured("train", 2, place)
        assert pictures.shape == (10, SIZE, SIZE, 3) and pictures.dtype == np.uint8
        _, frames = told(question.text, record)
        assert seen == ([] if frames is None else sorted(set((frames // 5).tolist())))
        for segment, picture in enumerate(pictures):
            of_segment = range(segment * 5, min(segment * 5 + 5, 48))
            allowed = [t for t in of_segment if segment not in seen or t in frames]
            assert any((picture == 255 * film[t]).all() for t in allowed)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"frames": 50}, "frames must be a multiple of the 12 acts, at least two each, not 50"),
        ({"frames": 12}, "frames must be a multiple of the 12 acts"),
        ({"features": 0}, "features must be at least 1"),
        ({"features": 48}, "features must be a multiple of 32"),
        ({"segment": 10**6}, "segment must be at most"),
        ({"asked": 0}, "asked must be at least 1"),
        ({"asked": 101}, "asked must be at most 100"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"shortest": 3}, "shortest must be 0, or from 4 to 12 acts, not 3"),
        ({"shortest": 13}, "shortest must be 0, or from 4 to 12 acts, not 13"),
    ],
)
def test_settings_that_cannot_be_are_one_clear_line(changes, message):
    with pytest.raises(MemjaxError, match=message):
        tasks.VideoSpec(**SMALL | changes)


def test_a_feature_that_no_film_of_the_sample_has_is_not_divided_by_nothing():
    task = tasks.create(tasks.VideoSpec(24, 4, 2048, 1, 2, 2, 2, 4, 4))
    batch = task.examples("test", np.arange(2))
    assert (np.asarray(task._scale[1]) > 0).all() and np.isfinite(batch["stream"]).all()
