"""Instruments: objects that watch passes run (see :class:`~tirlower.rewrite.context.PassContext`)."""

from __future__ import annotations

import pathlib
import sys
import time
from typing import TYPE_CHECKING, TextIO, TypeVar

from tirlower.diagnostics import TransformError
from tirlower.rewrite.registry import short_name

if TYPE_CHECKING:
    from tirlower.rewrite.running import PassInfo

__all__ = ["DumpIR", "PassTimingInstrument", "PrintAfterAll", "PrintBeforeAll", "pass_instrument"]


EVENTS = ("enter_pass_ctx", "exit_pass_ctx", "should_run", "run_before_pass", "run_after_pass")
"""The methods of an instrument, of which it has any."""

Class = TypeVar("Class", bound=type)


def pass_instrument(cls: Class) -> Class:
    """Decorate a class of instruments: it is checked to have one of their methods, and stays as it is.

    Raises :class:`TransformError` where it has none.

    >>> @pass_instrument
    ... class Names:
    ...     def run_before_pass(self, mod, info):
    ...         print(info.name)
    """
    if not any(callable(getattr(cls, event, None)) for event in EVENTS):
        raise TransformError(f"{cls.__name__} watches nothing", help=f"an instrument has any of {', '.join(EVENTS)}")
    return cls


class PassTimingInstrument:
    """Times each pass. ``render()`` gives a table, ``times`` the seconds by name, nested passes included in outer ones.

    >>> timing = PassTimingInstrument()
    >>> timing.render()
    'no pass has run'
    """

    def __init__(self) -> None:
        self.records: list[tuple[int, str, float]] = []
        self._open: list[tuple[int, float]] = []

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Start the clock of a pass."""
        self.records.append((len(self._open), info.name, 0.0))
        self._open.append((len(self.records) - 1, time.perf_counter()))

    def run_after_pass(self, mod: object, info: PassInfo) -> None:
        """Stop it."""
        index, start = self._open.pop()
        depth, name, _ = self.records[index]
        self.records[index] = (depth, name, time.perf_counter() - start)

    @property
    def times(self) -> dict[str, float]:
        """Seconds spent in each pass, summed over its runs."""
        total: dict[str, float] = {}
        for _, name, seconds in self.records:
            total[name] = total.get(name, 0.0) + seconds
        return total

    @property
    def total(self) -> float:
        """Seconds spent in all outermost passes."""
        return sum(seconds for depth, _, seconds in self.records if depth == 0)

    def render(self) -> str:
        """One line a pass: milliseconds, share of the whole, name (indented by nesting)."""
        if not self.records:
            return "no pass has run"
        whole = self.total or 1.0
        return "\n".join(
            f"{seconds * 1e3:9.3f} ms {seconds / whole:6.1%}  {'  ' * depth}{name}"
            for depth, name, seconds in self.records
        )


class PrintBeforeAll:
    """Prints the program before each pass."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """Print it."""
        print(f"# before {info.name}\n{mod}", file=self.file or sys.stdout)


class PrintAfterAll:
    """Prints the program after each pass."""

    def __init__(self, file: TextIO | None = None) -> None:
        self.file = file

    def run_after_pass(self, mod: object, info: PassInfo) -> None:
        """Print it."""
        print(f"# after {info.name}\n{mod}", file=self.file or sys.stdout)


class DumpIR:
    """Writes the program after each pass to a numbered file of a directory."""

    def __init__(self, directory: str | pathlib.Path) -> None:
        self.directory = pathlib.Path(directory)
        self.count = 0

    def run_after_pass(self, mod: object, info: PassInfo) -> None:
        """Write it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        path = self.directory / f"{self.count:03d}_{short_name(info.name)}.py"
        path.write_text(f"{mod}\n")
        self.count += 1
