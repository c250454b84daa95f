from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tests.checking import check, random_arguments
from tirlower.interp import interpret
from tirlower.ir import AllocBuffer, PrimFunc, pre_order_visit
from tirlower.script import parse
from tirlower.transforms import MergeSharedMemoryAllocations, PassContext, ThreadSync

PASS = MergeSharedMemoryAllocations()


def kernel(body: str, params: str = "") -> PrimFunc:
    text = f"""
@T.prim_func
def kernel(A: T.Buffer((2, 32), "float32"), B: T.Buffer((2, 32), "float32"){params}):
    for bx in T.thread_binding(2, thread="blockIdx.x"):
        for tx in T.thread_binding(32, thread="threadIdx.x"):
"""
    return parse(text + "".join(f"            {line}\n" for line in body.strip("\n").splitlines()))


def shared(func: PrimFunc) -> list[Any]:
    found: list[Any] = []

    def look(op: Any) -> None:
        if isinstance(op, AllocBuffer) and op.buffer.scope.startswith("shared"):
            found.append(op.buffer)

    pre_order_visit(func.body, look)
    return found


def size(func: PrimFunc) -> int:
    (only,) = shared(func)
    return int(only.shape[0].value)


def checked(func: PrimFunc, races: bool = True, n: int = 5, **options: Any) -> PrimFunc:
    """The pass behind ThreadSync: the same in any order, and without races."""
    before = ThreadSync("shared")(ThreadSync("shared.dyn")(func))
    after = check(PASS, before, inputs=[])
    rng = np.random.default_rng(0)
    args = [n if np.isscalar(arg) else arg for arg in random_arguments(before, rng)]
    want = [np.copy(arg) for arg in args]
    interpret(before, *want)
    for seed in (None, 0, 1, 2):
        got = [np.copy(arg) for arg in args]
        interpret(after, *got, seed=seed, races=races and seed is None)
        for x, y in zip(want, got, strict=True):
            np.testing.assert_array_equal(x, y)
    return after


def test_memory_whose_size_the_kernel_computes_stays_by_itself() -> None:
    for extent in ("k + 30", "T.Cast('int32', A[0, 0]) + 60"):
        before = kernel(f"""
for k in range(1, 3):
    a = T.alloc_buffer(({extent},), "float32", scope="shared.dyn")
    b = T.alloc_buffer((32,), "float32", scope="shared.dyn")
    a[tx] = A[bx, tx]
    b[tx] = A[bx, 31 - tx]
    B[bx, tx] = a[31 - tx] + b[tx]
""")
        after = check(PASS, before, inputs=[])
        assert sorted(str(buffer.shape[0]) for buffer in shared(after)) == ["32", str(shared(before)[0].shape[0])]


def test_parts_in_use_together_lie_apart() -> None:
    after = checked(
        kernel("""
a = T.alloc_buffer((32,), "float32", scope="shared.dyn")
b = T.alloc_buffer((32,), "float32", scope="shared.dyn")
a[tx] = A[bx, tx]
b[tx] = A[bx, tx] * T.float32(2)
B[bx, tx] = a[31 - tx] + b[31 - tx]
""")
    )
    assert size(after) == 256


def test_a_part_is_used_again_behind_a_barrier() -> None:
    after = checked(
        kernel("""
a = T.alloc_buffer((32,), "float32", scope="shared.dyn")
b = T.alloc_buffer((32,), "float32", scope="shared.dyn")
l = T.alloc_buffer((1,), "float32", scope="local")
a[tx] = A[bx, tx]
l[0] = a[31 - tx]
b[tx] = l[0]
B[bx, tx] = b[(tx + 1) % 32]
""")
    )
    assert size(after) == 128
    assert after.script().count("tvm_storage_sync") == 3  # one of them for the reuse


def test_no_barrier_where_one_stands_already() -> None:
    after = checked(
        kernel("""
a = T.alloc_buffer((32,), "float32", scope="shared.dyn")
b = T.alloc_buffer((32,), "float32", scope="shared.dyn")
c = T.alloc_buffer((32,), "float32", scope="shared.dyn")
a[tx] = A[bx, tx]
b[tx] = a[31 - tx]
c[tx] = b[31 - tx]
B[bx, tx] = c[31 - tx]
""")
    )
    assert size(after) == 256
    assert after.script().count("tvm_storage_sync") == 3


