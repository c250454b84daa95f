"""Calls that leave the function: external symbols, and the other functions of the module."""

from __future__ import annotations

from tirlower.call.errors import MAX_ERROR_VALUES
from tirlower.diagnostics import nearest_name
from tirlower.emit.callees import callee_of
from tirlower.emit.emitter import Emitter
from tirlower.emit.expressions import CALL_CONTROL, CALLS, Run, call_control
from tirlower.emit.llvm_text import (
    FALSE,
    I8,
    I32,
    I64,
    NO_ATTACHMENTS,
    PTR,
    VOID,
    FunctionRef,
    Type,
    Value,
    array,
    zero,
)
from tirlower.emit.memory import from_memory
from tirlower.emit.types import memory_type
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Call, StringImm
from tirlower.ir.op import GlobalVar, Op
from tirlower.llvm.codegen.rules import HOST_CALLS, HOST_CONTROLS
from tirlower.llvm.codegen.stack import call_deep
from tirlower.llvm.codegen.symbols import find_symbol

__all__: list[str] = []

_RECORD_BYTES = 8 + 8 * MAX_ERROR_VALUES


def _extension(kind: DataType) -> str:
    """How the C calling convention passes an integer narrower than a register."""
    if not kind.is_integral or kind.bits >= 32 or kind.is_vector:
        return ""
    return "signext" if kind.is_int else "zeroext"


@call_control("tir.call_extern", "tir.call_pure_extern", table=HOST_CONTROLS)
def _extern(run: Run, op: Call) -> None:
    named, *args = op.args
    em = run.em
    if not isinstance(named, StringImm):
        raise em.error(f"call_extern takes the name of the function as a string, got {named}", op)
    symbol = named.value
    result = em.type_of(op.dtype)
    pointer = external(em, symbol, result, [em.type_of(arg.dtype) for arg in args])

    def finish(_: object) -> None:
        values = [run.get(arg) for arg in args]
        attrs = {i: mark for i, arg in enumerate(args) if (mark := _extension(arg.dtype))}
        extend = _extension(op.dtype)
        made = em.b._call(
            f"{extend + ' ' if extend else ''}{result.text} {pointer.text}",
            result, values, "", "", "", ["nounwind"], attrs, None, "", NO_ATTACHMENTS,
        )  # fmt: skip
        run.set(op, FALSE if result is VOID else made)

    run.then(finish)
    for arg in reversed(args):
        run.evaluate(arg)


def external(em: Emitter, symbol: str, result: Type, params: list[Type]) -> Value:
    """An external function as a pointer, declared at its first use with these types (later uses may have others).

    Raises CodegenError when nothing of that name is registered or loaded.
    """
    known = em.module.symbol(symbol)
    if known is not None and symbol not in em.state.imports and symbol not in em.state.process_symbols:
        if isinstance(known, FunctionRef):
            return known
        raise em.error(f"the name {symbol!r} of an external function is taken by generated code")
    if known is None:
        registered = find_symbol(symbol) is not None
        (em.state.imports if registered else em.state.process_symbols)[symbol] = None
        known = em.module.declare(symbol, result, params)
    return known


def other_call(run: Run, op: Call) -> None:
    """A call of a function of the module; anything else the host does not have."""
    callee = op.op
    if isinstance(callee, GlobalVar):
        _internal(run, op, callee.name)
        return
    assert isinstance(callee, Op)
    raise run.em.error(
        f"{callee.name} has no meaning on the host",
        op,
        _remedy(callee),
    )


def _remedy(op: Op) -> str:
    short = op.short
    if short.startswith(("ptx_", "mma_", "tvm_warp", "tvm_load_matrix", "tvm_store_matrix", "tvm_mma", "tvm_fill")):
        return "it is an operation of GPU threads: build for a GPU target"
    if short in ("tvm_storage_sync", "tvm_thread_allreduce"):
        return "it synchronises GPU threads: build for a GPU target, or lower the thread loops to serial ones"
    if short.startswith(("tvm_stack", "tvm_call", "tvm_check")):
        return "run LowerTVMBuiltin, which packs the arguments of calls, or use call_extern for C functions"
    if short in ("break_loop", "continue_loop", "ret", "thread_return"):
        return "it is a statement: it stands alone in T.evaluate"
    if short == "vscale":
        return "the host has no scalable vectors: use a fixed number of lanes"
    known = [other.short for other in (*CALLS, *CALL_CONTROL, *HOST_CALLS, *HOST_CONTROLS) if isinstance(other, Op)]
    near = nearest_name(short, known)
    return f"did you mean T.{near}?" if near else "use an operation of the host, or T.call_extern"


def _internal(run: Run, op: Call, name: str) -> None:
    em = run.em
    callee_of(em, op, name)
    args, ref = op.args, em.state.callees[name]
    returns = em.state.returns.get(name)
    extra = len(ref.params) - len(args) - 1 - (returns is not None)
    if extra > 0:
        raise em.error(
            f"`{name}` finds {extra} of its symbolic sizes in its buffers, and a call passes bare pointers",
            op,
            f"make the sizes scalar parameters of `{name}`",
        )

    def finish(_: object) -> None:
        run.set(op, _emit_call(em, ref, [run.get(arg) for arg in args], returns))

    run.then(finish)
    for arg in reversed(args):
        run.evaluate(arg)


def _emit_call(em: Emitter, ref: FunctionRef, values: list[Value], returns: DataType | None) -> Value:
    b = em.b
    record = em.err
    if em.claim is not None:
        # In a parallel loop the record belongs to the first failure: the callee gets one of its own.
        record = em.state_slot("record", array(_RECORD_BYTES, I8), 8)
    slot = result = None
    deep = call_deep(em, ref, values)
    if deep is not None:
        status, result = deep
    else:
        values = [*values, record]
        if returns is not None:
            slot = b.alloca(I64, align=8, name="result")
            values.append(slot)
        status = b.call(ref, values)
    failed, good = em.new_block("failed"), em.new_block("returned")
    b.cond_br(b.icmp("ne", status, zero(I32)), failed, good, likely=False)
    em.enter(failed)
    if em.claim is not None:
        swapped = b.cmpxchg(em.claim, b.i32(0), b.i32(1), "monotonic", "monotonic")
        with b.if_then(b.extract_value(swapped, 1), name="claimed"):
            b.intrinsic("llvm.memcpy", VOID, [em.err, record, b.i64(_RECORD_BYTES), FALSE], [PTR, PTR, I64])
    em.leave(status)
    em.enter(good)
    if returns is None:
        return FALSE
    if slot is not None:
        result = b.load(memory_type(returns), slot, 8)
    assert result is not None  # a deep function gives it
    return from_memory(em, result, returns)
