"""The Analyzer: one object that knows facts and answers questions about expressions under them."""

from __future__ import annotations

import contextlib
import enum
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from tirlower import ir
from tirlower.arith.affine import affine_of
from tirlower.arith.arguments import need
from tirlower.arith.bounds import BoundAnalysis, is_index_type
from tirlower.arith.canonical import Canonicalizer
from tirlower.arith.canonical import Scope as CanonicalScope
from tirlower.arith.cnf import and_of_ors
from tirlower.arith.facts import Facts
from tirlower.arith.int_set import IntervalSet, SetEvaluator
from tirlower.arith.interner import Interner
from tirlower.arith.intervals import Bound
from tirlower.arith.lets import Lets
from tirlower.arith.modular import ModularAnalysis, ModularSet
from tirlower.arith.rewrite import Rewriter
from tirlower.arith.rewrite import Scope as RewriterScope
from tirlower.arith.rewrite_stats import RewriteSimplifyStats
from tirlower.diagnostics import TirError
from tirlower.ir import Expr, IntImm, Range, Var, as_expr, build, is_const_int
from tirlower.ir.expr import ExprLike
from tirlower.ir.op import Op
from tirlower.ir.query import each

__all__ = ["Analyzer", "ConstIntBound", "Extension", "ProofStrength"]

_VSCALE = Op.get("tir.vscale")
MAX_VSCALE = 16
"""SVE's limit: 2048 bits are 16 times 128."""
MAX_ROUNDS = 6
"""How often rewriting and canonical form take turns before the simplifier is content."""


class ConstIntBound:
    """Constant bounds: ``min_value`` and ``max_value``, where ``NEG_INF`` and ``POS_INF`` mean unbounded.

    >>> ConstIntBound(0, 9)
    ConstIntBound(0, 9)
    """

    POS_INF = (1 << 63) - 1
    NEG_INF = -POS_INF

    __slots__ = ("max_value", "min_value")

    def __init__(self, min_value: int, max_value: int) -> None:
        self.min_value = min_value
        self.max_value = max_value

    @property
    def ends(self) -> tuple[int | float, int | float]:
        """Both bounds as numbers to compare with: infinite where there is none, which ``NEG_INF`` and ``POS_INF``, values
        of int64, are not.

        >>> ConstIntBound(0, ConstIntBound.POS_INF).ends
        (0, inf)
        """
        low = -math.inf if self.min_value <= self.NEG_INF else self.min_value
        high = math.inf if self.max_value >= self.POS_INF else self.max_value
        return low, high

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConstIntBound) and (self.min_value, self.max_value) == (
            other.min_value,
            other.max_value,
        )

    def __hash__(self) -> int:
        return hash((self.min_value, self.max_value))

    def __repr__(self) -> str:
        low = "neg_inf" if self.min_value == self.NEG_INF else self.min_value
        high = "pos_inf" if self.max_value == self.POS_INF else self.max_value
        return f"ConstIntBound({low}, {high})"


class ProofStrength(enum.IntEnum):
    """How hard :meth:`Analyzer.can_prove` tries."""

    DEFAULT = 0
    SYMBOLIC_BOUND = 1
    """Combine known inequalities and symbolic bounds of loop variables too."""


class Extension(enum.IntFlag):
    """What the simplifier does only when it is asked to."""

    NO_EXTENSIONS = 0
    TRANSITIVELY_PROVE_INEQUALITIES = 1
    """``a < b`` and ``b < c`` prove ``a < c``."""
    CONVERT_BOOLEAN_TO_AND_OF_ORS = 2
    """Conditions are returned as a conjunction of disjunctions."""
    APPLY_CONSTRAINTS_TO_BOOLEAN_BRANCHES = 4
    """Each side of an and (or) is simplified knowing that the other holds (does not)."""
    COMPARISON_OF_PRODUCT_AND_SUM = 8
    """Comparisons of products with sums are decided from bounds of the factors."""
    NoExtensions = NO_EXTENSIONS
    TransitivelyProveInequalities = TRANSITIVELY_PROVE_INEQUALITIES
    ConvertBooleanToAndOfOrs = CONVERT_BOOLEAN_TO_AND_OF_ORS
    ApplyConstraintsToBooleanBranches = APPLY_CONSTRAINTS_TO_BOOLEAN_BRANCHES
    ComparisonOfProductAndSum = COMPARISON_OF_PRODUCT_AND_SUM


