from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check, random_arguments, same_function
from tests.sampling import by_day
from tirlower.diagnostics import InterpreterError, TransformError
from tirlower.interp import interpret
from tirlower.ir import Call, Evaluate, PrimFunc, post_order_visit
from tirlower.ir.op import Op
from tirlower.script import parse
from tirlower.transforms import ThreadSync

SYNC = Op.get("tir.tvm_storage_sync")
SEEDS = range(5)


def barriers(func: PrimFunc) -> int:
    found = 0

    def look(op: Any) -> None:
        nonlocal found
        found += isinstance(op, Evaluate) and isinstance(op.value, Call) and op.value.op is SYNC

    post_order_visit(func.body, look)
    return found


def kernel(body: str, head: str = "", scope: str = "shared", n: int = 32) -> PrimFunc:
    """A kernel of two blocks of n threads, over arguments A and B, with shared s and r and a local l."""
    text = f"""
@T.prim_func
def kernel(A: T.Buffer((2, {n}), "int32"), B: T.Buffer((2, {n}), "int32"), m: T.int32):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        {head or f'for tx in T.thread_binding({n}, thread="threadIdx.x"):'}
            s = T.alloc_buffer(({2 * n},), "int32", scope="{scope}")
            r = T.alloc_buffer(({2 * n},), "int32", scope="{scope}")
            l = T.alloc_buffer((4,), "int32", scope="local")
            l[0] = 0
            l[1] = 0
"""
    return parse(text + "".join(f"            {line}\n" for line in body.strip("\n").splitlines()))


