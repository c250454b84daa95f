"""The packed convention on the host: argument values and array descriptors in memory, and calls that take them.

A packed function is a C function ``int f(void *values, int *type_codes, int count, void *result, int *result_code, void
*resource)``, found like any external function; those that MakePackedAPI makes are of this form. Values take 8 bytes each; an
array is described by a ``DLTensor`` as DLPack lays it out. The result of a call stands behind its arguments.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tirlower.diagnostics import AllocationError, RuntimeAssertError
from tirlower.emit.emitter import Emitter
from tirlower.emit.expressions import call_rule
from tirlower.emit.llvm_text import I8, I16, I32, I64, PTR, Type, Value, array, null
from tirlower.emit.memory import from_memory, to_memory
from tirlower.emit.types import memory_bytes, memory_type
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Call, IntImm, StringImm
from tirlower.ir.struct_field import StructField
from tirlower.llvm.codegen.allocate import aligned_alloc, free
from tirlower.llvm.codegen.intrinsics.calls import external
from tirlower.llvm.codegen.rules import HOST_CALLS

__all__: list[str] = []

_TENSOR_BYTES: Final = 48
"""data, device type and number, rank, type (code, bits, lanes), shape, strides, byte offset."""
_WORKSPACE_ALIGNMENT: Final = 64


class _Place(NamedTuple):
    """A field of a descriptor: where it stands, and its type in memory."""

    offset: int
    type: Type


_FIELDS: Final = {
    StructField.DATA: _Place(0, PTR),
    StructField.DEVICE_TYPE: _Place(8, I32),
    StructField.DEVICE_ID: _Place(12, I32),
    StructField.NDIM: _Place(16, I32),
    StructField.TYPE_CODE: _Place(20, I8),
    StructField.TYPE_BITS: _Place(21, I8),
    StructField.TYPE_LANES: _Place(22, I16),
    StructField.SHAPE: _Place(24, PTR),
    StructField.STRIDES: _Place(32, PTR),
    StructField.BYTE_OFFSET: _Place(40, I64),
}
_ELEMENT_BYTES: Final = {"shape": 8, "arg_value": 8, "arg_tcode": 4, "tcode": 4, "array": _TENSOR_BYTES}


def _field(em: Emitter, op: Call) -> StructField:
    kind = op.args[2]
    if isinstance(kind, IntImm) and kind.value in list(StructField):
        return StructField(kind.value)
    raise em.error(f"the field of {op.op} is a constant, one of {', '.join(str(int(f)) for f in StructField)}", op)


def _element(em: Emitter, base: Value, index: Value, size: int) -> Value:
    wide = index if index.type is I64 else em.b.sext(index, I64)
    return em.b.gep(array(size, I8), base, wide)


def _integer(em: Emitter, value: Value, wanted: Type, signed: bool) -> Value:
    """An integer in another width."""
    if value.type == wanted or not value.type.is_int:
        return value
    if value.type.bits > wanted.bits:
        return em.b.trunc(value, wanted)
    return em.b.sext(value, wanted) if signed else em.b.zext(value, wanted)


@call_rule("tir.tvm_stack_alloca", table=HOST_CALLS)
def _alloca(em: Emitter, op: Call, args: list[Value]) -> Value:
    kind, count = op.args
    if not isinstance(kind, StringImm) or kind.value not in _ELEMENT_BYTES or not isinstance(count, IntImm):
        raise em.error(
            f"tvm_stack_alloca takes a kind ({', '.join(_ELEMENT_BYTES)}) and a constant count, got {kind} and {count}",
            op,
        )
    size = max(count.value, 1) * _ELEMENT_BYTES[kind.value]
    return em.b.alloca(array(size, I8), align=8, name=f"stack_{kind.value}")


@call_rule("tir.tvm_struct_get", table=HOST_CALLS)
def _get(em: Emitter, op: Call, args: list[Value]) -> Value:
    base, index, _ = args
    what, kind = _field(em, op), DataType(op.dtype)
    if what is StructField.VALUE:
        return from_memory(em, em.b.load(memory_type(kind), _element(em, base, index, 8), 8), kind)
    start = _element(em, base, index, _TENSOR_BYTES)
    if what is StructField.ADDRESS:
        return start
    place = _FIELDS[what]
    align = 8 if place.type is PTR else place.type.bits // 8
    held = em.b.load(place.type, em.b.gep(I8, start, place.offset), align)
    if kind.is_handle or place.type is PTR:
        return held
    return _integer(
        em, held, em.type_of(kind), what in (StructField.DEVICE_TYPE, StructField.DEVICE_ID, StructField.NDIM)
    )


@call_rule("tir.tvm_struct_set", table=HOST_CALLS)
def _set(em: Emitter, op: Call, args: list[Value]) -> Value:
    base, index, _, value = args
    what, kind = _field(em, op), op.args[3].dtype
    if what is StructField.VALUE:
        if memory_bytes(kind) != 8:
            raise em.error(
                f"a packed value takes 8 bytes, got {kind!s}: {op.args[3]}", op, "convert it to int64 or float64"
            )
        em.b.store(to_memory(em, value, kind), _element(em, base, index, 8), 8)
    elif what is StructField.ADDRESS:
        raise em.error("the address of a descriptor is not set", op)
    else:
        place = _FIELDS[what]
        if value.type.is_int and place.type is PTR:
            value = em.b.inttoptr(value, PTR)
        align = 8 if place.type is PTR else place.type.bits // 8
        held = _integer(em, value, place.type, kind.is_int)
        em.b.store(held, em.b.gep(I8, _element(em, base, index, _TENSOR_BYTES), place.offset), align)
    return em.b.i32(0)


@call_rule("tir.tvm_call_packed_lowered", "tir.tvm_call_cpacked_lowered", table=HOST_CALLS)
def _call(em: Emitter, op: Call, args: list[Value]) -> Value:
    """The arguments ``begin … end - 1`` of the stack; a status other than 0 is an error."""
    name, kind = op.args[0], DataType(op.dtype)
    if not isinstance(name, StringImm):
        raise em.error(f"a packed function is named by a string, got {name}", op)
    _, values, codes, begin, end = args[:5]
    function = external(em, name.value, I32, [PTR, PTR, I32, PTR, PTR, PTR])
    result, code = _element(em, values, end, 8), _element(em, codes, end, 4)
    em.b.store(em.b.i64(0), result, 8)
    count = em.b.sub(end, begin)
    first = (_element(em, values, begin, 8), _element(em, codes, begin, 4))
    status = em.b.call_pointer(function, I32, [*first, count, result, code, null()])
    text = name.value.replace("{", "{{").replace("}", "}}")
    failed = em.state.errors.code(RuntimeAssertError, f"the packed function {text!r} returned the error code {{0}}")
    em.fail_if(em.b.icmp("ne", status, em.b.i32(0)), failed, [em.b.sext(status, I64)])
    if kind.code == "void":
        return em.b.i32(0)
    if kind.is_integral:
        return _integer(em, em.b.load(I64, result, 8), em.type_of(kind), kind.is_int)
    if kind.is_handle or kind.bits == 64:
        return em.b.load(em.type_of(kind), result, 8)
    raise em.error(f"a packed function returns an integer, a float64 or a pointer, not {kind!s}", op)


@call_rule("tir.TVMBackendAllocWorkspace", table=HOST_CALLS)
def _alloc_workspace(em: Emitter, op: Call, args: list[Value]) -> Value:
    size = _integer(em, args[2], I64, False)
    pointer = aligned_alloc(em, size, _WORKSPACE_ALIGNMENT, "workspace")
    code = em.state.errors.code(AllocationError, "cannot allocate a workspace of {0} bytes")
    em.fail_if(em.b.icmp("eq", pointer, null()), code, [size])
    return pointer


@call_rule("tir.TVMBackendFreeWorkspace", table=HOST_CALLS)
def _free_workspace(em: Emitter, op: Call, args: list[Value]) -> Value:
    free(em, args[2])
    return em.b.i32(0)


@call_rule("tir.tvm_throw_last_error", table=HOST_CALLS)
def _throw_last_error(em: Emitter, op: Call, args: list[Value]) -> Value:
    code = em.state.errors.code(RuntimeAssertError, "the runtime refused what the program asked for")
    em.fail_if(em.b.icmp("eq", em.b.i32(0), em.b.i32(0)), code, [])
    return em.b.i32(0)
