"""The report of a build: what was done, from where it came, how long it took."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["LoopNote", "Report"]


@dataclass(frozen=True)
class LoopNote:
    """A loop of the lowered program: its function, variable, kind, and a word about it."""

    function: str
    loop: str
    kind: str
    note: str = ""

    def __str__(self) -> str:
        return f"{self.function}: loop {self.loop} {self.kind}" + (f": {self.note}" if self.note else "")


@dataclass(frozen=True)
class Report:
    """What a build did. ``str(report)`` lays it out.

    ``cached`` says whether the machine code came from disk; ``timings`` are milliseconds by step; ``passes``
    milliseconds by pass (empty where the cache made them unnecessary); ``loops`` what became of parallel and
    vectorized loops; ``assumed`` the facts taken on trust; ``code_bytes`` the size of the object.
    """

    target: str
    functions: tuple[str, ...]
    cached: bool
    timings: dict[str, float] = field(default_factory=dict)
    passes: dict[str, float] = field(default_factory=dict)
    loops: tuple[LoopNote, ...] = ()
    assumed: tuple[str, ...] = ()
    code_bytes: int = 0

    def __str__(self) -> str:
        lines = [f"{', '.join(self.functions)} for {self.target}"]
        origin = "the disk cache" if self.cached else "this build"
        lines.append(f"  machine code: {self.code_bytes} bytes, from {origin}")
        if self.timings:
            lines.append("  time: " + ", ".join(f"{name} {ms:.1f} ms" for name, ms in self.timings.items()))
        slow = sorted(self.passes.items(), key=lambda item: -item[1])[:5]
        if slow:
            lines.append("  slowest passes: " + ", ".join(f"{name} {ms:.2f} ms" for name, ms in slow))
        lines += [f"  {note}" for note in self.loops]
        lines += [f"  assumed: {fact}" for fact in self.assumed]
        return "\n".join(lines)
