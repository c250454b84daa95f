"""Rows of every length reduced to their maximum and minimum.

LLVM 22 with assertions stops the process over loops that reduce by ``maxnum`` for many of these lengths (72 to 79, 88 to
95, … with 512-bit vectors), so that one that it does not like would end the test run, not fail a test.
"""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

import tirlower as tl
from tests.sampling import in_pairs
from tirlower.script import parse

LENGTHS = (*range(30, 48), *range(58, 66), *range(70, 80), 88, 91, 95, 104, 111, 120, 127, 136, 139, 255, 257, 1023)


def rows(count: int, length: int, dtype: str) -> str:
    """A script that reduces some rows side by side in one loop, the even ones to the maximum."""
    head = f'@T.prim_func\ndef f{length}(A: T.Buffer(({count}, {length}), "{dtype}"), S: T.Buffer(({count},), "{dtype}")):\n'
    text = head + f'    L = T.alloc_buffer(({count},), "{dtype}")\n'
    for i in range(count):
        text += f"    L[{i}] = A[{i}, 0]\n"
    text += f"    for k in range({length}):\n"
    for i in range(count):
        text += f"        L[{i}] = T.{('max', 'min')[i % 2]}(L[{i}], A[{i}, k])\n"
    for i in range(count):
        text += f"    S[{i}] = L[{i}]\n"
    return text


@pytest.mark.parametrize(("count", "dtype"), in_pairs([1, 2, 3], ["float32", "float64"]))
def test_rows_of_every_length(count, dtype):
    rng = np.random.default_rng(count)
    text = "".join(rows(count, length, dtype) for length in LENGTHS)
    kernels = tl.build(parse("@I.ir_module\nclass Module:\n" + textwrap.indent(text, "    ")), schedule="none")
    for length in LENGTHS:
        a = rng.standard_normal((count, length)).astype(dtype)
        a[:, rng.integers(1, length)] = np.nan  # ignored, as by np.fmax
        out = np.zeros(count, dtype)
        kernels[f"f{length}"](a, out)
        expected = [(np.fmax, np.fmin)[i % 2].reduce(a[i]) for i in range(count)]
        np.testing.assert_array_equal(out, np.array(expected, dtype), err_msg=f"{length} elements")
