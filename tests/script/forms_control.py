"""Forms: functions, parameters, closures, loops, branches, modules."""

from __future__ import annotations

import numpy as np

from tests.script.forms_base import form
from tirlower.script import ir as I
from tirlower.script import tir as T

SIZE = 8
DTYPE = "float32"
SCALE = 2.5
PAIR = (4, 2)


def _set(target, value):
    target[...] = value


@form(lambda A, B: _set(B, A + 1))
@T.prim_func
def buffer_params(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")) -> None:
    for i in range(8):
        B[i] = A[i] + T.float32(1)


@form(lambda A: _set(A, 0))
@T.prim_func(private=True, check_well_formed=True, s_tir=True)
def main_private(A: T.Buffer(8, "int32")):
    T.func_attr({"tir.noalias": True, "answer": 42})
    for i in range(8):
        A[i] = 0


@form(lambda A, B, n: _set(B, A * 2), n=6)
@T.prim_func
def match_buffers(a: T.handle, b: T.handle, n: T.int32):
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32", offset_factor=1)
    for i in range(n):
        B[i] = A[i] * 2.0


@form(lambda A, B: _set(B, A.T), m=3, n=5)
@T.prim_func
def symbolic_vars(a: T.handle, b: T.handle):
    m, n = T.int64(), T.int64(is_size_var=True)
    A = T.match_buffer(a, (m, n), "int32")
    B = T.match_buffer(b, (n, m), "int32")
    for i, j in T.grid(n, m):
        B[i, j] = A[j, i]


@form(lambda A, B: _set(B, A.sum(axis=1)), m=3, n=4)
@T.prim_func
def symbolic_strings(A: T.Buffer(("m", "n"), "int64"), B: T.Buffer(("m",), "int64")):
    for i in range(m):
        B[i] = T.int64(0)
        for j in range(n):
            B[i] += A[i, j]


@form(lambda n, A: _set(A, n), n=7)
@T.prim_func
def scalar_param(n: T.int32, A: T.Buffer((4,), "int32")):
    for i in range(4):
        A[i] = n


@form(lambda A: _set(A, np.arange(SIZE) * SCALE))
@T.prim_func
def closure_values(A: T.Buffer((SIZE,), DTYPE)):
    for i in range(PAIR[0] * PAIR[1]):
        A[i] = T.cast(i, DTYPE) * SCALE


def generic(size, dtype):
    @T.prim_func
    def closure_shape(A: T.Buffer((size,), dtype), B: T.Buffer((size, 2), dtype)):
        for i, j in T.grid(size, 2):
            B[i, j] = A[i]

    return closure_shape


form(lambda A, B: _set(B, A[:, None]))(generic(5, "float64"))


def clamp(x, low, high):
    """A helper that is read as script: comparisons and conditional expressions build IR."""
    small = low if x < low else x
    return high if small > high else small


def is_even(x):
    return x % 2 == 0


@form(lambda A: _set(A, np.where(np.arange(8) % 2 == 0, np.clip(A, 2, 5), A)))
@T.prim_func
def helper_function(A: T.Buffer((8,), "int32")):
    for i in range(8):
        if is_even(i):
            A[i] = clamp(A[i], 2, 5)


@T.macro
def store_twice(buf, index, value):
    buf[index] = value
    buf[index + 1] = value * SIZE


@T.macro(hygienic=False)
def store_here(value):
    A[i] = A[i] + value


@form(lambda A: _set(A, np.array([0, 0, 2, 16, 4, 32, 6, 48]) + 1))
@T.prim_func
def macros(A: T.Buffer((8,), "int32")):
    for i in T.serial(0, 8, step=2):
        store_twice(A, i, i)
    for i in range(8):
        store_here(1)


@form(lambda A: _set(A, np.arange(8) * 3))
@T.prim_func
def parallel_loop(A: T.Buffer((8,), "int32")):
    for i in T.parallel(8):
        A[i] = i * 3


@form(lambda A, B: _set(B, A - 1))
@T.prim_func
def vectorized_loop(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i in T.serial(4):
        for j in T.vectorized(8):
            B[i, j] = A[i, j] - 1.0


@form(lambda A: _set(A, np.arange(4) + 2))
@T.prim_func
def unrolled_loop(A: T.Buffer((4,), "int32")):
    for i in T.unroll(4):
        A[i] = i + 2


@form(lambda A: _set(A, np.arange(32).reshape(4, 8)))
@T.prim_func
def thread_loops(A: T.Buffer((4, 8), "int32")):
    for bx in T.thread_binding(4, thread="blockIdx.x"):
        for tx in T.thread_binding(0, 8, "threadIdx.x"):
            A[bx, tx] = bx * 8 + tx


@form(lambda A: _set(A[2:6], 9))
@T.prim_func
def loop_start_stop(A: T.Buffer((8,), "int32")):
    for i in T.serial(2, 6, annotations={"pragma_note": "text", "factor": 4, "list": [1, 2]}):
        A[i] = 9


@form(lambda A: _set(A[1:8:3], np.array([1, 4, 7])))
@T.prim_func
def loop_step(A: T.Buffer((8,), "int32")):
    for i in range(1, 8, 3):
        A[i] = i


@form(lambda A: _set(A, np.arange(8)[::-1]))
@T.prim_func
def loop_step_down(A: T.Buffer((8,), "int32")):
    for i in range(7, -1, -1):
        A[i] = 7 - i


@form(lambda A: _set(A, np.arange(24).reshape(2, 3, 4)))
@T.prim_func
def grid_loop(A: T.Buffer((2, 3, 4), "int64")):
    for i, j, k in T.grid(2, 3, T.int64(4)):
        A[i, j, k] = T.cast(i, "int64") * 12 + T.cast(j, "int64") * 4 + k


def _collatz(A):
    for i in range(4):
        x, steps = int(A[i]) + 1, 0
        while x != 1:
            x = x // 2 if x % 2 == 0 else 3 * x + 1
            steps += 1
        A[i] = steps


@form(_collatz)
@T.prim_func
def while_loop(A: T.Buffer((4,), "int32")):
    x = T.alloc_buffer((1,), "int32")
    steps = T.alloc_buffer((1,), "int32")
    for i in range(4):
        x[0] = A[i] + 1
        steps[0] = 0
        while x[0] != 1:
            if x[0] % 2 == 0:
                x[0] = x[0] // 2
            else:
                x[0] = 3 * x[0] + 1
            steps[0] += 1
        A[i] = steps[0]


@form(lambda A: _set(A, np.where(A < 3, 0, np.where(A == 3, 1, 2))))
@T.prim_func
def branches(A: T.Buffer((8,), "int32")):
    for i in range(8):
        if A[i] < 3:
            A[i] = 0
        elif A[i] == 3:
            A[i] = 1
        else:
            A[i] = 2


@form(lambda A: _set(A, 1))
@T.prim_func
def branch_at_parse_time(A: T.Buffer((8,), "int32")):
    for i in range(8):
        if SIZE == 8:
            A[i] = 1
        else:
            A[i] = 2


@form(lambda A: _set(A[:5], 3))
@T.prim_func
def break_continue(A: T.Buffer((8,), "int32")):
    for i in range(8):
        if i == 5:
            break
        if i < 0:
            continue
        A[i] = 3


@form(lambda A, B: _set(B, A * 2 + 1))
@I.ir_module
class CallsBetweenFunctions:
    I.module_attrs({"version": 1})

    @T.prim_func(private=True)
    def double(x: T.int32) -> T.int32:
        T.ret(x * 2)

    @T.prim_func
    def main(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        T.func_attr({"form": "calls_between_functions"})
        for i in range(4):
            B[i] = CallsBetweenFunctions.double(A[i]) + 1


@form(None, n=3)
@T.prim_func
def return_value(n: T.int32) -> T.int32:
    if n > 2:
        T.ret(n + 1)
    return 0
