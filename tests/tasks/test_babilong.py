"""BABILong, held against a reading of the same files of its own: facts, background, lengths, labels, both readings."""

import re
import tarfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from memjax import tasks
from memjax.errors import MemjaxError
from memjax.tasks.babilong_texts import _facts
from memjax.tasks.builders.babi_format import Question, Story
from memjax.tasks.builders.babi_records import prepare
from memjax.tasks.sequence import NOTHING
from memjax.tasks.words import sentences_of

DATA = Path(__file__).parents[3] / "shared" / "data"
ARCHIVE = DATA / "babi" / "babi_tasks_v1-2_en.tar.gz"
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PEOPLE, PLACES = ("Mary", "John", "Daniel"), ("hall", "garden", "park")
WORDS = 6
SPEC = {
    "tasks": "1,2", "folder": "mine", "haystack": "hay.txt", "length": 400, "lengths": "0,200,400,1600", "words": WORDS,
    "vocabulary": 60, "curriculum": True, "train": 90, "valid": 4, "test": 6, "seed": 0,
}  # fmt: skip
ASKED, MARKS = "?", 4


def stories(task, split):
    """Stories of people who go somewhere; in the second task with a ball, and some that do not fit in 200."""
    rng, text, asked = np.random.default_rng(task + 10 * len(split)), [], []
    for story in range(20):
        facts, long = [], story == 7 and task == 2
        for _ in range(12 if long else int(rng.integers(2, 6))):
            person, place = PEOPLE[rng.integers(3)], PLACES[rng.integers(3)]
            facts.append(f"{person} {('went back', 'ran')[rng.integers(2)]} to the {place}.")
            text.append(f"{len(facts)} {facts[-1]}")
            if task == 2 and rng.random() < 0.4:
                facts.append(f"{person} took the ball.")
                text.append(f"{len(facts)} {facts[-1]}")
        person = facts[-1].split()[0]
        question = f"Where is {person}?"
        went = [fact for fact in facts if fact.startswith(person) and "ball" not in fact]
        answer = went[-1].split()[-1][:-1]
        if split == "test" and story == 3 and task == 1:
            facts[-1], answer = f"{person} ran to the attic.", "attic"  # of which train does not know
            text[-1] = f"{len(facts)} {facts[-1]}"
        text.append(f"{len(facts) + 1} {question}\t{answer}\t{len(facts)}")
        known = [plain(fact.replace("attic", "unknown")) for fact in facts]
        asked.append((tuple(known), plain(question), answer, sum(len(fact) + 1 for fact in facts)))
    return "\n".join(text) + "\n", asked


def plain(text):
    return tuple(re.sub(r"[^\w ]", " ", text.lower()).split())


def hay():
    """Numbered sentences, so that any three words in a row tell where they are; every fifth is too long by far."""
    numbers = [[DIGITS[int(digit)] for digit in f"{i:04d}"] for i in range(1500)]
    longer = [f", {' '.join(DIGITS[:4] + tuple(words))}\nand one" * (i % 5 == 0) for i, words in enumerate(numbers)]
    return " ".join(f"{' '.join(words).capitalize()}{more}." for words, more in zip(numbers, longer))


def pieces(split):
    """The sentences of a split as words, and how long each is as written."""
    text = hay()
    first, second = len(text) * 8 // 10, len(text) * 9 // 10
    part = {"train": text[:first], "valid": text[first:second], "test": text[second:]}[split]
    found = []
    for sentence in re.findall(r"[^.]+\.?", part):
        words = sentence.split()
        for begin in range(0, len(words), WORDS):
            written = " ".join(words[begin : begin + WORDS])
            found.append((plain(written), len(written) + 1))
    return found


def write_data(root):
    """Two tasks of bAbI, prepared, and a book."""
    (root / "raw" / "mine").mkdir(parents=True)
    for task in (1, 2):
        for split in ("train", "valid", "test"):
            (root / "raw" / "mine" / f"qa{task}_made_{split}.txt").write_text(stories(task, split)[0])
    prepare(root / "raw", root)
    (root / "hay.txt").write_text(hay())
    return root


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_data(tmp_path_factory.mktemp("babilong"))


@pytest.fixture(scope="module")
def make(data):
    def make(spec=tasks.BabilongSpec, **changes):
        return tasks.create(spec(**{**SPEC, "data_dir": str(data), **changes}))

    return make


