"""Arguments that are no ndarray: DLPack exporters, buffers, array interfaces, PyTorch tensors."""

from __future__ import annotations

import array
import ctypes
import importlib
import importlib.util

import numpy as np
import pytest

from tirlower.call.host_arrays import view_of
from tirlower.call.signature import BufferParam, Signature, Sym
from tirlower.call.views import NotAnArray
from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError

N, S = Sym("n"), Sym("s", "int32")
READ = Signature("f", (BufferParam("A", "float32", (N,)),))
WRITE = Signature("f", (BufferParam("A", "float32", (N,), written=True),))
STRIDED = Signature("f", (BufferParam("A", "float32", (N,), (S,)),))


class Exporter:
    """A tensor of another library: a DLPack capsule, made of ctypes structs, over an ndarray's memory."""

    def __init__(
        self,
        base: np.ndarray,
        *,
        device: tuple[int, int] = (1, 0),
        flags: int | None = 0,
        dtype: tuple[int, int, int] = (2, 32, 1),
        strides: bool = True,
        offset: int = 0,
    ) -> None:
        self.base, self.device, self.flags, self.exports, self.freed = base, device, flags, 0, 0
        self.dtype, self.strides, self.offset = dtype, strides, offset

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **kwargs: object) -> object:
        versioned = self.flags is not None
        if kwargs and not versioned:
            raise TypeError("unexpected keyword max_version")
        self.exports += 1
        rank = self.base.ndim
        self._shape = (ctypes.c_int64 * max(1, rank))(*self.base.shape)
        self._strides = (ctypes.c_int64 * max(1, rank))(*[s // self.base.itemsize for s in self.base.strides])
        code, bits, lanes = self.dtype
        words = [
            self.base.ctypes.data - self.offset,
            self.device[0] | self.device[1] << 32,
            rank | (code | bits << 8 | lanes << 16) << 32,
            ctypes.addressof(self._shape),
            ctypes.addressof(self._strides) if self.strides else 0,
            self.offset,
        ]
        managed = [1 | 1 << 32, 0, 0, self.flags, *words] if versioned else [*words, 0, 0]
        self._struct = (ctypes.c_uint64 * len(managed))(*managed)
        self._name = b"dltensor_versioned" if versioned else b"dltensor"
        new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
            ("PyCapsule_New", ctypes.pythonapi)
        )
        return new(ctypes.addressof(self._struct), self._name, None)


def test_a_dlpack_tensor_is_read_in_place(probe):
    for sig, options in ((READ, {}), (WRITE, {}), (READ, {"flags": None}), (READ, {"strides": False, "offset": 64})):
        call = probe(sig)
        tensor = Exporter(np.zeros(5, np.float32), **options)
        call(tensor)
        assert call.given == [tensor.base.ctypes.data, 5] and tensor.exports == 1


def test_strides_of_a_tensor_count_elements(probe):
    call = probe(STRIDED)
    base = np.zeros(10, np.float32)[::2]
    call(Exporter(base))
    assert call.given == [base.ctypes.data, 5, 2]
    with pytest.raises(ArgumentValueError, match="a C-contiguous array, got strides"):
        probe(READ)(Exporter(base))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"device": (2, 1)}, "on cuda:1"),
        ({"device": (99, 0)}, "on device type 99:0"),
        ({"dtype": (2, 64, 1)}, "dtype float64"),
        ({"dtype": (2, 32, 4)}, "dtype float32x4"),
        ({"dtype": (4, 32, 1)}, "dtype bfloat32"),
    ],
)
def test_a_tensor_of_another_place_or_dtype_is_refused(probe, options, words):
    call = probe(READ)
    with pytest.raises(ArgumentTypeError, match="argument `A` of `f`: expected") as caught:
        call(Exporter(np.zeros(5, np.float32), **options))
    assert words in str(caught.value) and call.runs == 0


def test_read_only_and_copied_tensors_are_not_written(probe):
    base = np.zeros(5, np.float32)
    call = probe(WRITE)
    with pytest.raises(ArgumentValueError, match="expected a writeable array"):
        call(Exporter(base, flags=1))
    with pytest.raises(ArgumentTypeError, match="exports a copy of itself"):
        call(Exporter(base, flags=2))
    assert call.runs == 0
    reader = probe(READ)
    reader(Exporter(base, flags=1))
    assert reader.runs == 1


def test_an_exporter_that_refuses_is_quoted(probe):
    class Refusing:
        def __dlpack__(self, **kwargs: object) -> object:
            raise BufferError("not today")

    with pytest.raises(ArgumentTypeError, match="__dlpack__ refused: not today"):
        probe(READ)(Refusing())


def test_an_exporter_without_a_capsule_is_refused(probe):
    class Lying:
        def __dlpack__(self, **kwargs: object) -> object:
            return 3

    with pytest.raises(ArgumentTypeError, match="gave no capsule of DLPack 1"):
        probe(READ)(Lying())


