"""Every witness of the legality table happens when the interpreter runs the program.

In front of the statement of each of the two accesses stands an assertion that this iteration, with these subscripts, is
never reached: the interpreter must fail it. (``test_legality`` compares the witnesses with a list of all accesses, made
by an evaluator of its own; here the reference interpreter computes loops, guards and subscripts.)
"""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.poly.legality_table import TABLE, Program, Question
from tests.poly.test_legality import ask
from tirlower.diagnostics import RuntimeAssertError
from tirlower.ir import (
    AllocBuffer,
    Assert,
    BufferLoad,
    BufferStore,
    For,
    ForKind,
    IntImm,
    Not,
    PrimFunc,
    Ramp,
    Seq,
    Var,
    build,
    ir_transform,
)
from tirlower.poly import extract
from tirlower.poly.verdict import Point

REFUSED = [(p, q) for p in TABLE for q in p.questions if q.answer == "refuted"]
REACHED = "the iteration of the witness"


def tripped(func: PrimFunc, point: Point) -> PrimFunc:
    """The function with an assertion that fails where a point of a witness is reached."""
    values = dict(point.loops)

    def around(op: Any) -> Any:
        if op is not point.statement:
            return None
        conditions = [build.eq(loop.loop_var, values[name]) for loop, name in chain]
        node = point.node
        if isinstance(node, (BufferLoad, BufferStore)) and not any(isinstance(i, Ramp) for i in node.indices):
            conditions += [build.eq(i, value) for i, value in zip(node.indices, point.indices, strict=True)]
        here = reduce(build.logical_and, conditions)
        return Seq((Assert(Not(here), REACHED), op))

    chain = [(loop, loop.loop_var.name) for loop in loops_around(func, point) if loop.loop_var.name in values]
    body = ir_transform(func.body, around, lambda op: filled(op) if isinstance(op, Seq) else None)
    assert body is not func.body, "the statement of the witness is not in the function"
    return func.with_(body=body)


def filled(op: Seq) -> Seq:
    """Allocations with zeros: a program may read what no iteration has written, the interpreter does not let it."""
    made: list[Any] = []
    for part in op.stmts:
        made.append(part)
        if isinstance(part, AllocBuffer):
            names = [Var(f"z{n}") for n in range(len(part.buffer.shape))]
            stmt: Any = BufferStore(part.buffer, build.cast(part.buffer.dtype, IntImm("int32", 0)), names)
            for var, extent in zip(names, part.buffer.shape, strict=True):
                stmt = For(var, IntImm("int32", 0), extent, ForKind.SERIAL, None, {}, body=stmt)
            made.append(stmt)
    return op.with_(stmts=tuple(made)) if len(made) > len(op.stmts) else op


def loops_around(func: PrimFunc, point: Point) -> list[For]:
    """The loops around a statement, outermost first."""
    found: list[For] = []

    def walk(op: Any, outer: list[For]) -> None:
        if op is point.statement:
            found.extend(outer)
            return
        inside = [*outer, op] if isinstance(op, For) else outer
        for child in op.children():
            walk(child, inside)

    walk(func.body, [])
    return found


def arguments(func: PrimFunc, sizes: dict[str, int]) -> list[Any]:
    """Random arrays and the sizes of the witness."""
    rng = np.random.default_rng(0)
    fixed = func.specialize({p: sizes[p.name] for p in func.params if p.name in sizes})
    given = []
    for param in func.params:
        if param.name in sizes:
            given.append(sizes[param.name])
    arrays = []
    for buffer in fixed.buffers:
        shape = tuple(extent.value for extent in buffer.shape)
        numbers = rng.uniform(0.5, 1.5, shape) if buffer.dtype.is_float else rng.integers(0, 4, shape)
        arrays.append(numbers.astype(str(buffer.dtype)))
    return arrays + given


@pytest.mark.parametrize(("program", "question"), REFUSED, ids=[f"{p.name}-{q.kind}-{q.loops[0]}" for p, q in REFUSED])
def test_both_iterations_are_reached(program: Program, question: Question):
    func = program.func
    witness = ask(extract(func), question).witness
    assert witness is not None and witness.sink is not None
    for point in witness.points:
        with pytest.raises(RuntimeAssertError, match=REACHED):
            tl.interpret(tripped(func, point), *arguments(func, dict(witness.parameters)))
    source, sink = witness.points
    if source.buffer == sink.buffer:
        assert source.indices == sink.indices, "the accesses of one buffer are of two elements"


def test_an_iteration_that_does_not_happen_is_not_reached():
    """The check can fail: one iteration later than the last, nothing trips."""
    program, question = REFUSED[0]
    point = ask(extract(program.func), question).witness.source
    beyond = replace(point, loops=tuple((name, 999) for name, _ in point.loops))
    tl.interpret(tripped(program.func, beyond), *arguments(program.func, {}))
