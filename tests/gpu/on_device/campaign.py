"""Random programs on a real GPU: ``python -m tests.gpu.on_device.campaign --seed 0 --count 5000 --workers 8``.

Programs of :mod:`tests.generate` as they are scheduled for a GPU by default, against the interpreter; and kernels of
:mod:`tests.judge_threads`, against their texts run in step. ``--simulated`` takes the simulator for the GPU.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from typing import Any

import numpy as np

import tirlower as tl
from tests.checking import _copy
from tests.fuzz.oracle import Expected, Mismatch, _stored, arguments_for, main_of
from tests.generate.programs import generate
from tests.gpu.on_device.device import built, called
from tests.judge_threads.evaluate import NotRead, Outside, run_text
from tests.judge_threads.generate import generate as generate_kernel
from tests.judge_threads.judge import _arrays, _plain
from tirlower.diagnostics import InterpreterError, TirError
from tirlower.ir import IRModule, PrimFunc
from tirlower.script import parse

__all__ = ["KINDS", "run_kernel", "run_program"]

INEXACT = 1e-4
"""Of programs with elementary functions, whose last places are the GPU's own."""


def _on_device(program: PrimFunc | IRModule) -> Callable[..., Any]:
    """A call of a program's function ``main`` on copies in the GPU's memory; products are not fused with sums."""
    kernel = built(program, "-fast-math-contract=0", entry="main" if isinstance(program, IRModule) else None)
    return lambda *arguments: called(kernel, arguments)


def _simulated(program: PrimFunc | IRModule) -> Callable[..., Any]:
    """The same in the simulator, of what a build takes."""
    target = "nvptx -arch=sm_90a -fast-math-contract=0"
    tl.build(program, target=target)
    lowered = tl.lower(program, target)
    return lambda *arguments: tl.simulate(lowered, *arguments, name="main")


def run_program(seed: int, simulated: bool = False) -> str:
    """How the general program of a seed ended: ``"right"``, or why it was left out. Raises where the GPU differs."""
    program = generate(seed)
    func = parse(program.text)
    mod = func if isinstance(func, IRModule) else IRModule({"main": func})
    try:
        expected = Expected(mod, arguments_for(mod, seed, empty=program.empty))
    except InterpreterError:
        return "no meaning"
    try:
        call = (_simulated if simulated else _on_device)(main_of(mod))
    except TirError as error:
        return f"refused: {_plain(error.message)}"
    for arguments, wanted in zip(expected.arguments, expected.results, strict=True):
        copies = [_copy(a) for a in arguments]
        call(*_stored(main_of(mod), copies))
        expected.compare(arguments, wanted, copies, exact=False, slack=INEXACT if program.inexact else 0.0)
    return "right"


def run_kernel(seed: int, simulated: bool = False) -> str:
    """How the kernel of a seed ended, as :func:`run_program`."""
    kernel = generate_kernel(seed)
    want, got = _arrays(kernel), _arrays(kernel)
    try:
        truth = run_text(kernel.text, kernel.name, want)
    except (NotRead, Outside) as error:
        return f"left out: {type(error).__name__}"
    if "tir.unchecked" in kernel.text and (truth.races or truth.alike or truth.astray):
        return "left out: trusted"
    try:
        call = (_simulated if simulated else _on_device)(parse(kernel.text))
    except TirError as error:
        return f"refused: {_plain(error.message)}"
    call(*got)
    for name, x, y in zip("ACB", want, got, strict=True):
        if x.tobytes() != y.tobytes():
            at = int(np.flatnonzero(x != y)[0])
            raise Mismatch(f"{name}[{at}] is {y[at]}, wanted {x[at]}")
    return "right"


KINDS: dict[str, tuple[Callable[[int, bool], str], Callable[[int], Any]]] = {
    "programs": (run_program, generate),
    "kernels": (run_kernel, generate_kernel),
}


def _one(seed: int, kind: str, simulated: bool) -> tuple[str, str]:
    """How a seed ended, and what is wrong where something is."""
    run, make = KINDS[kind]
    try:
        return run(seed, simulated), ""
    except Exception as error:
        return "WRONG", f"{kind} {seed}: {type(error).__name__}: {str(error)[:1500]}\n{make(seed).text}"


def main(argv: Sequence[str] | None = None) -> int:
    """The command line; 1 where something differs."""
    options = argparse.ArgumentParser(prog="python -m tests.gpu.on_device.campaign", description=__doc__)
    options.add_argument("--seed", type=int, default=0, help="the first seed; the others follow it")
    options.add_argument("--count", type=int, default=1000, help="how many of each kind")
    options.add_argument("--workers", type=int, default=1, help="processes")
    options.add_argument("--seconds", type=float, default=float("inf"), help="of each kind, stop after this time")
    options.add_argument("--simulated", action="store_true", help="the simulator in place of a GPU")
    given = options.parse_args(argv)
    wrong = 0
    for kind in KINDS:
        counts: Counter[str] = Counter()
        start = time.monotonic()
        one = partial(_one, kind=kind, simulated=given.simulated)
        with ProcessPoolExecutor(given.workers, mp_context=mp.get_context("spawn")) as pool:
            for run in as_completed([pool.submit(one, given.seed + k) for k in range(given.count)]):
                how, what = run.result()
                counts[how] += 1
                if what:
                    print(what, flush=True)
                if time.monotonic() - start > given.seconds:
                    pool.shutdown(wait=False, cancel_futures=True)
                    break
        wrong += counts["WRONG"]
        print(f"{counts.total()} {kind} in {time.monotonic() - start:.0f} s: {counts['WRONG']} wrong")
        for how, number in counts.most_common():
            print(f"{number:8} {how}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
