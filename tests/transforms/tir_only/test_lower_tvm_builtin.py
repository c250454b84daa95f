from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check, same_function
from tirlower.diagnostics import RuntimeAssertError, TransformError
from tirlower.interp import interpret, register_extern
from tirlower.interp.memory import Pointer
from tirlower.interp.structs import Struct
from tirlower.ir import AllocBuffer, AttrStmt, PrimFunc, const, pre_order_visit
from tirlower.ir.struct_field import StructField
from tirlower.llvm.codegen.symbols import unregister_symbol
from tirlower.machine.target import Target
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import LowerTVMBuiltin, LowerVtcmAlloc, MakePackedAPI

seen: list[Any] = []


def plain(value: Any) -> Any:
    """A value without identities: what a descriptor says, where a pointer stands."""
    if isinstance(value, Struct):
        rank = value.get(0, StructField.NDIM)
        shape, strides = value.get(0, StructField.SHAPE), value.get(0, StructField.STRIDES)
        numbers = [tuple(p.array("int64", rank).tolist()) if p is not None else None for p in (shape, strides)]
        bits, lanes = value.get(0, StructField.TYPE_BITS), value.get(0, StructField.TYPE_LANES)
        data = value.get(0, StructField.DATA)
        return (
            *numbers,
            bits,
            lanes,
            value.get(0, StructField.BYTE_OFFSET),
            data.memory.raw[data.offset :].tolist()[:8],
        )
    return value.offset if isinstance(value, Pointer) else value


def note(*args: Any) -> int:
    seen.append([plain(a) for a in args])
    return len(seen) * 10 + len(args)


@pytest.fixture(autouse=True)
def externs() -> Iterator[None]:
    seen.clear()
    register_extern("note", note)
    yield
    register_extern("note", None)


def function(body: str, params: str = 'A: T.Buffer((8,), "float32"), n: T.int32') -> PrimFunc:
    return parse(f"@T.prim_func\ndef f({params}):\n{body}")


def on_processor(func: PrimFunc) -> PrimFunc:
    """The function in the attributes that MakePackedAPI makes for this host."""
    body = AttrStmt("default", "device_type", const(1), func.body)
    return func.with_body(AttrStmt("default", "device_id", const(0), body))


def lowered(func: PrimFunc, inputs: list[list[Any]] | None = None) -> PrimFunc:
    """The result, checked, on this host unless the function names a device; the functions called get the same
    arguments, in the same order, before and after."""
    if "device_type" not in func.script():
        func = on_processor(func)
    after = check(LowerTVMBuiltin(), func, execute=False)
    for args in inputs or [[np.arange(8, dtype="float32"), 3]]:
        runs = []
        for one in (func, after):
            seen.clear()
            mine = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
            result = interpret(one, *mine)
            runs.append((list(seen), [a.tolist() if isinstance(a, np.ndarray) else a for a in mine], result))
        assert runs[0] == runs[1]
    return after


def workspaces(func: PrimFunc) -> tuple[int, int, int]:
    """Allocations left, workspaces allocated, and releases."""
    left: list[Any] = []
    pre_order_visit(func.body, lambda op: left.append(op) if isinstance(op, AllocBuffer) else None)
    text = func.script()
    return len(left), text.count("BackendAllocWorkspace"), text.count("BackendFreeWorkspace")


# -- calls -------------------------------------------------------------------------------------------------------------


def test_arguments_of_every_kind() -> None:
    after = lowered(
        function("""    T.evaluate(T.tvm_call_packed(
        "note", n, T.int8(-3), T.uint16(9), A[2], T.float64(2.5), T.bool(True), "text", A.data, A))
""")
    )
    text = after.script()
    assert (
        "T.tvm_call_packed(" not in text and 'T.tvm_call_packed_lowered("note", stack_value, stack_tcode, 0, 9)' in text
    )
    assert [f"[{i}] = {code}" in text for i, code in enumerate((0, 0, 0, 2, 2, 0, 11, 3, 7))] == [True] * 9


def test_results_are_used() -> None:
    func = function("""    for i in range(n):
        x: T.int32 = T.tvm_call_packed("note", i)
        A[i] = T.Cast("float32", x + T.tvm_call_packed("note", x, i))
""")
    lowered(func, [[np.zeros(8, "float32"), n] for n in (0, 1, 5)])


def test_several_calls_of_a_statement_have_arguments_of_their_own() -> None:
    after = lowered(
        function("""    A[0] = T.Cast("float32", T.tvm_call_packed("note", 1, n) * 1000 + T.tvm_call_packed("note", 2))
    A[1] = T.Cast("float32", T.tvm_call_packed("note", T.tvm_call_packed("note", 5), 6))
""")
    )
    assert 'T.tvm_stack_alloca("arg_value", 5)' in after.script()


