"""Names of axes: what the shapes in annotations say, and whether the arrays of one call agree with them.

`"K dm"`: two axes, each of one size wherever it stands in a call. `"h3"`: 3 times h. `"h+r"`, `"Z*h"`: sum, product.
`"*T N"`: any number of axes before N. `"2 V"`: two entries. `"_"`: one axis of any size. `"..."`: any axes.
"""

import re
from typing import Any, NamedTuple

from memjax.errors import MemjaxError

ONE_FOR_ALL = "or one number, for all"  # `Annotated[Float[Array, "L"], ONE_FOR_ALL]`
MAY_BE_EMPTY = {"T", "L", "F"}  # streams, and fragments of them; all other axes have at least one entry


class Axes:
    """How the axes of a NamedTuple are called around it: `Annotated[GRUParams, Axes("dx", h="dm")]`.

    The names that are not given are its own. lead: axes that all of its arrays have before their own.
    """

    def __init__(self, *same: str, lead: str = "", **renamed: str):
        self.names, self.lead = {name: name for name in same} | renamed, lead

    def __repr__(self) -> str:
        lead = f"lead={self.lead!r}, " if self.lead else ""
        return f"Axes({lead}{', '.join(f'{own}={around!r}' for own, around in self.names.items())})"


class Name(NamedTuple):
    """An axis. where: the argument that it is private to; depth: how many tuples that lies in."""

    name: str
    where: str
    depth: int
    many: bool = False


ANY, REST = Name("_", "", 0), Name("...", "", 0, many=True)


class Scope:
    """What names of axes stand for inside an argument, in those of the call."""

    def __init__(self, where: str = "", depth: int = 0, around: dict[str, list] | None = None, lead: Any = ()):
        self.where, self.depth, self.around, self.lead = where, depth, around or {}, list(lead)

    def inside(self, axes: Axes, where: str, depth: int) -> "Scope":
        """The scope of a NamedTuple in this one."""
        around = {own: self._read(names) for own, names in axes.names.items()}
        return Scope(where, depth, around, self.lead + self._read(axes.lead))

    def shape(self, text: str) -> list:
        """The axes of an annotation: numbers, names, and `(sign, left, right)`."""
        return self.lead + self._read(text)

    def _read(self, text: str) -> list:
        return [axis for word in text.split() for axis in self._word(word)]

    def _word(self, word: str) -> list:
        if word in ("_", "..."):
            return [ANY if word == "_" else REST]
        if parts := re.fullmatch(r"(\w+)([+*])(\w+)", word):
            left, sign, right = parts.groups()
            return [(sign, *self._word(left), *self._word(right))]
        if word.isdigit():
            return [int(word)]
        if multiple := re.fullmatch(r"([A-Za-z]+)(\d+)", word):
            return [("*", int(multiple[2]), *self._word(multiple[1]))]
        many, word = word.startswith("*"), word.removeprefix("*")
        return self.around.get(word) or ([] if word in self.around else [Name(word, self.where, self.depth, many)])


class Sizes:
    """The sizes of the axes of one call, and which argument had each first."""

    def __init__(self, op: str):
        self.op, self.indices = op, ()
        self._sizes: dict = {}
        self._sums: list = []

    def refuse(self, where: str, expected: str, got: str) -> MemjaxError:
        """The error for an argument."""
        return MemjaxError(f"{self.op}: {where} must be {expected}, not {got}")

    def fit(self, where: str, axes: list, shape: tuple, expected: str, got: Any) -> None:
        """Raises `MemjaxError` if a shape does not have these axes, or in other sizes. got: says what came."""
        many = next((i for i, axis in enumerate(axes) if type(axis) is Name and axis.many), None)
        extra = len(shape) - len(axes)
        if extra if many is None else extra < -1:
            batch = "; one example at a time: batch it with jax.vmap" if extra == 1 else ""
            raise self.refuse(where, expected, got() + batch)
        if many is not None:
            self._same(where, axes[many], shape[many : many + extra + 1], expected, got)
            shape = shape[:many] + shape[many + extra + 1 :]
            axes = axes[:many] + axes[many + 1 :]
        for axis, size in zip(axes, shape):
            if type(axis) is tuple:
                self._sums.append((where, axis, size, expected, got))
            else:
                self._same(where, axis, size, expected, got)

    def settle(self) -> None:
        """Holds sums and products against the sizes of their parts. A part that is not known follows from them."""
        for _ in range(2):
            self._sums = [one for one in self._sums if not self._settled(*one)]

    def known(self, axes: list) -> tuple:
        """The shape that these axes have by now."""
        return tuple(self._size(axis) for axis in axes)

    def _settled(self, where: str, axis: tuple, size: int, expected: str, got: Any) -> bool:
        sign, left, right = axis
        first, second = self._size(left), self._size(right)
        if first is None and second is None:
            return False
        if first is None or second is None:
            unknown, part = (left, second) if first is None else (right, first)
            whole, rest = (size - part, 0) if sign == "+" else divmod(size, part)
            if rest or whole < 0:
                raise self.refuse(where, f"{expected} with {shown(axis)} a multiple of {part}", got())
            if type(unknown) is Name:
                self._sizes[self._key(unknown)] = whole, where
            return True
        total = first + second if sign == "+" else first * second
        if total != size:
            raise self.refuse(where, f"{expected} with {shown(axis)} = {total}", got())
        return True

    def _size(self, axis: Any) -> Any:
        if type(axis) is tuple:
            left, right = self._size(axis[1]), self._size(axis[2])
            return None if left is None or right is None else left + right if axis[0] == "+" else left * right
        return axis if type(axis) is int else self._sizes.get(self._key(axis), (None,))[0]

    def _same(self, where: str, axis: Any, size: Any, expected: str, got: Any) -> None:
        if axis is ANY or axis is REST:
            return
        if type(axis) is int:
            if axis != size:
                raise self.refuse(where, expected, got())
            return
        if size == 0 and axis.name not in MAY_BE_EMPTY:
            raise self.refuse(where, f"{expected} of at least one entry", got())
        known, first = self._sizes.setdefault(self._key(axis), (size, where))
        if known != size:
            value = list(known) if axis.many else known
            raise self.refuse(where, f"{expected} with {axis.name} = {value} as in {first}", got())

    def _key(self, axis: Name) -> Any:
        return axis if not axis.depth else (axis, self.indices[: axis.depth])


def shown(axis: Any) -> str:
    """An axis as a reader would write it."""
    if type(axis) is tuple:
        return f"{shown(axis[1])} {axis[0]} {shown(axis[2])}"
    return str(axis) if type(axis) is int else axis.name
