"""Forms: scalars, regions, assertions, expressions and calls of operations."""

from __future__ import annotations

import math

import numpy as np

from tests.script.forms_base import form
from tests.script.forms_control import _set
from tirlower.script import tir as T

F32 = np.float32


@form(lambda A: _set(A, np.arange(8) * 2 + 5))
@T.prim_func
def scalar_bindings(A: T.Buffer((8,), "int32")):
    a: T.int32 = 3
    b: T.let[T.int32] = a + 1
    for i in range(8):
        x = i * 2
        y = T.bind(x + 1)
        z = T.meta_var(y + b)
        w = T.let(z)
        A[i] = w


@form(lambda A: _set(A, [7, 12, 5, 5]))
@T.prim_func
def let_statements(A: T.Buffer((4,), "int32")):
    x = T.int32()
    T.LetStmt(3, var=x)
    y = T.LetStmt(x + 4)
    A[0] = y
    with T.LetStmt(y + 5) as z:
        A[1] = z
    v = T.int32()
    with T.LetStmt(5, var=v):
        A[2] = v
    w = T.int32()
    A[3] = T.Let(w + 1, where={w: 4})


@form(lambda A: _set(A, [3, 8, 0, 3]))
@T.prim_func
def rebinding(A: T.Buffer((4,), "int32")):
    x = T.bind(T.int32(1))
    x += 2
    y = x
    A[0] = y
    x *= 3
    x = x - 1
    A[1] = x
    A[2] = x // 9
    A[3] = x % 5


@form(lambda A: _set(A, 1))
@T.prim_func
def attributes(A: T.Buffer((4,), "int32")):
    T.attr("default", "pragma_something", 1)
    with T.attr(A.data, "storage_alignment", 128):
        for i in range(4):
            A[i] = 1
    T.attr(0, "pragma_text", "value")
    A[0] = 1


@form(lambda A: _set(A, np.arange(32).reshape(4, 8)))
@T.prim_func
def launch_threads(A: T.Buffer((4, 8), "int32")):
    bx = T.launch_thread("blockIdx.x", 4)
    with T.launch_thread("threadIdx.x", 8) as tx:
        A[bx, tx] = bx * 8 + tx


@form(lambda A: _set(A, np.arange(32).reshape(4, 8)))
@T.prim_func
def env_threads(A: T.Buffer((4, 8), "int32")):
    bx = T.env_thread("blockIdx.x")
    tx = T.env_thread("threadIdx.x")
    T.launch_thread(bx, 4)
    T.launch_thread(tx, 8)
    A[bx, tx] = bx * 8 + tx


@form(lambda A: _set(A, np.arange(16).reshape(2, 8)))
@T.prim_func
def thread_attributes(A: T.Buffer((2, 8), "int32")):
    tx = T.int32()
    vx = T.int32()
    with T.attr(T.iter_var(tx, T.Range(0, 8), "ThreadIndex", "threadIdx.x"), "thread_extent", 8):
        T.attr(T.iter_var(vx, None, "VirtualThread", "vthread"), "virtual_thread", 2)
        A[vx, tx] = vx * 8 + tx


@form(lambda A, n: _set(A, n), n=3)
@T.prim_func
def assertions(A: T.Buffer((4,), "int32"), n: T.int32):
    T.assume(n > 0)
    assert n < 100, "n is small"
    T.Assert(n > 1, "n is not one")
    with T.Assert(n != 2, "n is not two"):
        for i in range(4):
            A[i] = n


@form(lambda A: _set(A, 2))
@T.prim_func
def evaluates(A: T.Buffer((1,), "int32")):
    T.evaluate(0)
    T.evaluate(A[0] + 1)
    A[0] = 2
    "a string on its own is a comment"


@form(lambda A: _set(A, [[0, 1], [0, 1]]))
@T.prim_func
def target_attribute(A: T.Buffer((2, 2), "int32")):
    T.func_attr({"target": T.target("llvm", host="llvm")})
    for i, j in T.grid(2, 2):
        A[i, j] = j


