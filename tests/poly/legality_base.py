"""The shape of the legality table: a program, what it is asked, and the right answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tirlower.ir import PrimFunc

__all__ = ["TABLE", "P", "Program", "Question", "R", "S", "U", "program"]


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
