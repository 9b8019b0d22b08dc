"""`memjax prepare`."""

from collections.abc import Sequence

from absl import flags

from memjax.config.overrides import parse_flags
from memjax.errors import require
from memjax.tasks.builders import babi

USAGE = """\
memjax prepare babi --from=ARCHIVE --data_dir=FOLDER [--extra=FOLDER_NAME=FILE ...]

Reads bAbI's archive (or a folder of its files) into a form that is quick to load.

  --extra   one file that the archive lacks, such as --extra=en-10k=qa3_three-supporting-facts_train.txt
"""


def run(arguments: Sequence[str]) -> None:
    """Runs the command."""
    values = flags.FlagValues()
    flags.DEFINE_string("from", None, "an archive, or a folder of files", flag_values=values)
    flags.DEFINE_string("data_dir", "data", "where the prepared data goes", flag_values=values)
    flags.DEFINE_multi_string("extra", [], "FOLDER_NAME=FILE that the archive lacks", flag_values=values)
    rest = parse_flags(values, arguments, "prepare")
    require(rest == ["babi"], "say what to prepare: memjax prepare babi --from=ARCHIVE --data_dir=FOLDER")
    source = getattr(values, "from")
    require(source, f"name {babi.ARCHIVE}, or a folder of its files: memjax prepare babi --from=ARCHIVE")
    extra = {}
    for pair in values.extra:
        name, equals, file = pair.partition("=")
        require(equals, f"--extra={pair} must be FOLDER_NAME=FILE")
        extra[name] = file
    for folder, split, stories, questions in babi.prepare(source, values.data_dir, extra=extra):
        print(f"{folder:<14} {split:<6} {len(questions):>3} tasks {sum(stories.values()):>7,} stories", end="")
        print(f" {sum(questions.values()):>8,} questions")
