"""The notebooks: each is a .py and an .ipynb that say the same, and runs from its first cell to its last."""

import os
import re
from pathlib import Path

import jupytext
import nbclient
import pytest

COLABS = Path(__file__).parents[1] / "colabs"
SCRIPTS = sorted(COLABS.glob("*.py"))
every_notebook = pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)


def cells(path):
    return [(cell.cell_type, cell.source) for cell in jupytext.read(path).cells]


def test_every_notebook_has_both_forms():
    assert SCRIPTS
    assert {path.stem for path in COLABS.glob("*.ipynb")} == {path.stem for path in SCRIPTS}


@every_notebook
def test_both_forms_say_the_same(script):
    notebook = script.with_suffix(".ipynb")
    assert cells(script) == cells(notebook), "run: jupytext --to ipynb --update colabs/*.py"
    assert notebook.stat().st_size < 300_000, "outputs are to be small: draw fewer or smaller pictures"


def printed(script):
    """Runs the notebook in a kernel of its own: all that its cells printed."""
    notebook = jupytext.read(script)
    # They train for hundreds of steps: not optimized at all, running takes twice as long; fully, compiling does.
    optimized = os.environ | {"XLA_FLAGS": os.environ["XLA_FLAGS"].replace("level=0", "level=1")}
    nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3").execute(env=optimized)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return "".join(output.text for output in outputs if output.output_type == "stream")


def the_memory_of_write_and_ask_answers(text):
    assert float(re.search(r"all: (\S+)", text)[1]) > 0.9
    assert "same slots: True" in text


def in_growing_memory_recommendations_and_slots_follow_the_taste(text):
    assert float(re.search(r"AUC (\d\.\d+)", text)[1]) > 0.85
    before, after = re.search(r"before the change: (\d+)%; E and F at the end: (\d+)%", text).groups()
    assert min(int(before), int(after)) >= 80
    settled, moved = re.search(r"(\d\.\d+) before the change of taste, (\d\.\d+) in the three", text).groups()
    assert float(moved) > 1.5 * float(settled)


def in_surprise_the_new_surprises_and_exact_gradients_stay_finite(text):
    new, repeated = (float(re.search(rf"{words} words (\d\.\d+)", text)[1]) for words in ("new", "repeated"))
    assert new > 2 * repeated
    exact, chunked = (float(x) for x in re.search(r"exact (\S+), chunked (\S+)", text).groups())
    assert exact < 1 < 1e6 < chunked
    matrix, deep = (float(x) for x in re.search(r"a matrix (\S+), two layers (\S+)", text).groups())
    assert matrix > 0.5 > 0.2 > deep


def a_memory_of_ones_own_keeps_to_the_contract_and_learns(text):
    assert "in two calls as in one: True - padding wrote: 0.0" in text
    found = {name: float(accuracy) for name, accuracy in re.findall(r"(\w+) +(\d\.\d+) on new streams", text)}
    assert found["averages"] > 0.5 and found["rehearsal"] > 0.9 and found["dnc"] > 0.9


def a_rehearsed_memory_holds_what_nobody_asked_for(text):
    pattern = r"(answers alone|with rehearsal) +asked (\S+)  never asked (\S+)  recollected (\S+)"
    found = {name: [float(share) for share in shares] for name, *shares in re.findall(pattern, text)}
    plain, rehearsed = found["answers alone"], found["with rehearsal"]
    assert min(plain[0], rehearsed[0]) > 0.9
    assert rehearsed[1] > plain[1] + 0.15 and rehearsed[2] > 2 * plain[2]


def the_policy_of_buffer_learns_to_hold_what_is_asked_for(text):
    for what in ("right answers", "supporting lines held"):
        fifo, learned = (float(x) for x in re.search(rf"{what}: FIFO (\S+), learned (\S+)", text).groups())
        assert learned > fifo + 0.05


PROPERTIES = {
    "buffer": the_policy_of_buffer_learns_to_hold_what_is_asked_for,
    "growing_memory": in_growing_memory_recommendations_and_slots_follow_the_taste,
    "new_memory": a_memory_of_ones_own_keeps_to_the_contract_and_learns,
    "surprise": in_surprise_the_new_surprises_and_exact_gradients_stay_finite,
    "what_rehearsal_changes": a_rehearsed_memory_holds_what_nobody_asked_for,
    "write_and_ask": the_memory_of_write_and_ask_answers,
}


@pytest.mark.slow
@every_notebook
def test_it_runs_and_what_it_prints_has_its_property(script):
    """One test for both: several may be run by processes of their own, and each would run the notebook."""
    PROPERTIES[script.stem](printed(script))
