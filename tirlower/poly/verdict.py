"""Verdicts and witnesses: proved, refuted with two iterations, or unknown with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tirlower.diagnostics import Label, LegalityError, Span
from tirlower.ir import Expr, Stmt

__all__ = ["Point", "Verdict", "Witness"]


@dataclass(frozen=True)
class Point:
    """One iteration and what it accesses.

    ``loops`` gives the values of the loops around the access, outermost first; ``indices`` the subscripts of
    ``buffer`` (empty where a pointer is given to a callee); ``node`` the access and ``statement`` what it stands in.
    """

    loops: tuple[tuple[str, int], ...]
    is_write: bool
    buffer: str
    indices: tuple[int, ...]
    text: str
    span: Span | None
    node: Expr | Stmt
    statement: Stmt

    @property
    def iteration(self) -> str:
        """``i = 1, j = 0``."""
        return ", ".join(f"{name} = {value}" for name, value in self.loops) or "once"

    @property
    def action(self) -> str:
        """``writes A[1, 0]``."""
        element = f"{self.buffer}[{', '.join(map(str, self.indices))}]" if self.indices else self.text
        return f"{'writes' if self.is_write else 'reads'} {element}"


@dataclass(frozen=True)
class Witness:
    """Two iterations that meet in one element: ``source`` runs first in the order of the script, then ``sink``.

    ``parameters`` are the values of symbolic sizes and scalars for which it happens.
    """

    source: Point
    sink: Point | None
    parameters: Mapping[str, int] = field(default_factory=dict)

    @property
    def points(self) -> tuple[Point, ...]:
        """The iterations: two, or one where a single access is at fault."""
        return (self.source,) if self.sink is None else (self.source, self.sink)

    def labels(self) -> list[Label]:
        """The accesses underlined, each with its iteration."""
        made = []
        for n, point in enumerate(self.points):
            made.append(Label(point.span, f"at {point.iteration} {point.action}", primary=n == len(self.points) - 1))
        if len(made) == 2 and self.points[0].span is not None and self.points[0].span is self.points[1].span:
            both = f"{made[0].text}, and {made[1].text}"
            return [Label(made[0].span, both)]
        return made

    def __str__(self) -> str:
        parts = " and ".join(f"iteration ({p.iteration}) {p.action}" for p in self.points)
        sizes = ", ".join(f"{name} = {value}" for name, value in self.parameters.items())
        return f"{parts}" + (f", for {sizes}" if sizes else "")


@dataclass(frozen=True)
class Verdict:
    """The answer to a question of legality.

    ``status`` is "proved", "refuted" or "unknown"; ``reason`` says why in one sentence; ``witness`` shows it where
    it is refuted (and for some unknown ones what may happen); ``help`` says what would make it legal.
    ``reduction`` names the reduction whose updates alone stand in the way, if that is so.
    """

    status: str
    reason: str = ""
    witness: Witness | None = None
    help: str = ""
    reduction: str = ""

    @property
    def proved(self) -> bool:
        """Whether it is certainly legal."""
        return self.status == "proved"

    @property
    def refuted(self) -> bool:
        """Whether it is certainly not."""
        return self.status == "refuted"

    @property
    def unknown(self) -> bool:
        """Whether neither is certain."""
        return self.status == "unknown"

    def __bool__(self) -> bool:
        return self.status == "proved"

    def error(self, message: str, origin: str = "poly") -> LegalityError:
        """The verdict as an error: both accesses underlined, the iterations, and the remedy.

        ``message`` says what was asked for, e.g. "the loop 'i' cannot be parallel".
        """
        labels = self.witness.labels() if self.witness else []
        notes = []
        if self.witness is not None:
            if any(label.span is None for label in labels):
                notes.append(str(self.witness))
                labels = [label for label in labels if label.span is not None]
            elif self.witness.parameters:
                sizes = ", ".join(f"{name} = {value}" for name, value in self.witness.parameters.items())
                notes.append(f"for example with {sizes}")
        return LegalityError(
            f"{message}: {self.reason}" if self.reason else message,
            origin=origin,
            labels=labels,
            notes=notes,
            help=self.help or None,
        )


PROVED = Verdict("proved")
