"""The text of choices, lets, lanes and indices."""

from __future__ import annotations

from tests.c.batch import lines_of
from tirlower.c.codegen.module import generate
from tirlower.script import parse


def function(params: str, *body: str) -> list[str]:
    return lines_of("\n".join(["@T.prim_func", f"def f({params}):", *(f"    {line}" for line in body)]))


O = 'O: T.Buffer((8,), "int32")'


def test_a_choice_without_statements_is_conditional():
    assert (
        function(f"a: T.int32, {O}", "O[0] = T.if_then_else(a > 0, O[1], T.int32(2))")[0] == "O[0] = 0 < a ? O[1] : 2;"
    )


def test_what_may_fail_is_computed_where_it_is_chosen():
    lines = function(f"a: T.int32, b: T.int32, {O}", "O[0] = T.if_then_else(a > 0, a // b, 0)")
    assert lines[:3] == ["int32_t t;", "if (0 < a) {", "if (b == 0) {"]
    assert lines[-5:] == ["} else {", "t = 0;", "}", "O[0] = t;", "return 0;"]


def test_the_right_side_of_and_is_computed_where_it_decides():
    lines = function(f"a: T.int32, b: T.int32, {O}", "if b != 0 and a // b > 3:", "    O[0] = 1")
    assert lines[:3] == ["bool t = b != 0;", "if (t) {", "if (b == 0) {"]
    assert function(f"a: T.int32, {O}", "if a > 0 or O[1] > 2:", "    O[0] = 1")[0] == "if (0 < a || 2 < O[1]) {"


def test_deep_expressions_are_cut_into_constants():
    lines = function(f"a: T.int32, {O}", "O[0] = " + " * ".join(["a"] * 60))
    assert 3 < sum(line.startswith("const int32_t t") for line in lines) < 10
    assert max(line.count("(") for line in lines) < 60


def test_a_shared_operand_is_computed_once():
    from tirlower.ir import Buffer, BufferStore, PrimFunc, Var
    from tirlower.ir.expr import IntImm, Mul

    buffer, value = Buffer("O", (1,), "int32"), Var("a", "int32")
    expr = value
    for _ in range(40):  # 2^40 products, written out
        expr = Mul(expr, expr)
    body = BufferStore(buffer, expr, [IntImm("int32", 0)])
    func = PrimFunc([value, buffer.data], {buffer.data: buffer}, "void", {}, body)
    assert generate(func).body.count("uint32_t)") < 300


def test_vectors_are_computed_lane_by_lane_before_they_are_stored():
    lines = function('A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")', "A[0:8] = A[4:12] + B[8:16]")
    assert lines[1:8] == [
        "int32_t values[8];",
        "for (int32_t lane = 0; lane < 8; ++lane) {",
        "values[lane] = (int32_t)((uint32_t)A[4 + lane] + (uint32_t)B[8 + lane]);",
        "}",
        "for (int32_t lane_1 = 0; lane_1 < 8; ++lane_1) {",
        "A[lane_1] = values[lane_1];",
        "}",
    ]


def test_lanes_that_read_no_memory_are_stored_at_once():
    lines = function('A: T.Buffer((16,), "int32")', "A[T.Ramp(0, 2, 8)] = T.Broadcast(3, 8)")
    assert lines[:2] == ["for (int32_t lane = 0; lane < 8; ++lane) {", "A[lane * 2] = 3;"]


def test_a_shuffle_picks_lanes_by_their_numbers():
    lines = function(
        'A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32")',
        "A[0:4] = T.Shuffle([B[0:2], B[4:6]], [3, 2, 1, 0])",
    )
    picked = [line.removesuffix(";").split(" = ")[1] for line in lines if line.startswith("values[")]
    assert picked == ["B[5]", "B[4]", "B[1]", "B[0]"]


def test_indices_are_exact_in_64_bits():
    lines = function('n: T.int32, A: T.Buffer((n, n), "int8")', "for i, j in T.grid(n, n):", "    A[i, j] = T.int8(1)")
    assert "A[(int64_t)i * n + j] = 1;" in lines


def test_indices_that_are_converted_or_chosen_are_exact():
    # As they are written: lowered, the conversion stands further inside.
    program = "def f(O: T.Buffer((4,), 'int64')):\n    for i in range(4):\n        O[i] = T.Cast('int64', {})\n"
    for value, text in (
        ("i * 1073741824", "(int64_t)i * 1073741824"),
        ("T.if_then_else(i > 1, i, 1) * 1073741824", "(int64_t)(i > 1 ? i : 1) * 1073741824"),
        ("T.if_then_else(i > 1, i * 1073741824, i) + 9", "(i > 1 ? (int64_t)i * 1073741824 : i) + 9"),
    ):
        assert f"O[i] = {text};" in generate(parse(program.format(value))).body


def test_data_wraps_also_in_an_index():
    lines = function(
        'n: T.int32, A: T.Buffer((1 << 20,), "int8")', "if n * n >= 0:", "    A[n * n % 1048576] = T.int8(1)"
    )
    assert any("(uint32_t)n * (uint32_t)n" in line and "A[" in line for line in lines)


def test_a_bound_value_is_a_constant():
    lines = function(f"a: T.int32, {O}", "x: T.let[T.int32] = a * a", "O[0] = x + x")
    assert lines[0].endswith("int32_t x = (int32_t)((uint32_t)a * (uint32_t)a);")
    assert lines[1] == "O[0] = (int32_t)((uint32_t)x * 2u);"
