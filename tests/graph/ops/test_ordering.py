"""Order, running sums and what is found: the reference against NumPy, machine code against the reference."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from tests.graph.ops.checking import built, check, floats, integers, refused, run, same
from tests.sampling import in_pairs
from tirlower.graph.api import compile
from tirlower.graph.core.dims import dim
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.graph.ops.interpret import interpret

pytestmark = pytest.mark.by_day

DTYPES = [
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64"),
]
SPECIAL = np.array([[np.nan, 1, -0.0, np.inf, 0.0, 1, -np.inf], [0.0, -0.0, np.nan, -1, np.nan, 2, 2]])


def of_dtype(name: str, *shape: int) -> np.ndarray:
    """Few different values, so that many are equal; the greatest and the least of the dtype among them."""
    kind = np.dtype(getattr(ml_dtypes, name, name))
    made = np.random.default_rng(len(name)).integers(0, 4, shape).astype(kind)
    if kind.kind in "iu" and made.size > 2:
        made.reshape(-1)[:2] = np.iinfo(kind).max, np.iinfo(kind).min
    return made


def order_by_hand(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """By Python's own stable sort, lane by lane."""
    out = np.zeros(x.shape, np.int64)
    lanes = np.moveaxis(x, axis, -1)
    into = np.moveaxis(out, axis, -1)
    for at in np.ndindex(lanes.shape[:-1]):
        keys = [(v != v, 0 if v != v else v) for v in (e.item() for e in lanes[at])]
        into[at] = sorted(range(len(keys)), key=lambda i: keys[i], reverse=False) if not descending else _down(keys)
    return out


def _down(keys: list[tuple[bool, object]]) -> list[int]:
    # `reverse=True` keeps the order of equal elements
    return sorted(range(len(keys)), key=lambda i: keys[i], reverse=True)


def machine(name: str, *arrays: np.ndarray, dynamic: bool = True, **attrs: object) -> tuple[np.ndarray, ...]:
    """The results of machine code, every extent a dim where that is asked for."""
    sizes = sorted({e for a in arrays for e in a.shape}) if dynamic else []
    made = compile(built(name, arrays, {e: dim(f"D{e}") for e in sizes}, attrs))(*arrays)
    assert isinstance(made, tuple)
    return tuple(map(np.asarray, made))


@pytest.mark.parametrize(("dtype", "descending"), in_pairs(DTYPES, [False, True]))
def test_places_in_order_of_every_dtype(dtype: str, descending: bool) -> None:
    x = of_dtype(dtype, 3, 13)
    want = order_by_hand(x, -1, descending)
    check("argsort", want, x, descending=descending)
    np.testing.assert_array_equal(machine("argsort", x, descending=descending)[0], want)


@pytest.mark.parametrize("axis", [0, 1, 2, -2])
def test_each_axis_is_sorted(axis: int) -> None:
    x = integers(3, 4, 5)
    check("argsort", np.argsort(x, axis, kind="stable"), x, axis=axis)
    check("sort", np.sort(x, axis), x, axis=axis)
    np.testing.assert_array_equal(machine("sort", x, axis=axis)[0], np.sort(x, axis))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16"])
@pytest.mark.parametrize("descending", [False, pytest.param(True, marks=pytest.mark.nightly)])
@pytest.mark.by_day
def test_nan_is_the_greatest_and_zeros_are_equal(dtype: str, descending: bool) -> None:
    x = SPECIAL.astype(getattr(ml_dtypes, dtype, dtype))
    want = order_by_hand(x, 1, descending)
    np.testing.assert_array_equal(run("argsort", x, descending=descending)[0], want)
    for dynamic in (False, True):
        np.testing.assert_array_equal(machine("argsort", x, dynamic=dynamic, descending=descending)[0], want)
    got = machine("sort", x, descending=descending)[0]
    np.testing.assert_array_equal(
        got.astype(np.float64).view(np.int64), np.take_along_axis(x, want, 1).astype(np.float64).view(np.int64)
    )


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 16, 17, 127, 1000])
def test_every_length_is_sorted(n: int) -> None:
    x = integers(2, n, high=5)
    exe = compile(built("argsort", [x], {n: dim("N")} if n > 2 else {}, {}))
    want = np.argsort(x, 1, kind="stable")
    np.testing.assert_array_equal(exe(x)[0], want)
    np.testing.assert_array_equal(run("argsort", x)[0], want)


