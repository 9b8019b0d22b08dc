"""bAbI as TFDS records: one record per story, one builder config per folder of the archive."""

import contextlib
import io
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow_datasets as tfds
from absl import logging

from memjax.errors import MemjaxError, one_line, require
from memjax.files import replace_folder, writing
from memjax.tasks.builders.babi_format import Folder, Question, Records, Story, read_extra, read_source

ARCHIVE = "the bAbI tasks archive tasks_1-20_v1-2.tar.gz of Weston et al."
URL = "http://www.thespermwhale.com/jaseweston/babi/tasks_1-20_v1-2.tar.gz"
_FOLDERS = ("en", "en-10k", "en-valid", "en-valid-10k", "hn", "hn-10k", "shuffled", "shuffled-10k")
_VERSION = "1.2.0"


class Builder(tfds.core.GeneratorBasedBuilder):
    """The records of one folder, from parsed stories; without them it reads what is prepared.

    Lists within a record are one string with an entry per line: TFDS decodes that three times as fast as nested
    sequences, and ragged ones (the supporting facts) would need TensorFlow.
    """

    name = "babi"
    VERSION = tfds.core.Version(_VERSION)
    BUILDER_CONFIGS = [tfds.core.BuilderConfig(name=name) for name in _FOLDERS]  # noqa: RUF012

    def __init__(self, *, stories: Folder | None = None, extras: Mapping[str, dict] | None = None, **kwargs):
        self._stories, self._extras = stories, dict(extras or {})
        super().__init__(**kwargs)

    def _info(self) -> tfds.core.DatasetInfo:
        text = tfds.features.Text
        return tfds.core.DatasetInfo(
            builder=self,
            description="Synthetic stories with questions, 20 tasks (Weston et al. 2015, arXiv:1502.05698).",
            homepage=URL,
            license="CC BY 3.0",
            features=tfds.features.FeaturesDict(
                {
                    "task": np.int32,
                    "sentences": text(doc="the statements, one per line"),
                    "after": tfds.features.Tensor(shape=(None,), dtype=np.int32, doc="statements before each question"),
                    "questions": text(doc="one per line"),
                    "answers": text(doc="one per line"),
                    "supporting": text(doc="per question a line of positions of statements, from 0"),
                }
            ),
            # With the order kept, a task is a range of records, and reads without its neighbours.
            disable_shuffling=True,
            metadata=tfds.core.MetadataDict(),
        )

    def _split_generators(self, dl_manager):
        require(self._stories is not None, f"prepare bAbI from {ARCHIVE}: memjax prepare babi --from=ARCHIVE")
        ranges: dict[str, dict[str, list[int]]] = {}
        for (task, split), stories in sorted(self._stories.items()):
            counts = [len(stories), sum(len(story.questions) for story in stories)]
            ranges.setdefault(split, {})[str(task)] = counts
        self.info.metadata.update(splits=ranges, extras=self._extras)
        return {split: self._generate_examples(split) for split in ranges}

    def _generate_examples(self, split):
        key = 0
        for (task, its_split), stories in sorted(self._stories.items()):
            for sentences, questions in stories if its_split == split else ():
                yield (
                    key,
                    {
                        "task": task,
                        "sentences": "\n".join(sentences),
                        "after": np.array([question.after for question in questions], np.int32),
                        "questions": "\n".join(question.text for question in questions),
                        "answers": "\n".join(question.answer for question in questions),
                        "supporting": "\n".join(" ".join(map(str, question.supporting)) for question in questions),
                    },
                )
                key += 1


class Prepared(NamedTuple):
    """A split of a folder that was prepared.

    Attributes:
        folder: its name.
        split: its name.
        stories: of each task, how many.
        questions: of each task, how many.
    """

    folder: str
    split: str
    stories: dict[int, int]
    questions: dict[int, int]


def _story(record: dict) -> Story:
    sentences, texts, answers, supporting = (
        record[key].decode().split("\n") for key in ("sentences", "questions", "answers", "supporting")
    )
    facts = (tuple(map(int, line.split())) for line in supporting)
    return Story(tuple(sentences), tuple(map(Question, record["after"].tolist(), texts, answers, facts)))


@contextlib.contextmanager
def _whole(folder: Path):
    """Turns whatever damaged files raise in TFDS into one line."""
    try:
        yield
    except Exception as error:
        raise MemjaxError(f"{folder} is damaged ({one_line(error)}); prepare it again") from None


