"""Atomic operations on memory that other threads may reach; each gives the old value.

An order ("relaxed" by default) and a scope may follow the operands. On the host every scope is the whole process.
"""

from __future__ import annotations

from typing import Final

from tirlower.emit.arithmetic import binary_value
from tirlower.emit.emitter import Emitter
from tirlower.emit.expressions import call_rule
from tirlower.emit.llvm_text import Value, int_type
from tirlower.emit.memory import from_memory, to_memory
from tirlower.emit.types import memory_bytes, memory_type
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Add, BufferLoad, Call, Expr, Max, Min, StringImm
from tirlower.ir.op import Op

__all__ = ["SCOPES", "WORDS", "check_atomic", "compare_and_swap", "exchange_loop", "failure_order", "ordering_of"]

_ADDRESS: Final = Op.get("tir.address_of")
_ACCESS: Final = Op.get("tir.tvm_access_ptr")
ORDERS: Final = {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
SCOPES: Final = ("device", "block", "system")
WORDS: Final = {
    "atomic_add": "add", "atomic_and": "and", "atomic_or": "or", "atomic_xor": "xor", "atomic_exchange": "xchg",
}  # fmt: skip
_COMBINE: Final = {"atomic_add": Add, "atomic_max": Max, "atomic_min": Min}


def ordering_of(em: Emitter, op: Call, first: int) -> tuple[str, str]:
    """LLVM's ordering, and the scope's name, of a call whose order and scope stand from argument ``first`` on.

    Raises a CodegenError for an unknown one.
    """
    words = [arg.value if isinstance(arg, StringImm) else str(arg) for arg in op.args[first:]]
    order = words[0] if words else "relaxed"
    scope = words[1] if len(words) > 1 else "device"
    if order not in ORDERS or scope not in SCOPES:
        raise em.error(
            f"{op.op.name} with order {order!r} and scope {scope!r}",
            op,
            f"use an order of {', '.join(ORDERS)} and a scope of {', '.join(SCOPES)}",
        )
    return ORDERS[order], scope


def check_atomic(em: Emitter, op: Call, kind: DataType) -> None:
    """Raise a CodegenError unless a call has an address and a scalar of the type that is stored there."""
    if not op.args[0].dtype.is_handle or kind.is_vector or kind.is_handle:
        raise em.error(
            f"{op.op.name} takes an address and a scalar, got {op.args[0].dtype!s} and {kind!s}",
            op,
            "write T.atomic_add(T.address_of(A[i]), value)",
        )
    stored = _stored(op.args[0])
    as_bytes = kind.is_bool and stored is not None and stored.is_integral and stored.bits == 8  # FlattenBuffer's bools
    if stored is not None and stored != kind and not as_bytes:
        raise em.error(
            f"{op.op.name} of a value of {kind!s} on an element of {stored!s}",
            op,
            f"cast the value: T.cast(value, {str(stored)!r})",
        )


def _stored(address: Expr) -> DataType | None:
    """The type of the element that an address is one of, where it says so."""
    if isinstance(address, Call) and address.op is _ADDRESS and isinstance(address.args[0], BufferLoad):
        return address.args[0].buffer.dtype
    if isinstance(address, Call) and address.op is _ACCESS:
        return address.args[0].dtype
    return None


def failure_order(order: str) -> str:
    """The ordering of a compare-and-swap that fails: it has stored nothing to be released."""
    return "acquire" if order in ("acquire", "acq_rel") else "monotonic"


@call_rule(*[f"tir.atomic_{name}" for name in ("add", "max", "min", "and", "or", "xor", "exchange")])
def _atomic(em: Emitter, op: Call, args: list[Value]) -> Value:
    pointer, value = args[0], args[1]
    kind, name = op.args[1].dtype, op.op.name.removeprefix("tir.")
    check_atomic(em, op, kind)
    order, _ = ordering_of(em, op, 2)
    unit, size = memory_type(kind), memory_bytes(kind)
    if unit.is_int and unit.bits == kind.bits and kind.is_integral:
        word = WORDS.get(name) or f"{'' if kind.is_int else 'u'}{name.removeprefix('atomic_')}"
        return em.b.atomicrmw(word, pointer, value, order, align=size)
    if kind.bits >= 32 and name == "atomic_add":
        return em.b.atomicrmw("fadd", pointer, value, order, align=size)
    return exchange_loop(em, op, pointer, value, order)


def exchange_loop(em: Emitter, op: Call, pointer: Value, value: Value, order: str, syncscope: str = "") -> Value:
    """An atomic operation as a loop: compute from what is there, and try again if it has changed meanwhile."""
    b, name, kind = em.b, op.op.name.removeprefix("tir."), op.args[1].dtype
    unit, size = memory_type(kind), memory_bytes(kind)
    raw = int_type(unit.bits)
    first = b.load(raw, pointer, size, ordering="monotonic", syncscope=syncscope)
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
        new = b.binary(WORDS[name], old, value)
    else:
        raise em.error(f"{op.op.name} on {kind!s}", op, "bitwise operations are of integers")
    made = b.bitcast(to_memory(em, new, kind), raw)
    swapped = b.cmpxchg(pointer, seen, made, order, failure_order(order), align=size, syncscope=syncscope)
    seen.add(b.extract_value(swapped, 0), b.block)
    b.cond_br(b.extract_value(swapped, 1), done, loop)
    em.enter(done)
    return old


@call_rule("tir.atomic_cas")
def _compare_and_swap(em: Emitter, op: Call, args: list[Value]) -> Value:
    check_atomic(em, op, op.args[2].dtype)
    order, _ = ordering_of(em, op, 3)
    return compare_and_swap(em, op, args, order)


def compare_and_swap(em: Emitter, op: Call, args: list[Value], order: str, syncscope: str = "") -> Value:
    """Store the value where the expected one is found; the old value."""
    b, kind = em.b, op.args[2].dtype
    unit, size = memory_type(kind), memory_bytes(kind)
    raw = int_type(unit.bits)
    expected, value = (b.bitcast(to_memory(em, each, kind), raw) for each in args[1:3])
    swapped = b.cmpxchg(args[0], expected, value, order, failure_order(order), align=size, syncscope=syncscope)
    return from_memory(em, b.bitcast(b.extract_value(swapped, 0), unit), kind)
