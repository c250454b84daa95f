"""What the checks found, as data that anybody may read: notes on loops and accesses, and all of them together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TypedDict, TypeVar

__all__ = ["AccessNote", "CheckReport", "LoopNote"]


@dataclass(frozen=True)
class LoopNote:
    """A loop of the program that is not serial: its function, variable and kind.

    ``status`` is "proved", "trusted" (with the ``reason`` of its annotation ``tir.unchecked``) or "not checked".
    """

    function: str
    loop: str
    kind: str
    status: str = ""
    reason: str = ""

    def __str__(self) -> str:
        text = f"{self.function}: loop {self.loop} {self.kind}: {self.status}"
        return f"{text}, unchecked: {self.reason}" if self.reason else text


@dataclass(frozen=True)
class AccessNote:
    """An access that is not proved inside its buffer, or an assumption: the text, its place and the reason."""

    function: str
    access: str
    place: str
    reason: str

    def __str__(self) -> str:
        return f"{self.function}: {self.access}{f' at {self.place}' if self.place else ''}: {self.reason}"


_Note = TypeVar("_Note", LoopNote, AccessNote)


class SavedReport(TypedDict):
    """A :class:`CheckReport` as plain values."""

    on: bool
    loops: list[dict[str, str]]
    proved: dict[str, int]
    guarded: list[dict[str, str]]
    trusted: list[dict[str, str]]
    assumed: list[dict[str, str]]


@dataclass(frozen=True)
class CheckReport:
    """What was proved of a program before it was lowered, and what was not.

    ``on`` is False where the checks were turned off; ``loops`` has a note on each loop that is not serial; ``proved``
    counts the accesses of each function that are inside their buffers, always; ``guarded`` are those that are checked
    as they run; ``trusted`` those that nothing checks; ``assumed`` the facts that the program states.
    """

    on: bool = True
    loops: tuple[LoopNote, ...] = ()
    proved: Mapping[str, int] = field(default_factory=dict)
    guarded: tuple[AccessNote, ...] = ()
    trusted: tuple[AccessNote, ...] = ()
    assumed: tuple[AccessNote, ...] = ()

    def merged(self, other: CheckReport) -> CheckReport:
        """Both together."""
        return CheckReport(
            self.on and other.on,
            self.loops + other.loops,
            {**self.proved, **other.proved},
            self.guarded + other.guarded,
            self.trusted + other.trusted,
            self.assumed + other.assumed,
        )

    def without(self, functions: Collection[str]) -> CheckReport:
        """Less what is said of some functions."""

        def others(notes: tuple[_Note, ...]) -> tuple[_Note, ...]:
            return tuple(note for note in notes if note.function not in functions)

        return CheckReport(
            self.on,
            others(self.loops),
            {name: count for name, count in self.proved.items() if name not in functions},
            others(self.guarded),
            others(self.trusted),
            others(self.assumed),
        )

    def to_json(self) -> dict[str, object]:
        """As plain values, for the metadata of the disk cache."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: SavedReport) -> CheckReport:
        """The inverse of :meth:`to_json`."""

        def notes(saved: list[dict[str, str]]) -> tuple[AccessNote, ...]:
            return tuple(AccessNote(**one) for one in saved)

        loops = tuple(LoopNote(**one) for one in data["loops"])
        guarded, trusted, assumed = (notes(data[word]) for word in ("guarded", "trusted", "assumed"))
        return cls(data["on"], loops, dict(data["proved"]), guarded, trusted, assumed)

    def lines(self) -> Iterable[str]:
        """As the report prints it."""
        yield from map(str, self.loops)
        if not self.on:
            yield "checks: off (tir.legality), loops and bounds are taken on trust"
            return
        for name, count in self.proved.items():
            yield f"{name}: {count} access{'' if count == 1 else 'es'} proved inside {'its' if count == 1 else 'their'} buffer{'' if count == 1 else 's'}"
        for word in ("guarded", "trusted", "assumed"):
            for note in getattr(self, word):
                yield f"{word}: {note}"
