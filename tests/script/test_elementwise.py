"""Slice assignments as loops over the elements: NumPy's values, and a message where the order would matter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import ScriptError
from tirlower.ir import structural_equal
from tirlower.script import parse

SIGNATURE = (
    "A: T.Buffer(('n', 'm'), 'float32'), B: T.Buffer(('n', 'm'), 'float32'), C: T.Buffer(('m',), 'float32'), "
    "I: T.Buffer((4,), 'int32'), k: T.int32"
)


def function(text: str) -> Any:
    return parse(f"def f({SIGNATURE}):\n    " + text.replace("\n", "\n    "))


SAME = [
    "A[0:n, 0:m] = B[0:n, 0:m]",
    "A[:] = B[:]",
    "A[:, :] = C[:]",
    "A[:, 1] = B[:, 2]",
    "A[1, :] = B[2, :]",
    "A[0:3, 0:2] = B[1:4, 2:4]",
    "A[:, 0] = 1.5",
    "A[:, :] += B[:, :] * C[0:m]",
    "A[1:n, :] = B[0:n - 1, :]",
    "A[1:n - 1, k:m] = B[2:n, k:m] - 1",
    "A[::-1, ::2] = B[:, ::2]",
    "A[:, m - 1:0:-2] = B[:, m - 1:0:-2]",
    "A[:, :] = A[:, :] * A[:, :]",
    "A[:, :] = B[:, 0:1]",
    "A[I[0]:n, :] = B[I[0]:n, :]",
    "A[I[1], :] = B[I[2], :]",
    "A[0:4, 0] = B[I[0:4], 1]",
    "A[k:k, :] = B[k:k, :]",
    "A[k:1, :] = B[k:1, :]",
    "j = k\nwhile j < n:\n    A[j:n, 0] = B[j:n, 0] + j\n    j += 2",
    "for i in range(n):\n    A[i, :] += B[i, 0:m]",
]


@pytest.mark.parametrize("text", SAME)
def test_slices_are_assigned_as_numpy_assigns_them(text):
    kernel, rng = tl.build(function(text)), np.random.default_rng(0)
    for n, m in ((5, 7), (8, 8), (4, 6)):
        A, B = rng.random((2, n, m), "float32")
        C, I = rng.random(m, "float32"), np.array([1, 2, 0, 3], "int32")
        expected = {"A": A.copy(), "B": B, "C": C, "I": I, "k": 2, "n": n, "m": m}
        exec(text, expected)
        shown = A.copy()
        tl.interpret(function(text), shown, B, C, I, 2)
        kernel(A, B, C, I, 2)
        np.testing.assert_allclose(A, expected["A"], rtol=1e-6)
        np.testing.assert_allclose(shown, expected["A"], rtol=1e-6)


def test_the_ends_of_a_slice_are_evaluated_once():
    """What is assigned may be what the ends were read from."""
    func = parse("def f(A: T.Buffer(('n',), 'int32')):\n    A[A[0]:n] = 1 - A[A[0]:n]\n")
    A = np.array([0, 3, 1, 5], "int32")
    tl.build(func)(A)
    assert A.tolist() == [1, -2, 0, -4]


def test_a_function_in_a_parallel_loop_and_of_a_sum():
    func = function(
        "s = 0.0\nfor i in range(m):\n    s += C[i]\nfor i in T.parallel(n):\n    A[i, :] = T.max(B[i, :], C[:] / s)"
    )
    A, (B, D) = np.zeros((3, 6), "float32"), np.random.default_rng(1).random((2, 3, 6), "float32")
    tl.build(func)(A, B, D[0].copy(), np.zeros(4, "int32"), 0)
    np.testing.assert_allclose(A, np.maximum(B, D[0] / D[0].sum()), rtol=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A[1:n, :] = A[0:n - 1, :]", "another element of the same buffer"),
        ("A[:, :] = A[:, :] + A[0, 0]", "another element of the same buffer"),
        ("A[::-1, :] = A[:, :]", "another element of the same buffer"),
        ("A[:, :] = B[:, 0]", "has the length n, that of A.:, :. has m"),
        ("A[0:k, 0] = B[0:n, 0]", "has the length n, that of A.0:k, 0. has k"),
        ("A[0, :] = B[:, :]", "2 sliced dimensions, A.0, :. has 1"),
        ("A[-2:, :] = B[0:2, :]", "write n - 2 for -2"),
        ("A[:-1, :] = B[1:, :]", "write n - 1 for -1"),
        ("C[0:-1] = 1.0", "write m - 1 for -1"),
        ("A[::k, :] = B[::k, :]", "step of the slices of A.::k, :. is no constant"),
        ("C[0:m:0] = 1.0", "the step of a slice of buffer 'C' is zero"),
        ("x = C[0:k]", "not a constant"),
    ],
)
def test_what_numpy_would_do_otherwise_is_refused(text, message):
    with pytest.raises(ScriptError, match=message):
        function(text)


def test_a_vector_stays_a_vector():
    """One slice of a constant length in the last index, and its reverse."""
    func = function("C[0:4] = B[1, 4:0:-1]\nC[0:4] += A[0, 0:4]")
    assert not any(word in func.script() for word in ("range", "grid"))
    assert structural_equal(parse(func.script()), func)
    whole = parse("def f(A: T.Buffer((4,), 'int32'), B: T.Buffer((4,), 'int32')):\n    B[0:4] = A[::-1]\n")
    A, B = np.arange(4, dtype="int32"), np.zeros(4, "int32")
    tl.build(whole)(A, B)
    assert B.tolist() == [3, 2, 1, 0]
