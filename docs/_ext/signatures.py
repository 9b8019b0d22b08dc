"""Signatures as they are written in the source: `items: Float[Array, "T N d"]`, not what Python makes of it."""

import ast
import dataclasses
import functools
import inspect
import textwrap

import flax.linen as nn


class _Plain(ast.NodeTransformer):
    """`Annotated[X, ...]` is X to a reader: what is behind it is for the checks of arguments."""

    def visit_Subscript(self, node):
        self.generic_visit(node)
        return node.slice.elts[0] if ast.unparse(node.value) == "Annotated" else node


@functools.cache
def _tree(source_of):
    return _Plain().visit(ast.parse(textwrap.dedent(inspect.getsource(source_of)))).body[0]


def signature(thing: object) -> tuple[str, str | None] | None:
    """(arguments, result) of a function or of a class made of fields; None where the source does not say."""
    try:
        return _of_class(thing) if inspect.isclass(thing) else _of_function(inspect.unwrap(thing))
    except (TypeError, OSError, SyntaxError):
        return None


def _of_function(function) -> tuple[str, str | None] | None:
    node = _tree(function)
    if not isinstance(node, ast.FunctionDef):
        return None
    arguments = node.args
    for group in (arguments.posonlyargs, arguments.args):
        if group and group[0].arg in ("self", "cls"):
            del group[0]
    return f"({ast.unparse(arguments)})", ast.unparse(node.returns) if node.returns else None


def _of_class(cls) -> tuple[str, str | None] | None:
    by_name: set[str] = set()
    if dataclasses.is_dataclass(cls):
        of_flax = ("parent", "name") if issubclass(cls, nn.Module) else ()
        fields = [f for f in dataclasses.fields(cls) if f.init and f.name not in of_flax]
        by_name = {f.name for f in fields if f.kw_only}
        names = [f.name for f in sorted(fields, key=lambda f: f.kw_only)]
    elif hasattr(cls, "_fields"):
        names = list(cls._fields)
    else:
        return None
    written = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("memjax"):
            for node in _tree(base).body:
                if isinstance(node, ast.AnnAssign):
                    default = f" = {ast.unparse(node.value)}" if node.value else ""
                    written[ast.unparse(node.target)] = f": {ast.unparse(node.annotation)}{default}"
    # A field with a factory has a call for a default, which says nothing to a reader.
    parts = [name + written.get(name, "").replace("field(default_factory=dict)", "{}") for name in names]
    if by_name:
        parts.insert(len(parts) - len(by_name), "*")
    return f"({', '.join(parts)})", None
