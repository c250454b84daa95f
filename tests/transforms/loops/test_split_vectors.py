"""SplitVectors: pieces compute what whole vectors compute, in the order that whole vectors read and write."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check, same_function
from tests.sampling import in_pairs
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.script import parse
from tirlower.transforms.loops.split_vectors import SplitVectors, pieces

HEAD = '@T.prim_func\ndef f({params}):\n    T.func_attr({{"tir.noalias": {apart}}})\n'


def program(body: str, dtype: str = "float32", size: int = 700, apart: bool = True):
    """A function of three arrays of a type and one of int32, with a body."""
    params = ", ".join(
        f'{name}: T.Buffer(({size},), "{kind}")' for name, kind in zip("ABCI", (dtype,) * 3 + ("int32",), strict=False)
    )
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return parse(HEAD.format(params=params, apart=apart) + lines)


def arguments(dtype: str, size: int = 700, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        arrays = [rng.integers(0, 2, size).astype(bool) for _ in range(3)]
    elif "float" in dtype:
        arrays = [rng.integers(-50, 50, size).astype(dtype) / np.dtype(dtype).type(4) for _ in range(3)]
    else:
        arrays = [rng.integers(0, 100, size).astype(dtype) for _ in range(3)]
    return [*arrays, rng.permutation(size).astype("int32")]


def agree(func, dtype: str = "float32") -> None:
    """The pass, the interpreter before and after, and machine code."""
    args = [arguments(dtype) for _ in range(3)]
    interpret(func, *args[0])
    interpret(SplitVectors()(func), *args[1])
    tl.build(func, schedule="none")(*args[2])
    for name, want, split, native in zip("ABCI", *args, strict=True):
        np.testing.assert_array_equal(split, want, err_msg=f"{name} after the pass")
        np.testing.assert_array_equal(native, want, err_msg=f"{name} in machine code")


@pytest.mark.parametrize("lanes", [1, 3, 15, 16, 17, 45, 63, 64, 65, 100, 127])
@pytest.mark.parametrize("width", [1, 8, 16, 64])
def test_pieces_cover_the_lanes_in_order(lanes: int, width: int) -> None:
    made = pieces(lanes, width)
    assert [lane for start, count in made for lane in range(start, start + count)] == list(range(lanes))
    assert all(count & (count - 1) == 0 and count <= width for _, count in made)


FORMS = {
    "copy": "C[0:{n}] = A[0:{n}]",
    "in place": "A[0:{n}] = A[0:{n}] + A[0:{n}]",
    "reversed": "C[0:{n}] = A[T.Ramp({n} - 1, -1, {n})]",
    "store reversed": "C[T.Ramp({n} + 3, -1, {n})] = A[2:{n} + 2]",
    "strided": "C[T.Ramp(1, 2, {n})] = A[T.Ramp(0, 2, {n})]",
    "shift down": "A[0:{n}] = A[1:{n} + 1]",
    "shift up": "A[1:{n} + 1] = A[0:{n}]",
    "shift up by more": "A[20:{n} + 20] = A[0:{n}] + B[0:{n}]",
    "reverse in place": "A[0:{n}] = A[T.Ramp({n} - 1, -1, {n})]",
    "other stride in place": "A[T.Ramp(0, 2, {n})] = A[0:{n}]",
    "a scalar of what is stored": "A[0:{n}] = A[0:{n}] + T.Broadcast(A[2], {n})",
    "gather": "C[0:{n}] = A[I[0:{n}]]",
    "scatter": "C[I[0:{n}]] = A[0:{n}]",
    "scatter in place": "A[I[0:{n}]] = A[0:{n}]",
    "gather in place": "A[0:{n}] = A[I[0:{n}]]",
    "indices stored to": "I[0:{n}] = I[T.Ramp({n} - 1, -1, {n})]",
    "meeting lanes": "C[T.Ramp(5, 0, {n})] = A[0:{n}]",
    "halves": "C[0:{n}] = T.Shuffle([A[0:{n}], B[0:{n}]], [k + {n} // 2 for k in range({n})])",
    "interleaved": "C[0:{n}] = T.Shuffle([A[0:{n}], B[0:{n}]], [k // 2 + {n} * (k % 2) for k in range({n})])",
    "reversed lanes": "C[0:{n}] = T.Shuffle([A[0:{n}] + B[0:{n}]], [{n} - 1 - k for k in range({n})])",
    "one lane": "C[0] = T.Shuffle([A[0:{n}] + B[0:{n}]], [{n} - 2])",
    "four lanes": "C[0:4] = T.Shuffle([A[0:{n}] + B[0:{n}]], [3, {n} - 2, 0, {n} - 1])",
    "a name": "v = T.bind(A[0:{n}] + B[0:{n}])\nA[0:{n}] = C[0:{n}]\nB[0:{n}] = v",
    "a name, lane by lane": "v = T.bind(A[0:{n}] + B[0:{n}])\nfor k in range({n}):\n    C[k] = T.Shuffle([v], [k])",
    "masked": "C.vstore([T.Ramp(0, 1, {n})], A[0:{n}], predicate=A[0:{n}] < B[0:{n}])",
    "masked load": 'm = T.bind(A[0:{n}] < B[0:{n}])\nC[0:{n}] = T.Select(m, A.vload([T.Ramp(0, 1, {n})], predicate=m), B[0:{n}])',
    "select": "C[0:{n}] = T.Select(A[0:{n}] < B[0:{n}], A[0:{n}], B[0:{n}])",
    "maximum": "C[0:{n}] = T.max(A[0:{n}], T.min(B[0:{n}], T.Broadcast(A[3], {n})))",
    "a choice for all": "C[0:{n}] = T.if_then_else(I[0] < 300, A[0:{n}], B[0:{n}])",
    "casts": 'I[0:{n}] = T.Cast("int32x{n}", A[0:{n}])',
    "lane numbers": 'I[0:{n}] = T.Ramp(7, 3, {n}) * T.Broadcast(I[1], {n})',
    "lane mask": 'C[0:{n}] = T.Select(T.get_active_lane_mask("boolx{n}", I[0], 350), A[0:{n}], B[0:{n}])',
    "absolute values": "C[0:{n}] = T.abs(A[0:{n}])",
}  # fmt: skip


@pytest.mark.parametrize(("form", "lanes"), in_pairs(FORMS, [24, 48, 100, 129, 300]))
def test_a_form(form: str, lanes: int) -> None:
    func = program(FORMS[form].format(n=lanes))
    agree(func)
    after = SplitVectors()(func)
    if form != "lane mask":
        assert after is not func
    assert SplitVectors()(after) is after


@pytest.mark.parametrize("lanes", [24, 100, 300])
def test_lane_numbers_of_a_narrow_type_wrap(lanes: int) -> None:
    func = program(f'I[0:{lanes}] = T.Cast("int32x{lanes}", T.Ramp(T.int8(120), T.int8(1), {lanes}))')
    args = arguments("float32")
    interpret(SplitVectors()(func), *args)
    np.testing.assert_array_equal(args[3][:lanes], (np.arange(lanes) + 120).astype("int8"))


ALIKE = ("copy", "in place", "reversed", "shift up", "gather in place", "interleaved", "masked", "a name", "maximum")


@pytest.mark.parametrize(
    ("form", "dtype"),
    in_pairs(ALIKE, ["int8", "uint8", "int16", "uint16", "int64", "uint64", "float16", "float64"]),
)
def test_a_type(form: str, dtype: str) -> None:
    agree(program(FORMS[form].format(n=93), dtype), dtype)


@pytest.mark.parametrize("form", ["copy", "shift up", "gather in place", "reversed"])
def test_booleans(form: str) -> None:
    agree(program(FORMS[form].format(n=93), "bool"), "bool")


def test_short_vectors_and_powers_of_two_stay() -> None:
    for lanes in (2, 3, 7, 13, 16, 64, 256):
        func = program(f"C[0:{lanes}] = A[0:{lanes}] + B[0:{lanes}]")
        assert SplitVectors()(func) is func


def test_long_vectors_become_a_loop() -> None:
    check(
        SplitVectors(),
        program("C[0:500] = A[0:500] + B[0:500]"),
        program(
            "for p in range(31):\n"
            "    C[p * 16:p * 16 + 16] = A[p * 16:p * 16 + 16] + B[p * 16:p * 16 + 16]\n"
            "C[496:500] = A[496:500] + B[496:500]"
        ),
    )


def test_arrays_that_may_overlap_go_through_memory() -> None:
    text = SplitVectors()(program("C[0:48] = A[0:48]", apart=False)).script()
    assert "alloc" in text
    assert "alloc" not in SplitVectors()(program("C[0:48] = A[0:48]")).script()
    same_function(
        SplitVectors()(program("A[0:48] = A[0:48]", apart=False)),
        program("A[0:16] = A[0:16]\nA[16:32] = A[16:32]\nA[32:48] = A[32:48]", apart=False),
    )


def test_what_has_no_pieces_is_refused_beyond_a_bound() -> None:
    call = 'C[0] = T.call_llvm_pure_intrin("float32", "llvm.vector.reduce.fadd", T.float32(0), A[0:{n}])'
    func = program(call.format(n=600), size=5000)
    assert SplitVectors()(func) is func
    with pytest.raises(TransformError, match="a vector of 5000 lanes cannot be taken apart"):
        SplitVectors()(program(call.format(n=5000), size=5000))


@pytest.mark.parametrize("lanes", [1000, 4097, 60000, 100003])
def test_a_long_vectorized_loop(lanes: int) -> None:
    func = parse(
        f"@T.prim_func\ndef f(A: T.Buffer(({lanes},), 'float32'), B: T.Buffer(({lanes},), 'float32')):\n"
        f"    for i in T.vectorized({lanes}):\n        B[i] = A[i] * T.float32(2) + T.float32(i % 7)\n"
        f"    A[0:{lanes}] = A[0:{lanes}] + B[0:{lanes}]\n"
    )
    a = np.arange(lanes, dtype="float32") % 1000
    b = np.zeros(lanes, "float32")
    want = a * 2 + np.arange(lanes) % 7
    tl.build(func, schedule="none")(a, b)
    np.testing.assert_array_equal(b, want)
    np.testing.assert_array_equal(a, np.arange(lanes) % 1000 + want)
