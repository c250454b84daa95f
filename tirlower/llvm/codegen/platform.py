"""The host as a platform: heap and stack, parallel loops on the thread pool, error records, the C library."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.emit.emitter import Emitter, ModuleState
from tirlower.emit.expressions import Run
from tirlower.emit.llvm_text import I8, I32, I64, PTR, VOID, Builder, FunctionRef, Param, Value, poison, struct
from tirlower.emit.loops import serial_range
from tirlower.emit.memory import fence_streams
from tirlower.emit.platform import EmitBody, Platform
from tirlower.emit.types import memory_type
from tirlower.ir.annotations import REDUCTION
from tirlower.ir.expr import Call, IntImm, Var
from tirlower.ir.stmt import AllocBuffer, AllocConst, For, ForKind, Seq, Stmt
from tirlower.llvm.codegen import intrinsics
from tirlower.llvm.codegen.allocate import emit_alloc, emit_alloc_const, hoist_allocations
from tirlower.llvm.codegen.cut import BODY_BUDGET, Sizes, emit_cut
from tirlower.llvm.codegen.outline import emit_parallel
from tirlower.llvm.codegen.rules import HOST_CALLS, HOST_CONTROLS
from tirlower.llvm.codegen.symbols import ERROR_BASE
from tirlower.llvm.parallel import emit_record_error

__all__ = ["HOST", "HostPlatform"]


class HostPlatform(Platform):
    """Code for the processor that this process runs on."""

    calls = HOST_CALLS
    controls = HOST_CONTROLS

    def other_call(self, run: Run, op: Call) -> None:
        """A call of a function of the module; anything else the host does not have."""
        intrinsics.calls.other_call(run, op)

    def loop(self, em: Emitter, op: For, body: EmitBody) -> bool:
        """Launch a parallel loop; a thread axis is refused."""
        super().loop(em, op, body)
        unit = isinstance(op.extent, IntImm) and op.extent.value == 1
        # A loop whose reductions were not privatized runs in order, which is right.
        if op.kind is not ForKind.PARALLEL or not em.runs_parallel or unit or op.annotations.get(REDUCTION):
            return False
        emit_parallel(em, op, lambda task, begin, end: _task(task, op, begin, end, body))
        return True

    def sequence(self, em: Emitter, op: Seq) -> bool:
        """A long sequence in several functions."""
        sizes = em.state.helper("sizes", Sizes)
        if sizes.of(op) <= BODY_BUDGET:
            return False
        emit_cut(em, op, sizes)
        return True

    def ahead_of(self, em: Emitter, loop: Stmt, *variables: Var) -> list[Var]:
        """Allocate heap buffers of the body ahead of the loop."""
        return hoist_allocations(em, loop, *variables)

    def allocate(self, em: Emitter, op: AllocBuffer) -> None:
        """Memory on the stack or the heap."""
        emit_alloc(em, op)

    def constant(self, em: Emitter, op: AllocConst) -> None:
        """A private global constant."""
        emit_alloc_const(em, op)

    def opaque(self, em: Emitter, value: Value) -> Value:
        """Through assembly without an instruction: a ``freeze`` is optimized away."""
        return em.b.call_asm("", "=r,0", value.type, [value], side_effect=False)

    def fail(self, em: Emitter, code: int, values: Sequence[Value]) -> None:
        """Fill the call's error record, and leave with 1."""
        args = [em.err, *([em.claim] if em.claim is not None else []), em.b.i32(code), *values]
        em.b.call(_recorder(em.state, len(values), em.claim is not None), args)
        em.leave(em.b.i32(1))

    def leave(self, em: Emitter, status: Value) -> None:
        """End the function with a status; a deep one gives its result beside it."""
        kind = em.kernel.ret_type
        if em.descent is None or em.parent is not None or em.ret_slot is None or kind is None:
            super().leave(em, status)
            return
        result = em.b.load(memory_type(kind), em.ret_slot, 8)
        both = poison(struct(status.type, result.type))
        em.b.ret(em.b.insert_value(em.b.insert_value(both, status, 0), result, 1))


HOST = HostPlatform()


def _task(em: Emitter, op: For, begin: Value, end: Value, body: EmitBody) -> None:
    """The iterations of a parallel loop that one task function call makes (at least one)."""
    fence_streams(em, op.body)
    hoist_allocations(em, op.body, op.loop_var)
    serial_range(em, op, begin, end, body, nonempty=True, task=True)
    if not em.b.terminated:
        em.unwind(0)


def _recorder(state: ModuleState, count: int, claimed: bool) -> FunctionRef:
    """The cold function that fills an error record with a code and ``count`` values."""
    return state.helper(("record", count, claimed), lambda: _make_recorder(state, count, claimed))


def _make_recorder(state: ModuleState, count: int, claimed: bool) -> FunctionRef:
    values = [(I64, f"v{i}") for i in range(count)]
    params: list[Param] = [(PTR, "err"), *([(PTR, "claim")] if claimed else []), (I32, "code"), *values]
    f = state.module.function(
        state.module.unique_name(f"tirlower.fail.{count}{'.shared' if claimed else ''}"),
        VOID,
        params,
        linkage="internal",
        attrs=["nounwind", "cold", "noinline"],
    )
    b = Builder(f, f.block("entry"))
    first = 2 if claimed else 1
    # Codes count on from those of the objects that this one is linked with.
    base = state.module.symbol(ERROR_BASE) or state.module.global_variable(ERROR_BASE, I8, align=1)
    state.imports[ERROR_BASE] = None
    code = b.add(f.args[first], b.trunc(b.ptrtoint(base), I32))
    emit_record_error(b, f.args[0], code, f.args[first + 1 :], claim=f.args[1] if claimed else None)
    b.ret()
    return f.ref
