"""Operations element by element against NumPy: every name and dtype, broadcasting, what NumPy refuses."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.ops.checking import check, floats, integers, refused, run, same
from tirlower.graph.ops.elementwise import BINARY, UNARY
from tirlower.ir.dtype import DataType

pytestmark = pytest.mark.by_day

DTYPES = ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64"]
NUMPY: dict[str, Callable[..., np.ndarray]] = {
    "identity": lambda x: x,
    "reciprocal": lambda x: (1 / x).astype(x.dtype),
    "round": np.round,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": lambda x: np.array([math.erf(v) for v in x.ravel()]).reshape(x.shape).astype(x.dtype),
    "sigmoid": lambda x: (1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype),
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "atan2": np.arctan2,
}
FLOATS_ONLY = {"reciprocal", "erf", "sigmoid"}


def operand(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers of both signs with zeros, and infinities and NaN of floats."""
    if dtype == "bool":
        return integers(*shape, low=0, high=2, seed=seed).astype(bool)
    if "int" in dtype:
        return integers(*shape, low=0 if dtype[0] == "u" else -5, high=6, seed=seed, dtype=dtype)
    found = floats(*shape, seed=seed, dtype=dtype) * 2
    for n, special in enumerate((np.nan, np.inf, -np.inf, 0.0, -0.0, 0.5, 2.5)):
        found.flat[n * 3 + seed] = special
    return found.astype(dtype)


def numpys(name: str) -> Callable[..., np.ndarray]:
    return NUMPY.get(name) or getattr(np, name)


def expected(name: str, *operands: np.ndarray) -> np.ndarray | None:
    """What NumPy computes; None where it refuses."""
    with np.errstate(all="ignore"):
        try:
            return np.asarray(numpys(name)(*operands))
        except TypeError:
            return None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [row.name for row in UNARY])
def test_one_operand(name: str, dtype: str) -> None:
    x = operand(dtype, (4, 7), 0)
    want = None if name in FLOATS_ONLY and "float" not in dtype else expected(name, x)
    if want is None:
        refused(f"{name} takes", name, x)
    else:
        check(name, want.astype(dtype) if name == "round" else want, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [row.name for row in BINARY])
def test_two_operands(name: str, dtype: str) -> None:
    a, b = operand(dtype, (4, 7), 0), operand(dtype, (4, 7), 1)
    if name == "power" and "int" in dtype:
        b = np.abs(b)
    want = expected(name, a, b)
    if want is None:
        refused(f"{name} takes", name, a, b)
    else:
        check(name, want, a, b)


@pytest.mark.parametrize("name", ["add", "divide", "maximum", "less", "where3"])
@pytest.mark.parametrize(
    "shapes", [((3, 4), (4,)), ((3, 1), (1, 4)), ((), (2, 3)), ((0, 4), (1, 4)), ((5, 1, 2), (3, 1)), ((), ())]
)
def test_operands_are_broadcast(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (floats(*shape, seed=n) for n, shape in enumerate(shapes))
    if name == "where3":
        check("where", np.where(a > 0, a, b), a > 0, a, b)
    else:
        check(name, numpys(name)(a, b), a, b)


@pytest.mark.parametrize(
    ("a", "b"), [("int8", "uint8"), ("int32", "float32"), ("uint64", "int64"), ("bool", "int8"), ("float16", "float32")]
)
def test_dtypes_meet_as_numpys_do(a: str, b: str) -> None:
    x, y = operand(a, (4, 7), 0), operand(b, (4, 7), 1)
    check("add", x + y, x, y)


def test_bfloat16_is_computed_in_float32() -> None:
    x = floats(3, 4).astype(ml_dtypes.bfloat16)
    check("add", x + x, x, x)
    check("exp", np.exp(x.astype(np.float32)).astype(ml_dtypes.bfloat16), x)
    same(run("multiply", x, floats(3, 4))[0], x.astype(np.float32) * floats(3, 4))
    assert run("add", x, floats(3, 4).astype(np.float16))[0].dtype == np.float32


def test_bits_are_shifted_out() -> None:
    a = np.array([-128, -1, 1, 127], np.int8)
    for by in (0, 3, 7, 8, 100, -1):
        b = np.full(4, by, np.int8)
        gone = not 0 <= by < 8
        check("bitwise_left_shift", a * 0 if gone else np.left_shift(a, b), a, b)
        check("bitwise_right_shift", np.where(a < 0, -1, 0).astype(np.int8) if gone else np.right_shift(a, b), a, b)


def test_integers_divided_by_zero_give_zero() -> None:
    a, b = np.array([5, -5, 0], np.int32), np.array([0, 0, 0], np.int32)
    for name in ("floor_divide", "remainder", "fmod"):
        check(name, np.zeros(3, np.int32), a, b)


def test_infinities_of_one_sign() -> None:
    x = np.array([np.inf, -np.inf, np.nan, 1], np.float32)
    check("isinf", np.array([True, False, False, False]), x, negative=False)
    check("isinf", np.array([False, True, False, False]), x, positive=False)
    check("isinf", np.array([False] * 4), x, positive=False, negative=False)
    check("isinf", np.array([True, True, False, False]), x)
    check("isinf", np.array([False]), np.array([3]))


@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_clip(dtype: str) -> None:
    x = operand(dtype, (4, 7), 0)
    lo, hi = np.array(-1, dtype), np.array(2, dtype)
    check("clip", np.clip(x, lo, hi), x, lo, hi)
    check("clip", np.maximum(x, lo), x, lo)
    check("clip", np.minimum(x, hi), x, None, hi)
    check("clip", x, x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("into", DTYPES)
def test_cast(dtype: str, into: str) -> None:
    x = operand(dtype, (4, 7), 0)
    if "float" in dtype and into != "bool":
        x = np.nan_to_num(x, posinf=3, neginf=0) if into[0] != "u" else np.abs(np.nan_to_num(x, posinf=3, neginf=0))
    check("cast", x.astype(into), x, dtype=into)


def nearest(x: float, low: int, high: int) -> int:
    return 0 if x != x else low if x < low else high if x > high else int(x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_floats_out_of_range_become_the_nearest_integer_compiled_too(dtype: str) -> None:
    several = [
        0.9,
        -0.9,
        -1.0,
        127.5,
        128,
        -128.9,
        -129,
        255.5,
        256,
        -300,
        32768,
        65535,
        65536,
        2.0**31,
        -(2.0**31),
        2.0**32,
    ]
    several += [2.0**63, -(2.0**63), 2.0**64, 1e30, -1e30, np.inf, -np.inf, np.nan, -0.0]
    x = np.array(several).astype(DataType(dtype).numpy)
    kinds = [np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
    graph = tg.trace(lambda x: tuple(x.astype(kind) for kind in kinds), tg.spec(x.shape, dtype))
    wanted = [[nearest(float(v), int(np.iinfo(k).min), int(np.iinfo(k).max)) for v in x] for k in kinds]
    for made in (tg.interpret(graph, x), tg.interpret(graph, x, precise=True), tg.compile(graph)(x)):
        assert [a.dtype for a in made] == kinds
        assert [a.tolist() for a in made] == wanted


def test_refusals_name_the_operand() -> None:
    refused("bitwise_and takes integers or bool, got b of float32", "bitwise_and", integers(3), floats(3))
    refused("subtract takes numbers, got a, b of bool", "subtract", np.ones(3, bool), np.ones(3, bool))
    refused("cannot be broadcast", "add", floats(3), floats(4))
