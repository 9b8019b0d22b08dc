"""Who may import whom, and what `import memjax` costs."""

import ast
import builtins
import dis
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "memjax"

# The rooms of memjax, in order: what of memjax each may import, and whose packages beside the standard library's.
ROOMS: dict[str, tuple[set[str], set[str]]] = {
    "typing": (set(), {"jax", "jaxtyping", "numpy"}),
    "errors": (set(), set()),
    "checks": ({"errors"}, set()),
    "deprecated": ({"errors"}, set()),
    "files": ({"errors"}, set()),
    "archives": ({"errors"}, set()),
    "ops": ({"errors", "typing"}, {"jax", "jaxtyping", "numpy"}),
    "environments": ({"archives", "errors", "files", "typing"}, {"jax", "numpy"}),
    "memories": ({"checks", "deprecated", "errors", "ops", "typing"}, {"flax", "jax", "numpy"}),
    "layers": ({"checks", "deprecated", "errors", "memories", "ops", "typing"}, {"flax", "jax"}),
    "functional": ({"errors", "memories", "ops", "typing"}, {"flax", "jax"}),
    "tasks": ({"archives", "checks", "environments", "errors", "files", "typing"}, {"numpy", "scipy"}),
    "models": (
        {"checks", "deprecated", "errors", "functional", "layers", "memories", "ops", "tasks", "typing"},
        {"flax", "jax", "numpy"},
    ),
    "packing": ({"errors", "typing"}, {"numpy"}),
    "state_files": ({"errors", "files", "typing"}, {"jax", "numpy"}),
    "streaming": ({"errors", "models", "packing", "state_files", "tasks", "typing"}, {"jax", "numpy"}),
    # What all families share knows none of them, no task and no memory.
    "config": ({"checks", "deprecated", "errors"}, {"absl", "ml_collections"}),
    "training": (
        {"checks", "config", "errors", "files", "ops", "typing"},
        {"absl", "chex", "etils", "flax", "grain", "jax", "numpy", "optax", "orbax", "rich", "scipy", "tensorboardX"},
    ),
    "reporting": ({"errors", "files"}, {"matplotlib", "numpy", "rich"}),
    "experiments": (
        {
            "checks",
            "config",
            "deprecated",
            "environments",
            "errors",
            "functional",
            "layers",
            "memories",
            "models",
            "ops",
        }
        | {"reporting", "streaming", "tasks", "training", "typing"},
        {"absl", "flax", "jax", "numpy", "optax", "rich"},
    ),
    "program": ({"errors"}, set()),
    "plugins": ({"errors"}, set()),
    "commands": (
        {"config", "errors", "experiments", "memories", "reporting", "tasks", "training"},
        {"absl", "etils", "rich"},
    ),
    "cli": ({"commands", "errors", "plugins", "program"}, {"absl", "jax"}),
    "the package itself": ({"errors", "experiments", "functional", "memories", "ops", "program", "tasks"}, set()),
}
BUILDERS = {"absl", "tensorflow_datasets", "array_record"}
HEAVY = {"absl", "grain", "matplotlib", "ml_collections", "optax", "orbax", "tensorflow", "tensorflow_datasets"}
HEAVY |= {"IPython", "pyarrow", "rich", "tensorboardX", "torch"}


def imported(path):
    """Dotted names of all that a file imports, wherever in it; `from a import b` is `a.b`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def room_of(path):
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return "the package itself" if parts == ("__init__",) else parts[0]


FILES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_rooms_import_only_what_they_may(path):
    room = room_of(path)
    assert room in ROOMS, f"say in ROOMS what {room} may import"
    inside, outside = ROOMS[room]
    if "builders" in path.parts:
        outside = outside | BUILDERS
    if path.name == "parquet_columns.py":  # when a file is read, and nowhere else
        outside = outside | {"pyarrow"}
    for name in imported(path):
        top, *rest = name.split(".")
        if top == "memjax":
            assert not rest or rest[0] in {*inside, room, "__version__"}, f"{room} imports {name}"
            assert rest or room == "cli", f"{room} imports all of memjax"
        else:
            assert top in sys.stdlib_module_names | outside, f"{room} imports {name}"
        assert "configs" not in name.split("."), f"{room} imports {name}"


def test_a_files_name_says_what_is_in_it_without_its_folder():
    names = [path.stem for path in FILES if path.stem != "__init__"]
    assert not {name for name in names if names.count(name) > 1}


# Where a word that is the name of a family has another meaning, which nothing there is asked by.
OTHER_MEANINGS = {
    # What the setting `time_constant` was called before, and the memory that evicts.
    "retention": {
        "layers/surprise_settings.py",
        "memories/continual.py",
        "memories/memory_registry.py",
        "memories/rehearsal.py",
        "memories/stm.py",
        "memories/surprise_memory.py",
    },
    # An axis of the mesh.
    "sequence": {"memories/memory.py", "memories/surprise_memory.py", "training/sharding.py"},
    # A field of a batch, and a picture of a walk in one.
    "maze": {"tasks/maze_task.py", "reporting/default_report.py"},
}


def test_no_other_place_asks_which_family_an_experiment_has():
    """A family's own file is imported by its room alone; its name stands there, and where a task says its family."""
    families = {path.stem for path in (PACKAGE / "experiments").iterdir() if (path / "__init__.py").is_file()}
    families |= {"sequence", "algorithmic"}
    assert families == {"stream_qa", "sequence", "algorithmic", "retention", "spans", "maze"}
    named = set()
    for path in FILES:
        if path.is_relative_to(PACKAGE / "experiments"):
            continue
        for name in imported(path):
            assert not any(name.startswith(f"memjax.experiments.{family}") for family in families), f"{path}: {name}"
        words = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
        named |= {(word, path.relative_to(PACKAGE).as_posix()) for word in words & families}
    named -= {(family, "tasks/registry.py") for family in families}
    assert named == {(word, path) for word, paths in OTHER_MEANINGS.items() for path in paths}


def test_the_walk_sees_the_files():
    assert {"ops", "memories", "typing", "errors", "functional"} <= {room_of(path) for path in FILES}


def test_import_memjax_needs_jax_and_flax_alone_and_is_quick():
    """Measured against what jax and flax themselves bring in, in processor time, the better of two."""
    script = """
import json, sys, time
import jax, flax.linen
roots = lambda: {name.split(".")[0] for name in sys.modules}
before, start = roots(), time.process_time()
import memjax
print(json.dumps([time.process_time() - start, sorted(roots() - before)]))
"""

    def run():
        done = subprocess.run([sys.executable, "-c", script], cwd=PACKAGE.parent, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    seconds, added = run()
    assert "memjax" in added
    assert not HEAVY & set(added)
    # jaxtyping, and what it prints annotations with.
    assert set(added) - sys.stdlib_module_names <= {"memjax", "jaxtyping", "wadler_lindig"}
    assert seconds < 0.5 or run()[0] < 0.5


def globals_read(code):
    """The names that some compiled code, or code in it, looks up in its module."""
    names = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    return names.union(*(globals_read(inner) for inner in code.co_consts if isinstance(inner, types.CodeType)))


def test_every_name_that_is_read_is_defined():
    """Linters cannot tell: the names in shapes, "B L d", are none that anything defines."""
    always = {*dir(builtins), "__annotations__", "__file__", "__name__", "__module__", "__qualname__", "__doc__"}
    for path in FILES:
        tree = ast.parse(path.read_text())
        names = (node for node in ast.walk(tree) if isinstance(node, ast.Name))
        defined = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                defined.add(node.name)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                defined |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        assert globals_read(compile(tree, str(path), "exec")) - defined - always == set(), path
