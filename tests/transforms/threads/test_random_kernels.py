"""Random kernels and loop nests: the passes over thread axes keep what the interpreter computes."""

from __future__ import annotations

import random

import pytest

from tests.checking import check, executes_alike
from tirlower.ir import IRModule
from tirlower.ir.verify import verify_well_formed
from tirlower.machine.target import Target
from tirlower.script import parse
from tirlower.transforms import (
    AnnotateDeviceRegions,
    DefaultGPUSchedule,
    LiftThreadBinding,
    LowerDeviceKernelLaunch,
    Sequential,
    SplitHostDevice,
    UnifyThreadBinding,
)

AXES = {"threadIdx.x": 4, "threadIdx.y": 6}
HEAD = '@T.prim_func\ndef f(A: T.Buffer((8, 8), "int32"), B: T.Buffer((8, 8), "int32"), n: T.int32):\n'


class _Writer:
    """Writes the script of a random program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.count = 0

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def kernel(self, indent: int, axes: dict[str, str], serial: list[str], depth: int) -> None:
        """Thread loops of two axes, nested in themselves and each other, among loops, conditions and stores."""
        choose = self.random.random
        for _ in range(self.random.randint(1, 3)):
            kind = choose() if depth else 1.0
            if kind < 0.55:
                tag, name = self.random.choice(list(AXES)), self.name()
                low = self.random.choice([0, 0, 0, 1, 2])
                note = ', annotations={"x": 1}' if choose() < 0.1 else ""
                self.line(indent, f'for {name} in T.thread_binding({low}, {AXES[tag] + low}, thread="{tag}"{note}):')
                self.kernel(indent + 1, {**axes, tag: f"{name} - {low}"}, serial, depth - 1)
            elif kind < 0.7:
                name = self.name()
                self.line(indent, f"for {name} in range({self.random.randint(1, 3)}):")
                self.kernel(indent + 1, axes, [*serial, name], depth - 1)
            elif kind < 0.78:
                self.line(indent, f"if n > {self.random.randint(0, 6)}:")
                self.kernel(indent + 1, axes, serial, depth - 1)
            else:
                place = ", ".join(axes.get(tag) or str(self.random.randint(0, 3)) for tag in AXES)
                value = self.random.choice([f"B[{place}] * 2", f"A[{place}] + 1", "n", "7", serial[-1]])
                self.line(indent, f"A[{place}] = {value}")

    def nest(self, indent: int, loops: list[str], depth: int) -> None:
        """Loops, some with extents of their own, around stores at random places."""
        for _ in range(self.random.randint(1, 2)):
            kind = self.random.random() if depth else 1.0
            if kind < 0.75:
                name = self.name()
                extents = ["1", "2", "3", "4", "n % 4 + 1"] + ([f"{loops[-1]} + 1"] if len(loops) == 1 else [])
                self.line(indent, f"for {name} in range({self.random.choice(extents)}):")
                self.nest(indent + 1, [*loops, name], depth - 1)
            elif kind < 0.85:
                self.line(indent, f"if n > {self.random.randint(0, 6)}:")
                self.nest(indent + 1, loops, depth - 1)
            else:
                places = ["3", *loops, *(f"7 - {v}" for v in loops), *(f"({v} + 1) % 8" for v in loops)]
                target, source = (
                    f"{self.random.choice('AB')}[{self.random.choice(places)}, {self.random.choice(places)}]"
                    for _ in range(2)
                )
                self.line(indent, f"{target} = {source} + {self.random.choice([*loops, '1', 'n'])}")


@pytest.mark.parametrize("seed", range(20))
def test_kernels(seed: int) -> None:
    writer = _Writer(seed)
    writer.line(1, 'for bx in T.thread_binding(2, thread="blockIdx.x"):')
    writer.kernel(2, {}, ["bx"], 4)
    func = parse(HEAD + "\n".join(writer.lines))
    check(UnifyThreadBinding(), func, samples=2)
    check(LiftThreadBinding(), func, samples=2)


@pytest.mark.parametrize("seed", range(20))
def test_nests_to_launches(seed: int) -> None:
    writer = _Writer(seed)
    writer.nest(1, [], 4)
    func = parse(HEAD + "\n".join(writer.lines)).with_attr(
        {"target": Target("cuda", host="llvm", max_num_threads=3), "global_symbol": "main"}
    )
    scheduled = check(DefaultGPUSchedule(), func, samples=2)
    steps = Sequential([AnnotateDeviceRegions(), SplitHostDevice(), LowerDeviceKernelLaunch()])
    launched = steps(IRModule({"main": scheduled}))
    verify_well_formed(launched)
    executes_alike(IRModule({"main": func}), launched, samples=2)
