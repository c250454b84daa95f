"""What a call of a kernel costs the processor, by the kind of its arguments."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tirlower as tl
from examples.gpu.matmul_hopper import hopper_matmul
from examples.gpu.vector_add import vector_add
from tirlower.gpu.launch import Device, Event, Stream, empty, to_device
from tirlower.script import tir as T

ROUNDS = 31
CALLS = 200
N = 1024


def _repeated(times: int) -> tl.ir.PrimFunc:
    """One call that launches a kernel again and again: what the driver takes."""

    @T.prim_func
    def repeated(A: T.Buffer((N,), "float32"), B: T.Buffer((N,), "float32"), C: T.Buffer((N,), "float32")):
        T.func_attr({"tir.noalias": True})
        for _ in range(times):
            for tx in T.thread_binding(N, thread="threadIdx.x"):
                C[tx] = A[tx] + B[tx]

    return repeated


@T.prim_func
def _symbolic(a: T.handle, b: T.handle, c: T.handle):
    T.func_attr({"tir.noalias": True})
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for bx in T.thread_binding((n + 255) // 256, thread="blockIdx.x"):
        for tx in T.thread_binding(256, thread="threadIdx.x"):
            if bx * 256 + tx < n:
                C[bx * 256 + tx] = A[bx * 256 + tx] + B[bx * 256 + tx]


class Foreign:
    """An array of another library, known by ``__cuda_array_interface__`` alone."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = {**array.__cuda_array_interface__, "stream": None}


def _microseconds(device: Device, call: Callable[[], object], calls: int = CALLS) -> float:
    call()
    Event(device).wait()
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        rounds.append((time.perf_counter() - start) / calls * 1e6)
        device.driver.synchronize()
    return statistics.median(rounds)


def launches(device: Device) -> list[str]:
    """A line for each kind of call; bounds in microseconds where there are some."""
    target = f"nvptx -arch={device.arch}{'a' if device.arch == 'sm_90' else ''}"
    a, b, c, d, e, f = (to_device(np.ones(N, np.float32)) for _ in range(6))
    times = 1000
    repeated, static = tl.build(_repeated(times), target=target), tl.build(vector_add(N), target=target)
    symbolic, made = tl.build(_symbolic, target=target), tl.build(vector_add(N), target=target, outputs=["C"])
    other = Stream(device)
    here = [Foreign(x) for x in (a, b, c)]
    turn = [0]

    def alternating() -> None:
        turn[0] ^= 1
        static(*((a, b, c) if turn[0] else (d, e, f)))

    def another() -> None:
        turn[0] ^= 1
        static(a, b, c, stream=other if turn[0] else None)

    cases: list[tuple[str, Callable[[], object], float | None]] = [
        ("static shapes", lambda: static(a, b, c), 4.0),
        ("symbolic shapes", lambda: symbolic(a, b, c), 4.0),
        ("alternating arrays", alternating, 4.0),
        ("__cuda_array_interface__", lambda: static(*here), 4.0),
        ("an output allocated", lambda: made(a, b), 7.0),
        ("arguments of another stream", another, 7.0),
    ]
    if device.arch == "sm_90":
        product = tl.build(hopper_matmul(64, 64, 64, BM=64, BN=64), target=target)
        left, right, out = empty((64, 64), "bfloat16"), empty((64, 64), "bfloat16"), empty((64, 64), "float32")
        cases.append(("tile descriptors", lambda: product(left, right, out), 4.0))
    if importlib.util.find_spec("torch") is not None:
        import torch

        x, y, z = (torch.ones(N, device="cuda") for _ in range(3))
        cases.append(("PyTorch's tensors", lambda: static(x, y, z), None))
        cases.append(("(PyTorch's own a + b)", lambda: torch.add(x, y, out=z), None))
    alone = _microseconds(device, lambda: repeated(a, b, c), 1) / times
    lines = [f"microseconds of a launch; the driver alone {alone:.2f}"]
    for name, call, most in cases:
        took = _microseconds(device, call)
        bound = f"at most {most:.0f}{'' if took <= most else '  ABOVE'}" if most is not None else ""
        lines.append(f"{name:<32}{took:>8.2f}   {bound}".rstrip())
    return lines
