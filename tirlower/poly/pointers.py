"""Which memory the data variables of a function point to.

A pointer bound to a name (``T.bind(A.data)``, ``T.LetStmt``, ``T.address_of``, ``T.reinterpret``, a matched buffer) is
the memory that it is bound to. One made in another way (a choice, a number, the result of a call) may point anywhere but
into allocations whose own pointer is never taken.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tirlower.ir import (
    HANDLE,
    AllocBuffer,
    AllocConst,
    Bind,
    Block,
    BufferLoad,
    BufferStore,
    Call,
    Expr,
    GlobalVar,
    IntImm,
    Let,
    Op,
    PointerType,
    PrimFunc,
    Var,
    post_order_visit,
)
from tirlower.ir.annotations import NOALIAS
from tirlower.ir.functor import Dispatch
from tirlower.ir.node import Node
from tirlower.poly.device_calls import pointer_uses

__all__ = ["Pointers", "pointed_at"]

# Memory that nothing else names: new, or an argument of the function (whose overlaps are looked at where it is called).
_OWN = frozenset(
    f"tir.{name}"
    for name in ("tvm_struct_get", "tvm_stack_alloca", "TVMBackendAllocWorkspace", "nd_mem_alloc_with_scope")
)


def pointed_at(value: Expr) -> Expr:
    """The part of a pointer's value that says whose memory it points to: a data variable, a load (of the element pointed
    to), or a call that is none of the known forms."""
    while isinstance(value, (Call, Let)):
        if isinstance(value, Let):
            value = value.body
            continue
        name = value.op.name if isinstance(value.op, Op) else ""
        if name == "tir.address_of":
            return value.args[0]
        if name == "tir.tvm_access_ptr":
            value = value.args[1]
        elif name == "tir.reinterpret" and value.args[0].dtype.is_handle:
            value = value.args[0]
        else:
            break
    return value


_REINTERPRET = Op.get("tir.reinterpret")
_NEW = Var("new memory", HANDLE)


class Pointers(Dispatch[Node, None, set[Var], set[Var]]):
    """The memory behind each data variable of a function, and the data variables whose memory it may change.

    ``changing`` holds every data variable through which memory is seen that the function may write, by whatever pointer:
    where its attribute ``tir.noalias`` is False, any parameter as soon as it writes one. ``writes`` says of a function that
    is called through which of the pointers that it takes it may write; None where that is not known. ``also`` is memory
    that is written by what the function was part of.
    """

    def __init__(
        self,
        func: PrimFunc,
        writes: Callable[[Call], Sequence[bool] | None] = lambda call: None,
        also: Collection[Var] = (),
    ) -> None:
        self._writes = writes
        self._overlap: set[Var] = set()
        if func.attrs.get(NOALIAS) is False:
            self._overlap = {
                *(param for param in func.params if param.dtype.is_handle),
                *(b.data for b in func.buffers),
            }
        self._sources: dict[Var, list[Expr]] = {}
        self._allocated: set[Var] = set()
        self._taken: set[Var] = set()
        self._roots: dict[Var, Var] = {}
        self._wild: set[Var] = set()
        self._given: dict[int, Var] = {}  # the addresses that callees get
        seen: set[Var] = {buffer.data for buffer in func.buffers}
        written: set[Var] = set(also)

        def look(op: Node) -> None:
            if op.__class__ in self._on:  # most nodes say nothing of pointers
                self.dispatch(op, seen, written)

        post_order_visit(func.body, look)
        written.update(self._given.values())
        for var in (*self._sources, *seen):
            self.root(var)
        self.changing = frozenset(self._changing(seen | set(self._sources), written))

    def on_BufferStore(self, op: BufferStore, seen: set[Var], written: set[Var]) -> None:
        seen.add(op.buffer.data)
        written.add(op.buffer.data)

    def on_BufferLoad(self, op: BufferLoad, seen: set[Var], written: set[Var]) -> None:
        seen.add(op.buffer.data)

    def on_Var(self, op: Var, seen: set[Var], written: set[Var]) -> None:
        if isinstance(op.type, PointerType):
            self._taken.add(op)

    def _name(self, op: Bind | Let, seen: set[Var], written: set[Var]) -> None:
        value = op.value
        if value.dtype.is_handle:
            self._sources.setdefault(op.var, []).append(value)
            while isinstance(value, Call) and value.op is _REINTERPRET:
                value = value.args[0]
            self._given.pop(id(value), None)  # a name for an address writes nothing by itself

    on_Bind = on_Let = _name

    def _allocate(self, op: AllocBuffer | AllocConst, seen: set[Var], written: set[Var]) -> None:
        self._allocated.add(op.buffer.data)

    on_AllocBuffer = on_AllocConst = _allocate

    def on_Block(self, op: Block, seen: set[Var], written: set[Var]) -> None:
        for match in op.match_buffers:
            if match.buffer.data is not match.source.buffer.data:
                self._sources.setdefault(match.buffer.data, []).append(match.source.buffer.data)

    def on_Call(self, op: Call, seen: set[Var], written: set[Var]) -> None:
        name = op.op.name if isinstance(op.op, Op) else ""
        if name == "tir.tvm_access_ptr":
            mask = op.args[4]
            if (not isinstance(mask, IntImm) or mask.value & 2) and isinstance(op.args[1], Var):
                written.add(op.args[1])
            return
        if name == "tir.address_of" and isinstance(op.args[0], BufferLoad):
            self._taken.add(op.args[0].buffer.data)
            self._given[id(op)] = op.args[0].buffer.data
            return
        uses = pointer_uses(op)
        if uses is not None:
            written.update(use.data for use in uses if use.is_write)
            return
        pointers = [arg for arg in op.args if arg.dtype.is_handle]
        told = self._writes(op) if isinstance(op.op, GlobalVar) else None
        for n, arg in enumerate(pointers):
            if told is not None and len(told) == len(pointers) and not told[n]:
                self._given.pop(id(arg), None)
            elif isinstance(arg, Var) and name != "tir.reinterpret":
                written.add(arg)

    def root(self, var: Var) -> Var:
        """The variable that stands for the memory that ``var`` points into."""
        found = self._roots.get(var)
        if found is None:
            self._roots[var] = var  # of one bound to itself nothing is known
            found = self._roots[var] = self._find(var)
        return found

    def _find(self, var: Var) -> Var:
        values = self._sources.get(var)
        if values is None:
            return var
        found = {self._root_of(value) for value in values}
        only = found.pop()
        if found or only is None:
            self._wild.add(var)
            return var
        return var if only is _NEW else self.root(only)

    def _root_of(self, value: Expr) -> Var | None:
        end = pointed_at(value)
        if isinstance(end, BufferLoad):
            return end.buffer.data if value.dtype.is_handle and end is not value else None
        if isinstance(end, Var):
            return end
        return _NEW if isinstance(end, Call) and isinstance(end.op, Op) and end.op.name in _OWN else None

    def is_wild(self, data: Var) -> bool:
        """Whether it is not known which memory a root is."""
        return data in self._wild

    @property
    def any_wild(self) -> bool:
        """Whether there is a pointer of which that is not known."""
        return bool(self._wild)

    def reachable(self, root: Var) -> bool:
        """Whether a pointer of unknown value may point into the memory of a root."""
        return root not in self._allocated or root in self._taken

    def may_meet(self, one: Var, other: Var) -> bool:
        """Whether two roots may be one memory."""
        if one is other:
            return True
        return (one in self._wild and self.reachable(other)) or (other in self._wild and self.reachable(one))

    def _changing(self, seen: set[Var], written: set[Var]) -> set[Var]:
        roots = {self.root(var) for var in written}
        if roots & self._overlap:
            roots |= self._overlap
        if not self._wild:
            return written | {var for var in seen if self.root(var) in roots}
        return written | {var for var in seen if any(self.may_meet(self.root(var), root) for root in roots)}
