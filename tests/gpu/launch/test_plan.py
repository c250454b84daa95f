from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.gpu.launch import programs
from tests.gpu.launch.fake_cuda import fake_kernel, on
from tests.gpu.launch.foreign import CupyArray, Dlpack, Interface, Tensor
from tirlower.diagnostics import (
    ArgumentTypeError,
    ArgumentValueError,
    TirError,
)
from tirlower.script import parse

RNG = np.random.default_rng(6)


def test_objects_with_the_interface_are_taken_without_a_copy() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    a, b = RNG.random(40, np.float32), RNG.random(40, np.float32)
    A, B, C = on(cuda, a, b, np.zeros(40, np.float32))
    cuda.log.clear()
    kernel(Interface(A), Interface(B, strides=(4,)), Interface(C, shape=[40]))
    assert not cuda.calls("cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2")
    np.testing.assert_array_equal(C.numpy(), a + b)


def test_dlpack_arrays_are_taken_without_a_copy() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    a, b = RNG.random(40, np.float32), RNG.random(40, np.float32)
    A, B, C = on(cuda, a, b, np.zeros(40, np.float32))
    given = Dlpack(A)
    for _ in range(3):
        kernel(given, Dlpack(B), Dlpack(C))
    np.testing.assert_array_equal(C.numpy(), a + b)
    assert set(given.streams) == {1}
    with pytest.raises(ArgumentTypeError, match=r"not in CUDA memory \(DLPack device 1\)"):
        kernel(Dlpack(A, (1, 0)), B, C)


def test_tensors_of_torch_and_arrays_of_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    a, b = RNG.random(40, np.float32), RNG.random(40, np.float32)
    A, B, C = on(cuda, a, b, np.zeros(40, np.float32))
    kernel(Tensor(A), CupyArray(B), Tensor(C))
    np.testing.assert_array_equal(C.numpy(), a + b)
    with pytest.raises(ArgumentTypeError, match=r"a PyTorch tensor on cpu"):
        kernel(Tensor(A, "cpu"), B, C)
    with pytest.raises(ArgumentTypeError, match=r"requires grad"):
        kernel(Tensor(A, grad=True), B, C)

    class Torch:
        class cuda:
            @staticmethod
            def current_stream(device: int) -> Any:
                return type("Stream", (), {"cuda_stream": 91})()

    monkeypatch.setitem(sys.modules, "torch", Torch)
    other, second = fake_kernel(programs.vector_add)
    A, B, C = on(second, a, b, np.zeros(40, np.float32))
    other(Tensor(A), Tensor(B), Tensor(C))
    other(Tensor(A), Tensor(B), Tensor(C), stream=5)
    assert [c[9] for c in second.calls("cuLaunchKernel")] == [91, 5]


def test_numpy_arrays_are_never_copied_unseen() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    a = np.ones(8, np.float32)
    A, B = on(cuda, a, a)
    cuda.log.clear()
    with pytest.raises(ArgumentTypeError) as error:
        kernel(A, a, B)
    text = str(error.value)
    assert "argument `B` of `vector_add`: expected a float32 array of shape (n,) on a CUDA device" in text
    assert "a NumPy array (float32 of shape (8,)), which is in host memory" in text
    assert "tl.gpu.to_device(x)" in text
    assert not cuda.calls("cuMemcpyHtoDAsync_v2", "cuLaunchKernel")


