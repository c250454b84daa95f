"""What programs are run with, and shapes that hold what they access."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from tests.judge.arithmetic import Meaningless
from tests.judge.evaluate import Run, TooLong, dense, run_program
from tests.judge.program import SIZES, Expr, Program, Stmt, statements

__all__ = ["accessed", "environments", "fit", "is_static"]

C1 = ("c", 1)


def con(value: int) -> Expr:
    return ("c", value)


def _loads(expr: Any) -> bool:
    return isinstance(expr, tuple) and ((bool(expr) and expr[0] == "ld") or any(_loads(part) for part in expr))


def is_static(program: Program) -> bool:
    """Whether what is accessed depends on no size, scalar or datum."""
    if program.scalars or program.symbols:
        return False
    for stmt in statements(program.body):
        if stmt[0] == "while":
            return False
        if stmt[0] == "st":
            if _loads(stmt[2]) or any(_loads(load[2]) for load in _conditional(stmt[3])):
                return False
        elif stmt[0] == "for":
            if _loads(stmt[3]) or _loads(stmt[4]):
                return False
        elif stmt[0] == "if":
            if _loads(stmt[1]):
                return False
        elif stmt[0] in ("let", "view", "assert", "assume") and _loads(stmt[1:]):
            return False
    return True


def _conditional(expr: Any) -> list[Any]:
    """The loads of a value, and (as loads of their condition) the choices that decide which loads happen."""
    found = []
    if isinstance(expr, tuple):
        if expr and expr[0] == "ld":
            found.append(expr)
        if expr and expr[0] in ("ite", "and", "or"):
            found.append(("ld", "", (expr[1],)))
        for part in expr:
            found += _conditional(part)
    return found


def environments(program: Program, seed: int) -> list[tuple[dict[str, int], int]]:
    """Sizes and scalars, and seeds of the data, to enumerate."""
    rng = random.Random(seed)
    names = [*program.symbols, *program.scalars]
    data = [0] if is_static(program) else [0, 1, 2]
    if not names:
        return [({}, one) for one in data]
    if len(names) == 1:
        return [({names[0]: value}, one) for value in (0, 1, 2, 3, 5) for one in data[:2]]
    made = [{name: rng.choice([0, 1, 2, 3, 4, 6]) for name in names} for _ in range(6)]
    made.append(dict.fromkeys(names, 3))
    return [(sizes, one) for sizes in made for one in data[:2]]


def fit(program: Program, rng: random.Random, seed: int) -> Program:
    """Shift the subscripts of each buffer and choose shapes such that what the runs access is inside, mostly."""
    off = rng.random() < 0.07
    least = _extremes(program, seed)
    for _ in range(3):
        moved = _shifted(program, least)
        if moved is program:
            break
        program, least = moved, _extremes(moved, seed)
    buffers: dict[str, list[int]] = {}
    for name, dims in least.items():
        buffers[name] = [max(high + 1, 1) for _, high in dims]
    if off and buffers:
        name = rng.choice(sorted(buffers))
        buffers[name][0] = max(buffers[name][0] - 1, 1)
    body = _resized(program.body, buffers)
    program = replace(program, body=body)
    params = []
    for buf in program.params:
        shape = buffers.get(buf.name, [4] * len(buf.shape))
        params.append(replace(buf, shape=tuple(shape)))
    program = replace(program, params=tuple(params))
    # What lies behind the views
    needed = _reach(program, seed)
    params = []
    for at, buf in enumerate(program.params):
        shape = [int(extent) for extent in buf.shape]
        strides = [int(stride) for stride in buf.strides] or dense(shape)
        own = 1 + sum((e - 1) * s for e, s in zip(shape, strides, strict=True))
        want = -(-needed.get(at, 0) // SIZES[buf.dtype])
        if want > own:
            step = strides[0] if strides[0] else 0
            if step == 0:
                buf = replace(buf, strides=())
                step = dense(shape)[0]
            rest = sum((e - 1) * s for e, s in zip(shape[1:], (list(buf.strides) or dense(shape))[1:], strict=True))
            shape[0] = max(shape[0], -(-(want - 1 - rest) // step) + 1)
        if "n" in program.scalars and rng.random() < 0.6:
            # In terms of the scalar: as large for the sizes that are enumerated.
            extent = shape[0]
            params.append(replace(buf, shape=(f"n + {extent}", *shape[1:])))
            continue
        params.append(replace(buf, shape=tuple(shape)))
    return replace(program, params=tuple(params))


def _runs(program: Program, seed: int) -> list[Run]:
    found = []
    for sizes, data in environments(program, seed):
        try:
            found.append(run_program(program, sizes, data))
        except (Meaningless, TooLong, KeyError):
            continue
    return found


def accessed(program: Program) -> dict[int, str]:
    """The buffer of each access by its number."""
    names: list[str] = []

    def expr(one: Any) -> None:
        if isinstance(one, tuple) and one:
            if one[0] == "ld":
                for part in one[2]:
                    expr(part)
                names.append(one[1])
            elif one[0] != "c":
                for part in one[1:]:
                    expr(part)

    def parts(one: Any) -> None:
        if isinstance(one, tuple) and one and isinstance(one[0], tuple):
            for part in one:
                parts(part)
        else:
            expr(one)

    def body(stmts: tuple[Stmt, ...]) -> None:
        for stmt in stmts:
            if stmt[0] == "for":
                expr(stmt[3])
                expr(stmt[4])
                body(stmt[6])
            elif stmt[0] == "while":
                expr(stmt[1])
                body(stmt[2])
            elif stmt[0] == "if":
                expr(stmt[1])
                body(stmt[2])
                body(stmt[3])
            elif stmt[0] == "block":
                body(stmt[4])
                body(stmt[5])
            elif stmt[0] == "st":
                for part in stmt[2]:
                    expr(part)
                expr(stmt[3])
                names.append(stmt[1])
            else:
                for part in stmt[1:]:
                    parts(part)

    body(program.body)
    return dict(enumerate(names))


def _extremes(program: Program, seed: int) -> dict[str, list[list[int]]]:
    names = accessed(program)
    found: dict[str, list[list[int]]] = {}
    for run in _runs(program, seed):
        for event in run.events:
            dims = found.setdefault(names[event.number], [[i, i] for i in event.subscripts])
            for at, i in enumerate(event.subscripts):
                dims[at][0] = min(dims[at][0], i)
                dims[at][1] = max(dims[at][1], i)
    return found


def _reach(program: Program, seed: int) -> dict[int, int]:
    found: dict[int, int] = {}
    for run in _runs(program, seed):
        for event in run.events:
            found[event.memory] = max(found.get(event.memory, 0), event.low + event.size)
    return found


def _shifted(program: Program, extremes: dict[str, list[list[int]]]) -> Program:
    moves = {name: [-min(low, 0) for low, _ in dims] for name, dims in extremes.items()}
    if not any(any(move) for move in moves.values()):
        return program

    def at(name: str, indices: tuple[Expr, ...]) -> tuple[Expr, ...]:
        made = []
        for index, move in zip(indices, moves.get(name, [0] * len(indices)), strict=True):
            if move and index[0] == "c":
                index = con(index[1] + move)
            elif move:
                index = ("+", index, con(move))
            made.append(index)
        return tuple(made)

    def change(one: Any) -> Any:
        if not isinstance(one, tuple):
            return one
        one = tuple(change(part) for part in one)
        if one and one[0] in ("ld", "st"):
            return (one[0], one[1], at(one[1], one[2]), *one[3:])
        return one

    return replace(program, body=change(program.body))


def _resized(body: tuple[Stmt, ...], buffers: dict[str, list[int]]) -> tuple[Stmt, ...]:
    change: Callable[[Any], Any]

    def change(one: Any) -> Any:
        if not isinstance(one, tuple):
            return one
        if one and one[0] == "view":
            sizes = buffers.get(one[1])
            return (*one[:4], tuple(map(con, sizes)) if sizes else (C1,) * len(one[4]), *one[5:])
        if one and one[0] == "alloc":
            sizes = buffers.get(one[1])
            return (one[0], one[1], tuple(sizes) if sizes else one[2], *one[3:])
        return tuple(change(part) for part in one)

    made: tuple[Stmt, ...] = change(body)
    return made
