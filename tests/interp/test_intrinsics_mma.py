"""Products of a warp against NumPy, with fragments made by the PTX manual's statements, shape by shape."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from tirlower.diagnostics import BoundsError, InterpreterError, UnboundError
from tirlower.interp import interpret
from tirlower.interp.intrinsics_mma import as_tf32
from tirlower.interp.mma_layouts import mma_shape
from tirlower.script import parse

# The manual's statements of row and column of element i of a lane, g = lane >> 2 and t = lane % 4.
A_F16_K16 = (
    lambda g, t, i: g if i < 2 or 4 <= i < 6 else g + 8,
    lambda g, t, i: t * 2 + (i & 1) + (0 if i < 4 else 8),
)
B_F16_K16 = (lambda g, t, i: t * 2 + (i & 1) + (0 if i < 2 else 8), lambda g, t, i: g)
A_F16_K8 = (lambda g, t, i: g if i < 2 else g + 8, lambda g, t, i: t * 2 + (i & 1))
B_F16_K8 = (lambda g, t, i: t * 2 + i, lambda g, t, i: g)
A_TF32_K4 = (lambda g, t, i: g if i == 0 else g + 8, lambda g, t, i: t)
B_TF32_K4 = (lambda g, t, i: t, lambda g, t, i: g)
A_TF32_K8 = (lambda g, t, i: g if i in (0, 2) else g + 8, lambda g, t, i: t if i in (0, 1) else t + 4)
B_TF32_K8 = (lambda g, t, i: t if i == 0 else t + 4, lambda g, t, i: g)
A_S8_K16 = (lambda g, t, i: g if i < 4 else g + 8, lambda g, t, i: t * 4 + (i & 3))
B_S8_K16 = (lambda g, t, i: t * 4 + (i & 3), lambda g, t, i: g)
A_S8_K32 = (
    lambda g, t, i: g if i < 4 or 8 <= i < 12 else g + 8,
    lambda g, t, i: t * 4 + (i & 3) + (0 if i < 8 else 16),
)
B_S8_K32 = (lambda g, t, i: t * 4 + (i & 3) + (0 if i < 4 else 16), lambda g, t, i: g)
A_M8_S8 = (lambda g, t, i: g, lambda g, t, i: t * 4 + i)
B_M8_S8 = (lambda g, t, i: t * 4 + i, lambda g, t, i: g)
A_F64 = (lambda g, t, i: g, lambda g, t, i: t)
B_F64 = (lambda g, t, i: t, lambda g, t, i: g)
C_M16 = (lambda g, t, i: g if i < 2 else g + 8, lambda g, t, i: t * 2 + (i & 1))
C_M8 = (lambda g, t, i: g, lambda g, t, i: t * 2 + (i & 1))

F8, F8B = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
CASES = [
    ("m16n8k16", "fp16", "fp16", "fp32", A_F16_K16, B_F16_K16, C_M16),
    ("m16n8k16", "fp16", "fp16", "fp16", A_F16_K16, B_F16_K16, C_M16),
    ("m16n8k16", "bf16", "bf16", "fp32", A_F16_K16, B_F16_K16, C_M16),
    ("m16n8k8", "fp16", "fp16", "fp32", A_F16_K8, B_F16_K8, C_M16),
    ("m16n8k8", "fp16", "fp16", "fp16", A_F16_K8, B_F16_K8, C_M16),
    ("m16n8k8", "bf16", "bf16", "fp32", A_F16_K8, B_F16_K8, C_M16),
    ("m16n8k4", "tf32", "tf32", "fp32", A_TF32_K4, B_TF32_K4, C_M16),
    ("m16n8k8", "tf32", "tf32", "fp32", A_TF32_K8, B_TF32_K8, C_M16),
    ("m8n8k4", "fp64", "fp64", "fp64", A_F64, B_F64, C_M8),
    ("m16n8k16", "int8", "int8", "int32", A_S8_K16, B_S8_K16, C_M16),
    ("m16n8k16", "uint8", "int8", "int32", A_S8_K16, B_S8_K16, C_M16),
    ("m16n8k32", "int8", "int8", "int32", A_S8_K32, B_S8_K32, C_M16),
    ("m16n8k32", "uint8", "uint8", "int32", A_S8_K32, B_S8_K32, C_M16),
    ("m8n8k16", "int8", "int8", "int32", A_M8_S8, B_M8_S8, C_M8),
    ("m16n8k32", "e4m3", "e4m3", "fp32", A_S8_K32, B_S8_K32, C_M16),
    ("m16n8k32", "e5m2", "e4m3", "fp32", A_S8_K32, B_S8_K32, C_M16),
]
DTYPES = {
    "fp16": ("float16", np.float16), "bf16": ("bfloat16", ml_dtypes.bfloat16), "tf32": ("float32", np.float32),
    "fp32": ("float32", np.float32), "fp64": ("float64", np.float64), "int8": ("int8", np.int8),
    "uint8": ("uint8", np.uint8), "int32": ("int32", np.int32), "e4m3": ("float8_e4m3fn", F8),
    "e5m2": ("float8_e5m2", F8B),
}  # fmt: skip
IDS = ["-".join(case[:4]) for case in CASES]


def spread(matrix, count, where):
    """The fragments of 32 lanes of a matrix, by a statement of the manual."""
    held = np.zeros((32, count), matrix.dtype)
    for lane, i in itertools.product(range(32), range(count)):
        held[lane, i] = matrix[where[0](lane >> 2, lane % 4, i), where[1](lane >> 2, lane % 4, i)]
    return held


def extents(shape):
    return tuple(int(part) for part in shape[1:].replace("n", " ").replace("k", " ").split())


def mma_kernel(shape, a, b, c, counts, saturate=False, threads=32):
    (a_type, b_type, c_type), (na, nb, nc) = [DTYPES[name][0] for name in (a, b, c)], counts
    return parse(f'''
@T.prim_func
def kernel(A: T.Buffer((32, {na}), "{a_type}"), B: T.Buffer((32, {nb}), "{b_type}"), C: T.Buffer((32, {nc}), "{c_type}")):
    for tx in T.thread_binding({threads}, thread="threadIdx.x"):
        a = T.alloc_buffer(({na + 1},), "{a_type}", scope="local")
        b = T.alloc_buffer(({nb},), "{b_type}", scope="local")
        c = T.alloc_buffer(({2 * nc},), "{c_type}", scope="local")
        for i in range({na}):
            a[i + 1] = A[tx, i]
        for i in range({nb}):
            b[i] = B[tx, i]
        for i in range({nc}):
            c[{nc} + i] = C[tx, i]
        T.ptx_mma("{c_type}", "{shape}", "row", "col", "{a}", "{b}", "{c}", a.data, 1, b.data, 0, c.data, {nc}, {saturate})
        for i in range({nc}):
            C[tx, i] = c[{nc} + i]
''')


def operands(a, b, c, m, n, k, seed=0):
    rng = np.random.default_rng(seed)

    def draw(name, shape):
        kind = DTYPES[name][1]
        if np.dtype(kind).kind in "iu" and np.dtype(kind).itemsize == 1:
            info = np.iinfo(kind)
            return rng.integers(info.min, info.max + 1, shape).astype(kind)
        if name == "int32":
            return rng.integers(-1000, 1000, shape).astype(kind)
        return rng.uniform(-2, 2, shape).astype(kind)

    return draw(a, (m, k)), draw(b, (k, n)), draw(c, (m, n))


def expected(left, right, addend, a):
    if a == "tf32":
        left, right = (as_tf32(x) for x in (left, right))
    wide = np.int64 if left.dtype.kind in "iu" else np.float64
    total = left.astype(wide) @ right.astype(wide) + addend.astype(wide)
    return total.astype(addend.dtype)


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_product_is_numpys(case, seed):
    shape, a, b, c, of_a, of_b, of_c = case
    m, n, k = extents(shape)
    counts = m * k // 32, k * n // 32, m * n // 32
    left, right, addend = operands(a, b, c, m, n, k)
    parts = [
        spread(x, count, of) for x, count, of in zip((left, right, addend), counts, (of_a, of_b, of_c), strict=True)
    ]
    interpret(mma_kernel(shape, a, b, c, counts), *parts, seed=seed)
    want = spread(expected(left, right, addend, a), counts[2], of_c)
    if c == "fp64":
        np.testing.assert_allclose(parts[2], want, rtol=1e-14)
    else:
        np.testing.assert_array_equal(parts[2], want)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_element_is_held_once(case):
    made = mma_shape(*case[:4])
    for fragment, rows, columns in ((made.a, made.m, made.k), (made.b, made.k, made.n), (made.c, made.m, made.n)):
        held = set(zip(fragment.rows.ravel().tolist(), fragment.columns.ravel().tolist(), strict=True))
        assert held == set(itertools.product(range(rows), range(columns)))
        assert fragment.rows.size == rows * columns


@pytest.mark.parametrize("saturate", [False, True])
def test_sums_of_integers_wrap_or_saturate(saturate):
    full = np.full((16, 32), 127, np.int8), np.full((32, 8), 127, np.int8), np.full((16, 8), 2**31 - 5, np.int32)
    parts = [spread(x, n, of) for x, n, of in zip(full, (16, 8, 4), (A_S8_K32, B_S8_K32, C_M16), strict=True)]
    interpret(mma_kernel("m16n8k32", "int8", "int8", "int32", (16, 8, 4), saturate), *parts)
    total = 2**31 - 5 + 32 * 127 * 127
    assert (parts[2] == (2**31 - 1 if saturate else total - 2**32)).all()


def test_tf32_drops_bits_and_does_not_round():
    left, right = np.zeros((16, 4), np.float32), np.zeros((4, 8), np.float32)
    left[0, 0] = np.float32(1 + 2.0**-10 + 2.0**-11 + 2.0**-12)
    right[0, 0] = 1
    parts = [spread(left, 2, A_TF32_K4), spread(right, 1, B_TF32_K4), np.zeros((32, 4), np.float32)]
    interpret(mma_kernel("m16n8k4", "tf32", "tf32", "fp32", (2, 1, 4)), *parts)
    assert parts[2][0, 0] == np.float32(1 + 2.0**-10)


def test_two_warps_have_their_own_products():
    kernel = parse("""
