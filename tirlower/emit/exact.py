"""Index arithmetic of 32 bits where it decides which memory is touched: in 64 bits, so that it is exact.

What is proved of an index takes its arithmetic not to overflow, and a condition like ``i * 16 + j < n`` is a fact about
the numbers, not about their last 32 bits. So where such arithmetic may leave its type (:data:`~tirlower.emit.facts.LEAVES`)
comparisons are made in 64 bits, a conversion to 64 bits converts the number, and choices, shifts and operations on bits
inside an index are indices too. What depends on data wraps in its own type, here as in the proofs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tirlower.emit.arithmetic import compare, select_lanes
from tirlower.emit.casts import convert
from tirlower.emit.expressions import (
    CALLS,
    COMBINE,
    INDEX_CONTROL,
    Run,
    call_control,
    control,
    in_branches,
    widened_var,
)
from tirlower.emit.facts import DATA, FAULTS, HEAVY
from tirlower.emit.llvm_text import I32, I64, Value, const_vector, vector
from tirlower.ir import build
from tirlower.ir.dtype import INT64
from tirlower.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    BinaryOp,
    Broadcast,
    Call,
    Cast,
    CompareOp,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    Mod,
    Mul,
    Ramp,
    Select,
    Sub,
    Var,
)
from tirlower.ir.op import GlobalVar, Op

__all__ = ["evaluate_lanes", "wide_lanes", "widened"]

_IF: Final = Op.get("tir.if_then_else")
_SHIFTS: Final[dict[Op | GlobalVar, str]] = {Op.get("tir.shift_left"): "shl", Op.get("tir.shift_right"): "ashr"}
_BITS: Final[dict[Op | GlobalVar, str]] = {
    Op.get("tir.bitwise_and"): "and",
    Op.get("tir.bitwise_or"): "or",
    Op.get("tir.bitwise_xor"): "xor",
}


def _leaves(run: Run, *operands: Expr) -> bool:
    """Whether one of some operands of 32 bits is index arithmetic that may leave them."""
    dtype = operands[0].dtype
    return dtype.is_int and dtype.bits == 32 and any(map(run.em.facts.leaves, operands))


# -- comparisons ------------------------------------------------------------------------------------------------------


@control(EQ, NE, LT, LE, GT, GE)
def _compare(run: Run, op: CompareOp) -> None:
    a, b = op.a, op.b
    if not _leaves(run, a, b):

        def plain(_: object) -> None:
            run.set(op, compare(run.em, op.__class__, a.dtype, run.get(a), run.get(b)))

        run.then(plain)
        run.evaluate(b)
        run.evaluate(a)
    elif a.dtype.is_scalar:

        def exact(_: object) -> None:
            run.set(op, compare(run.em, op.__class__, INT64, run.get_index(a), run.get_index(b)))

        run.then(exact)
        run.evaluate_index(b)
        run.evaluate_index(a)
    else:
        _compare_lanes(run, op)


class _Line(NamedTuple):
    """Lanes on a line: ``base + lane * step``."""

    base: Expr
    step: int


def _line(op: Expr) -> _Line | None:
    """Lanes as a line with a constant step; None for any others."""
    if isinstance(op, Broadcast) and op.value.dtype.is_scalar:
        return _Line(op.value, 0)
    if isinstance(op, Ramp) and op.base.dtype.is_scalar and isinstance(op.stride, IntImm):
        return _Line(op.base, op.stride.value)
    if isinstance(op, (Add, Sub, Mul)):
        a, b = _line(op.a), _line(op.b)
        if a is None or b is None:
            return None
        if isinstance(op, Add):
            return _Line(_wide(a.base) + _wide(b.base), a.step + b.step)
        if isinstance(op, Sub):
            return _Line(_wide(a.base) - _wide(b.base), a.step - b.step)
        for factor, line in ((a, b), (b, a)):
            if isinstance(factor.base, IntImm) and not factor.step:
                return _Line(_wide(line.base) * _wide(factor.base), line.step * factor.base.value)
    return None


def _wide(op: Expr) -> Expr:
    return build.cast(INT64, op)


def _compare_lanes(run: Run, op: CompareOp) -> None:
    """Lanes on two lines are compared by the distance of their first ones: one number in 64 bits for all lanes."""
    em, lanes = run.em, op.a.dtype.lanes
    a, b = _line(op.a), _line(op.b)
    step = 0 if a is None or b is None else a.step - b.step
    if a is None or b is None or abs(step) * lanes >= 1 << 30:
        wide_a, wide_b = widened(run, op.a), widened(run, op.b)

        def by_lane(_: object) -> None:
            run.set(op, compare(em, op.__class__, INT64, run.get(wide_a), run.get(wide_b)))

        run.then(by_lane)
        run.evaluate(wide_b)
        run.evaluate(wide_a)
        return
    distance = _wide(b.base) - _wide(a.base)
    em.facts.kept.append(distance)

    def by_distance(_: object) -> None:
        # Beyond what the lanes reach, all that is farther is as far.
        reach = (1 << 31) - 1
        least = em.b.intrinsic("llvm.smax", I64, [run.get(distance), em.b.i64(-reach)], [I64])
        near = em.b.trunc(em.b.intrinsic("llvm.smin", I64, [least, em.b.i64(reach)], [I64]), I32)
        steps = const_vector([em.b.i32(step * lane) for lane in range(lanes)])
        run.set(op, compare(em, op.__class__, op.a.dtype, steps, em.b.splat(near, lanes)))

    run.then(by_distance)
    run.evaluate(distance)


def evaluate_lanes(run: Run, op: Expr) -> None:
    """Schedule the lanes of an index."""
    if not run.em.facts.leaves(op):
        run.evaluate(op)
        return
    wide = widened(run, op)
    run.then(lambda _: run.set_index(op, run.get(wide)))
    run.evaluate(wide)


def wide_lanes(run: Run, op: Expr) -> Value:
    """The lanes of an index evaluated before, in 64 bits."""
    if run.em.facts.leaves(op):
        return run.get_index(op)
    value = run.get(op)
    t = vector(I64, value.type.lanes)
    if value.type == t:
        return value
    return run.em.b.sext(value, t) if op.dtype.is_int else run.em.b.zext(value, t)


def widened(run: Run, root: Expr) -> Expr:
    """Lanes of 32 bits as the same lanes of 64 bits, computed in these from the leaves on."""
    done: dict[int, Expr] = {}
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        op, ready = stack.pop()
        if id(op) in done:
            continue
        parts = _parts(op) if op.dtype.is_vector and run.em.facts.leaves(op) else ()
        if not parts:
            done[id(op)] = build.cast(INT64.with_lanes(op.dtype.lanes), op)
        elif ready:
            done[id(op)] = _rebuilt(op, [done[id(part)] for part in parts])
        else:
            stack.append((op, True))
            stack += [(part, False) for part in parts]
    run.em.facts.kept += [root, *done.values()]
    return done[id(root)]


def _parts(op: Expr) -> tuple[Expr, ...]:
    """The operands that are lanes, or numbers, of the same kind as what is computed of them."""
    if not isinstance(op, Call):
        return tuple(getattr(op, name) for name in _parts_of(op))
    if op.op is _IF:
        return op.args[1:]
    return op.args if op.op in _SHIFTS or op.op in _BITS else ()


def _parts_of(op: Expr) -> tuple[str, ...]:
    """The fields in which they stand, where it is no call."""
    return ("a", "b") if isinstance(op, BinaryOp) else _PARTS.get(op.__class__, ())


_PARTS: Final[dict[type, tuple[str, ...]]] = {
    Ramp: ("base", "stride"),
    Broadcast: ("value",),
    Select: ("true_value", "false_value"),
}


def _rebuilt(op: Expr, parts: list[Expr]) -> Expr:
    if not isinstance(op, Call):
        return op.with_(**dict(zip(_parts_of(op), parts, strict=True)))
    dtype = INT64.with_lanes(op.dtype.lanes)
    return op.with_(args=(op.args[0], *parts) if op.op is _IF else tuple(parts), dtype=dtype)


# -- conversions ------------------------------------------------------------------------------------------------------


@control(Cast)
def _cast(run: Run, op: Cast) -> None:
    value = op.value
    if not (op.dtype.is_int and op.dtype.bits == 64 and _leaves(run, value)):
        run.then(lambda _: run.set(op, convert(run.em, run.get(value), value.dtype, op.dtype)))
        run.evaluate(value)
    elif op.dtype.is_scalar:
        run.then(lambda _: run.set(op, run.get_index(value)))
        run.evaluate_index(value)
    elif isinstance(value, Var):  # bound to such lanes, which it has in 64 bits too
        run.then(lambda _: run.set(op, widened_var(run.em, value)))
    else:
        wide = widened(run, value)
        run.then(lambda _: run.set(op, run.get(wide)))
        run.evaluate(wide)


# -- values -----------------------------------------------------------------------------------------------------------


@control(Div, Mod, FloorDiv, FloorMod, Min, Max)
def _value(run: Run, op: BinaryOp) -> None:
    """What the last 32 bits of the operands do not decide is computed on the indices, and cut to 32 bits."""
    if not _leaves(run, op.a, op.b) or run.em.facts.of(op).flags & DATA:

        def plain(_: object) -> None:
            run.set(op, COMBINE[op.__class__](run.em, op, run.get(op.a), run.get(op.b)))

        run.then(plain)
        run.evaluate(op.b)
        run.evaluate(op.a)
    elif op.dtype.is_scalar:
        run.then(lambda _: run.set(op, run.em.b.trunc(run.get_index(op), I32)))
        run.evaluate_index(op)
    else:
        wide = widened(run, op)
        run.then(lambda _: run.set(op, run.em.b.trunc(run.get(wide), vector(I32, op.dtype.lanes))))
        run.evaluate(wide)


@call_control("tir.shift_right")
def _shift_right(run: Run, op: Call) -> None:
    if op.dtype.is_scalar and _leaves(run, op.args[0]) and run.em.facts.leaves(op):
        run.then(lambda _: run.set(op, run.em.b.trunc(run.get_index(op), I32)))
        run.evaluate_index(op)
        return

    def plain(_: object) -> None:
        run.set(op, CALLS[op.op](run.em, op, [run.get(arg) for arg in op.args]))

    run.then(plain)
    for arg in reversed(op.args):
        run.evaluate(arg)


# -- what an index may be made of besides sums, products and quotients -------------------------------------------------


@control(Select, table=INDEX_CONTROL)
def _select(run: Run, op: Select) -> None:
    _choose(run, op, op.condition, op.true_value, op.false_value)


def _choose(run: Run, op: Expr, condition: Expr, then: Expr, otherwise: Expr) -> None:
    def choose(_: object) -> None:
        arms = run.get_index(then), run.get_index(otherwise)
        run.set_index(op, select_lanes(run.em, run.get(condition), *arms))

    run.then(choose)
    run.evaluate_index(otherwise)
    run.evaluate_index(then)
    run.evaluate(condition)


@call_control(_IF.name, table=INDEX_CONTROL)
def _if_then_else(run: Run, op: Call) -> None:
    condition, then, otherwise = op.args
    em = run.em
    if not (em.facts.of(then).flags | em.facts.of(otherwise).flags) & (FAULTS | HEAVY):
        _choose(run, op, condition, then, otherwise)
        return
    arms = [_wide(arm) for arm in (then, otherwise)]
    em.facts.kept += arms
    run.then(lambda _: in_branches(run, run.get(condition), arms[0], arms[1], lambda phi: run.set_index(op, phi)))
    run.evaluate(condition)


@call_control(*[op.name for op in (*_SHIFTS, *_BITS)], table=INDEX_CONTROL)
def _bits(run: Run, op: Call) -> None:
    def combine(_: object) -> None:
        b, value, other = run.em.b, run.get_index(op.args[0]), run.get_index(op.args[1])
        if op.op in _SHIFTS and not isinstance(op.args[1], IntImm):
            # Another amount is an error of the program, and must be no undefined behaviour of LLVM.
            other = b.and_(other, b.i64(63))
        run.set_index(op, b.binary(_SHIFTS.get(op.op) or _BITS[op.op], value, other))

    run.then(combine)
    run.evaluate_index(op.args[1])
    run.evaluate_index(op.args[0])
