from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from tests.checking import check, executes_alike, roundtrips
from tests.transforms.threads.device_programs import PROGRAMS
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.interp.intrinsics_extern import register_extern
from tirlower.interp.memory import Memory, Pointer
from tirlower.ir import Bind, Call, Evaluate, IntImm, Op, PrimFunc, StringImm, build
from tirlower.ir.verify import verify_well_formed
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import LowerDeviceStorageAccessInfo, MemoryInfo, register_memory_info


def head() -> Call:
    """The address of the special memory, which the interpreter is told below."""
    return Call(Op.get("tir.call_extern"), (StringImm("test_scratch"),), "handle")


@pytest.fixture
def scratch() -> Iterator[None]:
    """A special memory with an address, and one without."""
    register_memory_info("local.scratch", MemoryInfo(unit_bits=128, max_bits=1024, head_address=head))
    register_memory_info("local.tensor", MemoryInfo(unit_bits=128))
    register_extern("test_scratch", lambda: Pointer(Memory.allocate(128, "scratch")))
    register_extern("test_fill", fill)
    yield
    register_memory_info("local.scratch", None)
    register_memory_info("local.tensor", None)
    register_extern("test_scratch", None)
    register_extern("test_fill", None)


def fill(pointer: Pointer, count: int, value: float) -> int:
    pointer.array("float32", count)[:] = value
    return 0


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_ordinary_memory_stays(name: str) -> None:
    check(LowerDeviceStorageAccessInfo(), PROGRAMS[name], PROGRAMS[name])


def test_access_pointers_become_addresses(scratch: None) -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), n: T.int32):
        T.evaluate(T.call_extern("int32", "test_fill", A.access_ptr("w", offset=4), 3, T.float32(2)))
        for i in range(T.min(n, 3)):
            T.evaluate(T.call_extern("int32", "test_fill", A.access_ptr("rw", offset=i * 4), 2, T.float32(7)))

    after = check(LowerDeviceStorageAccessInfo(), before)
    assert "tvm_access_ptr" not in after.script() and after.script().count("address_of") == 2


def test_vectors_and_views_and_offsets_that_are_access_pointers(scratch: None) -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32x4"), B: T.Buffer((32,), "float32")):
        flat = T.decl_buffer((32,), "float32", data=B.data)
        T.evaluate(T.call_extern("int32", "test_fill", A.access_ptr("w", offset=2), 4, T.float32(1)))
        T.evaluate(T.call_extern("int32", "test_fill", flat.access_ptr("w", offset=8), 4, T.float32(3)))

    after = LowerDeviceStorageAccessInfo()(before)
    verify_well_formed(after)
    roundtrips(after)
    executes_alike(before, after)


def test_an_allocation_becomes_its_address(scratch: None) -> None:
    @T.prim_func
    def before(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        t = T.alloc_buffer((8,), "float32", scope="local.scratch")
        for i in range(8):
            t[i] = A[i] * T.float32(2)
        T.evaluate(T.call_extern("int32", "test_fill", t.access_ptr("w", offset=4), 2, T.float32(5)))
        for i in range(8):
            B[i] = t[7 - i]

    after = check(LowerDeviceStorageAccessInfo(), before)
    assert isinstance(after.body.stmts[0], Bind) and "alloc_buffer" not in after.script()
    a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    interpret(after, a, b)
    assert b.tolist() == [14, 12, 5, 5, 6, 4, 2, 0]


def numbered(scope: str, kind: str, offset: int, dtype: str = "int32") -> PrimFunc:
    """A function that returns an access pointer of an integer type into a special memory."""
    func = parse(f"""
@T.prim_func
def f(A: T.Buffer((1,), "int32")) -> T.int32:
    t = T.alloc_buffer((64,), "{kind}", scope="{scope}")
    A[0] = 1
""")
    alloc, store = func.body.stmts
    mark = build.call("tir.type_annotation", dtype=kind)
    number = Call(Op.get("tir.tvm_access_ptr"), (mark, alloc.buffer.data, IntImm("int32", offset), IntImm("int32", 4), IntImm("int32", 1)), dtype)  # fmt: skip
    returned = Evaluate(build.call("tir.ret", build.cast("int32", number)))
    return func.with_body(func.body.with_(stmts=(alloc, store, returned)))


def test_numbers_count_the_units_of_the_memory(scratch: None) -> None:
    for kind, offset, expected in (("float32", 24, 6), ("int8", 48, 3), ("float16", 7, 0), ("float32x4", 5, 5)):
        after = LowerDeviceStorageAccessInfo()(numbered("local.tensor", kind, offset))
        verify_well_formed(after)
        array = np.zeros(1, np.int32)
        assert interpret(after, array) == expected and array[0] == 1
        assert "alloc_buffer" not in after.script()


def test_memory_without_an_address(scratch: None) -> None:
    @T.prim_func
    def stored():
        t = T.alloc_buffer((8,), "float32", scope="local.tensor")
        t[0] = T.float32(1)

    @T.prim_func
    def pointed():
        t = T.alloc_buffer((8,), "float32", scope="local.tensor")
        T.evaluate(T.call_extern("int32", "test_fill", t.access_ptr("w"), 1, T.float32(1)))

    for func in (stored, pointed):
        with pytest.raises(TransformError, match="'t' is not addressable"):
            LowerDeviceStorageAccessInfo()(func)


def test_memory_of_which_nothing_is_known(scratch: None) -> None:
    with pytest.raises(TransformError, match=r"in the memory 'global\.unknown', of which nothing is known") as error:
        LowerDeviceStorageAccessInfo()(numbered("global.unknown", "float32", 0))
    assert "register_memory_info" in str(error.value.help)


def test_sizes_are_not_judged(scratch: None) -> None:
    # 2,048 bits in a memory of 1,024.
    after = LowerDeviceStorageAccessInfo()(numbered("local.scratch", "float32", 8))
    assert interpret(after, np.zeros(1, np.int32)) == 2


def test_numbers_into_ordinary_memory_and_units_that_do_not_divide(scratch: None) -> None:
    with pytest.raises(TransformError, match="counts in no units"):
        LowerDeviceStorageAccessInfo()(numbered("local", "float32", 0))
    with pytest.raises(TransformError, match="counts in 128 bits"):
        LowerDeviceStorageAccessInfo()(numbered("local.tensor", "float32x3", 0))


def test_what_may_be_registered() -> None:
    for scope in ("global", "shared.dyn", "global.vtcm", "wmma.accumulator"):
        with pytest.raises(TransformError, match="ordinary memory"):
            register_memory_info(scope, MemoryInfo(32))
    assert register_memory_info("shared.mine", MemoryInfo(32)) is None
    assert register_memory_info("shared.mine", None) == MemoryInfo(32)