def test_one_compiled_graph_sorts_all_lengths() -> None:
    exe = compile(built("argsort", [integers(2, 7)], {2: dim("M"), 7: dim("N")}, {}))
    for m, n in itertools.product((0, 1, 3), (0, 1, 2, 5, 64, 65)):
        x = integers(m, n, high=3)
        np.testing.assert_array_equal(exe(x)[0], np.argsort(x, 1, kind="stable"))


def test_sorting_takes_n_log_n_steps() -> None:
    """A million elements in a few seconds, ascending, descending and random; a quadratic sort would take hours."""
    n = 1 << 20
    exe = compile(built("argsort", [np.zeros(7, "int32")], {7: dim("N")}, {}))
    for x in (np.arange(n), np.arange(n)[::-1], np.random.default_rng(0).integers(0, n, n)):
        given = np.ascontiguousarray(x, "int32")
        np.testing.assert_array_equal(exe(given)[0], np.argsort(given, kind="stable"))


# The greatest


@pytest.mark.parametrize("k", [0, 1, 3, 7])
@pytest.mark.parametrize("largest", [True, False])
def test_topk_takes_the_first_of_equals(k: int, largest: bool) -> None:
    x = integers(3, 7, high=-5)
    places = order_by_hand(x, 1, largest)[:, :k]
    want = np.take_along_axis(x, places, 1), places
    check("topk", want, x, fixed=(k,), k=k, largest=largest)
    for got, expected in zip(machine("topk", x, k=k, largest=largest), want, strict=True):
        same(got, expected)


def test_topk_of_nan_and_of_another_axis() -> None:
    x = SPECIAL.astype("float32")
    assert run("topk", x, k=3)[1].tolist() == [[0, 3, 1], [2, 4, 5]]
    assert run("topk", x, k=2, largest=False)[1].tolist() == [[6, 2], [3, 0]]
    want = np.sort(x, 0)[:1]
    same(run("topk", x, k=1, axis=-2, largest=False)[0], want)


def test_topk_of_more_than_there_are() -> None:
    refused("axis 1 of x has 7 elements, and k is", "topk", floats(3, 7), k=8)
    refused("at least 0, got -1", "topk", floats(3, 7), k=-1)
    n = dim("N")
    b = GraphBuilder("g", [n])
    graph = b.finish(b.ops("topk", b.param("x", (n,), "float32"), k=3))
    assert len(graph.assumed) == 1
    assert interpret(graph, np.float32([1, 4, 2]))[1].tolist() == [1, 2, 0]
    with pytest.raises(GraphError, match="equal"):
        interpret(graph, np.float32([1, 4]))
    with pytest.raises(Exception, match="N"):
        compile(graph)(np.float32([1, 4]))


# Running sums


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_running_sums(axis: int, exclusive: bool, reverse: bool) -> None:
    x = integers(3, 4, 5, dtype="int64")
    turned = np.flip(x, axis) if reverse else x
    made = np.cumsum(turned, axis) - (turned if exclusive else 0)
    want = np.flip(made, axis) if reverse else made
    check("cumsum", want, x, axis=axis, exclusive=exclusive, reverse=reverse)
    np.testing.assert_array_equal(machine("cumsum", x, axis=axis, exclusive=exclusive, reverse=reverse)[0], want)


