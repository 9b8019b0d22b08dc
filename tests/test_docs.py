"""The manual: its links, its pictures, its tables, and that it has a page for whatever needs one."""

import dataclasses
import importlib
import inspect
import re
import statistics
import sys
from pathlib import Path

import pytest

import memjax
from memjax import layers, memories

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
GENERATED = {"api", "notebooks", "plots", "_build"}


@pytest.fixture(scope="module")
def tools():
    """What the manual is made with: it lies beside its pages, not in the package."""
    before, sys.path[:0] = list(sys.path), [str(DOCS / "_ext"), str(DOCS / "pictures"), str(ROOT / "benchmarks")]
    try:
        yield lambda name: importlib.import_module(name)
    finally:
        sys.path[:] = before


def written_pages():
    own = (path for path in DOCS.rglob("*.md") if path.relative_to(DOCS).parts[0] not in GENERATED)
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(own)]


PAGES = [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in written_pages()]


def without_code(text):
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(text):
    """What the headings of a page are called in an address, as MyST and GitHub make it."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page, tools):
    made = {path.name for path in tools("generate").api(DOCS / "api")}
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        inside = path.relative_to(DOCS).parts if path.is_relative_to(DOCS) else ("",)
        if inside[0] == "api":
            assert path.name in made, target
        elif inside[0] == "notebooks":
            assert (ROOT / "colabs" / path.name).exists(), target
        elif inside[0] == "plots":
            assert f'"{path.name}"' in (DOCS / "_ext" / "plots.py").read_text(), target
        else:
            assert path.exists(), target
            assert not anchor or anchor in anchors(path.read_text()), target


@pytest.mark.parametrize("page", PAGES)
def test_names_in_roles_exist(page):
    for name in re.findall(r"\{py:\w+\}`~?([\w.]+)`", page.read_text()):
        module, _, thing = name.rpartition(".")
        assert hasattr(importlib.import_module(module), thing), name


def test_every_page_is_in_a_table_of_contents():
    listed = set()
    for page in DOCS.rglob("*.md"):
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
            for name in (line for line in block.split() if not line.startswith(":")):
                listed |= {path.resolve() for path in page.parent.glob(f"{name}.md")}
    pages = {path.resolve() for path in written_pages() if path.is_relative_to(DOCS)}
    assert pages - listed == {(DOCS / "index.md").resolve()}


def test_the_pictures_are_those_that_the_script_draws(tools):
    for name, make in tools("draw").PICTURES.items():
        assert (DOCS / "pictures" / f"{name}.svg").read_text() == make().svg(), "run: python docs/pictures/draw.py"


def test_the_tables_of_the_readme_are_those_of_the_results(tools):
    text = (ROOT / "README.md").read_text()
    assert "<!-- results:" in text
    assert tools("results_tables").filled_in(text) == text, "run: python benchmarks/results_tables.py"


def test_every_file_of_results_is_shown_in_the_manual(tools):
    shown = set()
    for page in written_pages():
        shown |= set(re.findall(r"^```\{results\} (\w+)$", page.read_text(), re.MULTILINE))
    tables = tools("results_tables").TABLES
    assert shown == set(tables)
    files = {name for names, _ in tables.values() for name in ((names,) if isinstance(names, str) else names)}
    assert files == {path.stem for path in (ROOT / "results").glob("*.json")}


@pytest.mark.parametrize("name", memories.registry)
def test_every_memory_has_a_page_with_all_its_sizes(name, tools):
    page = (DOCS / "memories" / f"{name}.md").read_text()
    fields = [f.name.removeprefix("num_") for f in dataclasses.fields(memories.registry[name])]
    for size in set(fields) - {"parent", "name"}:
        assert re.search(rf"^\|[^|]*`{size}`", page, re.MULTILINE), size
    assert f"pictures/{name}.svg" in page and "$$" in page
    told = tools("results_tables").facts(name)
    assert f"```{{memory-facts}} {name}\n" in page and ("us |" in told or told.startswith("Not measured yet"))
    index = (DOCS / "memories" / "index.md").read_text()
    assert f'[`"{name}"`]({name}.md)' in index and f"\n{name}\n" in index


@pytest.mark.parametrize("layer", ["LMM", "MAC", "MAG", "MAL"])
def test_every_titans_layer_has_a_page_with_its_equation_and_its_picture(layer):
    page = (DOCS / "layers" / f"{layer.lower()}.md").read_text()
    assert f"pictures/{layer.lower()}.svg" in page and "$$" in page and f"{{py:class}}`memjax.layers.{layer}`" in page
    assert f"[`{layer}`]({layer.lower()}.md)" in (DOCS / "layers" / "index.md").read_text()


def test_a_memory_without_facts_is_one_that_no_benchmark_has_seen(tools):
    tables = tools("results_tables")
    measured = {row["memory"] for row in tables.load("bench_memories")["rows"]}
    assert {name for name in memories.registry if "us |" in tables.facts(name)} == measured
    assert set(memories.registry) - measured <= {"hpmn", "mimn"}


def test_the_api_has_every_public_name(tools):
    pages = "".join(tools("generate").api(DOCS / "api").values())
    for module in ("memjax", "memjax.ops", "memjax.memories", "memjax.layers", "memjax.models", "memjax.tasks"):
        found = importlib.import_module(module)
        for thing in (getattr(found, name) for name in found.__all__):
            if (inspect.isfunction(thing) or inspect.isclass(thing)) and thing.__module__.startswith("memjax"):
                room = ".".join(thing.__module__.split(".")[:2])
                entry = f":: {module if module == 'memjax' else room}.{thing.__name__}\n"
                assert entry in pages, entry


def arguments_of(thing):
    if not inspect.isclass(thing):
        return list(inspect.signature(inspect.unwrap(thing)).parameters)
    if dataclasses.is_dataclass(thing):
        return [f.name for f in dataclasses.fields(thing) if f.init and f.name not in ("parent", "name")]
    return list(getattr(thing, "_fields", ()))


def told_of(thing):
    """The arguments that have a line in a section; a class that adds none to its base has those of the base."""
    section = re.search(r"^(?:Args|Attributes):\n((?:    .*\n?|\n)*)", inspect.getdoc(thing) or "", re.MULTILINE)
    told = set(re.findall(r"^    \*{0,2}(\w+): \S", section[1], re.MULTILINE)) if section else set()
    adds_none = inspect.isclass(thing) and thing.__base__ is not None and not inspect.get_annotations(thing)
    return told | told_of(thing.__base__) if adds_none else told


@pytest.mark.parametrize(
    "module", ["ops", "memories", "layers", "models", "streaming", "environments", "tasks", "training.ranking_metrics"]
)
def test_every_argument_has_its_line_in_a_section(module, tools):
    found = importlib.import_module(f"memjax.{module}")
    for name in tools("generate").public(found):
        assert set(arguments_of(getattr(found, name))) <= told_of(getattr(found, name)), name


def test_the_signatures_are_those_of_the_source(tools):
    signature = tools("signatures").signature
    assert signature(memjax.functional) == ("(memory: Memory)", "FunctionalMemory")
    arguments, _ = signature(memories.DNC)
    assert arguments.startswith("(num_slots: int, width: int, memory_width: int = 64")
    by_name = ", *, persistent: int = 0, momentum: bool = True, forgetting: bool = True, convolution: bool = True, "
    assert signature(layers.MAG)[0].startswith(f"(width: int, heads: int, window: int{by_name}")
    assert signature(memories.Slots)[0] == "(values: Float[Array, '*B K d'], mask: Bool[Array, '*B K'])"


def test_steps_are_told_of_each_run_whose_curve_is_kept(tools):
    runs = [
        {"row": "a", "seed": 0, "validation": [[250, 0.1], [500, 0.5], [1000, 0.95]]},
        {"row": "a", "seed": 1, "validation": [[250, 0.1], [1000, 0.3]]},
        {"row": "b", "seed": 0},
    ]
    _, _, *lines = tools("evidence_tables").steps_by_seed({"runs": {str(i): run for i, run in enumerate(runs)}})
    assert lines == [
        "| a | 0 | 500 | 500 | 1,000 | 95.0 | 1,000 |",
        "| a | 1 | 1,000 | not yet | not yet | 30.0 | 1,000 |",
    ]


def test_what_is_recollected_is_told_by_age_and_over_all_ages(tools):
    shares = [{"0": {"accuracy": 0.2}, "1": {"accuracy": 0.4}}, {"0": {"accuracy": 0.3}, "1": {"accuracy": 0.5}}]
    runs = {str(i): {"row": "dot", "seed": i, "recollected": share} for i, share in enumerate(shares)}
    runs["none"] = {"row": "none", "seed": 0}  # which was not rehearsed
    head, _, *lines = tools("evidence_tables").recollected({"runs": runs})
    assert head == "|  | age 0 % | age 1 % | all % | seeds |"
    assert lines == ["| dot | 25.0 ± 7.1 | 45.0 ± 7.1 | 35.0 ± 7.1 | 2 |"]


def test_what_memories_learned_is_told_for_the_right_one(tools):
    """Against a reading of the file of its own."""
    load, evidence = tools("results_tables").load, tools("evidence_tables")
    found = [run for run in load("evidence_memories")["runs"].values() if run["row"] == "ntm"]
    mean = 100 * statistics.mean(run["metrics"]["accuracy"] for run in found)
    (line,) = [line for line in tools("results_tables").markdown("memories").splitlines() if line.startswith("| ntm ")]
    assert line.startswith(f"| ntm | {mean:.1f} ±")
    assert f"{mean:.1f} ±" in tools("results_tables").facts("ntm")
    curve = evidence.learning(load("evidence_memories"), load("evidence_small"))["ntm"]
    at_half = next(step for step, accuracy in curve if accuracy >= 0.5)
    (line,) = [line for line in tools("results_tables").markdown("steps").splitlines() if line.startswith("| ntm ")]
    assert line.startswith(f"| ntm | {at_half:,} |")
