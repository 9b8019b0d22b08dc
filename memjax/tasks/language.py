"""Language: the next word, or the next character, of a text. Penn Treebank as in Mikolov's files; any other text."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from memjax.checks import at_least
from memjax.errors import require
from memjax.tasks.sequence import NOTHING, SequenceShape
from memjax.tasks.stream_task import Batch, Split, check_indices
from memjax.tasks.text import read_member, read_text, without_gutenberg
from memjax.typing import SPLITS

END, UNKNOWN = "<eos>", "<unk>"


@dataclass(frozen=True)
class LanguageSpec:
    """The settings of `Language`.

    Attributes:
        file: of `data_dir`: an archive (.zip) with ptb.train.txt, ptb.valid.txt and ptb.test.txt, or one text (.txt,
            .txt.gz, .tar.gz of .txt), cut into 90, 5 and 5 hundredths.
        unit: what a token is.
        length: tokens of a training sequence, cut from anywhere.
        test_length: tokens of each of the streams into which valid and test are cut, end to end; each begins with an
            empty memory.
        data_dir: the folder of the file.

    Raises:
        MemjaxError: for a length below 1.
    """

    file: str
    unit: Literal["word", "character"]
    length: int
    test_length: int
    data_dir: str

    def __post_init__(self):
        at_least(self, 1, "length", "test_length")


class Language:
    """The next token at every token: implements `memjax.tasks.SequenceTask`.

    Words are what blanks separate, and `<eos>` at the end of each line; the vocabulary is that of the train split, and
    any other token `<unk>`. Where train has no `<unk>`, other tokens are read as the commonest one and are not asked
    for, which a note says. Nor is the first token of a stream: perplexity is that of all the others.

    Attributes:
        spec: its settings.
        shape: of its batches.
        vocabulary: the tokens, by their ids, the commonest first.
        notes: how many tokens of valid and test do not occur in train.

    Raises:
        MemjaxError: for a file that is missing, damaged or too short.
    """

    def __init__(self, spec: LanguageSpec):
        self.spec = spec
        tokens = {split: list(_tokens(text, spec.unit)) for split, text in _texts(spec).items()}
        counts = Counter(tokens["train"])
        self.vocabulary = tuple(sorted(counts, key=lambda token: (-counts[token], token)))
        ids = {token: place for place, token in enumerate(self.vocabulary)}
        unknown = ids.get(UNKNOWN, NOTHING)
        self._ids = {split: np.array([ids.get(t, unknown) for t in ts], np.int32) for split, ts in tokens.items()}
        for split in SPLITS:
            length = spec.length if split == "train" else 1
            have = len(self._ids[split])
            require(have > length, f"the {split} split of {spec.file} has {have} tokens, {length + 1} are needed")
        self.shape = SequenceShape(vocabulary=len(self.vocabulary), choices=len(self.vocabulary), text=True)
        foreign = {split: sum(t not in ids for t in tokens[split]) for split in ("valid", "test")}
        fate = "count as <unk>" if UNKNOWN in ids else "are not asked for"
        self.notes = tuple(
            f"{count} tokens of the {split} split do not occur in train: they {fate}"
            for split, count in foreign.items()
            if count
        )

    def size(self, split: Split) -> int:
        """In training, one sequence for every place where one may begin; else how many streams there are."""
        predicted = len(self._ids[split]) - 1
        return predicted - self.spec.length + 1 if split == "train" else -(-predicted // self.spec.test_length)

    def examples(self, split: Split, indices: np.ndarray) -> Batch:
        indices = check_indices(indices, self.size(split), split)
        ids, train = self._ids[split], split == "train"
        length = self.spec.length if train else min(self.spec.test_length, len(ids) - 1)
        places = (indices if train else indices * length)[:, None] + np.arange(length)
        real = places < len(ids) - 1  # the last stream is shorter
        places = np.where(real, places, 0)
        return {
            "tokens": np.maximum(ids[places], 0),
            "target": np.where(real, ids[places + 1], NOTHING).astype(np.int32),
        }


def _texts(spec: LanguageSpec) -> dict[Split, str]:
    path = Path(spec.data_dir, spec.file)
    if path.suffix == ".zip":
        return {split: read_member(path, f"ptb.{split}.txt") for split in SPLITS}
    text = without_gutenberg(read_text(path))
    first, second = len(text) * 90 // 100, len(text) * 95 // 100
    return {"train": text[:first], "valid": text[first:second], "test": text[second:]}


def _tokens(text: str, unit: str) -> Iterable[str]:
    if unit == "character":
        return text
    return (word for line in text.splitlines() for word in (*line.split(), END))
