"""Kernels on a GPU beside the device's own copy bandwidth and, where PyTorch is there, beside cuBLAS and PyTorch's kernels.

Times are the device's, between two events, with the candidates in turns: the median of many rounds. Without a device
nothing is measured, and the table says so.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tirlower as tl
from examples.gpu.layer_norm import layer_norm
from examples.gpu.matmul_bf16 import tensor_core_matmul
from examples.gpu.matmul_f32 import matmul
from examples.gpu.matmul_hopper import hopper_matmul
from examples.gpu.softmax import softmax
from examples.gpu.transpose import transpose
from examples.gpu.vector_add import vector_add
from tirlower.diagnostics import DeviceError
from tirlower.gpu.launch import Device, Event, device_of, empty, open_driver, to_device

ROUNDS = 31
CALLS = 10
"""Calls between two events: a mark costs some microseconds itself."""


@dataclass(frozen=True)
class Row:
    """One line: what our kernel reached, of what, and the part asked for."""

    name: str
    ours: float
    peer: float
    unit: str
    of: str
    wanted: float

    def __str__(self) -> str:
        part = self.ours / self.peer
        verdict = "" if part >= self.wanted else "  BELOW"
        return (
            f"{self.name:<28}{self.ours:>10.1f} {self.unit:<9}{part:>6.0%} of {self.of} "
            f"({self.peer:.1f}; at least {self.wanted:.0%}){verdict}"
        )


def timed(device: Device, candidates: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median milliseconds of a call of each candidate."""
    found: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(ROUNDS):
        for name, call in candidates.items():
            call()
            first = Event(device)
            for _ in range(CALLS):
                call()
            last = Event(device)
            last.wait()
            found[name].append(last.ms_since(first) / CALLS)
    return {name: statistics.median(times) for name, times in found.items()}


def _kernel(func: Any, device: Device) -> Any:
    return tl.build(func, target=f"nvptx -arch={device.arch}{'a' if device.arch == 'sm_90' else ''}")


def bandwidth(device: Device) -> list[Row]:
    """Kernels that the memory bounds, beside a copy of as many bytes by the driver."""
    rng = np.random.default_rng(0)
    n = 1 << 28
    x, y, z = to_device(rng.random(n, dtype=np.float32)), empty((n,), "float32"), empty((n,), "float32")
    y.copy_from(rng.random(n, dtype=np.float32))
    side = 1 << 14
    a, b = to_device(rng.random((side, side), dtype=np.float32)), empty((side, side), "float32")
    gamma, beta = (to_device(rng.random(side, dtype=np.float32)) for _ in range(2))
    add, turn = _kernel(vector_add(n), device), _kernel(transpose(side, side), device)
    soft, norm = _kernel(softmax(side, side), device), _kernel(layer_norm(side, side), device)
    times = timed(
        device,
        {
            "copy": lambda: device.driver.copy_on_device(y.pointer, x.pointer, 4 * n, 0),
            "elementwise (a + b)": lambda: add(x, y, z),
            "transpose 16384": lambda: turn(a, b),
            "softmax 16384": lambda: soft(a, b),
            "layer norm 16384": lambda: norm(a, gamma, beta, b),
        },
    )
    peak = 8 * n / times["copy"] / 1e6
    moved = {
        "elementwise (a + b)": (12, 0.90),
        "transpose 16384": (8, 0.85),
        "softmax 16384": (8, 0.85),
        "layer norm 16384": (8, 0.85),
    }
    return [
        Row(name, size * n / times[name] / 1e6, peak, "GB/s", "a copy", wanted)
        for name, (size, wanted) in moved.items()
    ]


def products(device: Device) -> list[Row]:
    """Matrix products beside cuBLAS, through PyTorch."""
    if importlib.util.find_spec("torch") is None:
        return []
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    out = []
    n = 4096
    a, b = (torch.randn(n, n, device="cuda") for _ in range(2))
    c, d = torch.empty_like(a), torch.empty_like(a)
    ours = _kernel(matmul(n, n, n), device)
    times = timed(device, {"ours": lambda: ours(a, b, c), "cublas": lambda: torch.matmul(a, b, out=d)})
    out.append(_product("f32 matmul 4096", n, times, 0.80))
    n = 8192
    a, b = (torch.randn(n, n, device="cuda").bfloat16() for _ in range(2))
    c, d = torch.empty(n, n, device="cuda"), torch.empty_like(a)
    makers = [("bf16 matmul 8192, mma", tensor_core_matmul)]
    if device.arch == "sm_90":
        makers.append(("bf16 matmul 8192, wgmma", hopper_matmul))
    for name, make in makers:
        kernel = _kernel(make(n, n, n), device)
        times = timed(device, {"ours": lambda k=kernel: k(a, b, c), "cublas": lambda: torch.matmul(a, b, out=d)})
        out.append(_product(name, n, times, 0.70))
    return out


def _product(name: str, n: int, times: dict[str, float], wanted: float) -> Row:
    rate = {who: 2 * n**3 / ms / 1e9 for who, ms in times.items()}
    return Row(name, rate["ours"], rate["cublas"], "TFLOP/s", "cuBLAS", wanted)


def overhead(device: Device) -> str:
    """The microseconds of Python for a launch of a kernel of three arrays."""
    arrays = [to_device(np.zeros(1024, np.float32)) for _ in range(3)]
    kernel = _kernel(vector_add(1024), device)
    kernel(*arrays)
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(200):
            kernel(*arrays)
        rounds.append((time.perf_counter() - start) / 200 * 1e6)
        Event(device).wait()
    return f"{'launch, from Python':<28}{statistics.median(rounds):>10.2f} us       at most 4 us"


def report() -> str:
    """The table, or why there is none."""
    try:
        device = device_of(0, open_driver())
    except DeviceError as error:
        return f"GPU kernels: not run: {error.message}"
    lines = [f"GPU kernels on {device.name} ({device.arch}), median of {ROUNDS} rounds"]
    lines += [str(row) for row in (*bandwidth(device), *products(device))]
    return "\n".join([*lines, overhead(device)])
