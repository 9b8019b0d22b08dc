"""TVQA's official folder: what `memjax prepare tvqa` writes, counts, and refuses."""

import gzip
import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memjax import archives, cli, tasks
from memjax.errors import MemjaxError
from memjax.tasks.builders.subtitles import parse_srt
from memjax.tasks.builders.tvqa import FOLDER, KEYS, RELEASE, SILENT, prepare
from memjax.tasks.dialogue_files import TVQA_QUESTIONS, TVQA_SUBTITLES, Subtitle, read_dialogues
from memjax.typing import SPLITS

DATA = Path(__file__).parents[3] / "shared" / "data"
real = pytest.mark.skipif(not DATA.is_dir(), reason="needs the shared data")
TRAIN, TEST = TVQA_QUESTIONS
CLIPS = [f"c{i}" for i in range(22)]


def question(clip, **changes):
    choices = {f"a{i}": f"A {i} né." for i in range(5)}
    return (
        {"q": "Who?", "vid_name": clip, "answer_idx": 1, "ts": "2.5-4", "qid": 7, "show_name": "x"} | choices | changes
    )


def turns(clip):
    return [(0.5 * i, f"Line {i} of {clip}.") for i in range(4)]


def lines():
    """The files of twenty clips of train, two of test."""
    said = [{"vid_name": c, "sub": [{"text": t, "start": s, "end": s + 1} for s, t in turns(c)]} for c in CLIPS]
    return {TRAIN: [question(c) for c in CLIPS[:20]], TEST: [question(c) for c in CLIPS[20:]], TVQA_SUBTITLES: said}


def srt(said):
    """The text of a file: in the order in time backwards, each line in two, as Windows ends them."""
    blocks = []
    for number, (start, text) in reversed(list(enumerate(said, 1))):
        first, second = text.split(" ", 1)
        blocks += [str(number), f"00:00:{int(start):02},{int(start % 1 * 1000):03} --> 00:01:00,000", first, second, ""]
    return "\r\n".join(blocks)


def write(root, found, packed=False):
    """The files in the folder `official`; one that is None is not written."""
    folder = root / "official"
    folder.mkdir(exist_ok=True)
    for name, rows in found.items():
        if rows is not None:
            data = "".join(json.dumps(row) + "\n" for row in rows).encode()
            (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(data) if packed else data)
    return folder


def tar(path, members):
    """An archive of (name, content); a content that is a pair is the kind of a member without one, and its target."""
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            if isinstance(content, tuple):
                info.type, info.linkname = content
            else:
                info.size = len(content)
            archive.addfile(info, None if isinstance(content, tuple) else io.BytesIO(content))


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(*arguments):
    with pytest.raises(MemjaxError) as caught:
        prepare(*arguments)
    assert "\n" not in str(caught.value) and "--" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_prepared_reads_as_the_official_folder_and_holds_nothing_else(tmp_path, packed):
    found = prepare(write(tmp_path, lines(), packed), tmp_path / "data")
    counts = dict(zip(SPLITS, (18, 2, 2), strict=True))
    assert found == (counts, counts, ())
    assert set(files(tmp_path / "data")) == {f"{FOLDER}/{name}" for name in (TRAIN, TEST, TVQA_SUBTITLES)}
    assert read_dialogues(tmp_path / "data" / FOLDER) == read_dialogues(tmp_path / "official")
    first = json.loads((tmp_path / "data" / FOLDER / TRAIN).read_text().split("\n")[0])
    assert tuple(first) == KEYS
    task = tasks.create(tasks.DialoguesSpec(FOLDER, 20, 20, 1, str(tmp_path / "data")))
    tasks.check_batch(task.shape, task.examples("test", np.arange(2)))


