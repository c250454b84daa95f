"""The half of :mod:`bench.revisions` that runs in a checkout: builds the corpus there, then times what it is told to.

Run by path with the checkout first on ``PYTHONPATH``, so that it measures that checkout, whatever its age. Lines of
JSON in and out: ``{"build": name}`` answers what the build proved and what its innermost loops are made of;
``{"time": name, "calls": n}`` answers the seconds of n calls.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tirlower as tl
from tests.kernels.corpus import CORPUS
from tirlower.llvm.machine_loops import machine_loops

_DECIDES = re.compile(r"\s*(?:j\w+|cmp\w*|test\w*|v?u?comis\w+)\s")


_PAGE = 4096


def placed(args: list[Any]) -> list[Any]:
    """The arguments, with arrays at the same addresses within a page in every process: loops of loads and stores take up to
    half as long again where the two meet in their lower 12 bits."""
    made: dict[int, np.ndarray] = {}
    for arg in args:
        if isinstance(arg, np.ndarray) and arg.base is None and arg.flags.c_contiguous and id(arg) not in made:
            room = np.empty(arg.nbytes + 2 * _PAGE, np.uint8)
            start = -room.ctypes.data % _PAGE + 64 * (5 * len(made) + 1)
            made[id(arg)] = room[start : start + arg.nbytes].view(arg.dtype).reshape(arg.shape)
            made[id(arg)][...] = arg
    return [made.get(id(arg), arg) for arg in args]


class Worker:
    """The corpus as built in this checkout."""

    def __init__(self) -> None:
        self.calls: dict[str, tuple[Callable[..., Any], list[Any]]] = {}

    def build(self, name: str) -> dict[str, Any]:
        """Build a kernel at its largest size; what was proved, and per innermost loop its instructions and decisions."""
        one = CORPUS[name]
        size = (*one.sizes, *one.large)[-1]
        program = one.program(size)
        start = time.perf_counter()
        made = tl.build(program, "llvm -num_threads=1")
        seconds = time.perf_counter() - start
        kernel = made[one.entry] if one.entry is not None else made
        self.calls[name] = (kernel, placed(one.make(size)))
        checks = kernel.artifact.checks
        loops = machine_loops(kernel.source("asm"))
        return {
            "text": program.script(),
            "seconds": seconds,
            "proved": sum(checks.proved.values()),
            "guarded": [note.access for note in checks.guarded],
            "assumed": len(checks.assumed),
            "trusted": len(checks.trusted),
            "loops": [[loop.instructions, sum(bool(_DECIDES.match(line)) for line in loop.lines)] for loop in loops],
        }

    def time(self, name: str, calls: int) -> float:
        """Seconds of a number of calls."""
        fn, args = self.calls[name]
        start = time.perf_counter()
        for _ in range(calls):
            fn(*args)
        return time.perf_counter() - start


def main() -> None:
    """Answer until the input ends."""
    worker = Worker()
    print(json.dumps(list(CORPUS)), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer: Any = (
                worker.build(asked["build"]) if "build" in asked else worker.time(asked["time"], asked["calls"])
            )
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
