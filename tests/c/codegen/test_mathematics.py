"""The text of mathematics and of operations on bits."""

from __future__ import annotations

import pytest

from tests.c.batch import lines_of
from tirlower.c.codegen.module import generate
from tirlower.ir import Buffer, BufferStore, Call, IntImm, Op, PrimFunc, Var


def stored(params: str, value: str, dtype: str) -> list[str]:
    return lines_of(f'@T.prim_func\ndef f({params}, O: T.Buffer((1,), "{dtype}")):\n    O[0] = {value}\n')


@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        ("T.exp(x)", "float32", "expf(x)"),
        ("T.exp(x)", "float64", "exp(x)"),
        ("T.exp10(x)", "float32", "(float)pow(10.0, x)"),
        ("T.rsqrt(x)", "float32", "1.0f / sqrtf(x)"),
        ("T.sigmoid(x)", "float64", "tir_sigmoid(x)"),
        ("T.fma(x, x, x)", "float32", "fmaf(x, x, x)"),
        ("x ** 2", "float32", "x * x"),
        ("x ** 3", "float64", "x * x * x"),
        ("x ** -1", "float32", "1.0f / x"),
        ("T.pow(x, x)", "float32", "powf(x, x)"),
        ("T.nearbyint(x)", "float32", "nearbyintf(x)"),
        ("T.nextafter(x, x)", "float32", "nextafterf(x, x)"),
        ("T.ldexp(x, 3)", "float64", "ldexp(x, 3)"),
        ("x << 3", "int32", "(int32_t)((uint32_t)x * 8u)"),
        ("x >> 3", "int32", "(int32_t)tir_sar(x, UINT64_C(3), 32)"),
        ("x << x", "int32", "(int32_t)tir_shl((uint64_t)x, (uint64_t)x, 32)"),
        ("x >> T.uint32(3)", "uint32", "x >> 3u"),
        ("T.bitwise_and(x, 7)", "int32", "x & 7"),
        ("T.bitwise_not(x)", "uint8", "x ^ 255"),
        ("T.popcount(x)", "int32", "tir_popcount((uint64_t)(uint32_t)x)"),
        ("T.clz(x)", "int32", "tir_clz((uint64_t)(uint32_t)x, 32)"),
    ],
)
def test_functions(value, dtype, text):
    assert stored(f"x: T.{dtype}", value, dtype)[0] == f"O[0] = {text};"


def test_a_remainder_of_integers_is_that_of_division():
    x, y, out = Var("x", "int32"), Var("y", "int32"), Buffer("O", (1,), "int32")
    body = BufferStore(out, Call(Op.get("tir.fmod"), (x, y), "int32"), [IntImm("int32", 0)])
    text = generate(PrimFunc([x, y, out.data], {out.data: out}, "void", {}, body)).body
    assert "if (y == 0) {" in text and "O[0] = tir_truncmod_i32(x, y);" in text


def test_the_shift_of_each_channel_is_counted_in_its_own_type():
    params = "x: T.int32, l: T.int32, r: T.int32, q: T.int32, b: T.bool, c: T.bool"
    (line, _) = stored(params, "T.q_multiply_shift_per_axis(x, x, l, r, q, b, c)", "int32")
    shifts = "b ? l : 0, (int32_t)((uint32_t)q + (uint32_t)(c ? r : 0))"
    assert line == f"O[0] = (int32_t)tir_fixed_point(x, x, {shifts});"
