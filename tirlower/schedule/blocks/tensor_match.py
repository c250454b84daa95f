"""Does a nest mean what the description of a tensor intrinsic says: the same statements on parts of larger buffers?

Both are walked together. Variables of the description stand for those of the nest; each of its buffers for a part of a
buffer of the nest, whose place is found at its first access and has to be the same at all others. Operands of commutative
operations may be either way round.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from tirlower.arith import Analyzer
from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.evaluator import Evaluator
from tirlower.ir.expr import Add, BufferLoad, Expr, Sub, Var, const
from tirlower.ir.functor import substitute
from tirlower.ir.integers import Value, kept
from tirlower.ir.query import has, mentions
from tirlower.ir.stmt import Block, BufferStore, Evaluate, For, IfThenElse, Seq, Stmt
from tirlower.ir.structural import structural_equal
from tirlower.schedule.pairing import COMMUTATIVE

__all__ = ["Matcher", "Mismatch", "apart"]


def apart(expr: Expr, variables: Collection[Var]) -> tuple[Expr, Expr]:
    """The terms of a sum in which some variables have a part, and the others.

    >>> i, j = Var("i", "int32"), Var("j", "int32")
    >>> [str(part) for part in apart(i * 4 - j + 1, {j})]
    ['0 - j', 'i * 4 + 1']
    """
    zero: Expr = const(0, expr.dtype)
    if isinstance(expr, (Add, Sub)):
        (a, b), (c, d) = apart(expr.a, variables), apart(expr.b, variables)
        op = build.add if isinstance(expr, Add) else build.sub
        return op(a, c), op(b, d)
    return (expr, zero) if mentions(expr, variables) else (zero, expr)


class Mismatch(TirError):
    """What of a nest is not as described; ``at`` is the statement of the nest."""

    at: Stmt | None = None


class Matcher:
    """One comparison. ``places`` says of each buffer of the description where in which buffer of the nest it is."""

    def __init__(self, analyzer: Analyzer) -> None:
        self.analyzer = analyzer
        self.values: dict[Var, Expr] = {}
        self.inner: set[Var] = set()
        self.places: dict[Buffer, tuple[Buffer, tuple[Expr, ...]]] = {}
        self.at: Stmt | None = None
        self.swapped = False
        """Whether operands were the other way round."""
        self.points: dict[Var, Value] = {}
        """The iterations of the loops inside, where all of them are to be tried."""

    def fail(self, message: str) -> Mismatch:
        """The error at the statement at hand."""
        error = Mismatch(message)
        error.at = self.at
        return error

    def statements(self, mine: Stmt, described: Stmt) -> None:
        """Compare statements. Raises :class:`Mismatch`."""
        if not isinstance(mine, (Seq, Block)):
            self.at = mine
        if mine.__class__ is not described.__class__:
            names = type(mine).__name__, type(described).__name__
            raise self.fail(f"there is a {names[0]} where the description has a {names[1]}")
        compare = _STATEMENTS.get(mine.__class__)
        if compare is None:
            raise self.fail(f"a {type(mine).__name__} is not compared")
        compare(self, mine, described)  # type: ignore[operator]  # both of the class

    def _sequence(self, mine: Seq, described: Seq) -> None:
        if len(mine.stmts) != len(described.stmts):
            raise self.fail(f"there are {len(mine.stmts)} statements, the description has {len(described.stmts)}")
        for a, b in zip(mine.stmts, described.stmts, strict=True):
            self.statements(a, b)

    def _store(self, mine: BufferStore, described: BufferStore) -> None:
        if mine.predicate is not None or described.predicate is not None:
            raise self.fail("a store has a predicate")
        self._access(mine.buffer, mine.indices, described.buffer, described.indices)
        self.expressions(mine.value, described.value)

    def _condition(self, mine: IfThenElse, described: IfThenElse) -> None:
        self.expressions(mine.condition, described.condition)
        self.statements(mine.then_case, described.then_case)
        if (mine.else_case is None) != (described.else_case is None):
            raise self.fail("one has an else")
        if mine.else_case is not None and described.else_case is not None:
            self.statements(mine.else_case, described.else_case)

    def _evaluate(self, mine: Evaluate, described: Evaluate) -> None:
        self.expressions(mine.value, described.value)

    def _loop(self, mine: For, described: For) -> None:
        if mine.kind is not described.kind or mine.thread_tag != described.thread_tag:
            raise self.fail(f"the loop `{mine.loop_var.name}` is {mine.kind.value}, described {described.kind.value}")
        extent = substitute(described.extent, self.values)
        if not self.analyzer.can_prove_equal(mine.extent, build.cast(mine.extent.dtype, extent)):
            raise self.fail(
                f"the loop `{mine.loop_var.name}` runs {mine.extent} times, described are {described.extent}"
            )
        # The loops may start elsewhere: what counts is how far along an iteration is.
        number = build.add(build.sub(mine.loop_var, mine.min), build.cast(mine.loop_var.dtype, described.min))
        self.values[described.loop_var] = build.cast(described.loop_var.dtype, number)
        self.inner.add(mine.loop_var)
        self.analyzer.bind(mine.loop_var, Range(mine.min, mine.extent), allow_override=True)
        self.statements(mine.body, described.body)

    def _block(self, mine: Block, described: Block) -> None:
        self.at = mine
        if len(mine.iters) != len(described.iters):
            raise self.fail(f"the block has {len(mine.iters)} iterators, described are {len(described.iters)}")
        if mine.match_buffers or described.match_buffers or (mine.init is None) != (described.init is None):
            raise self.fail("one of the blocks has an init, or parts of buffers, and the other one not")
        for a, b in zip(mine.iters, described.iters, strict=True):
            if a.kind is not b.kind or a.value is None or b.value is None:
                raise self.fail(f"the iterator {a.var.name} is {a.kind.value}, described {b.kind.value}")
            self.expressions(a.value, b.value)
            self.expressions(a.domain.extent, b.domain.extent)
            self.values[b.var] = build.cast(b.var.dtype, a.var)
            self.inner.add(a.var)
            self.analyzer.bind(a.var, a.domain, allow_override=True)
        self.expressions(mine.predicate, described.predicate)
        if mine.init is not None and described.init is not None:
            self.statements(mine.init, described.init)
        self.statements(mine.body, described.body)

    def _access(self, buffer: Buffer, indices: Sequence[Expr], described: Buffer, places: Sequence[Expr]) -> None:
        text = f"{buffer.name}[{', '.join(map(str, indices))}]"
        if buffer.scope != described.scope:
            raise self.fail(f"{text} is in {buffer.scope!r} memory, described is {described.scope!r}")
        if buffer.dtype is not described.dtype or len(indices) < len(places):
            raise self.fail(f"{text} is {buffer.dtype} of {len(indices)} dimensions, described is {described.dtype}")
        lead = len(indices) - len(places)
        base = list(indices[:lead])
        for mine, index in zip(indices[lead:], places, strict=True):
            number = build.cast(mine.dtype, substitute(index, self.values))
            base.append(self._steady(self.analyzer.simplify(build.sub(mine, number))))
        if any(mentions(part, self.inner) for part in base):
            raise self.fail(
                f"{text} is not at one distance from the described {described.name}[{', '.join(map(str, places))}]"
            )
        known = self.places.get(described)
        if known is None:
            if any(other is buffer for other, _ in self.places.values()):
                raise self.fail(f"{text} is of a buffer that another one of the description stands for")
            self.places[described] = buffer, tuple(base)
        elif known[0] is not buffer or not all(map(self.analyzer.can_prove_equal, known[1], base)):
            raise self.fail(f"{text} is elsewhere than the described {described.name} was before")

    def _steady(self, distance: Expr) -> Expr:
        """A distance without the loops inside, where all their iterations have the same one."""
        if not self.points or not mentions(distance, self.inner):
            return distance
        part, rest = apart(distance, self.inner)
        try:
            found = np.asarray(Evaluator(part).at(self.points, kept))
        except ArithmeticError:
            return distance  # other variables have a part in it
        return build.add(rest, const(int(found.flat[0]), rest.dtype)) if (found == found.flat[0]).all() else distance

    def expressions(self, mine: Expr, described: Expr) -> None:
        """Compare expressions. Raises :class:`Mismatch`."""
        if isinstance(described, BufferLoad):
            if not isinstance(mine, BufferLoad):
                raise self.fail(f"{mine} is no read of memory, described is {described}")
            self._access(mine.buffer, mine.indices, described.buffer, described.indices)
            return
        if isinstance(mine, COMMUTATIVE) and mine.__class__ is described.__class__:
            kept = dict(self.places)
            try:
                self._operands(mine, described)
                return
            except Mismatch as error:
                self.places = kept
                try:
                    self.expressions(mine.a, described.b)
                    self.expressions(mine.b, described.a)
                    self.swapped = True
                    return
                except Mismatch:
                    raise error from None
        if not has(BufferLoad, described):
            value = substitute(described, self.values)
            same = mine.dtype is value.dtype and (
                structural_equal(mine, value)
                or (mine.dtype.is_integral and mine.dtype.is_scalar and self.analyzer.can_prove_equal(mine, value))
            )
            if not same:
                raise self.fail(f"there is {mine}, described is {described}")
            return
        if mine.__class__ is not described.__class__ or mine.dtype is not described.dtype:
            raise self.fail(f"there is {mine}, described is {described}")
        self._operands(mine, described)

    def _operands(self, mine: Expr, described: Expr) -> None:
        own, theirs = ([x for x in one.children() if isinstance(x, Expr)] for one in (mine, described))
        if len(own) != len(theirs) or getattr(mine, "op", None) is not getattr(described, "op", None):
            raise self.fail(f"there is {mine}, described is {described}")
        for a, b in zip(own, theirs, strict=True):
            self.expressions(a, b)


_STATEMENTS = {
    Seq: Matcher._sequence,
    For: Matcher._loop,
    Block: Matcher._block,
    BufferStore: Matcher._store,
    IfThenElse: Matcher._condition,
    Evaluate: Matcher._evaluate,
}
