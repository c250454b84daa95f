from __future__ import annotations

import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.ir import IRModule, PrimFunc
from tirlower.script import parse
from tirlower.transforms import OOBChecker


def function(body: str, params: str = "") -> PrimFunc:
    return parse(
        f'@T.prim_func\ndef f(A: T.Buffer((8, 4), "int32"), B: T.Buffer((8,), "int32"){params}):\n'
        f"    for i, j in T.grid(8, 4):\n        {body}\n"
    )


@pytest.mark.parametrize(
    "body",
    [
        "B[i] = A[i, j]",
        "if i + j < 8:\n            B[i + j] = A[i, j]",
        "B[i] = T.if_then_else(i > 0, A[i - 1, j], 0)",
        "B[T.min(i + j, 7)] = A[i, 3 - j]",
        "B[B[i]] = A[i, j]",
    ],
)
def test_functions_that_stay_inside_come_back_as_they_are(body: str) -> None:
    func = function(body)
    assert OOBChecker()(func) is func


def test_the_program_is_not_touched() -> None:
    func = function("B[i] = A[i, j]")
    check(OOBChecker(), func, func)


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ("B[i + j] = A[i, j]", "store to 'B': index i + j of dimension 0"),
        ("B[i] = A[i, j + 1]", "load of 'A': index j + 1 of dimension 1"),
        ("B[i] = A[j, i]", "load of 'A': index i of dimension 1"),
        ("B[i] = A[i - 1, j]", "load of 'A': index i - 1 of dimension 0"),
        ("if i < 7:\n            B[i + 2] = A[i, j]", "store to 'B': index i + 2 of dimension 0"),
    ],
)
def test_each_access_outside_is_named(body: str, note: str) -> None:
    with pytest.raises(TransformError, match="outside its buffers") as error:
        OOBChecker()(function(body))
    assert any(found.startswith(note) for found in error.value.notes) and error.value.labels


def test_all_of_them_are_listed_and_a_module_is_checked_whole() -> None:
    bad, good = function("B[i + 1] = A[i, j + 1]"), function("B[i] = A[i, j]")
    with pytest.raises(TransformError) as error:
        OOBChecker()(IRModule({"good": good, "bad": bad}))
    assert len(error.value.notes) == 2
    module = IRModule({"good": good})
    assert OOBChecker()(module) is module


def test_an_argument_that_may_be_outside_passes() -> None:
    func = function("B[n] = A[i, j]", ", n: T.int32")
    assert OOBChecker()(func) is func
