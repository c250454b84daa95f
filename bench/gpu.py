"""Kernels on a GPU beside the best copy of as many bytes and, where PyTorch is there, beside cuBLAS and PyTorch's kernels.

Times are the device's, between two events, with the candidates in turns: the median of many rounds. Each result is
compared before it is timed. Without a device nothing is measured, and the table says so.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tirlower as tl
from bench.gpu_launches import launches
from examples.gpu import layer_norm as layer_norms
from examples.gpu import softmax as softmaxes
from examples.gpu.copy import copy
from examples.gpu.flash_attention import D, flash_attention
from examples.gpu.matmul_bf16 import tensor_core_matmul
from examples.gpu.matmul_f32 import matmul
from examples.gpu.matmul_hopper import hopper_matmul
from examples.gpu.transpose import transpose
from examples.gpu.vector_add import vector_add
from tirlower.diagnostics import DeviceError
from tirlower.gpu.launch import Device, Event, device_of, empty, open_driver, to_device

ROUNDS = 31
CALLS = 10
"""Calls between two events: a mark costs some microseconds itself."""

OF_WGMMA = 0.62
"""The part of ``wgmma``'s rate that ``mma.sync`` reaches on Hopper at most (Luo et al., 2024: "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture")."""

Calls = dict[str, Callable[[], object]]


@dataclass(frozen=True)
class Row:
    """One line: what our kernel reached, of what, the part asked for, and what PyTorch's reached."""

    name: str
    ours: float
    peer: float
    unit: str
    of: str
    wanted: float = 0.0
    torch: float | None = None

    def __str__(self) -> str:
        part = self.ours / self.peer
        asked = f"; at least {self.wanted:.0%}" if self.wanted else ""
        beside = f", PyTorch {self.torch:.1f}" if self.torch is not None else ""
        verdict = "" if part >= self.wanted else "  BELOW"
        return f"{self.name:<28}{self.ours:>10.1f} {self.unit:<8}{part:>5.0%} of {self.of} ({self.peer:.1f}{asked}){beside}{verdict}"


def timed(device: Device, candidates: Calls) -> dict[str, float]:
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


def built(func: Any, device: Device, *options: str) -> Any:
    """A function built for a device."""
    arch = device.arch + ("a" if device.arch == "sm_90" else "")
    return tl.build(func, target=" ".join([f"nvptx -arch={arch}", *options]))


def _same(what: str, got: Any, want: Any, atol: float, rtol: float = 0.0) -> None:
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol, atol, err_msg=what)