# The body, and the fewest barriers that order it (by hand).
TABLE: dict[str, tuple[str, int]] = {
    "one's own element": ("s[tx] = A[bx, tx]\nB[bx, tx] = s[tx]", 0),
    "another's element": ("s[tx] = A[bx, tx]\nB[bx, tx] = s[31 - tx]", 1),
    "one's own, seen through a shift": ("s[tx + 3] = A[bx, tx]\nB[bx, tx] = s[3 + tx]", 0),
    "two buffers, one barrier": ("s[tx] = A[bx, tx]\nr[tx] = 2\nB[bx, tx] = s[31 - tx] + r[31 - tx]", 1),
    "a chain": ("s[tx] = A[bx, tx]\nr[tx] = s[31 - tx]\nB[bx, tx] = r[(tx + 1) % 32]", 2),
    "a value is overwritten": ("s[tx] = A[bx, tx]\nl[0] = s[31 - tx]\ns[tx] = l[0]\nB[bx, tx] = s[tx]", 2),
    "overwritten by the reader": ("s[tx] = 1\nl[0] = s[31 - tx]\ns[31 - tx] = l[0]\nB[bx, tx] = s[31 - tx]", 1),
    "halves that do not meet": ("s[tx] = A[bx, tx]\ns[tx + 32] = 1\nB[bx, tx] = s[tx + 32]", 0),
    "even and odd": ("s[2 * tx] = A[bx, tx]\ns[2 * tx + 1] = 5\nB[bx, tx] = s[2 * tx + 1] + s[2 * tx]", 0),
    "a private part each": ("for i in range(2):\n    s[tx * 2 + i] = i\nfor i in range(2):\n    B[bx, tx] = s[tx * 2 + 1 - i]", 0),
    "a strided part each": ("for i in range(2):\n    s[i * 32 + tx] = i\nfor i in range(2):\n    B[bx, tx] = s[i * 32 + tx]", 0),
    "one thread writes, all read": ("if tx == 0:\n    s[0] = A[bx, 0]\nB[bx, tx] = s[0]", 1),
    "one thread writes and reads": ("if tx == 0:\n    s[0] = A[bx, 0]\nif tx == 0:\n    B[bx, 0] = s[0]", 0),
    "different threads write parts": ("if tx < 16:\n    s[tx] = 1\nelse:\n    s[tx] = 2\nB[bx, tx] = s[tx]", 0),
    "reads only": ("if tx == 0:\n    s[tx] = 1\nT.tvm_storage_sync('shared')\nB[bx, tx] = s[0] + s[0]", 1),
    "a barrier is there": ("s[tx] = A[bx, tx]\nT.tvm_storage_sync('shared')\nB[bx, tx] = s[31 - tx]", 1),
    "one of shared.dyn counts": ("s[tx] = A[bx, tx]\nT.tvm_storage_sync('shared.dyn')\nB[bx, tx] = s[31 - tx]", 1),
    "one of the only warp counts": ("s[tx] = A[bx, tx]\nT.tvm_storage_sync('warp')\nB[bx, tx] = s[31 - tx]", 1),
    "a tile in a loop": ("for k in range(3):\n    s[tx] = A[bx, tx] + k\n    B[bx, tx] = B[bx, tx] + s[31 - tx]", 2),
    "a double-buffered tile": (
        "for k in range(4):\n    s[k % 2 * 32 + tx] = A[bx, tx] + k\n"
        "    B[bx, tx] = B[bx, tx] + s[k % 2 * 32 + 31 - tx]", 1),
    "a tile with a barrier before": (
        "for k in range(3):\n    T.tvm_storage_sync('shared')\n    s[tx] = A[bx, tx] + k\n"
        "    B[bx, tx] = B[bx, tx] + s[31 - tx]", 2),
    "a tile and an inner loop": (
        "for k in range(3):\n    s[tx] = A[bx, tx] + k\n    for i in range(32):\n        B[bx, tx] = B[bx, tx] + s[i]", 2),
    "two tiles": (
        "for k in range(3):\n    s[tx] = A[bx, tx] + k\n    r[tx] = k\n    for i in range(32):\n"
        "        B[bx, tx] = B[bx, tx] + s[i] * r[31 - i]", 2),
    "a loop of one iteration": ("for k in range(1):\n    l[0] = l[0] + 1\n    s[tx] = k\n    B[bx, tx] = s[31 - tx]", 1),
    "an empty loop": ("s[tx] = 1\nfor k in range(0):\n    B[bx, tx] = s[31 - tx]", 0),
    "carried only": ("s[tx] = 0\ns[tx + 32] = 0\nfor k in range(3):\n    l[0] = s[(tx + k) % 32]\n    s[32 + tx] = l[0]\nB[bx, tx] = s[tx + 32]", 1),
    "all of a window, again and again": ("for k in range(4):\n    s[tx + k] = tx\nB[bx, tx] = s[tx]", 2),
    "a window that moves down": ("for k in range(4):\n    s[tx + 3 - k] = tx\nB[bx, tx] = s[tx]", 1),
    "a window of steps of two": ("for k in range(3):\n    s[tx + 2 * k] = tx\nB[bx, tx] = s[tx]", 2),
    "a window two loops around": ("for i in range(2):\n    for k in range(2):\n        s[tx + k] = i\nB[bx, tx] = s[tx]", 2),
    "a window of the inner loop's own": ("for k in range(4):\n    s[tx + 32 * (k % 2)] = tx\nB[bx, tx] = s[tx]", 0),
    "a window in which a thread adds": ("s[tx] = 0\ns[tx + 32] = 0\nfor k in range(4):\n    s[tx + k] = s[tx + k] + tx\nB[bx, tx] = s[tx]", 2),
    "a window that wraps": ("for k in range(4):\n    s[(tx + k * 3) % 32] = tx\nB[bx, tx] = s[tx]", 2),
    "a window under a condition": ("s[tx] = 0\nfor k in range(4):\n    if tx < 8:\n        s[tx + k] = tx\nB[bx, tx] = s[tx]", 2),
    "an unrolled window": ("for k in T.unroll(3):\n    s[tx + k] = tx\nB[bx, tx] = s[tx]", 2),
    "a window of a while loop": ("while l[1] < 3:\n    s[tx + l[1]] = tx\n    l[1] = l[1] + 1\nB[bx, tx] = s[tx]", 2),
    "two windows, one barrier": ("for k in range(4):\n    s[tx + k] = tx\n    r[tx + 3 - k] = tx\nB[bx, tx] = s[tx] + r[tx]", 2),
    "updates that do not commute": (
        "if tx == 0:\n    s[0] = 0\nT.evaluate(T.atomic_xor(T.address_of(s[0]), tx))\n"
        "T.evaluate(T.atomic_max(T.address_of(s[0]), 7))\nB[bx, tx] = s[0]", 3),
    "updates that commute": (
        "if tx == 0:\n    s[0] = 0\nT.evaluate(T.atomic_add(T.address_of(s[0]), tx))\n"
        "T.evaluate(T.atomic_add(T.address_of(s[0]), 7))\nB[bx, tx] = s[0]", 2),
    "updates of two kinds of other elements": (
        "s[tx] = 0\nT.evaluate(T.atomic_xor(T.address_of(s[tx]), tx))\nT.evaluate(T.atomic_max(T.address_of(s[tx]), 7))\n"
        "B[bx, tx] = s[tx]", 0),
    "updates of two kinds in a loop": (
        "if tx == 0:\n    s[0] = 0\nfor k in range(3):\n    T.evaluate(T.atomic_xor(T.address_of(s[0]), tx))\n"
        "    T.evaluate(T.atomic_max(T.address_of(s[0]), k))\nB[bx, tx] = s[0]", 3),
    "an exchange behind updates": (
        "if tx == 0:\n    s[0] = 0\nT.evaluate(T.atomic_add(T.address_of(s[0]), tx))\n"
        "T.evaluate(T.atomic_exchange(T.address_of(s[0]), 7))\nB[bx, tx] = s[0]", 3),
    "two exchanges": (
        "if tx == 0:\n    s[0] = 0\nT.evaluate(T.atomic_exchange(T.address_of(s[0]), 5))\n"
        "T.evaluate(T.atomic_exchange(T.address_of(s[0]), 7))\nB[bx, tx] = s[0]", 3),
    "an update of another kind by one thread": (
        "if tx == 0:\n    s[0] = 0\nT.evaluate(T.atomic_add(T.address_of(s[0]), tx))\nif tx == 3:\n"
        "    T.evaluate(T.atomic_min(T.address_of(s[0]), 7))\nB[bx, tx] = s[0]", 3),
    "a rotating owner": ("for k in range(3):\n    s[(tx + k) % 32] = k\nB[bx, tx] = s[(tx + 2) % 32]", 1),
    "a scan in two halves": (
        "s[tx] = A[bx, tx]\nfor k in range(5):\n"
        "    l[0] = T.if_then_else(tx >= T.shift_left(1, k), s[T.max(tx - T.shift_left(1, k), 0)], 0)\n"
        "    s[tx] = s[tx] + l[0]\nB[bx, tx] = s[tx]", 2),
    "a tree": (
        "s[tx] = A[bx, tx]\nfor k in range(5):\n    if tx < T.shift_right(16, k):\n"
        "        s[tx] = s[tx] + s[tx + T.shift_right(16, k)]\nB[bx, tx] = s[0]", 2),
    "a tree, unrolled": (
        "s[tx] = A[bx, tx]\nif tx < 16:\n    s[tx] = s[tx] + s[tx + 16]\nif tx < 8:\n    s[tx] = s[tx] + s[tx + 8]\n"
        "if tx == 0:\n    B[bx, 0] = s[0] + s[1] + s[2] + s[3] + s[4] + s[5] + s[6] + s[7]", 3),
    "a condition that all threads share": ("s[tx] = A[bx, tx]\nif bx == 0:\n    B[bx, tx] = s[31 - tx]", 1),
    "a barrier inside of such a condition": ("if bx == 0:\n    s[tx] = A[bx, tx]\n    B[bx, tx] = s[31 - tx]", 1),
    "a condition read from shared memory": ("if tx == 0:\n    s[0] = A[bx, 0]\nif s[0] > 0:\n    B[bx, tx] = 1", 1),
    "a symbolic loop": ("for k in range(m):\n    s[tx] = k\n    B[bx, tx] = s[31 - tx]", 2),
    "a loop that may not run": ("s[tx] = 1\nfor k in range(m):\n    s[tx + 32] = k\nB[bx, tx] = s[31 - tx]", 1),
    "a while loop": (
        "while l[1] < 3:\n    s[tx] = l[1]\n    B[bx, tx] = s[31 - tx]\n    l[1] = l[1] + 1", 2),
    "a while loop with a shared condition": (
        "s[tx] = 3\nT.tvm_storage_sync('shared')\nwhile s[0] > 0:\n    if tx == 0:\n        s[0] = s[0] - 1\n"
        "    B[bx, tx] = B[bx, tx] + 1", 3),
    "atomics": ("if tx == 0:\n    s[0] = 0\nT.evaluate(T.atomic_add(T.address_of(s[0]), 1))\nB[bx, tx] = s[0]", 2),
    "atomics after atomics": ("if tx == 0:\n    s[0] = 0\nfor k in range(3):\n    T.evaluate(T.atomic_add(T.address_of(s[0]), k))\nB[bx, tx] = s[0]", 2),
    "work after the loop": ("for k in range(2):\n    s[tx] = k\n    l[0] = s[31 - tx]\nr[tx] = l[0]\nB[bx, tx] = r[31 - tx]", 3),
    "a view": ("v = T.Buffer((4, 8), 'int32', data=s.data, scope='shared')\nv[tx // 8, tx % 8] = A[bx, tx]\nB[bx, tx] = s[tx]", 0),
    "a view, transposed": ("v = T.Buffer((8, 4), 'int32', data=s.data, scope='shared')\nv[tx // 4, tx % 4] = A[bx, tx]\nB[bx, tx] = s[tx % 4 * 8 + tx // 4]", 1),
    "unequal negative steps": ("s[31 - tx] = A[bx, tx]\nB[bx, tx] = s[31 - tx]\nB[bx, tx] = B[bx, tx] + s[tx]", 1),
    "all write one element": ("s[0] = bx\nB[bx, tx] = s[0]", 1),
    "nested loops, the barriers inside": (
        "for i in range(2):\n    for j in range(2):\n        s[tx] = i + j\n        B[bx, tx] = B[bx, tx] + s[31 - tx]", 2),
    "nested loops, the barrier outside": (
        "for i in range(2):\n    s[tx] = i\n    for j in range(3):\n        r[tx] = j\n        l[0] = l[0] + r[tx] + s[31 - tx]\nB[bx, tx] = l[0]", 2),
}  # fmt: skip


