"""Pages that are made of the library itself: the API, the notebooks, the plots. Written where they changed."""

import importlib
import importlib.util
import inspect
import pkgutil
import shutil
from pathlib import Path

import plots

import memjax

# Pages of the API, in this order, and after them every other module that says in `__all__` what it offers.
FIRST = (
    "memjax",
    "memjax.memories",
    "memjax.ops",
    "memjax.layers",
    "memjax.models",
    "memjax.streaming",
    "memjax.tasks",
)
BESIDE = (
    "memjax.experiments.prepare",
    "memjax.experiments.conversation",
    "memjax.experiments.family",
    "memjax.models.fragments",
    "memjax.models.rehearser",
    "memjax.plugins",
    "memjax.training.experiment",
    "memjax.training.phase",
    "memjax.training.effective_size",
    "memjax.training.ranking_metrics",
    "memjax.training.actor_critic",
)
NOT = ("memjax.experiments", "memjax.typing")  # the first one's names are in its files
IN_PARTS = ("memjax.ops",)  # a page for each of its files


def modules() -> list[str]:
    """The names of the modules that have a page."""
    found = [f"memjax.{info.name}" for info in pkgutil.iter_modules(memjax.__path__)]
    offering = [name for name in found if name not in NOT and getattr(importlib.import_module(name), "__all__", None)]
    first = [name for name in FIRST if name == "memjax" or name in found]
    beside = [name for name in BESIDE if importlib.util.find_spec(name)]
    return list(dict.fromkeys([*first, *beside, *offering]))


def public(module) -> list[str]:
    """The functions and classes that a module offers; not those of another page, and not under a second name."""
    offered = getattr(module, "__all__", None)
    found = []
    for name in offered or vars(module):
        thing = getattr(module, name)
        room = "memjax" if module.__name__ == "memjax" else module.__name__
        own = str(getattr(thing, "__module__", "")).startswith(room) and getattr(thing, "__name__", "") == name
        if own and callable(thing) and not name.startswith("_") and (offered or thing.__module__ == module.__name__):
            found.append(name)
    return found


def by_file(module) -> dict[str, list[str]]:
    """The same, by the file that each name comes from, in the order of the module's imports."""
    groups: dict[str, list[str]] = {}
    for name in public(module):
        groups.setdefault(getattr(module, name).__module__, []).append(name)
    order = list(inspect.getsource(module).splitlines())
    return dict(sorted(groups.items(), key=lambda item: _line(order, item[0])))


def _line(lines: list[str], name: str) -> int:
    return next((i for i, line in enumerate(lines) if line.startswith(f"from {name} import")), len(lines))


def first_line(module) -> str:
    return (inspect.getdoc(module) or "").splitlines()[0]


def _entries(module: str, names: list[str]) -> str:
    blocks = []
    for name in names:
        thing = getattr(importlib.import_module(module), name)
        kind = "autoclass" if inspect.isclass(thing) else "autofunction"
        members = "   :members:\n" if kind == "autoclass" else ""
        blocks.append(f".. {kind}:: {module}.{name}\n{members}")
    return "```{eval-rst}\n" + "\n".join(blocks) + "```\n"


def api(folder: Path) -> dict[Path, str]:
    """The pages of the API, by their paths."""
    pages = {}
    lines = ["# API", "", "Made from the docstrings; every example in them is run by the tests.", ""]
    names = modules()
    for name in names:
        module = importlib.import_module(name)
        lines.append(f"- [`{name}`]({name}.md): {first_line(module)}")
        head = f"# {name}\n\n{first_line(module)}\n\n"
        if name in IN_PARTS:
            parts = by_file(module)
            for part, own in parts.items():
                text = f"# {part.removeprefix('memjax.')}\n\n{first_line(importlib.import_module(part))}\n\n"
                pages[folder / f"{part}.md"] = text + _entries(name, own)
            listed = "\n".join(
                f"- [{part.removeprefix('memjax.')}]({part}.md): " + ", ".join(f"{{py:obj}}`{name}.{n}`" for n in own)
                for part, own in parts.items()
            ).replace(f"`{name}.", f"`~{name}.")
            toctree = "```{toctree}\n:hidden:\n\n" + "\n".join(parts) + "\n```\n"
            pages[folder / f"{name}.md"] = f"{head}{listed}\n\n{toctree}"
        else:
            pages[folder / f"{name}.md"] = head + _entries(name, public(module))
    toctree = ["", "```{toctree}", ":hidden:", "", *names, "```", ""]
    pages[folder / "index.md"] = "\n".join([*lines, *toctree])
    return pages


def everything(docs: Path) -> None:
    """Writes all of it; a page that is no longer made goes."""
    pages = api(docs / "api")
    for path, text in pages.items():
        path.parent.mkdir(exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
    for path in (docs / "api").glob("*.md"):
        if path not in pages:
            path.unlink()
    notebooks = docs / "notebooks"
    notebooks.mkdir(exist_ok=True)
    for path in sorted((docs.parent / "colabs").glob("*.ipynb")):
        own = notebooks / path.name
        if not own.exists() or own.read_bytes() != path.read_bytes():
            shutil.copyfile(path, own)
    (docs / "plots").mkdir(exist_ok=True)
    plots.draw(docs / "plots")
