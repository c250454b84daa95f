"""Profiles: the times between the marks of InstrumentProfileIntrinsics, as a table.

Marks in compiled code call back into Python, which takes the time: about a microsecond each, so mark loops that take
longer. Without an active profile a mark does nothing. Times are wall-clock, and include what runs inside.
"""

from __future__ import annotations

import ctypes
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from tirlower.ir.func import IRModule, PrimFunc
from tirlower.transforms.loops.profile_intrinsics import ProfileSite, profile_sites

__all__ = ["Profile", "ProfileRow", "end_callback", "start_callback"]


@dataclass
class ProfileRow:
    """How often something marked ran, and the nanoseconds that it took in all."""

    site: ProfileSite
    calls: int = 0
    nanoseconds: int = 0


class _State(threading.local):
    """The marks that are open in a thread: (id, start), innermost last."""

    def __init__(self) -> None:
        self.open: list[tuple[int, int]] = []


_state = _State()
_active: list[Profile] = []


class Profile:
    """Collects times while it is entered: ``with Profile(module) as profile: fn(...)``; then ``print(profile)``.

    ``program`` is the instrumented module (or function), which gives the marks their names; without it they are
    numbered. Profiles nest: the innermost collects. ``rows`` are those that ran, by id.

    >>> print(Profile())
    nothing marked ran
    """

    def __init__(self, program: IRModule | PrimFunc | None = None) -> None:
        mod = IRModule({program.name: program}) if isinstance(program, PrimFunc) else program
        self.sites = {site.id: site for site in profile_sites(mod)} if mod is not None else {}
        self._rows: dict[int, ProfileRow] = {}

    def __enter__(self) -> Profile:
        _active.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        _active.remove(self)

    def begin(self, number: int) -> None:
        """What a mark encloses begins to run."""

    def record(self, number: int, nanoseconds: int) -> None:
        """Add one run of what a mark encloses."""
        row = self._rows.get(number)
        if row is None:
            site = self.sites.get(number) or ProfileSite(number, f"#{number}", "", 0)
            row = self._rows[number] = ProfileRow(site)
        row.calls += 1
        row.nanoseconds += nanoseconds

    @property
    def rows(self) -> list[ProfileRow]:
        """What ran, by id: outer before inner."""
        return [self._rows[number] for number in sorted(self._rows)]

    def __str__(self) -> str:
        """One line for each function and loop: runs, milliseconds in all and of one run, what it is."""
        if not self._rows:
            return "nothing marked ran"
        lines = ["    runs     total ms       each ms"]
        for row in self.rows:
            whole = row.nanoseconds / 1e6
            lines.append(f"{row.calls:8d} {whole:12.3f}  {whole / row.calls:12.6f}  {'  ' * row.site.depth}{row.site}")
        return "\n".join(lines)


def _start(number: int) -> None:
    if _active:
        _active[-1].begin(number)
        _state.open.append((number, time.perf_counter_ns()))


def _end(number: int) -> None:
    now = time.perf_counter_ns()
    opened = _state.open
    # What was left open inside (its run failed) is dropped.
    while opened:
        last, began = opened.pop()
        if last == number:
            if _active:
                _active[-1].record(number, now - began)
            return


_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_int32)
start_callback: Final = _CALLBACK(_start)
end_callback: Final = _CALLBACK(_end)
