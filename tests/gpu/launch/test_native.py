from __future__ import annotations

import ctypes
import gc
import math
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.gpu.launch import foreign, programs
from tests.gpu.launch.fake_cuda import FakeCuda, driver_of, fake_kernel, on
from tests.gpu.launch.foreign import CupyArray, Exchanged, Interface
from tests.gpu.launch.native_calls import counted, switched_off
from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError, DeviceError
from tirlower.gpu.launch import Stream, device_of, empty, native, to_device
from tirlower.gpu.launch.array import DeviceArray
from tirlower.gpu.launch.native_layout import Api
from tirlower.ir.dtype import DataType
from tirlower.script import tir as T

pytestmark = pytest.mark.skipif(not native.NATIVE, reason=str(native.WHY_NOT))


def data(n: int = 8, start: float = 0) -> Any:
    return np.arange(n, dtype=np.float32) + np.float32(start)


def ready(func: Any = programs.vector_add, **options: Any) -> tuple[Any, FakeCuda]:
    """A kernel that was called once, and its driver."""
    kernel, cuda = fake_kernel(func, **options)
    kernel(*on(cuda, data(), data(), data())[: len(kernel.signature.inputs)])
    return kernel, cuda


def test_objects_have_their_slots_where_they_are_read() -> None:
    assert native.WHY_NOT is None
    assert [api.name for api in Api if not api.name.startswith("Py") and api not in native._OBJECTS] == []


def test_the_second_call_of_a_kind_is_machine_codes() -> None:
    kernel, cuda = ready()
    A, B, C = on(cuda, data(), data(8, 3), data())
    kernel(A, B, C)
    with counted(kernel) as calls:
        for _ in range(3):
            assert kernel(A, B, C) is None
        assert kernel(A, B, C, stream=None) is None
        assert not calls.count
        kernel(B=B, A=A, C=C)
        kernel(A, B, C=C)
        assert calls.count == 2
    np.testing.assert_array_equal(C.numpy(), data() + data(8, 3))


def test_what_is_no_array_is_refused_as_before() -> None:
    kernel, cuda = ready()
    A, B, C = on(cuda, data(), data(), data())
    kernel(A, B, C)
    with pytest.raises(ArgumentTypeError, match="NumPy array"):
        kernel(A, B, data())
    with pytest.raises(ArgumentTypeError, match="missing argument `C`"):
        kernel(A, B)
    with pytest.raises(ArgumentTypeError):
        kernel(A, B, C, C)
    with pytest.raises(TypeError):
        kernel(A, B, C, what=3)
    with pytest.raises(ArgumentTypeError, match="expected a stream"):
        kernel(A, B, C, stream="s")
    with pytest.raises(ArgumentValueError):
        kernel(A, B, on(cuda, data(9))[0])
    with pytest.raises(ArgumentTypeError):
        kernel(A, B, on(cuda, np.arange(8, dtype=np.int32))[0])


def test_other_addresses_are_checked_in_machine_code() -> None:
    kernel, cuda = ready()
    A, B, C, D = on(cuda, data(), data(8, 3), data(), data())
    kernel(A, B, C)
    kernel(C, B, D)
    kernel(D, B, A)  # all that are written have been read by now
    with counted(kernel) as calls:
        for _ in range(2):
            kernel(A, B, C)
            kernel(C, A, D)
        assert not calls.count
        for given in ((A, B, A), (A, C, C)):
            with pytest.raises(ArgumentValueError, match="overlap"):
                kernel(*given)
        assert calls.count == 2


