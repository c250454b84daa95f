"""The rules of the simplifier, one file for each family of operations.

``ALL`` lists every set. Within a root class a set's rules are tried in order, sets in the order given here.
"""

from __future__ import annotations

from tirlower.arith.matcher import RuleIndex
from tirlower.arith.pattern import Domain, Rule
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
BOOL = RuleIndex(ALL, (Domain.BOOL, Domain.INDEX_BOOL, Domain.ANY))
FLOAT = RuleIndex(ALL, (Domain.FLOAT, Domain.ANY))
VECTOR = RuleIndex(ALL, (Domain.VECTOR,))
INT_VECTOR = RuleIndex(ALL, (Domain.VECTOR, Domain.INT_VECTOR))
INDEX_VECTOR = RuleIndex(ALL, (Domain.VECTOR, Domain.INT_VECTOR, Domain.INDEX_VECTOR))
OTHER = RuleIndex(ALL, (Domain.ANY,))
_INDEXES = (INDEX, INTEGER, BOOL, FLOAT, VECTOR, INT_VECTOR, INDEX_VECTOR, OTHER)


def statistics() -> dict[Rule, tuple[int, int]]:
    """How often each rule was attempted, and how often it applied, in this process so far.

    A rule is attempted when a node's operands have the classes that it asks for and no rule before it applied.
    """
    counts: dict[Rule, tuple[int, int]] = {}
    for index in _INDEXES:
        for entry in index.entries.values():
            left = entry.calls
            seen: set[Rule] = set()
            for _, rule in entry.rules:
                if rule in seen:
                    continue  # another order of the same rule
                seen.add(rule)
                hits = entry.hits.get(rule, 0)
                attempts, applied = counts.get(rule, (0, 0))
                counts[rule] = (attempts + left, applied + hits)
                left -= hits
    return counts