_Outer: TypeAlias = tuple[tuple[int, int], dict[Expr, Bound], dict[Expr, ModularSet], RewriterScope, CanonicalScope]
"""What an outer scope has computed, and up to where the facts are its own."""


class _Scaled(ir.Mutator):
    """Puts a number in the place of ``vscale``."""

    def __init__(self, value: int) -> None:
        self.value = value

    def visit_Call(self, op: ir.Call) -> Expr:
        """The number."""
        return IntImm(op.dtype, self.value) if op.op is _VSCALE else op


def _number(value: object, function: str, name: str) -> int:
    """The number that bounds are compared with."""
    if value.__class__ is int:
        return value
    if isinstance(value, IntImm):
        return value.value
    return need(value, int, function, name, "give a number; an expression is for can_prove(expr >= other)")


class Analyzer:
    """Simplifies expressions and proves conditions, under the variables bound and the scopes entered.

    An analyzer remembers what it has computed for as long as it lives; make one for each function (or pass) that you
    work on.

    >>> i, j = Var("i"), Var("j")
    >>> analyzer = Analyzer()
    >>> analyzer.bind(i, Range(0, 8))
    >>> analyzer.bind(j, Range(0, 4))
    >>> analyzer.can_prove((i * 4 + j) // 4 < 8)
    True
    """

    def __init__(self) -> None:
        self.interner = Interner()
        self.facts = Facts(self)
        self.lets = Lets(self)
        self.bounds = BoundAnalysis(self)
        self.modular = ModularAnalysis(self)
        self.rewriter = Rewriter(self)
        self.canonical = Canonicalizer(self)
        self.ranges: dict[Var, Range] = {}
        self._outer: list[_Outer] = []
        self._extensions = Extension.NO_EXTENSIONS
        self.proof_steps = 1
        """How many known inequalities a proof may add up."""
        self.compares_products = False
        self._splits_conditions = False

    # -- facts -------------------------------------------------------------------------------------------------------
    def bind(self, var: Var, value: Expr | Range | int, allow_override: bool = False) -> None:
        """State what a variable is: an expression (it is replaced by it) or a range (it lies in it).

        A second, different statement about a variable needs ``allow_override``; without it :class:`TirError` is raised, as
        for what is no variable.
        """
        self._check_var("bind", var)
        if isinstance(value, Range):
            if is_const_int(value.extent, 1):
                self._bind_expr(var, value.min, allow_override)
            else:
                self._bind_range(var, value, allow_override)
        else:
            self._bind_expr(
                var, as_expr(value) if not isinstance(value, int) else ir.const(value, var.dtype), allow_override
            )

    def _check_var(self, origin: str, var: object) -> None:
        if not isinstance(var, Var):
            raise TirError(f"facts are stated of variables, got {var!r}", origin=f"Analyzer.{origin}")

    def _check_override(self, var: Var, known: object, allow_override: bool) -> None:
        if known and not allow_override:
            raise TirError(
                f"the variable {var.name!r} is bound already, to something else",
                origin="Analyzer.bind",
                help="pass allow_override=True (to update, override=True) to replace what is known of it",
            )

    def _bind_expr(self, var: Var, value: Expr, allow_override: bool) -> None:
        value = self.rewriter.simplify(value)
        old = self.rewriter.substitution.get(var)
        self._check_override(var, old is not None and not self.interner.same(old, value), allow_override)
        self._drop(var)
        self.rewriter.substitution[var] = value
        if value.dtype.is_integral and value.dtype.is_scalar:
            self.facts.bounds[var] = self.bounds.of(value)
            self.facts.moduli[var] = self.modular.of(value)

    def _bind_range(self, var: Var, value: Range, allow_override: bool) -> None:
        old = self.ranges.get(var)
        same = old is value or (
            old is not None and self.interner.same(old.min, value.min) and self.interner.same(old.extent, value.extent)
        )
        if same:
            return
        self._check_override(var, old is not None, allow_override)
        self._drop(var)
        self.ranges[var] = value
        low, extent = self.simplify(value.min), self.simplify(value.extent)
        least, most = self.bounds.of(low), self.bounds.of(extent)
        self.facts.bounds[var] = (least[0], least[1] + most[1] - 1)
        if is_index_type(var.dtype):
            # var >= low and var <= low + extent - 1, for symbolic ends.
            form, start, size = (affine_of(self.interner, e, 64) for e in (var, low, extent))
            if form is not None and start is not None and size is not None:
                below, above = start - form, (form - start) - size
                if len(below.terms) > 1:
                    self.facts.add_linear(below, -below.const)
                if len(above.terms) > 1:
                    self.facts.add_linear(above, -above.const - 1)

    def update(self, var: Var, info: ConstIntBound | ModularSet | IntervalSet, override: bool = False) -> None:
        """State constant bounds, a modular set or an interval of a variable.

        Something else that was stated of the same kind needs ``override``; without it :class:`TirError` is raised.

        >>> i = Var("i")
        >>> analyzer = Analyzer()
        >>> analyzer.update(i, ModularSet(8, 3))
        >>> analyzer.modular_set(i * 2)
        ModularSet(coeff=16, base=6)
        """
        self._check_var("update", var)
        if not isinstance(info, (ConstIntBound, ModularSet, IntervalSet)):
            raise TirError(
                f"what is known of {var.name!r} is a ConstIntBound, a ModularSet or an IntervalSet, got {info!r}",
                origin="Analyzer.update",
                help="bind states an expression or a range",
            )
        if isinstance(info, IntervalSet):
            low, high = info.min_value, info.max_value
            if low is not None and high is not None:
                self._bind_range(var, Range(low, build.add(build.sub(high, low), 1)), override)
                return
            least = ConstIntBound.NEG_INF if low is None else self.const_int_bound(low).min_value
            most = ConstIntBound.POS_INF if high is None else self.const_int_bound(high).max_value
            info = ConstIntBound(least, most)
        bounds, moduli = self.facts.bounds.get(var), self.facts.moduli.get(var)
        if isinstance(info, ModularSet):
            self._check_override(var, moduli is not None and moduli != info, override)
            moduli = info
        else:
            self._check_override(var, bounds is not None and bounds != info.ends, override)
            bounds = info.ends
        self._drop(var)
        if bounds is not None:
            self.facts.bounds[var] = bounds
        if moduli is not None:
            self.facts.moduli[var] = moduli

    def forget(self, var: Var) -> None:
        """Drop what is known of a variable, and what was computed from it, in this scope and those around it.

        >>> n, analyzer = Var("n"), Analyzer()
        >>> analyzer.bind(n, Range(0, 8))
        >>> analyzer.forget(n)
        >>> analyzer.can_prove(n < 8)
        False
        """
        self._check_var("forget", var)
        self._drop(var)

    def _drop(self, var: Var) -> None:
        self.rewriter.substitution.pop(var, None)
        self.ranges.pop(var, None)
        self.lets.forget(var)
        self.facts.bounds.pop(var, None)
        self.facts.moduli.pop(var, None)
        if any(var in memo for memo in self._memos()):
            self._fresh_memos()
            self._outer = [(mark, {}, {}, ({}, {}, set()), ({}, {})) for mark, *_ in self._outer]

    def _memos(self) -> Iterator[Mapping[Expr, object]]:
        yield from (self.bounds.memo, self.modular.memo, self.rewriter.memo, self.canonical.memo)
        for _, bounds, modular, rewriter, canonical in self._outer:
            yield from (bounds, modular, rewriter[0], canonical[0])

    def _fresh_memos(self) -> None:
        """Forget what was computed in this scope."""
        self.bounds.memo = {}
        self.modular.memo = {}
        self.rewriter.enter()
        self.canonical.enter()

    @contextlib.contextmanager
    def constraint_scope(self, condition: ExprLike) -> Iterator[Analyzer]:
        """Inside the ``with`` block the condition holds (its parts that read no memory are used).

        >>> n = Var("n")
        >>> analyzer = Analyzer()
        >>> with analyzer.constraint_scope(n > 4):
        ...     print(analyzer.can_prove(n > 2))
        True
        """
        self.enter_constraint(condition)
        try:
            yield self
        finally:
            self.leave_constraint()

    def enter_constraint(self, condition: ExprLike) -> None:
        """Take a condition as true until :meth:`leave_constraint`."""
        condition = self.rewriter.simplify(as_expr(condition))
        mark = self.facts.mark()
        self._outer.append((mark, self.bounds.memo, self.modular.memo, self.rewriter.enter(), self.canonical.enter()))
        self.bounds.memo, self.modular.memo = {}, {}
        self.facts.add(condition)
        # What was computed while the facts came in knew only some of them.
        self._fresh_memos()

    def leave_constraint(self) -> None:
        """Forget the condition entered last."""
        if not self._outer:
            raise TirError(
                "no condition was entered that could be left",
                origin="arith",
                help="call enter_constraint before, once for each",
            )
        mark, bounds, modular, rewriter, canonical = self._outer.pop()
        self.facts.rollback(mark)
        self.bounds.memo, self.modular.memo = bounds, modular
        self.rewriter.leave(rewriter)
        self.canonical.leave(canonical)

    @property
    def constraints(self) -> tuple[Expr, ...]:
        """The conditions in force, outermost first."""
        return tuple(self.facts.conditions)

    @property
    def enabled_extensions(self) -> Extension:
        """What the simplifier does beyond its default."""
        return self._extensions

    @enabled_extensions.setter
    def enabled_extensions(self, value: Extension | int) -> None:
        self._extensions = Extension(value)
        self.proof_steps = 4 if self._extensions & Extension.TRANSITIVELY_PROVE_INEQUALITIES else 1
        self.compares_products = bool(self._extensions & Extension.COMPARISON_OF_PRODUCT_AND_SUM)
        self._splits_conditions = bool(self._extensions & Extension.CONVERT_BOOLEAN_TO_AND_OF_ORS)
        self.rewriter.branch_facts = bool(self._extensions & Extension.APPLY_CONSTRAINTS_TO_BOOLEAN_BRANCHES)
        self._fresh_memos()

    # -- simplification ----------------------------------------------------------------------------------------------
    def simplify(self, expr: ExprLike, steps: int = 2) -> Expr:
        """The simplest form known: canonical form and rewriting by rules take turns until neither changes anything.

        ``steps`` limits the turns as in TIR: 0 is the canonical form alone, 1 adds rewriting, 2 and more go on to the
        fixed point, which is canonical. The same object comes back when nothing changes.
        """
        start = as_expr(expr)
        if start.is_leaf and not isinstance(start, Var):
            return start
        self.rewriter.start()
        current = self.canonical.simplify(start)
        rounds = steps // 2 if steps < 2 else MAX_ROUNDS
        for _ in range(rounds):
            if isinstance(current, IntImm):
                return current
            rewritten = self.rewriter.simplify(current)
            if rewritten is current:
                break
            again = self.canonical.simplify(rewritten)
            if again is current or self.interner.same(again, current):
                break
            current = again
        if steps == 1:
            current = self.rewriter.simplify(current)
        if self._splits_conditions and current.dtype.is_bool:
            current = and_of_ors(self, current)
        return start if current is not start and self.interner.same(current, start) else current

    def rewrite_simplify(self, expr: ExprLike) -> Expr:
        """The normal form under the rules."""
        self.rewriter.start()
        result = self.rewriter.simplify(as_expr(expr))
        if self._splits_conditions and result.dtype.is_bool:
            return and_of_ors(self, result)
        return result

    @property
    def rewrite_simplify_stats(self) -> RewriteSimplifyStats:
        """What the rules have done so far, as counts of now.

        >>> analyzer, i = Analyzer(), Var("i")
        >>> analyzer.rewrite_simplify(ir.Mul(ir.Add(i, 0), 1))
        Var(i)
        >>> analyzer.rewrite_simplify_stats.rewrites_performed
        2
        """
        return replace(self.rewriter.stats)

    def reset_rewrite_simplify_stats(self) -> None:
        """Count from zero."""
        self.rewriter.stats = RewriteSimplifyStats()

    def canonical_simplify(self, expr: ExprLike) -> Expr:
        """The canonical form: sums of digits in TIR's order."""
        self.rewriter.start()
        return self.canonical.simplify(as_expr(expr))

    # -- questions ---------------------------------------------------------------------------------------------------
    def wraps_around(self, expr: Expr) -> bool:
        """Whether arithmetic of an index type wraps around where it leaves it: here, none does (TIR's convention)."""
        return False

    def const_int_bound(self, expr: ExprLike) -> ConstIntBound:
        """Constant bounds of an integer expression; those of a choice take its condition as true in each arm.

        >>> x = Var("x")
        >>> Analyzer().const_int_bound(ir.Select(x > 5, x, 6)).min_value
        6
        """
        low, high = self.bounds.of_choices(as_expr(expr))
        least, most = ConstIntBound.NEG_INF, ConstIntBound.POS_INF
        return ConstIntBound(least if low < least else int(low), most if high > most else int(high))

    def const_int_bound_is_bound(self, var: Var) -> bool:
        """Whether a range, a value or bounds of a variable have been stated."""
        return need(var, Var, "const_int_bound_is_bound", "var", "give a variable") in self.facts.bounds

    def modular_set(self, expr: ExprLike) -> ModularSet:
        """What is known of an expression's remainder."""
        return self.modular.of(as_expr(expr))

    def int_set(self, expr: ExprLike, dom_map: Mapping[Var, Range | IntervalSet] | None = None) -> IntervalSet:
        """The interval that an expression ranges over when the variables of ``dom_map`` do.

        Without a map all variables that are bound to ranges are relaxed.
        """
        return SetEvaluator(self, self.ranges if dom_map is None else dom_map).of(self.simplify(expr))

    def can_prove(self, condition: ExprLike, strength: ProofStrength | int = ProofStrength.DEFAULT) -> bool:
        """Whether a condition is certainly true under what is known. False means that no proof was found."""
        condition = as_expr(condition)
        if condition.__class__ is IntImm:
            return bool(condition.value)
        result = self.simplify(condition)
        if result.__class__ is IntImm:
            return bool(result.value)
        if strength >= ProofStrength.SYMBOLIC_BOUND and self._prove_hard(result):
            return True
        return self._prove_for_each_vscale(result)

    def _prove_for_each_vscale(self, condition: Expr) -> bool:
        """Whether a condition with ``vscale`` is certainly true for each value that it has: 1 to 16."""
        vscale = next((call for call in each(ir.Call, condition) if call.op is _VSCALE), None)
        if vscale is None:
            return False
        for value in range(1, MAX_VSCALE + 1):
            # Only what is known of everything else is known of the condition with a number in its place.
            result = self.simplify(_Scaled(value).visit(condition))
            if result.__class__ is not IntImm or not result.value:
                return False
        return True

    def _prove_hard(self, condition: Expr) -> bool:
        steps, self.proof_steps = self.proof_steps, 6
        outer = (self.rewriter.enter(), self.canonical.enter())
        try:
            result = self.simplify(condition)
        finally:
            self.proof_steps = steps
            self.rewriter.leave(outer[0])
            self.canonical.leave(outer[1])
        return result.__class__ is IntImm and bool(result.value)

    def can_prove_equal(self, a: ExprLike, b: ExprLike) -> bool:
        """Whether two expressions are certainly equal."""
        a, b = build.operands(a, b)
        if a is b or self.interner.same(a, b):
            return True
        if a.__class__ is IntImm and b.__class__ is IntImm:
            return a.value == b.value
        if a.dtype.is_handle or b.dtype.is_handle:
            return False
        return self.can_prove(build.eq(a, b))

    def can_prove_greater_equal(self, expr: ExprLike, lower: int) -> bool:
        """Whether ``expr >= lower`` for a number ``lower``, from bounds (of the simplified expression, if need be)."""
        expr = as_expr(expr)
        lower = _number(lower, "can_prove_greater_equal", "lower")
        if self.bounds.of(expr)[0] >= lower:
            return True
        return self.bounds.of(self.simplify(expr))[0] >= lower

    def can_prove_less(self, expr: ExprLike, upper: int) -> bool:
        """Whether ``expr < upper`` for a number ``upper``, from bounds (of the simplified expression, if need be)."""
        expr = as_expr(expr)
        upper = _number(upper, "can_prove_less", "upper")
        if self.bounds.of(expr)[1] < upper:
            return True
        return self.bounds.of(self.simplify(expr))[1] < upper
