"""`memjax prepare`."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from absl import flags

from memjax.config.overrides import parse_flags
from memjax.errors import require
from memjax.tasks.builders import activitynet, babi_records, narrativeqa, tvqa
from memjax.tasks.builders.new_folder import Copied

USAGE = """\
memjax prepare babi --from=ARCHIVE --data_dir=DATA [--extra=FOLDER_NAME=FILE ...]
memjax prepare activitynet --from=FOLDER --features=FOLDER|FILE.npz --data_dir=DATA [--frames=NUMBER]
memjax prepare narrativeqa --from=FOLDER --data_dir=DATA
memjax prepare tvqa --from=FOLDER --data_dir=DATA

Checks a data set's files, and puts what is read of them into a folder of DATA, whole or not at all; says what is left
out. bAbI's archive (or a folder of its files) becomes a form that is quick to load. ActivityNet-QA's questions and your
features of its videos become a folder for configs/files.py. Of NarrativeQA's folder the summaries and the questions
about them are kept, for configs/stories.py:narrativeqa; of TVQA's the questions with answers and the subtitles of their
clips, for configs/dialogues.py:tvqa.

  --extra     one file that the archive lacks, such as --extra=en-10k=qa3_three-supporting-facts_train.txt
  --features  a folder with NAME.npy for each video, [frames, d]; or one archive FILE.npz with an array NAME for each
  --frames    how many are kept of a video, evenly spread; all, if it is not given
"""


def run(arguments: Sequence[str]) -> None:
    """Runs the command."""
    values = flags.FlagValues()
    flags.DEFINE_string("from", None, "an archive, or a folder of files", flag_values=values)
    flags.DEFINE_string("data_dir", "data", "where the prepared data goes", flag_values=values)
    flags.DEFINE_multi_string("extra", [], "FOLDER_NAME=FILE that the archive lacks", flag_values=values)
    flags.DEFINE_string("features", None, "a folder of features, or an archive", flag_values=values)
    flags.DEFINE_integer("frames", 0, "how many are kept of a video", flag_values=values)
    rest = parse_flags(values, arguments, "prepare")
    require(
        len(rest) == 1 and rest[0] in PREPARED,
        f"say what to prepare, one of {', '.join(PREPARED)}: memjax prepare babi --from=ARCHIVE --data_dir=FOLDER",
    )
    prepare, own = PREPARED[rest[0]]
    strange = {name for _, names in PREPARED.values() for name in names if values[name].present} - own
    require(not strange, f"memjax prepare {rest[0]} takes no --{', --'.join(sorted(strange))}")
    prepare(values)


def _babi(values: flags.FlagValues) -> None:
    source = getattr(values, "from")
    require(source, f"name {babi_records.ARCHIVE}, or a folder of its files: memjax prepare babi --from=ARCHIVE")
    extra = {}
    for pair in values.extra:
        name, equals, file = pair.partition("=")
        require(equals, f"--extra={pair} must be FOLDER_NAME=FILE")
        extra[name] = file
    for folder, split, stories, questions in babi_records.prepare(source, values.data_dir, extra=extra):
        print(f"{folder:<14} {split:<6} {len(questions):>3} tasks {sum(stories.values()):>7,} stories", end="")
        print(f" {sum(questions.values()):>8,} questions")


def _activitynet(values: flags.FlagValues) -> None:
    source, features = getattr(values, "from"), values.features
    require(
        source and features,
        "name ActivityNet-QA's folder dataset, and one of features: memjax prepare activitynet --from=FOLDER "
        "--features=FOLDER",
    )
    made = activitynet.prepare(Path(source), Path(features), Path(values.data_dir), frames=values.frames)
    for split, count in made.questions.items():
        print(f"{split:<6} {count:>7,} questions")
    folder = Path(values.data_dir, activitynet.FOLDER)
    print(f"{made.rare:,} questions of train have another answer than the {activitynet.CLASSES:,} commonest: left out")
    if made.missing:
        print(f"{len(made.missing):,} videos have no features: left out, and named in {folder / activitynet.MISSING}")
    print(f"memjax train --config=configs/files.py:{folder}")


def _copied(prepare: Callable[[Path, Path], Copied], name: str, what: str, file: str, values: flags.FlagValues) -> None:
    source, short = getattr(values, "from"), name.lower()
    require(source, f"name {name}'s folder: memjax prepare {short} --from=FOLDER")
    copied = prepare(Path(source), Path(values.data_dir))
    for split, count in copied.streams.items():
        print(f"{split:<6} {count:>7,} {what} {copied.questions[split]:>7,} questions")
    for line in copied.left_out:
        print(line)
    print(f"memjax train --config=configs/{file}.py:{short} --data_dir={values.data_dir}")


# What is prepared, and which flags it has for itself.
PREPARED: dict[str, tuple[Callable[[flags.FlagValues], None], set[str]]] = {
    "babi": (_babi, {"extra"}),
    "activitynet": (_activitynet, {"features", "frames"}),
    "narrativeqa": (partial(_copied, narrativeqa.prepare, "NarrativeQA", "documents", "stories"), set()),
    "tvqa": (partial(_copied, tvqa.prepare, "TVQA", "clips", "dialogues"), set()),
}
