"""A function with statements replaced, put in and taken out at several places at once, by copying the ways to them.

What does not lie on such a way stays the same object. :class:`Rebuilt` says where every old place is afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tirlower.diagnostics import ScheduleError
from tirlower.ir.expr import const
from tirlower.ir.func import PrimFunc
from tirlower.ir.path import Step
from tirlower.ir.stmt import DECLARATIONS, Block, Evaluate, Seq, Stmt, declares

__all__ = ["Edit", "Insert", "Rebuilt", "Site", "Steps", "edits_between"]

Steps: TypeAlias = "tuple[Step, ...]"


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a function of the module; without steps, the function."""

    func: str
    steps: Steps = ()

    def __truediv__(self, steps: Steps) -> Site:
        return Site(self.func, (*self.steps, *steps))


@dataclass(frozen=True, slots=True)
class Edit:
    """A statement of a function, given by its place, becomes another one, or (None) is no more.

    A sequence that comes to stand in a sequence is spliced into it, one that declares something only with ``splice``:
    its declarations then reach what stands behind it. Without steps, the whole function becomes another one.
    """

    site: Site
    new: Stmt | PrimFunc | None
    splice: bool = False


@dataclass(frozen=True, slots=True)
class Insert:
    """Statements come to stand in front of a place, or behind it. In front of a sequence is at its head.

    They are spliced into the sequence there, so that what they declare reaches to its end.
    """

    site: Site
    stmts: tuple[Stmt, ...]
    behind: bool = False


def edits_between(site: Site, old: Stmt, new: Stmt) -> tuple[Edit, ...]:
    """The edits, of as little as can be, that make a statement at a place another one of the same outer form."""
    if old is new:
        return ()
    if isinstance(old, Seq) and isinstance(new, Seq) and len(old.stmts) == len(new.stmts):
        changed = [(at, a, b) for at, (a, b) in enumerate(zip(old.stmts, new.stmts, strict=True)) if a is not b]
        return tuple([edit for at, a, b in changed for edit in edits_between(site / ("stmts", at), a, b)])
    if isinstance(old, Block) and isinstance(new, Block):
        others = [f.name for f in old.fields if f.name not in ("body", "span")]
        if all(_is_same(getattr(old, name), getattr(new, name)) for name in others):
            return edits_between(site / ("body",), old.body, new.body)
    return (Edit(site, new),)


