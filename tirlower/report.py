"""The report of a build: what was done, from where it came, how long it took, and what was proved of the program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tirlower.llvm.machine_loops import MachineLoop, machine_loops

__all__ = ["AccessNote", "Checks", "LoopNote", "Report"]


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


@dataclass(frozen=True)
class Checks:
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

    def merged(self, other: Checks) -> Checks:
        """Both together."""
        return Checks(
            self.on and other.on,
            self.loops + other.loops,
            {**self.proved, **other.proved},
            self.guarded + other.guarded,
            self.trusted + other.trusted,
            self.assumed + other.assumed,
        )

    def to_json(self) -> dict[str, Any]:
        """As plain values, for the metadata of the disk cache."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Checks:
        """The inverse of :meth:`to_json`."""

        def notes(key: str) -> tuple[AccessNote, ...]:
            return tuple(AccessNote(**one) for one in data[key])

        loops = tuple(LoopNote(**one) for one in data["loops"])
        return cls(data["on"], loops, dict(data["proved"]), notes("guarded"), notes("trusted"), notes("assumed"))

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


@dataclass(frozen=True)
class Report:
    """What a build did. ``str(report)`` lays it out.

    ``cached`` says whether the machine code came from disk; ``timings`` are milliseconds by step; ``passes``
    milliseconds by pass (empty where the cache made them unnecessary); ``checks`` what was proved of the program and
    what was not (see :class:`Checks`; its parts are attributes of the report too); ``code_bytes`` the size of the object;
    ``inner_loops`` what the innermost loops became in machine code.
    """

    target: str
    functions: tuple[str, ...]
    cached: bool
    timings: dict[str, float] = field(default_factory=dict)
    passes: dict[str, float] = field(default_factory=dict)
    checks: Checks = field(default_factory=Checks)
    code_bytes: int = 0
    assembly: Callable[[], str] = field(default=str, repr=False, compare=False)

    @functools.cached_property
    def inner_loops(self) -> tuple[MachineLoop, ...]:
        """The innermost loops of the machine code: the width of their vectors, spills, lane moves, calls.

        Their assembly is emitted when this is first asked for.

        >>> import tirlower as tl
        >>> from tirlower.script import tir as T
        >>> @T.prim_func
        ... def f(A: T.Buffer((4096,), "int32")):
        ...     for i in range(256):
        ...         for l in T.vectorized(16):
        ...             A[i * 16 + l] = A[i * 16 + l] + 1
        >>> loop, = tl.build(f, "llvm -mtriple=x86_64-unknown-linux-gnu -mcpu=x86-64-v4").report().inner_loops
        >>> loop.lane_moves, loop.spills, loop.calls
        (0, 0, 0)
        """
        return machine_loops(self.assembly())

    @property
    def loops(self) -> tuple[LoopNote, ...]:
        """The parallel, vectorized, unrolled and thread-bound loops: proved, or trusted with the reason given."""
        return self.checks.loops

    @property
    def proved(self) -> Mapping[str, int]:
        """How many accesses of each function are proved inside their buffers."""
        return self.checks.proved

    @property
    def guarded(self) -> tuple[AccessNote, ...]:
        """The accesses that are checked as they run, each with the reason why that is not known before."""
        return self.checks.guarded

    @property
    def trusted(self) -> tuple[AccessNote, ...]:
        """The accesses that nothing checks."""
        return self.checks.trusted

    @property
    def assumed(self) -> tuple[AccessNote, ...]:
        """The facts that the program states with ``T.assume``."""
        return self.checks.assumed

    def __str__(self) -> str:
        lines = [f"{', '.join(self.functions)} for {self.target}"]
        origin = "the disk cache" if self.cached else "this build"
        lines.append(f"  machine code: {self.code_bytes} bytes, from {origin}")
        if self.timings:
            lines.append("  time: " + ", ".join(f"{name} {ms:.1f} ms" for name, ms in self.timings.items()))
        slow = sorted(self.passes.items(), key=lambda item: -item[1])[:5]
        if slow:
            lines.append("  slowest passes: " + ", ".join(f"{name} {ms:.2f} ms" for name, ms in slow))
        lines += [f"  {line}" for line in self.checks.lines()]
        return "\n".join(lines)
