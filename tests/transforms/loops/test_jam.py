"""JamReductions: iterations with a sum each run side by side; the same to the bit, and only where they share nothing."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.interp import interpret
from tirlower.ir import BufferStore, For, ForKind, PrimFunc, post_order_visit
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import JamReductions

HEAD = """@T.prim_func
def f(A: T.Buffer(("n", "m"), "float32"), B: T.Buffer(("m",), "float32"), I: T.Buffer(("m",), "int32"),
      y: T.Buffer(("n",), "float32"), z: T.Buffer(("n",), "float32"), s: T.int32):
    T.func_attr({"tir.noalias": True})
    a = T.alloc_buffer((1,), "float32", scope="local")
    b = T.alloc_buffer((1,), "float32", scope="local")
    c = T.alloc_buffer((1,), "float32", scope="local")
    w = T.alloc_buffer((1,), "int32", scope="local")
"""
LOOP = """for i in range(n):
    a[0] = T.float32(0)
    for k in range(m):
        a[0] = a[0] + A[i, k] * B[k]
    y[i] = a[0]
"""


def func(body: str) -> PrimFunc:
    return parse(HEAD + "".join(f"    {line}\n" for line in body.splitlines()))  # type: ignore[return-value]


def steps(f: PrimFunc) -> int:
    """The most assignments to the first sum and its copies that stand in one loop."""
    most = 0

    def look(op: object) -> None:
        nonlocal most
        if isinstance(op, For):
            body = getattr(op.body, "stmts", (op.body,))
            most = max(most, sum(isinstance(stmt, BufferStore) and stmt.buffer.name[0] == "a" for stmt in body))

    post_order_visit(f.body, look)
    return most


def test_four_iterations_at_once_then_the_rest() -> None:
    @T.prim_func
    def before(A: T.Buffer(("n", 256), "float32"), y: T.Buffer(("n",), "float32")):
        T.func_attr({"tir.noalias": True})
        a = T.alloc_buffer((1,), "float32", scope="local")
        for i in range(n):
            a[0] = T.float32(0)
            for k in range(256):
                a[0] = a[0] + A[i, k]
            y[i] = a[0]

    @T.prim_func
    def expected(A: T.Buffer(("n", 256), "float32"), y: T.Buffer(("n",), "float32")):
        T.func_attr({"tir.noalias": True})
        a = T.alloc_buffer((1,), "float32", scope="local")
        a1 = T.alloc_buffer((1,), "float32", scope="local")
        a2 = T.alloc_buffer((1,), "float32", scope="local")
        a3 = T.alloc_buffer((1,), "float32", scope="local")
        for i in range(n // 4):
            a[0] = T.float32(0)
            a1[0] = T.float32(0)
            a2[0] = T.float32(0)
            a3[0] = T.float32(0)
            for k in range(256):
                a[0] = a[0] + A[i * 4, k]
                a1[0] = a1[0] + A[i * 4 + 1, k]
                a2[0] = a2[0] + A[i * 4 + 2, k]
                a3[0] = a3[0] + A[i * 4 + 3, k]
            y[i * 4] = a[0]
            y[i * 4 + 1] = a1[0]
            y[i * 4 + 2] = a2[0]
            y[i * 4 + 3] = a3[0]
        for i in T.serial(
            T.max(n // 4 * 4, 0),
            T.max(n // 4 * 4, 0) + (n - T.max(n // 4 * 4, 0)),
            annotations={"tir.no_unroll": True},
        ):
            a[0] = T.float32(0)
            for k in T.serial(256, annotations={"tir.no_unroll": True}):
                a[0] = a[0] + A[i, k]
            y[i] = a[0]

    check(JamReductions(), before, expected, sizes=(1, 3, 4, 5, 8, 11), samples=8)


#: bodies that are jammed, with the iterations at once
JAMMED: dict[str, tuple[str, int]] = {
    "a sum": (LOOP, 4),
    "from another start": (LOOP.replace("range(n)", "range(1, n)"), 4),
    "a constant extent": (LOOP.replace("range(n)", "range(s, s + 7)").replace("[i", "[T.min(T.max(i, 0), n - 1)"), 4),
    "fewer than none": (LOOP.replace("range(n)", "range(m, 1)"), 4),
    "a recurrence": (LOOP.replace("a[0] + A[i, k] * B[k]", "a[0] * A[i, k] + B[k]"), 4),
    "two sums": (
        LOOP.replace("    for k", "    b[0] = T.float32(1)\n    for k").replace(
            "    y[i] = a[0]", "        b[0] = b[0] - A[i, k]\n    y[i] = a[0] + b[0]\n    z[i] = b[0]"
        ),
        2,
    ),
    "two loops": (
        LOOP.replace("    y[i]", "    for l in range(m):\n        a[0] = a[0] + B[l] * A[i, l]\n    y[i]"),
        4,
    ),
    "loops in loops": (
        LOOP.replace(
            "    for k in range(m):\n        a[0]", "    for l in range(3):\n     for k in range(m):\n        a[0]"
        ).replace("range(3)", "range(s)"),
        4,
    ),
    "names": (
        LOOP.replace(
            "        a[0] = a[0] + A[i, k] * B[k]", "        v: T.float32 = A[i, k] * B[k]\n        a[0] = a[0] + v"
        )
        .replace("    a[0] = T.float32(0)", "    u: T.float32 = B[i % 1]\n    a[0] = u")
        .replace("    y[i] = a[0]", "    t: T.float32 = a[0] * u\n    y[i] = t + u"),
        4,
    ),
    "a variable that is no sum": (
        LOOP.replace("        a[0]", "        w[0] = I[k]\n        a[0]", 1)
        .replace("    a[0] = T.float32(0)", "    w[0] = i\n    a[0] = T.float32(0)")
        .replace("y[i] = a[0]", "y[i] = a[0] + T.Cast('float32', w[0])"),
        4,
    ),
    "declared inside": (
        LOOP.replace(
            "    a[0] = T.float32(0)",
            "    aa = T.alloc_buffer((1,), 'float32', scope='local')\n    aa[0] = T.float32(0)",
        )
        .replace("a[0] = a[0]", "aa[0] = aa[0]")
        .replace("y[i] = a[0]", "y[i] = aa[0]"),
        4,
    ),
    "one element for all": (LOOP.replace("y[i] =", "y[0] ="), 4),
    "stores behind the loop keep their order": (
        LOOP.replace("y[i] = a[0]", "y[i] = a[0]\n    y[n - 1 - i] = a[0] + A[i, 0]"),
        4,
    ),
    "an outer loop": ("for o in range(2):\n" + "".join(f"    {line}\n" for line in LOOP.splitlines()), 4),
}


@pytest.mark.parametrize("name", JAMMED)
def test_what_is_jammed_means_the_same(name: str) -> None:
    body, count = JAMMED[name]
    before = func(body)
    after = check(JamReductions(), before, sizes=(1, 2, 3, 4, 5, 7, 9), samples=12)
    assert after is not before and steps(after) == count


#: bodies that stay as they are
KEPT: dict[str, str] = {
    "what is stored is read": LOOP.replace("A[i, k] * B[k]", "A[i, k] * y[k % n]"),
    "what is stored is read behind the loop": LOOP.replace("y[i] = a[0]", "y[i] = a[0]\n    z[i] = y[n - 1 - i]"),
    "a variable carries on": LOOP.replace("    a[0] = T.float32(0)\n", ""),
    "a variable is read before it is set": LOOP.replace("    a[0] = T.float32(0)", "    z[i] = a[0]\n    a[0] = T.float32(0)"),
    "a variable starts from another's last": LOOP.replace("a[0] = T.float32(0)", "a[0] = b[0]\n    b[0] = T.float32(1)"),
    "a variable is set in the inner loop alone": LOOP.replace("        a[0] = a", "        b[0] = B[k]\n        a[0] = a").replace(
        "y[i] = a[0]", "y[i] = a[0] + b[0]"
    ),
    "a variable is read behind the loop": LOOP + "z[0] = a[0]\n",
    "a variable is set in front of the loop": "a[0] = T.float32(1)\n" + LOOP,
    "bounds depend on the iteration": LOOP.replace("range(m)", "range(i)"),
    "bounds are in a name": LOOP.replace("    for k in range(m)", "    q: T.int32 = i + 1\n    for k in range(T.min(q, m))"),
    "bounds are in memory": LOOP.replace("range(m)", "range(T.min(I[0], m))"),
    "a condition": LOOP.replace("    y[i] = a[0]", "    if i > 2:\n        y[i] = a[0]"),
    "an assertion": LOOP.replace("    y[i]", "    assert i < n, 'no'\n    y[i]"),
    "a quotient that may fail": LOOP.replace("A[i, k]", "A[i // s, k]"),
    "memory is written in the inner loop": LOOP.replace("        a[0] = a", "        z[i] = B[k]\n        a[0] = a"),
    "memory is written in front of it": LOOP.replace("    a[0] = T", "    z[i] = B[0]\n    a[0] = T"),
    "an array as a sum": LOOP.replace("a[0]", "z[i]"),
    "a parallel loop": LOOP.replace("range(n)", "T.parallel(n)"),
    "an unrolled loop inside": LOOP.replace("range(m)", "T.unroll(m)"),
    "an annotated loop": LOOP.replace("range(n)", "T.serial(n, annotations={'note': 1})"),
    "a short loop inside": LOOP.replace("range(m)", "range(127)"),
    "few iterations": LOOP.replace("range(n)", "range(3)"),
    "an integer sum": LOOP.replace("a[0]", "w[0]").replace("T.float32(0)", "0").replace("A[i, k] * B[k]", "I[k]").replace(
        "= w[0]\n", "= T.Cast('float32', w[0])\n"
    ).replace("w[0] = T.Cast('float32', w[0])", "w[0] = w[0]"),
    "a greatest value": LOOP.replace("a[0] + A[i, k] * B[k]", "T.max(a[0], A[i, k])"),
    "no sum": LOOP.replace("a[0] + A[i, k] * B[k]", "A[i, k] * B[k]"),
    "three sums": LOOP.replace("    for k", "    b[0] = T.float32(1)\n    c[0] = T.float32(2)\n    for k").replace(
        "    y[i] = a[0]", "        b[0] = b[0] - A[i, k]\n        c[0] = c[0] + B[k]\n    y[i] = a[0] + b[0] + c[0]"
    ),
    "a variable's address is passed on": LOOP + "T.evaluate(T.call_extern('int32', 'look', a.data))\n",
    "another name for a variable's memory": "v = T.decl_buffer((1,), 'float32', data=a.data, scope='local')\n"
    + LOOP.replace("y[i] = a[0]", "y[i] = v[0]"),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_may_not_be_jammed_or_gains_nothing_stays(name: str) -> None:
    before = func(KEPT[name])
    assert JamReductions()(before) is before


def test_parameters_that_may_overlap_keep_their_order() -> None:
    before = parse(
        (HEAD + "".join(f"    {line}\n" for line in LOOP.splitlines())).replace(
            '    T.func_attr({"tir.noalias": True})\n', ""
        )
    )
    assert JamReductions()(before) is before


def test_random_bodies_mean_the_same() -> None:
    """Statements drawn at random, among them many that forbid it: jammed or not, every element is the same."""
    rng = random.Random(7)
    jammed = 0
    for _ in range(80):
        names = rng.choice(["a", "ab", "abc", "ab", "a"])
        values = ["A[i, k]", "B[k]", "B[k]", f"{rng.choice('abc')}[0]", rng.choice(["B[k]", "B[k]", "y[k % n]"])]
        starts = ["T.float32(0)", "B[0]", "A[i, 0]", rng.choice(["B[0]", "B[0]", "a[0]", "y[i]"])]
        pre = [f"{v}[0] = {rng.choice(starts)}" for v in names]
        inner = [
            f"{v}[0] = {rng.choice([v, v, v, 'c'])}[0] {rng.choice('+-*')} {rng.choice(values)}"
            for v in rng.choices(names, k=rng.randint(1, 2))
        ]
        post = [
            f"{rng.choice('yyz')}[{rng.choice(['i', '0', 'n - 1 - i'])}] = {rng.choice(names)}[0]"
            for _ in range(rng.randint(1, 3))
        ]
        lines = ["for i in range(n):", *(f"    {s}" for s in pre), "    for k in range(m):"]
        lines += [*(f"        {s}" for s in inner), *(f"    {s}" for s in post)]
        if rng.random() < 0.1:
            lines.append("z[0] = z[0] + a[0]")
        before = func("a[0] = T.float32(1)\nb[0] = T.float32(2)\nc[0] = T.float32(3)\n" + "\n".join(lines)
                      if rng.random() < 0.2 else "\n".join(lines))  # fmt: skip
        after = JamReductions()(before)
        if after is before:
            continue
        jammed += 1
        for n, m in ((1, 3), (4, 1), (6, 5), (9, 4)):
            draw = np.random.default_rng(n)
            start = [draw.random((n, m)), draw.random(m), draw.integers(0, 9, m), draw.random(n), draw.random(n)]
            start = [x.astype("int32" if x.dtype.kind == "i" else "float32") for x in start]
            ours, theirs = [x.copy() for x in start], [x.copy() for x in start]
            interpret(before, *ours, 1)
            interpret(after, *theirs, 1)
            assert all(np.array_equal(p, q) for p, q in zip(ours, theirs, strict=True)), "\n".join(lines)
    assert jammed >= 15


def test_native_calls_with_one_array_twice_and_with_overlap() -> None:
    """In place, each iteration reads its own element before it writes it; with overlap the version in order runs."""
    text = """@T.prim_func
