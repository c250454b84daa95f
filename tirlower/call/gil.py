"""When a call lets go of the GIL."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from tirlower.call.signature import Compound, Signature

__all__ = ["WORK_THRESHOLD", "GilChoice", "GilPolicy"]

#: Whether calls let go of the GIL: always, never, or when their work pays for it.
GilChoice = bool | Literal["auto"]

#: Work from which releasing pays: 16,384 elements of simple work are 2 us (vectorized, in cache) to 10 us (scalar),
#: against 30 to 90 ns for giving the GIL away and taking it back.
WORK_THRESHOLD: Final = 16_384


@dataclass(frozen=True, slots=True)
class GilPolicy:
    """Whether other Python threads may run during a kernel.

    ``release`` is True (always), False (never) or ``"auto"``: the call estimates its work and releases the GIL when it
    is at least ``threshold``. The estimate is ``work``, in scalar operations (statement instances: the trip counts of
    the loops multiplied): a number decides once, when the entry is made; an expression of symbols is computed in each
    call. Without one, the work is the number of elements of all arrays passed, which is right for elementwise kernels
    and too low for a matrix product of tiny matrices (16,384 elements have 4 million multiplications).
    """

    release: GilChoice = "auto"
    work: int | Compound | None = None
    threshold: int = WORK_THRESHOLD

    def constant(self, signature: Signature) -> bool | None:
        """The decision where it is the same for every call, else None."""
        if self.release != "auto":
            return self.release
        work = self.work
        if work is None:
            total = 0
            for param in signature.buffers:
                if not all(isinstance(extent, int) for extent in param.shape):
                    return None
                total += math.prod(extent for extent in param.shape if isinstance(extent, int))
            work = total
        return work >= self.threshold if isinstance(work, int) else None

    def decide(self, env: Mapping[str, float], elements: int) -> bool:
        """The decision for a call where it is not constant: ``env`` has the symbols' values, ``elements`` counts those
        of the arrays.
        """
        if not isinstance(self.work, Compound):
            return elements >= self.threshold
        try:
            return self.work.evaluate(env) >= self.threshold
        except ZeroDivisionError:
            # An estimate without a value for these sizes (an empty tile, say) is no reason to fail the call.
            return False
        except OverflowError:
            return True  # more work than an integer counts
