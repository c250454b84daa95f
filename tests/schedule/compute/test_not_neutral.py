"""The numbers of a refused filling: what they are said to become is what a run makes of them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tirlower as tl
from tests.schedule.compute.test_pad_einsum import ONE
from tests.schedule.stepping import refused
from tirlower.diagnostics import NotApplicable
from tirlower.ir.query import each
from tirlower.ir.stmt import BufferStore
from tirlower.schedule.compute.not_neutral import example
from tirlower.script import parse


@pytest.mark.parametrize(
    ("dtype", "init", "update"),
    [
        ("float32", "T.float32(0)", "C[vi] + A[vi, vk] * B[vi]"),
        ("float64", "B[vi]", "C[vi] + A[vi, vk]"),
        ("float32", "B[vi]", "T.max(C[vi], A[vi, vk])"),
        ("float32", "B[vi]", "T.min(C[vi], A[vi, vk])"),
        ("int32", "0", "C[vi] + (A[vi, vk] + 1)"),
        ("int8", "1", "C[vi] * (A[vi, vk] + B[vi])"),
    ],
)
def test_what_is_said_happens(dtype: str, init: str, update: str) -> None:
    text = ONE.format(t=dtype, init=init, update=update)
    error = refused(text, lambda sch: sch.pad_einsum("C", [1, 4]), NotApplicable)
    found = re.search(
        r"with (\S+) filled in, the iteration k = 5 is one more, and (?:where B\[vi\] is (\S+), )?(\S+) in C\[vi\] becomes (\S+)",
        error.message,
    )
    assert found is not None, error.message
    filler, other, old, made = found.groups()
    assert old != made
    # One update by itself, on arrays of these numbers.
    one = parse(f"""
@T.prim_func
def f(A: T.Buffer((1, 1), "{dtype}"), B: T.Buffer((1,), "{dtype}"), C: T.Buffer((1,), "{dtype}")):
    for vi, vk in T.grid(1, 1):
        C[vi] = {update}
""")
    arrays = [np.full(shape, float(value or 0), dtype) for shape, value in (((1, 1), filler), (1, other), (1, old))]
    tl.interpret(one, *arrays)
    assert repr(arrays[2][0].item()) == made


def test_where_nothing_is_found() -> None:
    for update in ("C[vi] + A[vi, vk]", "C[vi] + vk"):
        func = parse(ONE.format(t="int32", init="0", update=update))
        store = [one for one in each(BufferStore, func.body) if "A[" in str(one) or "vk" in str(one)][-1]
        assert example(store, lambda load: load.buffer.name == "A", 0) == ""
