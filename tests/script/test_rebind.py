"""Names bound anew: which are lets, which are variables; their scope, type and value, in the interpreter and natively."""

from __future__ import annotations

import re
import textwrap
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import LegalityError, ScriptError
from tirlower.ir import PrimFunc
from tirlower.ir.structural import assert_structural_equal
from tirlower.script import parse
from tirlower.script import tir as T

SIGNATURE = 'A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), F: T.Buffer((8,), "float32"), n: T.int32'
A = np.array([5, 3, -2, 7, 1, 9, 4, 6], "int32")
F = np.array([0.5, 1.25, -2.0, 3.5, 0.75, 2.0, -1.5, 4.0], "float32")


def function(body: str, extra: dict[str, Any] | None = None, signature: str = SIGNATURE) -> PrimFunc:
    made = parse(f"def f({signature}):\n{textwrap.indent(textwrap.dedent(body).strip(), '    ')}\n", extra)
    assert isinstance(made, PrimFunc)
    return made


def results(func: PrimFunc, n: int) -> tuple[np.ndarray, np.ndarray]:
    """What it makes of B and F, interpreted and natively alike."""
    found = []
    for run in (lambda *args: tl.interpret(func, *args), tl.build(func)):
        b, f = np.zeros(8, "int32"), F.copy()
        run(A.copy(), b, f, n)
        found.append((b, f))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    np.testing.assert_array_equal(found[0][1], found[1][1])
    return found[1]


def refused(body: str, *parts: str, extra: dict[str, Any] | None = None) -> None:
    with pytest.raises(ScriptError) as caught:
        function(body, extra)
    for part in parts:
        assert part in str(caught.value), str(caught.value)


INTEGERS = {
    "an accumulator": ("s = 0\nfor k in range(8):\n    s += A[k]\nB[0] = s", 0, lambda n: A.sum()),
    "a loop that runs 0 times": ("s = 7\nfor k in range(n):\n    s = A[k]\nB[0] = s", 0, lambda n: 7),
    "the last of a loop that runs": ("for k in range(4):\n    s = A[k]\nB[0] = s", 0, lambda n: A[3]),
    "the loop variable after its loop": ("for k in range(2, 8, 3):\n    pass\nB[0] = k", 0, lambda n: 5),
    "both arms": ("if n > 2:\n    v = 1\nelse:\n    v = A[1]\nB[0] = v", 1, lambda n: 1 if n > 2 else A[1]),
    "an arm that leaves": (
        "v = 1\nfor k in range(8):\n    if A[k] < 0:\n        v = k\n        break\n    v = 20\nB[0] = v", 0, lambda n: 2,
    ),
    "continue": (
        "v = 1\nfor k in range(8):\n    if k % 2 == 0:\n        continue\n    v = v + k\nB[0] = v", 0, lambda n: 17,
    ),
    "a while": ("i = 0\nwhile i < n:\n    i = i + 3\nB[0] = i", 7, lambda n: 9),
    "while True": ("i = 0\nwhile True:\n    i += 1\n    if i * i > n:\n        v = i\n        break\nB[0] = v", 30, lambda n: 6),
    "Fibonacci by a swap": ("a, b = 0, 1\nfor k in range(n):\n    a, b = b, a + b\nB[0] = a", 10, lambda n: 55),
    "Euclid": ("a = 84\nb = n\nwhile b != 0:\n    a, b = b, a % b\nB[0] = a", 36, lambda n: 12),
    "a running maximum": (
        "m = A[0]\nfor k in range(1, 8):\n    if A[k] > m:\n        m = A[k]\nB[0] = m", 0, lambda n: A.max(),
    ),
    "nested accumulators": (
        "t = 0\nfor i in range(3):\n    s = 0\n    for k in range(8):\n        s += A[k]\n    t += s * i\nB[0] = t",
        0, lambda n: A.sum() * 3,
    ),
    "a parameter": ("while n > 10:\n    n = n // 2\nB[0] = n", 100, lambda n: 6),
    "a loop variable": ("for i in range(4):\n    while i % 4 != 3:\n        i = i + 1\n    B[0] = i", 0, lambda n: 3),
    "the loop keeps its own": ("for i in range(4):\n    if i < 2:\n        i = i + 100\n    B[0] += i", 0, lambda n: 206),
    "bounds are values": ("m = 4\ns = 0\nfor i in range(m):\n    m = 1\n    s += m\nB[0] = s", 0, lambda n: 4),
    "a flag": ("done = False\ni = 0\nwhile not done:\n    i += 1\n    done = A[i] < 0\nB[0] = i", 0, lambda n: 2),
    "T.If": (
        "with T.If(n > 0):\n    with T.Then():\n        v = 3\n    with T.Else():\n        v = 4\nB[0] = v", 0, lambda n: 4,
    ),
    "elif": ("if n > 5:\n    v = 1\nelif n > 2:\n    v = 2\nelse:\n    v = 3\nB[0] = v", 4, lambda n: 2),
    "a swap of elements": ("B[0] = 1\nB[1] = 2\nB[0], B[1] = B[1], B[0]\nB[0] = B[0] * 10 + B[1]", 0, lambda n: 21),
    "a name and an element": ("i = 3\nfor k in range(2):\n    i, B[i] = 0, i + k\nB[0] = B[3] * 10 + B[0]", 0, lambda n: 1),
    "unrolled": ("s = 1\nfor k in T.unroll(4):\n    s = s * 2 + k\nB[0] = s", 0, lambda n: 27),
    "after a return": ("s = 0\nfor k in range(3):\n    s += k\nB[0] = s\nif n == 0:\n    return\nB[0] = s + 1", 5, lambda n: 4),
}  # fmt: skip


