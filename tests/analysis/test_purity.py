"""What evaluating an expression and calling a function may do."""

from __future__ import annotations

import pytest

from tirlower.analysis import assert_pure_function, is_pure_function, side_effect
from tirlower.diagnostics import WellFormedError
from tirlower.ir import Buffer, BufferLoad, Call, GlobalVar, Purity, Var
from tirlower.script import parse
from tirlower.script import tir as T

x, A = Var("x"), Buffer("A", (8,), "int32")


def test_expressions():
    load = BufferLoad(A, (x,))
    assert side_effect(x * 2 + 1) is Purity.PURE and side_effect(load + 1) is Purity.READS
    assert side_effect(T.address_of(load)) is Purity.PURE  # the element is named, and not read
    assert side_effect(T.address_of(BufferLoad(A, (load,)))) is Purity.READS
    assert side_effect(T.call_extern("int32", "f", x)) is Purity.OPAQUE
    call = Call(GlobalVar("f"), (x,), "int32")
    assert side_effect(call) is Purity.OPAQUE and side_effect(call, lambda callee: callee.name == "f") is Purity.PURE


FUNCTIONS = [
    ("def f(x: T.int32) -> T.int32:\n    return x + 1", True),
    ('def f(A: T.Buffer((4,), "int32")) -> T.int32:\n    return A[0]', True),
    ('def f() -> T.int32:\n    B = T.alloc_buffer((2,), "int32")\n    B[0] = 1\n    return B[0]', True),
    ('def f(A: T.Buffer((4,), "int32")):\n    A[0] = 1', False),
    ('def f(x: T.int32):\n    assert x > 0, "no"', False),
    ('def f():\n    T.evaluate(T.call_extern("int32", "g"))', False),
]


@pytest.mark.parametrize(("text", "pure"), FUNCTIONS, ids=[text.split("\n")[1].strip() for text, _ in FUNCTIONS])
def test_functions(text: str, pure: bool):
    func = parse("@T.prim_func\n" + text)
    assert is_pure_function(func) is pure
    if pure:
        assert_pure_function(func)
    else:
        with pytest.raises(WellFormedError, match="function 'f' is not pure"):
            assert_pure_function(func)
