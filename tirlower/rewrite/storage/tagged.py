"""Special memories: storage scopes with a tag of their own, what they are like, and their allocations as one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, Call, Expr, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator
from tirlower.ir.op import Op
from tirlower.ir.stmt import AllocBuffer, DeclBuffer, Seq, Stmt
from tirlower.rewrite.storage.plan import constant_bytes, element_bytes

__all__ = ["MemoryInfo", "is_special", "memory_info", "merge_tagged", "register_memory_info"]

_ACCESS_PTR = Op.get("tir.tvm_access_ptr")
_RANKS = ("global", "shared", "warp", "local")
_ORDINARY = ("", ".dyn", ".workspace", ".vtcm")
"""The tags of memory that is allocated as any other."""
_LEAST_ALIGNMENT = 4
"""The bytes to whose multiples parts of a special memory begin, as TIR has it where nothing else is said."""


@dataclass(frozen=True)
class MemoryInfo:
    """What a special memory is like.

    ``unit_bits`` is the size of what an integer address counts, ``max_bits`` that of the whole memory (0: any), and
    ``head_address`` makes the expression (a handle) of its first byte; without it the memory has no pointers, and is
    accessed by integer addresses alone.
    """

    unit_bits: int
    max_bits: int = 0
    head_address: Callable[[], Expr] | None = None


_INFOS: dict[str, MemoryInfo] = {}


def register_memory_info(scope: str, info: MemoryInfo | None) -> MemoryInfo | None:
    """Say what the memory of a storage scope with a tag (``local.l0a``) is like; None takes it back.

    Returns what was there. Raises :class:`TransformError` for a scope without a tag, which is ordinary memory.

    >>> register_memory_info("local.l0a", MemoryInfo(unit_bits=128))
    >>> register_memory_info("local.l0a", None)
    MemoryInfo(unit_bits=128, max_bits=0, head_address=None)
    """
    if not is_special(scope):
        raise TransformError(
            f"the storage scope {scope!r} is ordinary memory", help="name a scope with a tag of its own: 'local.l0a'"
        )
    before = _INFOS.pop(scope, None)
    if info is not None:
        _INFOS[scope] = info
    return before


def memory_info(scope: str) -> MemoryInfo | None:
    """What was said of a special memory."""
    return _INFOS.get(scope)


def is_special(scope: str) -> bool:
    """Whether a storage scope is a memory of its own kind: one with a tag that says so."""
    rank, dot, tag = scope.partition(".")
    return rank in _RANKS and dot + tag not in _ORDINARY


def merge_tagged(func: PrimFunc) -> PrimFunc:
    """A function in which the allocations of a special memory that stand in one scope are one, parts of it one behind the
    other; parts begin at multiples of 32 bits and of the memory's units. Raises :class:`TransformError` where a special
    memory is too small for its allocations."""
    return func.with_body(_Merger().visit(func.body))


class _Merger(Mutator):
    folds = True

    def __init__(self) -> None:
        self.moved: dict[Var, tuple[Var, int]] = {}
        """Where data variables went: the memory, and the bytes from its start."""
        self.flat: dict[Buffer, Buffer] = {}
        """Buffers that are the whole memory now, seen as longer."""

    def visit_Seq(self, op: Seq) -> Stmt:
        groups: dict[str, list[AllocBuffer]] = {}
        for stmt in op.stmts:
            if isinstance(stmt, AllocBuffer) and _merges(stmt):
                groups.setdefault(stmt.buffer.scope, []).append(stmt)
        instead: dict[AllocBuffer, Stmt] = {}
        for scope, group in groups.items():
            if len(group) > 1:
                self._merge(scope, group, instead)
        done: list[Stmt] = []
        views: list[Stmt] = []
        for stmt in op.stmts:
            made = instead.get(stmt) if isinstance(stmt, AllocBuffer) else None
            if isinstance(made, DeclBuffer):
                views.append(made)  # behind the allocations, where StorageRewrite leaves views
                continue
            if views and not isinstance(stmt, AllocBuffer):
                done += views
                views = []
            done.append(self.visit(stmt) if made is None else made)
        done += views
        changed = any(a is not b for a, b in zip(done, op.stmts, strict=True))
        return op.with_(stmts=tuple(done)) if changed else op

    def _merge(self, scope: str, group: list[AllocBuffer], instead: dict[AllocBuffer, Stmt]) -> None:
        info = memory_info(scope)
        first = group[0].buffer
        align = max(_LEAST_ALIGNMENT, (info.unit_bits + 7) // 8 if info is not None else 0)
        align = max(align, *[element_bytes(alloc.buffer.dtype) for alloc in group])
        total = 0
        for alloc in group:
            self.moved[alloc.buffer.data] = (first.data, total)
            size = constant_bytes(alloc.buffer)
            assert size is not None  # only such allocations merge
            total += -(-size // align) * align
        if info is not None and info.max_bits and total * 8 > info.max_bits:
            names = ", ".join(repr(alloc.buffer.name) for alloc in group)
            raise TransformError(
                f"the buffers {names} take {total * 8} bits, the memory {scope!r} has {info.max_bits}",
                span=group[-1].span,
                help="make them smaller, or put one into another memory",
            )
        count = const(-(-total // element_bytes(first.dtype)))
        whole = Buffer(first.name, (count,), first.dtype, first.data, align=first.align)
        self.flat[first] = whole
        instead[group[0]] = group[0].with_(buffer=whole)
        for alloc in group[1:]:
            instead[alloc] = DeclBuffer(self.map_buffer(alloc.buffer), span=alloc.span)

    def map_buffer(self, buffer: Buffer) -> Buffer:
        place = self.moved.get(buffer.data)
        if place is None or buffer in self.flat:
            return self.flat.get(buffer, buffer) if place is not None else super().map_buffer(buffer)
        data, start = place
        if data is buffer.data:
            return buffer
        offset = const(start // element_bytes(buffer.dtype), buffer.elem_offset.dtype)
        made = super().map_buffer(buffer)
        return made if made is not buffer else self._view(buffer, data, offset)

    def _view(self, buffer: Buffer, data: Var, offset: Expr) -> Buffer:
        view = self.flat.get(buffer)
        if view is None:
            view = self.flat[buffer] = buffer.with_(data=data, elem_offset=build.add(buffer.elem_offset, offset))
        return view

    def visit_Var(self, op: Var) -> Expr:
        """A pointer that is passed on: to the first byte of the part."""
        data, start = self.moved.get(op, (op, 0))
        if not start:
            return data
        byte = Buffer(data.name, (const(start + 1),), DataType("uint8"), data)
        return build.call("tir.address_of", BufferLoad(byte, (const(start),)))

    def enter_Call(self, op: Call) -> Expr | None:
        data = op.args[1] if op.op is _ACCESS_PTR else None
        if not isinstance(data, Var) or data not in self.moved:
            return None
        kind, _, offset, extent, mask = op.args
        memory, start = self.moved[data]
        by = const(start // element_bytes(kind.dtype), offset.dtype)
        return op.with_(args=(kind, memory, build.add(self.visit(offset), by), self.visit(extent), mask))

    def map_attr(self, value: object) -> object:
        """What is said of a part is said of the memory."""
        return self.moved[value][0] if isinstance(value, Var) and value in self.moved else value


def _merges(op: AllocBuffer) -> bool:
    """Whether an allocation may become a part of another one: its size is constant, its first element at its start."""
    buffer = op.buffer
    plain = len(buffer.shape) == 1 and not buffer.strides and is_const_int(buffer.elem_offset, 0)
    return (
        is_special(buffer.scope)
        and plain
        and constant_bytes(buffer) is not None
        and is_const_int(op.condition, 1)
        and not op.annotations
        and not buffer.dtype.is_handle
    )
