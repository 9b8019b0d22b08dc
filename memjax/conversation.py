"""A trained memory in words: it is told sentences, and asked questions, for as long as anybody likes."""

import difflib
import re
from pathlib import Path
from typing import Any

import numpy as np

from memjax import streaming
from memjax.errors import MemjaxError, require
from memjax.models import AskedMemory
from memjax.tasks.babi import words_of
from memjax.training import experiment
from memjax.typing import Params

FIRST: Any = [0]  # and only stream
ENDS = r"[.!?\n।。？！]+"  # of sentences


class Conversation:
    """What a model of a task in words was told, sentence by sentence, and what it answers.

    task: one with `vocabulary` and `answers`, such as bAbI. states: what it remembers, of one size however much it was
    told; `streaming.save` and `streaming.load` keep it. Raises `MemjaxError` for a task that has no words, or a model
    without a memory of a stream.

    A word that the model was not trained on is refused, and nothing of its text is read: the model has no idea of it,
    and what is written stays. Words are those of `tasks.babi.words_of`: lower case, without punctuation.

    >>> import jax, jax.numpy as jnp
    >>> from types import SimpleNamespace
    >>> from memjax import memories
    >>> from memjax.tasks import TaskShape
    >>> words = "<pad>", "<unknown>", "garden", "in", "is", "kitchen", "mary", "the", "where"
    >>> shape = TaskShape(items=9, segments=4, segment=5, queries=9, query_words=3, answer="classes", classes=2)
    >>> task = SimpleNamespace(shape=shape, vocabulary=words, answers=("garden", "kitchen"))
    >>> memory = memories.create("rehearsal", slots=4, width=8, segment=5, layers=1, heads=2)
    >>> model = AskedMemory(shape, memory, 8, hops=1, head_layers=0, rehearser_layers=1, rehearser_heads=2)
    >>> both = lambda model, stream, mask, query: model.answer(model.memorize(stream, mask)[0], query)
    >>> one = jnp.ones((4, 5), int), jnp.ones((4, 5), bool), jnp.ones(3, int)
    >>> told = Conversation(task, model, model.init(jax.random.key(0), *one, method=both))  # nothing is trained here
    >>> told.tell("Mary is in the kitchen. Is Mary in the garden?")
    >>> told.ask("Where is Mary?") in task.answers
    True
    >>> told.ask("Where is Marie?")
    Traceback (most recent call last):
        ...
    memjax.errors.MemjaxError: the model was not trained on the word 'marie'; did you mean 'mary'?
    """

    def __init__(self, task: Any, model: Any, params: Params):
        has_words = all(hasattr(task, name) for name in ("vocabulary", "answers"))
        shape: Any = getattr(task, "shape", None)
        require(
            has_words and getattr(shape, "answer", None) == "classes" and shape.query_words is not None,
            f"{type(task).__name__} is no task of words; memjax.streaming writes and asks with ids",
        )
        require(
            isinstance(model, AskedMemory),
            f"a {type(model).__name__} keeps no state that can be told more; take a run with config.system=memory",
        )
        self.task, self.model, self.params = task, model, params
        self._ids = {word: place for place, word in enumerate(task.vocabulary) if not word.startswith("<")}
        self.start_over()

    def start_over(self) -> None:
        """Forgets all that was told."""
        self.states = streaming.start(self.model, self.params, 1)

    def tell(self, text: str) -> None:
        """Reads one sentence or more, each a segment of the stream.

        Raises `MemjaxError`, and reads nothing, for an unknown word, and a sentence longer than those of its training.
        """
        sentences = [words for part in re.split(ENDS, _text(text)) if (words := words_of(part))]
        require(sentences, f"there is no word in {text!r:.80}")
        longest, most = max(map(len, sentences)), self.task.shape.segment
        require(longest <= most, f"a sentence has {longest} words, this model reads at most {most}; say it in two")
        ids = [[self._id(word) for word in sentence] for sentence in sentences]
        self.states = streaming.write(self.model, self.params, self.states, FIRST, [ids])

    def ask(self, question: str) -> str:
        """The answer that the model finds likeliest, of `task.answers`. The question leaves no trace.

        Raises `MemjaxError` for an unknown word, and a question longer than those it was trained on.
        """
        words, most = words_of(_text(question)), self.task.shape.query_words
        require(words, f"there is no word in {question!r:.80}")
        require(len(words) <= most, f"the question has {len(words)} words, this model reads at most {most}")
        query: Any = [[self._id(word) for word in words] + [0] * (most - len(words))]
        logits = streaming.answer(self.model, self.params, self.states, FIRST, query)
        return self.task.answers[int(np.argmax(logits[0]))]

    def _id(self, word: str) -> int:
        if word not in self._ids:
            near = difflib.get_close_matches(word, self._ids, n=1)
            hint = (
                f"; did you mean {near[0]!r}?"
                if near
                else f"; it knows {len(self._ids)} words, those of task.vocabulary"
            )
            raise MemjaxError(f"the model was not trained on the word {word!r:.40}{hint}")
        return self._ids[word]


def open_run(folder: Path | str) -> Conversation:
    """A conversation with the model of a run, as it was at its newest checkpoint. Raises as `Conversation` does.

    told = open_run("runs/babi-rehearsal")
    told.tell("Mary went to the kitchen.")
    told.ask("Where is Mary?")
    """
    return Conversation(*experiment.trained_task(folder))


def _text(text: Any) -> str:
    require(isinstance(text, str), f"a text is a str, not a {type(text).__name__}")
    return text
