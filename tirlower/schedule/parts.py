"""A nest alone: the function with what stands around the nest, but without what stands beside it.

What is asked of one nest (may its loops change places, may they run at once) needs the loops, conditions and facts around it,
and none of the other nests; extracting it alone costs what it weighs, not what the function does. Where something beside
it matters all the same (a pointer that is bound, a fact about memory that is written somewhere, a return), there is no such part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tirlower.ir.expr import BufferLoad, Call, IntImm, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import each, has
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    Assert,
    AttrStmt,
    Bind,
    Block,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    Seq,
    Stmt,
)
from tirlower.schedule.edits import Steps
from tirlower.schedule.uses import UsesOf

__all__ = ["Part", "part_of"]

FEW = 8
"""Of so many parameters none is left out of a part."""


@dataclass(frozen=True)
class Part:
    """``func`` has the nest and what stands around it; two parts with equal ``key`` are the same. ``elsewhere`` are the variables
    of memory allocated around the nest that is used beside it too.
    """

    func: PrimFunc
    key: tuple[object, ...]
    elsewhere: frozenset[Var]


def part_of(func: PrimFunc, steps: Steps, uses: UsesOf) -> Part | None:
    """What stands at a place alone; None where what is beside it matters."""
    values: list[object] = [func]
    for step in steps:
        values.append(getattr(values[-1], step) if isinstance(step, str) else values[-1][step])  # type: ignore[index]
    nest = values[-1]
    assert isinstance(nest, Stmt)
    memory = uses(nest).memory
    key: list[object] = [nest, func.params, *func.buffer_map.values()]
    asked: list[Node] = []
    beside: list[Sequence[Stmt]] = []
    allocated: list[Var] = []
    made: Stmt = nest
    for at in range(len(steps) - 1, -1, -1):
        value, step = values[at], steps[at]
        if isinstance(value, Seq):
            continue  # its statements are the next value up
        if isinstance(value, tuple):
            assert isinstance(step, int)
            kept: list[Stmt] = []
            for stmt in value[:step]:
                if isinstance(stmt, (AllocBuffer, AllocConst, DeclBuffer)):
                    if stmt.buffer.data not in memory:
                        continue
                    if isinstance(stmt, AllocBuffer):
                        allocated.append(stmt.buffer.data)
                elif isinstance(stmt, Bind):
                    if stmt.value.dtype.is_handle:
                        return None
                    asked.append(stmt.value)
                elif isinstance(stmt, Assert):
                    asked.append(stmt.condition)
                elif _assumes(stmt):
                    asked.append(stmt.value)
                else:
                    continue
                kept.append(stmt)
            beside.append(value[step + 1 :])
            beside.append(value[:step][::-1])
            key += kept
            if kept:
                made = Seq((*kept, made))
        elif isinstance(value, PrimFunc):
            break
        else:
            assert isinstance(value, Stmt)
            around = _around(value, step, made, uses, beside)
            if around is None:
                return None
            made, header = around
            key += header
            asked += [one for one in header if isinstance(one, Node)]
    if any(has(BufferLoad, one) for one in asked):
        written = {buffer.data for buffer in uses(func.body).writes}
        if any(op.buffer.data in written for one in asked for op in each(BufferLoad, one)):
            return None
    elsewhere = [data for data in allocated if any(data in uses(stmt).memory for part in beside for stmt in part)]
    return Part(_with_its_own(func, made, uses), tuple(key), frozenset(elsewhere))


def _with_its_own(func: PrimFunc, body: Stmt, uses: UsesOf) -> PrimFunc:
    """A function with a part of its body, and of the buffers that are its parameters those that this uses, or whose shapes name
    sizes: of a function of 120 parameters each question would begin with all of them."""
    if len(func.buffer_map) <= FEW:
        return func.with_body(body)
    memory = uses(body).memory
    left = {
        param
        for param, buffer in func.buffer_map.items()
        if buffer.data not in memory and all(isinstance(one, IntImm) for one in (*buffer.shape, *buffer.strides))
    }
    params = tuple([param for param in func.params if param not in left])
    kept = {param: buffer for param, buffer in func.buffer_map.items() if param not in left}
    return func.with_(params=params, buffer_map=kept, body=body)


def _around(
    stmt: Stmt, step: object, inner: Stmt, uses: UsesOf, beside: list[Sequence[Stmt]]
) -> tuple[Stmt, list[object]] | None:
    """A statement with the nest in it alone, and what of it tells it from others."""
    nothing = Evaluate(const(0, "int32"))
    if isinstance(stmt, For):
        return stmt.with_(body=inner), [stmt.loop_var, stmt.min, stmt.extent, stmt.kind, stmt.thread_tag]
    if isinstance(stmt, IfThenElse):
        then = step == "then_case"
        other = stmt.else_case if then else stmt.then_case
        if other is not None:
            beside.append((other,))
        made = stmt.with_(then_case=inner if then else nothing, else_case=None if then else inner)
        return made, [stmt.condition, then]
    if isinstance(stmt, Block):
        bindings = [it.value for it in stmt.iters]
        starts = step == "init"
        other = stmt.body if starts else stmt.init
        if other is not None:
            beside.append((other,))
        body = nothing if starts else inner
        made_block = stmt.with_(init=inner if starts else None, body=body)
        matched = [match.source for match in stmt.match_buffers]
        return made_block, [stmt.iters, stmt.predicate, stmt.match_buffers, *bindings, *matched]
    if isinstance(stmt, AttrStmt):
        return stmt.with_(body=inner), [stmt.node, stmt.key, stmt.value]
    return None  # a while loop, whose condition reads what its body writes


def _assumes(stmt: Stmt) -> bool:
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.op is _ASSUME


_ASSUME = Op.get("tir.assume")
