"""Whether passes may stand in an order: what each needs was not ended by one before it, and is given by one before it.

:class:`~tirlower.driver.pipelines.Pipeline` and :class:`~tirlower.rewrite.base.Sequential` ask when they are made.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from tirlower.diagnostics import TransformError
from tirlower.rewrite.facts import Fact

if TYPE_CHECKING:
    from tirlower.rewrite.base import Pass

__all__ = ["Placed", "check_order"]


class Placed(NamedTuple):
    """A pass in an order: why it stands there, and whether every context runs it."""

    pass_: Pass
    why: str = ""
    certain: bool = True

    @property
    def name(self) -> str:
        """The pass's name without its prefix."""
        return self.pass_.info.name.removeprefix("tir.")

    @property
    def made(self) -> tuple[str | Fact, ...]:
        """What holds behind it that need not have held before it."""
        return (self.pass_.info.name, *self.pass_.gives)


def check_order(origin: str, order: Sequence[Placed], holds: Collection[str | Fact] = ()) -> None:
    """Raise :class:`TransformError` where a pass stands behind one that breaks what it needs, or in front of all that give it.

    All facts hold at first, and what is in ``holds``. A pass that a context may leave out breaks what it breaks, and
    gives nothing.
    """
    now: set[str | Fact] = {*Fact, *holds}
    broken: dict[str | Fact, Placed] = {}
    for at, placed in enumerate(order):
        for needed in placed.pass_.prerequisites:
            if needed not in now:
                later = next((other for other in order[at + 1 :] if needed in other.made), None)
                raise _error(origin, placed, needed, broken.get(needed), later)
        for fact in placed.pass_.breaks:
            now.discard(fact)
            broken[fact] = placed
        if placed.certain:
            now.update(placed.made)


def _error(
    origin: str, placed: Placed, needed: str | Fact, breaker: Placed | None, later: Placed | None
) -> TransformError:
    if breaker is None:
        return TransformError(
            f"{placed.name} needs {needed} to run before it",
            origin=origin,
            notes=[f"{placed.name}: {placed.why}"] if placed.why else [],
            help=f"put {later.name} before {placed.name}" if later else None,
        )
    what = needed.value if isinstance(needed, Fact) else f"{needed} has run"
    return TransformError(
        f"{placed.name} stands behind {breaker.name}, which ends what it needs: {what}",
        origin=origin,
        notes=[f"{step.name}: {step.why}" for step in (placed, breaker) if step.why],
        help=f"put {placed.name} before {breaker.name}",
    )