def f(c: T.Buffer(("m",), "float64"), x: T.Buffer(("n",), "float64"), y: T.Buffer(("n",), "float64")):
    for i in range(n):
        acc = 0.0
        for k in range(m):
            acc = acc * x[i] + c[k]
        y[i] = acc
"""
    exact = tl.build(parse(text), tl.Target("llvm -fast-math-contract=0", num_threads=1), schedule="none")
    assert "acc_3" in exact.source("tir")
    c = np.random.default_rng(0).random(20)

    def python(x: np.ndarray, y: np.ndarray) -> None:
        for i in range(len(x)):
            acc = 0.0
            for k in range(len(c)):
                with np.errstate(all="ignore"):
                    acc = acc * x[i] + c[k]
            y[i] = acc

    for size, ahead, behind in ((11, 0, 0), (11, 1, 0), (11, 0, 1), (12, 3, 0), (9, 0, 5)):
        ours = np.random.default_rng(1).random(size + 8)
        theirs = ours.copy()
        exact(c, ours[ahead : ahead + size], ours[behind : behind + size])
        python(theirs[ahead : ahead + size], theirs[behind : behind + size])
        assert np.array_equal(ours, theirs, equal_nan=True)


@pytest.mark.parametrize("kind", ["float32", "float64", "float16"])
def test_native_results_are_the_same_to_the_bit(kind: str) -> None:
    text = f"""@T.prim_func
