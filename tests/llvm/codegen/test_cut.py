"""Long bodies become several functions, and modules several calls into LLVM, with the same results."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tirlower as tl
from tirlower.driver import cpu_compile as host_compile
from tirlower.emit.compile import parts_of
from tirlower.interp import interpret
from tirlower.llvm import jit
from tirlower.llvm.codegen import cut, platform
from tirlower.script import parse

N = 60
FEW = 20


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Budgets that small programs exceed."""
    monkeypatch.setenv("TIRLOWER_CACHE", "0")
    monkeypatch.setattr(platform, "BODY_BUDGET", 60)
    monkeypatch.setattr(cut, "BODY_BUDGET", 60)
    monkeypatch.setattr(cut, "_PART", 25)
    monkeypatch.setattr(cut, "_EXPRESSION_BUDGET", 40)
    monkeypatch.setattr(host_compile, "PART_LINES", 120)
    yield


def rows(text: str, count: int = FEW, indent: int = 4) -> str:
    """A line for each number; ``%`` stands for the number."""
    return "".join(" " * indent + text.replace("%", str(k)) + "\n" for k in range(count))


PROGRAMS = {
    "straight": rows("B[%] = A[% + 1] * T.float32(2) + B[% + 3]"),
    "names": rows("x% = T.bind(A[%] + B[%])") + rows("B[% + 20] = x% * x0"),
    "booleans and integers": rows("b% = T.bind(A[%] < B[%])\n    n% = T.bind(T.int16(% * 3))")
    + rows("if b%:\n        B[n% + T.int16(1)] = A[%] - T.float32(%)"),
    "local memory": "    L = T.alloc_buffer((32,), 'float32', scope='local')\n"
    + rows("L[%] = A[%] * A[% + 1]")
    + rows("B[%] = L[19 - %] + B[% + 2]"),
    "much memory": "    L = T.alloc_buffer((40000,), 'float32')\n"
    + rows("L[% * 1000] = A[%] * A[% + 1]")
    + rows("B[%] = L[(19 - %) * 1000]"),
    "in a loop": "    for r in range(3):\n" + rows("B[% + r] = A[% + 1] * T.float32(0.5) + B[% + 3]", indent=8),
    "in parallel": "    for r in T.parallel(2):\n" + rows("B[% + r * 30] = A[% + 1] * T.float32(0.5)", indent=8),
    "parallel inside": rows("for r in T.parallel(2):\n        B[% * 2 + r] = A[r] * T.float32(%) + A[%]"),
    "leaving a loop": "    for r in range(20):\n"
    + rows("B[%] = B[%] + A[r]", indent=8)
    + "        if A[r] < T.float32(-5):\n            break\n"
    + rows("B[%] = B[%] * T.float32(0.5)", indent=8),
    "returning": rows("B[%] = B[%] + A[%]") + "    if A[0] < T.float32(1000):\n        return\n" + rows("B[%] = A[%]"),
    "whiles": "    i = T.alloc_buffer((1,), 'int32', scope='local')\n"
    + rows("i[0] = 0\n    while i[0] < 3:\n        B[%] = B[%] + A[i[0]]\n        i[0] = i[0] + 1"),
    "asserts that hold": rows("assert A[%] < T.float32(1000), 'large'\n    B[%] = A[%]"),
    "views": "    V = T.Buffer((30,), 'float32', data=A.data, elem_offset=5)\n" + rows("B[%] = V[%] + A[%]"),
    "vectors": "    v = T.bind(A[0:16] + B[16:32])\n" + rows("B[% * 2:% * 2 + 16] = v + A[%:% + 16]"),
    "one expression": "    B[0] = " + " + ".join(f"A[{k}] * T.float32({k})" for k in range(40)) + "\n",
    "one expression, chosen": "    B[0] = T.if_then_else(A[0] < T.float32(0), T.float32(1), "
    + " + ".join(f"A[{k}]" for k in range(40)) + ") + " + " + ".join(f"T.exp(A[{k}])" for k in range(30)) + "\n",
    "nested": "    for r in range(2):\n        if A[r] < T.float32(2):\n" + rows("B[% + r] = A[%] + B[%]", indent=12)
    + "        else:\n" + rows("B[% + r] = A[%] - B[%]", indent=12),
}  # fmt: skip


def function(body: str):
    return parse(f"@T.prim_func\ndef f(A: T.Buffer(({N},), 'float32'), B: T.Buffer(({N},), 'float32')):\n{body}")


def arguments() -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.integers(-40, 40, N).astype("float32") / 4 for _ in range(2)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_long_body(name: str) -> None:
    func = function(PROGRAMS[name])
    kernel = tl.build(func, schedule="none")
    assert kernel.source("llvm").count(".part.") > 1
    want, got = arguments(), arguments()
    interpret(func, *want)
    kernel(*got)
    if "T.exp" in PROGRAMS[name]:
        np.testing.assert_allclose(got[1], want[1], rtol=1e-6)
    else:
        for a, b in zip(got, want, strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_parts_are_compiled_apart() -> None:
    objects = []
    original = jit.engine().link

    def link(data: bytes, *args: object, **kwargs: object) -> object:
        objects.extend(parts_of(data))
        return original(data, *args, **kwargs)

    engine = jit.engine()
    engine.link = link  # type: ignore[method-assign]
    try:
        kernel = tl.build(
            function(PROGRAMS["straight"] + PROGRAMS["vectors"] + rows("B[%] = T.exp(B[%])")), schedule="none"
        )
    finally:
        del engine.link
    assert len(objects) > 1
    assert kernel.source("asm").count(".part.") > 2
    a, b = arguments()
    kernel(a, b)


def test_an_error_in_a_part_is_the_calls_error() -> None:
    body = "    L = T.alloc_buffer((40000,), 'float32')\n    L[0] = A[0]\n"
    body += rows("B[%] = L[0]\n    assert A[%] < T.float32(%), 'too large'")
    kernel = tl.build(function(body), schedule="none")
    a, b = arguments()
    a[:] = -1
    kernel(a, b)
    a[17] = 100
    for _ in range(3):
        with pytest.raises(tl.diagnostics.RuntimeAssertError, match="too large"):
            kernel(a, b)


def test_an_error_in_a_part_of_a_parallel_loop() -> None:
    body = "    for r in T.parallel(4):\n" + rows(
        "B[% + r * 15] = A[%]\n        assert A[% + r] < T.float32(50), 'too large'", 14, 8
    )
    kernel = tl.build(function(body), schedule="none")
    a, b = arguments()
    kernel(a, b)
    a[10] = 100
    with pytest.raises(tl.diagnostics.RuntimeAssertError, match="too large"):
        kernel(a, b)