@pytest.mark.parametrize("form", ["folder", "tar.gz", "tar"])
def test_subtitles_of_a_file_each_are_read_as_lines_of_json_are(tmp_path, form):
    (tmp_path / "other").mkdir()
    prepare(write(tmp_path / "other", lines()), tmp_path / "other" / "data")
    source = write(tmp_path, lines() | {TVQA_SUBTITLES: None})
    texts = [(f"tvqa_subtitles/{clip}.srt", srt(turns(clip)).encode()) for clip in CLIPS]
    if form == "folder":
        (source / "tvqa_subtitles").mkdir()
        for name, data in texts:
            (source / name).write_bytes(data)
    else:
        tar(source / f"tvqa_subtitles.{form}", [*texts, ("tvqa_subtitles/._c1.srt", b"\x00\x05"), ("a.txt", b"x")])
    (source / RELEASE).mkdir()
    for name in TVQA_QUESTIONS:
        (source / name).rename(source / RELEASE / name)
    prepare(source, tmp_path / "data")
    assert files(tmp_path / "data") == files(tmp_path / "other" / "data")


def test_what_is_left_out_is_counted_and_clips_without_subtitles_are_named_in_a_file(tmp_path):
    found = lines()
    found[TRAIN] += [question(f"n{i % 12:02}") for i in range(14)] + [question("c3"), question("c20", answer_idx=None)]
    found[TRAIN].append(question("\ud800"))  # which UTF-8 lacks
    found[TEST] += [{k: v for k, v in question("c21").items() if k != "answer_idx"}, question("mute")]
    found[TVQA_SUBTITLES] += [{"vid_name": "other", "sub": []}, {"vid_name": "mute", "sub": []}]
    made = prepare(write(tmp_path, found), tmp_path / "data")
    assert made.left_out == (
        "2 questions without an answer are left out",
        f"13 clips have no subtitles, and are named in {tmp_path / 'data' / FOLDER / SILENT}: their 15 questions are "
        "left out",
        "1 clips that no such question is about are left out",
        "1 dialogues without words are left out",
    )
    assert made.questions == {"train": 19, "valid": 2, "test": 3}
    assert made.streams == {"train": 18, "valid": 2, "test": 3}
    named = (tmp_path / "data" / FOLDER / SILENT).read_text().splitlines()
    assert named == [*(f"n{i:02}" for i in range(12)), "\\ud800"]
    prepare(write(tmp_path, lines()), tmp_path / "data")
    assert f"{FOLDER}/{SILENT}" not in files(tmp_path / "data")


def changed(name, row, **changes):
    found = lines()
    found[name][row] |= changes
    return found


