from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.checking import check
from tirlower.diagnostics import TransformError
from tirlower.interp import register_extern
from tirlower.interp.memory import Pointer
from tirlower.ir import AllocBuffer, PrimFunc
from tirlower.ir.query import statements
from tirlower.rewrite.storage.tagged import MemoryInfo, is_special, memory_info, register_memory_info
from tirlower.script import parse
from tirlower.transforms import PassContext, StorageRewrite


@pytest.fixture(autouse=True)
def filled() -> Iterator[None]:
    def fill(pointer: Pointer, count: int, value: float) -> int:
        pointer.array("float16", count)[:] = value
        return 0

    register_extern("test_fill16", fill)
    yield
    register_extern("test_fill16", None)
    register_memory_info("local.one", None)


def program(body: str, second: str = '"float16"') -> PrimFunc:
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
    x = T.alloc_buffer((10,), "float32", scope="local.one")
    y = T.alloc_buffer((10,), {second}, scope="local.one")
    z = T.alloc_buffer((10,), "float32", scope="local.other")
    for i in range(10):
        x[i] = A[i]
        y[i] = T.Cast({second}, A[9 - i])
        z[i] = A[i] + T.float32(1)
{body}
    for i in range(10):
        B[i] = x[i] * T.float32(100) + T.Cast("float32", y[i]) + z[9 - i]
""")
    assert isinstance(func, PrimFunc)
    return func


def allocated(func: PrimFunc) -> dict[str, int]:
    found = [op.buffer for op in statements(func.body) if isinstance(op, AllocBuffer)]
    return {buffer.name: buffer.shape[0].value for buffer in found}


def test_allocations_of_a_tagged_memory_are_one() -> None:
    # 40 bytes, then 20: two of float32 more than a half.
    after = check(StorageRewrite(), program(""))
    assert allocated(after) == {"x": 15, "z": 10} and "elem_offset=20" in after.script()
    # Elements of 8 bytes begin at multiples of 8.
    after = check(StorageRewrite(), program("", '"float64"'))
    assert allocated(after) == {"x": 30, "z": 10} and "elem_offset=5" in after.script()
    with PassContext(validate=True):
        StorageRewrite()(program(""))


def test_parts_begin_at_units_of_the_memory() -> None:
    register_memory_info("local.one", MemoryInfo(unit_bits=256))
    # 40 bytes become 64.
    after = check(StorageRewrite(), program(""))
    assert allocated(after)["x"] == 24 and "elem_offset=32" in after.script()


def test_pointers_into_parts() -> None:
    after = check(StorageRewrite(), program("""
    T.evaluate(T.call_extern("int32", "test_fill16", y.access_ptr("w", offset=2), 3, T.float32(7)))
    T.evaluate(T.call_extern("int32", "test_fill16", T.address_of(y[8]), 1, T.float32(5)))
    T.evaluate(T.call_extern("int32", "test_fill16", y.data, 1, T.float32(3)))
"""))  # fmt: skip
    text = after.script()
    assert "x.data, 22, 8, 2" in text and "y.data" not in text


def test_what_ends_makes_room_first() -> None:
    """Buffers whose uses do not overlap share their bytes as everywhere; then what is left is put into one."""
    func = parse("""
@T.prim_func
def f(A: T.Buffer((10,), "float32"), B: T.Buffer((10,), "float32")):
    x = T.alloc_buffer((10,), "float32", scope="local.one")
    y = T.alloc_buffer((10,), "float32", scope="local.one")
    z = T.alloc_buffer((10,), "float32", scope="local.one")
    for i in range(10):
        x[i] = A[9 - i]
    for i in range(10):
        y[i] = x[9 - i] + A[i]
    for i in range(10):
        z[i] = y[9 - i]
    for i in range(10):
        B[i] = z[9 - i] + y[i]
""")
    assert allocated(check(StorageRewrite(), func)) == {"x": 20}


def test_a_memory_that_is_too_small() -> None:
    register_memory_info("local.one", MemoryInfo(unit_bits=8, max_bits=480))
    assert allocated(StorageRewrite()(program("")))["x"] == 15
    register_memory_info("local.one", MemoryInfo(unit_bits=8, max_bits=479))
    with pytest.raises(TransformError, match=r"the buffers 'x', 'y' take 480 bits, the memory 'local.one' has 479"):
        StorageRewrite()(program(""))


def test_which_memories_are_special() -> None:
    for scope in ("local.l0a", "shared.mine", "global.other"):
        assert is_special(scope) and memory_info(scope) is None
    for scope in ("global", "shared.dyn", "global.vtcm", "wmma.matrix_a", "global.workspace"):
        assert not is_special(scope)
    with pytest.raises(TransformError, match="ordinary memory"):
        register_memory_info("shared", MemoryInfo(8))
