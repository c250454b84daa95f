"""Random programs through the passes that follow values through buffers: loops that fill, test, assume and overwrite."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.checking import executes_alike, roundtrips
from tests.sampling import by_day
from tirlower.ir import PrimFunc
from tirlower.ir.verify import verify_well_formed
from tirlower.script import parse
from tirlower.transforms import (
    ReduceBranchingThroughOvercompute,
    RemoveAssume,
    RemoveNoOp,
    Sequential,
    Simplify,
    UseAssumeToReduceBranches,
)


class Generator:
    """Writes a program over vectors of 16; assumptions follow the loops that make them true."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.buffers = ["A", "B"]
        self.count = 0
        self.lines: list[str] = []

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def buffer(self) -> str:
        return self.rng.choice(self.buffers)

    def condition(self, i: str) -> str:
        c = self.rng.randint(0, 16)
        return self.rng.choice(
            [
                f"{i} < {c}", f"{i} >= {c}", f"{i} == {c}", f"{i} != {c}", f"{i} < n", f"not ({i} < {c})",
                f"{i} >= {c} and {i} < {c + 3}", f"T.likely({i} < {c})", f"n < {c}", f"{self.buffer()}[{i}] == {c % 2}",
            ]
        )  # fmt: skip

    def value(self, i: str, here: str) -> str:
        if self.rng.random() < 0.3:
            return self.rng.choice(
                [f"{here} + {i}", f"{here} + {self.buffer()}[{i}]", here, f"{here} + 0 * {i}", f"T.max({here}, 0)"]
            )
        at, test, number = f"{self.buffer()}[{i}]", self.condition(i), self.rng.randint(0, 1)
        return self.rng.choice(
            [
                "0", "1", "0", i, at, f"{at} * 2", f"T.if_then_else({test}, {at}, 0)", f"E[{i} % 4, {i} % 8]",
                f"T.if_then_else({test}, {at} * 3, {number * 3})", f"T.Select({test}, {i}, {at})",
            ]
        )  # fmt: skip

    def loop(self, depth: int) -> tuple[str, int, bool]:
        """Open a loop or two: the index, the depth inside, whether iterations run in order."""
        rng, kind = self.rng, self.rng.random()
        i, j = self.name("i"), self.name("j")
        if kind < 0.6:
            how = rng.choice(["serial"] * 6 + ["parallel", "unroll", "vectorized"])
            start = rng.choice([0, 0, 0, 2])
            self.line(depth, f"for {i} in T.{how}({start}, {rng.choice([16, 16, 12, 'n', start])}):")
            return i, depth + 1, how not in ("parallel", "vectorized")
        if kind < 0.8:
            self.line(depth, f"for {i}, {j} in T.grid(4, 4):")
            return f"({i} * 4 + {j})", depth + 1, True
        self.line(depth, f"for {j} in range({rng.choice([2, 0, 3])}):")
        self.line(depth + 1, f"for {i} in range(16):")
        return i, depth + 2, True

    def work(self, depth: int) -> None:
        rng = self.rng
        i, depth, ordered = self.loop(depth)
        for _ in range(rng.choice([1, 1, 1, 2])):
            x = self.buffer()
            if not ordered:
                here = f"{x}[{i}]"
                value = rng.choice(["0", "1", i, here, f"{here} + {i}", f"T.if_then_else({i} < 9, {here}, 0)"])
                self.line(depth, f"{here} = {value}")
                continue
            others = [f"{x}[{i} // 2]", f"{x}[15 - {i}]", f"{x}[({i} + 1) % 16]", f"{x}[0]"]
            here = rng.choice([f"{x}[{i}]"] * 5 + others)
            value = self.value(i, here)
            if rng.random() < 0.5:
                self.line(depth, f"{here} = {value}")
                continue
            self.line(depth, f"if {self.condition(i)}:")
            self.line(depth + 1, f"{here} = {value}")
            if rng.random() < 0.3:
                self.line(depth, "else:")
                self.line(depth + 1, f"{here} = {rng.choice([value, self.value(i, here)])}")

    def padding(self, depth: int) -> None:
        rng = self.rng
        x, c, v, i = self.buffer(), rng.randint(8, 16), rng.choice([0, 0, 3]), self.name("i")
        self.line(depth, f"for {i} in range(16):")
        self.line(depth + 1, f"if {i} >= {c}:")
        self.line(depth + 2, f"{x}[{i}] = {v}")
        self.line(depth, f"for {i} in range(16):")
        self.line(depth + 1, f"T.evaluate(T.assume({i} < {c} or {x}[{i}] == {v}))")
        y = self.buffer()
        self.line(depth, f"for {i} in range({rng.choice([16, 16, 'n'])}):")
        if rng.random() < 0.6:
            self.line(depth + 1, f"{y}[{i}] = T.if_then_else({i} < {c}, {x}[{i}] * 2 + 1, {v * 2 + 1})")
        else:
            self.line(depth + 1, f"{y}[{i}] = {y}[{i}] + T.if_then_else({i} < {c}, {x}[{i}], {v})")

    def single(self, depth: int) -> None:
        rng = self.rng
        value = rng.choice(["0", "1", "n", f"{self.buffer()}[{rng.randint(0, 3)}]", f"{self.buffer()}[2] + 1"])
        self.line(depth, f"{self.buffer()}[{rng.randint(0, 3)}] = {value}")

    def branch(self, depth: int) -> None:
        rng = self.rng
        test = rng.choice([f"{self.buffer()}[{rng.randint(0, 3)}] == {rng.randint(0, 1)}", f"n < {rng.randint(0, 9)}"])
        self.line(depth, f"if {test}:")
        kept = list(self.buffers)
        self.statement(depth + 1)
        self.buffers = kept

    def temporary(self, depth: int) -> None:
        name, i = self.name("C"), self.name("i")
        self.line(depth, f"{name} = T.alloc_buffer((16,), 'int32')")
        self.line(depth, f"for {i} in range(16):")
        self.line(depth + 1, f"{name}[{i}] = {self.rng.choice(['0', i, f'A[{i}]'])}")
        self.buffers.append(name)

    def binding(self, depth: int) -> None:
        i, a, x = self.name("i"), self.name("x"), self.buffer()
        self.line(depth, f"for {i} in range(16):")
        self.line(depth + 1, f"{a}: T.int32 = {self.buffer()}[{i}]")
        self.line(depth + 1, f"{x}[{i}] = {a} * {self.rng.choice([1, 2])}")
        self.line(depth + 1, f"B[{i}] = {x}[{i}] + {a}")

    def repeat(self, depth: int) -> None:
        x = self.buffer()
        self.line(depth, f"while {x}[0] > 3:")
        self.line(depth + 1, f"{x}[0] = {x}[0] // 2")
        self.line(depth + 1, f"{self.buffer()}[1] = 0")

    def vector(self, depth: int) -> None:
        """Vectors are stored to a run of elements, spread or reversed, once or in a loop, and asked about one by one."""
        rng, x, i = self.rng, self.buffer(), self.name("i")
        lanes, stride = rng.choice([(4, 1), (4, 1), (2, 1), (4, 2), (4, -1), (16, 1)])
        value = rng.choice([f"T.Broadcast({rng.randint(0, 1)}, {lanes})", f"T.Ramp({rng.choice([0, 11])}, 1, {lanes})",
                            f"T.Ramp(n, 2, {lanes}) + T.Broadcast(1, {lanes})",
                            f"T.Ramp(2147483646, 1, {lanes})"])  # fmt: skip
        first = 0 if stride > 0 else lanes - 1
        if lanes < 16 and rng.random() < 0.6:
            self.line(depth, f"for {i} in range({16 // lanes if stride == 1 else 2}):")
            step = rng.choice([lanes, lanes, 1])
            value = rng.choice([value, f"T.Ramp({i} * {lanes}, 1, {lanes})"])
            self.line(depth + 1, f"{x}[T.Ramp({i} * {step} + {first}, {stride}, {lanes})] = {value}")
        else:
            self.line(depth, f"{x}[T.Ramp({first}, {stride}, {lanes})] = {value}")
        self.line(depth, f"for {i} in range(16):")
        test = rng.choice([f"{x}[{i}] == {i}", f"{x}[{i}] == {rng.randint(0, 1)}", f"{x}[{i}] == {i} + 11"])
        self.line(depth + 1, f"if {test}:")
        self.line(depth + 2, f"{self.buffer()}[{i}] = {rng.choice(['0', f'{x}[{i}] + 1'])}")

    def window(self, depth: int) -> None:
        """Sums over elements of which some are known to be 0, and then a test of the sums."""
        rng, i, f = self.rng, self.name("i"), self.name("f")
        x, y = rng.sample(["A", "B"], 2)
        low, high, reach = rng.randint(0, 4), rng.randint(9, 15), rng.randint(1, 3)
        known = rng.choice([0, 0, 0, 1])
        self.line(depth, f"for {i} in range(16):")
        self.line(depth + 1, f"if {i} < {low} or {i} >= {high}:")
        self.line(depth + 2, f"{x}[{i}] = {known}")
        self.line(depth, f"for {i} in range(16):")
        self.line(depth + 1, f"T.evaluate(T.assume(({low} <= {i} and {i} < {high}) or {x}[{i}] == {known}))")
        if rng.random() < 0.3:
            self.line(depth, f"for {i} in range(16):")
            self.line(depth + 1, f"{x}[{i}] = {x}[{i}] {rng.choice(['+ 0', '* 2', '+ 1', f'+ {i}'])}")
        scattered = rng.random() < 0.4
        self.line(depth, f"for {i} in range(16):")
        self.line(depth + 1, f"{y}[{i}] = 0")
        if scattered:
            self.line(depth, f"for {i} in range(16):")
        self.line(depth + 1, f"for {f} in range({rng.choice([reach, reach, 'n'])}):")
        if scattered:
            step = rng.choice([f"{i} + {f}"] * 3 + [f"{i} - {f}", f"{f} + {f}", f"15 - {i} - {f}"])
            self.line(depth + 2, f"if 0 <= {step} and {step} < 16:")
            self.line(depth + 3, f"{y}[{step}] = {y}[{step}] + {x}[{i}]{rng.choice([f' * E[{f} % 4, 0]', ''])}")
            self.asked(depth, y, i, low, high + reach - 1)
            return
        self.line(depth + 2, f"if {rng.choice([f'0 <= {i} - {f}', f'{f} < {i}'])}:")
        target = rng.choice([f"{y}[{i}]"] * 4 + [f"{y}[{i} // 2]"])
        factor = rng.choice([f" * E[{f} % 4, 0]", "", f" * {f}"])
        index = rng.choice([f"{i} - {f}"] * 3 + [f"({i} + {f}) % 16"])
        self.line(depth + 3, f"{target} = {target} + {x}[{index}]{factor}")
        self.asked(depth, y, i, low, high + reach - 1)

    def asked(self, depth: int, y: str, i: str, low: int, high: int) -> None:
        """Tests whether elements before and behind some are 0."""
        rng = self.rng
        self.line(depth, f"for {i} in range(16):")
        self.line(depth + 1, f"if {i} < {low + rng.choice([0, 0, 1])} or {i} >= {high + rng.choice([0, 0, 0, -1])}:")
        self.line(depth + 2, f"if {y}[{i}] {rng.choice(['==', '!='])} 0:")
        self.line(depth + 3, f"{y}[{i}] = {rng.choice(['0', '7'])}")

    def statement(self, depth: int) -> None:
        kinds = (
            [self.work] * 8
            + [self.vector] * 3
            + [self.window] * 2
            + [self.padding] * 3
            + [self.single] * 3
            + [self.branch] * 2
        )
        kinds += [self.temporary, self.binding, self.repeat]
        self.rng.choice(kinds)(depth)

    def program(self) -> str:
        self.lines = [
            "@T.prim_func",
            "def main(A: T.Buffer((16,), 'int32'), B: T.Buffer((16,), 'int32'),",
            "         E: T.Buffer((4, 8), 'int32'), n: T.int32):",
        ]
        if self.rng.random() < 0.6:
            self.line(1, "T.func_attr({'tir.noalias': True})")
        for _ in range(self.rng.randint(3, 7)):
            self.statement(1)
        return "\n".join(self.lines)


