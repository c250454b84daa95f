"""Where the values of a graph live: inputs, constants and results in arrays of their own, the others in one arena.

Each value of the arena has its place to itself, one behind the other, aligned to a cache line.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tirlower.graph.core.dims import DimEnv, Extent, extent_expr
from tirlower.graph.core.nodes import Const, Graph, Op, Value
from tirlower.ir import ALLOC_ALIGNMENT, Expr, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import INT64

__all__ = ["Storage", "place", "size_in_bytes"]


@dataclass(frozen=True)
class Storage:
    """The plan: byte offsets of values in the arena, and its size; which values are written to which results."""

    offsets: Mapping[Value, Expr]
    arena: Expr
    constants: tuple[Const, ...]
    written: Mapping[Value, int]
    """The result that a value is made in; a result that is no value of its own is copied."""


def size_in_bytes(value: Value, env: DimEnv) -> Expr:
    """The bytes of a value, rounded up to a cache line."""
    total: Extent = (value.dtype.bits + 7) // 8
    for extent in value.extents:
        total = env.simplify(extent_expr(total) * extent)
    line = const(ALLOC_ALIGNMENT, INT64)
    return extent_expr(env.simplify(build.floordiv(extent_expr(total) + (ALLOC_ALIGNMENT - 1), line) * line))


def place(graph: Graph, env: DimEnv, used: frozenset[Value]) -> Storage:
    """The places of all values; of the constants only those in ``used``, which kernels read as arrays."""
    written: dict[Value, int] = {}
    for n, value in enumerate(graph.results):
        if isinstance(value.node, Op):
            written.setdefault(value, n)
    offsets: dict[Value, Expr] = {}
    at: Expr = const(0, INT64)
    for op in graph.ops:
        for value in op.results:
            if value not in written:
                offsets[value] = at
                at = extent_expr(env.simplify(at + size_in_bytes(value, env)))
    constants = tuple(n for n in graph.nodes if isinstance(n, Const) and n.results[0] in used)
    return Storage(offsets, at, constants, written)
