"""Arithmetic: what expressions are equal to, bounded by, and known to be.

:class:`Analyzer` simplifies index expressions and proves conditions about them. Its rules are in ``arith/rules``, a file
for each family of operations, both sides visible.

What is assumed of overflow. Index arithmetic, which is that of scalar ``int32`` and ``int64``, is taken not to
overflow, as TIR takes it: ``x < x + 1`` is true of them. (The constants that the simplifier itself computes never
overflow; a rule that would need one that does is not applied.) All other integer types wrap, and so does what is done
to them: only identities that hold modulo ``2**bits``, and facts about the values themselves, apply to ``uint32``,
``int8`` and the rest. A float keeps every bit of its value. A divisor is taken not to be zero where an expression
divides by it. Calls with effects are neither merged, dropped nor moved.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tirlower.arith.analyzer import Analyzer, ConstIntBound, Extension, ProofStrength
from tirlower.arith.int_set import IntervalSet, IntSet, intersect_sets, union_sets
from tirlower.arith.modular import ModularSet
from tirlower.arith.rewrite_stats import RewriteSimplifyStats
from tirlower.support.lazy import imported_when_asked

if TYPE_CHECKING:
    from tirlower.arith.common_subexpr import detect_common_subexpr
    from tirlower.arith.deduce import deduce_bound
    from tirlower.arith.iter_detect import (
        detect_iter_map,
        inverse_affine_iter_map,
        iter_map_simplify,
        normalize_iter_map_to_expr,
        normalize_to_iter_sum,
    )
    from tirlower.arith.iter_map import (
        IterMapExpr,
        IterMapLevel,
        IterMapResult,
        IterMark,
        IterSplit,
        IterSplitExpr,
        IterSum,
        IterSumExpr,
    )
    from tirlower.arith.linear import detect_clip_bound, detect_linear_equation
    from tirlower.arith.narrow import NarrowPredicateExpression, narrow_predicate_expression
    from tirlower.arith.region import (
        domain_touched,
        estimate_region_lower_bound,
        estimate_region_strict_bound,
        estimate_region_upper_bound,
        eval_set,
        union_lower_bound,
    )
    from tirlower.arith.solve import (
        IntConstraints,
        IntConstraintsTransform,
        IntGroupBounds,
        solve_linear_equations,
        solve_linear_inequalities,
    )
    from tirlower.arith.subspace import subspace_divide

# What stands where, of what is imported at its first use: most programs ask the analyzer alone.
_WHERE = {
    "IntConstraints": "solve",
    "IntConstraintsTransform": "solve",
    "IntGroupBounds": "solve",
    "IterMapExpr": "iter_map",
    "IterMapLevel": "iter_map",
    "IterMapResult": "iter_map",
    "IterMark": "iter_map",
    "IterSplit": "iter_map",
    "IterSplitExpr": "iter_map",
    "IterSum": "iter_map",
    "IterSumExpr": "iter_map",
    "NarrowPredicateExpression": "narrow",
    "deduce_bound": "deduce",
    "detect_clip_bound": "linear",
    "detect_common_subexpr": "common_subexpr",
    "detect_iter_map": "iter_detect",
    "detect_linear_equation": "linear",
    "domain_touched": "region",
    "estimate_region_lower_bound": "region",
    "estimate_region_strict_bound": "region",
    "estimate_region_upper_bound": "region",
    "eval_set": "region",
    "inverse_affine_iter_map": "iter_detect",
    "iter_map_simplify": "iter_detect",
    "narrow_predicate_expression": "narrow",
    "normalize_iter_map_to_expr": "iter_detect",
    "normalize_to_iter_sum": "iter_detect",
    "solve_linear_equations": "solve",
    "solve_linear_inequalities": "solve",
    "subspace_divide": "subspace",
    "union_lower_bound": "region",
}

__all__ = [
    "detect_common_subexpr",
    "union_lower_bound",
    "narrow_predicate_expression",
    "NarrowPredicateExpression",
    "deduce_bound",
    "Analyzer",
    "ConstIntBound",
    "Extension",
    "IntConstraints",
    "IntConstraintsTransform",
    "IntGroupBounds",
    "IntSet",
    "IntervalSet",
    "IterMapExpr",
    "IterMapLevel",
    "IterMapResult",
    "IterMark",
    "IterSplit",
    "IterSplitExpr",
    "IterSum",
    "IterSumExpr",
    "ModularSet",
    "ProofStrength",
    "RewriteSimplifyStats",
    "detect_clip_bound",
    "detect_iter_map",
    "detect_linear_equation",
    "domain_touched",
    "estimate_region_lower_bound",
    "estimate_region_strict_bound",
    "estimate_region_upper_bound",
    "eval_set",
    "intersect_sets",
    "inverse_affine_iter_map",
    "iter_map_simplify",
    "normalize_iter_map_to_expr",
    "normalize_to_iter_sum",
    "solve_linear_equations",
    "solve_linear_inequalities",
    "subspace_divide",
    "union_sets",
]

__getattr__ = imported_when_asked(__name__, _WHERE)
__dir__ = partial(sorted, __all__)
