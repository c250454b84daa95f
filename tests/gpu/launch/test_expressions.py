from __future__ import annotations

import math

import numpy as np
import pytest

from tirlower.diagnostics import LoweringError
from tirlower.gpu.launch.expressions import ExpressionWriter
from tirlower.interp import interpret
from tirlower.ir import Buffer, Call, Evaluate, Expr, Op, PrimFunc, Var
from tirlower.script import tir as T

n, m = Var("n", "int32"), Var("m", "int32")
k, u = Var("k", "int64"), Var("u", "uint32")
x, y, h = Var("x", "float32"), Var("y", "float64"), Var("h", "float16")
p, q = Var("p", "bool"), Var("q", "bool")
VARS = (n, m, k, u, x, y, h, p, q)

EXPRESSIONS: list[Expr] = [
    n + m * 3 - 1,
    n * m * n * m + n,
    (n + m) // 7,
    (n - m) % 5,
    T.truncdiv(n, 7),
    T.truncmod(n - m, 7),
    T.min(n, m) + T.max(n, -m),
    T.Cast("int64", n) * k + T.Cast("int64", m),
    T.Cast("int32", k),
    T.Cast("int8", n * m),
    T.Cast("uint8", n),
    T.Cast("bool", n),
    T.Cast("int32", p) + T.Cast("int32", q),
    u * u + T.uint32(7),
    u - T.uint32(0xFFFFFFFF),
    T.And(n < m, T.Or(p, n == 3)),
    T.Not(T.And(p, q)),
    T.Select(n <= m, n, m),
    T.if_then_else(n > m, n - m, m - n),
    T.if_then_else(m != 0, n // m, 0),
    T.bitwise_and(n, 255) + T.bitwise_or(m, 1) + T.bitwise_xor(n, m) + T.bitwise_not(n),
    T.shift_left(n, 3),
    T.shift_right(n, 2),
    T.likely(n < 5),
    T.popcount(u),
    x + T.float32(0.1),
    x * x * T.float32(3) - x,
    x / T.float32(3),
    T.exp(x) + T.sqrt(T.float32(2)),
    y * 2.5 + T.Cast("float64", n),
    T.Cast("float32", y),
    T.Cast("int32", T.floor(x)),
    T.Cast("float32", h) + x,
    h + h * h,
    T.Cast("float16", y),
    T.Select(x < T.float32(1), x, T.float32(1)),
    T.max(x, T.float32(0.5)),
    T.isinf(x),
    T.float32(float("inf")) + x,
]


@pytest.mark.parametrize("position", range(len(EXPRESSIONS)))
def test_python_computes_what_the_interpreter_does(position: int) -> None:
    expr = EXPRESSIONS[position]
    writer = ExpressionWriter("test")
    params = ", ".join([writer.define(v) for v in VARS])
    run = eval(f"lambda {params}: {writer.value(expr)}", writer.constants)
    func = PrimFunc(VARS, {}, expr.dtype, {}, Evaluate(Call(Op.get("tir.ret"), (expr,), expr.dtype)))
    rng = np.random.default_rng(position)
    edges = [0, 1, -1, 5, 2**31 - 1, -(2**31), 123456789]
    for _ in range(25):
        values = [
            int(rng.choice(edges)), int(rng.choice(edges)), int(rng.choice([0, -3, 2**62, 2**40 + 5])),
            int(rng.choice([0, 1, 2**32 - 1, 77])), float(np.float32(rng.normal() * 3)), float(rng.normal() * 3),
            float(np.float16(rng.normal() * 3)), bool(rng.integers(2)), bool(rng.integers(2)),
        ]  # fmt: skip
        try:
            wanted = interpret(func, *values)
        except Exception as error:
            # What has no meaning there (a shift out of range, an overflowing conversion) is refused or a number here.
            assert type(error).__name__ in ("InterpreterError",), error
            continue
        found = run(*values)
        assert type(found) in (int, float, bool)
        assert found == wanted or (math.isnan(found) and math.isnan(wanted)), (values, str(expr))


def test_names_are_python_names() -> None:
    writer = ExpressionWriter("test")
    odd = [Var(name, "int32") for name in ("for", "a.b", "1st", "_stream", "x", "x", "lambda", "größe", "print")]
    names = [writer.define(v) for v in odd]
    assert len(set(names)) == len(names) and all(name.isidentifier() and name[0] != "_" for name in names)
    body = " + ".join([writer.value(v) for v in odd])
    assert eval(f"lambda {', '.join(names)}: {body}")(*range(9)) == 36


def test_lets_and_pointers() -> None:
    v = Var("v", "int32")
    writer = ExpressionWriter("test")
    name = writer.define(n)
    expr = T.Let(v * v + 1, where={v: n + 2})
    assert eval(f"lambda {name}: {writer.value(expr)}", writer.constants)(3) == 26
    A = Buffer("A", (4, 8), "float16")
    data = writer.define(A.data)
    place = writer.pointer(T.address_of(A[n, 3]))
    assert eval(f"lambda {name}, {data}: {place}")(2, 1000) == 1000 + (2 * 8 + 3) * 2
    access = writer.pointer(A.access_ptr("r", offset=n))
    assert eval(f"lambda {name}, {data}: {access}")(5, 1000) == 1010
    assert eval(f"lambda {data}: {writer.value(T.isnullptr(A.data))}")(0) is True


def test_what_host_code_cannot_evaluate() -> None:
    writer = ExpressionWriter("the host code of `f`")
    A = Buffer("A", (4,), "float32")
    writer.define(A.data)
    writer.define(n)
    for expr, text in (
        (A[n], "accesses 'A', which is in device memory"),
        (m + 1, "'m' has no value here"),
        (T.Ramp(n, 1, 4), "has the vector"),
        (T.call_extern("int32", "rand"), "host code calls"),
    ):
        with pytest.raises(LoweringError, match=f"the host code of `f`: .*{text}"):
            writer.value(expr)
    with pytest.raises(LoweringError, match=r"is given the address"):
        writer.pointer(T.call_extern("handle", "where"))
