"""Compiling graphs."""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.driver.api import build
from tirlower.graph.core.nodes import Graph
from tirlower.graph.lower.driver import lower
from tirlower.graph.passes.expand import expand
from tirlower.graph.run.executable import Executable
from tirlower.machine.target import Target

__all__ = ["Options", "compile"]


@dataclass(frozen=True)
class Options:
    """How a graph is compiled. ``num_threads`` is how many threads its parallel loops use; None: as many as there are cores."""

    num_threads: int | None = None


def compile(graph: Graph, target: str | Target = "llvm", options: Options = Options()) -> Executable:
    """A graph as machine code: one kernel an operation, and a driver that calls them.

    Raises :class:`GraphError` for graphs that cannot be compiled, and what :func:`tirlower.build` raises.

    >>> import numpy as np
    >>> from tirlower.graph.ops.builder import GraphBuilder
    >>> b = GraphBuilder("rows")
    >>> exe = compile(b.finish(b.op("sum", b.param("x", (2, 3), "float32"), axis=1)))
    >>> exe(np.ones((2, 3), "float32"))
    array([3., 3.], dtype=float32)
    """
    lowered = lower(expand(graph))
    module = build(lowered.module, target)
    return Executable(graph, lowered, module)
