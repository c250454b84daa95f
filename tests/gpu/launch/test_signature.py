from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.launch.fake_cuda import driver_of, fake_kernel
from tirlower.call.signature import BufferParam
from tirlower.diagnostics import ArgumentValueError, LoweringError
from tirlower.gpu.launch import device_of, to_device
from tirlower.gpu.launch.signature import device_signature, written_data
from tirlower.script import parse
from tirlower.script import tir as T


@T.prim_func
def halves(
    A: T.Buffer(("n * 2",), "int32"), B: T.Buffer(("n",), "int32"), C: T.Buffer(("k", "12 // k"), "int32"), k: T.int32
):
    T.func_attr({"global_symbol": "halves"})
    for tx in T.thread_binding(n, thread="threadIdx.x"):
        B[tx] = A[tx * 2] + C[0, 0]


def test_compound_extents_are_checked_not_solved() -> None:
    kernel, cuda = fake_kernel(halves)
    device = device_of(0, driver_of(cuda))
    a, b, c = (to_device(np.ones(s, np.int32), device=device) for s in (10, 5, (3, 4)))
    kernel(a, b, c, 3)
    np.testing.assert_array_equal(b.numpy(), np.full(5, 2))
    with pytest.raises(
        ArgumentValueError, match=r"shape\[0\] to be n \* 2 = 10 \(`n` is 5 by shape\[0\] of `B`\), got 9"
    ):
        kernel(to_device(np.ones(9, np.int32), device=device), b, c, 3)
    with pytest.raises(ArgumentValueError, match=r"shape\[0\] to be k = 4 \(`k` is 4 by argument `k`\), got 3"):
        kernel(a, b, c, 4)
    empty = to_device(np.ones((0, 4), np.int32), device=device)
    with pytest.raises(ArgumentValueError, match=r"the extent .*, got a division by zero \(`k` is 0 by argument `k`\)"):
        kernel(a, b, empty, 0)
    assert [p.name for p in kernel.signature.shaping] == ["k"]
    assert len(kernel._plans) == 1


def test_extents_with_more_than_integer_arithmetic() -> None:
    func = parse("""
@T.prim_func
def f(a: T.handle, B: T.Buffer(("n",), "int32"), n: T.int32):
    T.func_attr({"global_symbol": "f"})
    A = T.match_buffer(a, (T.Cast("int32", T.ceil(T.Cast("float32", n) * T.float32(0.5))),), "int32")
    for tx in T.thread_binding(1, thread="threadIdx.x"):
        B[tx] = A[0]
""")
    kernel, cuda = fake_kernel(func)
    device = device_of(0, driver_of(cuda))
    a, b = (to_device(np.full(s, s, np.int32), device=device) for s in (3, 5))
    kernel(a, b, 5)
    assert b.numpy()[0] == 3
    with pytest.raises(ArgumentValueError, match=r"shape\[0\] to be .* = 3 \(`n` is 5 by argument `n`\), got 5"):
        kernel(b, b, 5)


def test_what_is_written() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((64,), "float16"), B: T.Buffer((64,), "float16"), C: T.Buffer((64,), "float16"), D: T.Buffer((8,), "int32"),
      E: T.Buffer((64,), "float16")):
    S = T.alloc_buffer((64,), "float16", scope="shared")
    for tx in T.thread_binding(8, thread="threadIdx.x"):
        T.ptx_cp_async("float16", S.data, tx * 8, A.data, tx * 8, 16)
        T.evaluate(T.call_extern("void", "fill", B.access_ptr("w")))
        T.evaluate(T.call_extern("void", "look", C.access_ptr("r")))
        T.evaluate(T.atomic_add(T.address_of(D[tx]), 1))
        E[tx] = T.float16(0)
""")
    names = {var.name for var in written_data(func)}
    assert names == {"S", "B", "D", "E"} or names == {"S_data", "B", "D", "E"}
    by_name = {p.name: p for p in device_signature(func)[0].buffers}
    assert {n for n, p in by_name.items() if p.written} == {"B", "D", "E"}
    assert all(p.alignment == 16 for p in by_name.values())


def refusal(params: str, outputs: tuple[str, ...] = (), body: str = "pass") -> str:
    func = parse(
        f"""
@T.prim_func
def f({params}):
    {body}
