"""The half of :mod:`bench.revisions` that runs in a checkout: builds the corpus there, then runs what it is told to.

Run by path with the checkout first on ``PYTHONPATH``, so that it measures that checkout, whatever its age. Lines of
JSON in and out: ``{"build": name}`` answers what the build proved and what its innermost loops are made of;
``{"count": name}`` the instructions and decisions that a call executes; ``{"time": name, "calls": n}`` the seconds of
n calls.
"""

from __future__ import annotations

import ctypes
import inspect
import json
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import llvmlite.binding as llvm
import numpy as np

import tirlower as tl
from tests.kernels.corpus import CORPUS
from tirlower.emit import compile as llvm_compile
from tirlower.llvm.machine_loops import machine_loops

#: x86's conditional jumps, and the compares of scalars: a vector's compare makes a mask, which decides nothing
_DECIDES = re.compile(r"\s*(?:j(?!mp)\w+|cmp\w*|test\w*|v?u?comis\w+)\s")
_JUMPS_MAYBE = re.compile(r"\s*j(?!mp)\w+\s")
_LABEL = re.compile(r"^(\.?[\w.$]+):")
#: what is no kernel: the entries from Python and from C
_ENTRIES = (".entry", ".packed")


@dataclass
class _Block:
    """Instructions that run one after another, and how often they did."""

    function: str
    instructions: int = 0
    decisions: int = 0
    runs: Any = field(default_factory=ctypes.c_int64)


#: the cells of every counter: what kernels share (the thread pool, scratch memory) may be built with some, and runs on
_CELLS: list[object] = []
#: code generation is what revisions are compared by; old ones know no schedules
_AS_WRITTEN: dict[str, Any] = {"schedule": "none"} if "schedule" in inspect.signature(tl.build).parameters else {}


class Counted:
    """While it is entered, builds make machine code that counts how often each of its blocks runs."""

    def __init__(self) -> None:
        self.blocks: list[_Block] = []
        self._saved = ctypes.c_int64()
        _CELLS.append(self._saved)

    def __enter__(self) -> Counted:
        llvm.initialize_native_asmparser()
        self._emit = llvm_compile._emit
        llvm_compile._emit = self._counting  # type: ignore[assignment]
        return self

    def __exit__(self, *error: object) -> None:
        llvm_compile._emit = self._emit

    def executed(self) -> list[int]:
        """The instructions and the decisions that ran in functions that are no entries."""
        ran = [(b, b.runs.value) for b in self.blocks if not b.function.endswith(_ENTRIES)]
        return [sum(b.instructions * n for b, n in ran), sum(b.decisions * n for b, n in ran)]

    def _counting(self, action: Callable[[Any], Any], module: Any) -> Any:
        machine = getattr(action, "__self__", None)
        if machine is None or action.__name__ != "emit_object":
            return self._emit(action, module)
        lines = self._instrumented(self._emit(machine.emit_assembly, module).splitlines())
        quoted = [line.replace("\\", "\\5C").replace('"', "\\22").replace("\t", "\\09") for line in lines]
        counting = llvm.parse_assembly("\n".join(f'module asm "{line}"' for line in quoted))
        counting.triple = module.triple
        return machine.emit_object(counting)

    def _instrumented(self, lines: list[str]) -> list[str]:
        """The lines of a module with a counter at each label and behind each conditional jump of its code."""
        out: list[str] = []
        code, function = True, ""
        for line in lines:
            text = line.split("#", 1)[0].strip()
            out.append(line)
            label = _LABEL.match(text)
            if text.startswith((".text", ".section", ".data", ".bss")):
                code = ".text" in text
            elif code and label:
                function = function if label[1].startswith(".L") else label[1]
                out += self._counter(function)
            elif code and text and not text.startswith("."):
                self.blocks[-1].instructions += 1
                self.blocks[-1].decisions += bool(_DECIDES.match(line))
                if _JUMPS_MAYBE.match(line):
                    out += self._counter(function)
        return out

    def _counter(self, function: str) -> list[str]:
        """One more run of a new block; neither a register nor a flag is changed."""
        self.blocks.append(_Block(function))
        _CELLS.append(self.blocks[-1].runs)
        saved, runs = (hex(ctypes.addressof(cell)) for cell in (self._saved, self.blocks[-1].runs))
        count = (f"movabsq {runs}, %rax", "leaq 1(%rax), %rax", f"movabsq %rax, {runs}")
        return [f"\t{line}" for line in (f"movabsq %rax, {saved}", *count, f"movabsq {saved}, %rax")]


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
        start = time.thread_time()
        kernel = self._kernel(name, size)
        seconds = time.thread_time() - start
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

    def _kernel(self, name: str, size: Any) -> Any:
        one = CORPUS[name]
        made: Any = tl.build(one.program(size), "llvm -num_threads=1", **_AS_WRITTEN)
        return made[one.entry] if one.entry is not None else made

    def count(self, name: str) -> list[int]:
        """The instructions and the decisions that a call at the largest size executes."""
        one = CORPUS[name]
        size = (*one.sizes, *one.large)[-1]
        with Counted() as counted:
            kernel = self._kernel(name, size)
        kernel(*placed(one.make(size)))
        return counted.executed()

    def time(self, name: str, calls: int) -> float:
        """Seconds of a number of calls, of the processor: what else the machine does takes turns away from neither."""
        fn, args = self.calls[name]
        start = time.thread_time()
        for _ in range(calls):
            fn(*args)
        return time.thread_time() - start


def main() -> None:
    """Answer until the input ends."""
    worker = Worker()
    print(json.dumps(list(CORPUS)), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            answer: Any
            if "build" in asked:
                answer = worker.build(asked["build"])
            elif "count" in asked:
                answer = worker.count(asked["count"])
            else:
                answer = worker.time(asked["time"], asked["calls"])
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
