"""What a launch costs beside the driver's own call: on a driver of C that does nothing, so that all time is ours.

The driver is built from ``tests/gpu/launch/silent_driver.c`` where a C compiler is. Each case has a process of its own
(``python -m bench.launches CASE`` is one), because a process has one driver.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


CASES: dict[str, tuple[str, Callable[[], tuple[Candidate, int]]]] = {
    "static": ("static shapes", static),
    "symbolic": ("symbolic shapes, a shift in the grid", symbolic),
    "alternating": ("two sets of arrays by turns", alternating),
    "output": ("an output allocated, and freed", output),
    "stream": ("an argument of another stream", another_stream),
    "descriptors": ("two tile descriptors", descriptors),
    "devices": ("two devices by turns", two_devices),
    "interface": ("__cuda_array_interface__", interface),
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
