"""The forms of one kernel have one kernel's bits: what is fused is decided before loops are split, exchanged or vectorized."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import tirlower as tl
from tirlower.interp import interpret
from tirlower.script import parse

M, N, K = 24, 40, 72

#: the loops of a matrix product around its update of C
PRODUCTS = {
    "the formula": "for i, j, k in T.grid(24, 40, 72):\n C[i, j] = C[i, j] + A[i, k] * B[k, j]",
    "augmented": "for i, j, k in T.grid(24, 40, 72):\n C[i, j] += A[i, k] * B[k, j]",
    "the product first": "for i, j, k in T.grid(24, 40, 72):\n C[i, j] = B[k, j] * A[i, k] + C[i, j]",
    "rows of B": "for i, k, j in T.grid(24, 72, 40):\n C[i, j] = C[i, j] + A[i, k] * B[k, j]",
    "columns of A": "for k, j, i in T.grid(72, 40, 24):\n C[i, j] = C[i, j] + A[i, k] * B[k, j]",
    "vectorized": (
        "for i, k, jo in T.grid(24, 72, 5):\n for l in T.vectorized(8):\n"
        "  C[i, jo * 8 + l] = C[i, jo * 8 + l] + A[i, k] * B[k, jo * 8 + l]"
    ),
    "vectors of rows": (
        "for j, k, io in T.grid(40, 72, 3):\n for l in T.vectorized(8):\n"
        "  C[io * 8 + l, j] = C[io * 8 + l, j] + A[io * 8 + l, k] * B[k, j]"
    ),
    "unrolled": (
        "for i, j, ko in T.grid(24, 40, 18):\n for k in T.unroll(4):\n"
        "  C[i, j] = C[i, j] + A[i, ko * 4 + k] * B[ko * 4 + k, j]"
    ),
    "tiled": (
        "for io, jo, k in T.grid(6, 5, 72):\n for i in T.unroll(4):\n  for l in T.vectorized(8):\n"
        "   C[io * 4 + i, jo * 8 + l] = C[io * 4 + i, jo * 8 + l] + A[io * 4 + i, k] * B[k, jo * 8 + l]"
    ),
    "in blocks of K": (
        "for ko, i, j in T.grid(9, 24, 40):\n acc = C[i, j]\n for k in range(8):\n"
        "  acc += A[i, ko * 8 + k] * B[ko * 8 + k, j]\n C[i, j] = acc"
    ),
    "in registers": (
        "for ko, io, jo in T.grid(3, 6, 5):\n R = T.alloc_buffer((4, 8), 'DT', scope='local')\n"
        " for i in T.unroll(4):\n  for l in T.vectorized(8):\n   R[i, l] = C[io * 4 + i, jo * 8 + l]\n"
        " for k in range(24):\n  for i in T.unroll(4):\n   for l in T.vectorized(8):\n"
        "    R[i, l] = R[i, l] + A[io * 4 + i, ko * 24 + k] * B[ko * 24 + k, jo * 8 + l]\n"
        " for i in T.unroll(4):\n  for l in T.vectorized(8):\n   C[io * 4 + i, jo * 8 + l] = R[i, l]"
    ),
    "a sum in a variable": (
        "for i in range(24):\n for j in range(40):\n  acc = C[i, j]\n  for k in range(72):\n   acc += A[i, k] * B[k, j]\n"
        "  C[i, j] = acc"
    ),
    "parallel": "for i in T.parallel(24):\n for j, k in T.grid(40, 72):\n  C[i, j] = C[i, j] + A[i, k] * B[k, j]",
    "as a block": (
        "for i, j, k in T.grid(24, 40, 72):\n with T.block('C'):\n  vi, vj, vk = T.axis.remap('SSR', [i, j, k])\n"
        "  C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]"
    ),
    "rows at once": "for i, k in T.grid(24, 72):\n C[i, 0:40] = C[i, 0:40] + A[i, k] * B[k, 0:40]",
}

#: the loops around several products in one expression
STENCILS = {
    "plain": "for i in range(1, 63):\n O[i] = X",
    "vectorized": "for l in T.vectorized(62):\n i = T.bind(l + 1)\n O[i] = X",
    "split": "for o, u in T.grid(31, 2):\n i = T.bind(o * 2 + u + 1)\n O[i] = X",
    "unrolled": "for o in range(31):\n for u in T.unroll(2):\n  i = T.bind(o * 2 + u + 1)\n  O[i] = X",
    "guarded": "for i in range(64):\n if i >= 1 and i < 63:\n  O[i] = X",
    "backwards": "for r in range(62):\n i = T.bind(62 - r)\n O[i] = X",
}
EXPRESSIONS = (
    "P[i - 1] * Q[i] + P[i] * Q[i + 1] - P[i + 1] * Q[i - 1]",
    "(P[i] * P[i] - Q[i] * Q[i]) * 0.5 + P[i] ** 2",
    "P[i] - (P[i] * Q[i] - P[i - 1] * Q[i - 1])",
    "T.sqrt(P[i] * P[i] + Q[i] * Q[i]) - P[i] * 1.5",
)


@functools.cache
def build(text: str, target: str = "llvm") -> tl.Kernel:
    return tl.build(parse(text), target, schedule="none")


def product(form: str, dtype: str) -> str:
    body = PRODUCTS[form].replace("DT", dtype).replace("\n", "\n    ")
    arrays = f'A: T.Buffer((24, 72), "{dtype}"), B: T.Buffer((72, 40), "{dtype}"), C: T.Buffer((24, 40), "{dtype}")'
    return f"@T.prim_func\ndef f({arrays}):\n    {body}\n"


def stencil(form: str, expression: str) -> str:
    body = STENCILS[form].replace("X", expression).replace("\n", "\n    ")
    arrays = ", ".join(f'{name}: T.Buffer((64,), "float32")' for name in "PQO")
    return f"@T.prim_func\ndef f({arrays}):\n    {body}\n"


def matrices(dtype: str, seed: int) -> list[np.ndarray]:
    """Random matrices: products cancel, and there are zeros of both signs, subnormal numbers, infinities and NaNs."""
    rng = np.random.default_rng(seed)
    a, b, c = (rng.standard_normal(shape).astype(dtype) for shape in ((M, K), (K, N), (M, N)))
    a[:, 1::2] = -a[:, ::2]
    b[1::2] = np.nextafter(b[::2], np.inf).astype(dtype)
    if seed % 2:
        tiny = np.finfo(dtype).smallest_subnormal
        a[3], a[4, ::3], b[:, 5] = -0.0, tiny * 9, tiny * 5
        a[5, 7], b[9, 11], c[8], c[9] = np.inf, np.nan, -0.0, -np.inf
    return [a, b, c]


def bits(array: np.ndarray) -> np.ndarray:
    return np.where(np.isnan(array), np.float32(1), array).astype(array.dtype).view(f"u{array.dtype.itemsize}")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", list(PRODUCTS)[1:])
def test_the_forms_of_a_matrix_product_have_the_same_bits(form: str, dtype: str) -> None:
    plain, other = build(product("the formula", dtype)), build(product(form, dtype))
    for seed in range(4):
        a, b, c = matrices(dtype, seed)
        want, got = c.copy(), c.copy()
        plain(a, b, want)
        other(a, b, got)
        assert (bits(want) == bits(got)).all()


def test_each_update_of_a_matrix_product_is_one_fused_multiply_add() -> None:
    """Of integers, products of 28 bits and sums below 2^53: exact in float64, and then rounded to float32."""
    if "T.fma" not in tl.lower(parse(product("the formula", "float32"))).script():
        pytest.skip("this processor has no fused multiply-add")
    rng = np.random.default_rng(5)
    a, b, c = (rng.integers(-(2**14), 2**14, shape).astype("float32") for shape in ((M, K), (K, N), (M, N)))
    c *= 2.0**10
    want = c.astype("float64")
    for k in range(K):
        want = (want + a[:, k : k + 1].astype("float64") * b[k]).astype("float32").astype("float64")
    for form in PRODUCTS:
        got = c.copy()
        build(product(form, "float32"))(a, b, got)
        assert (got == want).all(), form


@pytest.mark.parametrize(("form", "expression"), list(itertools.product(list(STENCILS)[1:], EXPRESSIONS)))
def test_the_forms_of_a_stencil_have_the_same_bits(form: str, expression: str) -> None:
    plain, other = build(stencil("plain", expression)), build(stencil(form, expression))
    for seed in range(3):
        rng = np.random.default_rng(seed)
        p = rng.standard_normal(64).astype("float32")
        q = np.nextafter(p, np.float32(9)) if seed else rng.standard_normal(64).astype("float32")
        want, got = np.zeros(64, "float32"), np.zeros(64, "float32")
        plain(p, q, want)
        other(p, q, got)
        assert (bits(want) == bits(got)).all()


@pytest.mark.parametrize("form", ["the formula", "tiled", "in registers", "rows at once"])
@pytest.mark.by_day
def test_without_contraction_they_have_the_interpreters(form: str) -> None:
    text = product(form, "float32")
    a, b, c = matrices("float32", 1)
    want = c.copy()
    with np.errstate(all="ignore"):
        interpret(parse(text), a, b, want)
    for target in ("llvm -fast-math-contract=0", "llvm -mcpu=x86-64-v2"):
        got = c.copy()
        build(text, target)(a, b, got)
        assert (bits(want) == bits(got)).all(), target


def test_code_generation_fuses_nothing_by_itself() -> None:
    text = product("the formula", "float32")
    for target, fused, contracted in (
        ("llvm -mcpu=x86-64-v3", True, False),
        ("llvm -mcpu=x86-64-v2", False, False),
        ("llvm -mcpu=x86-64-v3 -fast-math-contract=0", False, False),
        ("llvm -mcpu=x86-64-v3 -fast-math-reassoc=1", False, True),
        ("llvm -mcpu=x86-64-v3 -fast-math=1", False, True),
    ):
        code = build(text, target).source("llvm")
        assert ("llvm.fma" in code) is fused, target
        assert (" contract " in code or " fast " in code) is contracted, target
    assert "vfmadd" in build(text, "llvm -mcpu=x86-64-v3 -fast-math=1").source("asm")