@pytest.mark.parametrize("name", INTEGERS)
def test_as_python_reads_it(name: str):
    body, n, want = INTEGERS[name]
    func = function(body)
    assert results(func, n)[0][0] == want(n)
    assert_structural_equal(parse(func.script()), func)


def test_lets_stay_lets():
    """Python would say the same of them, and so did the dialect before it had variables."""
    for body in (
        "x = A[0]\nx = x + 1\nB[0] = x",
        "for i in range(8):\n    x = A[i]\n    x = x * 2\n    B[i] = x",
        "for i in range(8):\n    B[i] = i\nfor i in range(4):\n    B[i] = i",
        "if n > 0:\n    x = 1\n    B[0] = x\nelse:\n    x = 2\n    B[1] = x",
    ):
        assert "alloc_buffer" not in function(body).script(), body


def test_what_python_decides_is_no_scope():
    body = "if FLAG:\n    x = A[1]\nelse:\n    x = A[2]\nB[0] = x"
    for flag in (True, False):
        func = function(body, {"FLAG": flag})
        assert "alloc_buffer" not in func.script()
        assert results(func, 0)[0][0] == (A[1] if flag else A[2])


def test_the_scope_is_the_innermost_that_holds_all():
    func = function("for i in range(8):\n    s = 0\n    for k in range(8):\n        s += A[k]\n    B[i] = s")
    assert func.script().split("\n")[3].strip() == 's = T.alloc_buffer((1,), "int32", scope="local")'
    assert "B[i] = s[0]" in func.script()


TYPES = [
    ("s = 0\nfor k in range(8):\n    s += F[k]", "float32"),
    ("s = 0.0\nfor k in range(8):\n    s += A[k] * 2", "float32"),
    ("s = 0\nfor k in range(8):\n    s = max(s, T.Cast('int8', A[k]))", "int8"),
    ("s = 0\nfor k in range(8):\n    s += T.Cast('uint8', A[k])\n    s = s + T.int64(1)", "int64"),
    ("s = 0.0\nfor k in range(8):\n    s += T.Cast('float16', F[k])", "float16"),
    ("s = 0\nfor k in range(n):\n    s = s + 1", "int32"),
    ("s = 0\nfor k in range(n):\n    s = 2**40", "int64"),
    ("s = 0\nfor k in range(n):\n    s = 0.5", "float32"),
    ("s = False\nfor k in range(n):\n    s = s or A[k] > 3", "bool"),
    ("s: T.float64 = 0\nfor k in range(8):\n    s += F[k]", "float64"),
    ("s = F[0:4]\nfor k in range(2):\n    s = s + F[4:8]", "float32x4"),
    ("a = 0\nb = 0\ns = 0\nfor k in range(8):\n    s = a\n    a = b\n    b = F[k]", "float32"),
]


@pytest.mark.parametrize(("body", "dtype"), TYPES)
def test_the_type_is_that_of_the_values(body: str, dtype: str):
    found: list[Any] = []
    func = function(body + "\nif n > 3:\n    s = s")
    tl.ir.functor.post_order_visit(
        func.body, lambda op: found.append(op.buffer) if type(op).__name__ == "AllocBuffer" else None
    )
    assert str(next(b for b in found if b.name == "s").dtype) == dtype


