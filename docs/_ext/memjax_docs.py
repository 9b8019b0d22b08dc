"""What the pages are written with: tables of results, facts of a memory, and names in docstrings as links."""

import results_tables
import signatures
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.nodes import make_refnode


class Markdown(Directive):
    """A directive whose content is Markdown that Python makes of its argument."""

    required_arguments = 1
    optional_arguments = 1

    def run(self):
        for path in results_tables.files():
            self.state.document.settings.env.note_dependency(str(path))
        box = nodes.Element()
        lines = self.made(*self.arguments).splitlines()
        self.state.nested_parse(StringList(lines, "results"), self.content_offset, box)
        return box.children


class Results(Markdown):
    """A table of `results/`, and the command that made the file."""

    made = staticmethod(results_tables.markdown)


class MemoryFacts(Markdown):
    """What was measured of one memory."""

    made = staticmethod(results_tables.facts)


def process_signature(app, what, name, thing, options, arguments, result):
    """autodoc-process-signature: the source's own."""
    return signatures.signature(thing)


def skip_member(app, what, name, thing, skip, options):
    """autodoc-skip-member: what every Flax module has, what a field's number is, and defaults of fields."""
    hidden = name in ("dtype", "setup", "validate") or type(thing).__name__ == "_tuplegetter"
    return True if hidden else None


def resolve(app, env, node, contnode):
    """missing-reference: `ops.write_segment` and `streaming` in a docstring are names in memjax."""
    if node.get("refdomain") != "py" or node["reftype"] not in ("obj", "func", "class", "mod", "meth"):
        return None
    objects = env.domains["py"].objects
    target = node["reftarget"]
    for name in (f"memjax.{target}", f"memjax.ops.{target}", f"memjax.memories.{target}", f"memjax.models.{target}"):
        if name in objects:
            found = objects[name]
            return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, contnode, name)
    return None


def setup(app):
    app.add_directive("results", Results)
    app.add_directive("memory-facts", MemoryFacts)
    app.connect("autodoc-process-signature", process_signature)
    app.connect("autodoc-skip-member", skip_member)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
