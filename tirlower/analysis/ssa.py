"""Static single assignment: each variable has one definition."""

from __future__ import annotations

from tirlower.analysis.arguments import the_function
from tirlower.ir.binding import ScopeWalker
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Expr, Let, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.node import Node
from tirlower.ir.stmt import For
from tirlower.ir.structural import structural_equal

__all__ = ["verify_ssa"]


class _Definitions(ScopeWalker):
    def __init__(self) -> None:
        super().__init__()
        self.is_ssa = True
        self.values: dict[Var, Expr | None] = {}
        self.tags: dict[Var, str | None] = {}

    def on_define(self, item: Var | Buffer, site: Node) -> None:
        if not isinstance(item, Var):
            return
        value = site.value if isinstance(site, Let) else None
        tag = site.thread_tag if isinstance(site, For) else None
        if item not in self.values:
            self.values[item], self.tags[item] = value, tag
            return
        earlier = self.values[item]
        one_value = value is not None and earlier is not None and structural_equal(value, earlier)
        one_thread = tag is not None and self.tags[item] == tag
        self.is_ssa = self.is_ssa and (one_value or one_thread)


def verify_ssa(func: PrimFunc) -> bool:
    """Whether every variable of a function is defined once.

    Two kinds of repetition are no second definition: the loops of one thread axis, and several ``Let`` expressions
    that bind a variable to equal values.

    >>> from tirlower.ir import Evaluate, For, Var
    >>> i = Var("i")
    >>> loop = For(i, 0, 4, "serial", None, {}, Evaluate(i))
    >>> verify_ssa(PrimFunc((), {}, "void", {}, loop)), verify_ssa(PrimFunc((i,), {}, "void", {}, loop))
    (True, False)
    """
    definitions = _Definitions()
    definitions.walk(the_function(func, "verify_ssa"))
    return definitions.is_ssa