def test_descriptors_of_strided_and_shifted_buffers() -> None:
    func = function("""    V = T.decl_buffer((2, 3), "float32", data=A.data, strides=(4, 1), elem_offset=1)
    W = T.decl_buffer((2,), "float32x2", data=A.data)
    T.evaluate(T.tvm_call_packed("note", V, W))
    T.evaluate(T.tvm_call_cpacked("note", A, A))
""")
    after = lowered(func)
    # Two descriptors at a time, of three shapes of 2 + 2 + 1 integers.
    assert 'T.tvm_stack_alloca("array", 2)' in after.script() and 'T.tvm_stack_alloca("shape", 5)' in after.script()


def test_shapes_alone() -> None:
    func = function("""    s: T.handle("int64") = T.tvm_stack_make_shape(n, 7, n + 1)
    S = T.decl_buffer((3,), "int64", data=s)
    A[0] = T.Cast("float32", S[0] * T.int64(100) + S[1] * T.int64(10) + S[2])
""")
    lowered(func)


def test_each_iteration_of_a_parallel_loop_has_its_stack() -> None:
    func = function("""    T.evaluate(T.tvm_call_packed("note", 7))
    for i in T.parallel(1, n):
        for j in range(2):
            A[i] = A[i] + T.Cast("float32", T.tvm_call_packed("note", i, j))
    T.evaluate(T.tvm_call_packed("note", 8))
""")
    after = lowered(func)
    assert after.script().count('T.tvm_stack_alloca("arg_value"') == 2


def test_while_loops_conditions_asserts_and_bounds() -> None:
    func = function("""    k = T.alloc_buffer((1,), "int32")
    k[0] = 0
    while k[0] < n:
        if T.tvm_call_packed("note", k[0]) > 15:
            A[k[0]] = T.float32(1)
        k[0] = k[0] + 1
    assert T.tvm_call_packed("note", 4) > 0, "never"
    for i in range(T.min(T.tvm_call_packed("note", 5) - 48, 3)):
        A[i] = T.float32(i)
    for i in T.parallel(T.min(T.tvm_call_packed("note", 5), 3)):
        A[i] = A[i] + T.Cast("float32", T.tvm_call_packed("note", 6))
""")
    lowered(func, [[np.zeros(8, "float32"), n] for n in (0, 1, 4)])


def test_a_failing_assert_of_a_call() -> None:
    after = LowerTVMBuiltin()(function('    assert T.tvm_call_packed("note", 4) > 99, "always"\n'))
    with pytest.raises(RuntimeAssertError, match="always"):
        interpret(after, np.zeros(8, "float32"), 0)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('    A[0] = T.if_then_else(n > 0, A[T.tvm_call_packed("note", n)], T.float32(0))', "an arm"),
        (
            '    if n > 0 and T.tvm_call_packed("note", n) > 0:\n        A[0] = T.float32(1)',
            "only where the first one holds",
        ),
        (
            '    if n > 0 or T.tvm_call_packed("note", n) > 0:\n        A[0] = T.float32(1)',
            "only where the first one fails",
        ),
        ('    while T.tvm_call_packed("note", n) < 5:\n        A[0] = T.float32(1)', "again and again"),
    ],
)
def test_arguments_that_cannot_be_stored_ahead(text: str, where: str) -> None:
    with pytest.raises(TransformError, match=where):
        LowerTVMBuiltin()(function(text + "\n"))


def test_arguments_that_an_earlier_call_may_change() -> None:
    func = function("""    A[1] = T.Cast("float32", T.tvm_call_packed("note", A.data) + T.tvm_call_packed("note", A[0]))
""")
    with pytest.raises(TransformError, match="may change what its argument"):
        LowerTVMBuiltin()(func)
    with pytest.raises(TransformError, match="scalars and pointers"):
        LowerTVMBuiltin()(function('    T.evaluate(T.tvm_call_packed("note", A[0:4]))\n'))


# -- workspaces --------------------------------------------------------------------------------------------------------


def test_large_and_unknown_sizes_become_workspaces() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "float32"), n: T.int32):
        small = T.alloc_buffer((255,), "float32")
        large = T.alloc_buffer((256,), "float32")
        unknown = T.alloc_buffer((n, 2), "float16")
        shared = T.alloc_buffer((999,), "float32", scope="shared")
        for i in range(8):
            small[i] = A[i]
            large[255 - i] = small[i]
            shared[i] = large[255 - i]
        for i, j in T.grid(n, 2):
            unknown[i, j] = T.float16(3)
        for i in range(8):
            A[i] = shared[7 - i] + T.Cast("float32", unknown[0, 0])

    after = lowered(func, [[np.arange(8, dtype="float32"), n] for n in (1, 7)])
    assert workspaces(after) == (2, 2, 2)
    assert "T.uint64(1024)" in after.script()


