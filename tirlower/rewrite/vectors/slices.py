"""Some lanes of a vector expression: what SplitVectors makes the pieces of long vectors with."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from tirlower.ir import build
from tirlower.ir.expr import (
    And,
    BinaryOp,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Expr,
    IntImm,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Var,
    const,
)
from tirlower.ir.functor import Dispatch
from tirlower.ir.op import Op, Purity

__all__ = ["IF_THEN_ELSE", "NoSlice", "Slicer", "narrow_ramp"]

IF_THEN_ELSE = Op.get("tir.if_then_else")
_MASK = Op.get("tir.get_active_lane_mask")
_LOW, _HIGH, _COMBINE = (Op.get(f"tir.{name}") for name in ("vectorlow", "vectorhigh", "vectorcombine"))
_LLVM = Op.get("tir.call_llvm_pure_intrin")
_REINTERPRET = Op.get("tir.reinterpret")


class NoSlice(Exception):
    """Raised for a vector of which no part can be computed alone."""


def narrow_ramp(op: Ramp) -> bool:
    """Whether a ramp's lanes may wrap around in its type: narrow types do, as data does."""
    return op.dtype.bits < 32


class Slicer(Dispatch[Expr, Expr, int | Expr, int]):
    """Lanes ``start .. start + count - 1`` of expressions; ``start`` is a number, or a scalar int32 expression.

    ``spill(vector)`` gives a load of a vector that was computed before into memory, for lanes that are picked from all
    over it; it raises :class:`NoSlice` where that is not possible. ``cut`` holds the lane counts that are too long.
    """

    def __init__(self, start: int | Expr, count: int, spill: Callable[[Expr], BufferLoad], cut: frozenset[int]) -> None:
        self.start, self.count = start, count
        self._spill = spill
        self.cut = cut
        self._conditional = 0
        self.memo: dict[object, Expr] = {}

    def of(self, root: Expr) -> Expr:
        """The lanes of a vector that has as many as the statement."""
        return self._slice(root, self.start, self.count)

    def spill(self, vector: Expr) -> BufferLoad:
        """A vector in memory; not one that is computed under a condition alone."""
        if self._conditional:
            raise NoSlice("it stands in one arm of an if_then_else")
        return self._spill(vector)

    def _slice(self, op: Expr, start: int | Expr, count: int) -> Expr:
        if start == 0 and count == op.dtype.lanes:
            return op
        key = (op, start if isinstance(start, int) else id(start), count)
        found = self.memo.get(key)
        if found is None:
            found = self.memo[key] = self.dispatch(op, start, count)
        return found

    def otherwise(self, op: Expr, start: int | Expr, count: int) -> Expr:
        raise NoSlice(f"{type(op).__name__} {op}")

    # -- leaves ------------------------------------------------------------------------------------------------------

    def on_Ramp(self, op: Ramp, start: int | Expr, count: int) -> Expr:
        if narrow_ramp(op):
            wide = "int64" if op.dtype.is_int else "uint64"
            long = Ramp(build.cast(wide, op.base), build.cast(wide, op.stride), op.lanes, span=op.span)
            part = self.on_Ramp(long, start, count)
            return Cast(op.dtype.element.with_lanes(count), part, span=op.span)
        first = build.mul(op.stride, _as(op.stride, start))
        base = build.add(op.base, first)
        return base if count == 1 else Ramp(base, op.stride, count, span=op.span)

    def on_Broadcast(self, op: Broadcast, start: int | Expr, count: int) -> Expr:
        inner = op.value.dtype.lanes
        if inner == 1:
            return op.value if count == 1 else Broadcast(op.value, count, span=op.span)
        if isinstance(start, int) and start % inner + count <= inner:
            return self._slice(op.value, start % inner, count)
        if count % inner == 0 and isinstance(start, int) and start % inner == 0:
            return Broadcast(op.value, count // inner, span=op.span)
        load = self.spill(op.value)
        place = build.floormod(_ramp(start, count), Broadcast(const(inner, "int32"), count))
        return _picked(load, place)

    def on_Var(self, op: Var, start: int | Expr, count: int) -> Expr:
        if not isinstance(start, int) or op.dtype.lanes in self.cut:
            return self._slice(self.spill(op), start, count)
        return Shuffle((op,), tuple(const(start + i, "int32") for i in range(count)), span=op.span)

    def on_BufferLoad(self, op: BufferLoad, start: int | Expr, count: int) -> Expr:
        group = op.buffer.dtype.lanes
        if not op.indices or op.indices[-1].dtype.lanes * group != op.dtype.lanes or count % group:
            raise NoSlice(f"a part of an element of {op.buffer.name!r}")
        if isinstance(start, int) and start % group:
            raise NoSlice(f"a part of an element of {op.buffer.name!r}")
        if op.indices[-1].dtype.is_scalar:
            raise NoSlice(f"a part of an element of {op.buffer.name!r}")
        first = start // group if isinstance(start, int) else build.floordiv(start, const(group, "int32"))
        index = self._slice(op.indices[-1], first, count // group)
        mask = None if op.predicate is None else self._slice(op.predicate, first, count // group)
        return BufferLoad(op.buffer, (*op.indices[:-1], index), mask, span=op.span)

    # -- lane by lane ------------------------------------------------------------------------------------------------

    def on_BinaryOp(self, op: BinaryOp | CompareOp | And | Or, start: int | Expr, count: int) -> Expr:
        return type(op)(self._slice(op.a, start, count), self._slice(op.b, start, count), span=op.span)

    on_CompareOp = on_And = on_Or = on_BinaryOp

    def on_Not(self, op: Not, start: int | Expr, count: int) -> Expr:
        return Not(self._slice(op.a, start, count), span=op.span)

    def on_Cast(self, op: Cast, start: int | Expr, count: int) -> Expr:
        return Cast(op.dtype.element.with_lanes(count), self._slice(op.value, start, count), span=op.span)

    def on_Select(self, op: Select, start: int | Expr, count: int) -> Expr:
        condition = op.condition if op.condition.dtype.is_scalar else self._slice(op.condition, start, count)
        parts = [self._slice(arm, start, count) for arm in (op.true_value, op.false_value)]
        return Select(condition, *parts, span=op.span)

    def on_Call(self, op: Call, start: int | Expr, count: int) -> Expr:
        callee, lanes = op.op, op.dtype.lanes
        dtype = op.dtype.element.with_lanes(count)
        if not isinstance(callee, Op) or callee.purity >= Purity.WRITES:
            raise NoSlice(f"a call of {op.op.name}")
        if callee is _MASK:
            base, limit = (build.cast("int64", arg) for arg in op.args)
            shifted = build.add(base, _as(base, start))
            return build.lt(shifted, limit) if count == 1 else op.with_(args=(shifted, limit), dtype=dtype)
        if callee is _LOW:
            return self._slice(op.args[0], start, count)
        if callee is _HIGH:
            return self._slice(op.args[0], _plus(start, lanes), count)
        if callee is _COMBINE:
            return self._concatenated(op.args, start, count)
        if callee is _REINTERPRET:
            (value,) = op.args
            if value.dtype.lanes != lanes:
                raise NoSlice("a reinterpretation with other lanes")
        elif callee is _LLVM:
            named = op.args[0]
            if not isinstance(named, StringImm) or "vector." in named.value or "shuffle" in named.value:
                raise NoSlice(f"a call of {named}")
        elif not (callee.elementwise or callee is IF_THEN_ELSE or callee.name == "tir.likely"):
            raise NoSlice(f"a call of {callee.name}")
        self._conditional += callee is IF_THEN_ELSE
        args = [arg if arg.dtype.lanes == 1 else self._slice(arg, start, count) for arg in op.args]
        self._conditional -= callee is IF_THEN_ELSE
        return op.with_(args=tuple(args), dtype=dtype)

    # -- lanes from elsewhere ----------------------------------------------------------------------------------------

    def _concatenated(self, parts: tuple[Expr, ...], start: int | Expr, count: int) -> Expr:
        """Lanes of vectors that stand behind each other."""
        if not isinstance(start, int):
            raise NoSlice("a run of lanes over several vectors")
        taken: list[Expr] = []
        for part in parts:
            lanes = part.dtype.lanes
            if count and start < lanes:
                here = min(count, lanes - start)
                taken.append(self._slice(part, start, here))
                start, count = 0, count - here
            else:
                start -= lanes
        if len(taken) == 1:
            return taken[0]
        total = sum(part.dtype.lanes for part in taken)
        return Shuffle(tuple(taken), tuple(const(i, "int32") for i in range(total)))

    def on_Shuffle(self, op: Shuffle, start: int | Expr, count: int) -> Expr:
        if not all(isinstance(index, IntImm) for index in op.indices):
            raise NoSlice("a shuffle whose indices are no constants")
        picks = [index.value for index in op.indices if isinstance(index, IntImm)]
        if isinstance(start, int):
            picks = picks[start : start + count]
            if picks == list(range(picks[0], picks[0] + count)):
                return self._concatenated(op.vectors, picks[0], count)
            if not any(vector.dtype.lanes in self.cut for vector in op.vectors):
                if all(vector.dtype.is_scalar for vector in op.vectors):
                    chosen = tuple(op.vectors[i] for i in picks)
                    return chosen[0] if count == 1 else Shuffle(chosen, tuple(const(i, "int32") for i in range(count)))
                return Shuffle(op.vectors, tuple(const(i, "int32") for i in picks), span=op.span)
            return _picked(self._whole(op), _constants(picks))
        step = picks[1] - picks[0]
        if any(b - a != step for a, b in itertools.pairwise(picks)):
            return self._slice(self.spill(op), start, count)
        if step == 1 and len(op.vectors) == 1:
            return self._slice(op.vectors[0], build.add(start, const(picks[0], "int32")), count)
        first = build.add(const(picks[0], "int32"), build.mul(start, const(step, "int32")))
        return _picked(self._whole(op), Ramp(first, const(step, "int32"), count) if count > 1 else first)

    def _whole(self, op: Shuffle) -> BufferLoad:
        """All the vectors of a shuffle in memory, behind each other."""
        if len(op.vectors) == 1:
            return self.spill(op.vectors[0])
        total = sum(vector.dtype.lanes for vector in op.vectors)
        return self.spill(Shuffle(op.vectors, tuple(const(i, "int32") for i in range(total))))


def _as(like: Expr, value: int | Expr) -> Expr:
    return const(value, like.dtype) if isinstance(value, int) else build.cast(like.dtype, value)


def _plus(start: int | Expr, more: int) -> int | Expr:
    return start + more if isinstance(start, int) else build.add(start, const(more, "int32"))


def _ramp(start: int | Expr, count: int) -> Expr:
    first = _as(const(0, "int32"), start)
    return first if count == 1 else Ramp(first, const(1, "int32"), count)


def _constants(values: list[int]) -> Expr:
    if len(values) == 1:
        return const(values[0], "int32")
    step = values[1] - values[0]
    if all(b - a == step for a, b in itertools.pairwise(values)):
        return Ramp(const(values[0], "int32"), const(step, "int32"), len(values))
    lanes = tuple(const(value, "int32") for value in values)
    return Shuffle(lanes, tuple(const(i, "int32") for i in range(len(values))))


def _picked(load: BufferLoad, lanes: Expr) -> Expr:
    """Elements of a buffer that a vector was spilled to."""
    return BufferLoad(load.buffer, (lanes,), None, span=load.span)
