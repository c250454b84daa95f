"""What explicit vectors and annotated loops become, each beside the form that it is meant to beat."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import tirlower as tl
from bench.measure import Candidate, interleave, table
from tirlower.script import parse


def _builder(text: str) -> Candidate:
    func = parse(text)
    return lambda: tl.build(func, "llvm -num_threads=1")


def heads(note: str = "") -> str:
    """Eight heads around loops that stay: LLVM would make eight copies of these, as ``note`` asks it to."""
    return f"""
@T.prim_func
def heads(A: T.Buffer((8, 512, 512), "float32"), B: T.Buffer((8, 512, 512), "float32")):
    T.func_attr({{"tir.noalias": True}})
    for h in T.serial(8, annotations={{{note}}}):
        for i in range(512):
            s = T.float32(0)
            for j in range(512):
                s = s + T.exp(A[h, i, j])
            for j in range(512):
                B[h, i, j] = T.exp(A[h, i, j]) / s
"""


def nests() -> dict[str, Candidate]:
    """Builds of a nest as it stands, and with its outer loop unrolled."""
    return {"tirlower": _builder(heads()), "eight copies": _builder(heads('"pragma_unroll": 8'))}


ROWS: dict[str, Callable[[], dict[str, Candidate]]] = {"building loops around loops": nests}


def report(rounds: int = 15) -> str:
    """The table."""
    os.environ["TIRLOWER_CACHE"] = "0"
    timings = {name: interleave(make(), rounds, clock=time.thread_time) for name, make in ROWS.items()}
    return table("vectors (CPU time, median; above 1x: tirlower is faster)", timings)
