"""Equations as MathML, which browsers draw themselves: no script, nothing to fetch. docutils does the translation."""

from docutils.nodes import SkipNode
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging


def _mathml(source: str, node, as_block: bool) -> str:
    try:
        return str(tex2mathml(source, as_block=as_block))
    except MathError as error:
        logging.getLogger(__name__).warning("equation %r: %s", source, error, location=node)
        return source


def visit_inline(self, node):
    self.body.append(_mathml(node.astext(), node, False))
    raise SkipNode


def visit_block(self, node):
    self.body.append(f'<div class="math">{_mathml(node.astext(), node, True)}</div>\n')
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