@T.prim_func
def kernel(A: T.Buffer((2, 32, 4), "float16"), B: T.Buffer((2, 32, 2), "float16"), C: T.Buffer((2, 32, 4), "float32")):
    for ty in T.thread_binding(2, thread="threadIdx.y"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            c = T.alloc_buffer((4,), "float32", scope="local")
            T.mma_fill("float32", 4, c.data, 0)
            if ty == 1:
                T.ptx_mma("float32", "m16n8k8", "row", "col", "fp16", "fp16", "fp32", A.data, ty * 128 + tx * 4,
                          B.data, ty * 64 + tx * 2, c.data, 0, False)
            for i in range(4):
                C[ty, tx, i] = c[i]
""")
    left, right, addend = operands("fp16", "fp16", "fp32", 16, 8, 8)
    a = np.stack([spread(left, 4, A_F16_K8)] * 2)
    b = np.stack([spread(right, 2, B_F16_K8)] * 2)
    c = np.ones((2, 32, 4), np.float32)
    interpret(kernel, a, b, c)
    assert (c[0] == 0).all()
    np.testing.assert_array_equal(c[1], spread(expected(left, right, 0 * addend, "fp16"), 4, C_M16))


WRONG = {
    "a part of a warp": (("m16n8k8", "fp16", "fp16", "fp32", (4, 2, 4), False, 16), "made by 16 of the 32 threads"),
    "no such shape": (("m16n8k64", "fp16", "fp16", "fp32", (4, 2, 4)), "no product m16n8k64 of fp16 and fp16"),
    "types that do not go together": (("m16n8k16", "int8", "int8", "fp32", (8, 4, 4)), "sums of fp32"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_has_no_meaning(name):
    args, message = WRONG[name]
    kernel = mma_kernel(*args)
    arrays = [np.zeros((32, n), DTYPES[kind][1]) for n, kind in zip(args[4], args[1:4], strict=True)]
    with pytest.raises(InterpreterError, match=message):
        interpret(kernel, *arrays)


def test_an_unwritten_fragment():
    kernel = parse("""
@T.prim_func
def kernel(A: T.Buffer((32, 4), "float16"), B: T.Buffer((32, 2), "float16")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        c = T.alloc_buffer((4,), "float32", scope="local")
        T.ptx_mma("float32", "m16n8k8", "row", "col", "fp16", "fp16", "fp32", A.data, tx * 4, B.data, tx * 2, c.data, 0,
                  False)
""")
    with pytest.raises(UnboundError, match=r"'c'.* is read before it is written"):
        interpret(kernel, np.zeros((32, 4), np.float16), np.zeros((32, 2), np.float16))


def test_a_fragment_outside_its_memory():
    kernel = parse("""
@T.prim_func
def kernel(A: T.Buffer((32, 4), "float16"), B: T.Buffer((32, 2), "float16"), C: T.Buffer((32, 4), "float32")):
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        T.ptx_mma("float32", "m16n8k8", "row", "col", "fp16", "fp16", "fp32", A.data, tx * 4 + 1, B.data, tx * 2,
                  C.data, tx * 4, False)
""")
    with pytest.raises(BoundsError, match=r"'A'.*outside the allocation"):
        interpret(kernel, np.zeros((32, 4), np.float16), np.zeros((32, 2), np.float16), np.zeros((32, 4), np.float32))
