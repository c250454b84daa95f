"""What is done to the elements of a sum, on its tile: in the same nest, in nests of its own, in place; the bits of the loops."""

from __future__ import annotations

import pytest

from tests.autoschedule.scheduled import AVX2, planned, scheduled
from tests.autoschedule.unknown import of_any_size

SIGNATURE = (
    'def f(A: T.Buffer(({m}, 9), "{d}"), B: T.Buffer((9, 35), "{d}"), b: T.Buffer((35,), "{d}"), '
    'Z: T.Buffer(({m}, 35), "{d}"), D: T.Buffer(({m}, 35), "{d}")):\n'
)
PLAIN = """
    for i, j in T.grid(M, 35):
        C[i, j] = T.Cast("{d}", 0)
        for k in range(9):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""
BLOCK = """
    for i, j, k in T.grid(M, 35, 9):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.Cast("{d}", 0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]
"""
DONE = {
    "bias and relu": """
    for i, j in T.grid(M, 35):
        D[i, j] = T.max(C[i, j] + b[j], T.Cast("{d}", 0))
""",
    "three nests": """
    S = T.alloc_buffer((M, 35), "{d}")
    R = T.alloc_buffer((M, 35), "{d}")
    for i, j in T.grid(M, 35):
        S[i, j] = C[i, j] + b[j]
    for i, j in T.grid(M, 35):
        R[i, j] = T.max(S[i, j], T.Cast("{d}", 0))
    for i, j in T.grid(M, 35):
        D[i, j] = R[i, j] + Z[i, j] * S[i, j]
""",
    "columns first": """
    for j, i in T.grid(35, M):
        D[i, j] = C[i, j] * Z[i, j]
""",
    "block": """
    for i, j in T.grid(M, 35):
        with T.block("D"):
            vi, vj = T.axis.remap("SS", [i, j])
            D[vi, vj] = T.max(C[vi, vj] + b[vj], T.Cast("{d}", 0))
""",
    "in place": """
    for i, j in T.grid(M, 35):
        C[i, j] = T.max(C[i, j] + b[j], T.Cast("{d}", 0))
    for i, j in T.grid(M, 35):
        D[i, j] = C[i, j]
""",
    "the sum is read again": """
    for i, j in T.grid(M, 35):
        D[i, j] = C[i, j] + b[j]
    for i, j in T.grid(M, 35):
        Z[i, j] = C[i, j]
""",
}


def program(form: str, done: str, m: str = "13", dtype: str = "float32") -> str:
    quoted = repr(m) if m.isalpha() else m
    alloc = '    C = T.alloc_buffer((M, 35), "{d}")\n'
    text = SIGNATURE.replace("{m}", quoted) + (alloc + form + DONE[done]).replace("M", m)
    return text.replace("{d}", dtype)


NIGHTLY = [pytest.param(form, done, marks=pytest.mark.nightly) for form in (PLAIN, BLOCK) for done in list(DONE)[1:]]


@pytest.mark.parametrize(
    ("form", "done"),
    [(PLAIN, "bias and relu"), (BLOCK, "block"), (PLAIN, "three nests"), (PLAIN, "in place"), *NIGHTLY],
)
@pytest.mark.by_day
def test_in_nests_of_its_own(form: str, done: str):
    found = scheduled(program(form, done))
    assert (found.nests[0].recipe, found.nests[0].exactness) == ("contraction with epilogue", "bitwise equal")
    assert "computed on the tile" in found.nests[0].rule


@pytest.mark.parametrize("dtype", ["int32", pytest.param("float64", marks=pytest.mark.nightly)])
def test_types(dtype: str):
    assert scheduled(program(PLAIN, "bias and relu", dtype=dtype)).nests[0].recipe == "contraction with epilogue"


@pytest.mark.parametrize("rows", [1, 5, 40])
def test_in_the_nest_of_the_sum(rows: int):
    found = scheduled(f"""
def f(A: T.Buffer(({rows}, 9), "float32"), B: T.Buffer((9, 35), "float32"), b: T.Buffer((35,), "float32"), C: T.Buffer(({rows}, 35), "float32")):
    for i, j in T.grid({rows}, 35):
        C[i, j] = b[j]
        for k in range(9):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
        C[i, j] = T.max(C[i, j], T.float32(0))
""")
    assert rows == 1 or found.nests[0].recipe == "contraction with epilogue"


def test_nothing_but_the_result_is_written():
    text = str(planned(program(PLAIN, "three nests", "48"), AVX2).function)
    assert "S[" not in text and "R[" not in text and "C = T.alloc_buffer((6, 16, 1)" in text


def test_a_convolution():
    found = scheduled("""
def f(X: T.Buffer((9, 10, 4), "float32"), W: T.Buffer((3, 3, 4, 18), "float32"), b: T.Buffer((18,), "float32"), D: T.Buffer((7, 8, 18), "float32")):
    Y = T.alloc_buffer((7, 8, 18), "float32")
    for h, w, o, r, s, c in T.grid(7, 8, 18, 3, 3, 4):
        with T.block("Y"):
            vh, vw, vo, vr, vs, vc = T.axis.remap("SSSRRR", [h, w, o, r, s, c])
            with T.init():
                Y[vh, vw, vo] = T.float32(0)
            Y[vh, vw, vo] += X[vh + vr, vw + vs, vc] * W[vr, vs, vc, vo]
    for h, w, o in T.grid(7, 8, 18):
        D[h, w, o] = T.max(Y[h, w, o] + b[o], T.float32(0))
""")
    assert found.nests[0].recipe == "contraction with epilogue"


def test_sizes_that_are_not_known():
    found = of_any_size(program(PLAIN, "bias and relu", "N"), [{"N": n} for n in (0, 1, 5, 12, 13, 40)])
    assert found.nests[0].recipe == "contraction of any size with epilogue"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("D[i, j] = T.max(C[i, j]", "D[i, j] = T.max(C[12 - i, j]", "not done in its place"),
        ("T.grid(13, 35):\n        D", "T.grid(12, 35):\n        D", "done to a part of it"),
        ("D[i, j] = T.max(C[i, j]", "D[i, j] = T.max(A[i, 0]", "nothing is done to the elements of its sum"),
    ],
)
def test_what_is_not_taken(old: str, new: str, reason: str):
    text = program(PLAIN, "bias and relu")
    assert old in text
    found = planned(text.replace(old, new))
    assert found.nests[0].recipe != "contraction with epilogue"
    assert any(reason in note for note in found.nests[0].notes), found.nests[0].notes
