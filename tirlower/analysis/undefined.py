"""The free variables of a statement or expression."""

from __future__ import annotations

from collections.abc import Iterable

from tirlower.diagnostics import ArgumentTypeError
from tirlower.ir.binding import ScopeWalker, buffer_variables
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Var
from tirlower.ir.node import Node

__all__ = ["undefined_vars"]


class _Finder(ScopeWalker):
    def __init__(self, defs: Iterable[Var]) -> None:
        super().__init__()
        self.found: dict[Var, None] = {}
        self.visible.update(defs)

    def on_missing(self, item: Var | Buffer, site: Node, through: Buffer | None = None) -> None:
        if isinstance(item, Var):
            self.found.setdefault(item)
        else:
            for var in buffer_variables(item):
                if var not in self.visible:
                    self.found.setdefault(var)


def undefined_vars(node: Node, defs: Iterable[Var] = ()) -> list[Var]:
    """The variables that a statement, expression, buffer or function uses without defining them, each once.

    ``defs`` are taken as defined. The order is that of their first use. A buffer uses its data variable and the
    variables of its shape, strides and offset. The rules of scope are those of :mod:`tirlower.ir.binding`. Raises
    :class:`ArgumentTypeError` for what is no node.

    >>> from tirlower.ir import Add, Bind, Evaluate, Seq, Var
    >>> x, y = Var("x"), Var("y")
    >>> [v.name for v in undefined_vars(Seq((Bind(x, Add(y, 1)), Evaluate(x))))]
    ['y']
    >>> undefined_vars(Add(x, y), [x, y])
    []
    """
    if not isinstance(node, Node):
        raise ArgumentTypeError(f"undefined_vars takes a node, got {type(node).__name__}")
    finder = _Finder(defs)
    finder.walk(node)
    return list(finder.found)
