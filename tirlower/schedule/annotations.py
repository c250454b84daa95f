"""What becomes of a loop's annotations when the loop becomes several: one row a key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tirlower.ir.annotations import NO_UNROLL, NONTEMPORAL, REDUCTION, UNCHECKED
from tirlower.ir.stmt import For, ForKind

__all__ = ["shared_out"]

OUTER: Final = "outer"
"""With the outermost loop, as a key that is not known: a hint that is found once."""
INNER: Final = "inner"
"""With the innermost loop: it is about single iterations."""
ALL: Final = "all"
"""With each of the loops: it is about what stands inside."""
KIND: Final = "kind"
"""With the loop that has the kind now: it is about how iterations run at once."""

ROWS: Final = {NO_UNROLL: INNER, NONTEMPORAL: ALL, REDUCTION: KIND, UNCHECKED: KIND}


def shared_out(loop: For, parts: Sequence[For]) -> list[dict[str, object]]:
    """The annotations of the loops that a loop was split into, outermost first.

    >>> from tirlower.ir import Evaluate, Var
    >>> loop = For(Var("i"), 0, 8, "serial", None, {"tir.no_unroll": True, "hint": 1}, Evaluate(0))
    >>> shared_out(loop, [loop, loop])
    [{'hint': 1}, {'tir.no_unroll': True}]
    """
    made: list[dict[str, object]] = [{} for _ in parts]
    kinds = [at for at, part in enumerate(parts) if part.kind is loop.kind and loop.kind is not ForKind.SERIAL]
    for key, value in loop.annotations.items():
        row = ROWS.get(key, OUTER)
        for at in {OUTER: [0], INNER: [len(parts) - 1], ALL: list(range(len(parts))), KIND: kinds or [0]}[row]:
            made[at][key] = value
    return made
