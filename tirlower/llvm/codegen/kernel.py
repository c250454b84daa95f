"""A prim func as an LLVM function: its signature, its prologue, and its body."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tirlower.diagnostics import LoweringError, deep_recursion
from tirlower.emit.body import Body, give_alias_scopes, param_align
from tirlower.emit.emitter import Emitter, Kernel, ModuleState, Root
from tirlower.emit.statements import emit_statement
from tirlower.emit.types import memory_bytes, memory_type, register_type
from tirlower.emit.writer import I32, PTR, Function, Type, zero
from tirlower.ir.buffer import ALLOC_ALIGNMENT, Buffer
from tirlower.ir.custom_datatype import storage_dtype
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import IntImm, PointerType, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.llvm.codegen.extents import extent_of
from tirlower.llvm.entry import BufferParam, Param, ScalarParam, Signature

__all__ = ["Prototype", "declare_kernel", "emit_kernel", "prototype_of", "signature_of"]


@dataclass
class Prototype:
    """A prim func's outside: the entry's signature, and the variable behind each LLVM parameter."""

    name: str
    func: PrimFunc
    signature: Signature
    symbols: tuple[Var, ...]
    body: Body

    @property
    def returns(self) -> DataType | None:
        """The type of its return value, if it has one."""
        return None if self.signature.returns is None else DataType(self.signature.returns)

    def parameters(self) -> list[tuple[Type, Var | None]]:
        """The LLVM parameters with their variables (none for the error record and the slot of the result)."""
        out: list[tuple[Type, Var | None]] = []
        for param in self.func.params:
            out.append((PTR if param in self.func.buffer_map else register_type(param.dtype), param))
        out += [(register_type(var.dtype), var) for var in self.symbols]
        out.append((PTR, None))
        if self.signature.returns is not None:
            out.append((PTR, None))
        return out


def prototype_of(name: str, func: PrimFunc, outputs: tuple[str, ...] = ()) -> Prototype:
    """The outside of a prim func.

    Raises:
        LoweringError: a parameter cannot be passed by the entry.
    """
    body = Body(func)
    returns = _return_type(func, body)
    signature, symbols = _signature(name, func, body.written, outputs, returns)
    return Prototype(name, func, signature, symbols, body)


def signature_of(func: PrimFunc, *, written: frozenset[str] | None = None, outputs: tuple[str, ...] = ()) -> Signature:
    """The entry's signature of a prim func.

    ``written`` names the buffer parameters that the kernel writes; without it the body is searched for stores. The body
    is searched for the type of its return value in any case where the function does not state one.

    Raises:
        LoweringError: a parameter cannot be passed by the entry.
    """
    body = Body(func)
    data = body.written
    if written is not None:
        param_names, _ = _names(func)
        data = {buffer.data for param, buffer in func.buffer_map.items() if param_names[param] in written}
    return _signature(func.name, func, data, outputs, _return_type(func, body))[0]


def _signature(
    name: str, func: PrimFunc, written: set[Var], outputs: tuple[str, ...], returns: DataType | None
) -> tuple[Signature, tuple[Var, ...]]:
    noalias = bool(func.attrs.get("tir.noalias"))
    param_names, names = _names(func)
    params: list[Param] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            if param.dtype.is_vector or param.dtype.code == "void":
                raise LoweringError(
                    f"the parameter `{param.name}` of `{name}` is {param.dtype!s}, which no call can pass",
                    origin="codegen",
                    span=param.span,
                    help="pass an array, and load the vector from it",
                )
            params.append(ScalarParam(param_names[param], str(param.dtype)))
        else:
            params.append(_buffer_param(name, buffer, param_names[param], names, buffer.data in written, noalias))
    chosen = outputs or tuple(str(o) for o in func.attrs.get("tir.outputs", ()))
    signature = Signature(name, tuple(params), chosen, None if returns is None else str(returns))
    by_name = {text: var for var, text in names.items()}
    return signature, tuple(by_name[symbol.name] for symbol in signature.symbols)


def _return_type(func: PrimFunc, body: Body) -> DataType | None:
    stated = func.ret_type
    if isinstance(stated, PointerType):
        return DataType("handle")
    return body.returned if stated.code == "void" else stated


def _names(func: PrimFunc) -> tuple[dict[Var, str], dict[Var, str]]:
    """Names for parameters and for symbols (scalar parameters among them), each once."""
    taken: set[str] = set()

    def fresh(hint: str) -> str:
        name, n = hint, 0
        while name in taken:
            n += 1
            name = f"{hint}_{n}"
        taken.add(name)
        return name

    param_names: dict[Var, str] = {}
    names: dict[Var, str] = {}
    for param in func.params:
        buffer = func.buffer_map.get(param)
        param_names[param] = fresh(param.name if buffer is None else buffer.name)
        if buffer is None:
            names[param] = param_names[param]
    for buffer in func.buffers:
        for extent in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if isinstance(extent, Var) and extent not in names:
                names[extent] = fresh(extent.name)
    return param_names, names


def _buffer_param(
    func: str, buffer: Buffer, name: str, names: dict[Var, str], written: bool, noalias: bool
) -> BufferParam:
    def extents(exprs: tuple[Any, ...], what: str) -> tuple[Any, ...]:
        return tuple(extent_of(e, names, f"the {what} of buffer `{name}` of `{func}`") for e in exprs)

    shape = extents(buffer.shape, "shape")
    strides = extents(buffer.strides, "strides") if buffer.strides else None
    kind = storage_dtype(buffer.dtype)
    if kind.is_handle or kind.code == "void":
        raise LoweringError(
            f"buffer `{name}` of `{func}` has elements of {kind!s}, which no array has",
            origin="codegen",
            help="declare it with a numeric type",
        )
    element = DataType.from_numpy(kind.numpy)
    offset = extents((buffer.elem_offset,), "offset")[0]
    if kind.is_vector:
        # An array of vectors is an array of their elements, with a dimension more.
        shape = (*shape, kind.lanes)
        if strides is not None or offset != 0:
            raise LoweringError(
                f"buffer `{name}` of `{func}` has strides or an offset, and elements of {kind!s}",
                origin="codegen",
                help="declare it with scalar elements and one dimension more",
            )
    # 64 bytes is what every buffer promises by default, also one that nobody asked: it is asked of allocations alone.
    align = buffer.align if buffer.align != ALLOC_ALIGNMENT else 0
    broadcast = buffer.buffer_type == "auto_broadcast" and strides is not None
    return BufferParam(name, str(element), shape, strides, offset, align, written, noalias, broadcast)


def declare_kernel(state: ModuleState, prototype: Prototype, symbol: str, internal: bool) -> Function:
    """The LLVM function of a prim func, without its body."""
    func, body = prototype.func, prototype.body
    noalias = bool(func.attrs.get("tir.noalias"))
    params: list[Any] = []
    parameters = prototype.parameters()
    for position, (kind, var) in enumerate(parameters):
        if var is None:
            last = prototype.signature.returns is not None and position == len(parameters) - 1
            params.append((PTR, "ret" if last else "err", ["noalias", "nonnull"]))
            continue
        buffer = func.buffer_map.get(var)
        if buffer is None:
            params.append((kind, var.name))
            continue
        marks = ["noalias"] if noalias else []
        if buffer.data not in body.written:
            marks.append("readonly")
        if not is_const_int(buffer.elem_offset, 0):
            marks = []  # it may point outside of its memory
        else:
            marks.append(f"align {param_align(buffer)}")
            size = _constant_bytes(buffer)
            if size:
                marks.append(f"dereferenceable({size})")
        params.append((PTR, buffer.name, marks))
    return state.module.function(
        symbol, I32, params, attrs=state.attrs, linkage="internal" if internal else "", unnamed_addr=internal
    )


def _constant_bytes(buffer: Buffer) -> int:
    if buffer.strides or not all(isinstance(extent, IntImm) for extent in buffer.shape):
        return 0
    total = memory_bytes(buffer.dtype) * buffer.dtype.lanes
    for extent in buffer.shape:
        total *= extent.value if isinstance(extent, IntImm) else 1
    return total


def emit_kernel(state: ModuleState, prototype: Prototype, function: Function) -> None:
    """Emit the body of a declared kernel."""
    func = prototype.func
    kernel = Kernel(prototype.name, func)
    kernel.ret_type = prototype.returns
    kernel.allocates = any(prototype.body.allocated.values())
    em = Emitter(state, kernel, function)
    em.b.position_at_end(function.block("entry"))
    facts = kernel.facts
    sizes = {extent for buffer in func.buffers for extent in (*buffer.shape,) if isinstance(extent, Var)}
    for argument, (_, var) in zip(function.args, prototype.parameters(), strict=True):
        if var is None:
            continue
        em.define(var, argument)
        if var.dtype.is_integral:
            # The entry checked that a size is one.
            facts.define(var, 0 if var in sizes else None, None)
    for param, buffer in func.buffer_map.items():
        em.define(buffer.data, em.vars[param].value)
        kernel.roots[buffer.data] = Root(
            buffer.name, align=param_align(buffer), offset=not is_const_int(buffer.elem_offset, 0)
        )
        if param is not buffer.data:
            kernel.roots[param] = kernel.roots[buffer.data]
    give_alias_scopes(state, kernel, func, prototype.body.allocated)
    extras = function.args[len(func.params) + len(prototype.symbols) :]
    em.err = extras[0]
    if kernel.ret_type is not None:
        em.ret_slot = extras[1]
        unit = memory_type(kernel.ret_type)
        em.b.store(zero(unit), em.ret_slot, 8)
    with deep_recursion():
        emit_statement(em, func.body)
    if not em.b.terminated:
        em.leave(em.b.i32(0))
