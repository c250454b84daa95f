"""OpenBLAS: products of every form equal to NumPy's, what it does not take left to the other kernels, a BERT layer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("scipy_openblas32", reason="OpenBLAS comes with the package scipy-openblas32 (extra `openblas`)")

import tirlower.graph as tg
from tests.graph.onnx_models.transformers import bert_layer
from tirlower.graph.backends.openblas import patterns
from tirlower.graph.backends.registry import offload
from tirlower.graph.core.control import Call
from tirlower.graph.core.effects import KernelCall
from tirlower.graph.passes.partition import partition

RNG = np.random.default_rng(0)


def arrays(*shapes: tuple[int, ...], dtype: str = "float32") -> list[np.ndarray]:
    return [RNG.standard_normal(s).astype(dtype) for s in shapes]


def kernels(graph: tg.Graph) -> int:
    return sum(isinstance(n, KernelCall) for n in offload(graph, ["openblas"]).nodes)


FORMS: list[tuple[str, Callable[..., object], list[tuple[int, ...]], list[str]]] = [
    ("matrices", lambda a, b: a @ b, [(5, 7), (7, 3)], []),
    ("left turned", lambda a, b: a.T @ b, [(7, 5), (7, 3)], []),
    ("right turned", lambda a, b: a @ b.T, [(5, 7), (3, 7)], []),
    ("both turned", lambda a, b: a.T @ b.T, [(7, 5), (3, 7)], []),
    ("a stack and a matrix", lambda a, b: a @ b, [(2, 3, 5, 7), (7, 3)], []),
    ("a stack and a turned matrix", lambda a, b: a @ b.T, [(2, 5, 7), (3, 7)], []),
    ("a turned stack and a matrix", lambda a, b: np.swapaxes(a, 1, 2) @ b, [(2, 7, 5), (7, 3)], []),
    ("stacks", lambda a, b: a @ b, [(2, 3, 5, 7), (2, 3, 7, 4)], []),
    ("stacks, one turned", lambda a, b: a @ np.transpose(b, (0, 1, 3, 2)), [(2, 3, 5, 7), (2, 3, 4, 7)], []),
    ("a residual", lambda a, b, c: a @ b + c, [(5, 7), (7, 3), (5, 3)], []),
    ("a bias", lambda a, b, c: c + a @ b, [(5, 7), (7, 3), (3,)], []),
    ("a column", lambda a, b, c: a @ b + c, [(5, 7), (7, 3), (5, 1)], []),
    ("a bias of a stack", lambda a, b, c: a @ b + c, [(2, 5, 7), (2, 7, 3), (3,)], []),
    ("the operand as residual", lambda a, b: a @ b + a, [(4, 4), (4, 4)], []),
    ("nothing inside", lambda a, b: a @ b, [(5, 0), (0, 3)], []),
    ("nothing inside, a residual", lambda a, b, c: a @ b + c, [(5, 0), (0, 3), (5, 3)], []),
    ("no rows", lambda a, b: a @ b, [(0, 4), (4, 3)], []),
    ("no columns", lambda a, b: a @ b, [(5, 4), (4, 0)], []),
    ("an empty stack", lambda a, b: a @ b, [(0, 5, 4), (0, 4, 3)], []),
    ("of one element", lambda a, b: a @ b, [(1, 1), (1, 1)], []),
    ("rows by a transposed result", lambda a, b: np.transpose(a @ b), [(5, 7), (7, 3)], ["transpose"]),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("fn", "shapes", "left"), [f[1:] for f in FORMS], ids=[f[0] for f in FORMS])
def test_products_are_numpys(
    fn: Callable[..., object], shapes: list[tuple[int, ...]], left: list[str], dtype: str
) -> None:
    g = tg.trace(fn, *[tg.spec(s, dtype) for s in shapes])
    made = offload(g, ["openblas"])
    tg.verify(made)
    assert [op.name for op in made.ops] == left and kernels(g) == 1
    given = arrays(*shapes, dtype=dtype)
    got = tg.compile(g, backends=["openblas"])(*given)
    np.testing.assert_allclose(got, fn(*given), rtol=1e-5 if dtype == "float32" else 1e-12, atol=1e-5)


REFUSED: list[tuple[str, Callable[..., object], list[tuple[int, ...]], str, list[str]]] = [
    ("a vector", lambda a, b: a @ b, [(7,), (7, 3)], "float32", ["matmul"]),
    ("spread stacks", lambda a, b: a @ b, [(1, 5, 7), (2, 7, 3)], "float32", ["matmul"]),
    ("integers", lambda a, b: a @ b, [(5, 7), (7, 3)], "int32", ["matmul"]),
    ("half precision", lambda a, b: a @ b, [(5, 7), (7, 3)], "float16", ["matmul"]),
    (
        "other axes turned",
        lambda a, b: np.transpose(a, (1, 0, 2)) @ b,
        [(5, 2, 7), (2, 7, 3)],
        "float32",
        ["transpose"],
    ),
    ("a greater sum", lambda a, b, c: a @ b + c, [(5, 7), (7, 3), (2, 5, 3)], "float32", ["add"]),
    ("a square", lambda a, b: (lambda p: p + p)(a @ b), [(5, 7), (7, 3)], "float32", ["add"]),
    ("another reader", lambda a, b, c: (lambda p: (p + c, p))(a @ b), [(5, 7), (7, 3), (3,)], "float32", ["add"]),
]


@pytest.mark.parametrize(("fn", "shapes", "dtype", "left"), [f[1:] for f in REFUSED], ids=[f[0] for f in REFUSED])
def test_what_it_does_not_take_is_left(
    fn: Callable[..., object], shapes: list[tuple[int, ...]], dtype: str, left: list[str]
) -> None:
    g = tg.trace(fn, *[tg.spec(s, dtype) for s in shapes])
    assert [op.name for op in offload(g, ["openblas"]).ops] == left
    given = [RNG.integers(-3, 4, s).astype(dtype) for s in shapes]
    want, got = fn(*given), tg.compile(g, backends=["openblas"])(*given)
    for a, c in zip(
        want if isinstance(want, tuple) else (want,), got if isinstance(got, tuple) else (got,), strict=True
    ):
        np.testing.assert_array_equal(a, c)


def test_dims_are_given_to_the_library() -> None:
    b, s = tg.dim("B", 0, 64), tg.dim("S", 1, 64)
    g = tg.trace(
        lambda x, w, r: x @ w + r, tg.spec((b, s, 7), "float32"), tg.spec((7, 3), "float32"), tg.spec((3,), "float32")
    )
    exe = tg.compile(g, backends=["openblas"])
    assert kernels(g) == 1
    for x in arrays((1, 1, 7), (3, 5, 7), (0, 4, 7), (64, 64, 7)):
        w, r = arrays((7, 3), (3,))
        np.testing.assert_allclose(exe(x, w, r), x @ w + r, rtol=1e-4, atol=1e-5)


def test_a_dim_that_stands_only_inside_extents() -> None:
    b = tg.dim("B", 1, 64)
    for rows in (lambda x: np.concatenate([x, x]), lambda x: x[1:], lambda x: x[::2]):
        g = tg.trace(
            lambda x, w, r, rows=rows: rows(x) @ w + r, *(tg.spec(s, "float32") for s in ((b, 7), (7, 3), (3,)))
        )
        assert kernels(g) == 1
        exe = tg.compile(g, backends=["openblas"])
        for n in (1, 6):
            x, w, r = arrays((n, 7), (7, 3), (3,))
            np.testing.assert_allclose(exe(x, w, r), rows(x) @ w + r, rtol=1e-4, atol=1e-5)


def test_extents_that_may_not_fit_32_bits_are_left() -> None:
    unlimited = tg.dim("N", 1)
    w = tg.spec((4, 4), "float32")
    assert kernels(tg.trace(lambda x, w: x @ w, tg.spec((unlimited, 4), "float32"), w)) == 0
    assert kernels(tg.trace(lambda x, w: x @ w, tg.spec((tg.dim("N", 1, 2**31 - 1), 4), "float32"), w)) == 1
    assert kernels(tg.trace(lambda x, w: x @ w, tg.spec((tg.dim("N", 1, 2**31), 4), "float32"), w)) == 0
    assert (
        kernels(
            tg.trace(lambda x, w: x @ w, tg.spec((unlimited, 3, 4), "float32"), tg.spec((unlimited, 4, 5), "float32"))
        )
        == 1
    )


def test_no_bit_changes_under_exact() -> None:
    g = tg.trace(lambda a, b: a @ b, tg.spec((5, 7), "float32"), tg.spec((7, 3), "float32"))
    exe = tg.compile(g, options=tg.Options(numerics="exact", backends=("openblas",)))
    assert [n for n in exe.kernels if n.startswith("matmul")] and "fused_matmul" not in exe.kernels
    assert "fused_matmul" in tg.compile(g, options=tg.Options(backends=("openblas",))).kernels


def test_equal_products_are_one_kernel() -> None:
    g = tg.trace(lambda x, w, v: (x @ w) @ w @ v, *[tg.spec((4, 4), "float32")] * 3)
    made = offload(g, ["openblas"])
    assert len({id(n.kernel) for n in made.nodes if isinstance(n, KernelCall)}) == 1
    given = arrays((4, 4), (4, 4), (4, 4))
    np.testing.assert_allclose(
        tg.compile(g, backends=["openblas"])(*given), given[0] @ given[1] @ given[1] @ given[2], rtol=1e-4
    )


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_bert_layer_is_equal_and_each_composite_is_one_match(dynamic: bool) -> None:
    pytest.importorskip("onnx", reason="the layer is written by the onnx package")
    from tests.graph.models import inputs

    model = bert_layer("small", batch="B", sequence="S") if dynamic else bert_layer("small")
    dims = {"B": tg.dim("B", 1, 8), "S": tg.dim("S", 1, 64)} if dynamic else {}
    g = tg.from_onnx(model, dims=dims)
    wanted = patterns()
    parted = partition(g, wanted, escape="reject", bind_constants=False)
    composites = [n for n in parted.nodes if isinstance(n, Call)]
    products = sum(op.name == "matmul" for op in g.ops)
    assert products == 16 and len(composites) == products  # two layers
    by_name = {p.name: p for p in wanted}
    for call in composites:
        pattern = by_name[str(call.graph.attrs["Composite"])]
        match = pattern.pattern.match(call.graph.results[0], call.graph)
        assert match is not None and set(match.nodes) == set(call.graph.nodes)
    feeds = inputs(model, batch=2, S=16) if dynamic else inputs(model)
    given = [feeds[p.name] for p in g.params]
    exe = tg.compile(g, backends=["openblas"])
    assert sum("matmul" in name and name.startswith("fused") for name in exe.kernels) >= 4
    assert not any(name.startswith("matmul") for name in exe.kernels)
    precise = tg.interpret(g, *given, precise=True)
    np.testing.assert_allclose(np.asarray(exe(*given)), np.asarray(precise), rtol=1e-3, atol=1e-4)
