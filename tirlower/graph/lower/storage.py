"""Where the values of a graph live: inputs, constants and results in arrays of their own, the others in one arena.

Each value of the arena has its place to itself, one behind the other, aligned to a cache line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tirlower.graph.core.dims import DimEnv, Extent, extent_expr
from tirlower.graph.core.nodes import Const, Graph, Value
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


def place(graph: Graph, env: DimEnv, used: Sequence[Value], held: Iterable[Value] = ()) -> Storage:
    """The places of all values in ``used``: those that the steps of the graph name, in order.

    Inputs, results, and what is in ``held`` have arrays of their own; of the constants only those that are used have.
    """
    written = {value: n for n, value in enumerate(graph.results)}
    elsewhere = {*graph.params, *held}
    offsets: dict[Value, Expr] = {}
    constants: dict[Const, None] = {}
    at: Expr = const(0, INT64)
    for value in dict.fromkeys(used):
        if isinstance(value.node, Const):
            constants[value.node] = None
        elif value not in written and value not in elsewhere:
            offsets[value] = at
            at = extent_expr(env.simplify(at + size_in_bytes(value, env)))
    return Storage(offsets, at, tuple(constants), written)
