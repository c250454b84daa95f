"""What a call of a kernel takes on a real device, the driver's part included: the cases of :mod:`bench.launches`."""

from __future__ import annotations

import importlib.util
import statistics
import time

import tirlower as tl
from bench.launches import CASES
from bench.measure import Call, Candidate, run
from examples.gpu.vector_add import vector_add
from tirlower.gpu.launch import Device, to_device
from tirlower.script import tir as T

ROUNDS = 51
CALLS = 100
"""The calls of a round, behind which the device is waited for: fewer than the launches that it lets wait."""
N = 1024
MOST_US = {"static": 4, "symbolic": 4, "alternating": 4, "descriptors": 4, "interface": 4, "output": 7, "stream": 7}


def _repeated(times: int) -> tl.ir.PrimFunc:
    """One call that launches a kernel again and again: what the driver takes."""

    @T.prim_func
    def repeated(A: T.Buffer((N,), "float32"), B: T.Buffer((N,), "float32"), C: T.Buffer((N,), "float32")):
        T.func_attr({"tir.noalias": True})
        for _ in range(times):
            for tx in T.thread_binding(N, thread="threadIdx.x"):
                C[tx] = A[tx] + B[tx]

    return repeated


def _microseconds(device: Device, calls: dict[str, tuple[Candidate, int]]) -> dict[str, float]:
    """The median of a launch, the candidates in turns; each is a call and the launches in it."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for call, _ in calls.values():
        call()
    for _ in range(ROUNDS):
        for name, (call, launches) in calls.items():
            device.driver.synchronize()
            call()
            count = max(1, CALLS // launches)
            found[name].append(run(call, count, time.perf_counter) / (count * launches) * 1e6)
    device.driver.synchronize()
    return {name: statistics.median(times) for name, times in found.items()}


def launches(device: Device) -> list[str]:
    """A line for each kind of call, with what is asked of it."""
    import numpy as np

    calls: dict[str, tuple[Candidate, int]] = {}
    target = f"nvptx -arch={device.arch}"
    repeated = tl.build(_repeated(CALLS), target=target)
    given = [to_device(np.ones(N, np.float32)) for _ in range(3)]
    calls["the driver alone"] = Call(repeated, tuple(given)), CALLS
    for case, (what, make) in CASES.items():
        if (
            (case == "devices" and device.driver.device_count == 1)
            or (case == "descriptors" and device.arch != "sm_90")
            or case == "tensors"  # the stand-in's own; PyTorch's follow
        ):
            continue
        calls[what] = make()
    if importlib.util.find_spec("torch") is not None:
        import torch

        kernel = tl.build(vector_add(N), target=target)
        x, y, z = (torch.ones(N, device="cuda") for _ in range(3))
        calls["tensors of PyTorch"] = Call(kernel, (x, y, z)), 1
        calls["(PyTorch's own sum of them)"] = (lambda: torch.add(x, y, out=z)), 1
    most = {CASES[case][0]: bound for case, bound in MOST_US.items()}
    lines = ["microseconds of a launch, of which the driver's call is the first line"]
    for name, took in _microseconds(device, calls).items():
        bound = f"at most {most[name]}{'' if took <= most[name] else '  ABOVE'}" if name in most else ""
        lines.append(f"{name:<40}{took:>8.2f}   {bound}".rstrip())
    return lines