FAULTS = {
    "no questions": (lines() | {TEST: None}, "official has no tvqa_val.jsonl, and no tvqa_qa_release/tvqa_val.jsonl"),
    "no subtitles": (lines() | {TVQA_SUBTITLES: None}, f"official has no subtitles: put there {TVQA_SUBTITLES}"),
    "no clip": (changed(TRAIN, 1, vid_name=""), "tvqa_train.jsonl, line 2: it has no vid_name"),
    "four choices": (changed(TEST, 1, a4=None), "tvqa_val.jsonl, line 2: it must have q and a0 to a4"),
    "another answer": (changed(TEST, 1, answer_idx=5), "tvqa_val.jsonl, line 2: answer_idx is 5, not 0 to 4"),
    "another moment": (changed(TEST, 0, ts="soon"), "tvqa_val.jsonl, line 1: ts is 'soon', not begin-end"),
    "no answer, and four choices": (changed(TEST, 0, answer_idx=None, a1=3), "line 1: it must have q and a0 to a4"),
    "no time": (changed(TVQA_SUBTITLES, 2, sub=[{"text": "x"}]), f"{TVQA_SUBTITLES}, line 3: a subtitle must have"),
    "a clip twice": (changed(TVQA_SUBTITLES, 2, vid_name="c0"), f"{TVQA_SUBTITLES}, line 3: the clip 'c0' is there t"),
    "no object": (lines() | {TEST: [1]}, "tvqa_val.jsonl, line 1: it is no object"),
    "few clips": (lines() | {TRAIN: lines()[TRAIN][:9]}, "tvqa_train.jsonl has questions with an answer about 9 clips"),
    "no answers": (
        changed(TEST, 0, answer_idx=None) | {TEST: []},
        "about 0 clips with subtitles, at least 1 are needed",
    ),
    "no words": (lines() | {TEST: [question("c20", q="?")]}, "tvqa has no question with words for test"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_folder_is_one_clear_line_and_leaves_what_was_prepared_before(tmp_path, fault):
    (tmp_path / "good").mkdir()
    prepare(write(tmp_path / "good", lines()), tmp_path / "data")
    before, (found, message) = files(tmp_path / "data"), FAULTS[fault]
    said = refused(write(tmp_path, found), tmp_path / "data")
    assert message in said and "/.tvqa." not in said  # where it is written is nobody's business
    assert files(tmp_path / "data") == before and [path.name for path in (tmp_path / "data").iterdir()] == [FOLDER]


SRT = {
    "of another kind": (b"once upon a time\n", "c0.srt is no file of subtitles: it begins with 'once upon a time'"),
    "a pickle": (b"\x80\x04\x95\x08\x00.", "c0.srt is no file of subtitles"),
}


@pytest.mark.parametrize("kind", SRT)
def test_a_file_of_subtitles_that_is_none_is_one_clear_line(tmp_path, kind):
    data, message = SRT[kind]
    source = write(tmp_path, lines() | {TVQA_SUBTITLES: None})
    archive = source / "tvqa_subtitles.tar.gz"
    tar(archive, [("tvqa_subtitles/c0.srt", data)])
    assert message in refused(source, tmp_path / "data")
    for members, said in (
        ([("a.txt", b"x")], "tvqa_subtitles.tar.gz has no subtitles NAME.srt"),
        ([("a/c0.srt", b""), ("b/c0.srt", b"")], "tvqa_subtitles.tar.gz: the clip 'c0' is there twice"),
    ):
        tar(archive, members)
        assert said in refused(source, tmp_path / "data")
    archive.write_bytes(archive.read_bytes()[:-20])
    assert "tvqa_subtitles.tar.gz cannot be read" in refused(source, tmp_path / "data")
    assert not (tmp_path / "data").exists()


def test_subtitles_are_what_stands_between_times():
    text = "\ufeff7\n0:00:01.5 --> 0:00:02.5\n(Ann:)42\n43\n\n\n9\n01:02:03,004 --> 01:02:04,000\n\n"
    assert parse_srt("a", text.removeprefix("\ufeff")) == [Subtitle(1.5, "(Ann:)42 43"), Subtitle(3723.004, "")]
    assert parse_srt("a", "\r\n\r\n") == []


def test_links_of_an_archive_are_not_followed_and_bytes_of_latin_1_are_letters(tmp_path):
    source = write(tmp_path, lines() | {TVQA_SUBTITLES: None})
    (tmp_path / "secret.srt").write_text(srt(turns("secret")))
    link = tarfile.SYMTYPE, str(tmp_path / "secret.srt")
    members = [(f"s/{clip}.srt", srt([(0, "Ren\u00e9 speaks.")]).encode("latin-1")) for clip in CLIPS[1:]]
    tar(source / "tvqa_subtitles.tar.gz", [("../c0.srt", link), *members])
    found = prepare(source, tmp_path / "data")
    assert found.left_out[0].startswith("1 clips have no subtitles")
    assert (tmp_path / "data" / FOLDER / SILENT).read_text() == "c0\n"
    assert {one.turns for own in read_dialogues(tmp_path / "data" / FOLDER).values() for one in own} == {
        ("Ren\u00e9 speaks.",)
    }
    assert "secret" not in "".join(path.read_text() for path in (tmp_path / "data" / FOLDER).iterdir())


def test_an_archive_of_subtitles_is_unpacked_to_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "FLOOR", 50_000)
    source = write(tmp_path, lines() | {TVQA_SUBTITLES: None})
    tar(source / "tvqa_subtitles.tar.gz", [(f"s/{clip}.srt", bytes(500_000)) for clip in CLIPS])
    assert "tvqa_subtitles.tar.gz unpacks to far more than it is" in refused(source, tmp_path / "data")


def test_the_official_folder_is_never_replaced(tmp_path):
    source = write(tmp_path, lines()).rename(tmp_path / FOLDER)
    (source / "tvqa_test_public.jsonl").write_text("{}\n")
    before = files(source)
    assert "tvqa lies where the prepared data goes" in refused(source, tmp_path)
    assert "tvqa holds tvqa_test_public.jsonl, which was not prepared" in refused(write(tmp_path, lines()), tmp_path)
    assert files(source) == before


def test_the_command_says_what_was_copied_and_how_to_train(tmp_path, monkeypatch, capsys):
    found = lines()
    found[TRAIN].append(question("c3", answer_idx=None))
    write(tmp_path, found)
    monkeypatch.chdir(tmp_path)
    assert cli.main(["prepare", "tvqa", "--from", "official", "--data_dir=data"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "train       18 clips      18 questions",
        "valid        2 clips       2 questions",
        "test         2 clips       2 questions",
        "1 questions without an answer are left out",
        "memjax train --config=configs/dialogues.py:tvqa --data_dir=data",
    ]
    for arguments, said in (
        (["--from=none"], "none is no folder; give TVQA's"),
        ([], "name TVQA's folder: memjax prepare tvqa --from=FOLDER"),
        (["--from=official", "--features=x"], "memjax prepare tvqa takes no --features"),
    ):
        assert cli.main(["prepare", "tvqa", *arguments]) == 2
        assert said in (error := capsys.readouterr().err) and error.count("\n") == 1, error


@given(place=st.integers(0, 10**6), byte=st.integers(0, 255), name=st.sampled_from(["c0.srt", *TVQA_QUESTIONS]))
@settings(max_examples=60, deadline=None)
def test_a_folder_with_any_byte_changed_is_prepared_or_refused_in_one_line(tmp_path_factory, place, byte, name):
    root = tmp_path_factory.mktemp("tvqa")
    source = write(root, lines() | {TVQA_SUBTITLES: None})
    (source / "tvqa_subtitles").mkdir()
    for clip in CLIPS:
        (source / "tvqa_subtitles" / f"{clip}.srt").write_text(srt(turns(clip)))
    path = source / "tvqa_subtitles" / name if name.endswith(".srt") else source / name
    data = bytearray(path.read_bytes())
    data[place % len(data)] = byte
    path.write_bytes(data)
    try:
        found = prepare(source, root / "data")
    except MemjaxError as error:
        assert "\n" not in str(error) and not (root / "data" / FOLDER).exists()
    else:
        read = read_dialogues(root / "data" / FOLDER)
        assert found.questions == {s: sum(len(one.questions) for one in own) for s, own in read.items()}


@real
def test_the_real_questions_are_prepared(tmp_path):
    """TVQA's own train and subtitles are not to be had: TVQA+'s questions of val, whose clips say their names."""
    with gzip.open(DATA / "tvqa" / "tvqa_plus_val.json.gz", "rt") as file:
        sample = json.load(file)
    with gzip.open(DATA / "tvqa" / "tvqa_test_public.jsonl.gz", "rt") as file:
        public = [json.loads(line) for line in file]
    clips = dict.fromkeys(row["vid_name"] for row in (*sample, *public))
    said = [{"vid_name": c, "sub": [{"text": t, "start": s} for s, t in turns(c)]} for c in clips]
    source = write(tmp_path, {TRAIN: sample, TEST: [*public, sample[0]], TVQA_SUBTITLES: said[::-1]})
    found = prepare(source, tmp_path / "data")
    assert sum(found.questions.values()) == 3017 + 1 and found.questions["test"] == 1
    assert found.left_out[0] == "7,623 questions without an answer are left out"
    assert sum(found.streams.values()) == len({row["vid_name"] for row in sample}) + 1
    read = read_dialogues(tmp_path / "data" / FOLDER)
    assert found.questions == {s: sum(len(one.questions) for one in own) for s, own in read.items()}
    (source / TEST).write_bytes(gzip.decompress((DATA / "tvqa" / "tvqa_test_public.jsonl.gz").read_bytes()))
    assert "tvqa_val.jsonl has questions with an answer about 0 clips" in refused(source, tmp_path / "data")
