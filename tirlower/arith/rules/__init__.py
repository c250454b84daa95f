"""The rules of the simplifier, one file for each family of operations.

``ALL`` lists every set. Within a root class a set's rules are tried in order, sets in the order given here.
"""

from __future__ import annotations

from tirlower.arith.matcher import RuleIndex
from tirlower.arith.pattern import Domain
from tirlower.arith.rules import (
    add,
    compare,
    floats,
    floordiv,
    floormod,
    logic,
    minmax,
    mul,
    select,
    sub,
    truncdiv,
    vector,
)

ALL = (
    *add.RULES,
    *sub.RULES,
    *mul.RULES,
    *floordiv.RULES,
    *floormod.RULES,
    *truncdiv.RULES,
    *minmax.RULES,
    *compare.RULES,
    *logic.RULES,
    *select.RULES,
    *vector.RULES,
    *floats.RULES,
)

INDEX = RuleIndex(ALL, (Domain.INDEX, Domain.RING, Domain.INTEGER, Domain.ANY))
INTEGER = RuleIndex(ALL, (Domain.RING, Domain.INTEGER, Domain.ANY))
BOOL = RuleIndex(ALL, (Domain.BOOL, Domain.ANY))
FLOAT = RuleIndex(ALL, (Domain.FLOAT, Domain.ANY))
VECTOR = RuleIndex(ALL, (Domain.VECTOR,))
INT_VECTOR = RuleIndex(ALL, (Domain.VECTOR, Domain.INT_VECTOR))
INDEX_VECTOR = RuleIndex(ALL, (Domain.VECTOR, Domain.INT_VECTOR, Domain.INDEX_VECTOR))
OTHER = RuleIndex(ALL, (Domain.ANY,))
