"""The text of accesses and allocations: what is typed, what goes through bytes, what is on the heap."""

from __future__ import annotations

from tests.c.batch import lines_of


def function(params: str, *body: str) -> list[str]:
    return lines_of("\n".join(["@T.prim_func", f"def f({params}):", *(f"    {line}" for line in body)]))


def test_memory_seen_as_two_types_is_accessed_by_bytes():
    lines = function(
        'A: T.Buffer((16,), "int32")',
        'V = T.decl_buffer((16,), "float32", data=A.data)',
        "V[1] = V[0] + T.float32(1)",
        "A[0] = 3",
    )
    assert lines[:2] == ["tir_put_float(A, 1, tir_get_float(A, 0) + 1.0f);", "tir_put_int32(A, 0, 3);"]


def test_memory_that_is_let_out_is_accessed_by_bytes():
    lines = function(
        'A: T.Buffer((4,), "int64")', 'T.evaluate(T.call_extern("void", "use", A.data))', "A[0] = T.int64(1)"
    )
    assert lines[:2] == ["use(A);", "tir_put_int64(A, 0, 1);"]


def test_narrow_floats_are_bits_and_copies_keep_them():
    lines = function(
        'H: T.Buffer((4,), "float16"), B: T.Buffer((2,), "bool")', "H[0] = H[1]", "H[2] = H[3] + H[0]", "B[0] = B[1]"
    )
    assert lines[0] == "H[0] = H[1];"
    assert lines[1] == "H[2] = tir_float16_bits(tir_float16_of(H[3]) + tir_float16_of(H[0]));"
    assert "B[0] = B[1] != 0;" in lines  # a byte of any value is stored as 0 or 1


def test_small_arrays_are_local():
    lines = function(
        'A: T.Buffer((4,), "int32")',
        't = T.alloc_buffer((4,), "int32")',
        "for i in range(4):",
        "    t[i] = A[i]",
        "A[0] = t[A[1] % 4]",
    )
    assert lines[0] == "_Alignas(64) int32_t t[4];" and not any("free" in line for line in lines)


def test_large_ones_are_freed_on_every_way_out():
    lines = function(
        'n: T.int32, A: T.Buffer((n,), "int32")',
        "for i in range(n):",
        '    t = T.alloc_buffer((n,), "int32")',
        '    T.evaluate(T.call_extern("void", "use", t.data))',
        "    if A[i] == 3:",
        "        break",
        "    A[i] = 10 // A[i]",
    )
    assert sum("aligned_alloc(64" in line for line in lines) == 1
    at = lines.index("break;")
    assert lines[at - 1] == "free(t);"
    assert lines[lines.index("A[i] = tir_floordiv_i32(10, t_1);") + 1] == "free(t);"
    failing = [place for place, line in enumerate(lines) if line == "return 1;"]
    # The size leaves its type, there is no memory: nothing to free; the division fails: t is.
    assert [lines[place - 1] == "free(t);" for place in failing] == [False, False, True]


def test_the_size_of_an_allocation_is_checked():
    lines = function(
        'n: T.int64, m: T.int64, A: T.Buffer((n, m), "int32")',
        't = T.alloc_buffer((n, m), "int32")',
        'T.evaluate(T.call_extern("void", "use", t.data))',
    )
    assert any(line.startswith("bad |= tir_mul_leaves(") for line in lines) and "if (bad) {" in lines


def test_constants_are_bytes_of_the_text():
    import numpy as np

    from tests.c.batch import text_of
    from tirlower.script import parse

    source = (
        '@T.prim_func\ndef f(A: T.Buffer((3,), "int16")):\n'
        '    K = T.allocate_const([1, 2, -1], "int16", [3])\n'
        '    k = T.decl_buffer((3,), "int16", data=K)\n'
        "    for i in range(3):\n        A[i] = k[i]\n"
    )
    data = ", ".join(str(b) for b in np.array([1, 2, -1], "int16").tobytes())
    assert f"unsigned char tir_data_f_k[6] = {{\n    {data}\n}};" in text_of(parse(source)).body
