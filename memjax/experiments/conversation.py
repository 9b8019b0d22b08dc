"""A trained run in words: it is told sentences, and asked questions, one stream at a time."""

from pathlib import Path
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from memjax import streaming
from memjax.errors import remark, require
from memjax.experiments.prepare import prepare, read_run, trained_parameters
from memjax.experiments.stream_qa import StreamQAConfig
from memjax.models import MemoryModel
from memjax.tasks.words import UNKNOWN


class Conversation:
    """A memory of a text task that was trained, in the task's own words.

    Each sentence is a segment, read once; the state keeps its size. Words that the task does not know are one unknown
    word, and it is said how many they are. `tell` and `ask` may take turns in any order.

    Args:
        folder: of a run that `memjax train` made, on a task whose items are words, as bAbI.
        data_dir: where the run's data lies, if it was moved; its words are there.

    Raises:
        MemjaxError: for a run of another kind.

    ::

        talk = Conversation("runs/babi-rehearsal")
        talk.tell("Mary went to the kitchen.", "She took the milk.")
        talk.ask("Where is the milk?")    # "kitchen"
    """

    def __init__(self, folder: Path | str, data_dir: Path | str | None = None):
        config = read_run(folder, data_dir)
        asked = isinstance(config, StreamQAConfig) and config.system == "memory"
        require(asked, f"{folder} is no run of a memory; see configs/babi.py")
        experiment = prepare(config)
        self._task: Any = experiment.task
        words = all(hasattr(self._task, name) for name in ("encode_sentence", "encode_question", "answers"))
        require(words, f"the task {experiment.task_name} has no words; see configs/babi.py")
        self._model = cast(MemoryModel, experiment.recipe.model)
        self._params = jax.tree.map(jnp.asarray, trained_parameters(experiment, Path(folder)))
        self.forget()

    def forget(self) -> None:
        """Begins another stream."""
        self._states = streaming.start(self._model, self._params, 1)

    def tell(self, *sentences: str) -> None:
        """Reads sentences, in order.

        Raises:
            MemjaxError: for one without words or longer than the task's; then none is read.
        """
        for ids in [self._task.encode_sentence(sentence) for sentence in sentences]:
            self._remark_unknown(ids)
            self._states = streaming.write(self._model, self._params, self._states, np.zeros(1, int), [ids])

    def ask(self, question: str) -> str:
        """The likeliest answer.

        Raises:
            MemjaxError: as `tell` does.
        """
        query = self._task.encode_question(question)[None]
        self._remark_unknown(query)
        logits = streaming.answer(self._model, self._params, self._states, np.zeros(1, int), query)
        return self._task.answers[int(logits[0].argmax())]

    def _remark_unknown(self, ids: np.ndarray) -> None:
        """Says how many words there are that the model was not trained with: they are one word to it."""
        if count := int((ids == UNKNOWN).sum()):
            remark(f"{count} of these words {'is' if count == 1 else 'are'} none that the model was trained with")