def test_types_that_do_not_settle_are_refused():
    names = "abcde"
    body = "\n".join(f"{x} = 0" for x in names) + "\nfor k in range(8):\n"
    body += "\n".join(f"    {x} = {y}" for x, y in zip(names, [*names[1:], "F[k]"], strict=True))
    refused(body, "not found after 3 rounds", "annotate")
    results(function(body.replace("e = 0", "e: T.float32 = 0", 1).replace("a = 0", "a: T.float32 = 0", 1)), 0)


REFUSED = {
    "for": ("for i in range(n):\n    v = A[i]\nB[0] = v", "where this loop runs 0 times"),
    "if": ("if n > 0:\n    v = 1\nB[0] = v", "where this condition does not hold"),
    "else": ("if n > 0:\n    pass\nelse:\n    v = 1\nB[0] = v", "where this condition holds"),
    "first iteration": ("for i in range(4):\n    if i > 0:\n        B[i] = v\n    v = A[i]", "in the first iteration"),
    "break": ("while True:\n    if n > 0:\n        break\n    v = 1\nB[0] = v", "in the first iteration of this loop"),
    "captured": ("B[0] = N\nN = 2", "read before it is assigned", "even one that Python knows"),
    "captured in a branch": ("if n > 0:\n    N = 2\nB[0] = N", "where this condition does not hold"),
    "augmented": ("for i in range(n):\n    v += 1", "first"),
    "T.let": ("x = T.let(A[0])\nfor i in range(n):\n    x = A[i]\nB[0] = x", "a binding by T.let"),
    "T.bind": ("x = T.bind(A[0])\nif n > 0:\n    x = 1\nB[0] = x", "a binding by T.let or T.bind"),
    "annotated let": ("x: T.let[T.int32] = A[0]\nif n > 0:\n    x = 1\nB[0] = x", "a binding by T.let"),
    "meta": ("x = T.meta_var(A[0])\nif n > 0:\n    x = 1\nB[0] = x", "T.meta_var"),
    "a buffer": ("x = T.alloc_buffer((4,))\nif n > 0:\n    x = 1.0\nB[0] = 1\nx[0] = 1.0", "the buffer 'x'"),
    "a string": ("x = 'int32'\nif n > 0:\n    x = 'int64'\nB[0] = T.Cast(x, 1)", "a Python value (str)"),
    "a symbol": ("x = T.int32()\nif n > 0:\n    x = 1\nB[0] = x", "an axis or a symbol"),
    "a pointer": ("x = A.data\nif n > 0:\n    x = B.data\nT.evaluate(T.call_extern('int32', 'f', x))", "a pointer"),
    "two annotations": ("x: T.int32 = 0\nif n > 0:\n    x: T.int64 = 1\nB[0] = x", "annotated as int32 and as int64"),
    "a float into an integer": ("x: T.int32 = 0\nfor i in range(n):\n    x = x + 0.5\nB[0] = x", "takes int32"),
    "a float literal into an integer": ("x = A[0]\nif n > 0:\n    x = 0.5\nB[0] = x", "takes int32, got the float"),
    "a literal that does not fit": ("x: T.int8 = 0\nif n > 0:\n    x = 300\nB[0] = x", "does not fit in int8"),
    "a while that makes statements": ("x = 0\nwhile helper(B, x):\n    x += 1", "makes statements"),
}


@T.macro
def _stores(buffer, x):
    buffer[0] = x
    return x < 3


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str):
    body, *parts = REFUSED[name]
    refused(body, *parts, extra={"N": 5, "helper": _stores})


def test_a_macro_keeps_its_assignments():
    @T.macro
    def total(source, count, out, at):
        s = 0
        for k in range(count):
            s += source[k]
        out[at] = s
        count = 0  # its own: the caller's stays

    @T.macro(hygienic=False)
    def around(out):
        s = s + 1
        while s < 40:
            s = s * 2
        out[2] = s

    @T.prim_func
    def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), F: T.Buffer((8,), "float32"), n: T.int32):
        s = 3
        for _ in range(2):
            s += 1
            total(A, s, B, s - 4)
        around(B)
        B[3] = s

    b = results(f, 0)[0]
    assert list(b[:4]) == [A[:4].sum(), A[:5].sum(), 48, 5]


def test_helpers_and_metas_take_the_value():
    func = function(
        "x = 1\nfor k in range(3):\n    x = x + k\n    old = T.meta_var(x)\n    y = twice(x)\n    x = x + 1\n    B[k] = old * 100 + y",
        {"twice": lambda v: v * 2},
    )
    assert list(results(func, 0)[0][:3]) == [102, 306, 612]


