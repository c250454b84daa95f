from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tirlower.diagnostics import ArgumentError, InterpreterError, UnboundError
from tirlower.interp import interpret
from tirlower.ir import custom_datatype as datatype
from tirlower.script import parse


@pytest.fixture(autouse=True)
def ring() -> Iterator[None]:
    """Integers modulo 251 in a byte: patterns 251 and up are no numbers."""
    datatype.register("ring")
    for name, fn in (
        ("Add", lambda a, b: (a + b) % 251),
        ("Mul", lambda a, b: a * b % 251),
        ("LT", lambda a, b: a < b),
    ):
        datatype.register_op(fn, name, "llvm", "ring")
    datatype.register_op(lambda v: int(v) % 251, "Cast", "llvm", "int", "ring")
    datatype.register_op(lambda v: int(v) % 251, "Cast", "llvm", "float", "ring")
    datatype.register_op(lambda a: a, "Cast", "llvm", "ring", "int")
    datatype.register_op(lambda a: pow(a, 249, 251), "Call", "llvm", "ring", intrinsic_name="tir.rsqrt")
    yield
    datatype.unregister("ring")


def run(body: str, *args: Any, params: str = 'A: T.Buffer((4,), "custom[ring]8"), B: T.Buffer((4,), "int32")') -> None:
    interpret(parse(f"@T.prim_func\ndef f({params}):\n" + "".join(f"    {x}\n" for x in body.splitlines())), *args)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.array([1, 200, 250, 7], "uint8"), np.array([-1, 600, 3, 4], "int32")


def test_arithmetic_conversions_and_constants() -> None:
    a, b = arrays()
    run("""for i in range(4):
    A[i] = A[i] * A[i] + T.Cast("custom[ring]8", B[i]) + T.FloatImm("custom[ring]8", 300.0)
    B[i] = T.Cast("int32", A[i])""", a, b)  # fmt: skip
    want = [(x * x + y + 300) % 251 for x, y in ((1, -1), (200, 600), (250, 3), (7, 4))]
    assert a.tolist() == want == b.tolist()


def test_vectors_and_intrinsics() -> None:
    a, b = arrays()
    run("A[0:4] = T.rsqrt(A[0:4]) * A[0:4]", a, b)
    assert a.tolist() == [1] * 4


def test_comparisons_select_and_scalars() -> None:
    a, b = arrays()
    params = 'A: T.Buffer((4,), "custom[ring]8"), B: T.Buffer((4,), "int32"), x: T.Var("x", "custom[ring]8")'
    run("for i in range(4):\n    A[i] = T.Select(A[i] < x, x, A[i])", a, b, 100, params=params)
    assert a.tolist() == [100, 200, 250, 100]
    with pytest.raises(ArgumentError, match="0 to 255"):
        run("A[0] = x", a, b, 256, params=params)


def test_memory_is_checked_as_ever() -> None:
    a, b = arrays()
    with pytest.raises(UnboundError, match="read before it is written"):
        run('C = T.alloc_buffer((4,), "custom[ring]8")\nA[0] = C[1]', a, b)
    with pytest.raises(ArgumentError, match="dtype uint8"):
        run("A[0] = A[1]", a.astype("int8"), b)


def test_a_function_that_returns_no_number() -> None:
    datatype.register_op(lambda a, b: "seven", "Mul", "llvm", "ring")
    with pytest.raises(InterpreterError, match="returned 'seven', which is no custom"):
        run("A[0] = A[0] * A[1]", *arrays())


def test_a_program_means_what_is_registered_as_it_runs() -> None:
    func = parse(
        """@T.prim_func
def f(A: T.Buffer((4,), "custom[ring]8")):
    A[0] = A[1] + A[2]
"""
    )
    a, _ = arrays()
    for give, want in ((7, 7), (9, 9)):
        datatype.register_op(lambda x, y, give=give: give, "Add", "llvm", "ring")
        interpret(func, a)
        assert a[0] == want


def test_what_is_not_registered() -> None:
    for text, what in (
        ("A[0] - A[1]", "Sub"),
        ("T.sin(A[0])", "tir.sin"),
        ('T.Cast("custom[ring]8", T.uint8(3))', "a cast to ring"),
    ):
        with pytest.raises(InterpreterError, match=f"{what} has no meaning"):
            run(f"A[0] = {text}", *arrays())