def test_buffers_are_read_and_written_in_place(probe):
    numbers = array.array("f", [1, 2, 3])
    for value in (numbers, memoryview(numbers)):
        call = probe(WRITE)
        call(value)
        assert call.given == [numbers.buffer_info()[0], 3]
    bytes_sig = Signature("f", (BufferParam("A", "uint8", (N,), written=True),))
    call = probe(bytes_sig)
    call(bytearray(b"abc"))
    assert call.given[1] == 3
    with pytest.raises(ArgumentValueError, match="read-only uint8"):
        call(b"abc")
    with pytest.raises(ArgumentTypeError, match="expected dtype float32, got dtype int16"):
        probe(READ)(array.array("h", [1]))


def test_a_buffer_can_be_resized_after_the_call(probe):
    numbers = array.array("f", [1, 2, 3])
    probe(WRITE)(numbers)
    numbers.append(4)  # a BufferError while a view is left
    assert len(numbers) == 4


def test_an_array_interface_is_read_in_place(probe):
    class Foreign:
        def __init__(self, base: np.ndarray) -> None:
            self.__array_interface__ = base.__array_interface__

    base = np.zeros(6, np.float32)
    call = probe(WRITE)
    call(Foreign(base))
    assert call.given == [base.ctypes.data, 6]


def test_ndarray_subclasses_are_taken(probe, tmp_path):
    class Mine(np.ndarray): ...

    base = np.zeros(6, np.float32)
    call = probe(WRITE)
    call(base.view(Mine))
    assert call.given == [base.ctypes.data, 6]
    np.save(tmp_path / "a.npy", base)
    call(np.load(tmp_path / "a.npy", mmap_mode="r+"))
    with pytest.raises(ArgumentValueError, match="read-only"):
        call(np.load(tmp_path / "a.npy", mmap_mode="r"))


def test_an_array_copy_protocol_is_not_enough(probe):
    class Copies:
        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            return np.zeros(3, np.float32)

    with pytest.raises(ArgumentTypeError, match=r"got .*Copies"):
        probe(READ)(Copies())


def test_device_memory_behind_an_interface_is_named():
    class OnDevice:
        __cuda_array_interface__ = {}

    with pytest.raises(NotAnArray, match="device memory"):
        view_of(OnDevice(), False)


torch = importlib.import_module("torch") if importlib.util.find_spec("torch") else None
needs_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")


@needs_torch
def test_torch_tensors_pass_through_both_entries(probe):
    call = probe(WRITE)
    tensor = torch.zeros(5)
    for _ in range(3):
        call(tensor)
        assert call.given == [tensor.data_ptr(), 5]
    call(tensor[2:])
    assert call.given == [tensor.data_ptr() + 8, 3]
    for wrong, error, words in (
        (torch.zeros(5, dtype=torch.float64), ArgumentTypeError, "dtype float64"),
        (torch.zeros(5, 1), ArgumentValueError, "2 with shape"),
        (torch.zeros(10)[::2], ArgumentValueError, "C-contiguous"),
        (torch.zeros(5, requires_grad=True), ArgumentTypeError, "requires grad"),
        (torch.nn.Parameter(torch.zeros(5)), ArgumentTypeError, "requires grad"),
        (torch.zeros(5, device="meta"), ArgumentTypeError, "Tensor"),
        (torch.zeros(5).to_sparse(), ArgumentTypeError, "Tensor"),
    ):
        with pytest.raises(error, match="argument `A` of `f`") as caught:
            call(wrong)
        assert words in str(caught.value)
    reader = probe(READ)
    for _ in range(3):
        reader(torch.nn.Parameter(torch.zeros(5)))
    assert reader.runs == 3


@needs_torch
@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "int64", "float16", "bfloat16", "float8_e4m3fn", "float64"]
)
def test_torch_dtypes(probe, dtype):
    call = probe(Signature("f", (BufferParam("A", dtype, (2, N), written=True),)))
    tensor = torch.zeros((2, 3), dtype=getattr(torch, dtype))
    for _ in range(2):
        call(tensor)
        assert call.given == [tensor.data_ptr(), 3]


@needs_torch
def test_torch_tensors_do_not_leave_the_machine_code_once_known(fast_probe, probe):
    probe(READ)(torch.zeros(3))
    probe(READ)(torch.nn.Parameter(torch.zeros(3)))
    call = fast_probe(
        Signature("f", (BufferParam("A", "float32", (N, 4), written=True), BufferParam("B", "float32", ())))
    )
    tensor = torch.zeros(3, 4)
    call(tensor, torch.nn.Parameter(torch.tensor(1.0)))
    assert call.given[0] == tensor.data_ptr() and call.given[2] == 3
    call(torch.zeros(1, 4)[:, :], torch.tensor(1.0))
    strided = fast_probe(Signature("f", (BufferParam("A", "float32", (N, N), (S, Sym("t"))),)))
    strided(torch.zeros(4, 4).T)
    assert strided.given[1:] == [4, 1, 4]
    with pytest.raises(AssertionError):
        call(torch.zeros(3, 4).T.contiguous().T, torch.tensor(1.0))
