"""Random pipelined loops: what InjectSoftwarePipeline accepts computes what the loop did, and waits for what it reads."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.checking import executes_alike, roundtrips
from tests.rewrite.test_pipeline_async import Flight
from tirlower.diagnostics import TransformError
from tirlower.ir import For, PrimFunc, Seq, Stmt
from tirlower.ir.verify import verify_well_formed
from tirlower.script import parse
from tirlower.transforms import InjectSoftwarePipeline, LowerOpaqueBlock, Simplify, UnrollLoop

SHAPES = ("(2,)", "(4,)", "(2, 2)")


class Generator:
    """Writes a loop over temporaries and parameters, as a script; the first statements fill the temporaries."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[str] = []
        self.filled: list[tuple[str, str]] = []
        self.values = ["i"]

    def place(self, temp: tuple[str, str], inner: str) -> str:
        name, shape = temp
        first = self.rng.choice(["0", "1", f"{inner} % 2"])
        return f"{name}[{first}, {self.rng.choice('01')}]" if shape == "(2, 2)" else f"{name}[{first}]"

    def source(self, inner: str) -> str:
        rng, kind = self.rng, self.rng.random()
        if self.filled and kind < 0.5:
            return self.place(rng.choice(self.filled), inner)
        if kind < 0.7:
            return f"A[(i + {rng.randint(0, 2)}) % 40]"
        if kind < 0.8:
            return f"D[i + {rng.randint(0, 2)}]"
        return f"E[{rng.randint(0, 7)}, i + {inner}]" if kind < 0.9 else rng.choice(self.values)

    def target(self, inner: str) -> str:
        if self.filled and self.rng.random() < 0.3:
            return self.place(self.rng.choice(self.filled), inner)
        return f"D[i + {self.rng.randint(0, 2)}]"

    def fill(self, temp: tuple[str, str], at: str) -> None:
        name, shape = temp
        self.lines.append(f"{at}for j in range({4 if shape == '(4,)' else 2}):")
        if shape == "(2, 2)":
            self.lines.append(f"{at}    for l in range(2):")
            self.lines.append(f"{at}        {name}[j, l] = {self.source('j')} + {self.source('j')} * 3 + l")
        else:
            self.lines.append(f"{at}    {name}[j] = {self.source('j')} - {self.source('j')}")
        self.filled.append(temp)

    def statement(self, at: str) -> None:
        rng, kind = self.rng, self.rng.random()
        if kind < 0.3:
            self.lines.append(f"{at}if {rng.choice(self.values)} % 3 < {rng.randint(0, 3)}:")
            self.lines.append(f"{at}    {self.target('1')} = {self.source('1')} + {self.source('1')}")
        elif kind < 0.6:
            self.lines.append(f"{at}for j in range(2):")
            self.lines.append(f"{at}    E[{rng.randint(0, 7)}, i + j] = {self.source('j')} + {self.source('j')} * j")
        else:
            self.lines.append(f"{at}for j in range({rng.choice(['2', 'i % 3'])}):")
            self.lines.append(f"{at}    {self.target('j')} = {self.source('j')} + {self.source('j')}")

    def program(self) -> tuple[str, dict[str, Any]]:
        """The script, and the annotations of its loop ``i``."""
        rng = self.rng
        start, extent = rng.choice(["0", "3", "n"]), rng.choice(["0", "1", "2", "5", "7", "n"])
        blocks, at = rng.random() < 0.5, "        "
        self.lines = [
            "@T.prim_func",
            "def main(A: T.Buffer((40,), 'int32'), D: T.Buffer((40,), 'int32'),",
            "         E: T.Buffer((8, 40), 'int32'), n: T.int32):",
            f"    for i in range({start}, {start} + {extent}):",
        ]
        if blocks:
            self.lines.append("        with T.block():")
            at += "    "
        temps = [(f"B{k}", rng.choice(SHAPES)) for k in range(rng.randint(1, 3))]
        for name, shape in temps:
            strides = ", strides=(1, 2)" if shape == "(2, 2)" and rng.random() < 0.4 else ""
            self.lines.append(f"{at}{name} = T.alloc_buffer({shape}, 'int32'{strides})")
        if rng.random() < 0.4:
            self.lines.append(f"{at}x: T.int32 = i * 2 + {rng.randint(0, 3)}")
            self.values.append("x")
        count = rng.randint(2, 5)
        for number in range(count):
            if blocks:
                self.lines.append(f"{at}with T.block():")
            inner = at + "    " * blocks
            if temps and (number == 0 or rng.random() < 0.7):
                self.fill(temps.pop(), inner)
            else:
                self.statement(inner)
        stages = [rng.randint(0, 3) for _ in range(count)]
        if rng.random() < 0.8:
            stages.sort()
        orders = list(range(count))
        if rng.random() < 0.7:
            rng.shuffle(orders)
        notes: dict[str, Any] = {"software_pipeline_stage": stages, "software_pipeline_order": orders}
        if rng.random() < 0.5:
            notes["software_pipeline_async_stages"] = rng.sample(range(4), rng.randint(1, 2))
        return "\n".join(self.lines), notes


def annotate(stmt: Stmt, notes: dict[str, Any]) -> Stmt:
    """The statement with its loop ``i`` annotated."""
    node: Any = stmt
    if isinstance(stmt, For) and stmt.loop_var.name == "i":
        return stmt.with_(annotations=notes)
    if isinstance(stmt, Seq):
        return stmt.with_(stmts=tuple(annotate(one, notes) for one in stmt.stmts))
    made: Stmt = node.with_(body=annotate(node.body, notes))
    return made


def pipelined(seed: int) -> tuple[PrimFunc, PrimFunc, bool] | None:
    """A program, the same pipelined, and whether it is asynchronous; None where that is illegal."""
    text, notes = Generator(seed).program()
    func = parse(text)
    before = func.with_body(annotate(func.body, notes))
    try:
        return before, InjectSoftwarePipeline()(before), "software_pipeline_async_stages" in notes
    except TransformError as error:
        assert "illegal" in str(error), error
        return None


@pytest.mark.parametrize("seed", range(60))
def test_random_pipelines(seed: int) -> None:
    made = pipelined(seed)
    if made is None:
        return
    before, after, is_async = made
    verify_well_formed(after)
    roundtrips(after)
    assert InjectSoftwarePipeline()(after) is after
    rng = np.random.default_rng(seed)
    shapes = ((40,), (40,), (8, 40))
    inputs = [[*(rng.integers(-9, 9, shape).astype("int32") for shape in shapes), n] for n in (0, 1, 2, 3, 6)]
    simple = Simplify()(after)
    for form in (after, simple, UnrollLoop()(LowerOpaqueBlock()(simple))):
        executes_alike(before, form, inputs=inputs)
    for a, d, e, n in inputs if is_async else ():
        for form in (after, simple):
            Flight(form, {"A": a, "D": d, "E": e}, {"n": n})


def test_most_random_pipelines_are_legal() -> None:
    """The test above says something: refusals are the smaller part."""
    assert sum(pipelined(seed) is not None for seed in range(60)) > 25
