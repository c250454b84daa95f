"""The shape of the legality table: a program, what it is asked, and the right answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.poly.brute import Event
from tirlower.ir import PrimFunc

__all__ = ["TABLE", "P", "Program", "Question", "R", "S", "U", "happening", "program", "replayed"]


@dataclass(frozen=True)
class Question:
    """What a program is asked: the kind, the loops (or loop and thread), and the right answer."""

    kind: str
    loops: tuple[str, ...]
    answer: str


@dataclass(frozen=True)
class Program:
    """A program, its theme and its questions."""

    name: str
    theme: str
    func: PrimFunc
    questions: tuple[Question, ...]


TABLE: list[Program] = []


def program(
    theme: str,
    *,
    parallel: Mapping[str, str] | None = None,
    vectorized: Mapping[str, str] | None = None,
    reorder: Mapping[str, str] | None = None,
    bind: Mapping[str, str] | None = None,
) -> Callable[[PrimFunc], PrimFunc]:
    """Enter a program: ``{"i j": answer}``, loops by name, for ``bind`` the loop and the thread."""

    def enter(func: PrimFunc) -> PrimFunc:
        asked: list[Question] = []
        given: Sequence[tuple[str, Mapping[str, str] | None]] = (
            ("parallel", parallel), ("vectorized", vectorized), ("reorder", reorder), ("bind", bind),
        )  # fmt: skip
        for kind, answers in given:
            for loops, answer in (answers or {}).items():
                asked.append(Question(kind, tuple(loops.split()), answer))
        TABLE.append(Program(func.name, theme, func, tuple(asked)))
        return func

    return enter


P, R, U, S = "proved", "refuted", "unknown", "structure"


def happening(found: Sequence[Event], point: Any) -> list[Event]:
    """The accesses of a run that a point of a witness names."""
    wanted = tuple(value for _, value in point.loops)
    return [
        e
        for e in found
        if e.node is point.node and e.is_write == point.is_write and tuple(v for _, v, _ in e.loops) == wanted
        and point.indices in e.indices
    ]  # fmt: skip


def replayed(witness: Any, found: Sequence[Event]) -> bool:
    """Whether both accesses of a witness happen in a run, and meet in an element that one of them writes."""
    one, other = happening(found, witness.source), happening(found, witness.sink)
    writes = witness.source.is_write or witness.sink.is_write
    return writes and any(a.memory == b.memory and bool(a.elements & b.elements) for a in one for b in other)
