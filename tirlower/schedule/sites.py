"""Where handles stand: one table from a handle to its place, moved along by every change.

A change names the statements that it replaces and what became of those inside (:class:`Forward`). The tree is copied
along the way to them; handles elsewhere stay where they are, so that a look-up never replays what happened before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Expr, Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.index_map import IndexMap
from tirlower.ir.path import Path, node_at
from tirlower.ir.stmt import Seq, Stmt, is_no_op
from tirlower.schedule.edits import Edit, Insert, Rebuilt, Site, Steps
from tirlower.schedule.handles import Handle

__all__ = [
    "Change", "Edit", "Ended", "Forward", "Gap", "Insert", "Inside", "Mark", "Memory", "Moved", "Place", "Relaid", "Site", "Steps", "at_site", "moved",
]  # fmt: skip

Inside: TypeAlias = "Callable[[Stmt], Sequence[tuple[Steps, Stmt]]]"
"""The statements under (and including) one, each with the way to it, in the order of the text."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What became of a handle that is no more: in which step, by what, and the handles of what came of it."""

    step: int
    verb: str
    became: tuple[Handle, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """The place of a handle of a buffer: the function, and the buffer as it is there now."""

    func: str
    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Mark:
    """The place of a handle of a loop that says where something is computed and is no loop: "inline" or "root"."""

    what: str


@dataclass(frozen=True, slots=True)
class Gap:
    """What a step gives for a place between statements: "before" or "after" the one at a site."""

    site: Site
    side: str


Place: TypeAlias = "Site | Memory | Mark | Ended"


@dataclass(frozen=True, slots=True)
class Relaid:
    """Another layout of a parameter: where its elements are, and what stands where none is (of the new indices), if that is said."""

    index_map: IndexMap
    padding: IndexMap | None = None


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
        self.twins: dict[Stmt, tuple[Stmt, ...]] = {}

    def keep(self, old: Stmt, new: Stmt, *twins: Stmt) -> None:
        """A statement goes on as another one; ``twins`` are further copies of it."""
        self._kept[old] = new
        if twins:
            self.twins[old] = twins

    def end(self, old: Stmt, *became: Stmt) -> None:
        """A statement is no more; others came of it."""
        self.ended[old] = became

    def like(self, old: Stmt, new: Stmt) -> None:
        """A statement and all inside go on as those of another one of the same shape."""
        stack = [(old, new)] if old is not new else []
        while stack:
            a, b = stack.pop()
            self._kept[a] = b
            mine, theirs = ([s for s in x.children() if isinstance(s, Stmt)] for x in (a, b))
            stack += [pair for pair in zip(mine, theirs, strict=True) if pair[0] is not pair[1]]

    def after(self, old: Stmt) -> Stmt:
        """What a statement goes on as."""
        return self._kept.get(old, old)


class Moves(Protocol):
    """A function made of another one, and where old places are in it."""

    @property
    def func(self) -> PrimFunc:
        """The function."""

    def moved(self, steps: Steps) -> Steps | None:
        """Where an old place is now; None where something else stands."""

    def beside(self) -> tuple[Steps, int, bool] | None:
        """Where all changes are: under one statement of a sequence, given by the way to the sequence's statements and a number.
        With True, what stands behind it in the sequence has another number now. None where they are at several places."""

    def made(self) -> Iterable[tuple[Steps, Stmt]]:
        """The statements that took the place of others or were put in, each with its place."""

    def kept(self) -> Iterable[tuple[Steps, Stmt]]:
        """The statements around these, each with its place."""


@dataclass(frozen=True)
class Change:
    """What a step does: what it replaces by what, what became of handles, what comes out.

    ``edits`` are of places of the program as it is, in any of its functions, none inside of another one
    (:class:`~tirlower.schedule.edits.Edit`, :class:`~tirlower.schedule.edits.Insert`). ``forward`` says what became of the
    statements inside; those in a place that nothing stands in any more end by themselves. ``outputs`` are what the step
    returns handles of: statements of the changed program, places in it, buffers of it (in the function of the first
    edit), marks, gaps, numbers (of which the schedule's expressions get their values). ``exactness`` says what results are up to: "bitwise", or in
    which way not. ``buffers`` are those that took the place of others. ``decision`` and ``random`` are what was drawn, and the
    next state of the generator. ``interface`` gives the handle parameters whose arrays have another layout, with the map to it.
    ``relabel`` gives the loops that are no more as expressions over those that came of them, for a proof from the two programs
    alone (:mod:`tirlower.schedule.reproof`); None where iterations are not the same ones. ``rebuilt`` is the function of the one
    edit as it is then, where somebody made it who knows where everything in it came from.
    """

    edits: Edit | Insert | tuple[Edit | Insert, ...] = ()
    forward: Forward = field(default_factory=Forward)
    outputs: tuple[Stmt | Site | Buffer | Mark | Gap | int, ...] = ()
    exactness: str = "bitwise"
    buffers: Mapping[Buffer, Buffer] = field(default_factory=dict)
    decision: object = None
    random: int | None = None
    interface: Mapping[Var, Relaid] = field(default_factory=dict)
    relabel: Mapping[Var, Expr] | None = None
    rebuilt: Moves | None = None

    def of(self) -> dict[str, list[Edit | Insert]]:
        """The edits by their function."""
        found: dict[str, list[Edit | Insert]] = {}
        for edit in self.edits if isinstance(self.edits, tuple) else (self.edits,):
            found.setdefault(edit.site.func, []).append(edit)
        return found


def at_site(mod: IRModule, site: Site) -> Stmt | PrimFunc:
    """What stands at a place."""
    found = node_at(mod[site.func], Path(site.steps))
    assert isinstance(found, (Stmt, PrimFunc))
    return found


@dataclass(frozen=True)
class Moved:
    """What a change makes of a module and of the table of handles: ``found`` are the places of the statements that it made,
    ``gone`` the handles that it ended, each with its old statement."""

    mod: IRModule
    places: dict[Handle, Place]
    found: dict[Stmt, Site]
    gone: dict[Handle, Stmt] = field(default_factory=dict)


def moved(mod: IRModule, places: Mapping[Handle, Place], change: Change, ended: Ended, inside: Inside) -> Moved:
    """The module and the table after a change.

    Handles that the change ends are ``ended``; what became of them is the caller's to fill in, who makes the handles.
    """
    table, found = dict(places), dict[Stmt, Site]()
    if change.edits == () and not change.buffers:
        return Moved(mod, table, found)
    edits = change.of()
    made: dict[str, Moves | Rebuilt] = {}
    for name, changes in edits.items():
        one = made[name] = change.rebuilt if change.rebuilt is not None else Rebuilt(mod[name], changes)
        for way, part in one.made():
            found.update((stmt, Site(name, (*way, *rest))) for rest, stmt in inside(part))
        if not isinstance(one, Rebuilt):
            found.update((stmt, Site(name, way)) for way, stmt in one.kept())
    removes = change.rebuilt is not None or any(
        isinstance(edit, Edit) and edit.new is None for changes in edits.values() for edit in changes
    )
    gone: dict[Handle, Stmt] = {}
    for name, one in made.items():
        for handle, place in _touched(places, name, one.beside()):
            steps = one.moved(place.steps)
            if steps is not None:
                if steps != place.steps:
                    table[handle] = Site(name, steps)
                continue
            old = node_at(mod[name], Path(place.steps))
            if isinstance(old, PrimFunc):
                continue  # the root of a function without a root block
            assert isinstance(old, Stmt)
            new = change.forward.after(old)
            if old in change.forward.ended:
                table[handle] = ended
            else:
                # A sequence put into another one is no statement of its own any more, and what does nothing may be dropped.
                may_end = removes or isinstance(new, Seq) or is_no_op(new)
                table[handle] = found.get(new, ended) if may_end else found[new]
            if table[handle] is ended:
                gone[handle] = old
    if change.buffers:
        for handle, stands in places.items():
            if isinstance(stands, Memory) and stands.buffer in change.buffers:
                table[handle] = Memory(stands.func, change.buffers[stands.buffer])
    for name, one in made.items():
        mod = mod.with_func(name, one.func)
    return Moved(mod, table, found, gone)


def _touched(
    places: Mapping[Handle, Place], name: str, beside: tuple[Steps, int, bool] | None
) -> list[tuple[Handle, Site]]:
    """The handles of a function whose places a change may have moved (:meth:`Moves.beside`): those of one nest, in a function of
    forty; to ask each of them where it is now took a third of the time of such a schedule."""
    way, number, shifts = beside or ((), -1, True)
    depth = len(way)
    return [
        (handle, place)
        for handle, place in places.items()
        if isinstance(place, Site)
        and (
            len(steps := place.steps) <= depth
            or (at := steps[depth]) == number
            or (shifts and (steps[:depth] != way or not isinstance(at, int) or at > number))
        )
        and place.func == name
    ]
