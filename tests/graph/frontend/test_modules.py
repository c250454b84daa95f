"""Modules that programs make."""

from __future__ import annotations

import pytest

import tirlower.graph as tg
from tirlower.graph.errors import GraphError

SCRIPT = """
@I.ir_module
class Module:
    @T.prim_func
    def doubled(A: T.Buffer((4,), "float32"), C: T.Buffer((4,), "float32")):
        for i in range(4):
            C[i] = A[i] * T.float32(2)
"""


def test_graphs_states_and_kernels() -> None:
    f = tg.trace(lambda x: x + x, tg.spec((4,), "float32"))
    made = tg.module({"f": f, "g": f}, (tg.state("s", (), "int8", 1),), tg.kernels(SCRIPT))
    assert made.entry is f and [one.name for one in made.globals] == ["s"] and list(made.kernels) == ["doubled"]
    with pytest.raises(GraphError, match="a module has a graph"):
        tg.module({})


def test_what_are_no_kernels() -> None:
    with pytest.raises(GraphError, match="no script of kernels"):
        tg.kernels("def f(")
    with pytest.raises(GraphError, match="got one prim func"):
        tg.kernels("def f(A: T.Buffer((4,), 'float32')):\n    A[0] = T.float32(0)")