@pytest.fixture(scope="module")
def both(make):
    return make(), make(tasks.BabilongStreamSpec)


def every(task, split):
    batch = task.examples(split, np.arange(task.size(split)))
    tasks.check_batch(task.shape, batch)
    return batch


def segments_of(task, batch, row):
    """(sentences, question, answer) of a stream, as words."""
    words = np.array(task.vocabulary)
    sentences = [tuple(words[ids[ids > 0]]) for ids in batch["stream"][row] if ids.any()]
    question = tuple(words[batch["query"][row][batch["query"][row] > 0]])
    label = batch["label"][row]
    return sentences, question, task.answers[label] if label >= 0 else None


def sentences_of_tokens(task, batch, row):
    """The same of a sequence."""
    (end,) = np.flatnonzero(batch["target"][row] != NOTHING)
    said = [task.vocabulary[i] for i in batch["tokens"][row][: end + 1]]
    assert said[-1] == ASKED and not batch["tokens"][row][end + 1 :].any()
    *sentences, question = " ".join(said[:-1]).split(" . ")
    answer = task.vocabulary[batch["target"][row][end]]
    return [tuple(sentence.split()) for sentence in sentences], tuple(question.split()), answer


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_facts_stand_in_their_order_in_background_of_the_split_as_long_as_the_length_allows(both, split):
    _, task = both
    batch, known = every(task, split), pieces(split)
    asked = {number: stories(number, split)[1] for number in (1, 2)}
    lengths = set()
    for row in range(task.size(split)):
        sentences, question, answer = segments_of(task, batch, row)
        facts = tuple(words for words in sentences if words[0].capitalize() in PEOPLE)
        facts = tuple(tuple(word.strip("<>") for word in words) for words in facts)
        number = (1, 2)[batch["task"][row]]
        found = [a for a in asked[number] if a[:2] == (facts, question)]
        assert found and (answer or "attic") == found[0][2]
        background = [words for words in sentences if words[0].capitalize() not in PEOPLE]
        length = (0, 200, 400, 1600)[batch["length"][row]]
        assert task.shape.tags["task x length"][batch["task x length"][row]] == f"{number} x {length}"
        lengths.add(length)
        chars = found[0][3]
        assert chars <= 200
        if length == 0:
            assert not background
            continue
        texts = [words for words, _ in known]
        starts = [i for i in range(len(known)) if texts[i : i + len(background)] == background]
        ends = [sum(size for _, size in known[i : i + len(background)]) for i in starts]
        assert any(chars + size <= length for size in ends)
        assert any(chars + sum(size for _, size in known[i : i + len(background) + 1]) > length for i in starts)
    assert lengths == ({0, 200, 400, 1600} if split == "test" else {0, 200, 400})


@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_both_readings_say_the_same_words(both, split):
    sequence, stream = both
    assert sequence.vocabulary == stream.vocabulary and sequence.size(split) == stream.size(split)
    tokens, segments = every(sequence, split), every(stream, split)
    for row in range(sequence.size(split)):
        *said, answer = segments_of(stream, segments, row)
        *read, target = sentences_of_tokens(sequence, tokens, row)
        assert said == read and (answer or "<unknown>") == target
    for tag in ("task", "length", "task x length"):
        np.testing.assert_array_equal(tokens[tag], segments[tag])
    np.testing.assert_array_equal(stream.lengths(split), segments["mask"].any(2).sum(1))


def test_an_answer_that_train_lacks_is_no_answer(both):
    sequence, stream = both
    unseen = every(stream, "test")["label"] == -1
    assert unseen.any() and "attic" not in stream.answers
    tokens = every(sequence, "test")
    target = tokens["target"].max(1)
    assert (target[unseen] == sequence.vocabulary.index("<unknown>")).all() and (target[~unseen] >= MARKS).all()


def test_a_test_asks_the_same_at_every_length_and_hides_it_elsewhere(both):
    _, task = both
    batch, cell = every(task, "test"), 2 * SPEC["test"]
    texts = [segments_of(task, batch, row) for row in range(4 * cell)]
    for row in range(cell):
        facts = [[s for s in texts[row + k * cell][0] if s[0].capitalize() in PEOPLE] for k in range(4)]
        assert facts == [texts[row][0]] * 4
        assert len({texts[row + k * cell][1:] for k in range(4)}) == 1