def test_headers_of_blocks_take_the_value_in_front():
    func = function("""
        m = 1
        for k in range(3):
            m = m + k
        with T.block("b"):
            v = T.axis.spatial(8, m)
            T.where(m > 2)
            T.reads(A[m])
            T.writes(B[v])
            B[v] = A[m] * 10
            m = m + 1
        B[0] = m
    """)
    b = results(func, 0)[0]
    assert b[4] == A[4] * 10 and b[0] == 5
    block = func.script()
    assert "T.writes(B[v], m[0])" in block and re.search(r"T.reads\(A\[m_\d\], m\[0\]\)", block)
    refused(
        'm = 1\nfor k in range(3):\n    m += 1\nwith T.block("b"):\n    if n > 0:\n        m = 2\n    v = T.axis.spatial(8, m)\n    B[v] = m',
        "before the block's header reads it",
    )


def test_inferred_regions_hold_the_element():
    func = function(
        's = 0\nfor i in range(8):\n    with T.block("b"):\n        v = T.axis.spatial(8, i)\n        s += A[v]\n        B[v] = s'
    )
    assert "T.reads(s[0], A[v])" in func.script() or "T.reads(A[v], s[0])" in func.script()
    assert "s[0]" in func.script().split("T.writes(")[1].split("\n")[0]
    np.testing.assert_array_equal(results(func, 0)[0], np.cumsum(A))


def test_parallel_iterations_have_their_own_and_share_none():
    inside = """
        for i in T.parallel(8):
            s = 0
            v = A[i] + 2
            while v > 0:
                s += v
                v = v // 2
            B[i] = s
    """
    want = []
    for v in A + 2:
        s = 0
        while v > 0:
            s, v = s + v, v // 2
        want.append(s)
    np.testing.assert_array_equal(results(function(inside), 0)[0], want)
    np.testing.assert_array_equal(results(function(inside.replace("parallel", "vectorized")), 0)[0], want)
    for kind in ("parallel", "vectorized"):
        with pytest.raises(LegalityError, match=r"tir\.reduction") as caught:
            tl.build(function(f"s = 0\nfor i in T.{kind}(8):\n    s += A[i]\nB[0] = s"))
        assert "i = 0" in str(caught.value) and "i = 1" in str(caught.value)
        with pytest.raises(LegalityError):
            tl.build(function(f"s = 0\nfor i in T.{kind}(8):\n    B[s] = A[i]\n    s = s + 1"))
        with pytest.raises(LegalityError):
            tl.build(function(f"s = 0\nfor i in T.{kind}(8):\n    s = A[i]\nB[0] = s"))
        summed = f's = 0\nfor i in T.{kind}(8, annotations={{"tir.reduction": True}}):\n    s += A[i]\nB[0] = s'
        assert results(function(summed), 0)[0][0] == A.sum()


def test_lanes_choose_where_a_condition_assigns():
    func = function("""
        for i in T.vectorized(8):
            v = 0.0
            if F[i] > 1.0:
                v = F[i] * 2.0
            elif F[i] < 0.0:
                v = -1.0
            F[i] = v
    """)
    np.testing.assert_array_equal(results(func, 0)[1], np.where(F > 1, F * 2, np.where(F < 0, -1, 0)))


GPU = 'A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), n: T.int32'


def test_threads_read_variables_of_the_host_and_assign_their_own():
    func = function(
        """
        s = 1.0
        for k in range(n):
            s = s * 2.0
        for b in T.thread_binding(2, "blockIdx.x"):
            for t in T.thread_binding(4, "threadIdx.x"):
                m = s
                for k in range(2):
                    m += A[b * 4 + t]
                B[b * 4 + t] = m
        """,
        signature=GPU,
    )
    b = np.zeros(8, "float32")
    tl.simulate(func, F.copy(), b, 3)
    np.testing.assert_array_equal(b, 8 + 2 * F)
    for line in ("s += A[b]", "s = A[b]\n        B[b] = s"):
        with pytest.raises(ScriptError, match="lives outside the thread loop"):
            function(
                f's = 0.0\nif n > 3:\n    s = 1.0\nfor b in T.thread_binding(8, "blockIdx.x"):\n    {line}\nB[0] = s'.replace(
                    "\n        B", "\n    B"
                ),
                signature=GPU,
            )


def test_the_printer_gives_scopes_their_own_names():
    func = function(
        "for i in range(2):\n    s = A[i]\n    for k in range(2):\n        t = s\n        t = t + 1\n        B[k] = t"
    )
    assert_structural_equal(parse(func.script()), func)
