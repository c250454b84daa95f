from __future__ import annotations

import functools
import operator

import numpy as np
import pytest

from tirlower.diagnostics import BoundsError, InterpreterError, UnboundError
from tirlower.interp import interpret
from tirlower.script import parse

COMBINE = {
    "add": operator.add, "max": max, "min": min, "and": operator.and_, "or": operator.or_, "xor": operator.xor,
    "exchange": lambda a, b: b,
}  # fmt: skip


def kernel_of(call, dtype="int32", threads=16):
    return parse(f"""
@T.prim_func
def kernel(A: T.Buffer((4,), "{dtype}"), V: T.Buffer(({threads},), "{dtype}"), B: T.Buffer(({threads},), "{dtype}")):
    for tx in T.thread_binding({threads}, thread="threadIdx.x"):
        B[tx] = {call}
""")


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
@pytest.mark.parametrize("name", COMBINE)
def test_each_thread_gets_the_value_before_its_own(name, dtype):
    draw = np.random.default_rng(0)
    v = draw.integers(0, 2**31, 16).astype(dtype)
    a, b = draw.integers(0, 2**31, 4).astype(dtype), np.zeros(16, dtype)
    start = int(a[2])
    interpret(kernel_of(f"T.atomic_{name}(T.address_of(A[2]), V[tx])", dtype), a, v, b, races=True)
    wrap = functools.partial(np.array, dtype=object)
    seen = [start]
    for value in v.tolist():
        seen.append(int(wrap(COMBINE[name](seen[-1], value)).astype(dtype)) if name != "add" else seen[-1] + value)
    mask = 2 ** (8 * np.dtype(dtype).itemsize) - 1
    assert [int(x) & mask for x in b] == [x & mask for x in seen[:-1]]
    assert int(a[2]) & mask == seen[-1] & mask


@pytest.mark.parametrize("name", ["add", "min", "max", "exchange"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_floats(name, dtype):
    v = np.random.default_rng(0).integers(-8, 8, 16).astype(dtype)
    a, b = np.ones(4, dtype), np.zeros(16, dtype)
    interpret(kernel_of(f"T.atomic_{name}(T.address_of(A[0]), V[tx])", dtype), a, v, b)
    assert a[0] == functools.reduce(COMBINE[name], v.tolist(), 1.0)


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_compare_and_swap_takes_one_winner(seed):
    a, b = np.zeros(4, np.int32), np.zeros(16, np.int32)
    kernel = kernel_of("T.atomic_cas(T.address_of(A[1]), 0, V[tx])")
    interpret(kernel, a, np.arange(1, 17, dtype=np.int32), b, seed=seed, races=True)
    winners = np.flatnonzero(b == 0)
    assert len(winners) == 1 and a[1] == winners[0] + 1
    assert (b[b != 0] == a[1]).all()


MESSAGE = """
@T.prim_func
def kernel(F: T.Buffer((1,), "int32"), D: T.Buffer((1,), "int32"), B: T.Buffer((1,), "int32")):
    for tx in T.thread_binding(2, thread="threadIdx.x"):
        if tx == 0:
            D[0] = 42
            T.evaluate(T.atomic_exchange(T.address_of(F[0]), 1, "RELEASE", "device"))
        else:
            while T.atomic_add(T.address_of(F[0]), 0, "ACQUIRE") == 0:
                T.evaluate(0)
            B[0] = D[0]
"""


def send(release, acquire, seed):
    b = np.zeros(1, np.int32)
    text = MESSAGE.replace("RELEASE", release).replace("ACQUIRE", acquire)
    interpret(parse(text), np.zeros(1, np.int32), np.zeros(1, np.int32), b, seed=seed, races=True)
    return b[0]


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_a_released_and_acquired_flag_orders(seed):
    assert send("release", "acquire", seed) == 42
    assert send("acq_rel", "acq_rel", seed) == 42


@pytest.mark.parametrize("orders", [("relaxed", "acquire"), ("release", "relaxed")])
def test_a_relaxed_flag_does_not(orders):
    with pytest.raises(InterpreterError, match="data race on 'D'"):
        send(*orders, None)


WRONG = {
    "bits of a float": ("T.atomic_and(T.address_of(A[0]), V[tx])", "float32", "atomic_and has no meaning on float32"),
    "an order": ('T.atomic_add(T.address_of(A[0]), V[tx], "strong")', "int32", "has no order 'strong'"),
    "a scope": ('T.atomic_add(T.address_of(A[0]), V[tx], "relaxed", "warp")', "int32", "has no scope 'warp'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_has_no_meaning(name):
    call, dtype, message = WRONG[name]
    with pytest.raises(InterpreterError, match=message.replace("'", "['\"]")):
        interpret(kernel_of(call, dtype), np.zeros(4, dtype), np.zeros(16, dtype), np.zeros(16, dtype))


def test_outside_of_memory_and_unwritten():
    arrays = np.zeros(4, np.int32), np.zeros(16, np.int32), np.zeros(16, np.int32)
    with pytest.raises(BoundsError):
        interpret(kernel_of("T.atomic_add(T.address_of(A[4]), V[tx])"), *arrays)
    unwritten = parse("""
@T.prim_func
def kernel(B: T.Buffer((1,), "int32")):
    for _tx in T.thread_binding(1, thread="threadIdx.x"):
        s = T.alloc_buffer((1,), "int32", scope="shared")
        B[0] = T.atomic_add(T.address_of(s[0]), 1)
""")
    with pytest.raises(UnboundError):
        interpret(unwritten, np.zeros(1, np.int32))
