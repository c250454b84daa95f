"""The signature of a prim func: what a call of it takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tirlower.call.extents import Extent, extent_of
from tirlower.call.signature import BufferParam, Param, ScalarParam, Signature
from tirlower.diagnostics import LoweringError
from tirlower.ir.annotations import IN_PLACE, entries_of, mapping_of
from tirlower.ir.buffer import Buffer
from tirlower.ir.custom_datatype import storage_dtype
from tirlower.ir.dtype import HANDLE, DataType, PointerType
from tirlower.ir.expr import Call, Expr, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.stmt import Evaluate

__all__ = ["apart", "call_signature", "outputs_of", "passed_names", "return_type", "signature_with_symbols"]

_RET = Op.get("tir.ret")


def call_signature(
    func: PrimFunc, written: Iterable[str], outputs: tuple[str, ...], in_place: Iterable[Sequence[int]]
) -> Signature:
    """The signature of calls of a built function, as it was given to the build.

    ``written`` names the buffers that it writes; ``in_place`` has the positions of parameters that may be one array.
    The kernel was compiled for arrays that share no memory; another version takes those that do.

    Raises:
        LoweringError: a parameter cannot be passed by a call.
    """
    names, _ = _names(func)
    chosen = set(written)
    data = {buffer.data for param, buffer in func.buffer_map.items() if names[param] in chosen}
    made, _ = signature_with_symbols(func.name, func, data, outputs, return_type(func))
    pairs = [tuple(pair) for pair in in_place]
    made, left = apart(made, pairs), entries_of(func.attrs, IN_PLACE)
    if not left:
        return made
    return replace(made, left_open=apart(made, [pair for pair in pairs if pair in left]).in_place)


def apart(signature: Signature, in_place: Iterable[Sequence[int]]) -> Signature:
    """A signature of calls whose arrays share no memory, but for the pairs (positions) of one array."""
    names = [p.name for p in signature.params]
    return replace(signature, apart=True, in_place=frozenset((names[a], names[b]) for a, b in in_place))


def signature_with_symbols(
    name: str,
    func: PrimFunc,
    written: set[Var],
    outputs: Sequence[str],
    returns: DataType | None,
    *,
    alignment: int = 0,
    integral: bool = True,
) -> tuple[Signature, tuple[Var, ...]]:
    """The signature, given what is written and returned; and the variable of each symbol that it names.

    ``alignment`` is that of arrays whose buffers declare none (0: that of the dtype); ``integral`` says that machine code
    computes the extents (:func:`~tirlower.call.extents.extent_of`).
    """
    noalias = bool(func.attrs.get("tir.noalias"))
    defaults = mapping_of(func.attrs, "tir.defaults")
    param_names, names = _names(func)
    params: list[Param] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            if param.dtype.is_vector or param.dtype.code == "void":
                raise LoweringError(
                    f"the parameter `{param.name}` of `{name}` is {param.dtype!s}, which no call can pass",
                    origin="call",
                    span=param.span,
                    help="pass an array, and load the vector from it",
                )
            default = defaults.get(param.name)
            known = default if isinstance(default, (int, float)) else None
            params.append(ScalarParam(param_names[param], str(param.dtype), known))
        else:
            made = _buffer_param(name, buffer, param_names[param], names, integral)
            aligned = made.alignment or alignment
            params.append(replace(made, written=buffer.data in written, noalias=noalias, alignment=aligned))
    chosen = outputs_of(func, outputs or None)
    signature = Signature(name, tuple(params), chosen, None if returns is None else str(returns))
    by_name = {text: var for var, text in names.items()}
    return signature, tuple(by_name[symbol.name] for symbol in signature.symbols)


def outputs_of(func: PrimFunc, outputs: Sequence[str] | None) -> tuple[str, ...]:
    """The parameters that calls do not pass: those asked for, or those that the function's attribute names."""
    chosen = entries_of(func.attrs, "tir.outputs") if outputs is None else outputs
    if isinstance(chosen, str):
        chosen = (chosen,)
    return tuple(str(name) for name in chosen)


def passed_names(func: PrimFunc, outputs: Sequence[str] | None) -> list[str]:
    """The names of the parameters that calls pass."""
    made = outputs_of(func, outputs)
    names = [func.buffer_map[p].name if p in func.buffer_map else p.name for p in func.params]
    return [name for name in names if name not in made]


def return_type(func: PrimFunc) -> DataType | None:
    """The type that a function returns: the stated one, or that of its return statements."""
    stated = func.ret_type
    if isinstance(stated, PointerType):
        return HANDLE
    if stated.code != "void":
        return stated
    found: list[DataType] = []

    def look(op: Node) -> bool:
        if isinstance(op, Evaluate) and isinstance(op.value, Call) and op.value.op is _RET and op.value.args:
            found.append(op.value.args[0].dtype)
        return not isinstance(op, (Expr, Evaluate))

    pre_order_visit(func.body, look)
    return found[-1] if found else None


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


def _buffer_param(func: str, buffer: Buffer, name: str, names: dict[Var, str], integral: bool) -> BufferParam:
    def extents(exprs: Iterable[Expr], what: str) -> tuple[Extent, ...]:
        return tuple(
            extent_of(e, names, f"the {what} of buffer `{name}` of `{func}`", integral=integral) for e in exprs
        )

    shape = extents(buffer.shape, "shape")
    strides = extents(buffer.strides, "strides") if buffer.strides else None
    kind = storage_dtype(buffer.dtype)
    if kind.is_handle or kind.code == "void":
        raise LoweringError(
            f"buffer `{name}` of `{func}` has elements of {kind!s}, which no array has",
            origin="call",
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
                origin="call",
                help="declare it with scalar elements and one dimension more",
            )
    broadcast = buffer.buffer_type == "auto_broadcast" and strides is not None
    return BufferParam(name, str(element), shape, strides, offset, buffer.align, broadcast=broadcast)