""",
        check_well_formed=False,
    )
    with pytest.raises(LoweringError) as error:
        device_signature(func, outputs)
    return str(error.value)


def test_refusals() -> None:
    assert "depends on `n`, which is no parameter and no symbol" in refusal('A: T.Buffer(("n * 2",), "int32")')
    assert "elements of handle" in refusal('A: T.Buffer((4,), "handle")')
    assert "float32x4, which no call can pass" in refusal("x: T.float32x4")
    assert "output `A` is not a buffer parameter that the function writes" in refusal(
        'A: T.Buffer((4,), "int32")', ("A",)
    )
    assert "did you mean `out`" in refusal('out: T.Buffer((4,), "int32")', ("ou",), "out[0] = 1")
    strided = refusal('A: T.Buffer((4,), "int32", strides=("s",)), B: T.Buffer(("s",), "int32")', ("A",), "A[0] = 1")
    assert "has declared strides" in strided
    only = refusal('A: T.Buffer(("n",), "int32")', ("A",), "A[0] = 1")
    assert "no passed array has it as a bare extent" in only


def test_vectors_take_a_dimension_more() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((4,), "float32x4")):
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        A[tx] = T.broadcast(T.float32(1), 4)
""")
    (param,) = device_signature(func)[0].params
    assert isinstance(param, BufferParam) and param.shape == (4, 4) and param.dtype == "float32" and param.written


def test_parameters_of_one_name() -> None:
    func = parse("""
@T.prim_func
def f(a: T.handle, b: T.handle):
    A = T.match_buffer(a, (4,), "int32")
    B = T.match_buffer(b, (4,), "int32", align=128)
    B[0] = A[0]
""")
    sig, _ = device_signature(func)
    assert [p.name for p in sig.params] == ["A", "B"] and sig.params[1].alignment == 128  # type: ignore[union-attr]


def test_sizes_that_leave_their_type_are_refused() -> None:
    square = parse("""
@T.prim_func
def square(n: T.int32, A: T.Buffer(("n * n",), "int8"), B: T.Buffer((1,), "int8")):
    T.func_attr({"global_symbol": "square"})
    for tx in T.thread_binding(1, thread="threadIdx.x"):
        B[tx] = A[0]
""")
    kernel, cuda = fake_kernel(square)
    device = device_of(0, driver_of(cuda))
    one, none, out = (to_device(np.ones(size, np.int8), device=device) for size in (1, 0, 1))
    kernel(1, one, out)
    for n, array in ((2**16, none), (2**16 + 1, one), (-(2**16), none)):
        with pytest.raises(
            ArgumentValueError, match=r"the extent n \* n is too large: n \* n = \d+ does not fit int32"
        ):
            kernel(n, array, out)


def test_a_grid_whose_size_leaves_its_type_is_not_launched() -> None:
    sizes = parse("""
@T.prim_func
def sizes(n: T.int32, m: T.int32, A: T.Buffer(("n", 0), "int8"), C: T.Buffer(("m", 0), "int8"), B: T.Buffer((1,), "int8")):
    T.func_attr({"global_symbol": "sizes"})
    for bx in T.thread_binding((n * m + 255) // 256, thread="blockIdx.x"):
        for tx in T.thread_binding(1, thread="threadIdx.x"):
            if bx == 0:
                B[tx] = 1
""")
    kernel, cuda = fake_kernel(sizes)
    device = device_of(0, driver_of(cuda))

    def call(n: int, m: int) -> None:
        kernel(n, m, *(to_device(np.ones(shape, np.int8), device=device) for shape in ((n, 0), (m, 0), (1,))))

    call(3, 5)
    with pytest.raises(OverflowError, match=r"n \* m \+ 255 = 4294967551 does not fit int32"):
        call(2**16, 2**16)


def test_a_grid_of_data_has_the_size_to_which_it_wraps() -> None:
    data = parse("""
@T.prim_func
def data(n: T.int32, B: T.Buffer((8,), "int8")):
    T.func_attr({"global_symbol": "data"})
    for bx in T.thread_binding(n * n, thread="blockIdx.x"):
        for tx in T.thread_binding(1, thread="threadIdx.x"):
            if bx < 8:
                B[bx] = 1
""")
    kernel, cuda = fake_kernel(data)
    out = to_device(np.zeros(8, np.int8), device=device_of(0, driver_of(cuda)))
    kernel(2**31 - 1, out)
    assert out.numpy().tolist() == [1, *[0] * 7]