@pytest.mark.parametrize(("name", "theirs"), [("cumsum", np.cumsum), ("cumprod", np.cumprod)])
@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bfloat16"])
def test_running_sums_and_products_have_numpys_dtype(dtype: str, name: str, theirs: object) -> None:
    x = integers(3, 5, low=0, high=4).astype(dtype)
    want = theirs(x, axis=1)  # type: ignore[operator]
    check(name, want, x, axis=1, rtol=5e-3 if dtype == "float16" else None)
    same(machine(name, x, axis=1)[0], want, 5e-3 if dtype == "float16" else None)


def test_running_sums_wrap_in_the_dtype_that_is_asked_for() -> None:
    x = np.full((4,), 100, "int8")
    want = np.cumsum(x, dtype="int8")
    check("cumsum", want, x, axis=0, dtype="int8")
    np.testing.assert_array_equal(machine("cumsum", x, axis=0, dtype="int8")[0], want)
    refused("dtype='bool'", "cumsum", x, axis=0, dtype="bool")
    refused("lacks its attribute 'axis'", "cumsum", x)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_sums_of_specials(name: str) -> None:
    x = SPECIAL.astype("float32")
    with np.errstate(all="ignore"):
        want = getattr(np, name)(x, axis=1)
        lone = getattr(np, name)(np.float32([-0.0, -0.0]))
    np.testing.assert_array_equal(run(name, x, axis=1)[0], want)
    np.testing.assert_array_equal(machine(name, x, axis=1)[0], want)
    for got in (run(name, np.float32([-0.0, -0.0]), axis=0)[0], machine(name, np.float32([-0.0, -0.0]), axis=0)[0]):
        np.testing.assert_array_equal(np.signbit(got), np.signbit(lone))


def test_narrow_floats_are_added_in_float32() -> None:
    x = np.full((4096,), 0.5, "float16")
    want = np.cumsum(x.astype(np.float32)).astype(np.float16)
    np.testing.assert_array_equal(run("cumsum", x, axis=0)[0], want)
    np.testing.assert_array_equal(machine("cumsum", x, axis=0)[0], want)


@pytest.mark.parametrize("shape", [(0,), (1,), (3, 0), (0, 3), (1, 1)])
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_sums_of_nothing_and_of_one(shape: tuple[int, ...], exclusive: bool) -> None:
    x = floats(*shape)
    want = np.cumsum(x, -1) * np.float32(not exclusive)
    for got in (
        run("cumsum", x, axis=-1, exclusive=exclusive)[0],
        machine("cumsum", x, axis=-1, exclusive=exclusive)[0],
    ):
        same(got, want)


# What is found


def found_of(dtypes: list[str], sizes: list[int]) -> list[object]:
    """Every dtype with the first size, the first and the last dtype with every size; the others at night."""
    often = [
        (dtype, size) for dtype in dtypes for size in sizes if size == sizes[0] or dtype in (dtypes[0], dtypes[-1])
    ]
    rest = [(dtype, size) for dtype in dtypes for size in sizes if (dtype, size) not in often]
    return [*often, *(pytest.param(*one, marks=pytest.mark.nightly) for one in rest)]


@pytest.mark.parametrize(("dtype", "size"), found_of(DTYPES, [5, 0, 1, 30]))
def test_nonzero_gives_the_first_ones_and_the_number_of_all(dtype: str, size: int) -> None:
    x = integers(2, 3, 5, low=0, high=3).astype(getattr(ml_dtypes, dtype, dtype))
    found = np.array(np.nonzero(x))
    want = np.full((3, size), -7, np.int64)
    want[:, : found.shape[1]] = found[:, :size]
    for got, expected in zip(run("nonzero", x, size=size, fill=-7), (want, np.array(found.shape[1])), strict=True):
        same(got, expected)
    for got, expected in zip(machine("nonzero", x, size=size, fill=-7), (want, np.array(found.shape[1])), strict=True):
        same(got, expected)


