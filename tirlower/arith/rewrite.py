"""The rewriting simplifier: rules applied bottom-up until none applies.

Operands come first; a node whose operands are simplified is folded, then offered to the rules of its class. What a
rule builds is simplified as it is built, so one pass over an expression reaches the normal form. The walk uses its own
stack; only the rules recurse, and only ``MAX_DEPTH`` deep.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, TypeAlias, cast

from tirlower import ir
from tirlower.arith.bounds import is_index_type
from tirlower.arith.casts import simplify_cast
from tirlower.arith.choices import Simplify, choice, is_choice
from tirlower.arith.decided import decided_comparison, decided_logic, stated
from tirlower.arith.fold import fold_call, fold_float
from tirlower.arith.interner import BINARY, is_impure_call
from tirlower.arith.intervals import num
from tirlower.arith.matcher import Key, RuleIndex
from tirlower.arith.prove import Prover
from tirlower.arith.rewrite_stats import RewriteSimplifyStats
from tirlower.diagnostics import Span
from tirlower.ir import BOOL, Broadcast, Call, Cast, DataType, Expr, FloatImm, IntImm, Not, Ramp, Select, Var, wrap_int
from tirlower.ir.expr import Binary, Let
from tirlower.ir.integers import EXACT
from tirlower.ir.op import GlobalVar, Op

if TYPE_CHECKING:
    from tirlower.arith.analyzer import Analyzer

__all__ = ["MAX_DEPTH", "MAX_STEPS", "Rewriter"]

MAX_DEPTH = 40
"""How deep the results of rules are simplified inside one another."""

MAX_STEPS = 200_000
"""Rules applied in one call before the simplifier stops and returns what it has."""

_DIVISIONS = frozenset((ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod))
_ORDER = frozenset((ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE))
_LOGICAL = frozenset((ir.And, ir.Or))
_LEAVES = frozenset((Var, IntImm, FloatImm, ir.StringImm))
_CONSTANTS = frozenset((IntImm, FloatImm))
_ITE = Op.get("tir.if_then_else")
_LIKELY = Op.get("tir.likely")


@cache
def _rules_for(dtype: DataType) -> RuleIndex:
    """The rules that hold on a data type."""
    # Imported when something is first simplified: kernels that come from the disk cache whole need none of the rules.
    from tirlower.arith import rules

    if dtype.is_vector:
        if dtype.is_int and dtype.bits in (32, 64):
            return rules.INDEX_VECTOR
        return rules.INT_VECTOR if dtype.is_int or dtype.is_uint else rules.VECTOR
    if is_index_type(dtype):
        return rules.INDEX
    if dtype.is_int or dtype.is_uint:
        return rules.INTEGER
    return rules.BOOL if dtype.is_bool else rules.FLOAT if dtype.is_float else rules.OTHER


Scope: TypeAlias = tuple[dict[Expr, Expr], dict[tuple[Expr, Expr], tuple[num, num]], set[Expr]]
"""What was computed under some facts."""


class Rewriter(Prover):
    """Applies the rules under the facts of one analyzer.

    Besides ``simplify`` it offers what the compiled rules call: constructors that simplify what they build
    (``make`` …), equality of operands (``same``), and proofs (``bound``, ``prove_le`` …).
    """

    def __init__(self, analyzer: Analyzer) -> None:
        super().__init__(analyzer)
        self.memo: dict[Expr, Expr] = {}
        self.substitution: dict[Expr, Expr] = {}
        """What stands for a variable."""
        self.ops = Op._registry
        self.true = IntImm(BOOL, 1)
        self.false = IntImm(BOOL, 0)
        self.span: Span | None = None
        self.steps = 0
        self.depth = 0
        self.scopes = 0
        self.opened = 0
        self.stats = RewriteSimplifyStats()
        self.branch_facts = False
        self.impure: set[Expr] = set()
        self.kept: set[Expr] = set()
        """Nodes, with these operands, that no rule changes."""
        self._immediates: dict[tuple[int, DataType], IntImm] = {}

    def start(self) -> None:
        """Before an expression is simplified: its budgets are full, unless it is part of one being simplified."""
        self.steps = 0
        if not self.scopes:
            self.opened = 0

    # -- the walk ----------------------------------------------------------------------------------------------------
    def simplify(self, root: Expr) -> Expr:
        """The normal form of an expression under the rules and facts; the same object when it is simple already."""
        found = self.memo.get(root)
        if found is not None:
            return found
        memo, substitution, literals = self.memo, self.substitution, self.analyzer.facts.literals
        outer_span = self.span
        visited = 0
        stack = [root]
        while stack:
            op = stack[-1]
            if op in memo:
                stack.pop()
                continue
            kind = op.__class__
            if kind in _LEAVES:
                new = op
                if kind is Var:
                    new = self.substitution.get(op, op)
                    if literals and new.dtype is BOOL:
                        new = stated(self, new)
                memo[op] = new
                stack.pop()
                continue
            if kind in BINARY and not (self.branch_facts and kind in _LOGICAL):
                if TYPE_CHECKING:
                    assert isinstance(op, Binary)
                left, right = op.a, op.b
                a = left if left.__class__ is IntImm else memo.get(left)
                b = right if right.__class__ is IntImm else memo.get(right)
                if a is None or b is None:
                    if b is None:
                        if right.__class__ is Var and right not in substitution and not literals:
                            b = memo[right] = right
                        else:
                            stack.append(right)
                    if a is None:
                        if left.__class__ is Var and left not in substitution and not literals:
                            a = memo[left] = left
                        else:
                            stack.append(left)
                    if a is None or b is None:
                        continue
                stack.pop()
                if op.span is not None:
                    self.span = op.span
                new = self.binary(kind, a, b, op if a is left and b is right else None)
            else:
                if is_choice(op, self):
                    stack.pop()
                    if op.span is not None:
                        self.span = op.span
                    memo[op] = new = choice(op, self, self.simplify)
                    memo.setdefault(new, new)
                    continue
                if op.__class__ is ir.Let:
                    own = self.analyzer.lets.own(op)
                    if own is not op:
                        if own in memo:
                            memo[op] = memo[own]
                        else:
                            stack.append(own)
                        continue
                    if op.value in memo and op.body not in memo:
                        self.enter_let(op.var, memo[op.value])
                waiting = [c for c in op.children() if c not in memo]
                if waiting:
                    if op.__class__ is ir.Let and op.value not in memo:
                        # The value first: the body may be simplified under what is known of it.
                        waiting = [op.value]
                    stack += reversed(waiting)
                    continue
                stack.pop()
                if op.span is not None:
                    self.span = op.span
                new = self.node(op)
            memo[op] = new
            visited += 1
            if new is not op:
                memo[new] = new
        self.span = outer_span
        self.stats.nodes_visited += visited
        return memo[root]

    def node(self, op: Expr) -> Expr:
        """A node other than a leaf or a plain binary operation, its operands simplified."""
        memo = self.memo
        rules = _OF_KIND.get(op.__class__)
        if rules is not None:
            return rules(self, op, memo.__getitem__)
        if op.__class__ is ir.Let:
            return self.make_let(op, memo[op.value], memo[op.body])
        return self.mark(op.map_children(memo.__getitem__), *[memo[c] for c in op.children()])

    def rules_of(self, op: Expr) -> Expr:
        """A node whose operands are simplified already, after the rules of its class."""
        if op.__class__ in BINARY:
            return self.binary(op.__class__, op.a, op.b, op)
        rules = _OF_KIND.get(op.__class__)
        return op if rules is None else rules(self, op, lambda operand: operand)

    def _call_of(self, op: Call, of: Callable[[Expr], Expr]) -> Expr:
        args = tuple([of(arg) for arg in op.args])
        same = all(a is b for a, b in zip(args, op.args, strict=True))
        return self.call(op.op, args, op if same else None, op)

    def _ramp_of(self, op: Ramp, of: Callable[[Expr], Expr]) -> Expr:
        base, stride = of(op.base), of(op.stride)
        return self.make_ramp(base, stride, op.lanes, op if base is op.base and stride is op.stride else None)

    def _broadcast_of(self, op: Broadcast, of: Callable[[Expr], Expr]) -> Expr:
        value = of(op.value)
        return self.make_broadcast(value, op.lanes, op if value is op.value else None)

    # -- constructors that simplify ----------------------------------------------------------------------------------
    def binary(self, kind: type[Binary], a: Expr, b: Expr, original: Expr | None = None) -> Expr:
        """``kind(a, b)`` simplified; ``original`` is the node with exactly these operands, if there is one."""
        if original is not None and original in self.kept:
            return original  # the canonical form and the rules take turns: no rule applied the last time either
        if b.__class__ is IntImm and a.__class__ is IntImm:
            folded = self._fold(kind, a, b)
            if folded is not None:
                return folded
        if self.impure and (a in self.impure or b in self.impure):
            new = original if original is not None else kind(a, b, span=self.span)
            self.impure.add(new)
            return new
        dtype = a.dtype
        index = _rules_for(dtype)
        if self.depth < MAX_DEPTH and self.steps < MAX_STEPS:
            entry = index.entries.get((kind, a.__class__, b.__class__))
            if entry is None:
                entry = index.entry((kind, a.__class__, b.__class__))
            if entry.rules:
                entry.calls += 1
                self.stats.rewrites_attempted += 1
                self.depth += 1
                for match, rule in entry.rules if entry.shallow else entry.narrow(a, b):
                    found = match(self, a, b)
                    if found is not None:
                        self.depth -= 1
                        self.steps += 1
                        self.stats.note_rewrite(self.depth)
                        entry.hits[rule] = entry.hits.get(rule, 0) + 1
                        return found
                self.depth -= 1
        if kind is ir.FloorMod and b.__class__ is IntImm and self.analyzer.facts.moduli and b.value > 0:
            coeff, base = self.analyzer.modular.of(a)
            if coeff % b.value == 0:
                return IntImm(dtype, base % b.value)
        if kind in _ORDER:
            decided = decided_comparison(self, kind, a, b)
            if decided is not None:
                return decided
        elif dtype is BOOL:
            simpler = decided_logic(self, kind, a, b)
            if simpler is not None:
                return simpler
        elif dtype.is_float:
            folded = fold_float(kind, a, b)
            if folded is not None:
                return folded
        if original is not None:
            if self.depth < MAX_DEPTH and self.steps < MAX_STEPS and not self.proof_depth:
                self.kept.add(original)
            return original
        return kind(a, b, span=self.span)

    make = binary

    def _apply(self, index: RuleIndex, key: Key, args: tuple[Expr | int, ...]) -> Expr | None:
        """The result of the first rule that matches a node with operands ``args``."""
        if self.depth >= MAX_DEPTH or self.steps >= MAX_STEPS:
            return None
        entry = index.entry(key)
        if not entry.rules:
            return None
        entry.calls += 1
        self.stats.rewrites_attempted += 1
        self.depth += 1
        try:
            for match, rule in entry.rules:
                found = match(self, *args)
                if found is not None:
                    self.steps += 1
                    self.stats.note_rewrite(self.depth - 1)
                    entry.hits[rule] = entry.hits.get(rule, 0) + 1
                    return found
        finally:
            self.depth -= 1
        return None

    def make_not(self, a: Expr) -> Expr:
        """``not a``, simplified."""
        return self._unary_not(a, None)

    def _unary_not(self, a: Expr, op: Not | None) -> Expr:
        if a.__class__ is IntImm:
            return self.false if a.value else self.true
        if not (self.impure and a in self.impure):
            found = self._apply(_rules_for(a.dtype), (Not, a.__class__), (a,))
            if found is not None:
                return found
        if op is not None and a is op.a:
            return op
        return self.mark(Not(a, span=self.span), a)

    def make_select(self, condition: Expr, true_value: Expr, false_value: Expr) -> Expr:
        """``Select``, simplified."""
        return self.ternary(None, condition, true_value, false_value)

    def ternary(self, op: Select | None, condition: Expr, true_value: Expr, false_value: Expr) -> Expr:
        """``Select``, simplified; ``op`` is the node that had these operands or others, if there is one."""
        decided = condition.value if condition.__class__ is Broadcast else condition
        if decided.__class__ is IntImm and not self.any_impure((true_value, false_value)):
            return true_value if decided.value else false_value
        if not self.any_impure((condition, true_value, false_value)):
            key = (Select, condition.__class__, true_value.__class__, false_value.__class__)
            found = self._apply(_rules_for(true_value.dtype), key, (condition, true_value, false_value))
            if found is not None:
                return found
        if (
            op is not None
            and condition is op.condition
            and true_value is op.true_value
            and false_value is op.false_value
        ):
            return op
        return self.mark(Select(condition, true_value, false_value, span=self.span), condition, true_value, false_value)

    def make_ramp(self, base: Expr, stride: Expr, lanes: int | Expr, original: Expr | None = None) -> Expr:
        """``Ramp``, simplified."""
        if lanes.__class__ is int and lanes == 1:
            return base
        found = self._apply(
            _rules_for(base.dtype.with_lanes(2)), (Ramp, base.__class__, stride.__class__, int), (base, stride, lanes)
        )
        if found is not None:
            return found
        return original if original is not None else Ramp(base, stride, lanes, span=self.span)

    def make_broadcast(self, value: Expr, lanes: int | Expr, original: Expr | None = None) -> Expr:
        """``Broadcast``, simplified."""
        if lanes == 1 and lanes.__class__ is int:
            return value
        return original if original is not None else self.mark(Broadcast(value, lanes, span=self.span), value)

    def make_call(self, name: str, args: tuple[Expr, ...]) -> Expr:
        """A call, simplified."""
        return self.call(Op.get(name), args, None, None)

    def call(self, op: Op | GlobalVar, args: tuple[Expr, ...], original: Expr | None, like: Call | None) -> Expr:
        """A call, simplified; ``original`` is the node with exactly these operands, ``like`` the one that had others."""
        if op is _LIKELY and args[0].__class__ is IntImm:
            return args[0]
        if op is _ITE and args[0].__class__ is IntImm:
            return args[1] if args[0].value else args[2]
        if isinstance(op, Op) and not (self.impure and self.any_impure(args)):
            folded = fold_call(op, args, like.dtype if like is not None else None)
            if folded is not None:
                return folded
            key: Key = (op.name, *[a.__class__ for a in args])
            index = _rules_for(args[1].dtype if op is _ITE else args[0].dtype if args else ir.VOID)
            if op.name in index.by_root:
                found = self._apply(index, key, args)
                if found is not None:
                    return found
            if op is _LIKELY:
                known = self.analyzer.facts.literals.get(self.analyzer.interner.representative(args[0]))
                if known is not None:
                    return self.true if known else self.false
        if original is not None:
            if is_impure_call(original) or self.any_impure(args):
                self.impure.add(original)
            return original
        if like is not None:
            new: Expr = like.with_(args=args)
        else:
            assert isinstance(op, Op) and op.infer is not None
            new = Call(op, args, op.infer(args), span=self.span)
        if is_impure_call(new):
            self.impure.add(new)
            return new
        return self.mark(new, *args)

    def any_impure(self, parts: tuple[Expr, ...]) -> bool:
        """Whether a part is known to have effects, or holds one that has."""
        return bool(self.impure) and any(part in self.impure for part in parts)

    def mark(self, new: Expr, *parts: Expr) -> Expr:
        """A new node, which is impure where one of its parts is."""
        if self.impure and any(part in self.impure for part in parts):
            self.impure.add(new)
        return new

    # -- scopes ------------------------------------------------------------------------------------------------------
    def enter_let(self, var: Var, value: Expr) -> None:
        """A let whose value is simple is substituted; of another one the bounds are known in the body."""
        if value.__class__ in _LEAVES:
            self.substitution[var] = value
            self.memo.pop(var, None)
            self.analyzer.canonical.memo.pop(var, None)
            self.analyzer.bounds.memo.pop(var, None)
        elif var.dtype.is_integral and var.dtype.is_scalar:
            self.analyzer.facts.restrict(var, self.analyzer.bounds.of(value))

    def make_let(self, op: Let, value: Expr, body: Expr) -> Expr:
        """A let with its parts simplified; its body where the value was substituted, or does not count."""
        if value.__class__ in _LEAVES:
            # The body may have been simplified when its value was none.
            return ir.substitute(body, {op.var: value})
        if body.__class__ in _CONSTANTS and value not in self.impure:
            return body
        if value is op.value and body is op.body:
            return op
        return self.mark(ir.Let(op.var, value, body, span=self.span), value, body)

    # -- folding and knowledge ---------------------------------------------------------------------------------------
    def imm(self, value: int, dtype: DataType) -> Expr | None:
        """An integer constant of a type, or None when it does not fit."""
        if dtype.lanes != 1 or dtype.scalable:
            dtype = dtype.element
        key = (value, dtype)
        found = self._immediates.get(key)
        if found is None:
            if not dtype.is_integral or not dtype.min_value <= value <= dtype.max_value:
                return None
            found = self._immediates[key] = IntImm(dtype, value)
        return found

    def wrapped(self, value: int, dtype: DataType) -> Expr | None:
        """An integer constant of a type, wrapped; None where index arithmetic would overflow."""
        if dtype.is_integral and not (dtype.is_int and dtype.bits in (32, 64)) and not dtype.is_bool:
            value = wrap_int(value, dtype)
        return self.imm(value, dtype)

    def float_imm(self, value: float, dtype: DataType) -> Expr:
        """A float constant."""
        return FloatImm(dtype, value)

    def _fold(self, kind: type[Binary], a: IntImm, b: IntImm) -> Expr | None:
        if kind in _DIVISIONS and b.value == 0:
            return None
        value = EXACT[kind](a.value, b.value)
        if kind in _ORDER:
            return self.true if value else self.false
        return self.wrapped(value, a.dtype) if not a.dtype.is_bool else IntImm(a.dtype, int(bool(value)))

    def enter(self) -> Scope:
        """Start a scope of more facts; returns what :meth:`leave` needs."""
        outer = (self.memo, self._differences, self.kept)
        self.memo, self._differences, self.kept = {}, {}, set()
        return outer

    def leave(self, outer: Scope) -> None:
        """Back to the facts before."""
        self.memo, self._differences, self.kept = outer


_NodeRules: TypeAlias = "Callable[[Rewriter, Expr, Simplify], Expr]"
_OF_KIND: dict[type, _NodeRules] = cast(
    "dict[type, _NodeRules]",
    {
        Not: lambda rewriter, op, of: rewriter._unary_not(of(op.a), op),
        Select: lambda rewriter, op, of: rewriter.ternary(op, of(op.condition), of(op.true_value), of(op.false_value)),
        Cast: lambda rewriter, op, of: simplify_cast(rewriter, op.dtype, of(op.value), op),
        Call: Rewriter._call_of,
        Ramp: Rewriter._ramp_of,
        Broadcast: Rewriter._broadcast_of,
    },
)  # each takes nodes of its class
"""The rules of a node that is no binary operation; the last argument gives its simplified operands."""
