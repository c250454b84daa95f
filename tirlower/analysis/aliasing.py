"""Which memory may be the same: data pointers of a function, and accesses to one place."""

from __future__ import annotations

from tirlower.analysis.purity import side_effect
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Call, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.op import Op, Purity
from tirlower.ir.stmt import AllocBuffer, AllocConst, Block, BufferStore
from tirlower.ir.structural import structural_equal

__all__ = ["Aliases", "same_place"]

_ADDRESS = Op.get("tir.address_of")


class _Pointers(Visitor):
    """The allocations of a function, and the data variables whose pointer is used other than by loads and stores."""

    def __init__(self) -> None:
        self.allocated: set[Var] = set()
        self.taken: set[Var] = set()

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        self.allocated.add(op.buffer.data)
        self.generic(op)

    def visit_AllocConst(self, op: AllocConst) -> None:
        self.allocated.add(op.buffer.data)

    def visit_Block(self, op: Block) -> None:
        # A matched buffer has a data variable of its own.
        self.taken |= {match.source.buffer.data for match in op.match_buffers}
        self.generic(op)

    def visit_Var(self, op: Var) -> None:
        if isinstance(op.type, PointerType):
            self.taken.add(op)

    def visit_Call(self, op: Call) -> None:
        if op.op is _ADDRESS and isinstance(op.args[0], BufferLoad):
            self.taken.add(op.args[0].buffer.data)


class Aliases:
    """Which data variables of a function may point to the same memory.

    Allocations are apart from each other and from the parameters; parameters are apart from each other where the
    function says ``tir.noalias``. Any other pointer (one bound to a value, or matched by a block) may be that of
    whatever had its pointer taken.
    """

    def __init__(self, func: PrimFunc) -> None:
        found = _Pointers()
        found.visit(func.body)
        self.local = frozenset(found.allocated)
        """The data variables of the function's own allocations."""
        self._taken = found.taken
        self._params = {buffer.data for buffer in func.buffers} | set(func.params)
        self._noalias = bool(func.attrs.get("tir.noalias"))

    def is_known(self, data: Var) -> bool:
        """Whether it is an allocation of the function or a parameter, rather than a pointer bound to some value."""
        return data in self.local or data in self._params

    def is_taken(self, data: Var) -> bool:
        """Whether its pointer is used other than by loads and stores."""
        return data in self._taken

    def may_alias(self, a: Var, b: Var) -> bool:
        """Whether two data variables may point into the same memory."""
        if a is b:
            return True
        known_a, known_b = self.is_known(a), self.is_known(b)
        if known_a and known_b:
            return not self._noalias and a not in self.local and b not in self.local
        # Taken, or passed in, where the other one's value may come from.
        return all(not known or v in self._taken or v in self._params for v, known in ((a, known_a), (b, known_b)))


def same_place(a: BufferLoad | BufferStore, b: BufferLoad | BufferStore) -> bool:
    """Whether two accesses certainly name the same elements, masked alike, by indices that only read."""
    if a.buffer is not b.buffer:
        return False
    mask = a.predicate is b.predicate or (
        a.predicate is not None and b.predicate is not None and structural_equal(a.predicate, b.predicate)
    )
    indices = zip(a.indices, b.indices, strict=True)
    return (
        mask
        and all(structural_equal(i, j) for i, j in indices)
        and all(side_effect(i) <= Purity.READS for i in a.indices)
    )