def test_nonzero_of_specials_nothing_and_a_scalar() -> None:
    x = np.float32([np.nan, 0.0, -0.0, np.inf, -np.inf])
    assert [r.tolist() for r in machine("nonzero", x, size=4)] == [[[0, 3, 4, 0]], 3]
    assert [r.tolist() for r in machine("nonzero", floats(0, 3), size=2)] == [[[0, 0], [0, 0]], 0]
    assert [r.tolist() for r in run("nonzero", floats(3, 0), size=1)] == [[[0], [0]], 0]
    refused("has no axes", "nonzero", np.array(1.0, "float32"), size=1)


def test_room_may_be_an_expression_of_dims() -> None:
    n = dim("N", 0)
    b = GraphBuilder("g", [n])
    exe = compile(b.finish(b.ops("nonzero", b.param("x", (n,), "int32"), size=n * 2 + 1)))
    for values in ([], [0, 3, 4]):
        x = np.array(values, "int32")
        found, count = exe(x)
        assert found.shape == (1, 2 * len(values) + 1)
        assert int(count) == np.count_nonzero(x)
        assert found[0, : int(count)].tolist() == np.flatnonzero(x).tolist()


@pytest.mark.parametrize("axis", [None, 0, 1, -1])
@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "bfloat16", "float64"])
def test_compress_keeps_what_a_condition_holds_for(axis: int | None, dtype: str) -> None:
    x = integers(4, 5, low=1).astype(getattr(ml_dtypes, dtype, dtype))
    condition = np.array([True, False, True, True])
    kept = np.compress(condition, x.astype(np.float64), axis)
    size = 4
    for got in (
        run("compress", condition, x, size=size, axis=axis),
        machine("compress", condition, x, size=size, axis=axis),
    ):
        held, rest = np.split(got[0].astype(np.float64), [3], axis or 0)
        np.testing.assert_array_equal(held, kept)
        assert rest.shape[axis or 0] == 1
        assert not rest.any()
        assert got[1] == 3
        assert got[0].dtype == x.dtype


def test_compress_of_nothing_and_by_a_long_condition() -> None:
    none = np.zeros(0, bool)
    elements, count = machine("compress", none, floats(0, 3), size=2, axis=0)
    assert elements.tolist() == [[0, 0, 0]] * 2
    assert int(count) == 0
    refused("has 3 elements, and condition has", "compress", np.ones(4, bool), floats(3), size=2, axis=0)
    refused("of one axis", "compress", np.ones((3, 1), bool), floats(3), size=2, axis=0)


@pytest.mark.parametrize(("dtype", "size"), found_of([d for d in DTYPES if d != "bfloat16"], [4, 0, 1, 9]))
@pytest.mark.by_day
def test_unique_gives_what_numpy_gives(dtype: str, size: int) -> None:
    x = of_dtype(dtype, 3, 5)
    values, index, inverse, counts = np.unique(x, True, True, True)

    def cut(a: np.ndarray) -> np.ndarray:
        return np.concatenate([a[:size], np.zeros(max(0, size - len(a)), a.dtype)])

    want = (cut(values), cut(index), inverse.reshape(x.shape), cut(counts), np.array(len(values)))
    for results in (run("unique", x, size=size), machine("unique", x, size=size)):
        for got, expected in zip(results, want, strict=True):
            np.testing.assert_array_equal(got, expected)
        assert results[0].dtype == x.dtype


def test_unique_takes_all_nans_for_one() -> None:
    x = np.float32([np.nan, 2, np.nan, -0.0, 0.0, np.inf])
    want = np.unique(x, True, True, True)
    for got in (run("unique", x, size=4), machine("unique", x, size=4)):
        for a, b in zip(got, want, strict=False):
            np.testing.assert_array_equal(a, b)
        assert got[4] == 4


def test_unique_of_nothing() -> None:
    for got in (run("unique", floats(0), size=2), machine("unique", floats(0), size=2)):
        assert [r.tolist() for r in got] == [[0, 0], [0, 0], [], [0, 0], 0]