def test_natively() -> None:
    func = function("""    for k in range(2):
        B = T.alloc_buffer((n, 100), "float32")
        for i in range(n):
            for j in range(100):
                B[i, j] = A[i] + T.float32(j)
        for i in T.parallel(n, annotations={"tir.unchecked": "memory of its own"}):
            C = T.alloc_buffer((300,), "int64")
            for j in range(300):
                C[j] = T.int64(j)
            A[i] = B[i, 99] + T.Cast("float32", C[299])
""")
    after = lowered(func)
    assert workspaces(after) == (0, 2, 2)
    for n in (0, 1, 8):
        a = np.arange(8, dtype="float32")
        b = a.copy()
        tl.build(after, schedule="none")(a, n)
        interpret(func, b, n)
        np.testing.assert_array_equal(a, b)


def test_a_workspace_is_aligned_checked_and_released() -> None:
    before = function("""    B = T.alloc_buffer((300,), "float32")
    B[0] = A[0]
    A[1] = B[0]
""")
    expected = function("""    b: T.handle("float32") = T.TVMBackendAllocWorkspace(1, 0, T.uint64(1200), 2, 32)
    with T.attr(b, "storage_alignment", 64):
        if T.isnullptr(b):
            T.tvm_throw_last_error()
        B = T.decl_buffer((300,), "float32", data=b)
        B[0] = A[0]
        A[1] = B[0]
        if T.TVMBackendFreeWorkspace(1, 0, b) != 0:
            T.tvm_throw_last_error()
""")
    same_function(lowered(before), expected)
    for without in (before, AttrStmt("default", "device_id", const(0), before.body)):
        func = without if isinstance(without, PrimFunc) else before.with_body(without)
        with pytest.raises(TransformError, match="without a 'device_type'"):
            LowerTVMBuiltin()(func)


def test_what_the_runtime_refuses_ends_the_call() -> None:
    func = function("""    if n > 3:
        T.evaluate(T.tvm_throw_last_error())
    A[0] = T.float32(9)
""")
    kernel = tl.build(func, schedule="none")
    a = np.zeros(8, "float32")
    kernel(a, 3)
    interpret(func, a, 0)
    assert a[0] == 9
    for call in (lambda: kernel(a, 4), lambda: interpret(func, a, 4)):
        with pytest.raises(RuntimeAssertError, match="the runtime refused"):
            call()


def test_every_way_out_releases() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "float32"), n: T.int32) -> T.float32:
    B = T.alloc_buffer((300,), "float32")
    B[0] = A[0]
    for i in range(8):
        C = T.alloc_buffer((300,), "float32")
        C[0] = A[i] + B[0]
        if i == n:
            T.evaluate(T.break_loop())
        if i == 1:
            T.evaluate(T.continue_loop())
        if C[0] > T.float32(9):
            T.evaluate(T.ret(C[0] + B[0]))
        for j in range(2):
            if j == n:
                T.evaluate(T.break_loop())
            A[j] = C[0]
        A[i] = C[0]
    T.evaluate(T.ret(B[0]))
""")
    after = lowered(func, [[np.arange(8, dtype="float32"), n] for n in (0, 1, 3, 9)])
    # B: at the return inside and at the end. C: at break, continue, return and the end of the loop's body.
    left, made, freed = workspaces(after)
    assert (left, made, freed) == (0, 2, 6)
    text = after.script()
    # A loop inside C's scope ends without releasing it.
    assert text.count("T.TVMBackendFreeWorkspace(1, 0, C)") == 4


def balance(func: PrimFunc, args: list[Any]) -> int:
    """The workspaces that a native run leaves allocated."""
    live: set[int] = set()
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.malloc.argtypes = [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]

    def alloc(size: int) -> int:
        address: int = libc.malloc(size)
        live.add(address)
        return address

    def free(address: int) -> int:
        live.remove(address)
        libc.free(address)
        return 0

    alloc_type = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint64)
    free_type = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)
    tl.register_symbol("note_alloc", alloc_type(alloc))
    tl.register_symbol("note_free", free_type(free))
    text = func.script().replace("T.TVMBackendAllocWorkspace(1, 0, ", 'T.call_extern("handle", "note_alloc", ')
    text = text.replace(", 2, 32)", ")").replace(
        "T.TVMBackendFreeWorkspace(1, 0, ", 'T.call_extern("int32", "note_free", '
    )
    try:
        tl.build(parse(text), schedule="none")(*args)
    finally:
        unregister_symbol("note_alloc")
        unregister_symbol("note_free")
    return len(live)


def test_releases_balance_in_machine_code() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "float32"), n: T.int32):
    B = T.alloc_buffer((300,), "float32")
    B[0] = A[0]
    for i in range(8):
        C = T.alloc_buffer((n + 300,), "float32")
        C[n] = A[i] + B[0]
        if i == n:
            T.evaluate(T.break_loop())
        if i == 2:
            T.evaluate(T.continue_loop())
        if i == n + 6:
            T.evaluate(T.ret())
        A[i] = C[n]
""")
    after = LowerTVMBuiltin()(on_processor(func))
    for n in (0, 1, 5, -3, 99):
        assert balance(after, [np.arange(8, dtype="float32"), max(n, 0)]) == 0


