"""Bounds of accesses: proved, refused with an iteration, or left open for a guard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tirlower import poly
from tirlower.diagnostics import Label, LegalityError
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import Expr
from tirlower.ir.stmt import Bind, Stmt
from tirlower.legality.notes import AccessNote
from tirlower.legality.views import View, find_views

__all__ = ["BoundVerdicts", "OpenAccess", "judge_accesses"]


@dataclass
class OpenAccess:
    """An access that is not proved inside its buffer, and why.

    ``axes`` are the subscripts to look at; ``source`` says that a matched region may reach outside the buffer that it is
    of; ``view`` that the buffer is a view that may reach outside its memory.
    """

    text: str
    place: str
    reason: str
    axes: set[int] = field(default_factory=set)
    source: bool = False
    view: View | None = None


@dataclass
class BoundVerdicts:
    """The verdicts on a function's accesses.

    ``known`` holds the ids of the accesses that were looked at; ``open`` those that are not proved; ``proved`` counts
    the others; ``trusted`` notes what no guard can look at; ``held`` are the bindings that guards of views need.
    """

    function: str
    known: set[int] = field(default_factory=set)
    open: dict[int, OpenAccess] = field(default_factory=dict)
    proved: int = 0
    trusted: tuple[AccessNote, ...] = ()
    held: Mapping[int, Bind] = field(default_factory=dict)

    def notes(self) -> Iterator[AccessNote]:
        """A note on each open access."""
        for access in self.open.values():
            yield AccessNote(self.function, access.text, access.place, access.reason)


def judge_accesses(name: str, scop: poly.Scop, mode: str, *, again: bool = False) -> BoundVerdicts:
    """The verdict on every access of a function.

    Raises :class:`LegalityError` for one that certainly goes outside, and with ``mode == "refuse"`` for one that may. A
    program that was taken in another form is judged ``again``: what was not certain there has its guard here.
    """
    judged = BoundVerdicts(name)
    views = find_views(scop)
    judged.held = views.held
    for bound in poly.check_bounds(scop):
        access, verdict = bound.access, bound.verdict
        node = access.node
        judged.known.add(id(node))
        repeats = access.buffer is not None and access.buffer.buffer_type == "auto_broadcast"
        if verdict.refuted and not repeats and not (again and mode == "guard"):
            raise _error(name, bound, "goes outside its buffer")
        view = views.open.get(access.buffer) if access.buffer is not None else None
        if verdict.proved and bound.inside_source and view is None:
            judged.proved += 1
            continue
        if mode == "refuse":
            raise _error(name, bound, "cannot be proved inside its buffer")
        reason = verdict.reason
        if verdict.proved:
            reason = (
                view.reason if view is not None else f"the region that {_buffer_name(bound)} matches may reach outside"
            )
        found = judged.open.setdefault(id(node), OpenAccess(access.text, _place(node), reason))
        found.axes.update(range(len(access.indices or ())) if verdict.refuted else bound.open)
        found.source = found.source or not bound.inside_source
        found.view = found.view or view
    judged.trusted = tuple(_trusted(name, scop, views.pointers))
    return judged


def _buffer_name(bound: poly.AccessBounds) -> str:
    buffer = bound.access.buffer
    return buffer.name if buffer is not None else bound.access.data.name


def _place(node: Expr | Stmt) -> str:
    return "" if node.span is None else str(node.span)


def _trusted(name: str, scop: poly.Scop, pointers: list[Buffer]) -> Iterator[AccessNote]:
    """What only callees and the caller know: memory handed to a call, and memory behind a pointer."""
    for buffer in pointers:
        yield AccessNote(
            name, buffer.name, "", f"how much memory is behind the pointer {buffer.data.name} is not known"
        )
    seen: set[int] = set()
    for access in scop.accesses:
        given = access.indices is None or access.extents is None
        if given and isinstance(access.data.type, PointerType) and id(access.node) not in seen:
            seen.add(id(access.node))
            what = (
                f"a pointer to {access.buffer.name if access.indices is None and access.buffer else access.data.name}"
            )
            yield AccessNote(name, what, _place(access.node), "what a callee reaches through it is not checked")


def _error(name: str, bound: poly.AccessBounds, problem: str) -> LegalityError:
    verdict, access = bound.verdict, bound.access
    error = verdict.error(f"the access {access.text} of {name!r} {problem}", "legality")
    if access.node.span is not None and not error.labels:
        error.labels.append(Label(access.node.span, "this access"))
    if not error.help:
        error.help = (
            'guard it (if, T.where, T.if_then_else), state the missing fact with T.assume, or leave "refuse" out'
        )
    return error
