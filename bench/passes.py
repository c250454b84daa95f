"""What each pass, parsing, printing and code generation cost as a function grows."""

from __future__ import annotations

import time

import tirlower as tl
from tirlower.diagnostics import paused_collection
from tirlower.driver.pipelines import pipeline_for
from tirlower.ir import IRModule
from tirlower.ir.func import PrimFunc
from tirlower.llvm.codegen import generate
from tirlower.machine.target import Target
from tirlower.rewrite.base import run_pass
from tirlower.script import parse


def straight_line(count: int) -> str:
    """A script of ``count`` stores in sequence."""
    head = f'@T.prim_func\ndef main(A: T.Buffer(({count},), "float32"), B: T.Buffer(({count},), "float32")):\n'
    return head + "".join(f"    B[{i}] = A[{i}] * T.float32({i % 7 + 1}) + T.float32(1)\n" for i in range(count))


def loops(count: int) -> str:
    """A script of ``count`` loops in sequence."""
    head = '@T.prim_func\ndef main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):\n'
    return head + "".join(f"    for i in range(16):\n        B[i] = A[i] + T.float32({i % 7})\n" for i in range(count))


def _timed(fn):
    start = time.perf_counter()
    value = fn()
    return value, time.perf_counter() - start


def costs(text: str, *, codegen: bool = True) -> dict[str, float]:
    """Seconds of parsing, each pass, and our share of code generation."""
    func, seconds = _timed(lambda: parse(text))
    found = {"parse": seconds}
    assert isinstance(func, PrimFunc)
    _, found["print"] = _timed(lambda: func.script())
    mod = IRModule({"main": func})
    target = Target("llvm")
    ctx = tl.PassContext()
    total = 0.0
    for step in pipeline_for(target):
        after, seconds = _timed(lambda step=step, mod=mod: run_pass(step.pass_, mod, ctx))
        if step.enabled(ctx):
            mod = after
            total += seconds
            found[step.name] = found.get(step.name, 0.0) + seconds
        else:
            found[f"({step.name}: by option or level)"] = seconds
    found["all passes"] = total
    if codegen:
        with paused_collection():
            _, found["code generation (ours)"] = _timed(lambda: generate(mod, target).text)
    return found


def report(sizes: tuple[int, ...] = (1_000, 10_000)) -> str:
    """A table of milliseconds by size, with the growth from one size to the next."""
    blocks = []
    for title, make in (("statements in sequence", straight_line), ("loops in sequence", loops)):
        columns = [costs(make(size)) for size in sizes]
        lines = [f"{title} (ms; growth from size to size)", f"{'':<44}" + "".join(f"{size:>20,}" for size in sizes)]
        for name in columns[0]:
            cells = []
            for i, column in enumerate(columns):
                growth = f" ({column[name] / max(columns[i - 1][name], 1e-9):.1f}x)" if i else ""
                cells.append(f"{f'{column[name] * 1e3:.1f}{growth}':>20}")
            lines.append(f"{name:<44}" + "".join(cells))
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)