def _integers(A, B, C):
    C[0] = A + B
    C[1] = A - B
    C[2] = A * B
    C[3] = (A - 4) // (B + 1)
    C[4] = (A - 4) % (B + 1)
    C[5] = np.fix((A - 4) / (B + 1)).astype("int32")
    C[6] = np.fmod(A - 4, B + 1)
    C[7] = -((-A) // (B + 1))
    C[8] = np.minimum(A, B)
    C[9] = np.maximum(A, B)
    C[10] = A << 2
    C[11] = (A - 4) >> 1
    C[12] = A & B
    C[13] = A | B
    C[14] = A ^ B
    C[15] = ~A
    C[16] = -A
    C[17] = np.abs(A - 4)


@form(_integers)
@T.prim_func
def integer_operators(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((18, 8), "int32")):
    for i in range(8):
        C[0, i] = A[i] + B[i]
        C[1, i] = A[i] - B[i]
        C[2, i] = A[i] * B[i]
        C[3, i] = (A[i] - 4) // (B[i] + 1)
        C[4, i] = (A[i] - 4) % (B[i] + 1)
        C[5, i] = T.truncdiv(A[i] - 4, B[i] + 1)
        C[6, i] = T.truncmod(A[i] - 4, B[i] + 1)
        C[7, i] = T.ceildiv(A[i], B[i] + 1)
        C[8, i] = T.min(A[i], B[i])
        C[9, i] = T.max(A[i], B[i])
        C[10, i] = A[i] << 2
        C[11, i] = T.shift_right(A[i] - 4, 1)
        C[12, i] = A[i] & B[i]
        C[13, i] = T.bitwise_or(A[i], B[i])
        C[14, i] = A[i] ^ B[i]
        C[15, i] = ~A[i]
        C[16, i] = -A[i]
        C[17, i] = T.abs(A[i] - 4)


def _logic(A, B):
    B[0] = (A > 1) & (A < 5)
    B[1] = (A == 2) | ~(A < 4)
    B[2] = (A > 0) & (A <= 6)
    B[3] = ~(A >= 4)
    B[4] = (A > 2) & (A < 6) & (A % 2 == 0)
    B[5] = A.astype(bool)


@form(_logic)
@T.prim_func
def logic(A: T.Buffer((8,), "int32"), B: T.Buffer((6, 8), "bool")):
    for i in range(8):
        B[0, i] = A[i] > 1 and A[i] < 5
        B[1, i] = A[i] == 2 or not A[i] < 4
        B[2, i] = 0 < A[i] <= 6
        B[3, i] = not (A[i] >= 4)
        B[4, i] = T.all(A[i] > 2, A[i] < 6, A[i] % 2 == 0)
        B[5, i] = T.Cast("bool", A[i])


def _choices(A, B):
    B[0] = np.where(A < 3, A * 2, -A)
    B[1] = np.where(A < 3, A * 2, -A)
    B[2] = np.where(A < 3, A * 2, -A)
    B[3] = np.where(A < 7, A, 0)


@form(_choices)
@T.prim_func
def choices(A: T.Buffer((8,), "int32"), B: T.Buffer((4, 8), "int32")):
    for i in range(8):
        B[0, i] = T.if_then_else(A[i] < 3, A[i] * 2, -A[i])
        B[1, i] = T.Select(A[i] < 3, A[i] * 2, -A[i])
        B[2, i] = A[i] * 2 if A[i] < 3 else -A[i]
        if T.likely(A[i] < 7):
            B[3, i] = A[i]
        else:
            B[3, i] = 0


def _nodes(A, B):
    B[0] = A + 0
    B[1] = A * 1
    B[2] = np.maximum(np.minimum(A, 5), 1)
    B[3] = (A - 3) // 2
    B[4] = (A - 3) % 2
    B[5] = np.fix(A / 2).astype("int32")
    B[6] = np.fmod(A, 2)
    B[7] = ((A == 3) | ((A > 4) & (A != 6))) & ~(A < 1)


@form(_nodes)
@T.prim_func
def node_constructors(A: T.Buffer((8,), "int32"), B: T.Buffer((8, 8), "int32")):
    for i in range(8):
        B[0, i] = T.Add(A[i], 0)
        B[1, i] = T.Mul(A[i], 1)
        B[2, i] = T.Max(T.Min(A[i], 5), 1)
        B[3, i] = T.FloorDiv(T.Sub(A[i], 3), 2)
        B[4, i] = T.FloorMod(T.Sub(A[i], 3), 2)
        B[5, i] = T.Div(A[i], 2)
        B[6, i] = T.Mod(A[i], 2)
        B[7, i] = T.Cast("int32", T.And(T.Or(T.EQ(A[i], 3), T.And(T.GT(A[i], 4), T.NE(A[i], 6))), T.Not(T.LT(A[i], 1))))


@form(lambda A, B: _set(B, A.astype("int32") + (A.astype("float16") * np.float16(2)).astype("int32")))
@T.prim_func
def casts(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = T.int32(A[i]) + T.Cast("int32", A[i].astype("float16") * T.float16(2))


def _small_types(A, B):
    import ml_dtypes

    B[0] = A.astype(ml_dtypes.bfloat16).astype(F32)
    B[1] = A.astype(ml_dtypes.float8_e4m3fn).astype(F32)
    B[2] = A.astype(ml_dtypes.float8_e5m2).astype(F32)
    B[3] = A.astype("float64").astype(F32)
    B[4] = A.astype(ml_dtypes.float6_e3m2fn).astype(F32)
    B[5] = A.astype(ml_dtypes.float4_e2m1fn).astype(F32)


@form(_small_types)
@T.prim_func
def small_types(A: T.Buffer((8,), "float32"), B: T.Buffer((6, 8), "float32")):
    for i in range(8):
        B[0, i] = T.float32(T.bfloat16(A[i]))
        B[1, i] = T.float32(T.float8_e4m3fn(A[i]))
        B[2, i] = T.float32(T.float8_e5m2(A[i]))
        B[3, i] = T.float32(T.float64(A[i]))
        B[4, i] = T.float32(T.float6_e3m2fn(A[i]))
        B[5, i] = T.float32(T.float4_e2m1fn(A[i]))


def _constants(A, B, C):
    A[...] = [math.inf, -math.inf, np.finfo("float32").max, np.finfo("float32").min]
    B[...] = [127, -128, 255 - 256, 1]
    C[...] = [2**40, 5, -(2**63), 0]


@form(_constants)
@T.prim_func
def constants(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "int8"), C: T.Buffer((4,), "int64")):
    A[0] = T.float32("inf")
    A[1] = T.infinity("float32") * T.float32(-1)
    A[2] = T.max_value("float32")
    A[3] = T.min_value("float32")
    B[0] = T.max_value("int8")
    B[1] = T.int8(-128)
    B[2] = T.int8(T.uint8(255))
    B[3] = T.int8(T.bool(True))
    C[0] = 1099511627776
    C[1] = T.int64(5)
    C[2] = T.min_value("int64")
    C[3] = T.IntImm("int64", 0)


_UNARY = {
    "exp": np.exp, "exp2": np.exp2, "exp10": lambda x: np.power(F32(10), x), "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin,
    "cos": np.cos, "tan": np.tan, "asin": lambda x: np.arcsin(x / 2), "acos": lambda x: np.arccos(x / 2),
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh,
    "erf": np.vectorize(lambda x: math.erf(x), otypes=["float32"]), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "fabs": lambda x: np.abs(x - 1), "floor": np.floor, "ceil": np.ceil, "round": lambda x: np.floor(x + F32(0.5)),
    "trunc": np.trunc, "nearbyint": np.rint,
}  # fmt: skip


def _unary(A, B):
    for row, fn in enumerate(_UNARY.values()):
        B[row] = fn(A)


@form(_unary)
@T.prim_func
def unary_math(A: T.Buffer((8,), "float32"), B: T.Buffer((26, 8), "float32")):
    for i in range(8):
        B[0, i] = T.exp(A[i])
        B[1, i] = T.exp2(A[i])
        B[2, i] = T.exp10(A[i])
        B[3, i] = T.log(A[i])
        B[4, i] = T.log2(A[i])
        B[5, i] = T.log10(A[i])
        B[6, i] = T.log1p(A[i])
        B[7, i] = T.sqrt(A[i])
        B[8, i] = T.rsqrt(A[i])
        B[9, i] = T.sin(A[i])
        B[10, i] = T.cos(A[i])
        B[11, i] = T.tan(A[i])
        B[12, i] = T.asin(A[i] / 2.0)
        B[13, i] = T.acos(A[i] / 2.0)
        B[14, i] = T.atan(A[i])
        B[15, i] = T.sinh(A[i])
        B[16, i] = T.cosh(A[i])
        B[17, i] = T.tanh(A[i])
        B[18, i] = T.erf(A[i])
        B[19, i] = T.sigmoid(A[i])
        B[20, i] = T.fabs(A[i] - 1.0)
        B[21, i] = T.floor(A[i])
        B[22, i] = T.ceil(A[i])
        B[23, i] = T.round(A[i])
        B[24, i] = T.trunc(A[i])
        B[25, i] = T.nearbyint(A[i])


def _binary_math(A, B, C):
    C[0] = np.power(A, B)
    C[1] = np.arctan2(A, B)
    C[2] = np.fmod(A, B)
    C[3] = np.copysign(A, B - 1)
    C[4] = np.nextafter(A, B)
    C[5] = np.hypot(A, B)
    C[6] = np.ldexp(A, 3)
    C[7] = (A.astype("float64") * B + 2).astype("float32")
    C[8] = A / B
    C[9] = np.floor(A / B)
    C[10] = np.where(np.isnan(A), 1, 0) + np.where(np.isinf(B), 1, 0)


def _logaddexp(A, B, C):
    C[0] = np.logaddexp(A, B)
    C[1] = np.logaddexp(A, A)
    C[2] = np.logaddexp(A * 1e30, B * -1e30)
    C[3] = np.logaddexp(np.float32(np.inf), A)
    C[4] = np.logaddexp(np.float32(-np.inf), np.float32(-np.inf))


@form(_logaddexp)
@T.prim_func
def log_of_sums(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((5, 8), "float32")):
    for i in range(8):
        C[0, i] = T.logaddexp(A[i], B[i])
        C[1, i] = T.logaddexp(A[i], A[i])
        C[2, i] = T.logaddexp(A[i] * 1e30, B[i] * -1e30)
        C[3, i] = T.logaddexp(T.float32("inf"), A[i])
        C[4, i] = T.logaddexp(T.float32("-inf"), T.float32("-inf"))


@form(_binary_math)
@T.prim_func
def binary_math(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((11, 8), "float32")):
    for i in range(8):
        C[0, i] = T.pow(A[i], B[i])
        C[1, i] = T.atan2(A[i], B[i])
        C[2, i] = T.fmod(A[i], B[i])
        C[3, i] = T.copysign(A[i], B[i] - 1.0)
        C[4, i] = T.nextafter(A[i], B[i])
        C[5, i] = T.hypot(A[i], B[i])
        C[6, i] = T.ldexp(A[i], 3)
        C[7, i] = T.fma(A[i], B[i], 2.0)
        C[8, i] = A[i] / B[i]
        C[9, i] = A[i] // B[i]
        C[10, i] = T.Cast("float32", T.isnan(A[i])) + T.Cast("float32", T.isinf(B[i]))


def _bits(A, B):
    B[0] = [int(x).bit_count() for x in A]
    B[1] = [32 - int(x).bit_length() for x in A]
    B[2] = A.view("float32").view("int32")


@form(_bits)
@T.prim_func
def bit_functions(A: T.Buffer((8,), "int32"), B: T.Buffer((3, 8), "int32")):
    for i in range(8):
        B[0, i] = T.popcount(A[i])
        B[1, i] = T.clz(A[i])
        B[2, i] = T.reinterpret("int32", T.reinterpret("float32", A[i]))


def _vectors(A, B):
    B[0:4] = A[0:4] * 2
    B[4:8] = A[[0, 2, 4, 6]]
    B[8:12] = 3
    B[12:16] = A[[3, 2, 1, 0]]
    B[16:18] = A[0:2]
    B[18:20] = A[2:4]
    B[20:24] = A[0:4]
    B[24:28] = np.where(np.arange(4) < 2, A[0:4], 0)


@form(_vectors)
@T.prim_func
def vector_expressions(A: T.Buffer((8,), "float32"), B: T.Buffer((28,), "float32")):
    B[T.Ramp(0, 1, 4)] = A[T.ramp(0, 1, 4)] * T.Broadcast(T.float32(2), 4)
    B[T.Ramp(4, 1, 4)] = A[T.Ramp(0, 2, 4)]
    B[8:12] = T.broadcast(T.float32(3), 4)
    B[12:16] = T.Shuffle([A[0:4]], [3, 2, 1, 0])
    B[16:18] = T.vectorlow("float32x2", A[0:4])
    B[18:20] = T.vectorhigh("float32x2", A[0:4])
    B[20:24] = T.vectorcombine("float32x4", A[0:2], A[2:4])
    B[24:28] = T.Select(T.Ramp(0, 1, 4) < T.Broadcast(2, 4), A[0:4], T.Broadcast(T.float32(0), 4))


@form(lambda A: _set(A, np.where(np.arange(8) + 3 < 8, 1, 0)))
@T.prim_func
def lane_mask(A: T.Buffer((8,), "int32")):
    A[0:8] = T.Cast("int32x8", T.get_active_lane_mask("boolx8", 3, 8))


@form(None)
@T.prim_func
def scalable_vector(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32")):
    B[T.ramp(0, 1, 4 * T.vscale())] = A[T.ramp(0, 1, T.vscale() * 4)]


@form(lambda A: None)
@T.prim_func
def undefined(A: T.Buffer((4,), "float32")):
    tmp = T.alloc_buffer((1,), "float32")
    tmp[0] = T.undef()


@form(None)
@T.prim_func
def calls(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
    T.evaluate(T.call_extern("int32", "callee", A.data, 4, T.address_of(B[1])))
    T.call_extern("callee", A.access_ptr("r"), B.access_ptr("rw", offset=1), dtype="void")
    B[0] = T.call_pure_extern("float32", "sinf", A[0])
    B[1] = T.call_intrin("float32", "tir.exp", A[1])
    B[2] = T.call_llvm_intrin("float32", "llvm.sqrt", A[2])
    B[3] = T.call_llvm_pure_intrin("float32", "llvm.fabs", A[3])
    T.evaluate(T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 4, 1))
    T.evaluate(T.isnullptr(A.data))
    T.call_packed("host_function", A, 3)
    T.evaluate(T.tvm_tuple(1, A[0], "text"))


@form(None)
@T.prim_func
def host_structures(args: T.handle, n: T.int32) -> T.int32:
    x = T.tvm_struct_get(args, 0, 12, "int64")
    T.tvm_struct_set(args, 0, 12, x + T.int64(1))
    T.start_profile_intrinsic(1)
    p: T.handle("float32") = T.tvm_struct_get(args, 0, 1, "handle")
    A = T.Buffer((4,), "float32", data=p)
    A[0] = T.float32(1)
    T.end_profile_intrinsic(1)
    T.ret(0)


@form(None)
@T.prim_func
def gpu_operations(A: T.Buffer((64,), "float32"), B: T.Buffer((2,), "float32")):
    bx = T.launch_thread("blockIdx.x", 2)
    tx = T.launch_thread("threadIdx.x", 32)
    red = T.alloc_local((1,), "float32")
    T.tvm_storage_sync("shared")
    mask = T.tvm_warp_activemask()
    A[tx] = T.tvm_warp_shuffle_down(mask, A[tx], 1, 32, 32)
    with T.attr(
        T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", T.reinterpret("handle", T.uint64(0))
    ):
        T.tvm_thread_allreduce(T.uint32(1), A[bx * 32 + tx], T.bool(True), red[0], tx)
    B[bx] = red[0]


@form(None)
@T.prim_func
def tensor_cores(
    A: T.Buffer((256,), "float16", scope="wmma.matrix_a"), C: T.Buffer((256,), "float32", scope="wmma.accumulator")
):
    T.tvm_fill_fragment(C.data, 16, 16, 16, 0, T.float32(0))
    T.tvm_mma_sync(C.data, 0, A.data, 0, A.data, 0, C.data, 0)
    T.ptx_commit_group()
    T.ptx_wait_group(0)
    T.ptx_cp_async("float16", A.data, 0, A.data, 0, 16)


@form(lambda A: _set(A, np.arange(4) + 1))
@T.prim_func
def unicode_names(A: T.Buffer((4,), "int32")):
    größe = T.meta_var(4)
    for ï in range(größe):
        A[ï] = ï + 1