def open_folder(data_dir: str | os.PathLike, folder: str) -> Records:
    """A prepared folder.

    Args:
        data_dir: where it was prepared.
        folder: its name.

    Raises:
        MemjaxError: if it is not there, with what to run.
    """
    root = Path(data_dir) / Builder.name
    ready = sorted(path.parent.parent.name for path in root.glob(f"*/{_VERSION}/dataset_info.json"))
    run = f"memjax prepare babi --from ARCHIVE --data_dir={data_dir}"
    require(ready, f"no bAbI data in {data_dir}; run: {run}")
    require(folder in ready, f"bAbI folder {folder!r} is not prepared; prepared: {', '.join(ready)} (more by: {run})")
    with _whole(root / folder):
        builder = tfds.builder_from_directory(root / folder / _VERSION)
        splits = {
            split: {int(task): tuple(counts) for task, counts in tasks.items()}
            for split, tasks in builder.info.metadata["splits"].items()
        }
        extras = {
            (int(task), split): file
            for split, files in builder.info.metadata["extras"].items()
            for task, file in files.items()
        }

    def stories(split: str, task: int) -> list[Story]:
        with _whole(root / folder):
            start = sum(count for other, (count, _) in splits[split].items() if other < task)
            records = builder.as_data_source(split).__getitems__(range(start, start + splits[split][task][0]))
            return [_story(record) for record in records]

    return Records(splits, extras, stories)


def prepare(
    source: str | os.PathLike | Sequence[str | os.PathLike],
    data_dir: str | os.PathLike,
    *,
    extra: Mapping[str, str | os.PathLike] | None = None,
) -> list[Prepared]:
    """Writes every folder of the sources as TFDS records under `data_dir/babi`.

    Everything is parsed before anything is written, and moved into place when all of it is complete.

    Args:
        source: archives (tar, tar.gz, tgz, zip) or folders. A folder that was prepared before is replaced, others stay.
        data_dir: where they are written.
        extra: for a folder, a single file with a (task, split) that the sources lack.

    Returns:
        What was written.

    Raises:
        MemjaxError: if a source is missing, damaged or not bAbI's; what was prepared is then as it was.

    ::

        prepare("tasks_1-20_v1-2.tar.gz", "data", extra={"en-10k": "qa3_10k_train.PARTIAL.txt.gz"})
    """
    data_dir = Path(data_dir)
    folders: dict[str, Folder] = {}
    for path in [source] if isinstance(source, str | os.PathLike) else source:
        for name, folder in read_source(Path(path)).items():
            require(name not in folders, f"{path}: an earlier source has a folder {name!r} too; give it once")
            folders[name] = folder
    extras: dict[str, dict[str, dict[str, str]]] = {name: {} for name in folders}
    for name, path in (extra or {}).items():
        require(name in folders, f"extra file for folder {name!r}, which is not in the source: {', '.join(folders)}")
        (task, split), stories = read_extra(Path(path))
        require((task, split) not in folders[name], f"{name} has a {split} file of task {task}; leave {path} out")
        folders[name][task, split] = stories
        extras[name] = {split: {str(task): Path(path).name}}
    with writing(data_dir):
        _write(folders, extras, data_dir)
    return [
        Prepared(name, split, {task: counts[0] for task, counts in tasks.items()}, {t: c[1] for t, c in tasks.items()})
        for name in sorted(folders)
        for split, tasks in sorted(open_folder(data_dir, name).splits.items())
    ]


def _write(folders: Mapping[str, Folder], extras: Mapping[str, dict], data_dir: Path) -> None:
    root = data_dir / Builder.name
    root.mkdir(parents=True, exist_ok=True)
    # Beside the final place, so that moving is a rename.
    with tempfile.TemporaryDirectory(prefix=".babi-", dir=data_dir) as temporary:
        for name, stories in folders.items():
            config = Builder.builder_configs.get(name) or tfds.core.BuilderConfig(name=name)
            with _quiet():
                builder = Builder(
                    stories=stories, extras=extras[name], config=config, data_dir=temporary, file_format="array_record"
                )
                builder.download_and_prepare()
        for name in folders:
            new, old = Path(temporary, Builder.name, name), Path(temporary, f"{Builder.name}-old-{name}")
            replace_folder(new, root / name, old)


@contextlib.contextmanager
def _quiet():
    """Without TFDS's bars and lines, which name the temporary place."""
    tfds.disable_progress_bar()
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(verbosity)
