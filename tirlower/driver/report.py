"""The report of a build: what was done, from where it came, how long it took, and what was proved of the program."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tirlower.autoschedule.explain import PART_OF_ANOTHER, time_text
from tirlower.legality.notes import AccessNote, CheckReport, LoopNote
from tirlower.llvm.machine_loops import MachineLoop, machine_loops

if TYPE_CHECKING:
    from tirlower.autoschedule.explain import NestReport
    from tirlower.driver.result import BuildResult

__all__ = ["AccessNote", "CheckReport", "LoopNote", "Report", "report_of"]


@dataclass(frozen=True)
class Report:
    """What a build did. ``str(report)`` lays it out.

    ``cached`` says whether the machine code came from disk, ``compiled`` has the functions whose code did not; ``timings`` are
    milliseconds by step; ``passes``
    milliseconds by pass (empty where the cache made them unnecessary); ``checks`` what was proved of the program and
    what was not (see :class:`CheckReport`; its parts are attributes of the report too); ``code_bytes`` the size of the object;
    ``nests`` what an automatic schedule made of each nest;
    ``inner_loops`` what the innermost loops became in machine code; ``measured`` the seconds of a call, where they were
    asked for, and ``predicted`` those that the automatic schedule's model gives for all nests.
    """

    target: str
    functions: tuple[str, ...]
    cached: bool
    compiled: tuple[str, ...] = ()
    timings: dict[str, float] = field(default_factory=dict)
    passes: dict[str, float] = field(default_factory=dict)
    checks: CheckReport = field(default_factory=CheckReport)
    code_bytes: int = 0
    assembly: Callable[[], str] = field(default=str, repr=False, compare=False)
    scheduling: Callable[[], tuple[NestReport, ...]] = field(default=tuple, repr=False, compare=False)
    measured: float | None = None

    @functools.cached_property
    def nests(self) -> tuple[NestReport, ...]:
        """What the automatic schedule made of each nest, and why not more; nothing where a build has none.

        Of a kernel from the disk cache the schedule is made again when this is first asked for.

        >>> import tirlower as tl
        >>> from tirlower.script import tir as T
        >>> @T.prim_func
        ... def f(A: T.Buffer((4096,), "float32")):
        ...     for i in T.parallel(4096):
        ...         A[i] = A[i] + T.float32(1)
        >>> nest, = tl.build(f, schedule="auto").report().nests
        >>> print(*nest.lines())
        A over i: left as written: the loop `i` is parallel already
        """
        return self.scheduling()

    @property
    def predicted(self) -> float:
        """Seconds of a call by the model of the automatic schedule; 0 where there is none, or it says nothing of some nest."""
        each = [nest.seconds or nest.written for nest in self.nests if nest.why != PART_OF_ANOTHER]
        return sum(each) if all(each) else 0.0

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
        origin = "from the disk cache" if self.cached else "from this build"
        if 0 < len(self.compiled) < len(self.functions):
            origin = f"of {len(self.compiled)} functions from this build, of the others from the disk cache"
        lines.append(f"  machine code: {self.code_bytes} bytes, {origin}")
        if self.timings:
            lines.append("  time: " + ", ".join(f"{name} {ms:.1f} ms" for name, ms in self.timings.items()))
        slow = sorted(self.passes.items(), key=lambda item: -item[1])[:5]
        if slow:
            lines.append("  slowest passes: " + ", ".join(f"{name} {ms:.2f} ms" for name, ms in slow))
        if self.measured is not None:
            told = f"; predicted {time_text(self.predicted)}" if self.predicted else ""
            lines.append(f"  measured {time_text(self.measured)} a call{told}")
        lines += [f"  {line}" for nest in self.nests for line in nest.lines()]
        lines += [f"  {line}" for line in self.checks.lines()]
        return "\n".join(lines)


def report_of(result: BuildResult, assembly: Callable[[], str] = str) -> Report:
    """The report of a build; ``assembly`` gives the text of its machine code."""
    return Report(
        target=str(result.target),
        functions=tuple(result.spec.module.functions),
        cached=result.cached,
        compiled=tuple(name for name in result.spec.module if name not in result.reused),
        timings=dict(result.timings),
        passes=dict(result.passes),
        checks=result.checks,
        code_bytes=result.code_bytes,
        assembly=assembly,
        scheduling=lambda: () if result.spec.scheduled is None else result.spec.scheduled.nests,
    )
