"""A trace on another workload: which of its steps apply there, and why the others do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tirlower.diagnostics import ScheduleError, TirError, TraceError
from tirlower.schedule.kind import Takes
from tirlower.schedule.state import Instruction

__all__ = ["Replay", "ReplayedStep", "renamed", "stopped"]


@dataclass(frozen=True)
class ReplayedStep:
    """What became of an instruction: "applied", or "skipped" and why."""

    inst: Instruction
    status: str
    why: str = ""


@dataclass
class Replay:
    """What became of the instructions of a trace."""

    steps: list[ReplayedStep] = field(default_factory=list)

    @property
    def applied(self) -> int:
        """How many were applied."""
        return sum(1 for step in self.steps if step.status == "applied")

    def __str__(self) -> str:
        skipped = [f"{step.inst.kind.method}: {step.why}" for step in self.steps if step.status != "applied"]
        return "\n".join([f"{self.applied} of {len(self.steps)} steps applied", *skipped])


def renamed(inst: Instruction, names: Mapping[str, str]) -> Instruction:
    """An instruction with other names of blocks, loops and buffers in its look-ups."""
    if not names or not inst.kind.pure:
        return inst

    def word(value: object, takes: Takes) -> object:
        if not isinstance(value, str) or takes is not Takes.STRING:
            return value
        parts = (part.partition("#") for part in value.split("/"))
        return "/".join(names.get(name, name) + sign + number for name, sign, number in parts)

    slots = [slot for slot in inst.kind.slots if slot.attr]
    attrs = [word(value, slot.takes) for value, slot in zip(inst.attrs, slots, strict=False)]
    return replace(inst, attrs=attrs) if attrs != inst.attrs else inst


def stopped(number: int, inst: Instruction, error: Exception) -> TraceError:
    """The error of a replay that stops at an instruction."""
    message = error.message if isinstance(error, TirError) else str(error)
    found = TraceError(f"instruction {number}, {inst.kind.method}: {message}")
    if isinstance(error, ScheduleError):
        found.help = error.help
    return found