def test_an_address_off_its_alignment_is_pythons() -> None:
    @T.prim_func
    def copied(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
        for tx in T.thread_binding(8, thread="threadIdx.x"):
            B[tx] = A[tx]

    kernel, cuda = fake_kernel(copied)
    A, B = on(cuda, data(16), data())
    shifted = Interface(A, (8,), data=(A.pointer + 4, False))
    kernel(Interface(A, (8,)), B)
    kernel(Interface(A, (8,)), B)
    with pytest.raises(ArgumentValueError, match="aligned to 16 bytes"):
        kernel(shifted, B)
    # An array of ours that is not aligned there is none: one is made up.
    odd = DeviceArray.__new__(DeviceArray)
    odd._set(native.ArrayKind.of(B.device, (8,), DataType("float32")), Stream(B.device), A.pointer + 4)
    with pytest.raises(ArgumentValueError, match="aligned to 16 bytes"):
        kernel(odd, B)
    odd.pointer = 0


def test_outputs_are_made_in_machine_code() -> None:
    kernel, cuda = fake_kernel(programs.vector_add, outputs=("C",))
    A, B = on(cuda, data(), data(8, 5))
    s = Stream(A.device)
    first = kernel(A, B)
    kernel(A, B, stream=s)
    with counted(kernel) as calls:
        made = [kernel(A, B, stream=chosen) for chosen in (None, s, None)]
        assert not calls.count
    for array, chosen in zip(made, (first.users, s, first.users), strict=True):
        assert type(array) is DeviceArray and array.users is chosen and array._home is chosen
        assert array.shape == first.shape and array.dtype == first.dtype and array.device is first.device
        assert array.facts is first.facts and array.shown is False and array.pointer
        np.testing.assert_array_equal(array.numpy(), data() + data(8, 5))
    held = len(cuda.memory)
    gone = weakref.ref(made[0])
    del array
    made.clear()
    assert gone() is None and len(cuda.memory) == held - 3
    # They are arguments like others.
    np.testing.assert_array_equal(kernel(kernel(A, B), B).numpy(), data() + 2 * data(8, 5))


def test_an_output_of_no_elements() -> None:
    kernel, cuda = fake_kernel(programs.vector_add, outputs=("C",))
    A, B = on(cuda, data(0), data(0))
    for _ in range(3):
        made = kernel(A, B)
        assert made.pointer == 0 and made.shape == (0,)


def test_references_are_neither_lost_nor_kept() -> None:
    kernel, cuda = fake_kernel(programs.vector_add, outputs=("C",))
    A, B = on(cuda, data(), data())
    s = Stream(A.device)
    for chosen in (None, s) * 2:
        kernel(A, B, stream=chosen)
    objects = [A, B, s, A.facts, A.shape, A.users, A.device.default, kernel, kernel.__class__, None, False]
    gc.collect()
    cuda.log.clear()
    before = [sys.getrefcount(one) for one in objects]
    for _ in range(100):
        kernel(A, B, stream=s)
        kernel(A, B)
    cuda.log.clear()
    after = [sys.getrefcount(one) for one in objects]
    assert [b - a for a, b in zip(before, after, strict=True) if abs(b - a) > 50] == []


@pytest.mark.parametrize("name", ["cuLaunchKernel", "cuMemAllocAsync"])
def test_a_failure_is_raised_and_the_next_call_is_machine_codes_again(name: str) -> None:
    kernel, cuda = fake_kernel(programs.vector_add, outputs=("C",))
    A, B = on(cuda, data(), data())
    kernel(A, B)
    kernel(A, B)
    held = len(cuda.memory)
    with counted(kernel) as calls:
        for _ in range(2):
            cuda.fail[name] = 2
            with pytest.raises(DeviceError, match="OUT_OF_MEMORY"):
                kernel(A, B)
            cuda.fail.clear()
            np.testing.assert_array_equal(kernel(A, B).numpy(), 2 * data())
        assert not calls.count
    assert len(cuda.memory) <= held + 1


@T.prim_func
def numbers(
    A: T.Buffer((4,), "float64"), i: T.int8, u: T.uint64, x: T.float32, y: T.float64, flag: T.bool, j: T.int64
):  # fmt: skip
    for tx in T.thread_binding(1, thread="threadIdx.x"):
        A[0] = T.Cast("float64", i) + T.Cast("float64", j)
        A[1] = T.Cast("float64", u)
        A[2] = T.Cast("float64", x)
        A[3] = T.if_then_else(flag, y, -y)


@pytest.mark.parametrize(
    ("given", "in_python"),
    [
        ((-128, 0, 0.1, 0.1, True, -(2**63)), 0),
        ((127, 2**63 - 1, -3.4e38, math.inf, False, 2**63 - 1), 0),
        ((0, 2**64 - 1, 0.0, -0.0, True, 0), 1),
        ((0, 0, math.inf, 1.0, True, 0), 1),
        ((0, 0, 1, 1.0, True, 0), 1),
        ((np.int8(3), 0, 1.0, 1.0, True, 0), 1),
        ((0, 0, 1.0, 1.0, np.True_, 0), 1),
        ((True, 0, 1.0, 1.0, True, 0), 1),
        ((0, 0, 1e-45, math.nan, True, 0), 0),
    ],
)
def test_scalars(given: tuple[Any, ...], in_python: int) -> None:
    kernel, cuda = fake_kernel(numbers)
    (A,) = on(cuda, np.zeros(4))
    for _ in range(2):
        kernel(A, 1, 1, 1.0, 1.0, True, 1)
    with counted(kernel) as calls:
        kernel(A, *given)
        assert calls.count == in_python
    i, u, x, y, flag, j = given
    wanted = np.array([float(i) + float(j), float(u), np.float32(x), y if flag else -y])
    np.testing.assert_array_equal(A.numpy(), wanted)


@pytest.mark.parametrize(
    "given", [(128, 0, 0.0), (-129, 0, 0.0), (0, -1, 0.0), (0, 2**64, 0.0), (0, 0, 1e39), (0.0, 0, 0.0)]
)
def test_scalars_out_of_range_are_refused(given: tuple[Any, ...]) -> None:
    kernel, cuda = fake_kernel(numbers)
    (A,) = on(cuda, np.zeros(4))
    kernel(A, 1, 1, 1.0, 1.0, True, 1)
    with pytest.raises((ArgumentValueError, ArgumentTypeError)):
        kernel(A, *given, 1.0, True, 1)


def test_a_number_that_shapes_arrays_chooses_the_line() -> None:
    @T.prim_func
    def shaped(k: T.int32, A: T.Buffer((k,), "int32")):
        for tx in T.thread_binding(1, thread="threadIdx.x"):
            for i in range(k):
                A[i] = k

    kernel, cuda = fake_kernel(shaped)
    (A, B) = on(cuda, np.zeros(4, np.int32), np.zeros(5, np.int32))
    for _ in range(2):
        kernel(4, A)
        kernel(5, B)
    with counted(kernel) as calls:
        kernel(4, A)
        kernel(5, B)
        assert not calls.count
        for wrong in ((5, A), (4, B), (-4, A)):
            with pytest.raises(ArgumentValueError):
                kernel(*wrong)
    assert (A.numpy() == 4).all() and (B.numpy() == 5).all()


def test_more_kinds_of_calls_than_lines() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    sets = [on(cuda, data(n), data(n, 1), data(n)) for n in range(1, 40)]
    for _ in range(3):
        for A, B, C in sets:
            kernel(A, B, C)
            np.testing.assert_array_equal(C.numpy(), A.numpy() + B.numpy())
    assert len(kernel._native._rows) == native._MOST_LINES
    kernel(*sets[-1])
    with counted(kernel) as calls:
        kernel(*sets[-1])
        kernel(*sets[-2])
        assert not calls.count
        kernel(*sets[0])
        assert calls.count == 1


def test_two_devices_have_lines_of_their_own() -> None:
    cuda = FakeCuda(devices=2)
    kernel, _ = fake_kernel(programs.vector_add, cuda)
    both = [device_of(i, driver_of(cuda)) for i in range(2)]
    sets = [[to_device(data(8, k), device=device) for k in range(3)] for device in both]
    for _ in range(2):
        for given in sets:
            kernel(*given)
    with counted(kernel) as calls:
        for (A, B, C), device in zip(sets, both, strict=True):
            kernel(A, B, C)
            assert C.users is device.default
        assert not calls.count
        with pytest.raises(ArgumentValueError, match="stream of device 0"):
            kernel(*sets[0], stream=Stream(both[1]))
        with pytest.raises(ArgumentValueError, match="on device 1"):
            kernel(*sets[0][:2], sets[1][2])


# -- other libraries' arrays -------------------------------------------------------------------------------------------


def test_an_interface_is_asked_in_machine_code() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    A, B, C = on(cuda, data(), data(8, 3), data())
    views = Interface(A), Interface(B), Interface(C)
    kernel(*views)
    with counted(kernel) as calls:
        kernel(*views)
        kernel(Interface(A), Interface(B), Interface(C))
        kernel(Interface(A, stream=None), Interface(B, mask=None), Interface(C, shape=(*A.shape,)))
        assert not calls.count
        for changes in (
            {"stream": 1},
            {"shape": [8]},
            {"shape": (4,)},
            {"typestr": "<i4"},
            {"strides": (4,)},
            {"data": [A.pointer, False]},
            {"data": (A.pointer, True)},
            {"data": (B.pointer, False)},
            {"mask": 3},
            {"data": (A.pointer, False, 0)},
        ):
            before = calls.count
            try:
                kernel(Interface(A, **changes), views[1], views[2])
            except (ArgumentValueError, ArgumentTypeError):
                pass
            assert calls.count == before + 1, changes
    kernel(*views)
    np.testing.assert_array_equal(C.numpy(), data() + data(8, 3))


def test_an_interface_that_raises_or_is_no_dictionary_is_pythons() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    A, B, C = on(cuda, data(), data(), data())

    class Odd(Interface):
        said: Any = None

        @property
        def __cuda_array_interface__(self) -> Any:
            if isinstance(self.said, Exception):
                raise self.said
            return self.parts if self.said is None else self.said

    view = Odd(A)
    kernel(view, B, C)
    kernel(view, B, C)
    for said in (ValueError("not now"), {}, [1]):
        view.said = said
        with pytest.raises(ArgumentTypeError, match="whose __cuda_array_interface__ failed"):
            kernel(view, B, C)
    view.said = None
    with counted(kernel) as calls:
        kernel(view, B, C)
        assert not calls.count


def test_an_interface_that_calls_the_kernel_itself() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    A, B, C = on(cuda, data(), data(8, 1), data())

    class Calling(Interface):
        depth = 0

        @property
        def __cuda_array_interface__(self) -> Any:
            if self.depth < 3:
                self.depth += 1
                kernel(self, B, C)
            return self.parts

    view = Calling(A)
    kernel(view, B, C)
    view.depth = 0
    kernel(view, B, C)
    np.testing.assert_array_equal(C.numpy(), data() + data(8, 1))


def test_an_array_that_was_shown_is_pythons() -> None:
    kernel, cuda = ready()
    A, B, C = on(cuda, data(), data(), data())
    kernel(A, B, C)
    for shown in (A, C):
        _ = shown.__cuda_array_interface__
    with counted(kernel) as calls:
        kernel(A, B, C)
        kernel(B, A, C, stream=Stream(A.device))
        assert calls.count == 2


def test_an_array_of_a_class_of_ones_own_is_another_librarys() -> None:
    class Own(DeviceArray):
        """With more than ours has."""

    kernel, cuda = fake_kernel(programs.vector_add)
    A, B, C = on(cuda, data(), data(8, 3), data())
    own = Own(A.device, A.shape, DataType("float32")).copy_from(data(8, 7))
    s = Stream(A.device)
    for given in (own, Interface(A), own, Interface(A), own):
        kernel(given, B, C)
        kernel(B, B, own, stream=s)
        own.copy_from(data(8, 7))
    kernel(own, B, C)
    np.testing.assert_array_equal(C.numpy(), data(8, 7) + data(8, 3))


@pytest.fixture
def torch() -> Iterator[type[Exchanged]]:
    """A library with a current stream."""
    with foreign.torch() as cls:
        yield cls


def test_tensors_are_asked_through_the_exchange(torch: type[Exchanged]) -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    A, B, C = on(cuda, data(), data(8, 3), data())
    tensors = torch(A), torch(B), torch(C)
    kernel(*tensors)
    told = torch.told
    with counted(kernel) as calls:
        kernel(*tensors)
        kernel(torch(A), torch(B), torch(C))
        kernel(torch(A, byte_offset=A.pointer - B.pointer, data=B.pointer), tensors[1], tensors[2])
        assert not calls.count and torch.told == told + 9
        assert not any(call[9] for call in cuda.calls("cuLaunchKernel"))
        kernel(A, tensors[1], tensors[2])
        kernel(A, tensors[1], tensors[2])
        assert calls.count == 1
        for changes in (
            {"refuses": True},
            {"device_type": 1},
            {"device_type": 13},
            {"device_id": 1},
            {"ndim": 0},
            {"code": 0},
            {"bits": 16},
            {"lanes": 2},
            {"strides": None},
            {"shape": (ctypes.c_int64 * 1)(7)},
            {"strides": (ctypes.c_int64 * 1)(2)},
        ):
            before = calls.count
            kernel(torch(A, **changes), tensors[1], tensors[2])
            assert calls.count == before + 1, changes
        tensors[0].requires_grad = True
        with pytest.raises(ArgumentTypeError, match="requires grad"):
            kernel(*tensors)
        tensors[0].requires_grad, tensors[1].negative = False, True
        with pytest.raises(ArgumentTypeError, match="negation"):
            kernel(*tensors)
        tensors[1].negative = False
        with pytest.raises(ArgumentValueError, match="overlap"):
            kernel(*tensors[:2], torch(A))
    kernel(*tensors)
    np.testing.assert_array_equal(C.numpy(), data() + data(8, 3))


def test_tensors_are_worked_on_in_the_stream_of_their_library(torch: type[Exchanged]) -> None:
    kernel, cuda = fake_kernel(programs.vector_add, outputs=("C",))
    A, B = on(cuda, data(), data(8, 3))
    tensors = torch(A), torch(B)
    own = [Stream(A.device), Stream(A.device)]
    for stream in (None, *own):
        torch.currents[0] = 0 if stream is None else stream.handle
        kernel(*tensors)
        with counted(kernel) as calls:
            made = kernel(*tensors)
            assert not calls.count
        assert (cuda.calls("cuLaunchKernel")[-1][9] or 0) == torch.currents[0]
        assert made.users is (A.device.default if stream is None else stream)
    torch.currents[0] = own[0].handle
    with counted(kernel) as calls:
        kernel(*tensors)
        assert calls.count == 1
        assert cuda.calls("cuLaunchKernel")[-1][9] == own[0].handle
        kernel(*tensors, stream=own[1])  # which waits for the library's
        assert calls.count == 2
        torch.currents[0] = 2  # each thread's own
        kernel(*tensors)
        kernel(*tensors)
        assert calls.count == 4


def test_tensors_beside_arrays_of_ours_are_in_order_with_them(torch: type[Exchanged]) -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    A, B, C = on(cuda, data(), data(8, 3), data())
    s, t = Stream(A.device), Stream(A.device)
    torch.currents[0] = s.handle
    view = torch(A)
    for _ in range(3):
        kernel(view, B, C)
        kernel(B, B, C, stream=t)
    with counted(kernel) as calls:
        cuda.log.clear()
        kernel(view, B, C)
        assert not calls.count
    assert [call[0] for call in cuda.calls("cuStreamWaitEvent", "cuLaunchKernel")] == [
        "cuStreamWaitEvent",
        "cuLaunchKernel",
    ]
    assert C.users is s


def test_arrays_of_two_libraries_are_pythons(torch: type[Exchanged]) -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    A, B, C = on(cuda, data(), data(8, 3), data())
    kernel(torch(A), Interface(B), C)
    with counted(kernel) as calls:
        kernel(torch(A), Interface(B), C)
        assert calls.count == 1
    assert CupyArray.__module__ != torch.__module__


# -- threads -----------------------------------------------------------------------------------------------------------


def test_threads_that_call_at_once() -> None:
    kernel, cuda = fake_kernel(programs.vector_add, outputs=("C",))
    A, B = on(cuda, data(), data(8, 2))
    kernel(A, B)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                np.testing.assert_array_equal(kernel(A, B).numpy(), data() + data(8, 2))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors


def test_a_kernel_that_is_dropped_gives_its_memory_back() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    arrays = on(cuda, data(), data(), data())
    for _ in range(3):
        kernel(*arrays)
    gone, calls = weakref.ref(kernel), weakref.ref(kernel._native)
    del kernel
    gc.collect()
    assert gone() is None and calls() is None
    assert cuda.calls("cuModuleUnload")


def test_calls_in_python_give_the_same() -> None:
    with switched_off():
        kernel, cuda = ready()
        assert kernel._native is None
    A, B, C = on(cuda, data(), data(8, 3), data())
    for _ in range(2):
        kernel(A, B, C)
    np.testing.assert_array_equal(C.numpy(), data() + data(8, 3))


def test_empty_arrays() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    given = [empty(0, device=device_of(0, kernel._device(0).driver)) for _ in range(3)]
    for _ in range(3):
        kernel(*given)
    assert not cuda.calls("cuLaunchKernel")