WRONG: list[tuple[Callable[..., Any], type[TirError], str]] = [
    (lambda k, A, B, C: k(A, B), ArgumentTypeError, "missing argument `C`: expected 3 .A, B, C., got 2"),
    (lambda k, A, B, C: k(A, B, C, C), ArgumentTypeError, "expected 3 arguments, got 4"),
    (lambda k, A, B, C: k(A, B, D=C), ArgumentTypeError, "unknown argument `D`"),
    (lambda k, A, B, C: k(A, B, C, A=A), ArgumentTypeError, "expected once, got twice"),
    (lambda k, A, B, C: k(A, 3.0, C), ArgumentTypeError, "argument `B`.*got float 3.0"),
    (lambda k, A, B, C: k(A, object(), C), ArgumentTypeError, "got object, which shows no device memory"),
    (lambda k, A, B, C: k(A, Interface(B, typestr="<f8"), C), ArgumentTypeError, "expected dtype float32, got dtype float64"),
    (lambda k, A, B, C: k(A, Interface(B, typestr=">f4"), C), ArgumentTypeError, "float32 of the other byte order"),
    (lambda k, A, B, C: k(A, Interface(B, typestr="<V4"), C), ArgumentTypeError, "expected dtype float32, got dtype <V4"),
    (lambda k, A, B, C: k(A, Interface(B, typestr="<f1"), C), ArgumentTypeError, "expected dtype float32, got dtype <f1"),
    (lambda k, A, B, C: k(A, Interface(B, typestr="<f3"), C), ArgumentTypeError, "Interface of type '<f3'.*'<f4'"),
    (lambda k, A, B, C: k(A, Interface(B, typestr=""), C), ArgumentTypeError, "__cuda_array_interface__ failed"),
    (lambda k, A, B, C: k(A, Interface(B, shape=(8, 1)), C), ArgumentValueError, r"expected 1 dimension \(n,\), got 2"),
    (lambda k, A, B, C: k(A, Interface(B, shape=(7,)), C), ArgumentValueError, r"shape\[0\] to be n = 8 \(`n` is 8 by shape\[0\] of `A`\), got 7"),
    (lambda k, A, B, C: k(A, Interface(B, shape=(4,), strides=(8,)), C), ArgumentValueError, r"shape\[0\] to be n = 8"),
    (lambda k, A, B, C: k(Interface(A, strides=(8,)), B, C), ArgumentValueError, "expected a C-contiguous array, got strides"),
    (lambda k, A, B, C: k(A, B, Interface(C, data=(C.pointer, True))), ArgumentValueError, r"a read-only float32\[8\]"),
    (lambda k, A, B, C: k(A, B, Interface(C, mask=A)), ArgumentTypeError, "with a mask"),
    (lambda k, A, B, C: k(A, Interface(B, data=(B.pointer + 4, False)), C), ArgumentValueError, "aligned to 16 bytes.*4 bytes off"),
    (lambda k, A, B, C: k(A, B, A), ArgumentValueError, "memory that does not overlap `A`.*writes `C`"),
    (lambda k, A, B, C: k(A, Interface(B, data=(4096, False)), C), ArgumentValueError, "the address 0x1000, which the driver does not know"),
    (lambda k, A, B, C: k(A, Interface(B, data=None), C), ArgumentTypeError, "__cuda_array_interface__ failed"),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_wrong_arguments(case: int) -> None:
    call, kind, text = WRONG[case]
    kernel, cuda = fake_kernel(programs.vector_add)
    A, B, C = on(cuda, *[np.ones(8, np.float32)] * 3)
    for _ in range(2):
        with pytest.raises(kind, match=f"(?s){text}"):
            call(kernel, A, B, C)
    kernel(A, B, C)
    with pytest.raises(kind):
        call(kernel, A, B, C)
    assert len(cuda.calls("cuLaunchKernel")) == 1


def test_arrays_that_are_read_may_be_read_only_and_shared() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    A, C = on(cuda, *[np.ones(8, np.float32)] * 2)
    kernel(Interface(A, data=(A.pointer, True)), A, C)
    np.testing.assert_array_equal(C.numpy(), np.full(8, 2, np.float32))


def test_interleaved_arrays_do_not_overlap() -> None:
    kernel, cuda = fake_kernel(programs.interleaved)
    both = RNG.random(32, np.float32)
    (X,) = on(cuda, both)
    even = Interface(X, (8,), (16,))
    odd = Interface(X, (8,), (16,), data=(X.pointer + 16, False))
    shifted = Interface(X, (8,), (16,), data=(X.pointer + 48, False))
    with pytest.raises(ArgumentValueError, match=r"overlap"):
        kernel(even, odd)
    with pytest.raises(ArgumentValueError, match=r"overlap"):
        kernel(even, shifted)
    apart = Interface(X, (4,), (32,)), Interface(X, (4,), (32,), data=(X.pointer + 16, False))
    small, other = fake_kernel(
        parse(programs.interleaved.script().replace("(8,)", "(4,)").replace("binding(8", "binding(4"))
    )
    (Y,) = on(other, both)
    small(
        *[
            Interface(Y, p.parts["shape"], p.parts["strides"], data=(Y.pointer + 16 * i, False))
            for i, p in enumerate(apart)
        ]
    )
    np.testing.assert_array_equal(Y.numpy()[4::8], both[::8] * 2)


def test_a_call_that_is_checked_once_asks_the_driver_for_the_context_and_the_launch_alone() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    A, B, C = on(cuda, *[np.ones(8, np.float32)] * 3)
    for arrays in ((A, B, C), (Interface(A), Interface(B), Interface(C))):
        kernel(*arrays)
        cuda.log.clear()
        kernel(*arrays)
        assert cuda.named() == ["cuCtxGetCurrent", "cuLaunchKernel"]
    assert len(kernel._plans) == 2


def test_several_threads_at_once() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    arrays = [on(cuda, *(RNG.random(5 + i, np.float32) for _ in range(3))) for i in range(4)]
    errors: list[BaseException] = []

    def work(A: Any, B: Any, C: Any) -> None:
        try:
            for _ in range(5):
                kernel(A, B, C)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=each) for each in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for A, B, C in arrays:
        np.testing.assert_array_equal(C.numpy(), A.numpy() + B.numpy())


