"""Atomic operations with an order and a scope; each gives the old value."""

from __future__ import annotations

from typing import Any, Final

from tirlower.emit.arithmetic import binary_value
from tirlower.emit.emitter import Emitter
from tirlower.emit.memory import from_memory, to_memory
from tirlower.emit.types import memory_bytes, memory_type
from tirlower.emit.writer import Value, int_type
from tirlower.gpu.codegen.rules import gpu_rule
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Add, Max, Min, StringImm

__all__: list[str] = []

_ORDERS: Final = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
_SCOPES: Final = {"device": "device", "block": "block", "system": ""}
_COMBINE: Final = {"atomic_add": Add, "atomic_max": Max, "atomic_min": Min}
_WORDS: Final = {
    "atomic_add": "add",
    "atomic_and": "and",
    "atomic_or": "or",
    "atomic_xor": "xor",
    "atomic_exchange": "xchg",
}


def _how(em: Emitter, op: Any, first: int) -> tuple[str, str]:
    """LLVM's ordering and synchronization scope of a call whose order and scope stand from ``first`` on."""
    words = [arg.value if isinstance(arg, StringImm) else str(arg) for arg in op.args[first:]]
    order = words[0] if words else "relaxed"
    scope = words[1] if len(words) > 1 else "device"
    if order not in _ORDERS or scope not in _SCOPES:
        raise em.error(
            f"{op.op.name} with order {order!r} and scope {scope!r}",
            op,
            f"use an order of {', '.join(_ORDERS)} and a scope of {', '.join(_SCOPES)}",
        )
    return _ORDERS[order], _SCOPES[scope]


def _check(em: Emitter, op: Any, kind: DataType) -> None:
    if not op.args[0].dtype.is_handle or kind.is_vector or kind.is_handle:
        raise em.error(
            f"{op.op.name} takes an address and a scalar, got {op.args[0].dtype!s} and {kind!s}",
            op,
            "write T.atomic_add(T.address_of(A[i]), value)",
        )


@gpu_rule(*[f"tir.atomic_{name}" for name in ("add", "max", "min", "and", "or", "xor", "exchange")])
def _atomic(em: Emitter, op: Any, args: list[Value]) -> Value:
    pointer, value = args[0], args[1]
    kind, name = op.args[1].dtype, op.op.short
    _check(em, op, kind)
    order, scope = _how(em, op, 2)
    unit, size = memory_type(kind), memory_bytes(kind)
    whole = kind.is_integral and unit.is_int and unit.bits == kind.bits and kind.bits >= 32
    if whole:
        word = _WORDS.get(name) or f"{'' if kind.is_int else 'u'}{name.removeprefix('atomic_')}"
        return em.b.atomicrmw(word, pointer, value, order, align=size, syncscope=scope)
    if name == "atomic_exchange" and kind.bits >= 32:
        raw = int_type(unit.bits)
        old = em.b.atomicrmw("xchg", pointer, em.b.bitcast(value, raw), order, align=size, syncscope=scope)
        return em.b.bitcast(old, unit)
    if name == "atomic_add" and kind.is_float and kind.bits >= 32:
        return em.b.atomicrmw("fadd", pointer, value, order, align=size, syncscope=scope)
    return _exchange_loop(em, op, kind, pointer, value, order, scope)


def _exchange_loop(em: Emitter, op: Any, kind: DataType, pointer: Value, value: Value, order: str, scope: str) -> Value:
    """Compute from what is there, and try again if it has changed meanwhile."""
    b, name = em.b, op.op.short
    unit, size = memory_type(kind), memory_bytes(kind)
    raw = int_type(unit.bits)
    first = b.load(raw, pointer, size, ordering="monotonic", syncscope=scope)
    before, loop, done = b.block, em.new_block("atomic"), em.new_block("done")
    b.br(loop)
    em.enter(loop)
    seen = b.phi(raw, "seen", [(first, before)])
    old = from_memory(em, b.bitcast(seen, unit), kind)
    if name in _COMBINE:
        new = binary_value(em, _COMBINE[name], kind, old, value)
    elif name == "atomic_exchange":
        new = value
    elif kind.is_integral:
        new = b.binary(_WORDS[name], old, value)
    else:
        raise em.error(f"{op.op.name} on {kind!s}", op, "bitwise operations are of integers")
    made = b.bitcast(to_memory(em, new, kind), raw)
    failure = "acquire" if order in ("acquire", "acq_rel") else "monotonic"
    swapped = b.cmpxchg(pointer, seen, made, order, failure, align=size, syncscope=scope)
    seen.add(b.extract_value(swapped, 0), b.block)
    b.cond_br(b.extract_value(swapped, 1), done, loop)
    em.enter(done)
    return old


@gpu_rule("tir.atomic_cas")
def _compare_and_swap(em: Emitter, op: Any, args: list[Value]) -> Value:
    pointer, expected, value = args[:3]
    kind = op.args[2].dtype
    _check(em, op, kind)
    order, scope = _how(em, op, 3)
    unit, size = memory_type(kind), memory_bytes(kind)
    raw = int_type(unit.bits)
    failure = "acquire" if order in ("acquire", "acq_rel") else "monotonic"
    words = [em.b.bitcast(to_memory(em, each, kind), raw) for each in (expected, value)]
    swapped = em.b.cmpxchg(pointer, words[0], words[1], order, failure, align=size, syncscope=scope)
    return from_memory(em, em.b.bitcast(em.b.extract_value(swapped, 0), unit), kind)
