"""What a launch costs beside the driver's own call: on a driver of C that does nothing, so that all time is ours.

The driver is built from ``tests/gpu/launch/silent_driver.c`` where a C compiler is. Each case has a process of its own
(``python -m bench.launches CASE`` is one), because a process has one driver.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench.measure import Call, Candidate, interleave

SOURCE = Path(__file__).resolve().parent.parent / "tests" / "gpu" / "launch" / "silent_driver.c"
WANTED_US = 1.5
"""What is asked of each case."""


def build(folder: Path) -> Path | None:
    """The driver as a library; None where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    made = folder / "libsilent.so"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-w", "-o", made, SOURCE], check=True)
    return made


# -- the cases: each gives a call, and how many launches that is -------------------------------------------------------


def _arrays(count: int, shape: Any = 1024, dtype: Any = "float32", ordinal: int = 0) -> list[Any]:
    import numpy as np

    from tirlower.gpu.launch import device_of, to_device

    return [to_device(np.zeros(shape, dtype), device=device_of(ordinal)) for _ in range(count)]


def _target() -> str:
    from tirlower.gpu.launch import device_of

    return f"nvptx -arch={device_of().arch}"


def _adding(**options: Any) -> Any:
    import tirlower as tl
    from examples.gpu.vector_add import vector_add

    return tl.build(vector_add(1024), target=_target(), **options)


def static() -> tuple[Candidate, int]:
    return Call(_adding(), tuple(_arrays(3))), 1


def symbolic() -> tuple[Candidate, int]:
    import tirlower as tl
    from tirlower.script import parse

    func = parse("""
@T.prim_func
def add(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), C: T.Buffer(("n",), "float32")):
    T.func_attr({"tir.noalias": True})
    for bx in T.thread_binding((n + 255) >> 8, thread="blockIdx.x"):
        for tx in T.thread_binding(256, thread="threadIdx.x"):
            if bx * 256 + tx < n:
                C[bx * 256 + tx] = A[bx * 256 + tx] + B[bx * 256 + tx]
""")
    return Call(tl.build(func, target=_target()), tuple(_arrays(3))), 1


def alternating() -> tuple[Candidate, int]:
    kernel, x, y = _adding(), _arrays(3), _arrays(3)

    def both() -> None:
        kernel(*x)
        kernel(*y)

    return both, 2


def output() -> tuple[Candidate, int]:
    return Call(_adding(outputs=["C"]), tuple(_arrays(2))), 1


def another_stream() -> tuple[Candidate, int]:
    """Each launch waits for what the one before wrote, in another stream."""
    from tirlower.gpu.launch import Stream

    kernel, (a, b, c), s, t = _adding(), _arrays(3), Stream(), Stream()

    def both() -> None:
        kernel(a, b, c, stream=s)
        kernel(c, b, a, stream=t)

    return both, 2


def descriptors() -> tuple[Candidate, int]:
    import tirlower as tl
    from examples.gpu.matmul_hopper import hopper_matmul

    kernel = tl.build(hopper_matmul(128, 128, 128), target="nvptx -arch=sm_90a")
    a, b = _arrays(2, (128, 128), "bfloat16")
    return Call(kernel, (a, b, *_arrays(1, (128, 128)))), 1


def two_devices() -> tuple[Candidate, int]:
    """The launches go to one device and the other by turns."""
    kernel, x, y = _adding(), _arrays(3), _arrays(3, ordinal=1)

    def both() -> None:
        kernel(*x)
        kernel(*y)

    return both, 2


class _Theirs:
    """An array of another library, whose interface is at hand."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": (array.pointer, False), "version": 3,
            "strides": None, "stream": 1,
        }  # fmt: skip


def interface() -> tuple[Candidate, int]:
    return Call(_adding(), tuple(map(_Theirs, _arrays(3)))), 1


class _Tensor:
    """A tensor of PyTorch's, as far as a call asks: C finds what it is in its first slot."""

    __slots__ = ("array", "device", "dtype", "parts", "requires_grad", "shape")
    is_neg = is_conj = staticmethod(bool)

    def __init__(self, array: Any, device: Any) -> None:
        from tirlower.ir.dlpack import DLTensor

        self.parts = (ctypes.c_int64 * 1)(*array.shape), (ctypes.c_int64 * 1)(1), array
        told = DLTensor(array.pointer, 2, 0, 1, 2, 32, 1, *self.parts[:2], 0)
        # The slots stand in the order of their names.
        self.array = bytes(told)
        self.device, self.dtype, self.shape, self.requires_grad = device, "torch.float32", array.shape, False

    def data_ptr(self) -> int:
        pointer: int = self.parts[2].pointer
        return pointer

    def stride(self) -> tuple[int, ...]:
        return (1,)

    def element_size(self) -> int:
        return 4


def tensors() -> tuple[Candidate, int]:
    """What PyTorch's tensors cost: a stand-in with DLPack's C exchange, which PyTorch has from 2.10 on."""
    from tirlower.gpu.launch import open_driver

    library: Any = open_driver().library
    words = [1, 0, 0, 0, 0]
    words += [ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (library.silent_tensor, library.silent_stream)]
    api = (ctypes.c_uint64 * len(words))(*words)
    capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )(ctypes.addressof(api), b"dlpack_exchange_api", None)
    torch: Any = types.ModuleType("torch")
    torch._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda device: 0)
    torch.api = api
    sys.modules["torch"] = torch
    cls = type("Tensor", (_Tensor,), {"__slots__": (), "__module__": "torch", "__dlpack_c_exchange_api__": capsule})
    device = _TorchDevice("cuda", 0)
    return Call(_adding(), tuple(cls(array, device) for array in _arrays(3))), 1


class _TorchDevice(NamedTuple):
    type: str
    index: int


CASES: dict[str, tuple[str, Callable[[], tuple[Candidate, int]]]] = {
    "static": ("static shapes", static),
    "symbolic": ("symbolic shapes, a shift in the grid", symbolic),
    "alternating": ("two sets of arrays by turns", alternating),
    "output": ("an output allocated, and freed", output),
    "stream": ("an argument of another stream", another_stream),
    "descriptors": ("two tile descriptors", descriptors),
    "devices": ("two devices by turns", two_devices),
    "interface": ("__cuda_array_interface__", interface),
    "tensors": ("tensors through DLPack's C exchange", tensors),
}


def measure(case: str) -> float:
    """Microseconds of the processor's time for a launch, in the best of the rounds: others share the machine's caches."""
    candidate, launches = CASES[case][1]()
    candidate()
    timing = interleave({case: candidate}, rounds=31, clock=time.thread_time)[case]
    return timing.least / launches * 1e6


def report() -> str:
    """The table, or why there is none."""
    with tempfile.TemporaryDirectory() as folder:
        library = build(Path(folder))
        if library is None:
            return "launches: not run: there is no C compiler here to build the stand-in for a driver with"
        lines = [f"launches on a driver that does nothing: microseconds of ours (at most {WANTED_US})"]
        for case, (what, _) in CASES.items():
            devices = "2" if case == "devices" else "1"
            env = {**os.environ, "TIRLOWER_LIBCUDA": str(library), "SILENT_DEVICES": devices}
            done = subprocess.run(
                [sys.executable, "-m", "bench.launches", case], env=env, capture_output=True, text=True
            )
            if done.returncode:
                lines.append(f"{what:<40}  failed: {done.stderr.strip().splitlines()[-1]}")
                continue
            found = float(done.stdout)
            lines.append(f"{what:<40}{found:>8.2f}{'' if found <= WANTED_US else '  ABOVE'}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(measure(sys.argv[1]))