KNOWN = {"propagate_knowns_to_prove_conditional": True, "propagate_knowns_to_simplify_expressions": True}
EXTENDED = {
    "transitively_prove_inequalities": True,
    "convert_boolean_to_and_of_ors": True,
    "apply_constraints_to_boolean_branches": True,
}
PASSES: list[Any] = [
    RemoveNoOp(use_dataflow_analysis=True),
    ReduceBranchingThroughOvercompute(),
    ReduceBranchingThroughOvercompute(use_dataflow_analysis=True),
    UseAssumeToReduceBranches(),
    Simplify(**KNOWN),
    Simplify(**KNOWN, **EXTENDED),
    Sequential(
        [
            UseAssumeToReduceBranches(),
            ReduceBranchingThroughOvercompute(use_dataflow_analysis=True),
            Simplify(propagate_knowns_to_prove_conditional=True),
            RemoveAssume(),
            RemoveNoOp(use_dataflow_analysis=True),
        ]
    ),
]


def program(seed: int) -> PrimFunc:
    func = parse(Generator(seed).program())
    assert isinstance(func, PrimFunc)
    return func


@pytest.mark.parametrize("seed", by_day(range(40)))
def test_random_dataflow(seed: int) -> None:
    before = program(seed)
    for one in PASSES:
        after = one(before)
        verify_well_formed(after)
        roundtrips(after)
        executes_alike(before, after, samples=3, sizes=(1, 3, 7, 13), seed=seed)


@pytest.mark.parametrize("one", PASSES[:4], ids=repr)
def test_each_pass_finds_something(one: Any) -> None:
    """The test above says something: each pass changes many of the programs, and none of them twice."""
    changed = 0
    for seed in range(30):
        before = program(seed)
        after = one(before)
        changed += after is not before
        assert one(after) is after
    assert changed >= 4
