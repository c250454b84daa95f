"""Choice, hints, and values without arithmetic."""

from __future__ import annotations

from tirlower.call.errors import escape_template
from tirlower.diagnostics import RuntimeAssertError
from tirlower.emit.arithmetic import select_lanes
from tirlower.emit.emitter import Emitter
from tirlower.emit.expressions import Run, call_control, call_rule, in_branches
from tirlower.emit.facts import FAULTS, HEAVY
from tirlower.emit.llvm_text import FALSE, I1, I64, PTR, TRUE, VOID, Type, Value, int_type, poison, zero
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Call, Expr, is_const_int

__all__: list[str] = []


@call_control("tir.if_then_else")
def _if_then_else(run: Run, op: Call) -> None:
    """Arms that may fault, read memory or cost much are evaluated only where they are chosen."""
    em = run.em
    cond, then, otherwise = op.args
    if is_const_int(cond):
        chosen = then if cond.value else otherwise  # type: ignore[attr-defined]
        run.then(lambda _: run.set(op, run.get(chosen)))
        run.evaluate(chosen)
        return
    flags = em.facts.of(then).flags | em.facts.of(otherwise).flags
    if cond.dtype.is_vector:
        _choose_lanes(run, op, bool(flags & FAULTS))
    elif flags & (FAULTS | HEAVY):
        run.then(lambda _: in_branches(run, run.get(cond), then, otherwise, finish=lambda phi: run.set(op, phi)))
        run.evaluate(cond)
    else:
        run.then(lambda _: run.set(op, select_lanes(em, run.get(cond), run.get(then), run.get(otherwise))))
        run.evaluate(otherwise)
        run.evaluate(then)
        run.evaluate(cond)


def _choose_lanes(run: Run, op: Call, faults: bool) -> None:
    """A choice by lanes: both arms are evaluated, their loads and divisions only in the lanes that take them."""
    em = run.em
    cond, then, otherwise = op.args
    if not faults:
        run.then(lambda _: run.set(op, select_lanes(em, run.get(cond), run.get(then), run.get(otherwise))))
        run.evaluate(otherwise)
        run.evaluate(then)
        run.evaluate(cond)
        return
    outer = em.lane_mask
    arms: list[Value] = []
    mark = 0

    def begin(taken: bool) -> None:
        nonlocal mark
        mark = run.mark()
        mask = run.get(cond) if taken else em.b.not_(run.get(cond))
        same = outer is not None and outer.type == mask.type
        em.lane_mask = em.b.and_(outer, mask) if same and outer is not None else mask

    def end(arm: Expr) -> None:
        arms.append(run.get(arm))
        run.forget(mark)  # evaluated in some lanes only
        em.lane_mask = outer

    run.then(lambda _: run.set(op, select_lanes(em, run.get(cond), arms[0], arms[1])))
    for taken, arm in ((False, otherwise), (True, then)):
        run.then(end, arm)
        run.evaluate(arm)
        run.then(begin, taken)
    run.evaluate(cond)


@call_rule("tir.likely")
def _likely(em: Emitter, op: Call, args: list[Value]) -> Value:
    (value,) = args
    return em.b.intrinsic("llvm.expect", I1, [value, TRUE], [I1]) if value.type is I1 else value


@call_rule("tir.ignore_loop_partition", "tir.tvm_thread_invariant")
def _same(em: Emitter, op: Call, args: list[Value]) -> Value:
    return args[0]


@call_rule("tir.assume")
def _assume(em: Emitter, op: Call, args: list[Value]) -> Value:
    """A fact for the optimiser; checked instead where the generator was asked to."""
    (cond,) = args
    if cond.type.is_vector:
        cond = em.b.intrinsic("llvm.vector.reduce.and", I1, [cond], [cond.type])
    if em.state.check_assumptions:
        text = escape_template(f"the assumption does not hold: {op.args[0]}")
        code = em.state.errors.code(RuntimeAssertError, text, (), op.span)
        em.fail_if(em.b.not_(cond), code)
    else:
        em.b.assume(cond)
    return TRUE


@call_rule("tir.undef")
def _undef(em: Emitter, op: Call, args: list[Value]) -> Value:
    return em.b.freeze(poison(em.type_of(op.dtype)))


def _as_bits(em: Emitter, value: Value, kind: DataType) -> Value:
    """Any value as an integer, or a vector of integers, of its bits."""
    t = value.type
    if _in_a_byte(kind):
        return em.b.trunc(value, t.with_scalar(int_type(kind.bits)))
    if t.is_int:
        return value
    if t.is_ptr:
        return em.b.ptrtoint(value, t.with_scalar(I64))
    return em.b.bitcast(value, t.with_scalar(int_type(t.scalar.bits)))


def _in_a_byte(kind: DataType) -> bool:
    """Whether values have fewer bits than the byte in which they are kept."""
    return kind.is_minifloat and kind.bits < 8


@call_rule("tir.reinterpret")
def _reinterpret(em: Emitter, op: Call, args: list[Value]) -> Value:
    (value,) = args
    source, target = op.args[0].dtype, op.dtype
    t = em.type_of(target)
    have, want = source.bits * source.lanes, target.bits * target.lanes
    if value.type == t and have == want:
        return value
    if have != want:
        raise em.error(
            f"cannot reinterpret {source!s} ({have} bits) as {target!s} ({want} bits)",
            op,
            "the two types must have as many bits; convert with T.Cast to change the width",
        )
    number = _as_bits(em, value, source)
    if t.is_ptr:
        whole: Type = t.with_scalar(I64)
        return em.b.inttoptr(em.b.bitcast(number, whole), t)
    if _in_a_byte(target):
        return em.b.zext(em.b.bitcast(number, t.with_scalar(int_type(target.bits))), t)
    return em.b.bitcast(number, t)


@call_control(
    "tir.type_annotation",
    "tir.dma_wait",
    "tir.dma_start_group",
    "tir.dma_end_group",
    "tir.tvm_global_barrier_kinit",
)
def _nothing(run: Run, op: Call) -> None:
    """Marks, and the ends of copies that are complete at once."""
    t = run.em.type_of(op.dtype)
    run.set(op, FALSE if t is VOID else zero(t))


@call_rule("tir.dma_copy")
def _dma_copy(em: Emitter, op: Call, args: list[Value]) -> Value:
    """An asynchronous copy that is complete at once."""
    _, target, source, size, _ = args
    wide = size if size.type is I64 else em.b.sext(size, I64)
    em.b.intrinsic("llvm.memcpy", VOID, [target, source, wide, FALSE], [PTR, PTR, I64])
    return em.b.i32(0)
