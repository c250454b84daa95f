"""The legality table: programs with known answers, legal and illegal, for parallel, vectorized, reorder and bind.

Each program states what it is asked and the right answer: "proved", "refuted" (by a dependence, with a witness),
"structure" (refuted for its form, without a witness) or "unknown". ``sizes`` are symbolic sizes to run a witness with
where it names none.
"""

from __future__ import annotations

from tests.poly import legality_indices, legality_memory, legality_order
from tests.poly.legality_base import TABLE, Program, Question

__all__ = ["TABLE", "Program", "Question"]

# Imported for the programs that they enter.
_ = (legality_order, legality_indices, legality_memory)