def test_facts_stand_anywhere(make):
    task = make(tasks.BabilongStreamSpec, curriculum=False, train=2000, lengths="200,1600", length=1600)
    batch = every(task, "train")
    person = np.isin(batch["stream"][..., 0], [task.vocabulary.index(name.lower()) for name in PEOPLE])
    row, place = np.nonzero(person & (batch["length"] == 1)[:, None])
    shares = np.histogram((place + 0.5) / task.lengths("train")[row], bins=5, range=(0, 1))[0] / len(place)
    assert (np.abs(shares - 0.2) < 0.03).all()


def test_the_curriculum_adds_a_length_from_stage_to_stage(make):
    lengths = np.split(every(make(train=300), "train")["length"], 3)
    assert [set(stage) for stage in lengths] == [{0}, {0, 1}, {0, 1, 2}]
    assert (np.bincount(lengths[2]) > 15).all()
    mixed = make(train=300, curriculum=False)
    assert set(every(mixed, "train")["length"][:100]) == {0, 1, 2}
    assert make().ordered and not mixed.ordered


def test_an_example_is_a_function_of_settings_split_and_index(make, both):
    for task in both:
        for split in ("train", "test"):
            whole = every(task, split)
            for index in (0, 7, task.size(split) - 1):
                alone = task.examples(split, np.array([index]))
                for name, value in alone.items():
                    many = whole[name][index]
                    np.testing.assert_array_equal(value[0], many[: len(value[0])] if value.ndim > 1 else many)
                    assert value.ndim == 1 or not (many[len(value[0]) :] > 0).any()
    again, other = make(), make(seed=1)
    np.testing.assert_array_equal(every(again, "train")["tokens"], every(both[0], "train")["tokens"])
    found, known = (segments["target"].max(1) for segments in (every(other, "train"), every(again, "train")))
    assert (found != known).any()


def test_batches_of_train_have_one_length_and_those_of_a_test_one_for_each_of_its_lengths(both):
    task, _ = both
    train = [task.examples("train", np.array([i]))["tokens"].shape[1] for i in range(task.size("train"))]
    assert len(set(train)) == 1
    assert (every(task, "train")["tokens"] > 0).sum(1).max() == train[0]
    rows = every(task, "test")
    for length in range(4):
        of_length = np.flatnonzero(rows["length"] == length)
        shapes = {task.examples("test", of_length[[i]])["tokens"].shape[1] for i in (0, 5)}
        assert shapes == {(rows["tokens"][of_length] > 0).sum(1).max()}


def test_the_vocabulary_is_all_of_babi_and_the_commonest_words_of_the_background_of_train(make):
    told = [text for task in (1, 2) for facts, question, *_ in stories(task, "train")[1] for text in (*facts, question)]
    own = {word for text in told for word in text}
    task = make(vocabulary=MARKS + len(own) + 3)
    counts = Counter(word for words, _ in pieces("train") for word in words)
    common = sorted(counts, key=lambda word: (-counts[word], word))[:3]
    assert task.vocabulary == ("<pad>", "<unknown>", ".", "?", *sorted(own), *common)
    batch = every(task, "test")
    assert batch["tokens"].max() < len(task.vocabulary) and (batch["tokens"] == 1).any()
    assert task.answers == tuple(sorted(PLACES)) and task.shape.choices == 3


def test_what_is_left_out_is_said(both):
    long = [chars for *_, chars in stories(2, "test")[1] if chars > 200]
    assert len(long) == 2  # of 20
    said = "task 2: 10% of the questions are left out, as their facts alone have more than 200 characters"
    learned = sum(chars <= 200 for *_, chars in stories(2, "train")[1])
    assert both[0].notes == (f"{said}; {learned} are for training",)


