"""Layouts of tensors by the letters of their axes: ``NCHW``, and ``NCHW16c`` with the channels in blocks of 16.

A capital letter is an axis, a small letter with a number in front a block of the axis of that letter: what is left of
the axis is divided by the number. Two layouts of the same axes make a :class:`BijectiveLayout`, which converts indices
and shapes between them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir.expr import Expr, ExprLike, IntImm, as_expr

__all__ = ["BijectiveLayout", "Layout", "bijective_layout", "layout"]

_AXIS = re.compile(r"([A-Z])|([1-9]\d*)([a-z])")


class Layout:
    """A layout by its text.

    Raises :class:`TirError` for a text that is no layout: an axis twice, a block without its axis, other characters.

    >>> blocked = Layout("NCHW16c")
    >>> len(blocked), blocked[1], blocked.index_of("c"), blocked.factor_of("C"), "h" in blocked
    (5, 'C', 4, 16, False)
    """

    __slots__ = ("axes", "factors", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.axes: list[str] = []
        self.factors: dict[str, int] = {}
        """The size of each block, by its small letter."""
        at = 0
        while at < len(name):
            found = _AXIS.match(name, at)
            letter = (found[1] or found[3]) if found is not None else ""
            if found is None or letter in self.axes:
                problem = f"axis {letter!r} twice" if letter else f"no axis at {name[at:]!r}"
                raise TirError(
                    f"no layout {name!r}: {problem}",
                    help="capital letters are axes, a number and a small letter a block of one: NCHW16c",
                )
            self.axes.append(letter)
            if found[3]:
                self.factors[letter] = int(found[2])
            at = found.end()
        for letter in self.factors:
            if letter.upper() not in self.axes:
                raise TirError(f"no layout {name!r}: the block {letter!r} has no axis {letter.upper()!r}")

    def __len__(self) -> int:
        return len(self.axes)

    def __contains__(self, axis: object) -> bool:
        return axis in self.axes

    def __getitem__(self, index: int) -> str:
        return self.axes[index]

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Layout({self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def index_of(self, axis: str) -> int:
        """Where an axis or block stands; -1 where it does not."""
        return self.axes.index(axis) if axis in self.axes else -1

    def factor_of(self, axis: str) -> int:
        """The size of the block of an axis (asked by either letter); -1 where it has none."""
        return self.factors.get(axis.lower(), -1) if axis in self.axes else -1


def layout(layout_str: str) -> Layout:
    """The layout of a text (see :class:`Layout`)."""
    return Layout(layout_str)


class BijectiveLayout:
    """The conversion between two layouts of the same axes.

    Raises :class:`TirError` for layouts of other axes.

    >>> blocks = bijective_layout("NCHW", "NCHW16c")
    >>> [e.value for e in blocks.forward_shape((1, 32, 7, 7))]
    [1, 2, 7, 7, 16]
    >>> [e.value for e in blocks.forward_index((0, 18, 6, 6))]
    [0, 1, 6, 6, 2]
    >>> [e.value for e in blocks.backward_index((0, 1, 6, 6, 2))]
    [0, 18, 6, 6]
    """

    __slots__ = ("dst_layout", "src_layout")

    def __init__(self, src_layout: Layout | str, dst_layout: Layout | str) -> None:
        self.src_layout = src_layout if isinstance(src_layout, Layout) else Layout(src_layout)
        self.dst_layout = dst_layout if isinstance(dst_layout, Layout) else Layout(dst_layout)
        source, target = ({a for a in one.axes if a.isupper()} for one in (self.src_layout, self.dst_layout))
        if source != target:
            raise TirError(
                f"the layouts {self.src_layout} and {self.dst_layout} have other axes: {', '.join(sorted(source ^ target))}"
            )

    def forward_index(self, index: Sequence[ExprLike]) -> list[Expr]:
        """The index in the second layout of an element with an index in the first."""
        return _index(self.src_layout, self.dst_layout, index)

    def backward_index(self, index: Sequence[ExprLike]) -> list[Expr]:
        """The index in the first layout of an element with an index in the second."""
        return _index(self.dst_layout, self.src_layout, index)

    def forward_shape(self, shape: Sequence[ExprLike]) -> list[Expr]:
        """The shape in the second layout of a tensor with a shape in the first; what does not divide is rounded up."""
        return _shape(self.src_layout, self.dst_layout, shape)

    def backward_shape(self, shape: Sequence[ExprLike]) -> list[Expr]:
        """The shape in the first layout of a tensor with a shape in the second."""
        return _shape(self.dst_layout, self.src_layout, shape)

    def __repr__(self) -> str:
        return f"BijectiveLayout({self.src_layout} -> {self.dst_layout})"


def bijective_layout(src_layout: Layout | str, dst_layout: Layout | str) -> BijectiveLayout:
    """The conversion between two layouts (see :class:`BijectiveLayout`)."""
    return BijectiveLayout(src_layout, dst_layout)


def _whole(have: Layout, values: Sequence[ExprLike], what: str) -> dict[str, tuple[Expr, Expr | None]]:
    """What stands at each axis, and at its block where it has one."""
    if len(values) != len(have):
        raise TirError(f"the layout {have} has {len(have)} axes, got {len(values)} {what}")
    at = dict(zip(have.axes, map(as_expr, values), strict=True))
    return {axis: (value, at.get(axis.lower())) for axis, value in at.items() if axis.isupper()}


def _index(have: Layout, want: Layout, index: Sequence[ExprLike]) -> list[Expr]:
    total: dict[str, Expr] = {}
    for axis, (major, minor) in _whole(have, index, "indices").items():
        total[axis] = major if minor is None else build.add(build.mul(major, have.factor_of(axis)), minor)
    result = []
    for axis in want.axes:
        factor = want.factor_of(axis)
        value = total[axis.upper()]
        if axis.isupper():
            result.append(value if factor < 0 else build.floordiv(value, factor))
        else:
            result.append(build.floormod(value, factor))
    return result


def _shape(have: Layout, want: Layout, shape: Sequence[ExprLike]) -> list[Expr]:
    total: dict[str, Expr] = {}
    for axis, (major, minor) in _whole(have, shape, "extents").items():
        if isinstance(minor, IntImm) and minor.value != have.factor_of(axis):
            raise TirError(f"the block {axis.lower()!r} of layout {have} has the extent {minor.value} in the shape")
        total[axis] = major if minor is None else build.mul(major, have.factor_of(axis))
    result: list[Expr] = []
    for axis in want.axes:
        factor = want.factor_of(axis)
        value = total[axis.upper()]
        if axis.isupper():
            result.append(value if factor < 0 else build.ceildiv(value, factor))
        else:
            result.append(build.const(factor, value.dtype))
    return result
