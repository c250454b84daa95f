"""A stand-in for the clock that any process can import: what a plan takes is told by its text, and is the same everywhere."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time

import numpy as np

from tirlower.ir import IRModule, PrimFunc
from tirlower.ir.packed import Packed
from tirlower.machine.target import Target
from tirlower.script import parse
from tirlower.transforms import PassContext
from tirlower.tuning.job import Job, Outcome, Plan, inputs_of
from tirlower.tuning.space import Candidate, Space

TARGET = "llvm -mcpu=x86-64-v3 -mcache=32K,512K,32M -num_threads=1"
"""A processor for which plans are the same on any machine."""

TRANSPOSE = """
def f(A: T.Buffer((256, 128), "float32"), B: T.Buffer((128, 256), "float32")):
    for i, j in T.grid(128, 256):
        B[i, j] = A[j, i]
"""
PRODUCT = """
def f(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    for i, j in T.grid(64, 64):
        C[i, j] = T.float32(0)
        for k in range(64):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""


def transposed() -> tuple[PrimFunc, list[np.ndarray]]:
    return parse(TRANSPOSE), [np.zeros((256, 128), "float32"), np.zeros((128, 256), "float32")]


def product() -> tuple[PrimFunc, list[np.ndarray]]:
    return parse(PRODUCT), [np.zeros((64, 64), "float32") for _ in range(3)]


def told_by_text(job: Job) -> list[Outcome]:
    """Half to twice the base's time, by the digest of the trace."""
    parts = [hashlib.blake2b(plan.trace.encode(), digest_size=2).digest() for plan in job.plans]
    return [Outcome(1e-3 * (0.5 + int.from_bytes(part, "little") / 43690), 1e-3) for part in parts]


def never_faster(job: Job) -> list[Outcome]:
    return [Outcome(1.1e-3, 1e-3) for _ in job.plans]


def space_of(func: PrimFunc, target: str = TARGET) -> tuple[Space, Candidate]:
    space = Space(IRModule({func.name: func}), Target(target), PassContext().choices["config"])
    return space, space.candidate({}, "base")


def job_of(func: PrimFunc, arrays: list[np.ndarray], plans: list[Plan], base: Plan, limit: float = 60.0) -> Job:
    mod = IRModule({func.name: func.with_attr("global_symbol", func.name)})
    choices = PassContext().choices
    return Job(
        Packed(mod),
        Target("llvm -num_threads=1"),
        choices,
        (),
        base,
        tuple(plans),
        inputs_of(arrays, {}),
        3,
        1e-5,
        limit,
    )


def faulty() -> None:
    """What a process of the tuner does, but that plans of some names are not measured: they crash, hang, or end."""
    from tirlower.tuning import process

    real = process._Call.measured

    def measured(call: process._Call, plan: Plan) -> Outcome:
        if plan.trace == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if plan.trace == "hang":
            time.sleep(3600)
        if plan.trace == "end":
            print("last words", file=sys.stderr, flush=True)
            os._exit(3)
        if plan.trace == "print":
            print("words that are no answer", flush=True)
            return Outcome(1.0, 2.0)
        return real(call, plan)

    process._Call.measured = measured  # type: ignore[method-assign]
    process.serve()
