"""What is marked to be double-buffered, and in which loops."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import NoReturn

from tirlower.analysis.vthread_dependence import uses_of
from tirlower.diagnostics import TransformError
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Expr, Var, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Block, BufferStore, For, ForKind, While
from tirlower.rewrite.copies import CopiedBuffer, is_flat

__all__ = [
    "DOUBLE_BUFFER_SCOPE",
    "DOUBLE_BUFFER_WRITE",
    "ORIGIN",
    "Marked",
    "data_of",
    "doubled_buffer",
    "marked_loops",
]

ORIGIN = "tir.InjectDoubleBuffer"
DOUBLE_BUFFER_SCOPE = "double_buffer_scope"
"""Attribute on a data variable, around the statements that fill it: double-buffer it. As a block's annotation, the
index of the written buffer that is meant; LowerOpaqueBlock turns it into the attribute."""
DOUBLE_BUFFER_WRITE = "double_buffer_write"
"""Attribute around what fills the copy of the next iteration: it conflicts with no access of this one."""

Path = tuple[For | While, ...]


def doubled_buffer(op: Block) -> Buffer | None:
    """The written buffer that a block's annotation names by its position; None without one.

    Raises :class:`TransformError` for a position that there is not.
    """
    position = op.annotations.get(DOUBLE_BUFFER_SCOPE)
    position = getattr(position, "value", position)
    if position is None:
        return None
    if isinstance(position, bool) or not isinstance(position, int) or not 0 <= position < len(op.writes or ()):
        raise TransformError(
            f"{DOUBLE_BUFFER_SCOPE} of block {op.name!r} names written buffer {position}, it writes {len(op.writes or ())}",
            span=op.span,
        )
    return op.writes[position].buffer


@dataclass(eq=False)
class Marked:
    """A buffer to be double-buffered: where it is allocated, filled and used."""

    data: Var
    marks: list[tuple[AttrStmt, Path]] = field(default_factory=list)
    alloc: AllocBuffer | None = None
    alloc_path: Path = ()
    common: Path | None = None
    """The loops around all of its uses."""
    copied: CopiedBuffer | None = None
    """Its two copies, once it is certain that it gets them."""

    @property
    def loop(self) -> For | While | None:
        """The innermost loop around the producer."""
        path = self.marks[0][1]
        return path[-1] if path else None

    @property
    def inside(self) -> bool:
        """Whether it is allocated anew in each iteration."""
        return self.loop in self.alloc_path


class _Marks(Visitor):
    """The marked data variables, by producer."""

    def __init__(self) -> None:
        self.found: dict[Var, Marked] = {}
        self.path: list[For | While] = []

    def visit_expr(self, root: Expr) -> None:
        """Expressions hold no marks."""

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        if op.key == DOUBLE_BUFFER_SCOPE:
            data = op.node.data if isinstance(op.node, Buffer) else op.node
            if isinstance(data, Var) and not is_const_int(op.value, 0):
                self.found.setdefault(data, Marked(data)).marks.append((op, tuple(self.path)))
        self.visit(op.body)

    def visit_For(self, op: For) -> None:
        self.path.append(op)
        self.visit(op.body)
        self.path.pop()

    def visit_While(self, op: While) -> None:
        self.path.append(op)
        self.visit(op.body)
        self.path.pop()


class _Uses(Visitor):
    """Where marked buffers are allocated and used."""

    def __init__(self, found: dict[Var, Marked]) -> None:
        self.found = found
        self.path: list[For | While] = []

    def _use(self, data: Var) -> None:
        marked = self.found.get(data)
        if marked is None:
            return
        if marked.common is None:
            marked.common = tuple(self.path)
        count = 0
        for a, b in zip(marked.common, self.path, strict=False):
            if a is not b:
                break
            count += 1
        marked.common = marked.common[:count]

    def visit_Block(self, op: Block) -> None:
        raise TransformError(
            f"block {op.name!r} is left",
            origin=ORIGIN,
            span=op.span,
            help="run LowerOpaqueBlock and FlattenBuffer first",
        )

    def visit_For(self, op: For) -> None:
        self.visit(op.min)
        self.visit(op.extent)
        self.path.append(op)
        self.visit(op.body)
        self.path.pop()

    def visit_While(self, op: While) -> None:
        self.path.append(op)
        self.visit(op.condition)
        self.visit(op.body)
        self.path.pop()

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        marked = self.found.get(op.buffer.data)
        if marked is not None:
            marked.alloc, marked.alloc_path = op, tuple(self.path)
        self.visit(op.condition)

    def visit_BufferStore(self, op: BufferStore) -> None:
        self._use(op.buffer.data)
        self.generic(op)

    def visit_expr(self, root: Expr) -> None:
        uses = uses_of(root)
        for data in uses.loaded | uses.pointers:
            self._use(data)


def data_of(mark: AttrStmt) -> Var:
    """The data variable that a mark is about."""
    node = mark.node
    assert isinstance(node, (Buffer, Var))
    return node.data if isinstance(node, Buffer) else node


def marked_loops(func: PrimFunc) -> dict[For | While, list[Marked]]:
    """The loops to transform, each with its buffers. A mark that has no loop to work on is warned about and left."""
    marks = _Marks()
    marks.visit(func.body)
    if not marks.found:
        return {}
    _Uses(marks.found).visit(func.body)
    chosen: dict[For | While, list[Marked]] = {}
    for marked in marks.found.values():
        why = _no_loop(marked)
        if why is not None:
            warnings.warn(f"{ORIGIN} leaves the buffer {marked.data.name!r} as it is: {why}", stacklevel=2)
            continue
        loop = marked.loop
        assert loop is not None and marked.alloc is not None
        buffer = marked.alloc.buffer
        if len(marked.marks) > 1:
            _refuse(marked, "it has several producers", "put what fills the buffer into one attribute")
        if not is_flat(buffer):
            _refuse(marked, f"it has {len(buffer.shape)} dimensions or strides", "run FlattenBuffer first")
        path = marked.marks[0][1]
        if marked.common is not None and (len(marked.common) < len(path) or marked.common[len(path) - 1] is not loop):
            _refuse(marked, "it is used outside the loop around its producer", "use a buffer of its own for that")
        marked.copied = CopiedBuffer(buffer, 2)
        chosen.setdefault(loop, []).append(marked)
    return chosen


def _no_loop(marked: Marked) -> str | None:
    if marked.alloc is None:
        return "the function does not allocate it"
    loop = marked.loop
    if loop is None or isinstance(loop, While):
        return "its producer stands in no for loop"
    if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
        return (
            f"the iterations of the loop {loop.loop_var.name!r} around its producer run in no order ({loop.kind.value})"
        )
    return None


def _refuse(marked: Marked, why: str, help: str) -> NoReturn:
    raise TransformError(
        f"the buffer {marked.data.name!r} cannot be double-buffered: {why}",
        origin=ORIGIN,
        span=marked.marks[0][0].span,
        help=help,
    )
