"""Machine code that all entries of a process share, reached through the process table.

It is not needed by every program (tensors, allocated outputs), and need not be compiled again for every kernel: each
helper is made when the first call or kernel asks for it, and stays.

``helper:dlpack``: ``i1 (ptr object, ptr class, ptr tensor, i32 dtype, i32 ndim, i32 mode, i32 mask)`` fills a DLTensor
    from a tensor of a registered class; true where it is on the host, of the dtype and rank, aligned (address and mask
    have no common bit), compact if the mode has :data:`COMPACT`, and free to be written if it has :data:`WRITTEN`. Then
    ``data`` is the address of the first element, and extents and strides are there.
``helper:allocate``: ``ptr (ptr dtype, i32 ndim, ptr extents, i64 bytes, i64 alignment)`` makes a NumPy array with
    aligned data: a view of a byte array that is larger by the alignment. Null, with an error set, where memory is out.
"""

from __future__ import annotations

import threading
from typing import Final

from tirlower.emit.compile import CompileOptions
from tirlower.emit.llvm_text import (
    FALSE,
    I1,
    I8,
    I32,
    I64,
    PTR,
    TRUE,
    VOID,
    Block,
    Builder,
    Function,
    Module,
    Type,
    Value,
    null,
)
from tirlower.llvm.entry import layout
from tirlower.llvm.entry.entry_frame import table_slot
from tirlower.llvm.entry.process_table import EXCHANGE_PAIRS, TABLE_SYMBOL, table
from tirlower.llvm.jit import engine

__all__ = ["COMPACT", "WRITTEN", "require_helper"]

#: bits of the mode of ``helper:dlpack``
WRITTEN: Final = 1
COMPACT: Final = 2

# NPY_ARRAY_CARRAY: C-contiguous, aligned, writeable
_CARRAY: Final = layout.C_CONTIGUOUS | layout.ALIGNED | layout.WRITEABLE
_lock: Final = threading.Lock()


def require_helper(name: str) -> None:
    """Make a helper and publish it in the process table, unless it is there."""
    if table.has(name):
        return
    with _lock:
        if table.has(name):
            return
        module = Module(name)
        function = _dlpack(module) if name == "helper:dlpack" else _allocate(module)
        symbol = function.ref.text.lstrip("@")
        jit = engine()
        code = jit.compile_object(module.text(), CompileOptions.for_host(pipeline="minimal"))
        linked = jit.link(code.object, [symbol], {TABLE_SYMBOL: table.address})
        table.set_helper(name, linked[symbol], linked)


def _dlpack(module: Module) -> Function:
    names = ("obj", "cls", "tensor", "dtype", "ndim", "mode", "mask")
    types = (PTR, PTR, PTR, I32, I32, I32, I32)
    function = module.function("tirlower.dlpack", I1, list(zip(types, names, strict=True)), attrs=["nounwind"])
    obj, cls, tensor, dtype, ndim, mode, mask = function.args
    b = Builder(function, function.block("entry"))
    refused, known = function.new_block("refused"), function.new_block("known")
    exchanges = []
    for i in range(EXCHANGE_PAIRS):
        following = function.new_block("next")
        exchanges.append((table_slot(b, f"exchange:{i}:function"), b.block))
        b.cond_br(b.icmp("eq", cls, table_slot(b, f"exchange:{i}:type")), known, following)
        b.position_at_end(function.place(following))
    b.br(refused)
    b.position_at_end(function.place(known))
    status = b.call_pointer(b.phi(PTR, "exchange", exchanges), I32, [obj, tensor])
    filled, failed, free = (function.new_block(n) for n in ("filled", "failed", "free"))
    b.cond_br(b.icmp("eq", status, b.i32(0)), filled, failed, likely=True)
    b.position_at_end(function.place(failed))
    b.call_pointer(table_slot(b, "PyErr_Clear"), VOID)
    b.br(refused)
    b.position_at_end(function.place(filled))
    # PyTorch keeps a negation as a bit of the tensor: its memory is without.
    receiver = b.alloca(PTR)
    b.store(obj, receiver, 8)
    method = [table_slot(b, "is_neg"), receiver, b.i64(1), null()]
    negated = b.call_pointer(table_slot(b, "PyObject_VectorcallMethod"), PTR, method)
    told, plain = function.new_block("told"), function.new_block("plain")
    b.cond_br(b.icmp("ne", negated, null()), told, failed, likely=True)
    b.position_at_end(function.place(told))
    same = b.icmp("eq", negated, table_slot(b, "False"))
    b.call_pointer(table_slot(b, "Py_DecRef"), VOID, [negated])
    b.cond_br(same, plain, refused, likely=True)
    b.position_at_end(function.place(plain))
    asked, given = function.new_block("asked"), function.new_block("given")
    b.cond_br(b.icmp("eq", b.and_(mode, b.i32(WRITTEN)), b.i32(0)), free, asked)
    # A tensor that requires grad must not be written behind the back of autograd.
    b.position_at_end(function.place(asked))
    answer = b.call_pointer(table_slot(b, "PyObject_GetAttr"), PTR, [obj, table_slot(b, "requires_grad")])
    b.cond_br(b.icmp("ne", answer, null()), given, failed, likely=True)
    b.position_at_end(function.place(given))
    detached = b.icmp("eq", answer, table_slot(b, "False"))
    b.call_pointer(table_slot(b, "Py_DecRef"), VOID, [answer])
    b.cond_br(detached, free, refused, likely=True)
    b.position_at_end(function.place(free))
    _check_tensor(b, refused, tensor, (dtype, ndim, mode, mask))
    b.position_at_end(function.place(refused))
    b.ret(FALSE)
    return function