def test_reuse_in_a_loop() -> None:
    after = checked(
        kernel("""
for k in range(3):
    a = T.alloc_buffer((32,), "float32", scope="shared.dyn")
    b = T.alloc_buffer((32,), "float32", scope="shared.dyn")
    c = T.alloc_buffer((32,), "float32", scope="shared.dyn")
    a[tx] = A[bx, tx]
    b[tx] = a[31 - tx]
    c[tx] = b[31 - tx]
    B[bx, tx] = B[bx, tx] + c[31 - tx]
""")
    )
    assert size(after) == 256


def test_a_value_carried_by_a_loop_stays() -> None:
    after = checked(
        kernel("""
a = T.alloc_buffer((32,), "float32", scope="shared.dyn")
b = T.alloc_buffer((32,), "float32", scope="shared.dyn")
a[tx] = A[bx, tx]
for k in range(3):
    b[tx] = a[31 - tx]
    a[tx] = b[tx]
B[bx, tx] = a[tx]
""")
    )
    assert size(after) == 256


def test_branches_of_different_threads_do_not_share() -> None:
    after = checked(
        kernel("""
a = T.alloc_buffer((32,), "float32", scope="shared.dyn")
b = T.alloc_buffer((32,), "float32", scope="shared.dyn")
if tx < 16:
    a[tx] = A[bx, tx]
    B[bx, tx] = a[tx]
else:
    b[tx - 16] = A[bx, tx]
    B[bx, tx] = b[tx - 16]
""")
    )
    assert size(after) == 256


@pytest.mark.parametrize(("index", "bytes_"), [("15 - tx", 256), ("tx", 128)])
def test_no_reuse_where_a_barrier_cannot_stand(index: str, bytes_: int) -> None:
    after = checked(
        kernel(f"""
if tx < 16:
    a = T.alloc_buffer((32,), "float32", scope="shared.dyn")
    b = T.alloc_buffer((32,), "float32", scope="shared.dyn")
    a[tx] = A[bx, tx]
    B[bx, tx] = a[tx]
    b[{index}] = A[bx, tx]
    B[bx, tx] = b[{index}] + B[bx, tx]
""")
    )
    # Where each thread has its own elements of both, no barrier is needed.
    assert size(after) == bytes_


@pytest.mark.parametrize("types", [("int8", "float64"), ("float16", "float32"), ("bool", "int64")])
def test_types_and_alignment(types: tuple[str, str]) -> None:
    one, other = types
    after = checked(
        kernel(f"""
a = T.alloc_buffer((33,), "{one}", scope="shared.dyn")
b = T.alloc_buffer((32,), "{other}", scope="shared.dyn")
c = T.alloc_buffer((7,), "{one}", scope="shared.dyn")
a[tx] = T.Cast("{one}", tx % 2)
b[tx] = T.Cast("{other}", tx)
if tx < 7:
    c[tx] = T.Cast("{one}", 1)
B[bx, tx] = T.Cast("float32", a[31 - tx]) + T.Cast("float32", b[31 - tx]) + T.Cast("float32", c[tx % 7])
""")
    )
    text = after.script()
    for shift in re.findall(r"\[.*\+ (\d+)\]", text):
        assert int(shift) >= 0
    assert size(after) >= 32 * np.dtype(other).itemsize + 40


def test_static_memory_by_configuration() -> None:
    func = kernel("""
a = T.alloc_buffer((32,), "float32", scope="shared")
b = T.alloc_buffer((32,), "float32", scope="shared")
a[tx] = A[bx, tx]
b[tx] = a[31 - tx]
B[bx, tx] = b[tx]
""")
    assert PASS(func) is func
    with PassContext(config={"tir.merge_static_smem": True}):
        after = checked(func)
    assert size(after) == 256
    assert "buf_shmem" in after.script()