def alike(before: PrimFunc, after: PrimFunc, seeds: Any = SEEDS) -> None:
    """The program in lockstep, and with its barriers in other orders, on the same inputs."""
    rng = np.random.default_rng(0)
    args = random_arguments(before, rng)
    args = [2 if np.isscalar(arg) else arg for arg in args]
    want = [np.copy(arg) for arg in args]
    interpret(before, *want)
    for seed in seeds:
        got = [np.copy(arg) for arg in args]
        interpret(after, *got, seed=seed)
        for x, y in zip(want, got, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", by_day(TABLE))
def test_the_fewest_barriers(name: str) -> None:
    body, count = TABLE[name]
    before = kernel(body)
    after = check(ThreadSync("shared"), before, inputs=[])
    assert barriers(after) == count, after.script()
    alike(before, after)
    if name != "all write one element":  # a race within the statement, of equal values
        args = [2 if np.isscalar(arg) else arg for arg in random_arguments(after, np.random.default_rng(1))]
        interpret(after, *args, races=True)


@pytest.mark.parametrize("name", [name for name, (_, count) in TABLE.items() if count])
def test_no_barrier_can_be_left_out(name: str) -> None:
    after = ThreadSync("shared")(kernel(TABLE[name][0]))
    lines = after.script().splitlines()
    for at, line in enumerate(lines):
        if "tvm_storage_sync" not in line or "warp" in line or name in _NEEDED_BY_VALUE:
            continue
        less = lines[:at] + lines[at + 1 :]
        func = parse("\n".join(less))
        args = [4 if np.isscalar(arg) else arg for arg in random_arguments(func, np.random.default_rng(1))]
        with pytest.raises(InterpreterError, match="race"):
            interpret(func, *args, races=True)


_NEEDED_BY_VALUE = (
    "all write one element",  # a race within one statement, of equal values
    # Atomic updates race with nothing: what they leave is what their order makes of it.
    "updates that do not commute",
    "updates of two kinds in a loop",
    "an exchange behind updates",
    "two exchanges",
    "an update of another kind by one thread",
)


DIVERGENT = {
    "a condition on the thread": "if tx < 16:\n    s[tx] = 1\n    B[bx, tx] = s[15 - tx]",
    "a condition on the thread's data": "if A[bx, tx] > 0:\n    s[tx] = 1\n    B[bx, tx] = s[31 - tx]",
    "a condition on a local value": "l[2] = tx\nif l[2] > 3:\n    s[tx] = 1\n    B[bx, tx] = s[31 - tx]",
    "a loop whose length differs": "for i in range(tx):\n    s[tx] = i\n    B[bx, tx] = s[31 - tx]",
    "a while loop of each": "l[2] = tx\nwhile l[2] > 0:\n    s[tx] = 1\n    B[bx, tx] = s[31 - tx]\n    l[2] = l[2] - 1",
    "a bound variable": "v: T.let[T.int32] = tx % 2\nif v == 0:\n    s[tx] = 1\n    B[bx, tx] = s[30 - tx]",
}  # fmt: skip


@pytest.mark.parametrize("name", DIVERGENT)
def test_a_barrier_under_a_divergent_condition(name: str) -> None:
    with pytest.raises(TransformError, match="threads may pass differently"):
        ThreadSync("shared")(kernel(DIVERGENT[name]))


# Two arms of a condition that threads of a block take at once, and whether what they access meets.
ARMS = {
    "the issue's": ("if tx < 16:\n    s[tx] = 100\nelse:\n    B[bx, tx] = s[31 - tx]", True),
    "each its own": ("if tx < 16:\n    s[tx] = 100\nelse:\n    B[bx, tx] = s[tx]", False),
    "both read": ("if tx < 16:\n    B[bx, tx] = s[31 - tx]\nelse:\n    B[bx, tx] = s[tx]", False),
    "both write": ("if tx < 16:\n    s[tx % 16] = 1\nelse:\n    s[tx % 16] = 2", True),
    "the else writes": ("if tx % 2 == 0:\n    B[bx, tx] = s[tx + 1]\nelse:\n    s[tx] = 3", True),
    "a condition on data": ("if A[bx, tx] > 0:\n    s[tx] = 1\nelse:\n    B[bx, tx] = s[31 - tx]", True),
    "a condition of the block's": ("if A[bx, 3] > 0:\n    s[tx] = 1\nelse:\n    B[bx, tx] = s[31 - tx]", False),
    "loops in the arms": (
        "if tx < 16:\n    for k in range(2):\n        s[tx + 16 * k] = k\nelse:\n    for k in range(3):\n"
        "        l[0] = l[0] + s[tx + k]\n    B[bx, tx] = l[0]", True),
    "in a loop": (
        "for k in range(3):\n    T.tvm_storage_sync('shared')\n    if tx < 16:\n        s[tx] = k\n    else:\n"
        "        B[bx, tx] = s[31 - tx]", True),
    "an arm in an arm": (
        "if tx < 8:\n    B[bx, tx] = s[tx]\nelse:\n    if tx < 16:\n        s[tx] = 1\n    else:\n"
        "        B[bx, tx] = s[tx - 16]", True),
    "one arm alone": ("if tx < 16:\n    s[tx] = s[tx] + s[tx + 16]\nelse:\n    r[tx] = 1", False),
    "atomics of one kind": (
        "if tx < 16:\n    T.evaluate(T.atomic_add(T.address_of(s[0]), 1))\nelse:\n"
        "    T.evaluate(T.atomic_add(T.address_of(s[0]), 2))", False),
    "atomics of two kinds": (
        "if tx < 16:\n    T.evaluate(T.atomic_add(T.address_of(s[0]), 1))\nelse:\n"
        "    T.evaluate(T.atomic_max(T.address_of(s[0]), 2))", True),
}  # fmt: skip


@pytest.mark.parametrize("name", ARMS)
def test_arms_that_threads_take_at_once(name: str) -> None:
    body, meet = ARMS[name]
    before = kernel(f"s[tx] = A[bx, tx]\ns[tx + 32] = 0\nT.tvm_storage_sync('shared')\n{body}")
    if not meet:
        after = ThreadSync("shared")(before)
        alike(before, after)
        args = random_arguments(after, np.random.default_rng(1))
        interpret(after, *args, races=True)
        return
    with pytest.raises(TransformError, match="may take both arms") as error:
        ThreadSync("shared")(before)
    assert error.value.help is not None and "second if" in error.value.help
    if "kinds" not in name:  # atomics race with nothing: what they leave depends on their order
        args = random_arguments(before, np.random.default_rng(1))
        with pytest.raises(InterpreterError, match="data race"):
            interpret(before, *args, races=True)


def test_the_remedy_of_arms_is_one() -> None:
    before = kernel("s[tx] = A[bx, tx]\nif tx < 16:\n    s[tx] = 100\nif not (tx < 16):\n    B[bx, tx] = s[31 - tx]")
    after = ThreadSync("shared")(before)
    assert barriers(after) == 1
    alike(before, after)


def test_threads_that_wait_for_each_other_by_atomics_get_no_barrier() -> None:
    """A barrier between taking a lock and giving it back would never be passed."""
    locked = kernel(
        "while T.atomic_exchange(T.address_of(s[0]), 1) == 1:\n    T.evaluate(0)\n"
        "T.evaluate(T.atomic_and(T.address_of(s[0]), 0))"
    )
    assert barriers(ThreadSync("shared")(locked)) == 0
    stated = kernel(
        'T.evaluate(T.atomic_add(T.address_of(s[0]), 1, "release"))\n'
        'T.evaluate(T.atomic_max(T.address_of(s[0]), 1, "acquire"))'
    )
    assert barriers(ThreadSync("shared")(stated)) == 0


# Kernels with subscripts that are loaded, in loops for which somebody vouched, and the barriers that order them.
SCATTERED = {
    "a gather behind a store": ("C[tx] = A[bx, tx]\nB[bx, tx] = C[A[bx, tx] % 32]", 1),
    "a store behind a gather": ("l[0] = C[A[bx, tx] % 32]\nC[tx] = l[0]", 1),
    "an affine one beside": ("C[tx] = 1\nB[bx, tx] = C[31 - tx]\nl[0] = C[A[bx, tx] % 32]", 1),
    "a scatter by itself": ("C[A[bx, tx] % 32] = tx", 0),
    "a scatter, then its reader": ("C[A[bx, tx] % 32] = tx\nB[bx, tx] = C[31 - tx]", 1),
    "rows of a list, where no barrier can stand": (
        "for k in range(A[bx, tx], A[bx, 31 - tx]):\n    C[A[bx, k] % 32] = C[A[bx, k] % 32] + 1", 0),
    "and one behind it": (
        "C[tx] = 1\nB[bx, tx] = C[31 - tx]\nfor k in range(A[bx, tx], A[bx, 31 - tx]):\n"
        "    C[A[bx, k] % 32] = C[A[bx, k] % 32] + 1", 1),
    "an affine access where no barrier can stand": ("for k in range(A[bx, tx]):\n    C[tx] = 1\n    B[bx, k] = C[31 - tx]", -1),
}  # fmt: skip


@pytest.mark.parametrize("name", SCATTERED)
def test_loaded_subscripts_are_ordered_with_the_rest_of_their_buffer(name: str) -> None:
    body, count = SCATTERED[name]
    text = kernel(body.replace("C[", "B[0, ")).script()
    head, _, rest = text.partition("B: T.Buffer")
    text = f'{head}C: T.Buffer((32,), "int32"), B: T.Buffer{rest}'.replace("B[0, ", "C[")
    pass_ = ThreadSync("shared", with_global=True)
    if count < 0:
        with pytest.raises(TransformError, match="threads may pass differently"):
            pass_(parse(text))
    else:
        assert barriers(pass_(parse(text))) == count


def test_scopes_are_apart() -> None:
    func = kernel("s[tx] = A[bx, tx]\nB[bx, tx] = s[31 - tx]", scope="shared.dyn")
    assert ThreadSync("shared")(func) is func
    after = check(ThreadSync("shared.dyn"), func, inputs=[])
    assert 'T.tvm_storage_sync("shared.dyn")' in after.script()
    alike(func, after)


def test_two_axes() -> None:
    text = """
@T.prim_func
def transpose(A: T.Buffer((8, 4), "float32"), B: T.Buffer((4, 8), "float32")):
    for ty in T.thread_binding(8, thread="threadIdx.y"):
        for tx in T.thread_binding(4, thread="threadIdx.x"):
            s = T.alloc_buffer((8, 5), "float32", scope="shared")
            s[ty, tx] = A[ty, tx]
            s[ty, tx] = s[ty, tx] * T.float32(2)
            B[(ty * 4 + tx) // 8, (ty * 4 + tx) % 8] = s[(ty * 4 + tx) % 8, (ty * 4 + tx) // 8]
"""
    func = parse(text)
    after = check(ThreadSync("shared"), func)
    assert barriers(after) == 1
    alike(func, after)


def test_loops_of_one_axis_one_after_another() -> None:
    func = parse("""
@T.prim_func
def twice(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for bx in T.thread_binding(1, thread="blockIdx.x"):
        s = T.alloc_buffer((8,), "int32", scope="shared")
        r = T.alloc_buffer((8,), "int32", scope="shared")
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            s[tx] = A[tx]
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            r[tx] = s[tx]
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            B[tx] = r[7 - tx]
""")
    after = check(ThreadSync("shared"), func)
    assert barriers(after) == 1
    assert after.script().index("r[tx] =") < after.script().index("tvm_storage_sync") < after.script().index("B[tx]")


def test_a_warps_memory() -> None:
    body = """
@T.prim_func
def shift(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        w = T.alloc_buffer((32,), "int32", scope="warp")
        w[tx % 32] = A[tx]
        B[tx] = w[INDEX]
"""
    other = parse(body.replace("INDEX", "(tx + 1) % 32"))
    after = check(ThreadSync("warp"), other)
    assert after.script().count('T.tvm_storage_sync("warp")') == 1
    interpret(after, np.zeros(64, np.int32), np.zeros(64, np.int32), races=True)
    own = parse(body.replace("INDEX", "tx % 32"))
    assert ThreadSync("warp")(own) is own


def test_a_warps_memory_is_ordered_by_a_barrier_of_the_block() -> None:
    func = kernel("s[tx] = A[bx, tx]\nT.tvm_storage_sync('shared')\nB[bx, tx] = s[31 - tx]", scope="warp")
    assert ThreadSync("warp")(func) is func


def test_memory_of_the_device() -> None:
    func = parse("""
@T.prim_func
def two_steps(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), C: T.Buffer((64,), "int32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            B[bx * 32 + tx] = A[bx * 32 + tx]
            C[bx * 32 + tx] = B[63 - bx * 32 - tx]
""")
    after = check(ThreadSync("global"), func, execute=False)
    text = after.script()
    assert 'T.tvm_storage_sync("global", tx == 0, 2)' in text
    assert text.index("tvm_global_barrier_kinit") < text.index("volatile_scope") < text.index("tvm_storage_sync")
    own = parse(func.script().replace("63 - bx * 32 - tx", "bx * 32 + tx"))
    assert ThreadSync("global")(own) is own


def test_waits_for_copies_end_with_a_barrier() -> None:
    func = kernel("""
with T.attr(0, "async_commit_queue_scope", 0):
    with T.attr(0, "async_scope", 1):
        s[tx] = A[bx, tx]
with T.attr(0, "async_wait_queue_scope", 0):
    with T.attr(0, "async_wait_inflight_count", 0):
        B[bx, tx] = s[31 - tx]
""")
    after = check(ThreadSync("shared"), func, inputs=[])
    assert barriers(after) == 1
    text = after.script()
    assert text.index("async_wait_inflight_count") < text.index("tvm_storage_sync") < text.index("B[bx, tx]")
    alike(func, after)


def test_pointers_given_to_calls() -> None:
    func = kernel("""
s[tx] = A[bx, tx]
T.evaluate(T.call_extern("int32", "use", T.tvm_access_ptr(T.type_annotation("int32"), s.data, tx, 1, 1)))
T.evaluate(T.call_extern("int32", "use", T.tvm_access_ptr(T.type_annotation("int32"), s.data, 0, 32, 1)))
T.evaluate(T.call_extern("int32", "fill", T.tvm_access_ptr(T.type_annotation("int32"), r.data, 0, 32, 2)))
B[bx, tx] = r[0]
""")
    after = check(ThreadSync("shared"), func, execute=False)
    lines = [line.strip().split("(")[0] for line in after.script().splitlines()]
    assert barriers(after) == 2
    assert lines.count("T.tvm_storage_sync") == 2


def test_host_functions_and_wrong_scopes() -> None:
    func = parse("""
@T.prim_func
def host(A: T.Buffer((8,), "int32")):
    for i in T.parallel(8):
        A[i] = A[7 - i]
""")
    for scope in ("shared", "shared.dyn", "warp", "global"):
        assert ThreadSync(scope)(func) is func
    with pytest.raises(TransformError, match="'warp' or 'global', got 'local'"):
        ThreadSync("local")
    with pytest.raises(TransformError, match="ThreadSync is given no storage_scope: 'shared', "):
        ThreadSync()(func)


def test_blocks_are_refused() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        with T.block("b"):
            s = T.alloc_buffer((8,), "int32", scope="shared")
            T.reads()
            T.writes(A[0:8])
            s[tx] = 1
            A[tx] = s[7 - tx]
""")
    with pytest.raises(TransformError, match="block"):
        ThreadSync("shared")(func)


def test_a_long_body_stays_linear() -> None:
    lines = "\n".join(f"s[tx] = A[bx, tx] + {n}\nl[0] = l[0] + s[31 - tx]" for n in range(150))
    after = ThreadSync("shared")(kernel(lines))
    assert barriers(after) == 299


def test_expected_form() -> None:
    before = kernel("for k in range(4):\n    s[tx] = A[bx, tx] + k\n    B[bx, tx] = B[bx, tx] + s[31 - tx]")
    expected = kernel(
        "for k in range(4):\n    T.tvm_storage_sync('shared')\n    s[tx] = A[bx, tx] + k\n"
        "    T.tvm_storage_sync('shared')\n    B[bx, tx] = B[bx, tx] + s[31 - tx]"
    )
    same_function(ThreadSync("shared")(before), expected)


_PLACES = ("tx", "31 - tx", "(tx + 1) % 32", "tx + 32", "tx // 4 * 4 + 3 - tx % 4", "63 - tx", "tx % 8 * 4 + tx // 8")


def _random_body(rng: np.random.Generator, depth: int) -> list[str]:
    """Statements whose stores each give every thread an element of its own."""
    lines: list[str] = []
    for _ in range(int(rng.integers(2, 5))):
        kind = rng.integers(0, 8)
        name = rng.choice(["s", "r"])
        place = rng.choice(_PLACES)
        if kind < 3:
            lines.append(f"{name}[{place}] = l[0] + {rng.integers(0, 9)}")
        elif kind < 6:
            lines.append(f"l[0] = l[0] + {name}[{place}]")
        elif kind == 6 and depth < 2:
            low, extent = rng.integers(0, 2), rng.integers(1, 4)
            lines.append(f"for i{depth} in range({low}, {low + extent}):")
            lines += ["    " + line for line in _random_body(rng, depth + 1)]
        else:
            lines.append("if tx < 16:")
            lines.append(f"    {name}[{place}] = l[0]" if kind == 7 else f"    l[0] = l[0] + {name}[{place}]")
    return lines


@pytest.mark.parametrize("seed", range(25))
def test_random_kernels_have_no_race_and_no_idle_barrier(seed: int) -> None:
    rng = np.random.default_rng(seed)
    start = ["for z in range(2):", "    s[z * 32 + tx] = 0", "    r[z * 32 + tx] = 0"]
    before = kernel("\n".join([*start, *_random_body(rng, 0), "B[bx, tx] = l[0]"]))
    after = check(ThreadSync("shared"), before, inputs=[])
    args = [np.zeros((2, 32), np.int32), np.zeros((2, 32), np.int32), 2]
    interpret(after, *args, races=True)
    alike(before, after, seeds=(seed, seed + 100))
    lines = after.script().splitlines()
    for at, line in enumerate(lines):
        if "tvm_storage_sync" in line:
            with pytest.raises(InterpreterError, match="race"):
                interpret(parse("\n".join(lines[:at] + lines[at + 1 :])), *args, races=True)


FULL = "T.ptx_syncwarp(T.uint32(0xFFFFFFFF))"
OWN = "B[tx] = s[tx // 32 * 32 + 31 - tx % 32]"
WARPS = {
    "within a warp": (f"s[tx] = A[tx]\n{FULL}\n{OWN}", 0),
    "none is there": (f"s[tx] = A[tx]\n{OWN}", 1),
    "between warps": (f"s[tx] = A[tx]\n{FULL}\nB[tx] = s[63 - tx]", 1),
    "both, then a third read": (f"s[tx] = A[tx]\n{FULL}\n{OWN}\nB[tx] = B[tx] + s[63 - tx]", 1),
    "around a loop": (f"for i in range(3):\n    s[tx] = A[tx] + i\n    {FULL}\n    {OWN}\n    {FULL}", 0),
    "around a loop, but for the way back": (f"for i in range(3):\n    s[tx] = A[tx] + i\n    {FULL}\n    {OWN}", 1),
    "before a loop": (f"s[tx] = A[tx]\n{FULL}\nfor i in range(3):\n    B[tx] = s[tx // 32 * 32 + 31 - tx % 32] + i", 0),
    "for one warp only": (f"s[tx] = A[tx]\nif tx < 32:\n    {FULL}\n    B[tx] = s[31 - tx]", 0),
    "that others do not pass": (f"s[tx] = A[tx]\nif tx < 32:\n    {FULL}\n{OWN}", 1),
    "of some lanes": (f"s[tx] = A[tx]\nif tx % 32 < 16:\n    T.ptx_syncwarp(T.uint32(0xFFFF))\n{OWN}", 1),
}


@pytest.mark.parametrize("name", WARPS)
def test_barriers_of_warps_order_what_only_a_warp_shares(name: str) -> None:
    body, most = WARPS[name]
    text = """
@T.prim_func
def f(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        s = T.alloc_buffer((64,), "int32", scope="shared")
""" + "".join(f"        {line}\n" for line in body.splitlines())
    after = ThreadSync("shared")(parse(text))
    assert after.script().count('tvm_storage_sync("shared")') == most
    a = np.random.default_rng(0).integers(0, 100, 64).astype(np.int32)
    results = []
    for how in ({}, {"races": True}, {"seed": 1}, {"seed": 2}):
        b = np.zeros_like(a)
        interpret(after, a, b, **how)
        results.append(b)
    assert all((b == results[0]).all() for b in results)


HANDED_ON = """
@T.prim_func
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            A[bx * 32 + tx] = A[bx * 32 + tx] + T.float32(1)
            B[bx * 32 + tx] = A[bx * 32 + 31 - tx]
"""


def test_global_memory_among_the_threads_of_a_block_when_asked():
    func = parse(HANDED_ON)
    assert ThreadSync("shared")(func) is func
    after = ThreadSync("shared", with_global=True)(func)
    lines = [line.strip() for line in after.script().splitlines()]
    at = lines.index('T.tvm_storage_sync("shared")')
    assert lines[at - 1].startswith("A[") and lines[at + 1].startswith("B[")
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    tl.simulate(after, a, b, races=True)
    np.testing.assert_array_equal(b.reshape(2, 32), (np.arange(64).reshape(2, 32) + 1)[:, ::-1])
    # A thread that reads what it wrote itself needs none; indices that are loaded are somebody's own affair.
    own = parse(HANDED_ON.replace("31 - tx", "tx"))
    assert ThreadSync("shared", with_global=True)(own) is own
