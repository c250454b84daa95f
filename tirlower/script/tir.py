"""The namespace ``T``: everything that scripts write after ``T.``.

Types (``T.float32x4``), and operations that have no function of their own, are made at their first use.
"""

from __future__ import annotations

import sys
from typing import Any

from tirlower.diagnostics import nearest_name
from tirlower.ir import build
from tirlower.ir.buffer import BufferRegion
from tirlower.ir.dtype import MINIFLOATS, WITHOUT_BITS, DataType
from tirlower.ir.index_map import IndexMap
from tirlower.machine.target import Target
from tirlower.script import operators as _ops
from tirlower.script.blocks import axis, block, block_attr, init, reads, where, writes
from tirlower.script.buffers import (
    Buffer_,
    alloc_buffer,
    alloc_local,
    alloc_shared,
    allocate,
    allocate_const,
    decl_buffer,
    match_buffer,
)
from tirlower.script.forms import HandleType, PtrType, TypeFunc
from tirlower.script.loops import grid, parallel, serial, thread_binding, unroll, vectorized
from tirlower.script.namespace import NAMESPACES, Namespace, call_tir
from tirlower.script.parse import macro, prim_func
from tirlower.script.python_words import REMEDIES
from tirlower.script.region_forms import prefetch, realize
from tirlower.script.scope import MISSING
from tirlower.script.statement_forms import (
    Assert_,
    Else,
    If,
    LetStmt,
    Seq_,
    Then,
    assume,
    attr,
    bind,
    buffer_store,
    env_thread,
    evaluate,
    func_attr,
    iter_var,
    launch_thread,
    let,
    meta_var,
    range_,
    ret,
)

Buffer = Buffer_()

_MEMBERS: dict[str, object] = {
    # functions and modules
    "prim_func": prim_func, "macro": macro, "func_attr": func_attr, "ret": ret,
    # buffers
    "Buffer": Buffer, "buffer": Buffer, "match_buffer": match_buffer, "alloc_buffer": alloc_buffer,
    "sblock_alloc_buffer": alloc_buffer, "allocate": allocate, "allocate_const": allocate_const,
    "decl_buffer": decl_buffer, "alloc_shared": alloc_shared, "alloc_local": alloc_local,
    "buffer_store": buffer_store, "BufferLoad": _ops.BufferLoad_, "BufferRegion": BufferRegion,
    # loops
    "serial": serial, "parallel": parallel, "vectorized": vectorized, "unroll": unroll,
    "thread_binding": thread_binding, "grid": grid,
    # blocks
    "block": block, "sblock": block, "axis": axis, "where": where, "reads": reads, "writes": writes,
    "block_attr": block_attr, "sblock_attr": block_attr, "init": init,
    # statements
    "meta_var": meta_var, "let": let, "bind": bind, "LetStmt": LetStmt, "attr": attr,
    "launch_thread": launch_thread, "env_thread": env_thread, "iter_var": iter_var, "IterVar": iter_var,
    "assume": assume, "Assert": Assert_, "evaluate": evaluate, "target": Target, "Target": Target, "Range": range_,
    "realize": realize, "prefetch": prefetch,
    "If": If, "Then": Then, "Else": Else, "Seq": Seq_,
    # nodes
    **_ops.NODE_CONSTRUCTORS,
    "And": _ops.And, "Or": _ops.Or, "Not": _ops.Not, "Select": _ops.Select_, "Cast": _ops.Cast, "cast": _ops.cast,
    "Ramp": _ops.Ramp, "ramp": _ops.Ramp, "Broadcast": _ops.Broadcast, "broadcast": _ops.Broadcast,
    "Shuffle": _ops.Shuffle, "Let": _ops.Let, "Call": _ops.Call_, "Var": _ops.Var_, "SizeVar": _ops.SizeVar,
    "var": _ops.var, "IntImm": _ops.IntImm_, "FloatImm": _ops.FloatImm_, "StringImm": _ops.StringImm_,
    "index_map": IndexMap.from_func, "comm_reducer": _ops.comm_reducer, "CommReducer": _ops.comm_reducer,
    # functions that fold
    "min": _ops.min_, "max": _ops.max_, "abs": _ops.abs_, "clamp": _ops.clamp, "clip": _ops.clamp, "any": _ops.any_, "all": _ops.all_, "pow": _ops.pow_,
    "power": _ops.pow_, "floordiv": build.floordiv, "floormod": build.floormod, "truncdiv": build.truncdiv,
    "truncmod": build.truncmod, "div": build.truncdiv, "mod": build.truncmod, "indexdiv": build.floordiv,
    "indexmod": build.floormod, "ceildiv": build.exact_ceildiv, "shift_left": build.shift_left,
    "shift_right": build.shift_right, "bitwise_and": build.bitwise_and, "bitwise_or": build.bitwise_or,
    "bitwise_xor": build.bitwise_xor, "bitwise_not": build.bitwise_not, "if_then_else": build.if_then_else,
    "likely": build.likely, "infinity": _ops.infinity, "logaddexp": _ops.logaddexp, "get_vscale_expr": _ops.get_vscale_expr, "min_value": _ops.min_value, "max_value": _ops.max_value,
    # operations with a spelling of their own
    "reinterpret": _ops.reinterpret, "undef": _ops.undef, "address_of": _ops.address_of,
    "call_intrin": _ops.call_intrin, "call_packed": _ops.call_packed, "tvm_call_packed": _ops.call_packed,
    "call_cpacked": _ops.call_cpacked, "tvm_call_cpacked": _ops.call_cpacked,
    "call_packed_lowered": _ops.call_packed_lowered, "tvm_call_packed_lowered": _ops.call_packed_lowered,
    "call_cpacked_lowered": _ops.call_cpacked_lowered, "tvm_call_cpacked_lowered": _ops.call_cpacked_lowered,
    "llvm_lookup_intrinsic_id": _ops.llvm_lookup_intrinsic_id, "call_tir": call_tir,
    # types
    "handle": HandleType("handle"), "Ptr": PtrType(), "boolean": TypeFunc("bool"),
}  # fmt: skip

TYPE_NAMES = (
    "bool", "void", "bfloat16", "float16", "float32", "float64", *MINIFLOATS,
    *[f"{code}{bits}" for code in ("int", "uint") for bits in (8, 16, 32, 64)],
)  # fmt: skip
"""The common types, for suggestions."""


def _make(name: str) -> object:
    """A type or operation by name, or ``MISSING``."""
    if name.startswith("_") or name in WITHOUT_BITS:
        return MISSING  # a script says how wide its types are
    try:
        dtype = DataType(name)
    except ValueError:
        found: object = _ops.operation(name)
        if found is None:
            return MISSING
    else:
        found = TypeFunc(dtype)
    _MEMBERS[name] = found
    return found


_SPACE = Namespace(sys.modules[__name__], _MEMBERS, _make)
_SPACE.more = [*TYPE_NAMES, *_ops.operation_names()]
NAMESPACES[__name__] = _SPACE


def __getattr__(name: str) -> Any:  # a call, a type, a constant: no checker of Python knows what a script writes
    """A member by name; an unknown one is reported with the nearest known one."""
    found = _SPACE.find(name)
    if found is MISSING:
        near = None if name.startswith("_") else nearest_name(name, _SPACE.names())  # what tools ask any object for
        way = REMEDIES.get(name)
        hint = f"; {way}" if way else f"; did you mean T.{near}?" if near else ""
        raise AttributeError(f"T has no {name!r}{hint}")
    return found


def __dir__() -> list[str]:
    return sorted({*_SPACE.names()})
