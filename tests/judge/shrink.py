"""Makes a program smaller while it still shows a fault: deletes statements, opens scopes, simplifies expressions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from tests.judge.program import Buf, Program, Stmt
from tests.judge.rewrite import _replaced

__all__ = ["shrink"]


def shrink(program: Program, shows: Callable[[Program], bool], seconds: float = 20.0) -> Program:
    """The smallest program found within a time that ``shows`` the fault still."""
    until = time.monotonic() + seconds
    better = True
    while better and time.monotonic() < until:
        better = False
        for candidate in _smaller(program):
            if time.monotonic() > until:
                break
            if _weight(candidate) < _weight(program) and _shows(candidate, shows):
                program, better = candidate, True
                break
    return program


def _shows(program: Program, shows: Callable[[Program], bool]) -> bool:
    try:
        return shows(program)
    except Exception:  # a candidate that is no program: a name without its definition, say
        return False


def _weight(one: Any) -> float:
    if isinstance(one, Program):
        return _weight(one.body) + 2 * len(one.params) + 3 * len(one.functions) + sum(_weight(f[2]) for f in one.functions) + sum(
            map(_param, one.params)
        ) + 0.5 * len(one.scalars)  # fmt: skip
    if isinstance(one, tuple):
        if one and one[0] == "c":
            return 1 + min(abs(one[1]), 1000) / 2000 + (0.2 if one[1] < 0 else 0)
        extra = 0.5 if one and one[0] == "for" and one[2] != "serial" else 0.0
        return 1 + extra + sum(_weight(part) for part in one)
    return 0.2 if one is not True else 0.3


def _param(buf: Buf) -> float:
    return (
        len(buf.shape)
        + sum(0.3 for part in buf.shape if isinstance(part, str))
        + len(buf.strides)
        + (buf.dtype != "int32")
    )


def _smaller(program: Program) -> Iterator[Program]:
    for body in _bodies(program.body):
        yield replace(program, body=body)
    for n in range(len(program.params)):
        yield replace(program, params=program.params[:n] + program.params[n + 1 :])
    for n in range(len(program.functions)):
        yield replace(program, functions=program.functions[:n] + program.functions[n + 1 :])
        for value in _exprs(program.functions[n][2]):
            changed = (*program.functions[n][:2], value)
            yield replace(program, functions=(*program.functions[:n], changed, *program.functions[n + 1 :]))
    for name in program.scalars:
        rest = tuple(one for one in program.scalars if one != name)
        params = tuple(_valued(buf, name, 3) for buf in program.params)
        yield Program(params, _replaced(program.body, name, ("c", 3)), rest, program.functions)
        yield Program(program.params, program.body, rest, program.functions)
    for n, buf in enumerate(program.params):
        for less in _buffers(buf):
            yield replace(program, params=(*program.params[:n], less, *program.params[n + 1 :]))


def _valued(buf: Buf, name: str, value: int) -> Buf:
    def size(part: Any) -> Any:
        return eval(part, {"__builtins__": {}}, {name: value}) if isinstance(part, str) and name in part else part

    try:
        return replace(buf, shape=tuple(map(size, buf.shape)), strides=tuple(map(size, buf.strides)))
    except NameError:
        return buf


def _buffers(buf: Buf) -> Iterator[Buf]:
    if buf.strides:
        yield replace(buf, strides=())
    if buf.dtype != "int32":
        yield replace(buf, dtype="int32")
    for n, extent in enumerate(buf.shape):
        if isinstance(extent, str):
            yield replace(buf, shape=(*buf.shape[:n], 8, *buf.shape[n + 1 :]))


def _bodies(body: tuple[Stmt, ...]) -> Iterator[tuple[Stmt, ...]]:
    for n, stmt in enumerate(body):
        before, after = body[:n], body[n + 1 :]
        yield (*before, *after)
        for new in _statements(stmt):
            yield (*before, *new, *after)


def _statements(stmt: Stmt) -> Iterator[tuple[Stmt, ...]]:
    kind = stmt[0]
    if kind == "for":
        _, var, how, start, stop, reduction, body = stmt
        yield _replaced(body, var, start)
        if how != "serial":
            yield ((kind, var, "serial", start, stop, False, body),)
        if reduction:
            yield ((kind, var, how, start, stop, False, body),)
        for new in _bodies(body):
            yield ((*stmt[:6], new),)
        for less in _exprs(start):
            yield ((*stmt[:3], less, *stmt[4:]),)
        for less in _exprs(stop):
            yield ((*stmt[:4], less, *stmt[5:]),)
    elif kind == "while":
        yield stmt[2]
        for new in _bodies(stmt[2]):
            yield ((*stmt[:2], new),)
        for less in _exprs(stmt[1]):
            yield ((kind, less, stmt[2]),)
    elif kind == "if":
        yield stmt[2]
        yield stmt[3]
        if stmt[3]:
            yield ((*stmt[:3], ()),)
        for at in (2, 3):
            for new in _bodies(stmt[at]):
                yield ((*stmt[:at], new, *stmt[at + 1 :]),)
        for less in _exprs(stmt[1]):
            yield ((kind, less, *stmt[2:]),)
    elif kind == "st":
        for n, index in enumerate(stmt[2]):
            for less in _exprs(index):
                changed = (*stmt[2][:n], less, *stmt[2][n + 1 :])
                yield ((kind, stmt[1], changed, stmt[3]),)
                yield ((kind, stmt[1], changed, _swapped(stmt[3], (stmt[1], stmt[2]), (stmt[1], changed))),)
        for less in _exprs(stmt[3]):
            yield ((*stmt[:3], less),)
    elif kind == "block":
        iters, condition, init, update = stmt[2:]
        plain = update
        for _, var, value, *_ in iters:
            plain = _replaced(plain, var, value)
        yield plain
        if condition:
            yield ((*stmt[:3], (), init, update),)
            for less in _exprs(condition):
                yield ((*stmt[:3], less, init, update),)
        for at in (4, 5):
            for new in _bodies(stmt[at]):
                if len(new) == 1 or at == 4:
                    yield ((*stmt[:at], new, *stmt[at + 1 :]),)
        for n, it in enumerate(iters):
            if it[0] == "R":
                yield ((*stmt[:2], (*iters[:n], ("S", *it[1:]), *iters[n + 1 :]), *stmt[3:]),)
    elif kind in ("let",):
        for less in _exprs(stmt[2]):
            yield ((*stmt[:2], less),)
    elif kind == "view":
        if stmt[5]:
            yield ((*stmt[:5], (), stmt[6]),)
        if stmt[3] != "int32":
            yield ((*stmt[:3], "int32", *stmt[4:]),)
        for less in _exprs(stmt[6]):
            yield ((*stmt[:6], less),)
        for n, stride in enumerate(stmt[5]):
            for less in _exprs(stride):
                yield ((*stmt[:5], (*stmt[5][:n], less, *stmt[5][n + 1 :]), stmt[6]),)
    elif kind in ("assert", "assume"):
        for less in _exprs(stmt[1]):
            yield ((kind, less),)


def _swapped(one: Any, old: Any, new: Any) -> Any:
    if not isinstance(one, tuple):
        return one
    if one and one[0] == "ld" and one[1:] == old:
        return ("ld", *new)
    return tuple(_swapped(part, old, new) for part in one)


def _exprs(expr: Any) -> Iterator[Any]:
    """Simpler expressions of the same kind of value."""
    kind = expr[0]
    if kind == "c":
        value = expr[1]
        for less in {0, 1, value // 2, value - 1 if value > 0 else value + 1, -value if value < 0 else value}:
            if less != value:
                yield ("c", less)
        return
    truth = kind in ("cmp", "and", "or", "not")
    if not truth:
        yield ("c", 0)
        yield ("c", 1)
    for n, part in enumerate(expr[1:], 1):
        if not isinstance(part, tuple) or not part:
            continue
        if isinstance(part[0], tuple):
            for m, inner in enumerate(part):
                if not truth:
                    yield inner
                for less in _exprs(inner):
                    yield (*expr[:n], (*part[:m], less, *part[m + 1 :]), *expr[n + 1 :])
            continue
        if truth == (part[0] in ("cmp", "and", "or", "not")):
            yield part
        for less in _exprs(part):
            yield (*expr[:n], less, *expr[n + 1 :])
