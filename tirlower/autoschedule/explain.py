"""What became of each nest, as data that a report lays out: its class, the parameters and the rule, what was proved, why not more."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

__all__ = ["PART_OF_ANOTHER", "NestReport", "time_text", "together"]

PART_OF_ANOTHER: Final = "it is part of the one before"
"""Why a nest has no schedule of its own that was scheduled with the one before."""


@dataclass(frozen=True)
class NestReport:
    """A nest of a function, and what was made of it.

    ``recipe`` is its class, empty where it was left as written (then ``why`` says why); ``parameters`` are the numbers of
    the plan and ``rule`` what gave them; ``steps`` counts the steps, all proved; ``exactness`` says what the results are
    up to; ``seconds`` is the time that the model predicts, ``written`` that of the loops as they stand; ``notes`` say why
    not more was done.
    """

    function: str
    nest: str
    recipe: str = ""
    parameters: Mapping[str, object] = field(default_factory=dict)
    rule: str = ""
    steps: int = 0
    exactness: str = "bitwise equal"
    seconds: float = 0.0
    written: float = 0.0
    why: str = ""
    notes: Sequence[str] = ()

    def lines(self) -> list[str]:
        """The report as text.

        >>> print(*NestReport("f", "C over i", why="the loop `i` is parallel already").lines(), sep="\\n")
        C over i: left as written: the loop `i` is parallel already
        """
        if not self.recipe:
            return [f"{self.nest}: left as written: {self.why}", *(f"  {note}" for note in together(self.notes))]
        numbers = ", ".join(f"{name} {value}" for name, value in self.parameters.items())
        made = [f"{self.nest}: {self.recipe}" + (f" ({numbers})" if numbers else "")]
        if self.rule:
            made.append(f"  {self.rule}")
        made.append(
            f"  {self.steps} steps proved, {self.exactness}; predicted {time_text(self.seconds)}, as written {time_text(self.written)}"
        )
        return made + [f"  {note}" for note in together(self.notes)]

    def to_json(self) -> dict[str, object]:
        """The report as JSON values."""
        made = asdict(self)
        made["parameters"] = {name: _plain(value) for name, value in self.parameters.items()}
        made["notes"] = list(self.notes)
        return made


def together(notes: Sequence[str]) -> list[str]:
    """Notes, those of recipes that do not fit for one reason as one: ``no window, row chain: nothing is summed up``."""
    found: dict[tuple[bool, str], list[str]] = {}
    for note in notes:
        name, _, why = note.partition(": ")
        is_of_recipe = name.startswith("no ") and bool(why)
        found.setdefault((is_of_recipe, why if is_of_recipe else note), []).append(name.removeprefix("no "))
    return [f"no {', '.join(names)}: {text}" if is_of_recipe else text for (is_of_recipe, text), names in found.items()]


def _plain(value: object) -> object:
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)


def time_text(seconds: float) -> str:
    """Seconds in a unit that suits them: ``12.3 µs``."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
