"""Modules as a program makes them, which is also what their text says when Python runs it.

>>> import tirlower.graph as tg
>>> f = tg.trace(lambda x: x + x, tg.spec((4,), "float32"))
>>> module({"twice": f}, globals=(tg.state("total", (), "float32", 0.0),))
<Module twice: 1 globals, 0 kernels>
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tirlower.diagnostics import ScriptError
from tirlower.graph.core.module import Module
from tirlower.graph.core.nodes import Graph
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.control import State
from tirlower.ir import IRModule
from tirlower.script.parse import parse

__all__ = ["kernels", "module"]


def module(graphs: Mapping[str, Graph], globals: Sequence[State] = (), kernels: IRModule | None = None) -> Module:
    """Graphs by name, of which the first is the entry, with states and kernels. Raises :class:`GraphError` for no graph."""
    return Module(graphs, [one.held for one in globals], kernels)


def kernels(script: str) -> IRModule:
    """The prim funcs of the script of a module. Raises :class:`GraphError` for what is none."""
    try:
        made = parse(script)
    except ScriptError as error:
        raise GraphError(f"this is no script of kernels: {error.message}") from None
    if not isinstance(made, IRModule):
        raise GraphError("kernels are the functions of a module, got one prim func", help="tg.prim_func reads one")
    return made
