"""The expressions of a vectorized loop: the loop variable becomes a ramp, what depends on it a vector.

With ``L`` lanes an expression of ``k`` lanes becomes one of ``L * k``, lane by lane of the loop, when anything in it
changed; what does not depend on the loop stays and is repeated where it meets a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TypeAlias

from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import (
    Add,
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Expr,
    IntImm,
    Let,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    Sub,
    Var,
    const,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Dispatch
from tirlower.ir.node import Node
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each, may_divide_by_zero, nodes
from tirlower.rewrite.scalar_overflow import analyzer_of
from tirlower.rewrite.vectors.masks import Masker, Scalarize, always_read, mask_of

__all__ = ["ExprVectorizer", "depends_on"]

New: TypeAlias = Callable[[Expr], Expr]
"""What an operand became."""


def depends_on(node: Node, names: Container[object]) -> bool:
    """Whether a node mentions one of some variables (a set or mapping of them)."""
    return any(
        # An undeclared view is defined where it is used.
        op in names if isinstance(op, Var) else any(depends_on(part, names) for part in op.buffer.children())
        for op in each((Var, BufferLoad), node)
    )


class ExprVectorizer(Dispatch[Expr, Expr, New]):
    """Rewrites expressions for the lanes of a loop.

    ``lets`` maps the variables bound to vectors to their vector forms; the statements' half adds to it. With
    ``predicated``, choices that differ between lanes become selects between arms of masked loads.
    """

    def __init__(self, var: Var, lanes: int | Expr, predicated: bool = False, func: PrimFunc | None = None) -> None:
        self.var = var
        self.lanes = lanes
        self.predicated = predicated
        self.ramp = Ramp(const(0, var.dtype), const(1, var.dtype), lanes)
        self.lets: dict[Var, Var] = {}
        self.analyzer, self.wrapping = analyzer_of(func)
        self.varying: dict[Buffer, bool] = {}

    def forget(self, known: int) -> None:
        """Drop the vector forms of all but the first ``known`` variables: what bound them was given up."""
        while len(self.lets) > known:
            self.lets.popitem()

    # -- repeating ---------------------------------------------------------------------------------------------------

    def widen(self, old: Expr, new: Expr, inner: int | None = None) -> Expr:
        """``new``, which ``old`` became, with the loop's lanes times ``inner`` (those of ``old``)."""
        have = old.dtype.lanes
        inner = have if inner is None else inner
        if have != inner and have != 1:
            raise Scalarize(f"cannot repeat the {have} lanes of {old} to {inner}")
        if new is old:
            if isinstance(old, Broadcast) and isinstance(old.lanes, int):
                return self._repeat(old.value, inner)
            return self._repeat(old, inner if have == 1 else 1)
        if have == inner:
            return new
        return self._each(new, inner)

    def _repeat(self, value: Expr, times: int) -> Expr:
        """A loop-invariant value ``times`` times in every lane of the loop."""
        if isinstance(self.lanes, int):
            return Broadcast(value, self.lanes * times, span=value.span)
        if times != 1 or value.dtype.is_vector:
            raise Scalarize("a vector inside a loop of scalable lanes")
        return Broadcast(value, self.lanes, span=value.span)

    def _each(self, vector: Expr, times: int) -> Expr:
        """Each lane of a vector ``times`` times."""
        if not isinstance(self.lanes, int):
            raise Scalarize("a vector inside a loop of scalable lanes")
        indices = [const(lane, "int32") for lane in range(self.lanes) for _ in range(times)]
        return Shuffle((vector,), tuple(indices), span=vector.span)

    def varies(self, buffer: Buffer) -> bool:
        """Whether the layout of a buffer depends on the loop."""
        known = self.varying.get(buffer)
        if known is None:
            known = any(depends_on(part, {self.var, *self.lets}) for part in buffer.children())
            self.varying[buffer] = known
        return known

    # -- the walk ----------------------------------------------------------------------------------------------------

    def rewrite(self, root: Expr) -> Expr:
        """The vector form of an expression; the same object when it does not depend on the loop.

        Raises :class:`Scalarize` where there is none.
        """
        if root.is_leaf:
            return self._leaf(root)
        memo: dict[int, Expr] = {}
        stack: list[Expr] = [root]
        while stack:
            op = stack[-1]
            if id(op) in memo:
                stack.pop()
            elif op.__class__ is Let:
                self._let(op, memo, stack)
            elif op.is_leaf:
                stack.pop()
                memo[id(op)] = self._leaf(op)
            else:
                waiting = [c for c in op.children() if id(c) not in memo]
                if waiting:
                    waiting.reverse()
                    stack += waiting
                else:
                    stack.pop()
                    memo[id(op)] = self._node(op, memo)
        return memo[id(root)]

    def _leaf(self, op: Expr) -> Expr:
        if op is self.var:
            return self.ramp
        return self.lets.get(op, op) if isinstance(op, Var) else op

    def _let(self, op: Let, memo: dict[int, Expr], stack: list[Expr]) -> None:
        if id(op.value) not in memo:
            stack.append(op.value)
            return
        value = memo[id(op.value)]
        if value.dtype is not op.var.dtype and op.var not in self.lets:
            self.lets[op.var] = Var(op.var.name, value.dtype, span=op.var.span)
        if id(op.body) not in memo:
            stack.append(op.body)
            return
        stack.pop()
        body = memo[id(op.body)]
        memo[id(op)] = (
            op
            if value is op.value and body is op.body
            else Let(self.lets.get(op.var, op.var), value, body, span=op.span)
        )

    def _node(self, op: Expr, memo: dict[int, Expr]) -> Expr:
        def new(child: Expr) -> Expr:
            return memo[id(child)]

        if isinstance(op, BufferLoad) and self.varies(op.buffer):
            raise Scalarize(f"the layout of {op.buffer.name!r} differs between lanes")
        if isinstance(op, Call) and (not isinstance(op.op, Op) or op.op.purity >= Purity.WRITES):
            raise Scalarize(f"{op.op.name} has effects: it runs once for each lane")
        if all(memo[id(c)] is c for c in op.children()):
            return op
        return self.dispatch(op, new)

    def otherwise(self, op: Expr, new: New) -> Expr:
        raise Scalarize(f"{type(op).__name__} has no vector form")

    # -- nodes of which an operand changed ---------------------------------------------------------------------------

    def on_Add(self, op: Add | Sub, new: New) -> Expr:
        a, b = new(op.a), new(op.b)
        fn = build.add if isinstance(op, Add) else build.sub
        if isinstance(a, Ramp) and b.dtype.is_scalar:
            return Ramp(fn(a.base, b), a.stride, a.lanes, span=op.span)
        if isinstance(b, Ramp) and a.dtype.is_scalar:
            return Ramp(fn(a, b.base), fn(const(0, b.stride.dtype), b.stride), b.lanes, span=op.span)
        return self.on_BinaryOp(op, new)

    on_Sub = on_Add

    def on_Mul(self, op: Mul, new: New) -> Expr:
        a, b = new(op.a), new(op.b)
        for ramp, factor in ((a, b), (b, a)):
            if isinstance(ramp, Ramp) and factor.dtype.is_scalar and self._positive(factor):
                return Ramp(build.mul(ramp.base, factor), build.mul(ramp.stride, factor), ramp.lanes, span=op.span)
        return self.on_BinaryOp(op, new)

    def _positive(self, factor: Expr) -> bool:
        if isinstance(factor, IntImm):
            return factor.value > 0
        return self.analyzer.can_prove(build.gt(factor, const(0, factor.dtype)))

    def on_BinaryOp(self, op: BinaryOp | CompareOp | And | Or, new: New) -> Expr:
        return type(op)(self.widen(op.a, new(op.a)), self.widen(op.b, new(op.b)), span=op.span)

    on_CompareOp = on_BinaryOp

    def on_And(self, op: And | Or, new: New) -> Expr:
        """A conjunction or disjunction: vectors evaluate both sides in every lane."""
        if self._may_fault(op.b, op.a, new):
            raise Scalarize("the right side of an and or or is evaluated in some lanes only")
        return self.on_BinaryOp(op, new)

    on_Or = on_And

    def _may_fault(self, expr: Expr, before: Expr, new: New) -> bool:
        """Whether evaluating an expression may fail where evaluating ``before`` does not: by loads and divisions of
        its own."""
        done = set(map(id, nodes(before)))
        for op in nodes(expr):
            if id(op) in done:
                continue
            if isinstance(op, BufferLoad):
                if not all(self._inside(new(i), n) for i, n in zip(op.indices, op.buffer.shape, strict=True)):
                    return True
            elif may_divide_by_zero(op):
                return True
        return False

    def _inside(self, index: Expr, extent: Expr) -> bool:
        """Whether an index, of all lanes, is proved to be in a dimension."""
        ends = [index]
        if isinstance(index, Ramp):
            ends = [index.base, build.add(index.base, build.mul(index.stride, build.sub(index.lanes, 1)))]
        elif index.dtype.is_vector:
            return False
        zero = const(0, extent.dtype)
        return all(self.analyzer.can_prove(build.logical_and(build.ge(e, zero), build.lt(e, extent))) for e in ends)

    def on_Not(self, op: Not, new: New) -> Expr:
        return Not(new(op.a), span=op.span)

    def on_Select(self, op: Select, new: New) -> Expr:
        t, f = op.true_value, op.false_value
        condition = self.widen(op.condition, new(op.condition), t.dtype.lanes)
        return Select(condition, self.widen(t, new(t)), self.widen(f, new(f)), span=op.span)

    def on_Cast(self, op: Cast, new: New) -> Expr:
        value = new(op.value)
        return Cast(op.dtype.element.with_lanes(value.dtype.lanes, value.dtype.scalable), value, span=op.span)

    def on_Ramp(self, op: Ramp, new: New) -> Expr:
        base, stride = new(op.base), new(op.stride)
        if not isinstance(op.lanes, int) or not isinstance(self.lanes, int):
            raise Scalarize("a vector inside a loop of scalable lanes")
        if isinstance(base, Ramp) and stride.dtype.is_scalar:
            step = build.mul(stride, const(op.lanes, stride.dtype))
            if self.analyzer.can_prove_equal(base.stride, step):
                return Ramp(base.base, stride, op.lanes * self.lanes, span=op.span)
        base, stride = self.widen(op.base, base), self.widen(op.stride, stride)
        parts = [Ramp(_lane(base, i), _lane(stride, i), op.lanes, span=op.span) for i in range(self.lanes)]
        return Shuffle(tuple(parts), tuple(const(i, "int32") for i in range(self.lanes * op.lanes)), span=op.span)

    def on_Broadcast(self, op: Broadcast, new: New) -> Expr:
        if not isinstance(op.lanes, int) or op.value.dtype.is_vector:
            raise Scalarize("a repeated vector that differs between lanes")
        return self._each(new(op.value), op.lanes)

    def on_Shuffle(self, op: Shuffle, new: New) -> Expr:
        if not isinstance(self.lanes, int) or any(not isinstance(new(i), IntImm) for i in op.indices):
            raise Scalarize("a shuffle whose indices differ between lanes")
        wide = tuple(self.widen(v, new(v)) for v in op.vectors)
        places: list[tuple[int, int, int]] = []  # of each old lane: where its vector starts, its lanes, its position
        start = 0
        for vector in op.vectors:
            count = vector.dtype.lanes
            places += [(start, count, position) for position in range(count)]
            start += count * self.lanes
        picked = []
        for lane in range(self.lanes):
            for index in op.indices:
                first, count, position = places[index.value]  # type: ignore[attr-defined]
                picked.append(const(first + lane * count + position, "int32"))
        return Shuffle(wide, tuple(picked), span=op.span)

    def on_BufferLoad(self, op: BufferLoad, new: New) -> Expr:
        indices, predicate = self.access(op.buffer, op.indices, op.predicate, new)
        return BufferLoad(op.buffer, indices, predicate, span=op.span)

    def access(
        self,
        buffer: Buffer,
        indices: tuple[Expr, ...],
        predicate: Expr | None,
        new: New,
        wide: bool = False,
    ) -> tuple[tuple[Expr, ...], Expr | None]:
        """The indices and predicate of a vector access; ``wide`` when its value is one whatever they are."""
        rewritten = [new(i) for i in indices]
        if any(a is not b for a, b in zip(rewritten[:-1], indices[:-1], strict=True)):
            raise Scalarize(f"an index of {buffer.name!r} other than the last differs between lanes")
        if not indices:
            raise Scalarize(f"{buffer.name!r} has no dimension to take lanes from")
        mask = None if predicate is None else new(predicate)
        last = indices[-1]
        if wide or rewritten[-1] is not last or mask is not predicate:
            rewritten[-1] = self.widen(last, rewritten[-1])
            if predicate is not None and mask is not None:
                mask = self.widen(predicate, mask)
        return tuple(rewritten), mask

    def on_Call(self, op: Call, new: New) -> Expr:
        callee = op.op
        assert isinstance(callee, Op)  # other callees have effects, which were refused before
        args = [new(a) for a in op.args]
        name = callee.name
        if name == "tir.if_then_else":
            if args[0] is not op.args[0]:
                return self._choice(op, args)
            t, f = (self.widen(a, new(a)) for a in op.args[1:])
            return op.with_(args=(args[0], t, f), dtype=t.dtype)
        llvm = name == "tir.call_llvm_pure_intrin"
        if not (callee.elementwise or llvm or name == "tir.likely"):
            raise Scalarize(f"{name} takes no vectors")
        fixed = 0
        if llvm:
            # The name of LLVM's intrinsic, and in TVM's form the number of arguments.
            count = op.args[1] if len(op.args) > 1 else None
            fixed = (
                2 if isinstance(count, IntImm) and count.dtype == "uint32" and count.value == len(op.args) - 2 else 1
            )
        inner = max(a.dtype.lanes for a in op.args[fixed:])
        wide = [*op.args[:fixed], *(self.widen(a, new(a), inner) for a in op.args[fixed:])]
        first = wide[fixed].dtype
        lanes = op.dtype.lanes * first.lanes // inner
        return op.with_(args=tuple(wide), dtype=op.dtype.element.with_lanes(lanes, first.scalable))

    def _choice(self, op: Call, args: list[Expr]) -> Expr:
        """A choice that differs between lanes: a select, the loads of each arm under the mask of its lanes."""
        if not self.predicated:
            raise Scalarize("an if_then_else whose condition differs between lanes")
        condition = mask_of(args[0], self.wrapping)
        if condition.dtype.lanes != args[0].dtype.lanes or op.dtype.is_vector:
            raise Scalarize("a choice between vectors that differs between lanes")
        t, f = (self.widen(old, new) for old, new in zip(op.args[1:], args[1:], strict=True))
        read = always_read(condition)
        t, f = Masker(condition, read=read).visit(t), Masker(Not(condition), read=read).visit(f)
        # By the mask itself: LLVM sees that a masked load of the arm has left out the lanes that the other arm gives.
        return Select(condition, t, f, span=op.span)


def _lane(vector: Expr, lane: int) -> Expr:
    if isinstance(vector, Broadcast):
        return vector.value
    if isinstance(vector, Ramp):
        return build.add(vector.base, build.mul(vector.stride, const(lane, vector.stride.dtype)))
    return Shuffle((vector,), (const(lane, "int32"),))
