"""Compiling graphs through the public names."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg


def test_an_executable_shows_itself() -> None:
    exe = tg.compile(tg.trace(lambda x: np.sqrt(x) + 1, tg.spec((4,), "float32")))
    assert repr(exe).startswith("<tirlower.graph.Executable")
    assert set(exe.kernels) == {"sqrt_4", "add_4"} and "main" in exe.module
    kernel = exe.kernels["sqrt_4"].func.with_attr("global_symbol", "root")
    x, out = np.array([1, 4, 9, 16], "float32"), np.empty(4, "float32")
    tl.build(kernel)(x, out)
    assert out.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize("target", ["llvm", "c"])
def test_targets(target: str) -> None:
    exe = tg.compile(tg.trace(lambda x: x * 2 + 1, tg.spec((4,), "int32")), target)
    assert exe(np.arange(4, dtype="int32")).tolist() == [1, 3, 5, 7]


def test_changing_a_node_compiles_its_kernel_and_no_other(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path))

    def compiled(axis: int) -> tg.Executable:
        x = tg.spec((40, 40), "float32")
        return tg.compile(tg.trace(lambda x: (np.exp(x) @ x).max(axis=axis) * np.sin(x.sum(axis=0)), x))

    first, second = compiled(0), compiled(1)
    changed = set(second.native._artifact.spec.module) - second.native._artifact.reused
    x = np.random.default_rng(0).random((40, 40), "float32")
    np.testing.assert_allclose(second(x), (np.exp(x) @ x).max(axis=1) * np.sin(x.sum(axis=0)), rtol=1e-4)
    assert changed == {"max_40"} and not first.native._artifact.reused


def test_a_graph_is_compiled_in_a_process_that_imports_only_the_room() -> None:
    program = (
        "import numpy as np, tirlower.graph as tg\n"
        "exe = tg.compile(tg.trace(lambda x: np.exp(x), tg.spec((3,), 'float32')))\n"
        "print(exe(np.zeros(3, 'float32')).tolist())"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ran.stdout == "[1.0, 1.0, 1.0]\n", ran


def test_a_value_of_another_graph_is_refused() -> None:
    """It would have memory that nobody writes, so that results were what stood there before."""
    other, b = tg.GraphBuilder("other"), tg.GraphBuilder("own")
    foreign = other.op("exp", other.param("y", (4,), "float32"))
    b.param("x", (4,), "float32")
    graph = b.finish(b.op("tanh", foreign))
    with pytest.raises(tg.GraphError, match=r"'own': operand 0 of <Op tanh .*'exp', is no parameter"):
        tg.compile(graph)
    with pytest.raises(tg.GraphError, match=r"tanh .* reads 'exp', which is no parameter"):
        tg.interpret(graph, np.ones(4, "float32"))


def test_what_comes_from_the_cache_imports_neither_rules_nor_reports(tmp_path: pathlib.Path) -> None:
    """Half of the time to a model's first result is imports."""
    program = (
        "import sys, numpy as np, tirlower.graph as tg\n"
        "x = tg.spec((6, 6), 'float32')\n"
        "exe = tg.compile(tg.trace(lambda a: np.exp(a) @ a, x))\n"
        "exe(np.zeros((6, 6), 'float32'))\n"
        "rooms = ('arith.rules', 'graph.run.report', 'graph.run.tracing', 'analysis', 'emit.expressions', 'poly')\n"
        "print([room for room in rooms if f'tirlower.{room}' in sys.modules])\n"
    )
    env = {**os.environ, "TIRLOWER_CACHE_DIR": str(tmp_path)}
    first, second = (
        subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=120)
        for _ in range(2)
    )
    assert "'arith.rules'" in first.stdout, first
    assert second.stdout == "[]\n", second


def test_extents_that_are_equal_at_few_sizes_alone() -> None:
    """A kernel of them would read outside at all other sizes, in every call: it says what each call checks."""
    exe = tg.compile(
        tg.parse("""
@tg.graph
def f(x: tg.Tensor(("C",), "float32"), y: tg.Tensor((3, "C * 2"), "float32")):
    tg.assume("C * 2", "C")
    z: tg.Tensor((3, "C * 2"), "float32") = tg.add(y, x)
    return z
""")
    )
    assert exe(np.ones(0, "float32"), np.ones((3, 0), "float32")).shape == (3, 0)
    with pytest.raises(tl.ArgumentError, match=r"needs C \* 2 and C to be equal, got 4 and 2"):
        exe(np.ones(2, "float32"), np.ones((3, 4), "float32"))
