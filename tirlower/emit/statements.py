"""Statements other than loops.

A failed ``T.Assert`` records its place and the values of the scalar variables in its condition, and raises
RuntimeAssertError in the caller. Passes may say more: a message ``tvm_tuple(kind, template, values...)`` raises the
class that ``kind`` names (see :data:`~tirlower.call.errors.ERROR_KINDS`) with the template formatted by the values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

from tirlower.analysis.streamed import is_sequential, streamed
from tirlower.call.errors import ERROR_KINDS, MAX_ERROR_VALUES, escape_template
from tirlower.diagnostics import LoweringError, RuntimeAssertError
from tirlower.emit.branches import keeps_a_record, steers
from tirlower.emit.compile import SIMPLIFY_AGAIN
from tirlower.emit.emitter import Emitter
from tirlower.emit.expressions import index_of, pointer_alias, values_of
from tirlower.emit.facts import DATA
from tirlower.emit.held import note_store, store_of_either
from tirlower.emit.llvm_text import I64
from tirlower.emit.loops import emit_for, emit_while, jump_out
from tirlower.emit.masked import is_masked
from tirlower.emit.memory import emit_store, has_stream_stores, to_memory
from tirlower.emit.types import memory_type
from tirlower.ir import build
from tirlower.ir.annotations import NONTEMPORAL
from tirlower.ir.dtype import INT64
from tirlower.ir.expr import Call, Expr, IntImm, StringImm, Var, is_const_int
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.op import Op
from tirlower.ir.query import nodes
from tirlower.ir.splice import loop_inside
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    Assert,
    AttrStmt,
    Bind,
    Block,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    Seq,
    Stmt,
    While,
)

__all__ = ["emit_scope", "emit_statement"]

_TUPLE: Final = Op.get("tir.tvm_tuple")
_RET: Final = Op.get("tir.ret")
_JUMPS: Final = {Op.get("tir.break_loop"): "break", Op.get("tir.continue_loop"): "continue"}

MAX_WEIGHT: Final = 256
"""The operations through which LLVM may follow an integer in a loop back to the loop's variable: its loop strength reduction
takes 0.15 s for 500 of them, 2.7 for four times as many."""


def emit_statement(em: Emitter, stmt: Stmt) -> None:
    """Emit a statement at the emitter's position. The position may end terminated, where nothing follows."""
    handler = _STATEMENTS.get(stmt.__class__)
    if handler is None:
        raise LoweringError(
            f"{type(stmt).__name__} is no statement that code can be generated for",
            origin="codegen",
            span=stmt.span,
            notes=[f"in function `{em.kernel.name}`"],
        )
    outer = em.statement
    em.statement = stmt
    handler(em, stmt)
    em.statement = outer


def _seq(em: Emitter, op: Seq) -> None:
    depth = len(em.cleanups)
    if not em.state.platform.sequence(em, op):
        for stmt in op.stmts:
            emit_statement(em, stmt)
            if em.b.terminated:
                break
    # Whatever jumped away has cleaned up; nothing behind it can be reached.
    if not em.b.terminated:
        em.unwind(depth)
    del em.cleanups[depth:]


def _store(em: Emitter, op: BufferStore) -> None:
    emit_store(em, op)
    note_store(em, op)


def _evaluate(em: Emitter, op: Evaluate) -> None:
    value = op.value
    if value.__class__ is not Call:
        if not isinstance(value, (IntImm, StringImm)):
            em.value(value)
        return
    callee = value.op
    args = value.args
    if callee is _RET or callee is _THREAD_RETURN:
        _return(em, value, args)
    elif isinstance(callee, Op) and callee in _JUMPS:
        jump_out(em, _JUMPS[callee], value)
    else:
        em.value(value)


_THREAD_RETURN: Final = Op.get("tir.thread_return")


