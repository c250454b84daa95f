"""Where handles stand: one table from a handle to its place, moved along by every change.

A change names the statements that it replaces and what became of those inside (:class:`Forward`). The tree is copied
along the way to them; handles elsewhere stay where they are, so that a look-up never replays what happened before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.path import Path, Step, node_at, replace_at
from tirlower.ir.stmt import Seq, Stmt, declares
from tirlower.schedule.handles import Handle

__all__ = ["Change", "Edit", "Ended", "Forward", "Inside", "Place", "Site", "Steps", "at_site", "moved"]

Steps: TypeAlias = "tuple[Step, ...]"
Inside: TypeAlias = "Callable[[Stmt], Sequence[tuple[Steps, Stmt]]]"
"""The statements under (and including) one, each with the way to it, in the order of the text."""


@dataclass(frozen=True, slots=True)
class Site:
    """A place in a function of the module; without steps, the function."""

    func: str
    steps: Steps = ()


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a handle that is no more: in which step, by what, and the handles of what came of it."""

    step: int
    verb: str
    became: tuple[Handle, ...] = ()


Place: TypeAlias = "Site | Ended"


@dataclass(frozen=True, slots=True)
class Edit:
    """A statement of a function, given by its place, becomes another one."""

    site: Site
    new: Stmt


class Forward:
    """What became of the statements inside of what a change replaced. One that is not named stayed the same object.

    >>> from tirlower.ir import Evaluate, For, Var
    >>> loop, forward = For(Var("i"), 0, 8, "serial", None, {}, Evaluate(0)), Forward()
    >>> forward.keep(loop, loop.with_(kind="parallel"))
    >>> forward.after(loop).kind.value, loop in forward.ended
    ('parallel', False)
    """

    def __init__(self) -> None:
        self._kept: dict[Stmt, Stmt] = {}
        self.ended: dict[Stmt, tuple[Stmt, ...]] = {}

    def keep(self, old: Stmt, new: Stmt) -> None:
        """A statement goes on as another one."""
        self._kept[old] = new

    def end(self, old: Stmt, *became: Stmt) -> None:
        """A statement is no more; others came of it."""
        self.ended[old] = became

    def like(self, old: Stmt, new: Stmt) -> None:
        """A statement and all inside go on as those of another one of the same shape."""
        stack = [(old, new)]
        while stack:
            a, b = stack.pop()
            if a is b:
                continue
            self._kept[a] = b
            mine, theirs = ([s for s in x.children() if isinstance(s, Stmt)] for x in (a, b))
            stack += zip(mine, theirs, strict=True)

    def after(self, old: Stmt) -> Stmt:
        """What a statement goes on as."""
        return self._kept.get(old, old)


@dataclass(frozen=True)
class Change:
    """What a step does: what it replaces by what, what became of handles, what comes out.

    ``outputs`` are statements of the changed program or places in it, of which the step returns handles; ``exactness``
    says what the results are up to: "bitwise", or in which way not.
    """

    edit: Edit | None = None
    forward: Forward = field(default_factory=Forward)
    outputs: tuple[Stmt | Site, ...] = ()
    exactness: str = "bitwise"


def at_site(mod: IRModule, site: Site) -> Stmt | PrimFunc:
    """What stands at a place."""
    found = node_at(mod[site.func], Path(site.steps))
    assert isinstance(found, (Stmt, PrimFunc))
    return found


def moved(
    mod: IRModule, places: Mapping[Handle, Place], change: Change, ended: Ended, inside: Inside
) -> tuple[IRModule, dict[Handle, Place], dict[Stmt, Site]]:
    """The module and the table after a change, and the places of the statements that it made.

    Handles that the change ends are ``ended``; what became of them is the caller's to fill in, who makes the handles.
    """
    table, edit = dict(places), change.edit
    if edit is None:
        return mod, table, {}
    site, func = edit.site, mod[edit.site.func]
    steps, depth, last = site.steps, len(site.steps), site.steps[-1]
    parts = [(steps, edit.new)]
    if isinstance(last, int) and isinstance(edit.new, Seq) and not declares(edit.new):
        # Spliced into the sequence that it stands in: those behind it are counted anew.
        parts = [((*steps[:-1], last + at), stmt) for at, stmt in enumerate(edit.new.stmts)]
    found = {stmt: Site(site.func, (*way, *rest)) for way, part in parts for rest, stmt in inside(part)}
    for handle, place in places.items():
        if not isinstance(place, Site) or place.func != site.func or place.steps[: depth - 1] != steps[:-1]:
            continue
        at = place.steps[depth - 1] if len(place.steps) >= depth else None
        if at == last:
            old = node_at(func, Path(place.steps))
            assert isinstance(old, Stmt)
            table[handle] = ended if old in change.forward.ended else found[change.forward.after(old)]
        elif len(parts) > 1 and isinstance(at, int) and isinstance(last, int) and at > last:
            behind = (*steps[:-1], at + len(parts) - 1, *place.steps[depth:])
            table[handle] = Site(site.func, behind)
    return mod.with_func(site.func, replace_at(func, Path(steps), edit.new)), table, found