def test_sentences_end_at_marks_and_empty_lines_and_are_cut_where_they_are_too_long():
    text = "A line\nthat goes on. Another!  “Is it?” Yes\n\nno — * * *\n\nHalf-open “doors, and — windows” here."
    assert sentences_of(text, 5) == [
        "A line that goes on.", "Another!", "“Is it?", "” Yes", "no — * * *", "Half-open “doors, and — windows”",
        "here.",
    ]  # fmt: skip
    assert sentences_of(text, 2)[:3] == ["A line", "that goes", "on."]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tasks": "1,3"}, "^tasks: bAbI folder 'mine' has no task 3; it has 1, 2$"),
        ({"tasks": "2,1"}, "^tasks must rise from 1 on"),
        ({"tasks": "one"}, "^tasks must be whole numbers"),
        ({"folder": "en-9k"}, "bAbI folder 'en-9k' is not prepared"),
        ({"haystack": "none.txt"}, r"there is no .*none\.txt"),
        ({"haystack": ""}, "^haystack is empty"),
        ({"lengths": "0,30,400"}, "^lengths: 30 characters hold the facts of no train question of task 1"),
        ({"lengths": "0,200", "length": 300}, "^length 300 must be one of the lengths 0,200"),
        ({"lengths": "400,200"}, "^lengths must rise"),
        ({"lengths": "0,400,9999999"}, "^lengths must be at most"),
        ({"lengths": "0,200,400,40000"}, r"hay\.txt has \d+ characters for the test split, 40001 are needed"),
        ({"length": 0}, "^length must be at least 1"),
        ({"words": 4}, "^words must be at least 6, as many as a sentence of bAbI has, not 4"),
        ({"vocabulary": 9}, r"^vocabulary must be at least \d+, the words of bAbI"),
        ({"train": 0}, "^train must be at least 1"),
        ({"train": 10**9}, "^train must be at most"),
        ({"seed": -1}, "^seed"),
    ],
)
@pytest.mark.parametrize("spec", [tasks.BabilongSpec, tasks.BabilongStreamSpec])
def test_what_cannot_be_is_one_clear_line(make, spec, changes, words):
    with pytest.raises(MemjaxError, match=words) as caught:
        make(spec, **changes)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("indices", [[], [-1], [90]])
def test_an_index_that_the_split_lacks_is_refused(both, indices):
    for task in both:
        with pytest.raises(MemjaxError, match="indices"):
            task.examples("train", np.array(indices, int))


def test_real_stories_in_a_real_book_have_their_own_answers(tmp_path):
    if not ARCHIVE.exists():
        pytest.skip("needs the shared data")
    (tmp_path / "raw" / "en").mkdir(parents=True)
    asked = {}
    with tarfile.open(ARCHIVE) as archive:
        for info in archive:
            if found := re.search(r"/en/(qa([1-5])_\S*_(train|test)\.txt)", info.name):
                text = archive.extractfile(info).read().decode()
                (tmp_path / "raw" / "en" / found[1]).write_text(text)
                if found[3] == "test":
                    asked[int(found[2])] = list(of_raw(text))
    prepare(tmp_path / "raw", tmp_path)
    haystack = str(DATA / "haystack_texts" / "warandpeace.txt.gz")
    spec = {**SPEC, "tasks": "1,2,3,4,5", "folder": "en", "haystack": haystack, "lengths": "0,512,2048", "length": 512}
    task = tasks.create(
        tasks.BabilongStreamSpec(**{**spec, "words": 12, "vocabulary": 2000, "data_dir": str(tmp_path)})
    )
    own = {word for questions in asked.values() for facts, *_ in questions for fact in facts for word in fact}
    batch = every(task, "test")
    for row in range(task.size("test")):
        sentences, question, answer = segments_of(task, batch, row)
        among = asked[(1, 2, 3, 4, 5)[batch["task"][row]]]
        told = [s for s in sentences if set(s) <= own]
        assert any(contains(told, facts) for facts, q, a in among if (q, a) == (question, answer))
    assert len(task.answers) == 13 and any("task 3: " in note for note in task.notes)


def of_raw(text):
    """(facts, question, answer) of the questions of a file."""
    for line in text.splitlines():
        number, rest = line.split(" ", 1)
        facts = [] if number == "1" else facts
        if "\t" in rest:
            question, answer, _ = rest.split("\t")
            yield list(facts), plain(question), answer.lower()
        else:
            facts.append(plain(rest))


def contains(many, few):
    """Whether a few stand among many in their order."""
    left = iter(many)
    return all(one in left for one in few)


def test_facts_that_fill_the_shortest_length_are_kept():
    own = [Story((text,), (Question(1, "Who ran?", "Mary", (0,)),)) for text in ("Mary ran.", "John ran", "I ran.")]
    rows = {story.sentences[0]: row for row, story in enumerate(own, 1)}
    found = [_facts([own], rows, {"Who ran?": 0}, {"mary": 0}, most)[0].chars.tolist() for most in (10, 9, 8)]
    assert found == [[10, 9, 7], [9, 7], [7]]
