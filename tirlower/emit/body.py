"""What is known of a function's memory before its code is emitted: what it writes, allocates, and keeps apart."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tirlower.diagnostics import deep_recursion
from tirlower.emit.emitter import FunctionState, ModuleState, Root
from tirlower.emit.llvm_text import Attachments
from tirlower.emit.types import memory_bytes
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Call, IntImm, Let, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.op import GlobalVar, Op, Purity
from tirlower.ir.stmt import AllocBuffer, AllocConst, Bind, BufferStore

__all__ = ["Bodies", "Body", "give_alias_scopes", "param_align"]

#: buffers beyond so many get no alias scopes: the lists of others grow with the square of their number
_MOST_SCOPES: Final = 64

_ADDRESS: Final = Op.get("tir.address_of")
_ACCESS: Final = Op.get("tir.tvm_access_ptr")
_PREFETCH: Final = Op.get("tir.prefetch")
_NULL: Final = Op.get("tir.isnullptr")
_JUMPS: Final = (Op.get("tir.ret"), Op.get("tir.break_loop"), Op.get("tir.continue_loop"))


class Body(Visitor):
    """What a body does with memory: which data pointers it writes through, or lets out; what it allocates."""

    def __init__(self, func: PrimFunc, bodies: Bodies | None = None) -> None:
        self._bodies = bodies
        self.written: set[Var] = set()
        self.allocated: dict[Var, bool] = {}
        #: whether it calls what may do anything
        self.calls_out = False
        self._read_only: set[int] = set()
        with deep_recursion():
            self.visit(func.body)

    def visit_BufferStore(self, op: BufferStore) -> None:
        """A store writes."""
        self.written.add(op.buffer.data)
        self.generic(op)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        """An allocation."""
        self.allocated[op.buffer.data] = True
        self.generic(op)

    def visit_AllocConst(self, op: AllocConst) -> None:
        """A constant."""
        self.allocated[op.buffer.data] = False

    def visit_Bind(self, op: Bind) -> None:
        """A second name of a pointer may be written through."""
        if isinstance(op.value, Var) and op.value.dtype.is_handle:
            self.written.add(op.value)
        self.generic(op)

    def visit_Let(self, op: Let) -> None:
        """The same inside an expression."""
        if isinstance(op.value, Var) and op.value.dtype.is_handle:
            self.written.add(op.value)

    def visit_Call(self, op: Call) -> bool | None:
        """Pointers that are let out may be written through, unless the call says that it reads."""
        callee = op.op
        self.calls_out |= not isinstance(callee, Op) or (callee.purity is Purity.OPAQUE and callee not in _JUMPS)
        if callee is _ACCESS:
            data, mask = op.args[1], op.args[4]
            if isinstance(data, Var) and not (isinstance(mask, IntImm) and not mask.value & 2):
                self.written.add(data)
            return None
        if callee is _ADDRESS and isinstance(op.args[0], BufferLoad):
            if id(op) not in self._read_only:
                self.written.add(op.args[0].buffer.data)
            return None
        if callee is _PREFETCH or callee is _NULL:
            self._read_only.add(id(op.args[0]))
            return None
        read = self._bodies.read_only(callee) if self._bodies is not None and isinstance(callee, GlobalVar) else ()
        for at, arg in enumerate(op.args):
            if at in read:
                self._read_only.add(id(arg))
            elif isinstance(arg, Var) and arg.dtype.is_handle:
                self.written.add(arg)
        return None


class Bodies:
    """The bodies of a module's functions: a pointer that is let out to one of them is written through if that one does.

    >>> from tirlower.script import parse
    >>> mod = parse('''
    ... @I.ir_module
    ... class M:
    ...     @T.prim_func(private=True)
    ...     def copy(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    ...         for i in range(4):
    ...             B[i] = A[i]
    ...     @T.prim_func
    ...     def main(X: T.Buffer((4,), "int32"), Y: T.Buffer((4,), "int32")):
    ...         M.copy(X.data, Y.data)
    ... ''')
    >>> [var.name for var in Bodies(mod.functions).of("main").written]
    ['Y']
    """

    def __init__(self, functions: Mapping[str, PrimFunc]) -> None:
        self._functions = functions
        self._keys = {str(f.attrs["global_symbol"]): key for key, f in functions.items() if "global_symbol" in f.attrs}
        self._keys.update({key: key for key in functions})
        self._known: dict[str, Body | None] = {}

    def of(self, key: str) -> Body:
        """The body of a function; of one in a circle of calls, what those that are not looked at yet do is not known."""
        found = self._known.get(key)
        if found is None:
            self._known[key] = None
            found = self._known[key] = Body(self._functions[key], self)
        return found

    def read_only(self, callee: GlobalVar) -> frozenset[int]:
        """The positions of the pointers that a function takes and does not write through, nor lets out."""
        key = self._keys.get(callee.name)
        if key is None or (key in self._known and self._known[key] is None):
            return frozenset()
        func, body = self._functions[key], self.of(key)
        return frozenset(
            at for at, param in enumerate(func.params)
            if param in func.buffer_map and func.buffer_map[param].data not in body.written
        )  # fmt: skip


def param_align(buffer: Buffer) -> int:
    """What is known of the alignment of a parameter's data pointer."""
    natural = memory_bytes(buffer.dtype)
    return max(buffer.align, natural)


def give_alias_scopes(state: ModuleState, kernel: FunctionState, func: PrimFunc, allocated: Iterable[Var]) -> None:
    """Tell LLVM that distinct buffers do not overlap: allocations never, parameters where the function says so."""
    distinct = list(allocated)
    if func.attrs.get("tir.noalias"):
        distinct = [buffer.data for buffer in func.buffers] + distinct
    distinct = list(dict.fromkeys(distinct))[:_MOST_SCOPES]
    if len(distinct) < 2:
        return
    module = state.module
    domain = module.alias_domain(kernel.name)
    scopes = [module.alias_scope(domain, var.name) for var in distinct]
    made: list[Attachments] = module.alias_attachments(scopes)
    for var, attachments in zip(distinct, made, strict=True):
        root = kernel.roots.get(var)
        if root is None:
            root = kernel.roots[var] = Root(var.name)
        root.attachments = attachments
