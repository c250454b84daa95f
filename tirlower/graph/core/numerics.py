"""What a rewriting may do to numbers: three classes, each of which admits those before it."""

from __future__ import annotations

import enum

__all__ = ["Numerics"]


class Numerics(enum.IntEnum):
    """The class of a pass or a rule, and the policy of a compilation: what is of a class above the policy does not run.

    >>> Numerics.of("exact") < Numerics.of("default") < Numerics.of("fast")
    True
    """

    EXACT = 0
    """No bit of an element changes, the payload of a NaN aside."""
    DEFAULT = 1
    """Sums inside a reduction may be reassociated, a multiplication and an addition contracted, scales folded into weights."""
    FAST = 2
    """No value is taken to be infinite or NaN; functions may be approximated."""

    @classmethod
    def of(cls, word: object) -> Numerics:
        """The class of a word: ``"exact"``, ``"default"`` or ``"fast"``."""
        return cls[str(word).upper()]

    @property
    def word(self) -> str:
        """The word."""
        return self.name.lower()
