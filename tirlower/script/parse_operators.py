"""Operators of a script: arithmetic, comparisons, logic and choices, of nodes and of Python's values.

On Python's values alone they are Python's own. Long chains of one operator are walked without recursion.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, cast

from tirlower.diagnostics import ScriptError, Span
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, IterVar
from tirlower.ir.build import BinaryBuilder
from tirlower.ir.expr import Expr, ExprLike, as_expr
from tirlower.script.forms import Frame, Sliced
from tirlower.script.spans import Places, kind_of
from tirlower.script.weak import Weak, combine

__all__ = ["Operators"]

_Python: TypeAlias = Callable[[object, object], object]
_BINARY: dict[type, tuple[str, _Python, BinaryBuilder]] = {
    ast.Add: ("+", operator.add, build.add),
    ast.Sub: ("-", operator.sub, build.sub),
    ast.Mult: ("*", operator.mul, build.mul),
    ast.Div: ("/", operator.truediv, build.true_div),
    ast.FloorDiv: ("//", operator.floordiv, build.floordiv),
    ast.Mod: ("%", operator.mod, build.floormod),
    ast.LShift: ("<<", operator.lshift, build.shift_left),
    ast.RShift: (">>", operator.rshift, build.shift_right),
    ast.BitAnd: ("&", operator.and_, build.bitwise_and),
    ast.BitOr: ("|", operator.or_, build.bitwise_or),
    ast.BitXor: ("^", operator.xor, build.bitwise_xor),
}
_UNARY: dict[type, tuple[Callable[[object], object], Callable[[ExprLike, Span | None], Expr]]] = {
    ast.USub: (cast("Callable[[object], object]", operator.neg), build.neg),
    ast.UAdd: (cast("Callable[[object], object]", operator.pos), lambda value, span: as_expr(value)),
    ast.Invert: (cast("Callable[[object], object]", operator.invert), build.bitwise_not),
    ast.Not: (operator.not_, build.logical_not),
}
_COMPARE: dict[type, tuple[str, _Python, BinaryBuilder | None]] = {
    ast.Eq: ("==", operator.eq, build.eq),
    ast.NotEq: ("!=", operator.ne, build.ne),
    ast.Lt: ("<", cast("_Python", operator.lt), build.lt),
    ast.LtE: ("<=", cast("_Python", operator.le), build.le),
    ast.Gt: (">", cast("_Python", operator.gt), build.gt),
    ast.GtE: (">=", cast("_Python", operator.ge), build.ge),
    ast.Is: ("is", operator.is_, None),
    ast.IsNot: ("is not", operator.is_not, None),
    ast.In: ("in", cast("_Python", lambda a, b: a in b), None),
    ast.NotIn: ("not in", cast("_Python", lambda a, b: a not in b), None),
}

_SYMBOLIC = (Expr, Sliced, IterVar, Weak)


class Operators(Places):
    """Evaluates operators, on the values of operands that :meth:`eval` gives."""

    def eval(self, node: ast.AST) -> object:
        """The value of an expression, which the evaluator of all expressions gives."""
        raise TypeError(f"{type(self).__name__} evaluates no expressions")

    def eval_BinOp(self, node: ast.BinOp) -> object:
        """``a op b``; the left spine of a chain is walked in a loop."""
        chain = [node]
        left: ast.AST = node.left
        while left.__class__ is ast.BinOp:
            chain.append(left)
            left = left.left
        value = self.eval(left)
        for part in reversed(chain):
            right = self.eval(part.right)
            try:
                value = self.binary(part.op, value, right, part)
            except ScriptError:
                raise
            except Exception as err:
                raise self.explain(err, part) from err
        return value

    def binary(self, op: ast.operator, a: object, b: object, node: ast.AST) -> object:
        """The operator on two values: Python's on Python values, else the node."""
        entry = _BINARY.get(op.__class__)
        if entry is None:
            if op.__class__ is ast.Pow:
                if not isinstance(a, _SYMBOLIC) and not isinstance(b, _SYMBOLIC):
                    return operator.pow(a, b)
                x, y = build.match_types(*build.operands(self._operand(a, node), self._operand(b, node)))
                if not x.dtype.is_float and not (isinstance(b, int) and b >= 0 and x.dtype.is_integral):
                    raise self.error(
                        f"** is for floats, and for integers with a constant exponent of at least 0; got {x.dtype!s}",
                        node,
                        help="multiply, or cast first",
                    )
                return build.call("tir.pow", x, y, span=self.span(node))
            matmul = op.__class__ is ast.MatMult
            raise self.error(
                f"the operator {'@' if matmul else type(op).__name__} is not part of the dialect",
                node,
                help="write loops of products, as in docs/tutorial.md" if matmul else None,
            )
        if isinstance(a, Expr) or isinstance(b, Expr) or isinstance(a, _SYMBOLIC) or isinstance(b, _SYMBOLIC):
            first, second = self._operand(a, node), self._operand(b, node)
            return combine(entry[2], first, second, self.span(node))
        if isinstance(a, (Buffer, Frame, BufferRegion)) or isinstance(b, (Buffer, Frame, BufferRegion)):
            wrong = a if isinstance(a, (Buffer, Frame, BufferRegion)) else b
            raise self.error(f"{entry[0]} takes numbers, got {kind_of(wrong)}", node, help="index it: A[i, j]")
        return entry[1](a, b)

    def _operand(self, value: object, node: ast.AST) -> ExprLike:
        """A value as an operand of an operation, which refuses what is none; a buffer is refused here."""
        if isinstance(value, (Buffer, BufferRegion)):
            name = value.name if isinstance(value, Buffer) else value.buffer.name
            raise self.error(f"a buffer is no value: {name!r}", node, help=f"index it: {name}[…]")
        if TYPE_CHECKING:
            assert isinstance(value, Expr)
        return value

    def eval_UnaryOp(self, node: ast.UnaryOp) -> object:
        """``-a``, ``+a``, ``~a``, ``not a``."""
        value = self.eval(node.operand)
        kind = node.op.__class__
        python, symbolic = _UNARY[kind]
        if not isinstance(value, _SYMBOLIC):
            return python(value)
        span = self.span(node)
        if isinstance(value, Weak) and kind in (ast.USub, ast.UAdd) and value.kind != "bool":
            return Weak(lambda dtype: build.neg(value.at(dtype), span), value.kind, value.bare)
        return symbolic(value, span)

    def eval_Compare(self, node: ast.Compare) -> object:
        """``a < b < c``: the conjunction of its pairs."""
        left = self.eval(node.left)
        result: object = None
        for op, operand in zip(node.ops, node.comparators, strict=True):
            right = self.eval(operand)
            name, python, symbolic = _COMPARE[op.__class__]
            if isinstance(left, _SYMBOLIC) or isinstance(right, _SYMBOLIC):
                if symbolic is None:
                    if op.__class__ in (ast.In, ast.NotIn):
                        if not isinstance(right, (list, tuple, range)) or isinstance(right, _SYMBOLIC):
                            raise self.error(
                                f"`{name}` takes a Python sequence of values on its right",
                                node,
                                help="compare with each element of a buffer in a loop",
                            )
                        same = build.any_of(*[build.eq(self._operand(left, node), as_expr(part)) for part in right])
                        found: object = same if op.__class__ is ast.In else build.logical_not(same)
                    else:
                        found = python(left, right)
                else:
                    x, y = self._operand(left, node), self._operand(right, node)
                    found = combine(symbolic, x, y, self.span(node), decides=True)
            else:
                if symbolic is not None:
                    self._operand(left, node)
                    self._operand(right, node)
                found = python(left, right)
            if result is None:
                result = found
            elif isinstance(result, Expr) or isinstance(found, Expr):
                result = build.logical_and(self._operand(result, node), self._operand(found, node), self.span(node))
            else:
                result = result and found
            left = right
        return result

    def eval_BoolOp(self, node: ast.BoolOp) -> object:
        """``a and b``, ``a or b``: short-circuit on Python values, nodes otherwise."""
        is_and = node.op.__class__ is ast.And
        join = build.logical_and if is_and else build.logical_or
        result = self.eval(node.values[0])
        for part in node.values[1:]:
            if not isinstance(result, _SYMBOLIC):
                if bool(result) is not is_and:
                    return result
                result = self.eval(part)
                continue
            value = self.eval(part)
            if not isinstance(value, _SYMBOLIC):
                value = bool(value)
            result = join(result, value, self.span(node))
        return result

    def eval_IfExp(self, node: ast.IfExp) -> object:
        """``a if c else b``: chosen at once by a Python condition, else only the chosen arm is evaluated at run time."""
        condition = self.eval(node.test)
        if not isinstance(condition, _SYMBOLIC):
            return self.eval(node.body if condition else node.orelse)
        test = build.as_bool(condition)
        first, second = self.eval(node.body), self.eval(node.orelse)
        choose = build.select if test.dtype.is_vector else build.if_then_else
        if TYPE_CHECKING:
            assert isinstance(first, Expr) and isinstance(second, Expr)
        return combine(lambda a, b, span=None: choose(test, a, b, span), first, second, self.span(node))
