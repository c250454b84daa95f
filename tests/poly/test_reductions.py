from __future__ import annotations

import pytest

from tirlower.poly import carried_reductions, extract
from tirlower.script import parse

FORMS = {
    "a[0] = a[0] + x[i]": "sum",
    "a[0] += x[i]": "sum",
    "a[0] = x[i] + a[0] + x[i + 1]": "sum",
    "a[0] = a[0] - x[i]": "sum",
    "a[0] = x[i] - a[0]": None,
    "a[0] = a[0] + a[0]": None,
    "a[0] = a[0] + a[1]": None,
    "a[i] = a[i + 1] + x[i]": None,
    "a[0] = a[0] * x[i]": "product",
    "a[0] = a[0] * a[0]": None,
    "a[0] = T.max(a[0], x[i])": "max",
    "a[0] = T.min(x[i], T.min(a[0], x[i + 1]))": "min",
    "a[0] = T.Select(a[0] < x[i], x[i], a[0])": "max",
    "a[0] = T.Select(a[0] < x[i], a[0], x[i])": "min",
    "a[0] = T.Select(x[i] > a[0], x[i], a[0])": "max",
    "a[0] = T.Select(x[i] >= a[0], a[0], x[i])": "min",
    "a[0] = T.if_then_else(x[i] < a[0], x[i], a[0])": "min",
    "a[0] = T.if_then_else(i < 4, a[0] + x[i], a[0])": "sum",
    "a[0] = T.if_then_else(a[0] < x[i], a[0] + x[i], a[0])": None,
    "a[0] = T.bitwise_xor(a[0], x[i])": "bitwise xor",
    "a[0] = x[i] | a[0]": "bitwise or",
    "a[0] = x[i]": None,
    "a[0] = a[0]": None,
    "if x[i] > a[0]:\n            a[0] = x[i]": "max",
    "if a[0] > x[i]:\n            a[0] = x[i]": "min",
    "if x[i] > a[0]:\n            a[0] = x[i + 1]": None,
    "t = a[0] + x[i]\n        a[0] = t": "sum",
    "t = a[0] + a[1]\n        a[0] = t": None,
    "t = a[0] + x[i]\n        a[0] = t\n        x[i] = t": None,  # the running value is seen
    "a[a[i]] = a[a[i]] + 1": None,
}


@pytest.mark.parametrize("form", FORMS)
def test_spellings(form: str):
    func = parse(
        "@T.prim_func\ndef f(a: T.Buffer((9,), 'int32'), x: T.Buffer((9,), 'int32')):\n"
        f"    for i in range(8):\n        {form}\n"
    )
    store = [s for s in extract(func).statements if any(access.is_write for access in s.accesses)][-1]
    found = store.reduction
    assert (found.op if found is not None else None) == FORMS[form]


def test_what_may_change_its_order():
    for dtype, op, wanted in (("int32", "+", True), ("float32", "+", False), ("float32", "max", True)):
        value = "T.max(a[0], x[i])" if op == "max" else "a[0] + x[i]"
        func = parse(
            f"@T.prim_func\ndef f(a: T.Buffer((1,), '{dtype}'), x: T.Buffer((8,), '{dtype}')):\n"
            f"    for i in range(8):\n        a[0] = {value}\n"
        )
        (statement,) = extract(func).statements
        assert statement.reduction is not None and statement.reduction.reorders is wanted


def test_booleans():
    func = parse(
        "@T.prim_func\ndef f(a: T.Buffer((1,), 'bool'), x: T.Buffer((8,), 'bool')):\n"
        "    for i in range(8):\n        a[0] = a[0] and x[i]\n"
    )
    (statement,) = extract(func).statements
    assert statement.reduction is not None and statement.reduction.op == "and" and statement.reduction.reorders


def test_which_loop_carries_which_reduction():
    func = parse(
        "@T.prim_func\n"
        "def f(A: T.Buffer((8, 8), 'int32'), R: T.Buffer((8,), 'int32'), S: T.Buffer((1,), 'int32')):\n"
        "    for i in range(8):\n"
        "        for j in range(8):\n"
        "            t = T.alloc_buffer((1,), 'int32')\n"
        "            t[0] = 0\n"
        "            t[0] = t[0] + A[i, j]\n"
        "            S[0] = T.max(S[0], t[0])\n"
        "            R[i] = R[i] + A[i, j]\n"
        "    for k in range(1):\n"
        "        S[0] = T.max(S[0], k)\n"
    )
    names = {loop: [str(found) for found in carried_reductions(func, loop)] for loop in "ijk"}
    assert names == {"i": ["max into S"], "j": ["max into S", "sum into R"], "k": []}
