"""Compiled graphs beside the reference: every operation, static, with a dim, with nothing in it; and what a call does."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tests.graph.run.comparing import assert_as_reference
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.registry import definition, names

RANDOM = np.random.default_rng(5)


def floats(*shape: int, dtype: str = "float32") -> Any:
    return RANDOM.uniform(-2, 2, shape).astype(dtype)


def integers(*shape: int, low: int = -9, high: int = 9, dtype: str = "int32") -> Any:
    return RANDOM.integers(low, high, shape).astype(dtype)


X, Y = floats(4, 6), floats(4, 6)
IMAGE = floats(2, 4, 9, 8)
ONES = {"acosh": floats(4, 6) ** 2 + 1, "acos": X / 2.5, "asin": X / 2.5, "atanh": X / 2.5}
POSITIVE = ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "log_sum")
PLACES = integers(4, 3, low=0, high=6, dtype="int64")
#: operands and attributes of the operations that take others than one or two tensors of floats
SPECIAL: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "all": ((X > 0,), {"axis": 1}),
    "any": ((X > 0,), {}),
    "arange": ((), {"stop": 7, "step": 2}),
    "attention": ((floats(2, 3, 5, 4), floats(2, 3, 6, 4), floats(2, 3, 6, 4)), {"causal": True}),
    "average_pool": ((IMAGE,), {"kernel": (3, 2), "strides": (2, 2), "pads": (1, 0, 1, 1)}),
    "batch_norm": ((IMAGE, floats(4), floats(4), floats(4), floats(4) ** 2), {}),
    "begins_run": ((np.array([1, 1, 2, np.nan, np.nan, 0], "float32"),), {}),
    "bitwise_and": ((integers(4, 6), integers(4, 6)), {}),
    "bitwise_invert": ((integers(4, 6),), {}),
    "bitwise_left_shift": ((integers(4, 6), integers(4, 6, low=0)), {}),
    "bitwise_or": ((integers(4, 6), integers(1, 6)), {}),
    "bitwise_right_shift": ((integers(4, 6), integers(4, 6, low=0)), {}),
    "bitwise_xor": ((integers(4, 6), integers(4, 6)), {}),
    "broadcast_to": ((floats(4, 1),), {"shape": (3, 4, 6)}),
    "cast": ((X,), {"dtype": "int8"}),
    "channel_sum_square": ((IMAGE,), {"size": 3}),
    "chosen_elements": ((X, np.array([2, 0, -1], "int64")), {"axis": 0}),
    "clip": ((X, -0.5, 0.5), {}),
    "compress": ((X[:, 0] > 0, X), {"axis": 0, "size": 5}),
    "concat": ((X, Y, floats(2, 6)), {"axis": 0}),
    "condition_of": ((X[:, 0] > 0, X), {"axis": 0}),
    "contract": ((X, floats(6, 3)), {"equation": "ik,kj->ij"}),
    "conv": ((IMAGE, floats(6, 2, 3, 3)), {"pads": (1, 1, 1, 0), "strides": (2, 1), "groups": 2}),
    "conv_transpose": ((IMAGE, floats(4, 3, 2, 3)), {"strides": (2, 2), "pads": (0, 1, 1, 0)}),
    "cumprod": ((X,), {"axis": 1, "reverse": True}),
    "cumsum": ((X,), {"axis": 0, "exclusive": True}),
    "depth_to_space": ((IMAGE,), {"block": 2}),
    "dim_value": ((), {"value": 5}),
    "einsum": ((X, floats(5, 6), floats(5)), {"equation": "ik,jk,j->ij"}),
    "expand": ((floats(4, 1),), {"shape": (4, 6)}),
    "expand_dims": ((X,), {"axis": 1}),
    "eye": ((), {"rows": 4, "columns": 3, "k": 1}),
    "full": ((), {"shape": (2, 3), "value": 1.5}),
    "gather": ((X, PLACES % 4), {"axis": 0}),
    "gather_elements": ((X, PLACES), {"axis": 1}),
    "gather_nd": ((X, np.array([[1, 2], [-1, 0]], "int64")), {}),
    "gemm": ((X, floats(3, 6), floats(3)), {"trans_b": True, "alpha": 0.5}),
    "global_average_pool": ((IMAGE,), {}),
    "global_lp_pool": ((IMAGE,), {}),
    "global_max_pool": ((IMAGE,), {}),
    "group_norm": ((IMAGE, floats(4), floats(4)), {"groups": 2}),
    "instance_norm": ((IMAGE, floats(4), floats(4)), {}),
    "layer_norm": ((X, floats(6), floats(6)), {}),
    "lp_pool": ((IMAGE,), {"kernel": (2, 2)}),
    "lrn": ((IMAGE,), {"size": 3}),
    "leading": ((X,), {"axis": 1, "count": 2}),
    "logical_and": ((X > 0, Y > 0), {}),
    "logical_not": ((X > 0,), {}),
    "logical_or": ((X > 0, Y > 0), {}),
    "logical_xor": ((X > 0, Y > 0), {}),
    "matmul": ((floats(2, 4, 6), floats(6, 3)), {}),
    "max_pool": ((IMAGE,), {"kernel": (3, 3), "strides": (2, 2), "ceil_mode": True}),
    "max_pool_with_index": ((IMAGE,), {"kernel": (3, 2), "pads": (1, 0, 1, 1)}),
    "mean_variance_norm": ((IMAGE,), {}),
    "nonzero": ((PLACES,), {"size": 20}),
    "nonzero_places": ((PLACES,), {"size": 5}),
    "one_hot": ((PLACES,), {"depth": 6}),
    "pad": ((X,), {"pads": ((1, 0), (2, 3)), "value": 7.0}),
    "pool_count": ((IMAGE,), {"kernel": (3, 2), "pads": (1, 0, 1, 1)}),
    "prelu": ((X, floats(6)), {}),
    "repeat": ((X,), {"repeats": 2, "axis": 1}),
    "reshape": ((X,), {"shape": (3, -1)}),
    "resample": ((X, PLACES.T[:, :2] % 6, floats(3, 2)), {"axis": 1}),
    "resize": ((IMAGE,), {"shape": (2, 4, 13, 5), "mode": "linear"}),
    "reverse_sequence": ((X, np.array([3, 1, 4, 0, 2, 4], "int64")), {}),
    "rms_norm": ((X, floats(6)), {}),
    "roll": ((X,), {"shift": (1, -2), "axis": (0, 1)}),
    "run_lengths": ((np.array([0, 2, 5, -1, -1], "int64"), floats(6)), {"size": 4}),
    "scatter_elements": ((X, np.argsort(floats(4, 6), 1)[:, :3], floats(4, 3)), {"axis": 1}),
    "scatter_nd": ((X, np.array([[1, 2], [3, 0]], "int64"), floats(2)), {}),
    "slice": ((X,), {"starts": (3, 1), "ends": (-5, 6), "steps": (-1, 2)}),
    "space_to_depth": ((floats(2, 4, 6, 8),), {"block": 2}),
    "split": ((X,), {"parts": 3, "axis": 1}),
    "squeeze": ((floats(4, 1, 6),), {"axis": 1}),
    "stack": ((X, Y), {"axis": 1}),
    "sum_pool": ((IMAGE,), {"kernel": (2, 2)}),
    "tile": ((X,), {"repeats": (2, 3)}),
    "topk": ((X,), {"k": 3, "axis": 0}),
    "unique": ((PLACES,), {"size": 7}),
    "unravelled": ((np.array([3, 0, -1, 11], "int64"),), {"shape": (4, 3)}),
    "where": ((X > 0, X, floats(6)), {}),
}


def operands_of(name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if name in SPECIAL:
        return SPECIAL[name]
    if name in ONES:
        return (ONES[name],), {}
    if name in POSITIVE:
        return (np.abs(X) + np.float32(0.01),), {}
    needed = [p for p in definition(name).parameters if not p.optional]
    first = np.abs(X) if name == "power" else X
    return ((first, Y) if len(needed) == 2 else (first,)), {}


@pytest.mark.parametrize("letters", ["abc", "defg", "hijklm", "nopqr", "stuvwxyz"])
def test_every_operation_compiled_is_as_the_reference(letters: str) -> None:
    b = GraphBuilder("all")
    results: list[Any] = []
    arrays: list[Any] = []
    for name in [n for n in names() if n[0] in letters]:
        given, attrs = operands_of(name)
        inputs = [b.param("x", a.shape, str(a.dtype)) if isinstance(a, np.ndarray) else a for a in given]
        arrays += [a for a in given if isinstance(a, np.ndarray)]
        results += b.ops(name, *inputs, **attrs)
    assert_as_reference(b.finish(results), *arrays)


def test_every_operation_has_operands_in_the_table() -> None:
    assert set(SPECIAL) <= set(names())


def mlp(x: Any, w: Any, c: Any) -> Any:
    return tg.nn.softmax(np.maximum(x @ w + c, 0), axis=-1)


def test_a_dim_takes_every_value_that_is_stated() -> None:
    batch = tg.dim("B", 0, 40)
    graph = tg.trace(mlp, tg.spec((batch, 6), "float32"), floats(6, 5), floats(5))
    exe = tg.compile(graph)
    for rows in (0, 1, 2, 7, 40):
        assert_as_reference(graph, floats(rows, 6), exe=exe)
    with pytest.raises(tl.ArgumentValueError, match=r"dim B = 41 \(axis 0 of input 'x'\): stated is 0 <= B <= 40"):
        exe(floats(41, 6))
    with pytest.raises(tl.ArgumentValueError, match="input 'x': axis 1 has extent 7"):
        exe(floats(3, 7))
    with pytest.raises(tl.ArgumentValueError, match="input 'x' has 2 axes"):
        exe(floats(3))


def test_several_dims_and_expressions_of_them() -> None:
    m, k = tg.dim("M", 1, 9), tg.dim("K", 1, 9)
    graph = tg.trace(
        lambda a, b: (np.concatenate([a @ b, b * 2]), (a @ b).reshape(-1)),
        tg.spec((m, k), "float32"),
        tg.spec((k, 3), "float32"),
    )
    exe = tg.compile(graph)
    for rows, depth in ((1, 1), (4, 7), (9, 2)):
        assert_as_reference(graph, floats(rows, depth), floats(depth, 3), exe=exe)
    with pytest.raises(tl.ArgumentValueError, match="axis 0 has extent 4, expected K = 5"):
        exe(floats(2, 5), floats(4, 3))


def test_dims_that_are_taken_to_be_equal_are_compared_at_every_call() -> None:
    m, n = tg.dim("M", 1, 9), tg.dim("N", 1, 9)
    graph = tg.trace(lambda a, b: a + b, tg.spec((m,), "float32"), tg.spec((n,), "float32"))
    exe = tg.compile(graph)
    assert_as_reference(graph, floats(4), floats(4), exe=exe)
    with pytest.raises(tl.ArgumentValueError, match="needs M and N to be equal, got 4 and 5"):
        exe(floats(4), floats(5))
    assert "M == N" in str(exe.report())


def test_a_dim_that_no_input_has_alone_is_refused() -> None:
    n = tg.dim("N", 1, 9)
    with pytest.raises(tg.GraphError, match="the dim 'N' stands only inside an expression"):
        tg.trace(lambda a: a + 1, tg.spec((n * 2,), "float32"))


def test_results_never_alias() -> None:
    def same(x: Any) -> Any:
        y = x + 1
        return x, y, y, np.float32(3) * np.ones(2, "float32")

    exe = tg.compile(tg.trace(lambda x: same(x)[:3], tg.spec((5,), "float32")))
    x = floats(5)
    one, two, three = exe(x)
    assert not np.shares_memory(one, x) and not np.shares_memory(two, three)
    np.testing.assert_array_equal(one, x)
    np.testing.assert_array_equal(two, three)


def test_structures_of_results() -> None:
    made = tg.compile(tg.trace(lambda x: {"double": x * 2, "half": x / 2}, tg.spec((3,), "float32")))(floats(3))
    assert list(made) == ["double", "half"]
    out = {"double": np.empty(3, "float32"), "half": np.empty(3, "float32")}
    exe = tg.compile(tg.trace(lambda x: {"double": x * 2, "half": x / 2}, tg.spec((3,), "float32")))
    exe(np.ones(3, "float32"), out=out)
    assert out["double"].tolist() == [2, 2, 2] and out["half"].tolist() == [0.5, 0.5, 0.5]


def test_inputs_by_name_and_wrong_ones() -> None:
    exe = tg.compile(tg.trace(lambda a, b: a - b, tg.spec((3,), "float32"), tg.spec((3,), "float32")))
    x, y = floats(3), floats(3)
    np.testing.assert_array_equal(exe(x, b=y), x - y)
    np.testing.assert_array_equal(exe(b=y, a=x), x - y)
    for wrong in ({"c": y}, {"a": x}):
        with pytest.raises(tl.ArgumentTypeError):
            exe(x, **wrong)
    with pytest.raises(tl.ArgumentTypeError, match=r"takes 2 inputs \(a, b\), got 1"):
        exe(x)
    with pytest.raises(tl.ArgumentTypeError, match="dtype"):
        exe(x.astype("float64"), y)
    with pytest.raises(tl.ArgumentError):
        exe(x, y, out=np.empty(4, "float32"))


def test_inputs_that_may_not_be_written_to_and_strided_ones() -> None:
    exe = tg.compile(tg.trace(lambda a: a * 2, tg.spec((4, 3), "float32")))
    x = floats(4, 3)
    x.flags.writeable = False
    np.testing.assert_array_equal(exe(x), x * 2)
    np.testing.assert_array_equal(exe(np.broadcast_to(np.float32(3), (4, 3))), np.full((4, 3), 6))
    turned = floats(3, 4).T
    np.testing.assert_array_equal(exe(turned), turned * 2)
    np.testing.assert_array_equal(exe(x[::-1]), x[::-1] * 2)


def test_an_output_that_is_an_input() -> None:
    exe = tg.compile(tg.trace(lambda a: a[::-1] + a, tg.spec((6,), "float32")))
    x = floats(6)
    wanted = x[::-1] + x
    try:
        exe(x, out=x)
    except tl.ArgumentError:
        return
    np.testing.assert_array_equal(x, wanted)


def test_two_threads_call_one_executable() -> None:
    graph = tg.trace(mlp, tg.spec((tg.dim("B", 1, 64), 6), "float32"), floats(6, 5), floats(5))
    exe = tg.compile(graph)
    wrong: list[int] = []

    def call(rows: int) -> None:
        x = floats(rows, 6)
        wanted = exe(x)
        for _ in range(200):
            if not np.array_equal(exe(x), wanted):
                wrong.append(rows)

    threads = [threading.Thread(target=call, args=(rows,)) for rows in (3, 64, 17)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_calls_take_no_more_memory() -> None:
    exe = tg.compile(tg.trace(mlp, tg.spec((8, 6), "float32"), floats(6, 5), floats(5)))
    x = floats(8, 6)
    exe(x)
    gc.collect()
    before = len(exe._call._free)
    for _ in range(1000):
        exe(x)
    assert len(exe._call._free) == before


def test_equal_operations_are_one_kernel_and_say_where_they_are_from() -> None:
    graph = tg.trace(lambda x: np.tanh(np.tanh(x) + 1), tg.spec((8,), "float32"))
    exe = tg.compile(graph)
    kernel = exe.kernels["tanh_8"]
    assert kernel.calls == 2 and all("test_executable.py:" in origin for origin in kernel.origins)
    assert len(exe.kernels) == 2 and "tanh_8      2" in str(exe.report())
    x = floats(8)
    np.testing.assert_allclose(exe(x), np.tanh(np.tanh(x) + 1), rtol=1e-6, atol=1e-6)


def test_a_graph_of_no_operation() -> None:
    x = floats(3)
    exe = tg.compile(tg.trace(lambda a: a, tg.spec((3,), "float32")))
    got = exe(x)
    np.testing.assert_array_equal(got, x)
    assert not np.shares_memory(got, x)


def test_numbers_of_python_are_weak_and_arrays_out_of_step_are_copied():
    exe = tg.compile(
        tg.trace(
            lambda x, k, n: x * k + n, *(tg.spec(s, d) for s, d in (((2,), "float32"), ((), "float32"), ((), "int8")))
        )
    )
    x = np.array([1, 2], "float32")
    assert exe(x, 2, 1).tolist() == exe(x, 2.0, True).tolist() == [3, 5]
    with pytest.raises(tl.ArgumentTypeError, match="expected dtype int8, got dtype float64"):
        exe(x, 2.0, 1.0)
    with pytest.raises(tl.ArgumentTypeError, match="expected dtype int8, got dtype int64"):
        exe(x, 2.0, 300)
    with pytest.raises(tl.ArgumentTypeError, match="got dtype float64"):
        exe(x, np.float64(2), 1)  # NumPy's numbers are not weak
    odd = np.frombuffer(b"\0" + x.tobytes(), "uint8")[1:].view("float32")
    assert exe(odd, 2, 1).tolist() == [3, 5]


def test_wrong_places_for_results_and_inputs_given_twice():
    x, out = np.ones(2, "float32"), np.empty(2, "float32")
    spec = tg.spec((2,), "float32")
    two = tg.compile(tg.trace(lambda x, y: (x + y, x * y), spec, spec))
    named = tg.compile(tg.trace(lambda x: {"a": x + 1, "b": x}, spec))
    for several in (out, [out], (out,) * 3):
        with pytest.raises(tl.ArgumentTypeError, match="gives 2 results, got out= of"):
            two(x, x, out=several)
    with pytest.raises(tl.ArgumentTypeError, match="the input 'x' twice"):
        two(x, x=x)
    with pytest.raises(tl.ArgumentTypeError, match="are 'a', 'b', got out= with 'a'"):
        named(x, out={"a": out})
    with pytest.raises(tl.ArgumentTypeError, match="'a', 'b', got out= with 'a', 'c'"):
        named(x, out={"a": out, "c": out})
    with pytest.raises(tl.ArgumentTypeError, match="are not named"):
        two(x, x, out={"a": out, "b": out})
    assert named(x, out={"b": np.empty(2, "float32"), "a": out})["a"] is out