def test_one_allocation_stays() -> None:
    func = kernel("a = T.alloc_buffer((32,), 'float32', scope='shared.dyn')\na[tx] = A[bx, tx]\nB[bx, tx] = a[tx]")
    assert PASS(func) is func


def test_symbolic_sizes() -> None:
    after = checked(
        kernel(
            """
a = T.alloc_buffer((n + 32,), "int8", scope="shared.dyn")
b = T.alloc_buffer((32,), "float32", scope="shared.dyn")
c = T.alloc_buffer((n + 32,), "float32", scope="shared.dyn")
a[tx + n] = T.Cast("int8", tx)
b[tx] = A[bx, tx]
c[tx + n] = A[bx, tx] * T.float32(3)
B[bx, tx] = T.Cast("float32", a[31 - tx + n]) + b[31 - tx] + c[31 - tx + n]
""",
            ", n: T.int32",
        )
    )
    assert len(shared(after)) == 1


def test_two_dimensional_buffers_views_and_vectors() -> None:
    after = checked(
        kernel("""
a = T.alloc_buffer((8, 4), "float32", scope="shared.dyn")
b = T.alloc_buffer((32,), "float32", scope="shared.dyn")
v = T.decl_buffer((4, 8), "float32", data=b.data, scope="shared.dyn")
a[tx // 4, tx % 4] = A[bx, tx]
v[tx // 8, tx % 8] = A[bx, tx] * T.float32(2)
if tx < 8:
    B[bx, tx * 4 : tx * 4 + 4] = b[tx * 4 : tx * 4 + 4]
    for i in range(4):
        B[bx, tx * 4 + i] = B[bx, tx * 4 + i] + a[tx, i]
""")
    )
    assert size(after) == 256


def test_pointers() -> None:
    func = kernel("""
a = T.alloc_buffer((32,), "int32", scope="shared.dyn")
b = T.alloc_buffer((32,), "int32", scope="shared.dyn")
a[tx] = 1
b[tx] = 0
T.evaluate(T.atomic_add(T.address_of(b[0]), a[tx]))
T.evaluate(T.atomic_add(T.tvm_access_ptr(T.type_annotation("int32"), b.data, 1, 1, 3), 2))
B[bx, tx] = T.Cast("float32", b[0] + b[1])
""")
    after = checked(func, races=False)
    assert size(after) == 256


def test_each_kernel_has_its_own() -> None:
    func = parse("""
@T.prim_func
def two(A: T.Buffer((8,), "float32")):
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        a = T.alloc_buffer((8,), "float32", scope="shared.dyn")
        b = T.alloc_buffer((8,), "float32", scope="shared.dyn")
        a[tx] = A[tx]
        b[tx] = a[tx]
        A[tx] = b[7 - tx]
    for ty in T.thread_binding(4, thread="threadIdx.y"):
        c = T.alloc_buffer((8,), "float32", scope="shared.dyn")
        d = T.alloc_buffer((8,), "float32", scope="shared.dyn")
        c[ty] = A[ty]
        d[ty] = A[ty + 4]
        A[ty] = c[3 - ty] + d[3 - ty]
""")
    after = checked(func)
    assert [int(buffer.shape[0].value) for buffer in shared(after)] == [64, 64]


def test_offsets_of_copies_count_bytes() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((128,), "float32"), B: T.Buffer((128,), "float32"), C: T.Buffer((128,), "float32")):
    for tx in T.thread_binding(128, thread="threadIdx.x"):
        x = T.alloc_buffer((128,), "float32", scope="shared.dyn")
        y = T.alloc_buffer((128,), "float32", scope="shared.dyn")
        T.ptx_cp_async("float32", x.data, tx, A.data, tx, 4)
        T.ptx_cp_async("float32", y.data, tx, B.data, tx, 4)
        T.ptx_commit_group()
        T.ptx_wait_group(0)
        C[tx] = x[tx] + y[tx]