def _return(em: Emitter, op: Call, args: tuple[Expr, ...]) -> None:
    if em.parent is not None:
        raise em.error(
            "a return from inside a parallel loop",
            op,
            "store the result, and return behind the loop",
        )
    kind = em.kernel.ret_type
    if args and em.ret_slot is not None and kind is not None:
        (value,) = args
        if value.dtype is not kind:
            raise em.error(f"`{em.kernel.name}` returns {kind!s} elsewhere, and {value.dtype!s} here", op)
        em.b.store(to_memory(em, em.value(value), kind), em.ret_slot, min(8, max(1, memory_type(kind).bits // 8 or 8)))
    em.leave(em.b.i32(0))


def _bind(em: Emitter, op: Bind) -> None:
    if op.var in em.vars:
        em.stored = {}  # what was stored before was indexed with another value of the name
    em.facts.define_as(op.var, op.value)
    value = em.value(op.value)
    wide = None
    dtype = op.var.dtype
    if dtype.is_int and dtype.is_scalar:
        if is_masked(op.value, em.masked):
            em.masked.add(op.var)
        if dtype.bits == 64:
            wide = value
        elif dtype.bits == 32 and not em.facts.of(op.value).flags & DATA:
            # Indices built on the variable are computed in 64 bits: LLVM drops the one of the two that is not used.
            wide = index_of(em, op.value)
    elif dtype.is_int and em.facts.leaves(op.value):
        lanes = build.cast(INT64.with_lanes(dtype.lanes), op.value)
        em.facts.kept.append(lanes)
        wide = em.value(lanes)
    if em.loops and dtype.is_integral and dtype.is_scalar and _is_far(em, op):
        value = em.state.platform.opaque(em, value)
        wide = None if wide is None else em.state.platform.opaque(em, wide)
    em.define(op.var, value, wide)
    pointer_alias(em, op.var, op.value)


def _is_far(em: Emitter, op: Bind) -> bool:
    """Whether an integer in a loop is computed by many operations from the loop's variable, or from the last that was."""
    weight = sum(em.weights.get(each, 1) if isinstance(each, Var) else 1 for each in nodes(op.value))
    em.weights[op.var] = 1 if weight > MAX_WEIGHT else weight
    return weight > MAX_WEIGHT


def _if(em: Emitter, op: IfThenElse) -> None:
    if is_const_int(op.condition):
        chosen = op.then_case if op.condition.value else op.else_case  # type: ignore[attr-defined]
        if chosen is not None:
            emit_scope(em, chosen)
        return
    either = store_of_either(em, op)
    if either is not None:
        emit_store(em, either)
        return
    guessed = bool(em.loops) and em.machine.guesses_branches
    em.choosing = guessed and not any(map(_leaves, (op.then_case, op.else_case)))
    cond = em.value(op.condition)
    em.choosing = False
    then, after = em.new_block("then"), em.new_block("endif")
    otherwise = em.new_block("else") if op.else_case is not None else after
    likely = False if guessed and keeps_a_record(op) else None
    em.b.cond_br(cond, then, otherwise, likely=likely, unpredictable=guessed and steers(op, em.loops[-1].decide))
    em.enter(then)
    emit_scope(em, op.then_case)
    reached = op.else_case is None
    if not em.b.terminated:
        em.b.br(after)
        reached = True
    if op.else_case is not None:
        em.enter(otherwise)
        emit_scope(em, op.else_case)
        if not em.b.terminated:
            em.b.br(after)
            reached = True
    if reached:
        em.enter(after)


def _leaves(arm: Stmt | None) -> bool:
    """Whether an arm of a condition ends with a jump."""
    last = arm.stmts[-1] if isinstance(arm, Seq) else arm
    return isinstance(last, Evaluate) and isinstance(last.value, Call) and last.value.op in _JUMPS


def emit_scope(em: Emitter, stmt: Stmt) -> None:
    """A statement that is the whole of its scope (a lone declaration ends with it)."""
    if stmt.__class__ is BufferStore:
        stmt = Seq((stmt,))  # which may be cut
    depth, stored, before = len(em.cleanups), em.stored, len(em.stored)
    emit_statement(em, stmt)
    if not em.b.terminated:
        em.unwind(depth)
    del em.cleanups[depth:]
    if em.stored is not stored:
        em.stored = {}
    while len(em.stored) > before:
        em.stored.popitem()


def _assert(em: Emitter, op: Assert) -> None:
    if is_const_int(op.condition, 1):
        return
    kind, template, shown = _message(em, op)
    if em.loops and em.loops[-1].is_while:
        em.function.mark(SIMPLIFY_AGAIN)
    cond = em.value(op.condition)
    failed, good = em.new_block("fail"), em.new_block("holds")
    em.b.cond_br(cond, good, failed, likely=True)
    em.enter(failed)
    shown = [build.cast(INT64, expr) if em.facts.leaves(expr) else expr for expr in shown]
    em.facts.kept += shown
    values, types = [], []
    for expr, value in zip(shown, values_of(em, shown), strict=True):
        bits, how = em.recorded(value, expr.dtype)
        assert bits.type is I64
        values.append(bits)
        types.append(how)
    em.fail(em.state.errors.code(kind, template, tuple(types), op.span), values)
    em.enter(good)


def _message(em: Emitter, op: Assert) -> tuple[type[Exception], str, list[Expr]]:
    """The exception class, the template, and the expressions whose values it formats."""
    message = op.message
    if isinstance(message, Call) and message.op is _TUPLE and len(message.args) >= 2:
        name, template, *values = message.args
        if isinstance(name, StringImm) and isinstance(template, StringImm) and name.value in ERROR_KINDS:
            return ERROR_KINDS[name.value], template.value, list(values[:MAX_ERROR_VALUES])
        raise em.error(
            f"the message of an assertion names the error {name}", op, f"use one of {', '.join(ERROR_KINDS)}"
        )
    text = message.value if isinstance(message, StringImm) else str(message)
    variables: dict[Var, None] = {}

    def look(node: Expr) -> None:
        if node.__class__ is Var and node.dtype.is_scalar and not node.dtype.is_handle and not node.dtype.is_bool:
            if node.dtype.is_integral or node.dtype.code == "float":
                variables[node] = None

    pre_order_visit(op.condition, look)
    chosen = [var for var in variables if var in em.vars or em.parent is not None][:4]
    shown = escape_template(text)
    if chosen:
        pairs = [f"{escape_template(var.name)} = {{{i}}}" for i, var in enumerate(chosen)]
        shown += f" ({', '.join(pairs)})"
    return RuntimeAssertError, shown, list(chosen)


def _attr(em: Emitter, op: AttrStmt) -> None:
    outer, sequential = em.streams, em.sequential
    loop = loop_inside(op) if op.key.startswith("pragma_") else None
    if loop is not None:
        notes = em.pragmas.setdefault(loop.loop_var, {})
        notes[op.key] = getattr(op.value, "value", op.value)
    if op.key == NONTEMPORAL and has_stream_stores(em):
        em.streams = outer | streamed(op.body, [buffer.data for buffer in em.kernel.func.buffers])
        em.sequential = frozenset(data for data in em.streams if is_sequential(op.body, data))
    emit_scope(em, op.body)
    em.streams, em.sequential = outer, sequential


def _block(em: Emitter, op: Block) -> None:
    raise LoweringError(
        f"the block {op.name!r} of `{em.kernel.name}` was not lowered",
        origin="codegen",
        span=op.span,
        help="run ConvertBlocksToOpaque and LowerOpaqueBlock before code generation, or use tirlower.build",
    )


#: node class -> function (emitter, node); each is called with nodes of its class
_STATEMENTS: Final = cast(
    "dict[type, Callable[[Emitter, Stmt], None]]",
    {
        Seq: _seq,
        For: lambda em, op: emit_for(em, op, emit_scope),
        While: lambda em, op: emit_while(em, op, emit_scope),
        IfThenElse: _if,
        BufferStore: _store,
        Bind: _bind,
        AllocBuffer: lambda em, op: em.state.platform.allocate(em, op),
        AllocConst: lambda em, op: em.state.platform.constant(em, op),
        DeclBuffer: lambda em, op: em.lookup(op.buffer.data, op.span),
        Evaluate: _evaluate,
        Assert: _assert,
        AttrStmt: _attr,
        Block: _block,
    },
)
