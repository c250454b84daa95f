"""What watches a graph and makes no values: assertions, and prints.

They keep their order among one another and among kernels with an effect of their own, and are done as often as they are
written; :class:`tirlower.graph.passes.debug.StripDebug` drops them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import numpy as np

from tirlower.diagnostics import RuntimeAssertError
from tirlower.graph.core.effects import OUTSIDE, Global
from tirlower.graph.core.nodes import GraphNode, Value
from tirlower.ir.dtype import Array
from tirlower.ir.node import child, data, node

__all__ = ["Assert", "Debug", "Print", "Said", "check", "failure", "tensor_text"]


@node
class Debug(GraphNode):
    """Base of the nodes that say something of one value, with a text of the user's. They have no results."""

    node_name = "graph.Debug"
    inputs: tuple[Value, ...] = child(convert=tuple)
    text: str = data(convert=str)

    @property
    def operands(self) -> tuple[Value, ...]:
        """The value."""
        return self.inputs

    @property
    def effects(self) -> tuple[Global, ...]:
        """What is outside of the graph."""
        return (OUTSIDE,)

    @property
    def writes(self) -> tuple[Global, ...]:
        """What is outside of the graph."""
        return (OUTSIDE,)

    def with_operands(self, results: Sequence[Value], operands: Sequence[Value]) -> Self:
        """The same of another value."""
        self._count(operands, 1)
        return self.with_(results=tuple(results), inputs=tuple(operands))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.text!r}>"


@node
class Assert(Debug):
    """A call ends with an error that has the text, unless a bool without axes is true."""

    node_name = "graph.Assert"


@node
class Print(Debug):
    """A tensor is written to ``sys.stdout``, behind the text."""

    node_name = "graph.Print"


class Said(NamedTuple):
    """What an assertion or a print said in one run."""

    kind: type[Debug]
    text: str
    array: Array
    """The condition, or what was printed."""


def failure(one: Assert) -> str:
    """What the error says of an assertion that does not hold.

    >>> x = Value((), "bool", "ready")
    >>> failure(Assert((), (x,), "", origin="model.py:3")), failure(Assert((), (x,), "not yet"))
    ("'ready' is not true (model.py:3)", 'not yet')
    """
    where = f" ({one.origin})" if one.origin else ""
    return (one.text or f"{one.inputs[0].name!r} is not true") + where


def check(one: Assert, condition: Array) -> None:
    """Raise :class:`tirlower.RuntimeAssertError` unless the condition of an assertion is true."""
    if not condition.item():
        raise RuntimeAssertError(failure(one))


def tensor_text(array: Array, text: str = "") -> str:
    """A tensor as a print shows it: its text, its type, its elements.

    >>> print(tensor_text(np.eye(2, dtype="float32"), "mask"))
    mask: float32[2, 2] [[1., 0.],
     [0., 1.]]
    """
    kind = f"{array.dtype.name}[{', '.join(map(str, array.shape))}]"
    shown = f"{kind} {np.array2string(array, separator=', ')}"
    return f"{text}: {shown}" if text else shown