STRIDED = """
@T.prim_func
def strided(A: T.Buffer((4, 3), "float32", strides={a}), B: T.Buffer((4, 3), "float32", strides={b}), C: T.Buffer((4, 3), "float32")):
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        for j in range(3):
            C[tx, j] = A[tx, j] + B[tx, j]
"""

# Declared strides of A and B in elements, those passed in bytes, and what is said; None: they pass.
STRIDES = [
    ((8, 1), (3, 1), (32, 4), (12, 4), None),
    ((8, 1), (3, 1), (36, 4), (12, 4), r"strides\[0\] to be 8 elements, got 9 \(strides \(36, 4\) bytes\)"),
    ((8, 1), (3, 1), (12, 4), (12, 4), r"strides\[0\] to be 8 elements, got 3"),
    ((8, 1), (3, 1), (32, 8), (12, 4), r"strides\[1\] to be 1 elements, got 2"),
    ((8, 2), (3, 1), (32, 8), (12, 4), None),
    ((8, 1), (3, 1), (-32, 4), (12, 4), r"strides\[0\] to be 8 elements, got -8"),
    ((8, 1), (3, 1), (0, 4), (12, 4), r"strides\[0\] to be 8 elements, got 0"),
    ((8, 1), (3, 1), (34, 4), (12, 4), "multiples of the 4 bytes of float32, got strides.0. of 34 bytes"),
    (("s", 1), ("s", 1), (20, 4), (20, 4), None),
    (
        ("s", 1),
        ("s", 1),
        (20, 4),
        (24, 4),
        r"`B`.*strides\[0\] to be s = 5 \(`s` is 5 by strides\[0\] of `A`\) elements, got 6",
    ),
    (("s", 1), ("s + 1", 1), (20, 4), (24, 4), None),
    (("s", 1), ("s + 1", 1), (20, 4), (20, 4), r"`B`.*strides\[0\] to be .* = 6 .*got 5"),
    (("s", "t"), ("t", "s"), (12, 4), (4, 12), None),
    (("s", "t"), ("t", "s"), (12, 4), (12, 4), r"`B`.*strides\[0\] to be t = 1.*got 3"),
]


@pytest.mark.parametrize("case", range(len(STRIDES)))
def test_strides_are_those_that_are_declared(case: int) -> None:
    a, b, passed_a, passed_b, wrong = STRIDES[case]
    kernel, cuda = fake_kernel(parse(STRIDED.format(a=a, b=b)))
    memory = RNG.random((2, 64), np.float32)
    A, B, C = on(cuda, memory[0].copy(), memory[1].copy(), np.zeros((4, 3), np.float32))
    given = [Interface(one, (4, 3), strides) for one, strides in ((A, passed_a), (B, passed_b))]
    if wrong is not None:
        for _ in range(2):
            with pytest.raises(ArgumentValueError, match=f"(?s){wrong}"):
                kernel(*given, C)
        assert not cuda.calls("cuLaunchKernel") and not C.numpy().any()
        return
    kernel(*given, C)
    want = [
        np.lib.stride_tricks.as_strided(row, (4, 3), strides)
        for row, strides in zip(memory, (passed_a, passed_b), strict=True)
    ]
    np.testing.assert_array_equal(C.numpy(), want[0] + want[1])
