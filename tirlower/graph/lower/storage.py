"""Where the values of a graph live: inputs, constants and results in arrays of their own, the others in one arena.

Each value of the arena has its place to itself, one behind the other, aligned to a cache line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tirlower.arith.affine import Affine
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.nodes import Const, Graph, Value
from tirlower.graph.lower.sums import Bytes, Sums
from tirlower.ir import Expr

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
    sums = Sums(env)
    return sums.expr(sums.size(value))


def place(graph: Graph, env: DimEnv, used: Sequence[Value], held: Iterable[Value] = ()) -> Storage:
    """The places of all values in ``used``: those that the steps of the graph name, in order.

    Inputs, results, and what is in ``held`` have arrays of their own; of the constants only those that are used have.
    """
    written = {value: n for n, value in enumerate(graph.results)}
    elsewhere = {*graph.params, *held}
    offsets: dict[Value, Expr] = {}
    constants: dict[Const, None] = {}
    sums = Sums(env)
    at: Bytes = Affine({})
    for value in dict.fromkeys(used):
        if isinstance(value.node, Const):
            constants[value.node] = None
        elif value not in written and value not in elsewhere:
            offsets[value] = sums.expr(at)
            at += sums.size(value)
    return Storage(offsets, sums.expr(at), tuple(constants), written)