def test_marked_and_conditional_allocations_stay() -> None:
    func = function("""    B = T.alloc_buffer((999,), "float32")
    B[0] = A[0]
    A[1] = B[0]
""")
    body: Any = func.body
    first = body.stmts[0]
    kept = func.with_body(body.with_(stmts=(first.with_(annotations={"disable_lower_builtin": True}), *body.stmts[1:])))
    assert LowerTVMBuiltin()(kept) is kept
    assert workspaces(lowered(func)) == (0, 1, 1)


def test_memory_of_zero_elements_views_and_pointers() -> None:
    func = function("""    E = T.alloc_buffer((n - 3, 5), "float32")
    B = T.alloc_buffer((400,), "float32")
    V = T.decl_buffer((8,), "float32", data=B.data, elem_offset=392)
    for i, j in T.grid(n - 3, 5):
        E[i, j] = T.float32(1)
    T.evaluate(T.call_extern("handle", "memcpy", T.address_of(B[392]), A.data, 32))
    for i in range(8):
        A[i] = V[7 - i]
""")
    lowered(func)


def test_blocks_are_refused() -> None:
    func = function("""    for i in range(8):
        with T.block("b"):
            vi = T.axis.spatial(8, i)
            A[vi] = T.float32(1)
""")
    with pytest.raises(TransformError, match="LowerOpaqueBlock"):
        LowerTVMBuiltin()(func)


def test_functions_with_nothing_to_lower_stay() -> None:
    func = function("""    B = T.alloc_buffer((8,), "float32")
    for i in T.parallel(8):
        B[i] = T.exp(A[i])
    for t in T.thread_binding(8, "threadIdx.x"):
        A[t] = B[t]
""")
    check(LowerTVMBuiltin(), func, func)


# -- devices -----------------------------------------------------------------------------------------------------------


def test_devices_get_packed_calls() -> None:
    func = function("""    with T.attr("default", "device_id", 1):
        with T.attr("default", "device_type", 12):
            S = T.alloc_buffer((8,), "float32", scope="global.vtcm")
            T.evaluate(T.dma_copy(0, T.address_of(S[0]), T.address_of(A[0]), 32, T.bool(False)))
            T.evaluate(T.dma_wait(0, 0))
            for i in range(8):
                S[i] = S[i] + T.float32(n)
            T.evaluate(T.dma_copy(0, T.address_of(A[0]), T.address_of(S[0]), 32, T.bool(True)))
            T.evaluate(T.dma_wait(0, 0))
""")
    after = lowered(LowerVtcmAlloc()(func))
    text = after.script()
    for name, count in (("alloc_nd", 1), ("free_nd", 1), ("dma_copy", 2), ("dma_wait", 2)):
        assert text.count(f"device_api.hexagon.{name}") == count
    assert "T.dma" not in text and "device_type" not in text and "nd_mem_alloc" not in text


def test_the_processor_keeps_its_copies() -> None:
    func = function("""    B = T.alloc_buffer((8,), "float32")
    T.evaluate(T.dma_copy(0, T.address_of(B[0]), T.address_of(A[0]), 32, T.bool(False)))
    A[0] = B[7]
""")
    check(LowerTVMBuiltin(), func, func)


