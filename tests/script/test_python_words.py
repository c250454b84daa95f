"""Words that newcomers write: each means what it means in Python and NumPy, or its message names the way."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import TirError
from tirlower.ir import PrimFunc
from tirlower.ir.dtype import DataType
from tirlower.script import parse

A = np.array([0.5, 1.26, -2.5, 3.75], "float32")
M = np.arange(12, dtype="float32").reshape(4, 3) - 3
TABLE = np.array([1.5, 2.5, 3.5, 4.5], "float32")
GRID = np.array([[3, 1], [4, 1], [5, 9], [2, 6]], "int64")
PAIRS = [(0, 1), (2, 3)]
SCOPE = {"math": math, "np": np, "TABLE": TABLE, "GRID": GRID, "PAIRS": PAIRS, "PYTHON_LIST": [4.0, 5.0]}

WORKS = {
    "int": "B[i] = int(A[i] * 2.5)",
    "int of int": "B[i] = int(i)",
    "float": "B[i] = float(i) * 0.5",
    "float of load": "B[i] = float(A[i]) / 3",
    "bool": "B[i] = 1.0 if bool(i) else 2.0",
    "len": "B[i] = len(A) + len(M)",
    "len of a list": "B[i] = len(PAIRS)",
    "round": "B[i] = round(A[i]) + round(A[i] * 2)",
    "divmod": "q, r = divmod(i - 2, 3)\n        B[i] = q * 10 + r",
    "abs": "B[i] = abs(A[i]) + abs(i - 2)",
    "pow": "B[i] = pow(abs(A[i]), 2)",
    "power of an int": "B[i] = (i - 2) ** 3",
    "min and max": "B[i] = max(min(A[i], 1.0), -1.0, i - 3)",
    "max of a list": "B[i] = max([A[i], 1.0, M[i, 0]])",
    "sum of a list": "B[i] = sum([A[i], M[i, 1], 2.0])",
    "any and all": "B[i] = 1.0 if any([A[i] > 1.0, i == 0]) and not all([i > 0, i < 3]) else 0.0",
    "in": "B[i] = 1.0 if i in (0, 3) else 2.0",
    "not in": "B[i] = 1.0 if i not in [1] else 2.0",
    "math.sqrt": "B[i] = math.sqrt(abs(A[i]))",
    "math of an int": "B[i] = math.sqrt(i + 2)",
    "math.floor": "B[i] = math.floor(A[i]) // 2 + math.ceil(A[i])",
    "math.trunc": "B[i] = math.trunc(float(A[i]))",
    "math.atan2": "B[i] = math.atan2(A[i], 2.0)",
    "math.pi": "B[i] = A[i] * math.pi",
    "math.inf": "B[i] = min(math.inf, A[i])",
    "np.sqrt": "B[i] = np.sqrt(np.abs(A[i]))",
    "np.maximum": "B[i] = np.maximum(A[i], np.minimum(M[i, 2], 1.0))",
    "np.where": "B[i] = np.where(A[i] > 1.0, A[i], 7.0)",
    "np.clip": "B[i] = np.clip(A[i], -1.0, 2.0)",
    "np.floor": "B[i] = np.floor(A[i]) / 2",
    "np.rint": "B[i] = np.rint(A[i]) + np.trunc(A[i])",
    "np.square": "B[i] = np.square(A[i]) - np.sign(A[i])",
    "np.float32": "B[i] = np.float32(i) / np.float32(3)",
    "np.float64": "B[i] = np.float64(A[i])",
    "np.int32 of float": "B[i] = np.int32(A[i])",
    "np.logical": "B[i] = 1.0 if np.logical_and(A[i] > 0, np.logical_not(i == 3)) else 0.0",
    "chained targets": "x = y = A[i]\n        B[i] = x + 2 * y",
    "chained stores": "B[i] = B[0] = A[i]",
    "swap": "B[i] = A[i]\n        B[i], B[0] = B[0], B[i]",
    "enumerate": "for k, (a, b) in enumerate(PAIRS):\n            B[k] = a * 10 + b",
    "zip": "for a, b in zip([0, 3], [2.5, 3.5]):\n            B[a] = b",
    "reversed": "for a in reversed([0, 1, 2]):\n            B[a] = a + 0.5",
    "reversed range": "for a in reversed(range(4)):\n            B[0] = a",
    "list of pairs": "for a, b in PAIRS:\n            B[a] = b",
    "tuple": "for a in (0, 2):\n            B[a] = 3.0 + i",
    "over a table": "for a in TABLE:\n            B[i] = a",
    "accumulate over a list": "s = A[i]\n        for a, b in PAIRS:\n            s += a * b + M[i, a]\n        B[i] = s",
    "table": "B[i] = TABLE[3 - i]",
    "table of ints": "B[i] = GRID[i, 1] * 10 + GRID[3 - i, 0]",
    "element of a table": "B[i] = TABLE[2] + GRID[1, 0]",
    "rows of rows": "B[i] = M[i][1] + M[i][2]",
    "size": "B[i] = A.size + M.size + M.ndim + M.shape[1]",
    "comprehension": "B[i] = sum([M[i, k] for k in range(3)])",
}  # fmt: skip
"""Bodies of ``for i in range(4)`` that Python runs too, on arrays, with the same result."""


def func_of(body: str) -> PrimFunc:
    made = parse(
        "@T.prim_func\ndef f(A: T.Buffer((4,), 'float32'), M: T.Buffer((4, 3), 'float32'), B: T.Buffer((4,), 'float32')):\n"
        f"    for i in range(4):\n        {body}\n",
        SCOPE,
    )
    assert isinstance(made, PrimFunc)
    return made


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint24", "int32", "uint32", "int64", "bool"])
def test_int_holds_what_pythons_integers_hold(dtype: str) -> None:
    func = parse(
        f"def f(A: T.Buffer((4,), {dtype!r}), B: T.Buffer((4,), 'int64'), C: T.Buffer((1,), 'int64')):\n"
        "    acc = 0\n"
        "    for i in range(4):\n"
        "        B[i] = int(A[i]) * int(A[3 - i]) - int(A[i])\n"
        "        acc += int(A[i])\n"
        "    C[0] = acc\n"
    )
    assert isinstance(func, PrimFunc)
    wide = dtype in ("int32", "int64")  # these stay what they are, as loop variables do
    least, most = (
        (0, 1)
        if dtype == "bool"
        else (-100, 100)
        if wide
        else (int(DataType(dtype).min_value), int(DataType(dtype).max_value))
    )
    if dtype == "uint32":
        most = 2**31 + 5
    a = np.array([most, least, most, most], DataType(dtype).numpy)
    numbers = [int(one) for one in a]
    products = [x * y - x for x, y in zip(numbers, reversed(numbers), strict=True)]
    for run in (tl.build(func), lambda *arrays: tl.interpret(func, *arrays)):
        b, c = np.zeros(4, "int64"), np.zeros(1, "int64")
        run(a.copy(), b, c)
        assert (b.tolist(), c[0]) == (products, sum(numbers))


@pytest.mark.parametrize("body", WORKS.values(), ids=WORKS)
def test_a_word_means_what_it_means_in_python(body: str) -> None:
    func = func_of(body)
    expected = np.full(4, -9, "float32")
    exec(f"for i in range(4):\n        {body}\n", {**SCOPE, "A": A.copy(), "M": M.copy(), "B": expected})
    for run in (tl.build(func), lambda *arrays: tl.interpret(func, *arrays)):
        found = np.full(4, -9, "float32")
        run(A.copy(), M.copy(), found)
        np.testing.assert_allclose(found, expected, rtol=3e-7)


NAMES_THE_WAY = {
    "round with digits": ("B[i] = round(A[i], 2)", "T.nearbyint"),
    "np.sum": ("B[i] = np.sum(A)", "acc += A[i]"),
    "sum of a buffer": ("B[i] = sum(A)", "acc += A[i]"),
    "max of a buffer": ("B[i] = max(A)", "acc = max(acc, A[i])"),
    "T.sum": ("B[i] = T.sum(A[i])", "acc += A[i]"),
    "T.where": ("B[i] = T.where(A[i] > 1.0, A[i], 0.0)", "T.if_then_else"),
    "T.print": ("T.print(A[i])", "prints nothing"),
    "print": ("print(A[i])", "print that after the call"),
    "str": ("B[i] = str(i)", "format it outside"),
    "sorted": ("B[i] = sorted([A[i], 1.0])[0]", "min and max"),
    "isinstance": ("B[i] = isinstance(i, int)", "dtype"),
    "negative index": ("B[i] = A[-1]", "write [4 - 1]"),
    "over a buffer": ("for a in A:\n            B[0] = a", "for i in range(4)"),
    "enumerate a buffer": ("for k, a in enumerate(A):\n            B[k] = a", "for i in range(4)"),
    "zip of buffers": ("for a, b in zip(A, B):\n            B[0] = a", "for i in range(4)"),
    "symbolic range in reversed": ("for a in reversed(range(i)):\n            B[a] = 1.0", "range(n - 1, -1, -1)"),
    "break in an unrolled loop": ("for a in (1, 2):\n            break", "under an if"),
    "A.sum": ("B[i] = A.sum()", "acc += A[i]"),
    "A.T": ("B[i] = M.T[0, i]", "swap the subscripts"),
    "A.fill": ("B.fill(0.0)", "a loop that stores"),
    "A.copy": ("C = A.copy()", "T.alloc_buffer"),
    "A @ A": ("B[i] = A @ A", "loops of products"),
    "a mask": ("B[A > 0] = 1.0", "index it"),
    "T.prange": ("for l in T.prange(4):\n            B[l] = 1.0", "T.parallel"),
    "prange": ("for l in prange(4):\n            B[l] = 1.0", "T.parallel"),
    "T.zeros": ("x = T.zeros((4,))", "T.alloc_buffer"),
    "T.float": ("B[i] = T.float(i)", "T.float32"),
    "T.int": ("B[i] = T.int(A[i])", "T.int32"),
    "T.double": ("B[i] = T.double(i)", "T.float64"),
    "T.range": ("for l in T.range(4):\n            B[l] = 1.0", "T.serial"),
    "float32": ("B[i] = float32(i)", "T.float32"),
    "T.vectorised": ("for l in T.vectorised(4):\n            B[l] = 1.0", "T.vectorized"),
}  # fmt: skip
"""Bodies that are refused, and a part of the message that says what to write."""


@pytest.mark.parametrize(("body", "way"), NAMES_THE_WAY.values(), ids=NAMES_THE_WAY)
def test_a_message_names_the_way(body: str, way: str) -> None:
    with pytest.raises(TirError) as caught:
        tl.build(func_of(body))
    assert way in str(caught.value)


SIGNATURES: dict[str, tuple[str, list[Any], float]] = {
    "float": ("x: float, B: T.Buffer((2,), 'float64')", [0.1], 0.1),
    "int": ("x: int, B: T.Buffer((2,), 'float64')", [1 << 40], 2.0**40),
    "bool": ("x: bool, B: T.Buffer((2,), 'float64')", [True], 1.0),
    "np.float32": ("x: np.float32, B: T.Buffer((2,), 'float64')", [0.1], float(np.float32(0.1))),
    "np.int16": ("x: np.int16, B: T.Buffer((2,), 'float64')", [-7], -7.0),
    "np.dtype": ("x: T.int32, B: T.Buffer((2,), np.float64)", [3], 3.0),
    "float as dtype": ("x: T.int32, B: T.Buffer((2,), float)", [3], 3.0),
    "n + 1": ("x: T.int32, B: T.Buffer(('x+1',), 'float64')", [1], 1.0),
    "default": ("B: T.Buffer((2,), 'float64'), x: T.float64 = 0.25", [], 0.25),
    "negative default": ("B: T.Buffer((2,), 'float64'), x: int = -3", [], -3.0),
}


@pytest.mark.parametrize(("signature", "values", "expected"), SIGNATURES.values(), ids=SIGNATURES)
def test_types_and_defaults_in_signatures(signature: str, values: list[Any], expected: float) -> None:
    func = parse(f"def f({signature}):\n    B[0] = x\n", SCOPE)
    assert isinstance(func, PrimFunc)
    again = parse(func.script())
    for made in (func, again):
        assert isinstance(made, PrimFunc)
        for run in (tl.build(made), lambda *arrays, made=made: tl.interpret(made, *arrays)):
            out = np.zeros(2)
            run(*values, out)
            assert out[0] == expected and out[1] == 0


def test_defaults_are_replaced_by_position_and_by_name() -> None:
    func = parse("def f(A: T.Buffer((1,), 'int64'), a: T.int64 = 2, b: T.int64 = 3):\n    A[0] = a * 10 + b\n")
    kernel, out = tl.build(func), np.zeros(1, "int64")
    for args, kwargs, expected in (((), {}, 23), ((7,), {}, 73), ((), {"b": 9}, 29), ((1, 2), {}, 12)):
        kernel(out, *args, **kwargs)
        assert out[0] == expected
    with pytest.raises(TypeError, match="missing argument `A`"):
        kernel()


@pytest.mark.parametrize(
    "signature",
    [
        "B: T.Buffer((1,), 'int32') = 1",
        "B: T.Buffer((1,), 'int32'), x: T.int32 = 1.5",
        "x: T.int32 = 'a'",
        "*, x: T.int32",
    ],
)
def test_wrong_defaults(signature: str) -> None:
    with pytest.raises(TirError):
        parse(f"def f({signature}):\n    pass\n")


def test_a_table_is_copied_once() -> None:
    table = TABLE.copy()
    text = "def f(B: T.Buffer((4,), 'float32')):\n    for i in range(4):\n        B[i] = table[i] + table[3 - i]\n"
    func = parse(text, {"table": table})
    assert str(func).count("allocate_const") == 1
    expected = table + table[::-1]
    table[:] = 0
    out = np.zeros(4, "float32")
    tl.build(func)(out)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(tl.interpret(parse(str(func)), out) or out, expected)


def test_an_element_stands_for_its_place_in_atomics() -> None:
    func = parse(
        "def f(A: T.Buffer((8,), 'int32'), B: T.Buffer((2,), 'int32')):\n"
        "    for i in T.parallel(8):\n        T.atomic_add(B[i % 2], A[i])\n"
    )
    a, out = np.arange(8, dtype="int32"), np.zeros(2, "int32")
    tl.build(func)(a, out)
    assert out.tolist() == [12, 16]
