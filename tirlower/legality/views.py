"""Buffers that name memory which another buffer owns: does all of a view lie in it?

The subscripts of an access are compared with the shape of its buffer. A buffer over the data of another (``T.decl_buffer``
or ``T.Buffer`` with ``data=``, also of a pointer bound to a name) states a shape of its own over memory that a parameter or
an allocation owns, and can state more than there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tirlower.analysis.purity import side_effect
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Add, BufferLoad, Call, Expr, Mul, Sub, Var, const, is_const_int
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op, Purity
from tirlower.ir.stmt import AllocBuffer, AllocConst, Bind, Block, BufferStore, DeclBuffer, Stmt
from tirlower.poly import Scop
from tirlower.poly.pointers import pointed_at
from tirlower.rewrite.fact_mutator import FactMutator

__all__ = ["View", "Views", "find_views"]

_ADDRESS_OF = Op.get("tir.address_of")
_ACCESS_PTR = Op.get("tir.tvm_access_ptr")


@dataclass(frozen=True)
class View:
    """A buffer that may reach outside the memory of the buffer ``owner``.

    Its element at the offset ``x`` (in its elements from its pointer) is inside where ``0 <= x * scale + start < limit``;
    ``unit`` says what that counts, elements or bytes.
    """

    owner: Buffer
    start: Expr
    limit: Expr
    scale: int
    unit: str
    reason: str


@dataclass
class Views:
    """The views of a function that are not proved to lie in their memory, and those of pointers of unknown extent.

    ``held`` are bindings that the guards need: where a pointer's offset reads memory, which may be something else by the
    time of an access, the offset before the binding of the pointer (by its id).
    """

    open: Mapping[Buffer, View] = field(default_factory=dict)
    pointers: list[Buffer] = field(default_factory=list)
    held: Mapping[int, Bind] = field(default_factory=dict)


def find_views(scop: Scop) -> Views:
    """Compare the views of a function with their memory."""
    own = {*scop.func.buffers}
    own.update(node.buffer for _, _, node in scop.fixtures if isinstance(node, (AllocBuffer, AllocConst)))
    wanted = {access.buffer for access in scop.accesses if access.buffer is not None and access.site is None} - own
    if not wanted:
        return Views()
    finder = _Finder(scop, own, wanted)
    finder.visit(scop.func.body)
    needed: set[Expr] = set()
    for view in finder.open.values():
        pre_order_visit(view.start, needed.add)
    held = {key: bind for key, bind in finder.held.items() if bind.var in needed}
    return Views(finder.open, list(finder.pointers), held)


def _bytes(buffer: Buffer) -> int:
    return buffer.dtype.bytes * buffer.dtype.lanes


def _wide(value: Expr) -> Expr:
    return build.cast("int64", value)


def _whole(extent: Expr) -> Expr:
    """An extent of a parameter in 64 bits: a call is refused where a sum or product in it leaves its type."""
    if isinstance(extent, (Add, Sub, Mul)) and extent.dtype.is_int:
        return type(extent)(_whole(extent.a), _whole(extent.b))
    return _wide(extent)


def _ends(buffer: Buffer, wide: Callable[[Expr], Expr] = _wide) -> tuple[Expr, Expr]:
    """The offsets in elements of the first element of a buffer that has some, and of what is past its last."""
    first = last = _wide(buffer.elem_offset)
    if buffer.strides:
        for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
            reach = build.mul(build.sub(wide(extent), const(1, "int64")), _wide(stride))
            first = build.add(first, build.min_(reach, const(0, "int64")))
            last = build.add(last, build.max_(reach, const(0, "int64")))
        return first, build.add(last, const(1, "int64"))
    span: Expr = const(1, "int64")
    for extent in buffer.shape:
        span = build.mul(span, wide(extent))
    return first, build.add(last, span)


def _times(value: Expr, size: int) -> Expr:
    return value if size == 1 else build.mul(value, const(size, "int64"))


class _Finder(FactMutator):
    """Compares the views of a function with their memory, under the facts in scope."""

    def __init__(self, scop: Scop, own: Iterable[Buffer], wanted: set[Buffer]) -> None:
        super().__init__(scop.func)
        self.roots = scop.pointers
        self.parameters = {*scop.func.buffers}
        self.owners: dict[Var, Buffer] = {}
        for buffer in own:
            self.owners.setdefault(buffer.data, buffer)
        self.wanted = wanted
        self.shifts: dict[Var, Expr | None] = {}
        self.open: dict[Buffer, View] = {}
        self.pointers: dict[Buffer, None] = {}
        self.held: dict[int, Bind] = {}

    def visit_expr(self, root: Expr) -> Expr:
        """Look at the loads of an expression where it stands."""
        if not root.is_leaf or isinstance(root, BufferLoad):
            pre_order_visit(root, self._look_at_load)
        return root

    def _look_at_load(self, op: Node) -> bool:
        if isinstance(op, BufferLoad):
            self.look(op.buffer)
        return True

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        self.look(op.buffer)
        return super().generic(op)

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        self.look(op.buffer)
        return op

    def visit_Bind(self, op: Bind) -> Stmt:
        if op.value.dtype.is_handle:
            self.shifts[op.var] = self.shift_of(op.value, op)
        return super().generic(op)

    def visit_Block(self, op: Block) -> Stmt:
        for match in op.match_buffers:
            self.shifts[match.buffer.data] = self.shift_of_match(match.buffer, match.source)
        return super().visit_Block(op)

    def shift_of_match(self, buffer: Buffer, source: BufferRegion) -> Expr | None:
        """How many bytes the pointer of a matched region points past the start of its memory: to the region where the
        match states no offset, else to the start of what it matches."""
        outer = source.buffer
        shift = self.start_of(outer.data)
        if shift is None or outer.axis_separators:
            return None
        if not is_const_int(buffer.elem_offset, 0):
            return shift
        # It is lowered to an address at each use, so that a guard may read what the address reads.
        offset = _wide(outer.offset_of([_wide(part.min) for part in source.region]))
        return build.add(shift, _times(offset, _bytes(outer))) if side_effect(offset) <= Purity.READS else None

    def shift_of(self, value: Expr, site: Bind) -> Expr | None:
        """How many bytes a pointer points past the start of its memory; None where the guard cannot say it."""
        end = pointed_at(value)
        if isinstance(end, Var):
            shift = self.start_of(end)
            while isinstance(value, Call) and value.op is not _ACCESS_PTR:
                value = value.args[0]
            if not isinstance(value, Call):
                return shift
            kind, at = value.args[0].dtype, value.args[2]
            offset, size = _wide(at), kind.bytes * kind.lanes
        elif isinstance(end, BufferLoad):
            buffer = end.buffer
            shift = self.start_of(buffer.data)
            offset, size = _wide(buffer.offset_of([_wide(index) for index in end.indices])), _bytes(buffer)
        else:
            return None
        if shift is None or side_effect(offset) > Purity.READS:
            return None
        if side_effect(offset) is not Purity.PURE:
            self.held[id(site)] = held = Bind(Var(f"{site.var.name}_at", DataType("int64")), offset, span=site.span)
            self.wrapping.data.add(held.var)
            offset = held.var
        return build.add(shift, _times(offset, size))

    def start_of(self, data: Var) -> Expr | None:
        """How many bytes a data variable points past the start of its memory; None where that is not known here."""
        if data in self.shifts:
            return self.shifts[data]
        return const(0, "int64") if self.roots.root(data) is data else None

    def look(self, view: Buffer) -> None:
        """Compare a view with its memory, at a place that uses it."""
        if view not in self.wanted or view in self.open:
            return
        root = self.roots.root(view.data)
        owner, shift = self.owners.get(root), self.start_of(view.data)
        if owner is None or shift is None:
            self.pointers[view] = None
            return
        mine, theirs = _bytes(view), _bytes(owner)
        first, last = _ends(view)
        have = _times(_ends(owner, _whole if owner in self.parameters else _wide)[1], theirs)
        begin = build.add(_times(first, mine), shift)
        end = build.add(_times(last, mine), shift)
        prove = self.analyzer.can_prove
        if prove(build.ge(begin, const(0, "int64"))) and prove(build.le(end, have)):
            return
        reason = f"the view {view.name} may reach outside the memory of {owner.name}"
        simplify = self.analyzer.simplify
        size = const(mine, "int64")
        if prove(build.eq(build.floormod(shift, size), const(0, "int64"))):
            start, limit = simplify(build.floordiv(shift, size)), simplify(build.floordiv(have, size))
            self.open[view] = View(owner, start, limit, 1, "element", reason)
        else:
            limit = simplify(build.sub(have, const(mine - 1, "int64")))
            self.open[view] = View(owner, simplify(shift), limit, mine, "byte", reason)