def _is_same(one: object, other: object) -> bool:
    """Whether two fields are one; annotations are a new dictionary in each node."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(value is other[key] for key, value in one.items())
    return one is other


@dataclass(eq=False, slots=True)
class _Plan:
    """What is done at a place and under it."""

    children: dict[Step, _Plan] = field(default_factory=dict)
    edit: Edit | None = None
    before: list[Stmt] = field(default_factory=list)
    after: list[Stmt] = field(default_factory=list)
    count: int = 1
    """How many statements stand here afterwards, without those put in front and behind."""
    many: bool = False
    """Whether a place that held one statement holds a sequence afterwards."""
    grown: dict[int, int] = field(default_factory=dict)
    """Of the statements of a sequence: by how much further from the start those from a number on are, up to the next one."""
    flat: bool = False
    """Whether what was a sequence of its own in a sequence is part of that one afterwards, having lost its declarations."""
    left: int = 2
    """Of the statements of a sequence: how many there are afterwards. A single one stands without it."""


def _start(plan: _Plan, number: int) -> int:
    """Where a statement of a sequence starts afterwards, with those put in front of it."""
    return number + next((by for at, by in reversed(plan.grown.items()) if at <= number), 0)


def _planned(func: PrimFunc, changes: Sequence[Edit | Insert]) -> _Plan:
    root = _Plan()
    for change in changes:
        steps, value = change.site.steps, _at(func, change.site.steps)
        if isinstance(change, Insert) and isinstance(value, Seq):
            # At the head or the end of the sequence itself, whose declarations the statements are among.
            steps = (*steps, "stmts", len(value.stmts) - 1 if change.behind else 0)
        plan = root
        for step in steps:
            if plan.edit is not None:
                raise ScheduleError("internal error: a change stands inside of another one")
            plan = plan.children.setdefault(step, _Plan())
        if isinstance(change, Insert):
            side = plan.after if change.behind else plan.before
            for stmt in change.stmts:
                side += stmt.stmts if isinstance(stmt, Seq) and not declares(stmt) else (stmt,)
        elif plan.edit is not None or plan.children:
            raise ScheduleError("internal error: two changes are of one place")
        else:
            plan.edit = change
    return root


def _at(root: object, steps: Steps) -> object:
    value = root
    for step in steps:
        value = getattr(value, step) if isinstance(step, str) else value[step]  # type: ignore[index]
    return value


class Rebuilt:
    """A function after changes: ``func``, and where old places are now."""

    def __init__(self, func: PrimFunc, changes: Sequence[Edit | Insert]) -> None:
        self._plan = _planned(func, changes)
        made = self._inner(func, self._plan) if self._plan.edit is None else self._plan.edit.new
        assert isinstance(made, PrimFunc)
        self.func = made

    def _inner(self, node: object, plan: _Plan) -> object:
        """A node with what is planned under it."""
        new: dict[str, object] = {}
        for name, sub in plan.children.items():
            assert isinstance(name, str)
            value = getattr(node, name)
            if isinstance(value, tuple):
                return self._sequence(node, value, sub)
            parts = self._parts(value, sub)
            sub.many = len(parts) > 1
            new[name] = Seq(tuple(parts)) if sub.many else parts[0] if parts else Evaluate(const(0, "int32"))
        return node.with_(**new)  # type: ignore[attr-defined]

    def _sequence(self, node: object, stmts: tuple[Stmt, ...], plan: _Plan) -> Stmt:
        made: list[Stmt] = []
        behind = 0
        for at in sorted(plan.children):
            assert isinstance(at, int)
            made += stmts[behind:at]
            plan.grown[at] = len(made) - at
            made += self._parts(stmts[at], plan.children[at], listed=True)
            behind = at + 1
            plan.grown[behind] = len(made) - behind
        made += stmts[behind:]
        plan.left = len(made) if len(stmts) > 1 or len(made) != 1 else 2
        if not made:
            return Evaluate(const(0, "int32"))
        if plan.left == 1 and not isinstance(made[0], (Seq, *DECLARATIONS)):
            return made[0]
        plan.left = 2
        assert isinstance(node, Seq)
        return node.with_(stmts=tuple(made))

    def _parts(self, stmt: Stmt, plan: _Plan, listed: bool = False) -> list[Stmt]:
        """What stands in the place of a statement, of a sequence (``listed``) or a field."""
        if plan.edit is None:
            made = self._inner(stmt, plan) if plan.children else stmt
            plan.flat = listed and isinstance(made, Seq) and not declares(made)
            parts: list[object] = [*made.stmts] if plan.flat else [made]  # type: ignore[attr-defined]
        else:
            new = plan.edit.new
            if new is None:
                parts = []
            elif isinstance(new, Seq) and (plan.edit.splice or not declares(new)):
                parts = [*new.stmts]
            else:
                parts = [new]
        plan.count = len(parts)
        return [*plan.before, *parts, *plan.after]  # type: ignore[list-item]

    def moved(self, steps: Steps) -> Steps | None:
        """Where an old place is now; None where it is at or under one that was replaced."""
        plan, out, at = self._plan, list[Step](), 0
        while at < len(steps):
            if plan.edit is not None:
                return None
            step = steps[at]
            sub = plan.children.get(step)
            if sub is None:
                out += steps[at:]
                return tuple(out)
            if step == "stmts":
                number = steps[at + 1]
                assert isinstance(number, int)
                inner = sub.children.get(number)
                if sub.left != 1:
                    start = _start(sub, number) + (len(inner.before) if inner is not None else 0)
                    if plan.flat:
                        assert isinstance(out[-1], int)
                        out[-1] += start
                    else:
                        out += ("stmts", start)
                at += 2
                if inner is None:
                    out += steps[at:]
                    return tuple(out)
                plan = inner
            else:
                out.append(step)
                if sub.many:
                    out += ("stmts", len(sub.before))
                plan, at = sub, at + 1
        return None if plan.edit is not None else tuple(out)

    def beside(self) -> tuple[Steps, int, bool] | None:
        """Where all changes are (:meth:`~tirlower.schedule.sites.Moves.beside`)."""
        plan, way = self._plan, list[Step]()
        while (
            plan.edit is None and not (plan.before or plan.after or plan.many or plan.flat) and len(plan.children) == 1
        ):
            [(step, sub)] = plan.children.items()
            if step == "stmts":
                if sub.left == 1 or len(sub.children) != 1:
                    return None
                [(number, _)] = sub.children.items()
                assert isinstance(number, int)
                return (*way, "stmts"), number, sub.grown[number + 1] != 0
            way.append(step)
            plan = sub
        return None

    def made(self) -> Iterator[tuple[Steps, Stmt]]:
        """The statements that replaced others or were put in, each with its new place."""
        stack: list[tuple[_Plan, Steps, bool]] = [(self._plan, (), False)]
        while stack:
            plan, here, listed = stack.pop()
            if listed or plan.many:
                base = here if not listed else here[:-1]
                first = here[-1] if listed else 0
                assert isinstance(first, int)
                way = base if listed else (*base, "stmts")
                spread = [*plan.before, *([None] * plan.count), *plan.after]
                for k, stmt in enumerate(spread):
                    if stmt is not None:
                        yield (*way, first + k), stmt
                start = first + len(plan.before)
                if plan.edit is not None:
                    parts = self._edited(plan.edit)
                    yield from (((*way, start + k), part) for k, part in enumerate(parts))
                    continue
                here = (*way, start)
            elif plan.edit is not None:
                base = ("body",) if isinstance(plan.edit.new, PrimFunc) else here
                yield from ((base, part) for part in self._edited(plan.edit))
                continue
            else:
                yield from ((here, stmt) for stmt in (*plan.before, *plan.after))  # where all else is gone
            for name, sub in plan.children.items():
                if name == "stmts":
                    for number, inner in sub.children.items():
                        assert isinstance(number, int)
                        start = _start(sub, number)
                        if sub.left == 1:
                            stack.append((inner, here, False))
                        elif plan.flat:
                            assert isinstance(here[-1], int)
                            stack.append((inner, (*here[:-1], here[-1] + start), True))
                        else:
                            stack.append((inner, (*here, "stmts", start), True))
                else:
                    stack.append((sub, (*here, name), False))

    def _edited(self, edit: Edit) -> Sequence[Stmt]:
        new = edit.new
        if new is None:
            return ()
        if isinstance(new, PrimFunc):
            return (new.body,)
        return new.stmts if isinstance(new, Seq) and (edit.splice or not declares(new)) else (new,)
