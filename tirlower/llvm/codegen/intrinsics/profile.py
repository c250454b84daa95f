"""The marks of a profile: calls of the functions that take the time."""

from __future__ import annotations

from tirlower.emit.emitter import Emitter
from tirlower.emit.expressions import call_rule
from tirlower.emit.llvm_text import FALSE, I32, VOID, Value, zero
from tirlower.ir.expr import Call
from tirlower.llvm.codegen.intrinsics.calls import external
from tirlower.llvm.codegen.rules import HOST_CALLS
from tirlower.llvm.codegen.symbols import PROFILE_SYMBOLS

__all__: list[str] = []

_SYMBOLS = dict(zip(("tir.start_profile_intrinsic", "tir.end_profile_intrinsic"), PROFILE_SYMBOLS, strict=True))


@call_rule("tir.start_profile_intrinsic", "tir.end_profile_intrinsic", table=HOST_CALLS)
def _mark(em: Emitter, op: Call, args: list[Value]) -> Value:
    """A call that cannot fail; in a parallel loop, where threads would wait for each other, nothing."""
    t = em.type_of(op.dtype)
    if em.parent is None:
        em.b.call_pointer(external(em, _SYMBOLS[op.op.name], VOID, [I32]), VOID, args)
    return FALSE if t is VOID else zero(t)
