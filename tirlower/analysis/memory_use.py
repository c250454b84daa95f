"""How much memory a function allocates: by storage scope, and as workspace."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from tirlower.analysis.arguments import the_function
from tirlower.diagnostics import ArgumentValueError
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Expr, IntImm
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.stmt import AllocBuffer, AllocConst, Seq

__all__ = [
    "allocation_bytes",
    "calculate_allocated_bytes",
    "calculate_constant_bytes",
    "calculate_workspace_bytes",
]


def allocation_bytes(buffer: Buffer) -> int:
    """The bytes of an allocation: the product of its extents and the element's size, or 0 where one is symbolic.

    >>> allocation_bytes(Buffer("A", (4, 8), "float16"))
    64
    """
    # With strides the outermost one spans the others.
    dims: list[Expr] = [*buffer.shape]
    if buffer.strides:
        dims = [*buffer.shape[:1], *buffer.strides[:1]]
    count = 1
    for dim in dims:
        if not isinstance(dim, IntImm):
            return 0
        count *= max(dim.value, 0)
    return count * buffer.dtype.bytes * buffer.dtype.lanes


_Allocation: TypeAlias = AllocBuffer | AllocConst


class _Peak(Visitor):
    """The most bytes alive at once in each scope; what a Seq allocates lives until its end."""

    def __init__(self, size_of: Callable[[_Allocation], tuple[str, int] | None]) -> None:
        self.size_of = size_of
        self.live: dict[str, int] = {}
        self.peak: dict[str, int] = {}

    def visit_expr(self, root: Expr) -> None:
        """Expressions allocate nothing."""

    def visit_Seq(self, op: Seq) -> None:
        """The scope of its declarations."""
        outer = dict(self.live)
        for stmt in op.stmts:
            self.visit(stmt)
        self.live = outer

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        """An allocation."""
        self.note(self.size_of(op))

    def visit_AllocConst(self, op: AllocConst) -> None:
        """A constant."""
        self.note(self.size_of(op))

    def note(self, found: tuple[str, int] | None) -> None:
        if found is None:
            return
        scope, size = found
        self.live[scope] = self.live.get(scope, 0) + size
        self.peak[scope] = max(self.peak.get(scope, 0), self.live[scope])


def _by_scope(op: _Allocation) -> tuple[str, int]:
    return op.buffer.scope, allocation_bytes(op.buffer)


def calculate_allocated_bytes(func_or_mod: PrimFunc | IRModule) -> dict[str, dict[str, int]]:
    """The most bytes that each function has allocated at once, by storage scope: ``{function: {scope: bytes}}``.

    A lone function is listed as ``"main"``. An allocation lives until the end of the Seq that it stands in; one
    whose size is not constant counts as 0. Constants count in their scope too.

    >>> from tirlower.ir import Evaluate
    >>> body = Seq((AllocBuffer(Buffer("A", (64,), "int8", scope="shared")), AllocBuffer(Buffer("B", (4,))), Evaluate(0)))
    >>> calculate_allocated_bytes(PrimFunc((), {}, "void", {}, body))
    {'main': {'shared': 64, 'global': 16}}
    """
    functions: Mapping[str, PrimFunc] = (
        func_or_mod.functions
        if isinstance(func_or_mod, IRModule)
        else {"main": the_function(func_or_mod, "calculate_allocated_bytes")}
    )
    result = {}
    for name, func in functions.items():
        worker = _Peak(_by_scope)
        worker.visit(func.body)
        result[name] = worker.peak
    return result


def _aligned_peak(func: PrimFunc, alignment: int, kind: type[_Allocation], what: str) -> int:
    the_function(func, f"calculate_{what.split('_')[0]}_bytes")
    if isinstance(alignment, bool) or not isinstance(alignment, int) or alignment <= 0:
        raise ArgumentValueError(f"{what} is a positive number of bytes, got {alignment!r}")

    def size_of(op: _Allocation) -> tuple[str, int] | None:
        return ("", -(-allocation_bytes(op.buffer) // alignment) * alignment) if op.__class__ is kind else None

    worker = _Peak(size_of)
    worker.visit(func.body)
    return worker.peak.get("", 0)


def calculate_workspace_bytes(func: PrimFunc, workspace_byte_alignment: int) -> int:
    """The most bytes of allocations alive at once, each rounded up to a multiple of the alignment.

    All storage scopes count, constants do not; an allocation of symbolic size counts as 0. Raises
    :class:`ArgumentValueError` for an alignment that is not positive.

    >>> from tirlower.ir import Evaluate
    >>> body = Seq((AllocBuffer(Buffer("A", (3,), "int8")), AllocBuffer(Buffer("B", (17,), "int8")), Evaluate(0)))
    >>> calculate_workspace_bytes(PrimFunc((), {}, "void", {}, body), 16)
    48
    """
    return _aligned_peak(func, workspace_byte_alignment, AllocBuffer, "workspace_byte_alignment")


def calculate_constant_bytes(func: PrimFunc, constant_byte_alignment: int) -> int:
    """The bytes of the constants in scope at once, each rounded up to a multiple of the alignment."""
    return _aligned_peak(func, constant_byte_alignment, AllocConst, "constant_byte_alignment")
