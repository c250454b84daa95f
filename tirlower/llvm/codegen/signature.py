"""The outside of a prim func: the signature that the entry checks calls against."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from tirlower.diagnostics import LoweringError
from tirlower.emit.body import Body
from tirlower.ir.buffer import ALLOC_ALIGNMENT, Buffer
from tirlower.ir.custom_datatype import storage_dtype
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import PointerType, Var
from tirlower.ir.func import PrimFunc
from tirlower.llvm.codegen.extents import extent_of
from tirlower.llvm.entry import BufferParam, Param, ScalarParam, Signature

__all__ = ["call_signature", "return_type", "signature_of", "signature_with_symbols"]


def call_signature(
    func: PrimFunc, written: Iterable[str], outputs: tuple[str, ...], in_place: Iterable[Sequence[int]]
) -> Signature:
    """The signature of calls of a built function, as it was given to the build.

    ``written`` names the buffers that it writes; ``in_place`` has the positions of parameters that may be one array.
    The kernel was compiled for arrays that share no memory; another version takes those that do.

    Raises:
        LoweringError: a parameter cannot be passed by the entry.
    """
    made = signature_of(func, written=frozenset(written), outputs=outputs)
    names = [p.name for p in made.params]
    return replace(made, apart=True, in_place=frozenset((names[a], names[b]) for a, b in in_place))


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
    return signature_with_symbols(func.name, func, data, outputs, return_type(func, body))[0]


def signature_with_symbols(
    name: str, func: PrimFunc, written: set[Var], outputs: tuple[str, ...], returns: DataType | None
) -> tuple[Signature, tuple[Var, ...]]:
    """The entry's signature, given what is written and returned; and the variable of each symbol that it names."""
    noalias = bool(func.attrs.get("tir.noalias"))
    defaults = func.attrs.get("tir.defaults", {})
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
            params.append(ScalarParam(param_names[param], str(param.dtype), defaults.get(param.name)))
        else:
            params.append(_buffer_param(name, buffer, param_names[param], names, buffer.data in written, noalias))
    chosen = outputs or tuple(str(o) for o in func.attrs.get("tir.outputs", ()))
    signature = Signature(name, tuple(params), chosen, None if returns is None else str(returns))
    by_name = {text: var for var, text in names.items()}
    return signature, tuple(by_name[symbol.name] for symbol in signature.symbols)


def return_type(func: PrimFunc, body: Body) -> DataType | None:
    """The type that a function returns: the stated one, or that of its return statements."""
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
