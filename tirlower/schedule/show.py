"""What each step of a schedule did: its line, its verdict, and the nests that it changed, before beside after."""

from __future__ import annotations

import difflib
import html
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from tirlower.diagnostics import BadArgument
from tirlower.ir.func import PrimFunc
from tirlower.ir.stmt import Block, Seq, Stmt
from tirlower.schedule.state import Record, State
from tirlower.schedule.trace import Trace

__all__ = ["Row", "Shown", "changed_nests", "page", "rows_of", "show_steps", "shown", "text"]

MOST_WIDTH = 60
"""How wide the left side is at most."""
LEVELS = ("step", "op")


@dataclass(frozen=True)
class Row:
    """A line before and after: ``mark`` is " " where they are equal, "|" where one became the other, "-" and "+" where there
    is none on the other side, "<" and ">" where it stands elsewhere there.
    """

    before: str
    mark: str
    after: str


@dataclass(frozen=True)
class Shown:
    """A step: its number, its line in Python, what is known of it, and its rows (none where it changed nothing)."""

    number: int
    line: str
    verdict: str
    rows: tuple[Row, ...]


def shown(states: Sequence[State], first: int = 1, last: int | None = None, level: str = "step") -> list[Shown]:
    """The steps of some moments that are no look-ups, by their numbers; ``level="op"`` puts those of one user operation together.

    Raises :class:`BadArgument` for another level, or numbers that are not in order.
    """
    if level not in LEVELS:
        raise BadArgument(f"level= is 'step' or 'op', got {level!r}")
    records = [state.record for state in states[1:] if state.record is not None]
    if not 1 <= first <= (last if last is not None else max(len(records), first)):
        raise BadArgument(f"steps are numbered from 1 to {len(records)}, got {first} to {last}")
    lines = Trace.of(records).as_python(dialect="tirlower")
    made: list[Shown] = []
    at = 0
    while at < len(records):
        group = records[at].group if level == "op" else ()
        end = at + 1
        while group and end < len(records) and records[end].group[:1] == group[:1]:
            end += 1
        if first <= at + 1 and (last is None or at + 1 <= last):
            part = [record for record in records[at:end] if not record.instruction.kind.pure]
            if part:
                line = group[0] if group else lines[at]
                rows = _rows(states[at], states[end])
                made.append(Shown(at + 1, line, _verdict(part), tuple(rows)))
        at = end
    return made


def show_steps(
    states: Sequence[State], steps: bool | tuple[int, int], level: str, path: str | PathLike[str] | None
) -> None:
    """Print the steps of some moments, or write them as a page."""
    first, last = steps if isinstance(steps, tuple) else (1, None)
    found = shown(states, first, last, level)
    if path is None:
        print(text(found))
    else:
        page(found, ", ".join(states[-1].mod.functions), path)


def _verdict(records: Sequence[Record]) -> str:
    said = next(
        (f"{one.verdict}: {one.why}" if one.why else one.verdict for one in records if one.verdict != "proved"),
        "proved",
    )
    exact = next((one.exactness for one in records if one.exactness != "bitwise"), "bitwise")
    return f"{said}, {exact}, {sum(one.seconds for one in records) * 1e3:.2f} ms"


def _rows(before: State, after: State) -> Iterator[Row]:
    for name, func in after.mod.items():
        old = before.mod.functions.get(name)
        if old is not None and old is not func:
            yield from rows_of(*changed_nests(old, func))


def changed_nests(old: PrimFunc, new: PrimFunc) -> tuple[str, str]:
    """The text of the statements of two functions that are not the same: those outermost in the functions and their roots.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
    ...     A[0] = 1
    ...     for i in range(4):
    ...         B[i] = 2
    ... ''')
    >>> first, loop = func.body.stmts
    >>> changed = func.with_(body=func.body.with_(stmts=(first, loop.with_(kind="parallel"))))
    >>> print(changed_nests(func, changed)[1])
    for i in T.parallel(4):
        B[i] = 2
    """
    a, b = [old.body], [new.body]
    while True:
        while a and b and a[0] is b[0]:
            a, b = a[1:], b[1:]
        while a and b and a[-1] is b[-1]:
            a, b = a[:-1], b[:-1]
        if len(a) == len(b) == 1 and _opens(a[0]) and _opens(b[0]):
            a, b = _inside(a[0]), _inside(b[0])
            continue
        return _printed(a), _printed(b)


