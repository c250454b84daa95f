"""The text of sums, quotients, comparisons and conversions: nothing in it leaves what C defines."""

from __future__ import annotations

from tests.c.batch import lines_of


def text(types: str, *values: str, out: str = "int64") -> list[str]:
    """What is stored for each value, computed of parameters ``a: type`` and so on."""
    params = ", ".join(f"{name}: T.{dtype}" for name, dtype in zip("abcd", types.split(), strict=False))
    stores = [f"    O[{at}] = T.Cast('{out}', {value})" for at, value in enumerate(values)]
    head = f'def f({params}, O: T.Buffer(({len(values)},), "{out}")):'
    lines = lines_of("\n".join(["@T.prim_func", head, *stores]))
    return [line.partition(" = ")[2].rstrip(";") for line in lines if line.startswith("O[")]


def test_signed_sums_that_may_leave_their_type_are_unsigned_ones():
    assert text("int32 int32", "a + b", "a - b", "a * b") == [
        f"(int32_t)((uint32_t)a {sign} (uint32_t)b)" for sign in "+-*"
    ]
    assert text("int64 int64 int64", "a * b - c") == ["(int64_t)((uint64_t)a * (uint64_t)b - (uint64_t)c)"]


def test_narrow_ones_are_promoted_and_cut():
    assert text("int8 int8", "a + b", "a * b") == ["(int8_t)(a + b)", "(int8_t)(a * b)"]
    # 65535 * 65535 is no int
    assert text("uint16 uint16", "a * b") == ["(uint16_t)((uint32_t)a * (uint32_t)b)"]
    assert text("int17 int17", "a * b") == ["(int32_t)tir_sx((uint64_t)a * (uint64_t)b, 17)"]
    assert text("uint3 uint3", "a + b") == ["(int32_t)((uint64_t)(a + b) & UINT64_C(0x7))"]


def test_what_stays_inside_by_its_range_is_plain():
    lines = lines_of(
        '@T.prim_func\ndef f(A: T.Buffer((64, 64), "int32")):\n'
        "    for i, j in T.grid(64, 64):\n        A[i, j] = i * 64 + j - 5\n"
    )
    assert "A[i * 64 + j] = i * 64 + j - 5;" in lines


def test_unsigned_ones_wrap_by_themselves():
    assert text("uint32 uint32", "a - b", out="uint32") == ["(uint32_t)(a - b)"]


def test_quotients():
    assert text("int32", "a // 3", "a % 3", "T.truncdiv(a, 3)", "T.truncmod(a, 3)") == [
        "tir_floordiv_i32(a, 3)",
        "tir_floormod_i32(a, 3)",
        "tir_truncdiv_i32(a, 3)",
        "tir_truncmod_i32(a, 3)",
    ]
    assert text("uint8", "a // T.uint8(3)", "a % T.uint8(3)") == ["a / 3", "a % 3"]
    assert text("int8", "a // T.int8(-1)") == ["(int8_t)tir_floordiv_i32(a, -1)"]


def test_a_divisor_that_may_be_zero_is_looked_at_first():
    lines = lines_of("@T.prim_func\ndef f(a: T.int32, b: T.int32) -> T.int32:\n    return a // b\n")
    assert lines[:6] == [
        "*ret = 0;",
        "if (b == 0) {",
        "err->code = 0;",
        "err->nvals = 1;",
        "err->vals[0] = a;",
        "return 1;",
    ]


def test_floats():
    assert text("float32 float32", "a // b", "a % b", "T.min(a, b)", out="float32") == [
        "tir_floordivf(a, b)",
        "tir_floormodf(a, b)",
        "(float)tir_fmin(a, b)",
    ]
    assert text("float16 float16", "a * b + b", out="float32") == ["tir_float16(tir_float16(a * b) + b)"]
    assert text("float64", "T.truncmod(a, T.float64(3))", out="float64") == ["fmod(a, 3.0)"]


def test_conversions():
    assert text("int32", "T.Cast('int8', a)", "T.Cast('uint8', a)") == ["(int8_t)a", "(uint8_t)a"]
    assert text("float32", "T.Cast('int8', a)", "T.Cast('uint16', a)") == [
        "(int32_t)tir_to_int(a, -128, 127)",
        "(int32_t)tir_to_uint(a, UINT64_C(65535))",
    ]
    lines = lines_of(
        '@T.prim_func\ndef f(a: T.int64, b: T.uint8, O: T.Buffer((2,), "float16")):\n'
        "    O[0] = T.Cast('float16', a)\n    O[1] = T.Cast('float16', b)\n"
    )
    assert lines[:2] == ["O[0] = tir_float16_bits(tir_odd_i64(a));", "O[1] = tir_float16_bits(b);"]
    assert text("int32", "T.Cast('bool', a)") == ["a != 0"]
