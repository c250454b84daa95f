"""The values of integer expressions at a point, or at each of a vector of points."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tirlower.ir.expr import Expr, IntImm, Var
from tirlower.ir.functor import post_order_visit
from tirlower.ir.integers import CHOICES, Compute, Value, operation, within, word_of

__all__ = ["Evaluator", "NoValue"]

Fit: TypeAlias = Callable[[Expr, Value], Value]


class NoValue(ArithmeticError):
    """``op`` is not computed from integers, or is a variable of which no value is given."""

    def __init__(self, op: Expr) -> None:
        super().__init__(f"`{op}` has no value that is known")
        self.op = op


class Evaluator:
    """An expression made ready for points. ``nodes`` are its distinct nodes, operands first; ``strange`` is the first that
    is neither arithmetic of scalar integers nor a variable, if there is one.

    >>> from tirlower.ir import build
    >>> n, m = Var("n", "int32"), Var("m", "int32")
    >>> lesser = Evaluator(build.if_then_else(m > 0, n // m, 100))
    >>> lesser.at({n: -7, m: 2}), lesser.at({n: 1, m: 0})
    (-4, 100)
    """

    __slots__ = ("_steps", "nodes", "strange")

    def __init__(self, root: Expr) -> None:
        nodes: list[Expr] = []
        post_order_visit(root, nodes.append)
        places = {id(op): place for place, op in enumerate(nodes)}
        self.nodes = tuple(nodes)
        self._steps: list[tuple[Expr, Compute | None, bool, tuple[int, ...]]] = []
        self.strange: Expr | None = None
        for op in nodes:
            word = word_of(op)
            compute = operation(word, op.dtype)
            if compute is None and self.strange is None and not isinstance(op, (Var, IntImm)):
                self.strange = op
            self._steps.append((op, compute, word in CHOICES, tuple(places[id(child)] for child in op.children())))

    def at(self, values: Mapping[Var, Value], fit: Fit = within) -> Value:
        """The value where variables have values: numbers, or vectors of int64 of one shape.

        ``fit`` makes the exact value of a node one of its type: :func:`~tirlower.ir.integers.kept`,
        :func:`~tirlower.ir.integers.wrapped`, :func:`~tirlower.ir.integers.within`, or a rule of the caller's.
        Raises an ArithmeticError where there is no value, unless in what is not chosen: :class:`NoValue`,
        ZeroDivisionError, OverflowError.
        """
        done: list[Value] = []
        made: Value
        troubled = False
        for op, compute, chooses, operands in self._steps:
            try:
                if compute is None:
                    made = _leaf(op, values)
                else:
                    args = [done[place] for place in operands]
                    if troubled and not chooses:
                        for arg in args:
                            if isinstance(arg, ArithmeticError):
                                raise arg
                    made = fit(op, compute(*args))
            except ArithmeticError as error:
                made, troubled = error, True
            done.append(made)
        if isinstance(made, ArithmeticError):
            raise made
        return made


def _leaf(op: Expr, values: Mapping[Var, Value]) -> Value:
    if isinstance(op, IntImm):
        return op.value
    if isinstance(op, Var) and op in values:
        return values[op]
    raise NoValue(op)
