"""Atomic read-modify-write of memory that other threads may reach; each gives the old value."""

from __future__ import annotations

from typing import Any

from tirlower.emit.arithmetic import binary_value
from tirlower.emit.emitter import Emitter
from tirlower.emit.engine import call_rule
from tirlower.emit.memory import from_memory, to_memory
from tirlower.emit.types import memory_bytes, memory_type
from tirlower.emit.writer import Value, int_type
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Add, Max, Min

__all__: list[str] = []

_KINDS = {"atomic_add": Add, "atomic_max": Max, "atomic_min": Min}


@call_rule("tir.atomic_add", "tir.atomic_max", "tir.atomic_min")
def _atomic(em: Emitter, op: Any, args: list[Value]) -> Value:
    pointer, value = args
    kind = op.args[1].dtype
    if not op.args[0].dtype.is_handle or kind.is_vector or kind.is_handle:
        raise em.error(
            f"{op.op.name} takes an address and a scalar, got {op.args[0].dtype!s} and {kind!s}",
            op,
            "write T.atomic_add(T.address_of(A[i]), value)",
        )
    unit, size = memory_type(kind), memory_bytes(kind)
    combine = _KINDS[op.op.short]
    if unit.is_int and unit.bits == kind.bits and kind.is_integral:
        signed = "" if kind.is_int else "u"
        word = {"atomic_add": "add", "atomic_max": f"{signed}max", "atomic_min": f"{signed}min"}[op.op.short]
        return em.b.atomicrmw(word, pointer, value, "monotonic", align=size)
    if kind.bits >= 32 and combine is Add:
        return em.b.atomicrmw("fadd", pointer, value, "monotonic", align=size)
    return _exchange_loop(em, combine, kind, pointer, value)


def _exchange_loop(em: Emitter, combine: type, kind: DataType, pointer: Value, value: Value) -> Value:
    """Compute from what is there, and try again if it has changed meanwhile."""
    b = em.b
    unit, size = memory_type(kind), memory_bytes(kind)
    raw = int_type(unit.bits)
    first = b.load(raw, pointer, size, ordering="monotonic")
    before, loop, done = b.block, em.new_block("atomic"), em.new_block("done")
    b.br(loop)
    em.enter(loop)
    seen = b.phi(raw, "seen", [(first, before)])
    old = from_memory(em, b.bitcast(seen, unit), kind)
    made = b.bitcast(to_memory(em, binary_value(em, combine, kind, old, value), kind), raw)
    swapped = b.cmpxchg(pointer, seen, made, "monotonic", "monotonic", align=size)
    seen.add(b.extract_value(swapped, 0), b.block)
    b.cond_br(b.extract_value(swapped, 1), done, loop)
    em.enter(done)
    return old
