"""A schedule at one moment, as a value: the module, where handles stand, the step that led here and the moment before.

Moments are never changed, so that a copy, an undo and an attempt that fails cost nothing, whatever the module weighs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tirlower.diagnostics import BadArgument, DeadHandle
from tirlower.ir.expr import Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.stmt import Stmt
from tirlower.schedule.handles import Handle
from tirlower.schedule.kind import Kind
from tirlower.schedule.sites import Mark, Memory, Place, Relaid, Site, at_site

__all__ = ["Instruction", "Record", "State"]


@dataclass(eq=False)
class Instruction:
    """One step of a trace: a primitive with its inputs (handles and values), attributes, and the handles that it gave.

    ``extra`` are arguments that TVM does not know. Compared by identity.
    """

    kind: Kind
    inputs: list[object]
    attrs: list[object]
    outputs: list[Handle | Var]
    extra: dict[str, object] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind.name}({', '.join(map(str, [*self.inputs, *self.attrs]))})"


@dataclass(frozen=True)
class Record:
    """What is known of a step that was taken: ``verdict`` ("proved", "trusted", "unchecked"), ``why``, ``exactness``,
    ``seconds`` that it took, and the user operations that it belongs to, outermost first; of a bigger step its ``parts``.
    ``interface`` gives the handle parameters whose arrays have another layout since, with the map to it.
    """

    instruction: Instruction
    decision: object = None
    verdict: str = "proved"
    why: str = ""
    exactness: str = "bitwise"
    seconds: float = 0.0
    group: tuple[str, ...] = ()
    parts: tuple[Record, ...] = ()
    interface: Mapping[Var, Relaid] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """A moment of a schedule. ``steps`` counts the steps that changed something or may have; ``random`` is the state of
    the generator; ``values`` are those of the expressions that the schedule made; ``twins`` the handles of the other copies
    of what was written several times.
    """

    mod: IRModule
    places: Mapping[Handle, Place]
    random: int
    working_on: str | None
    values: Mapping[Var, int] = field(default_factory=dict)
    before: State | None = None
    record: Record | None = None
    steps: int = 0
    twins: Mapping[Handle, tuple[Handle, ...]] = field(default_factory=dict)

    def moments(self) -> list[State]:
        """The moments that led here, the first one first; those of steps alone."""
        return [state for state in self._back() if state.record is not None or state.before is None][::-1]

    def records(self) -> list[Record]:
        """The steps that led here, the first one first."""
        return [state.record for state in self._back() if state.record is not None][::-1]

    @property
    def first(self) -> State:
        """The moment before all steps."""
        return list(self._back())[-1]

    def _back(self) -> Iterator[State]:
        state: State | None = self
        while state is not None:
            yield state
            state = state.before

    def site(self, handle: Handle) -> Site:
        """Where a statement's handle stands. Raises :class:`DeadHandle` as :meth:`place` does."""
        place = self.place(handle)
        if isinstance(place, Memory):
            raise BadArgument(f"the buffer `{handle.name}` is no statement")
        if isinstance(place, Mark):
            raise BadArgument(
                f"`{handle.name}` says where a block is computed, and is no loop of the program",
                help="compute_at and reverse_compute_at take it",
            )
        return place

    def place(self, handle: Handle) -> Site | Memory | Mark:
        """Where a handle stands. Raises :class:`DeadHandle` for one that ended, or of another schedule."""
        place = self.places.get(handle)
        if isinstance(place, (Site, Memory, Mark)):
            return place
        name = f"the {handle.what} `{handle.name}`"
        if place is None:
            raise DeadHandle(
                f"{name} is of another schedule, or was removed",
                help="a copy knows the handles that there were when it was made",
            )
        became = ", ".join(f"`{one.name}`" for one in place.became)
        raise DeadHandle(
            f"{name} is no more: {place.verb} ended it in step {place.step}"
            + (f"; it became {became}" if became else ""),
            help="use the handles that the step returned",
        )

    def stmt(self, handle: Handle) -> Stmt | PrimFunc:
        """The statement that a handle stands for; a function where it is the root of one without a root block."""
        return at_site(self.mod, self.site(handle))