def _check_tensor(b: Builder, refused: Block, tensor: Value, expected: tuple[Value, Value, Value, Value]) -> None:
    """The rest of ``helper:dlpack``: a filled tensor against what is expected of it."""
    dtype, ndim, mode, mask = expected
    function = b.function

    def field(at: int, type: Type) -> Value:
        return b.load(type, b.gep(I8, tensor, at), 8 if type.kind == "ptr" else type.bits // 8)

    same_device = b.icmp("eq", field(layout.DL_DEVICE, I32), b.i32(layout.DL_CPU))
    same_ndim = b.icmp("eq", field(layout.DL_NDIM, I32), ndim)
    same_dtype = b.icmp("eq", field(layout.DL_DTYPE, I32), dtype)
    data = b.gep(I8, field(layout.DL_DATA, PTR), field(layout.DL_OFFSET, I64), inbounds=False)
    b.store(data, b.gep(I8, tensor, layout.DL_DATA), 8)
    aligned = b.icmp("eq", b.and_(b.trunc(b.ptrtoint(data), I32), mask), b.i32(0))
    shape, strides = field(layout.DL_SHAPE, PTR), field(layout.DL_STRIDES, PTR)
    scalar = b.icmp("eq", ndim, b.i32(0))
    listed = b.or_(scalar, b.icmp("ne", strides, null()))
    right = b.and_(b.and_(b.and_(same_device, same_ndim), b.and_(same_dtype, aligned)), listed)
    accepted, strided, axis_block, following = (
        function.new_block(n) for n in ("accepted", "free", "axis", "following")
    )
    b.cond_br(right, strided, refused, likely=True)
    b.position_at_end(function.place(strided))
    any_stride = b.icmp("eq", b.and_(mode, b.i32(COMPACT)), b.i32(0))
    b.cond_br(b.or_(any_stride, scalar), accepted, axis_block)
    before = b.block
    # From the last axis to the first: an extent of 1 has any stride, the others that of what is behind them.
    b.position_at_end(function.place(axis_block))
    count, step = b.phi(I32, "count", [(ndim, before)]), b.phi(I64, "step", [(b.i64(1), before)])
    axis = b.sub(count, b.i32(1))
    extent = b.load(I64, b.gep(I64, shape, axis), 8)
    stride = b.load(I64, b.gep(I64, strides, axis), 8)
    fits = b.or_(b.icmp("eq", extent, b.i64(1)), b.icmp("eq", stride, step))
    b.cond_br(fits, following, refused, likely=True)
    b.position_at_end(function.place(following))
    count.add(axis, b.block)
    step.add(b.mul(step, extent), b.block)
    b.cond_br(b.icmp("eq", axis, b.i32(0)), accepted, axis_block)
    b.position_at_end(function.place(accepted))
    b.ret(TRUE)


def _allocate(module: Module) -> Function:
    params = [(PTR, "descr"), (I32, "ndim"), (PTR, "dims"), (I64, "nbytes"), (I64, "alignment")]
    function = module.function("tirlower.allocate", PTR, params, attrs=["nounwind"])
    descr, ndim, dims, nbytes, alignment = function.args
    b = Builder(function, function.block("entry"))
    made, viewed, owned, half_made, lost = (function.new_block(n) for n in ("made", "viewed", "owned", "half", "lost"))
    length = b.alloca(I64, align=8, name="length")
    b.store(b.add(nbytes, alignment), length, 8)
    byte = table_slot(b, "dtype:uint8")
    new, cls = table_slot(b, "PyArray_NewFromDescr"), table_slot(b, "ndarray")
    # NewFromDescr takes over a reference to the dtype, on failure too.
    b.call_pointer(table_slot(b, "Py_IncRef"), VOID, [byte])
    nothing = null()
    raw = b.call_pointer(new, PTR, [cls, byte, b.i32(1), length, nothing, nothing, b.i32(0), nothing])
    b.cond_br(b.icmp("ne", raw, nothing), made, lost, likely=True)
    b.position_at_end(function.place(made))
    address = b.ptrtoint(b.load(PTR, b.gep(I8, raw, layout.DATA), 8))
    mask = b.sub(alignment, b.i64(1))
    start = b.inttoptr(b.and_(b.add(address, mask), b.not_(mask)))
    b.call_pointer(table_slot(b, "Py_IncRef"), VOID, [descr])
    view = b.call_pointer(new, PTR, [cls, descr, ndim, dims, nothing, start, b.i32(_CARRAY), nothing])
    b.cond_br(b.icmp("ne", view, nothing), viewed, half_made, likely=True)
    b.position_at_end(function.place(half_made))
    b.call_pointer(table_slot(b, "Py_DecRef"), VOID, [raw])
    b.br(lost)
    b.position_at_end(function.place(viewed))
    # SetBaseObject takes over the reference to the bytes, on failure too.
    status = b.call_pointer(table_slot(b, "PyArray_SetBaseObject"), I32, [view, raw])
    dropped = function.new_block("dropped")
    b.cond_br(b.icmp("eq", status, b.i32(0)), owned, dropped, likely=True)
    b.position_at_end(function.place(dropped))
    b.call_pointer(table_slot(b, "Py_DecRef"), VOID, [view])
    b.br(lost)
    b.position_at_end(function.place(owned))
    b.ret(view)
    b.position_at_end(function.place(lost))
    b.ret(nothing)
    return function
