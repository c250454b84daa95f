from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.diagnostics import TirError
from tirlower.script import parse
from tirlower.transforms import MarkNonTemporal

PARAMS = 'A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32"), n: T.int32'
MARK = 'annotations={"tir.nontemporal": True}'

#: loops that become vectorized ones, and loops that stay
FILLING = {
    "a copy": "for i in T.serial(64, MARK):\n    B[i] = A[i]",
    "a start": "for i in T.serial(3, n, MARK):\n    B[i] = A[i] + i",
    "two arrays": "for i in T.serial(63, MARK):\n    B[i] = A[i] + A[i + 1]\n    C[i + 1] = A[63 - i]",
    "a name": "for i in T.serial(64, MARK):\n    t: T.let[T.int32] = A[i] * 2\n    B[i] = t * t",
    "an inner loop": "for i in T.parallel(8, MARK):\n    for j in range(8):\n        B[i * 8 + j] = A[j * 8 + i]",
    "a choice": "for i in T.serial(64, MARK):\n    B[i] = T.if_then_else(i > 3, A[i], 7)",
    "a symbolic row": "for i in T.serial(4, MARK):\n    for j in range(n):\n        B[i * n + j] = A[i + j]",
}
STAYING = {
    "a reader": "for i in T.serial(63, MARK):\n    B[i] = B[i + 1]",
    "a reader beside it": "for i in T.serial(8, MARK):\n    for j in range(8):\n        B[i * 8 + j] = A[j]\n    C[i] = B[i]",
    "steps": "for i in T.serial(32, MARK):\n    B[i * 2] = A[i]",
    "backwards": "for i in T.serial(64, MARK):\n    B[63 - i] = A[i]",
    "twice": "for i in T.serial(63, MARK):\n    B[i] = A[i]\n    B[i + 1] = 0",
    "an index that is loaded": "for i in T.serial(64, MARK):\n    B[A[i] % 64] = i",
    "a condition": "for i in T.serial(64, MARK):\n    if A[i] > 0:\n        B[i] = A[i]",
    "a sum": "for i in T.serial(8, MARK):\n    s = 0\n    for j in range(8):\n        s += A[i * 8 + j]\n    B[i] = s",
    "a loop of its own": "for i in T.serial(64, annotations={'pragma_unroll': 2, 'tir.nontemporal': True}):\n    B[i] = A[i]",
    "not asked for": "for i in T.serial(64, annotations={'tir.nontemporal': False}):\n    B[i] = A[i]",
    "lanes": "for i in T.vectorized(64, MARK):\n    B[i] = A[i]",
}


def marked(body: str, noalias: bool = True, params: str = PARAMS) -> str:
    lines = "".join(f"    {line}\n" for line in body.replace("MARK", MARK).split("\n"))
    before = parse(f'@T.prim_func\ndef f({params}):\n    T.func_attr({{"tir.noalias": {noalias}}})\n{lines}')
    rng = np.random.default_rng(0)
    arrays = [rng.integers(1, 50, 64).astype("int32") for _ in range(3)]
    return check(MarkNonTemporal(), before, inputs=[(*map(np.copy, arrays), n) for n in (0, 3, 16)]).script()


@pytest.mark.parametrize("name", FILLING)
def test_loops_that_only_fill_arrays_become_vectorized(name: str) -> None:
    text = marked(FILLING[name])
    assert text.count('with T.attr(None, "tir.nontemporal", T.bool(True)):') == 1
    assert "T.vectorized" in text and "annotations" not in text
    assert "T.vectorized" not in marked(FILLING[name], noalias=False)


@pytest.mark.parametrize("name", STAYING)
def test_other_loops_stay(name: str) -> None:
    text = marked(STAYING[name])
    assert text.count("T.attr(None") == (name != "not asked for")
    assert "T.vectorized" not in text.replace("T.vectorized(64)", "" if name == "lanes" else "T.vectorized")


def test_a_division_that_may_fail_stays_in_order() -> None:
    func = parse(
        f"@T.prim_func\ndef f({PARAMS}):\n    T.func_attr({{'tir.noalias': True}})\n    for i in T.serial(64, {MARK}):\n        B[i] = 7 // A[i]\n"
    )
    for body, vectors in ((func.script(), False), (func.script().replace("7 // A[i]", "A[i] // 7"), True)):
        made = tl.lower(parse(body), until="tir.MarkNonTemporal")
        assert ("T.vectorized" in made.script()) == vectors


def test_an_annotation_that_is_no_choice_is_refused() -> None:
    with pytest.raises(TirError, match=r"the annotation 'tir.nontemporal' is a number, got .*B"):
        marked('for i in T.serial(64, annotations={"tir.nontemporal": ["B"]}):\n    B[i] = A[i]')