""")
    after = MergeSharedMemoryAllocations()(func)
    text = after.script()
    assert "buf_dyn_shmem.data, tx * 4, A.data" in text and "buf_dyn_shmem.data, (128 + tx) * 4, B.data" in text
    a, b = np.random.default_rng(0).random((2, 128), np.float32)
    c = np.zeros(128, np.float32)
    interpret(after, a, b, c)
    np.testing.assert_array_equal(c, a + b)


# -- copies in flight ------------------------------------------------------------------------------------------------

COPY = "T.ptx_cp_async('float32', x.data, tx, A.data, bx * 32 + tx, 4)\nT.ptx_commit_group()"
AFTER = (
    "T.tvm_storage_sync('shared.dyn')\ny[31 - tx] = A[bx, 31 - tx]\nT.tvm_storage_sync('shared.dyn')\nB[bx, tx] = y[tx]"
)

# Kernels with 128 bytes in x, which a copy writes, and 128 in y: what lies between, and whether they may share.
IN_FLIGHT = {
    "never waited for": (f"{COPY}\n{AFTER}", False),
    "waited for behind": (f"{COPY}\n{AFTER}\nT.ptx_wait_group(0)", False),
    "waited for, untouched": (f"{COPY}\nT.ptx_wait_group(0)\n{AFTER}", False),
    "waited for and read": (f"{COPY}\nT.ptx_wait_group(0)\nB[bx, tx] = x[tx]\n{AFTER}", True),
    "others are waited for": (f"{COPY}\nT.ptx_wait_group(1)\nB[bx, tx] = x[tx]\n{AFTER}", False),
    "waited for under a condition": (f"{COPY}\nif n > 3:\n    T.ptx_wait_group(0)\nB[bx, tx] = x[tx]\n{AFTER}", False),
    "waited for in a loop": (f"{COPY}\nfor i in range(n):\n    T.ptx_wait_group(0)\nB[bx, tx] = x[tx]\n{AFTER}", False),
    "read before the wait": (f"x[tx] = A[bx, tx]\nB[bx, tx] = x[tx]\n{COPY}\nT.ptx_wait_group(0)\n{AFTER}", False),
    "one more in flight": (f"{COPY}\nT.ptx_wait_group(0)\nB[bx, tx] = x[tx]\n{COPY}\n{AFTER}", False),
    "a loop that waits": (
        "for i in range(n):\n    "
        + COPY.replace("\n", "\n    ")
        + f"\n    T.ptx_wait_group(0)\n    B[bx, tx] = x[tx]\n{AFTER}",
        True,
    ),
    "a loop that is one ahead": (
        f"{COPY}\nfor i in range(n):\n    T.ptx_wait_group(0)\n    B[bx, tx] = x[tx]\n    "
        + COPY.replace("\n", "\n    ")
        + f"\n{AFTER}",
        False,
    ),
    "a loop that is one ahead, and its end": (
        f"{COPY}\nfor i in range(n):\n    T.ptx_wait_group(0)\n    B[bx, tx] = x[tx]\n    "
        + COPY.replace("\n", "\n    ")
        + f"\nT.ptx_wait_group(0)\nB[bx, tx] = x[tx]\n{AFTER}",
        True,
    ),
    "a bulk copy of another barrier": (
        "T.ptx_cp_async_bulk('float32', x.data, 0, A.data, 0, 128, 0)\nT.ptx_wait_barrier(1)\n"
        f"B[bx, tx] = x[tx]\n{AFTER}",
        False,
    ),
    "a bulk copy of this barrier": (
        "T.ptx_cp_async_bulk('float32', x.data, 0, A.data, 0, 128, 0)\nT.ptx_wait_barrier(0)\n"
        f"B[bx, tx] = x[tx]\n{AFTER}",
        True,
    ),
}


@pytest.mark.parametrize("name", IN_FLIGHT)
def test_a_copy_in_flight_keeps_its_memory(name: str) -> None:
    text, shares = IN_FLIGHT[name]
    buffers = [f"{one} = T.alloc_buffer((32,), 'float32', scope='shared.dyn')" for one in "xy"]
    func = kernel("\n".join([*buffers, text]), ", n: T.int32")
    after = PASS(func)
    assert size(after) == (128 if shares else 256), after.script()
    if "bulk" in name or name == "others are waited for":  # no barrier object here; it reads what has not come
        return
    a = np.random.default_rng(0).random((2, 32), np.float32)
    for seed in (None, 0, 1, 2):
        b = np.zeros_like(a)
        interpret(after, a, b, 5, seed=seed, races=seed is None)
        np.testing.assert_array_equal(b, a)


def test_allocations_in_front_of_a_kernel_are_its_own() -> None:
    before = parse("""