def _opens(stmt: Stmt) -> bool:
    return isinstance(stmt, Seq) or (isinstance(stmt, Block) and not stmt.iters)


def _inside(stmt: Stmt) -> list[Stmt]:
    if isinstance(stmt, Seq):
        return list(stmt.stmts)
    assert isinstance(stmt, Block)
    return [stmt.body]


def _printed(stmts: Sequence[Stmt]) -> str:
    if not stmts:
        return ""
    return (stmts[0] if len(stmts) == 1 else Seq(tuple(stmts))).script()


def rows_of(before: str, after: str) -> list[Row]:
    """Two texts beside each other.

    >>> [row.mark for row in rows_of("a = 1\\nb = 2\\nc = 3", "b = 2\\nc = 3\\na = 1")]
    ['<', ' ', ' ', '>']
    """
    old, new = before.splitlines(), after.splitlines()
    keys = [[line.strip() for line in side] for side in (old, new)]
    made: list[Row] = []
    for word, a, b, c, d in difflib.SequenceMatcher(None, keys[0], keys[1], autojunk=False).get_opcodes():
        left, right = old[a:b], new[c:d]
        if word == "equal":
            made += [Row(x, " ", y) for x, y in zip(left, right, strict=True)]
            continue
        moved = [[x for x in side if x.strip() in other] for side, other in ((left, keys[1]), (right, keys[0]))]
        rest = [[x for x in side if x not in gone] for side, gone in zip((left, right), moved, strict=True)]
        made += [Row(x, "<", "") for x in moved[0]]
        both = min(map(len, rest))
        made += [Row(x, "|", y) for x, y in zip(rest[0][:both], rest[1][:both], strict=True)]
        made += [Row(x, "-", "") for x in rest[0][both:]]
        made += [Row("", "+", y) for y in rest[1][both:]]
        made += [Row("", ">", y) for y in moved[1]]
    return made


def text(steps: Sequence[Shown]) -> str:
    """The steps as text, two columns each."""
    parts: list[str] = []
    for step in steps:
        width = min(max((len(row.before) for row in step.rows), default=0), MOST_WIDTH)
        parts.append(f"[{step.number}] {step.line}    # {step.verdict}")
        for row in step.rows:
            first, *more = _cut(row.before, width)
            after, *later = _cut(row.after, MOST_WIDTH)
            parts.append(f"    {first:{width}} {row.mark} {after}".rstrip())
            for at in range(max(len(more), len(later))):
                x = more[at] if at < len(more) else ""
                y = later[at] if at < len(later) else ""
                parts.append(f"    {x:{width}}   {y}".rstrip())
    return "\n".join(parts)


def _cut(line: str, width: int) -> list[str]:
    """A line in pieces that are not wider."""
    return [line[at : at + width] for at in range(0, len(line), width)] if line else [""]


STYLE = (
    "body{font-family:sans-serif}table{border-collapse:collapse;font-family:monospace;white-space:pre}td{padding:0 1em}"
    ".changed{background:#fff3bf}.gone{background:#ffe3e3}.new{background:#d3f9d8}.moved{background:#d0ebff}"
)
CLASSES = {" ": "", "|": "changed", "-": "gone", "+": "new", "<": "moved", ">": "moved"}


def page(steps: Sequence[Shown], title: str, path: str | PathLike[str]) -> None:
    """Write the steps as a page that needs nothing else."""
    parts = [f"<!doctype html><meta charset=utf-8><title>{html.escape(title)}</title><style>{STYLE}</style>"]
    parts.append(f"<h1>{html.escape(title)}</h1>")
    for step in steps:
        parts.append(f"<h2>{step.number}. <code>{html.escape(step.line)}</code></h2><p>{html.escape(step.verdict)}</p>")
        parts.append("<table>")
        for row in step.rows:
            cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in (row.before, row.mark, row.after))
            parts.append(f'<tr class="{CLASSES[row.mark]}">{cells}</tr>')
        parts.append("</table>")
    Path(path).write_text("\n".join(parts) + "\n", encoding="utf-8")
