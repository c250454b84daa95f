"""Where the places of a function stand in another one that was made of it: what a draft leaves behind, statement by statement.

It is to a draft what :class:`~tirlower.schedule.edits.Rebuilt` is to edits: :attr:`Trails.func`, :meth:`Trails.moved`,
:meth:`Trails.made`. Both cost what was changed, not what the function weighs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tirlower.ir.func import PrimFunc
from tirlower.ir.path import Step
from tirlower.ir.stmt import Seq, Stmt, declares
from tirlower.schedule.edits import Steps
from tirlower.schedule.sites import Forward

__all__ = ["Trail", "Trails", "spliced"]


def spliced(stmts: Iterable[Stmt]) -> list[Stmt]:
    """Statements as they stand in a sequence: those of a sequence among them, unless it declares something."""
    made: list[Stmt] = []
    for stmt in stmts:
        if isinstance(stmt, Seq) and not declares(stmt):
            made += spliced(stmt.stmts)
        else:
            made.append(stmt)
    return made


@dataclass(eq=False, slots=True)
class Trail:
    """What stands in the place of a statement (``parts``, as in a sequence): ``own`` of them, behind the first ``first``, are
    the statement's own.

    ``replaced``: they are other statements; else the statement with what its ``children`` became, ``changed`` in other ways too. ``flat``: a sequence
    whose statements are themselves among the parts. Children have their field's name, or their number in a sequence.
    """

    old: Stmt
    parts: list[Stmt]
    first: int = 0
    own: int = 1
    replaced: bool = False
    changed: bool = False
    flat: bool = False
    children: dict[Step, Trail] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    """Of the statements of a sequence from a number on: where they start among those that stand there now."""

    def start(self, number: int) -> int:
        """Where the statement of a number starts among those of the sequence now."""
        at = bisect_right(self.numbers, number) - 1
        return number if at < 0 else self.starts[at] + number - self.numbers[at]

    @property
    def extra(self) -> list[Stmt]:
        """What was put in front and behind."""
        return [*self.parts[: self.first], *self.parts[self.first + self.own :]]

    @property
    def same(self) -> bool:
        """Whether the statement itself is what it was."""
        return not (self.gone or self.changed or self.children)

    @property
    def gone(self) -> bool:
        """Whether nothing of the statement itself is left."""
        return self.replaced or not self.own


class Trails:
    """A function made of another one by a draft."""

    def __init__(self, func: PrimFunc, root: Trail, forward: Forward) -> None:
        self.func = func
        self.root = root
        self.forward = forward

    def moved(self, steps: Steps) -> Steps | None:
        """Where an old place is now; None where what stood there became something else."""
        if not steps:
            return steps
        trail, here, start, many, at = self.root, steps[:1], 0, len(self.root.parts) > 1, 1
        while True:
            if trail.gone:
                return None
            base = start + trail.first
            core: Steps = (*here, "stmts", base) if many else here
            if at == len(steps):
                return core if trail.flat or self._stays(trail) else None
            step = steps[at]
            if isinstance(trail.old, Seq):
                number = steps[at + 1]
                assert isinstance(number, int)
                first = trail.start(number)
                here, start, many = (here, base + first, many) if trail.flat else (core, first, True)
                inner = trail.children.get(number)
                at += 2
                if inner is None:
                    return (*here, "stmts", start, *steps[at:]) if many else (*here, *steps[at:])
            else:
                inner = trail.children.get(step)
                if inner is None:
                    return (*core, *steps[at:])
                here, start, many = (*core, step), 0, len(inner.parts) > 1
                at += 1
            trail = inner

    def beside(self) -> tuple[Steps, int, bool] | None:
        """Where all changes are (:meth:`~tirlower.schedule.sites.Moves.beside`)."""
        trail, here = self.root, list[Step](["body"])
        while not trail.gone and len(trail.children) == 1:
            [(step, inner)] = trail.children.items()
            if isinstance(step, int):
                # The statements of a flat one are among the parts, behind those in front.
                stays = not trail.first and len(trail.parts) > 1 if trail.flat else len(trail.parts) == 1
                return ((*here, "stmts"), step, trail.start(step + 1) != step + 1) if stays else None
            if len(trail.parts) != 1:
                break
            here.append(step)
            trail = inner
        return None

    def _stays(self, trail: Trail) -> bool:
        """Whether nothing else was said of a statement than that it stays where it is."""
        old = trail.old
        return old not in self.forward.ended and self.forward.after(old) in (old, trail.parts[trail.first])

    def made(self) -> Iterator[tuple[Steps, Stmt]]:
        """The statements that took the place of others or were put in, each with its new place."""
        for trail, place in self._walk():
            for at, stmt in enumerate(trail.parts):
                if trail.gone or not trail.first <= at < trail.first + trail.own:
                    yield place(at), stmt

    def kept(self) -> Iterator[tuple[Steps, Stmt]]:
        """The statements around what changed, as they are now, each with its place."""
        for trail, place in self._walk():
            if not (trail.gone or isinstance(trail.old, Seq)):
                yield place(trail.first), trail.parts[trail.first]

    def left(self) -> Iterator[Stmt]:
        """The old statements of which nothing is left where they stood, the outermost ones."""
        stack = [self.root]
        while stack:
            trail = stack.pop()
            if trail.gone:
                yield trail.old
            else:
                stack += trail.children.values()

    def _walk(self) -> Iterator[tuple[Trail, _Places]]:
        """Each trail with the places of its parts."""
        stack = [(self.root, _Places(("body",), 0, len(self.root.parts) > 1))]
        while stack:
            trail, place = stack.pop()
            yield trail, place
            if trail.gone:
                continue
            core = place(trail.first)
            for step, inner in trail.children.items():
                if isinstance(step, str):
                    stack.append((inner, _Places((*core, step), 0, len(inner.parts) > 1)))
                elif trail.flat:
                    assert isinstance(step, int)
                    stack.append((inner, _Places(place.way, place.start + trail.first + trail.start(step), place.many)))
                else:
                    assert isinstance(step, int)
                    stack.append((inner, _Places(core, trail.start(step), True)))


@dataclass(frozen=True, slots=True)
class _Places:
    """The places of statements that stand in a row: in a sequence from a number on, or of a single one in a field."""

    way: Steps
    start: int
    many: bool

    def __call__(self, at: int) -> Steps:
        return (*self.way, "stmts", self.start + at) if self.many else self.way