@T.prim_func
def kernel(A: T.Buffer((2, 32), "float32"), B: T.Buffer((2, 32), "float32")):
    a = T.alloc_buffer((32,), "float32", scope="shared.dyn")
    b = T.alloc_buffer((32,), "float16", scope="shared.dyn")
    both = T.alloc_buffer((32,), "float32", scope="shared.dyn")
    with T.attr(0, "pragma_note", 1):
        for bx in T.thread_binding(2, thread="blockIdx.x"):
            for tx in T.thread_binding(32, thread="threadIdx.x"):
                a[tx] = A[bx, tx]
                b[tx] = T.Cast("float16", a[31 - tx])
                B[bx, tx] = T.Cast("float32", b[tx])
                both[tx] = A[bx, tx]
    for tx in T.thread_binding(32, thread="threadIdx.x"):
        both[tx] = T.float32(1)
""")
    after = checked(before, races=False)  # blocks in turn share what is allocated in front of them
    found = shared(after)
    # What two kernels use stays where it is.
    assert [buffer.name for buffer in found] == ["both", "buf_dyn_shmem"] and found[1].shape[0].value == 192
    one = parse(before.script().replace('scope="shared.dyn"', 'scope="shared"'))
    assert PASS(one) is one


@pytest.mark.parametrize(
    ("sizes", "index", "barriers"),
    [
        # Each thread has its own bytes of both.
        ((32, 32, "float32"), "tx", 0), ((32, 32, "int32"), "tx", 0), ((64, 64, "float32"), "tx + 32", 0),
        # Other threads have them: another element, another size of elements, another place.
        ((32, 32, "float32"), "31 - tx", 1), ((32, 64, "float16"), "tx", 1), ((64, 32, "float64"), "tx", 1),
        ((33, 33, "float32"), "tx + 1", 1),
    ],
)  # fmt: skip
def test_a_barrier_between_uses_of_one_place_by_other_threads(sizes: tuple[int, int, str], index: str, barriers: int) -> None:  # fmt: skip
    first, second, kind = sizes
    after = checked(
        kernel(f"""
a = T.alloc_buffer(({first},), "float32", scope="shared.dyn")
b = T.alloc_buffer(({second},), "{kind}", scope="shared.dyn")
a[{"tx" if index != "tx + 32" else index}] = A[bx, tx]
A[bx, tx] = a[{"tx" if index != "tx + 32" else index}] + T.float32(1)
b[{index}] = T.Cast("{kind}", B[bx, tx])
B[bx, tx] = T.Cast("float32", b[{index}]) * T.float32(2)
""")
    )
    assert after.script().count("tvm_storage_sync") == barriers


def test_views_of_another_type_leave_nothing_to_be_told_by_elements() -> None:
    """Where a buffer is seen through views, its accesses are compared by address, which numbers no elements of another."""
    after = checked(
        kernel("""
a = T.alloc_buffer((64,), "float32", scope="shared.dyn")
v = T.decl_buffer((128,), "float16", data=a.data)
b = T.alloc_buffer((64,), "float32", scope="shared.dyn")
v[tx] = T.Cast("float16", A[bx, tx])
A[bx, tx] = T.Cast("float32", v[tx])
T.tvm_storage_sync("shared.dyn")
a[tx + 32] = A[bx, tx]
A[bx, tx] = a[tx + 32] + T.float32(1)
b[63 - tx] = B[bx, tx]
B[bx, tx] = b[63 - tx] * T.float32(2)
""")
    )
    assert after.script().count("tvm_storage_sync") == 2
