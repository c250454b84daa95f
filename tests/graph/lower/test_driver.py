"""The driver and the kernels of a graph: their module is a program like others, which the interpreter runs too."""

from __future__ import annotations

import numpy as np

import tirlower as tl
import tirlower.graph as tg
from tirlower.graph.lower.driver import lower, with_copied_results
from tirlower.graph.ops.evaluate import extent_value
from tirlower.graph.passes.expand import expand
from tirlower.ir import ALLOC_ALIGNMENT, verify_well_formed


def layer(x, w, c):
    return tg.nn.softmax(np.maximum(x @ w + c, 0)), x.sum()


W, C = np.linspace(-1, 1, 30, dtype="float32").reshape(6, 5), np.linspace(0, 1, 5, dtype="float32")


def test_the_interpreter_of_prim_funcs_runs_main() -> None:
    n = tg.dim("N", 1, 9)
    for rows in (3, n):
        graph = tg.trace(layer, tg.spec((rows, 6), "float32"), W, C)
        lowered = lower(expand(graph))
        verify_well_formed(lowered.module)
        x = np.random.default_rng(3).standard_normal((3, 6), dtype="float32")
        dims = dict.fromkeys(lowered.dims, 3)
        out = [np.empty((3, 5), "float32"), np.empty((), "float32")]
        arena = tl.aligned_empty((extent_value(lowered.storage.arena, dims) + ALLOC_ALIGNMENT,), "uint8")
        constants = [np.array(c.numpy()) for c in lowered.constants]
        tl.interpret(lowered.module, x, *out, *constants, arena, *dims.values())
        for got, wanted in zip(out, tg.interpret(graph, x), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5)


def test_the_calls_of_main_are_proved_to_be_given_apart_memory() -> None:
    """Kernels are called in the version for arrays that share no memory: there is no other."""
    graph = tg.trace(layer, tg.spec((3, 6), "float32"), W, C)
    names = set(lower(expand(graph)).module)
    exe = tg.compile(graph)
    text = str(exe.native["main"].source("llvm"))
    assert "_overlap" not in text and names == {"main", *exe.kernels}


def test_equal_operations_have_one_kernel_and_others_their_own() -> None:
    graph = tg.trace(lambda x: np.exp(np.exp(x)) + np.exp(x[:2]).sum(), tg.spec((4,), "float32"))
    calls = lower(expand(graph)).calls
    assert {name: len(ops) for name, ops in calls.items() if name.startswith("exp")} == {"exp_4": 2, "exp_2": 1}


def test_attributes_and_numbers_tell_kernels_apart() -> None:
    graph = tg.trace(
        lambda x: (x * 2.0, x * 3.0, x * 2.0 + 1, x.sum(axis=0), x.sum(axis=1)), tg.spec((4, 4), "float32")
    )
    calls = lower(expand(graph)).calls
    assert sorted(len(ops) for name, ops in calls.items() if name.startswith("multiply")) == [1, 2]
    assert len([name for name in calls if name.startswith("sum")]) == 2


def test_results_that_are_no_values_of_their_own_are_copied() -> None:
    graph = tg.trace(lambda x: (x, x + 1), tg.spec((4,), "float32"))
    copied = with_copied_results(graph)
    assert [op.name for op in copied.ops] == ["add", "identity"] and with_copied_results(copied) is copied


def test_a_graph_named_main_with_an_input_named_main() -> None:
    graph = tg.trace(lambda main, arena, result0: main + arena * result0, *[tg.spec((3,), "float32")] * 3)
    x = np.arange(3, dtype="float32")
    np.testing.assert_array_equal(tg.compile(graph)(x, x, x), x + x * x)