def f(A: T.Buffer(("n", "m"), "{kind}"), B: T.Buffer(("m", "p"), "{kind}"), C: T.Buffer(("n", "p"), "{kind}")):
    for i in range(n):
        for j in range(p):
            acc = T.Cast("{kind}", 0)
            for k in range(m):
                acc += A[i, k] * B[k, j]
            C[i, j] = acc
"""
    made = tl.build(parse(text), tl.Target("llvm -fast-math-contract=0", num_threads=1), schedule="none")
    assert "acc_3" in made.source("tir")
    rng = np.random.default_rng(5)
    for n, m, p in ((1, 1, 1), (3, 17, 4), (2, 40, 7), (5, 0, 6), (4, 9, 0), (6, 33, 19)):
        a, b = rng.standard_normal((n, m)).astype(kind), rng.standard_normal((m, p)).astype(kind)
        ours, in_order = np.ones((n, p), kind), np.zeros((n, p), kind)
        for k in range(m):
            in_order += a[:, k : k + 1] * b[k]
        made(a, b, ours)
        assert np.array_equal(ours, in_order)


def test_kinds_of_loops_that_are_made() -> None:
    found = []
    post_order_visit(JamReductions()(func(LOOP)).body, lambda op: found.append(op) if isinstance(op, For) else None)
    assert len(found) == 4 and all(loop.kind is ForKind.SERIAL for loop in found)