def bandwidth(device: Device) -> list[Row]:
    """Kernels that the memory bounds, beside the best copy: the driver's, or ours."""
    rng = np.random.default_rng(0)
    n = 1 << 28
    side = 1 << 14
    host, other = rng.standard_normal(n, dtype=np.float32), rng.standard_normal(n, dtype=np.float32)
    x, y, z = to_device(host), to_device(other), empty((n,), "float32")
    a, b = to_device(host.reshape(side, side)), empty((side, side), "float32")
    scale, shift = host[:side], other[:side]
    gamma, beta = to_device(scale), to_device(shift)
    copied, add, turn = (built(f, device) for f in (copy(n), vector_add(n), transpose(side, side)))
    soft, norm = (built(make(side, side), device) for make in (softmaxes.softmax, layer_norms.layer_norm))
    ours: Calls = {
        "copy": lambda: copied(x, z),
        "elementwise (a + b)": lambda: add(x, y, z),
        "transpose 16384": lambda: turn(a, b),
        "softmax 16384": lambda: soft(a, b),
        "layer norm 16384": lambda: norm(a, gamma, beta, b),
    }
    some = slice(None, None, side // 16 - 1)
    matrix = host.reshape(side, side)
    rows = matrix[some]
    wanted: dict[str, tuple[Any, Any, float]] = {
        "copy": (lambda: z.numpy(), host, 0.0),
        "elementwise (a + b)": (lambda: z.numpy(), host + other, 0.0),
        "transpose 16384": (lambda: b.numpy()[some], matrix[:, some].T, 0.0),
        "softmax 16384": (lambda: b.numpy()[some], softmaxes.reference(rows), 1e-8),
        "layer norm 16384": (lambda: b.numpy()[some], layer_norms.reference(rows, scale, shift), 2e-5),
    }
    for name, (read, want, atol) in wanted.items():
        z.copy_from(np.full(n, np.nan, np.float32)), b.copy_from(np.full((side, side), np.nan, np.float32))
        ours[name]()
        _same(name, read(), want, atol)
    times = timed(device, {**ours, "driver": lambda: device.driver.copy_on_device(z.pointer, x.pointer, 4 * n, 0)})
    best = 8 * n / min(times["copy"], times["driver"]) / 1e6
    peers = _torch_bandwidth(device, n, side)
    moved = {
        "copy": (8, 0.95),
        "elementwise (a + b)": (12, 0.95),
        "transpose 16384": (8, 0.85),
        "softmax 16384": (8, 0.88),
        "layer norm 16384": (8, 0.88),
    }
    return [
        Row(name, size * n / times[name] / 1e6, best, "GB/s", "the best copy", part, size * n / peers[name] / 1e6 if peers else None)
        for name, (size, part) in moved.items()
    ]  # fmt: skip


def _torch_bandwidth(device: Device, n: int, side: int) -> dict[str, float]:
    """PyTorch's kernels for the same, where it is there."""
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    x, y, z = (torch.randn(n, device="cuda") for _ in range(3))
    a, b = x.view(side, side), z.view(side, side)
    gamma, beta = x[:side], y[:side]
    return timed(
        device,
        {
            "copy": lambda: z.copy_(x),
            "elementwise (a + b)": lambda: torch.add(x, y, out=z),
            "transpose 16384": lambda: b.copy_(a.t()),
            "softmax 16384": lambda: torch.softmax(a, 1, out=b),
            "layer norm 16384": lambda: torch.nn.functional.layer_norm(a, (side,), gamma, beta),
        },
    )


def products(device: Device) -> list[Row]:
    """Matrix products beside cuBLAS and attention beside PyTorch's, through PyTorch."""
    if importlib.util.find_spec("torch") is None:
        return []
    import torch

    torch.backends.cuda.matmul.allow_tf32 = False
    out = []
    n = 4096
    a, b = (torch.randn(n, n, device="cuda") for _ in range(2))
    c, d = torch.full_like(a, torch.nan), torch.empty_like(a)
    ours = built(matmul(n, n, n), device)
    ours(a, b, c)
    _same("f32 matmul", c.cpu(), torch.matmul(a.double(), b.double()).cpu(), 5e-3)
    times = timed(device, {"ours": lambda: ours(a, b, c), "cublas": lambda: torch.matmul(a, b, out=d)})
    out.append(_product("f32 matmul 4096", n, times, 0.85))

    n = 8192
    a, b = (torch.randn(n, n, device="cuda").bfloat16() for _ in range(2))
    c, d = torch.empty(n, n, device="cuda"), torch.empty_like(a)
    hopper = device.arch == "sm_90"
    candidates: Calls = {"cublas": lambda: torch.matmul(a, b, out=d)}
    makers = {"mma": tensor_core_matmul, **({"wgmma": hopper_matmul} if hopper else {})}
    for name, make in makers.items():
        kernel = built(make(n, n, n), device)
        kernel(a, b, c.fill_(torch.nan))
        want = torch.matmul(a.float(), b.float().t() if name == "wgmma" else b.float())
        _same(f"bf16 matmul, {name}", c.cpu(), want.cpu(), 0.05)
        candidates[name] = lambda kernel=kernel: kernel(a, b, c)  # type: ignore[misc]
    times = timed(device, candidates)
    for name, wanted in {"wgmma": 0.80, "mma": 0.80 * (OF_WGMMA if hopper else 1.0)}.items():
        if name in times:
            out.append(
                _product(f"bf16 matmul 8192, {name}", n, {"ours": times[name], "cublas": times["cublas"]}, wanted)
            )
    return [*out, *(_attention(device, causal) for causal in (False, True))]


def _product(name: str, n: int, times: dict[str, float], wanted: float) -> Row:
    rate = {who: 2 * n**3 / ms / 1e9 for who, ms in times.items()}
    return Row(name, rate["ours"], rate["cublas"], "TFLOP/s", "cuBLAS", wanted)


def _attention(device: Device, causal: bool) -> Row:
    import torch

    heads, length = 64, 4096
    q, k, v = (torch.randn(heads, length, D, device="cuda").bfloat16() for _ in range(3))
    o = torch.full_like(q, torch.nan)
    kernel = built(flash_attention(heads, length, causal=causal), device, "-fast-vector-math")
    attend = torch.nn.functional.scaled_dot_product_attention
    kernel(q, k, v, o)
    want = attend(q[None].float(), k[None].float(), v[None].float(), is_causal=causal)[0]
    _same("attention", o.float().cpu(), want.cpu(), 1e-2, 1e-2)
    times = timed(
        device,
        {"ours": lambda: kernel(q, k, v, o), "torch": lambda: attend(q[None], k[None], v[None], is_causal=causal)},
    )
    work = 4 * heads * length**2 * D / (2 if causal else 1) / 1e9
    return Row(
        f"attention{', causal' if causal else ''}", work / times["ours"], work / times["torch"], "TFLOP/s", "PyTorch's"
    )


def report() -> str:
    """The table, or why there is none."""
    try:
        device = device_of(0, open_driver())
    except DeviceError as error:
        return f"GPU kernels: not run: {error.message}"
    version = device.driver.version
    lines = [
        f"GPU kernels on {device.name} ({device.arch}, driver for CUDA {version // 1000}.{version % 1000 // 10}), "
        f"median of {ROUNDS} rounds"
    ]
    lines += [str(row) for row in (*bandwidth(device), *products(device))]
    return "\n".join([*lines, "", *launches(device)])
