"""Atomic operations with an order and a scope; each gives the old value."""

from __future__ import annotations

from typing import Final

from tirlower.emit.emitter import Emitter
from tirlower.emit.intrinsics.atomics import WORDS, check_atomic, compare_and_swap, exchange_loop, ordering_of
from tirlower.emit.llvm_text import Value, int_type
from tirlower.emit.types import memory_bytes, memory_type
from tirlower.gpu.codegen.rules import asm, gpu_rule
from tirlower.ir.expr import Call

__all__: list[str] = []

# LLVM gives an order and a scope to compare-and-swap and to loads, and drops them from every other atomic operation:
# those that are not relaxed among the device's threads are written as PTX.
_SYNC_SCOPES: Final = {"device": "device", "block": "block", "system": ""}
_PTX_ORDERS: Final = {"monotonic": "relaxed"}
_PTX_SCOPES: Final = {"device": "gpu", "block": "cta", "": "sys"}


@gpu_rule(*[f"tir.atomic_{name}" for name in ("add", "max", "min", "and", "or", "xor", "exchange")])
def _atomic(em: Emitter, op: Call, args: list[Value]) -> Value:
    pointer, value = args[0], args[1]
    kind, name = op.args[1].dtype, op.op.name.removeprefix("tir.")
    check_atomic(em, op, kind)
    order, name_of_scope = ordering_of(em, op, 2)
    scope = _SYNC_SCOPES[name_of_scope]
    unit, size = memory_type(kind), memory_bytes(kind)
    whole = kind.is_integral and unit.is_int and unit.bits == kind.bits and kind.bits >= 32
    if whole:
        word = WORDS.get(name) or f"{'' if kind.is_int else 'u'}{name.removeprefix('atomic_')}"
        return _operate(em, word, pointer, value, order, scope, size)
    if name == "atomic_exchange" and kind.bits >= 32:
        raw = int_type(unit.bits)
        return em.b.bitcast(_operate(em, "xchg", pointer, em.b.bitcast(value, raw), order, scope, size), unit)
    if name == "atomic_add" and kind.is_float and kind.bits >= 32:
        return _operate(em, "fadd", pointer, value, order, scope, size)
    if name == "atomic_add" and kind.is_float and kind.bits == 16 and not kind.is_bfloat16 and order == "monotonic":
        return em.b.atomicrmw("fadd", pointer, value, order, align=size, syncscope=scope)
    return exchange_loop(em, op, pointer, value, order, scope)


def _operate(em: Emitter, word: str, pointer: Value, value: Value, order: str, scope: str, size: int) -> Value:
    """One atomic instruction; ``word`` is LLVM's name of the operation."""
    if order == "monotonic" and scope != "":
        # Relaxed and among all threads of the device, which orders those of a block too.
        return em.b.atomicrmw(word, pointer, value, order, align=size, syncscope=scope)
    bits = value.type.bits
    suffix = {
        "add": f"u{bits}", "fadd": f"f{bits}", "xchg": f"b{bits}", "and": f"b{bits}", "or": f"b{bits}", "xor": f"b{bits}",
        "max": f"s{bits}", "min": f"s{bits}", "umax": f"u{bits}", "umin": f"u{bits}",
    }[word]  # fmt: skip
    short = {"fadd": "add", "xchg": "exch", "umax": "max", "umin": "min"}.get(word, word)
    letter = {"f32": "f", "f64": "d"}.get(suffix) or ("r" if bits == 32 else "l")
    text = f"atom.{_PTX_ORDERS.get(order, order)}.{_PTX_SCOPES[scope]}.{short}.{suffix} $0, [$1], $2;"
    operands = [em.b.ptrtoint(pointer), value]
    return asm(em, text, f"={letter},l,{letter}", [value.type], operands, convergent=False)[0]


@gpu_rule("tir.atomic_cas")
def _compare_and_swap(em: Emitter, op: Call, args: list[Value]) -> Value:
    check_atomic(em, op, op.args[2].dtype)
    order, scope = ordering_of(em, op, 3)
    return compare_and_swap(em, op, args, order, _SYNC_SCOPES[scope])