def test_packed_functions_call_packed_functions() -> None:
    """A function made by MakePackedAPI is what a packed call calls, in machine code too."""
    callee = MakePackedAPI()(
        parse("""
@T.prim_func
def scale(A: T.Buffer((8,), "float32"), k: T.float64) -> T.int64:
    for i in range(8):
        A[i] = A[i] * T.Cast("float32", k)
    T.evaluate(T.ret(T.int64(77)))
""")
    )
    caller = LowerTVMBuiltin()(
        on_processor(
            function("""    A[0] = T.Cast("float32", T.tvm_call_packed("scale", A, T.float64(3)) + n)
""")
        )
    )
    assert "scale" in caller.script() and callee.attrs["calling_conv"] == 1

    kind = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 2, ctypes.c_int32, *[ctypes.c_void_p] * 3)

    def scale(values: int, codes: int, count: int, result: int, code: int, resource: int | None) -> int:
        assert count == 2 and (ctypes.c_int32 * 2).from_address(codes)[:] == [7, 2]
        tensor = ctypes.c_void_p.from_address(values).value or 0
        data = ctypes.c_void_p.from_address(tensor).value or 0
        assert ctypes.c_int32.from_address(tensor + 16).value == 1
        assert (ctypes.c_uint8 * 2).from_address(tensor + 20)[:] == [2, 32]
        shape = ctypes.c_void_p.from_address(tensor + 24).value or 0
        assert ctypes.c_int64.from_address(shape).value == 8
        factor = ctypes.c_double.from_address(values + 8).value
        array = (ctypes.c_float * 8).from_address(data)
        for i in range(8):
            array[i] *= factor
        ctypes.c_int64.from_address(result).value = 77
        return 0 if factor < 10 else 5

    tl.register_symbol("scale", kind(scale))
    try:
        a = np.arange(8, dtype="float32")
        tl.build(caller, schedule="none")(a, 1)
        assert a.tolist() == [78.0, 3.0, 6.0, 9.0, 12.0, 15.0, 18.0, 21.0]
        failing = parse(caller.script().replace("T.float64(3", "T.float64(30"))
        with pytest.raises(RuntimeAssertError, match="'scale' returned the error code 5"):
            tl.build(failing, schedule="none")(a, 1)
    finally:
        unregister_symbol("scale")


def test_items_of_a_list_are_passed_kept_and_dropped() -> None:
    """The host's list is a table here: an item is put among the arguments, the result is taken from the stack."""
    text = """
@T.prim_func
def f(h: T.handle, n: T.int32):
    T.anylist_setitem_call_packed(h, n + 1, "note", 7, T.anylist_getitem(h, 0), T.anylist_getitem(h, n))
    T.anylist_setitem_call_cpacked(h, 0, "note", T.anylist_getitem(h, n + 1))
    T.anylist_resetitem(h, n)
    T.evaluate(T.tvm_call_packed("note", T.anylist_getitem(h, 0), 1.5))
"""
    func = parse(text)
    same_function(parse(func.script()), func)
    items = {0: 100, 3: 300}

    def pass_item(_: object, index: int, stack: Struct, codes: Pointer, at: int) -> int:
        stack.set(at, StructField.VALUE, items[index])
        return 0

    def keep(_: object, index: int, stack: Struct, codes: Pointer, at: int) -> int:
        items[index] = stack.get(at, StructField.VALUE)
        return 0

    def drop(_: object, index: int) -> int:
        del items[index]
        return 0

    names = {"SetPackedArg": pass_item, "MoveFromPackedReturn": keep, "ResetItem": drop}
    for name, one in names.items():
        register_extern(f"TVMBackendAnyList{name}", one)
    try:
        interpret(check(LowerTVMBuiltin(), on_processor(func), execute=False), 0, 3)
    finally:
        for name in names:
            register_extern(f"TVMBackendAnyList{name}", None)
    assert seen == [[7, 100, 300], [13], [21, 1.5]]
    assert items == {0: 21, 4: 13}


def test_memory_of_another_device_needs_its_number() -> None:
    func = function("""    with T.attr("default", "device_type", 2):
        B = T.alloc_buffer((1024,), "float32")
        B[0] = A[0]
""")
    with pytest.raises(TransformError, match="memory of cuda is asked for without a 'device_id'"):
        LowerTVMBuiltin()(func)
    after = LowerTVMBuiltin()(func.with_body(AttrStmt("default", "device_id", const(3), func.body)))
    assert "T.TVMBackendAllocWorkspace(2, 3, T.uint64(4096), 2, 32)" in after.script()


def test_functions_for_a_device_stay() -> None:
    func = function("""    B = T.alloc_buffer((1024,), "float32")
    B[0] = A[0]
""")
    kernel = func.with_attr("target", Target("cuda"))
    assert LowerTVMBuiltin()(kernel) is kernel
    for target in (Target("llvm"), Target("hexagon"), Target("cuda", host="llvm")):
        host = on_processor(func).with_attr("target", target)
        assert "TVMBackendAllocWorkspace" in LowerTVMBuiltin()(host).script()
