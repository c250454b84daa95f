"""Structural equality of graphs and modules: up to names, constants by their contents."""

from __future__ import annotations

import hashlib

from tirlower import ir
from tirlower.graph.core.module import Module
from tirlower.graph.core.nodes import Graph
from tirlower.graph.errors import GraphError

__all__ = ["assert_structural_equal", "structural_equal", "structural_hash"]


def structural_equal(a: Graph | Module, b: Graph | Module) -> bool:
    """Whether two graphs are equal up to the names of values; or two modules, whose graphs have names that count.

    >>> import tirlower.graph as tg
    >>> f, g = (tg.trace(lambda x: x + x, tg.spec((4,), "float32")) for _ in range(2))
    >>> structural_equal(f, g), structural_equal(Module({"f": f}), Module({"f": g})), structural_equal(f, Module({"f": f}))
    (True, True, False)
    """
    if not isinstance(a, Module) or not isinstance(b, Module):
        return type(a) is type(b) and ir.structural_equal(a, b)
    return list(a.graphs) == list(b.graphs) and all(ir.structural_equal(x, y) for x, y in _pairs(a, b))


def assert_structural_equal(a: Graph | Module, b: Graph | Module) -> None:
    """Raise :class:`tirlower.ir.StructuralMismatch`, with the path to the first difference, unless the two are equal; of
    modules, whose graphs have other names, :class:`GraphError`.
    """
    if not isinstance(a, Module) or not isinstance(b, Module):
        ir.assert_structural_equal(a, b)
        return
    if list(a.graphs) != list(b.graphs):
        raise GraphError(f"the modules have other graphs: {', '.join(a.graphs)} and {', '.join(b.graphs)}")
    for x, y in _pairs(a, b):
        ir.assert_structural_equal(x, y)


def structural_hash(one: Graph | Module) -> int:
    """A hash that equal graphs, or modules, share, in every process.

    >>> import tirlower.graph as tg
    >>> f, g = (tg.trace(lambda x: x + x, tg.spec((4,), "float32")) for _ in range(2))
    >>> structural_hash(Module({"f": f})) == structural_hash(Module({"f": g})) != structural_hash(Module({"g": g}))
    True
    """
    if not isinstance(one, Module):
        return ir.structural_hash(one)
    parts = [*one.graphs, *(ir.structural_hash(part) for part in _parts(one))]
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big", signed=True)


def _parts(one: Module) -> list[object]:
    return [*one.graphs.values(), one.globals, one.kernels]


def _pairs(a: Module, b: Module) -> list[tuple[object, object]]:
    return list(zip(_parts(a), _parts(b), strict=True))
