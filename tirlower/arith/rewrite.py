"""The rewriting simplifier: rules applied bottom-up until none applies.

Operands come first; a node whose operands are simplified is folded, then offered to the rules of its class. What a
rule builds is simplified as it is built, so one pass over an expression reaches the normal form. The walk uses its own
stack; only the rules recurse, and only ``MAX_DEPTH`` deep.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tirlower import ir
from tirlower.arith import rules
from tirlower.arith.affine import affine_of
from tirlower.arith.bounds import INF, is_index_type, num
from tirlower.arith.keys import BINARY, is_impure_call
from tirlower.arith.matcher import RuleIndex, truncdiv, truncmod
from tirlower.diagnostics import Span
from tirlower.ir import (
    BOOL,
    Broadcast,
    Call,
    Cast,
    DataType,
    Expr,
    FloatImm,
    IntImm,
    Not,
    Op,
    Ramp,
    Select,
    Var,
    build,
    wrap_int,
)

if TYPE_CHECKING:
    from tirlower.arith.analyzer import Analyzer

__all__ = ["MAX_DEPTH", "MAX_STEPS", "Rewriter"]

MAX_DEPTH = 40
"""How deep the results of rules are simplified inside one another."""

MAX_PROOF_DEPTH = 4
"""How deep a rule's condition may itself call for rules."""

MAX_SCOPES = 24
"""How many conditions of nested selects count as facts at once."""

MAX_STEPS = 200_000
"""Rules applied in one call before the simplifier stops and returns what it has."""

_FOLD: dict[Any, Callable[[int, int], int]] = {
    ir.Add: lambda a, b: a + b,
    ir.Sub: lambda a, b: a - b,
    ir.Mul: lambda a, b: a * b,
    ir.Min: min,
    ir.Max: max,
    ir.FloorDiv: lambda a, b: a // b,
    ir.FloorMod: lambda a, b: a % b,
    ir.Div: truncdiv,
    ir.Mod: truncmod,
    ir.LT: lambda a, b: a < b,
    ir.LE: lambda a, b: a <= b,
    ir.GT: lambda a, b: a > b,
    ir.GE: lambda a, b: a >= b,
    ir.EQ: lambda a, b: a == b,
    ir.NE: lambda a, b: a != b,
    ir.And: lambda a, b: a and b,
    ir.Or: lambda a, b: a or b,
}
_DIVISIONS = frozenset((ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod))
_ORDER = frozenset((ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE))
_LOGICAL = frozenset((ir.And, ir.Or))
_FACTLESS = frozenset((ir.Add, ir.Sub, ir.Mul, Var, IntImm, FloatImm, ir.StringImm, ir.BufferLoad, ir.Broadcast, ir.Ramp))
_LEAVES = frozenset((Var, IntImm, FloatImm, ir.StringImm))
_ITE = Op.get("tir.if_then_else")
_LIKELY = Op.get("tir.likely")

_INDEXES: dict[DataType, RuleIndex] = {}


def _rules_for(dtype: DataType) -> RuleIndex:
    """The rules that hold on a data type."""
    if dtype.is_vector:
        if dtype.is_int and dtype.bits in (32, 64):
            return rules.INDEX_VECTOR
        return rules.INT_VECTOR if dtype.is_int or dtype.is_uint else rules.VECTOR
    if is_index_type(dtype):
        return rules.INDEX
    if dtype.is_int or dtype.is_uint:
        return rules.INTEGER
    return rules.BOOL if dtype.is_bool else rules.FLOAT if dtype.is_float else rules.OTHER


class Rewriter:
    """Applies the rules under the facts of one analyzer.

    Besides ``simplify`` it offers what the compiled rules call: constructors that simplify what they build
    (``make`` …), equality of operands (``same``), and proofs (``bound_lt``, ``prove_le`` …).
    """

    def __init__(self, analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self.memo: dict[Expr, Expr] = {}
        self.substitution: dict[Var, Expr] = {}
        self.same = analyzer.keys.same
        self.ops = Op._registry
        self.true = IntImm(BOOL, 1)
        self.false = IntImm(BOOL, 0)
        self.span: Span | None = None
        self.steps = 0
        self.depth = 0
        self.proof_depth = 0
        self.scopes = 0
        self.branch_facts = False
        self.impure: set[Expr] = set()
        self._differences: dict[tuple[Expr, Expr], tuple[num, num]] = {}
        self._immediates: dict[tuple[int, DataType], IntImm] = {}

    # -- the walk ----------------------------------------------------------------------------------------------------
    def simplify(self, root: Expr) -> Expr:
        """The normal form of an expression under the rules and facts; the same object when it is simple already."""
        found = self.memo.get(root)
        if found is not None:
            return found
        memo = self.memo
        outer_span = self.span
        stack: list[Any] = [root]
        while stack:
            op = stack[-1]
            if op in memo:
                stack.pop()
                continue
            kind = op.__class__
            if kind in _LEAVES:
                new = self.substitution.get(op, op) if kind is Var else op
                memo[op] = new
                stack.pop()
                continue
            if kind in BINARY and not (self.branch_facts and kind in _LOGICAL):
                a, b = memo.get(op.a), memo.get(op.b)
                if a is None or b is None:
                    if b is None:
                        stack.append(op.b)
                    if a is None:
                        stack.append(op.a)
                    continue
                stack.pop()
                if op.span is not None:
                    self.span = op.span
                new = self.binary(kind, a, b, op if a is op.a and b is op.b else None)
            else:
                if self.scopes < MAX_SCOPES and self.is_choice(op):
                    stack.pop()
                    if op.span is not None:
                        self.span = op.span
                    memo[op] = new = self.choice(op, self.simplify)
                    memo.setdefault(new, new)
                    continue
                if kind is ir.Let and op.value in memo and op.var not in self.substitution:
                    self._enter_let(op)
                waiting = [c for c in op.children() if c not in memo]
                if waiting:
                    if kind is ir.Let:
                        # The value first: the body may be simplified under what is known of it.
                        waiting = [op.value] if op.value not in memo else waiting
                    stack += reversed(waiting)
                    continue
                stack.pop()
                if op.span is not None:
                    self.span = op.span
                new = self.node(op)
            memo[op] = new
            if new is not op:
                memo[new] = new
        self.span = outer_span
        return memo[root]

    def node(self, op: Any) -> Expr:
        """A node other than a leaf or a plain binary operation, its operands simplified."""
        memo = self.memo
        kind = op.__class__
        if kind is Not:
            return self._unary_not(memo[op.a], op)
        if kind is Select:
            return self._ternary(op, memo[op.condition], memo[op.true_value], memo[op.false_value])
        if kind is Cast:
            return self._cast(op.dtype, memo[op.value], op)
        if kind is Call:
            args = tuple([memo[arg] for arg in op.args])
            same = all(a is b for a, b in zip(args, op.args, strict=True))
            return self._call(op.op, args, op if same else None, op)
        if kind is Ramp:
            base, stride = memo[op.base], memo[op.stride]
            return self.make_ramp(base, stride, op.lanes, op if base is op.base and stride is op.stride else None)
        if kind is Broadcast:
            value = memo[op.value]
            return self.make_broadcast(value, op.lanes, op if value is op.value else None)
        if kind is ir.Let:
            return self._let(op)
        return self._mark(op.map_children(memo.__getitem__), *[memo[c] for c in op.children()])

    def rules_of(self, op: Any) -> Expr:
        """A node whose operands are simplified already, after the rules of its class."""
        kind = op.__class__
        if kind in BINARY:
            return self.binary(kind, op.a, op.b, op)
        if kind is Not:
            return self._unary_not(op.a, op)
        if kind is Select:
            return self._ternary(op, op.condition, op.true_value, op.false_value)
        if kind is Cast:
            return self._cast(op.dtype, op.value, op)
        if kind is Call:
            return self._call(op.op, op.args, op, op)
        if kind is Ramp:
            return self.make_ramp(op.base, op.stride, op.lanes, op)
        if kind is Broadcast:
            return self.make_broadcast(op.value, op.lanes, op)
        return op  # type: ignore[no-any-return]

    # -- constructors that simplify ----------------------------------------------------------------------------------
    def binary(self, kind: Any, a: Any, b: Any, original: Expr | None = None) -> Expr:
        """``kind(a, b)`` simplified; ``original`` is the node with exactly these operands, if there is one."""
        if b.__class__ is IntImm and a.__class__ is IntImm:
            folded = self._fold(kind, a, b)
            if folded is not None:
                return folded
        if self.impure and (a in self.impure or b in self.impure):
            new = original if original is not None else kind(a, b, span=self.span)
            self.impure.add(new)
            return new
        dtype = a.dtype
        index = _INDEXES.get(dtype)
        if index is None:
            index = _INDEXES[dtype] = _rules_for(dtype)
        if self.depth < MAX_DEPTH and self.steps < MAX_STEPS:
            entry = index.entries.get((kind, a.__class__, b.__class__))
            if entry is None:
                entry = index.entry((kind, a.__class__, b.__class__))
            if entry.rules:
                entry.calls += 1
                self.depth += 1
                for match, rule in entry.rules:
                    found = match(self, a, b)
                    if found is not None:
                        self.depth -= 1
                        self.steps += 1
                        rule.hits += 1
                        return found  # type: ignore[no-any-return]
                self.depth -= 1
        if kind in _ORDER:
            decided = self._known(kind, a, b)
            if decided is not None:
                return decided
        elif dtype is BOOL:
            simpler = self._logical(kind, a, b)
            if simpler is not None:
                return simpler
        elif dtype.is_float:
            folded = self._fold_float(kind, a, b)
            if folded is not None:
                return folded
        if original is not None:
            return original
        return kind(a, b, span=self.span)  # type: ignore[no-any-return]

    make = binary

    def _apply(self, index: RuleIndex, key: tuple[Any, ...], args: tuple[Any, ...]) -> Expr | None:
        """The result of the first rule that matches a node with operands ``args``."""
        if self.depth >= MAX_DEPTH or self.steps >= MAX_STEPS:
            return None
        entry = index.entry(key)
        if not entry.rules:
            return None
        entry.calls += 1
        self.depth += 1
        try:
            for match, rule in entry.rules:
                found = match(self, *args)
                if found is not None:
                    self.steps += 1
                    rule.hits += 1
                    return found  # type: ignore[no-any-return]
        finally:
            self.depth -= 1
        return None

    def make_not(self, a: Any) -> Expr:
        """``not a``, simplified."""
        return self._unary_not(a, None)

    def _unary_not(self, a: Any, op: Any) -> Expr:
        if a.__class__ is IntImm:
            return self.false if a.value else self.true
        if not (self.impure and a in self.impure):
            found = self._apply(_rules_for(a.dtype), (Not, a.__class__), (a,))
            if found is not None:
                return found
        if op is not None and a is op.a:
            return op  # type: ignore[no-any-return]
        return self._mark(Not(a, span=self.span), a)

    def make_select(self, condition: Any, true_value: Any, false_value: Any) -> Expr:
        """``Select``, simplified."""
        return self._ternary(None, condition, true_value, false_value)

    def _ternary(self, op: Any, condition: Any, true_value: Any, false_value: Any) -> Expr:
        if condition.__class__ is IntImm and not self._any_impure((true_value, false_value)):
            return true_value if condition.value else false_value
        if not self._any_impure((condition, true_value, false_value)):
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
            return op  # type: ignore[no-any-return]
        return self._mark(Select(condition, true_value, false_value, span=self.span), condition, true_value, false_value)

    def make_ramp(self, base: Any, stride: Any, lanes: Any, original: Expr | None = None) -> Expr:
        """``Ramp``, simplified."""
        if lanes.__class__ is int and lanes == 1:
            return base  # type: ignore[no-any-return]
        found = self._apply(_rules_for(base.dtype.with_lanes(2)), (Ramp, base.__class__, stride.__class__, int), (base, stride, lanes))
        if found is not None:
            return found
        return original if original is not None else Ramp(base, stride, lanes, span=self.span)

    def make_broadcast(self, value: Any, lanes: Any, original: Expr | None = None) -> Expr:
        """``Broadcast``, simplified."""
        if lanes == 1 and lanes.__class__ is int:
            return value  # type: ignore[no-any-return]
        return original if original is not None else self._mark(Broadcast(value, lanes, span=self.span), value)

    def make_call(self, name: str, args: tuple[Any, ...]) -> Expr:
        """A call, simplified."""
        return self._call(Op.get(name), args, None, None)

    def _call(self, op: Any, args: tuple[Any, ...], original: Expr | None, like: Any) -> Expr:
        if op is _LIKELY and args[0].__class__ is IntImm:
            return args[0]  # type: ignore[no-any-return]
        if op is _ITE and args[0].__class__ is IntImm:
            return args[1] if args[0].value else args[2]  # type: ignore[no-any-return]
        if isinstance(op, Op) and not (self.impure and self._any_impure(args)):
            folded = fold_call(op, args, like.dtype if like is not None else None)
            if folded is not None:
                return folded
            key = (op.name, *[a.__class__ for a in args])
            index = _rules_for(args[1].dtype if op is _ITE else args[0].dtype if args else ir.VOID)
            if op.name in index.by_root:
                found = self._apply(index, key, args)
                if found is not None:
                    return found
            if op is _LIKELY:
                known = self._analyzer.facts.literals.get(self._analyzer.keys.rep(args[0]))
                if known is not None:
                    return self.true if known else self.false
        if original is not None:
            if is_impure_call(original) or self._any_impure(args):
                self.impure.add(original)
            return original
        if like is not None:
            new: Expr = like.with_(args=args)
        else:
            new = Call(op, args, op.infer(args), span=self.span)
        if is_impure_call(new):
            self.impure.add(new)
            return new
        return self._mark(new, *args)

    def _cast(self, dtype: DataType, value: Any, op: Any) -> Expr:
        if value.dtype is dtype:
            return value  # type: ignore[no-any-return]
        if value.__class__ is IntImm or value.__class__ is FloatImm or value.__class__ is Broadcast:
            new = build.cast(dtype, value, span=self.span)
            if new.__class__ is not Cast:
                return new
        if value.__class__ is Cast and not self._any_impure((value,)):
            inner = value.value
            source, middle = inner.dtype, value.dtype
            # A middle type that holds every value of the source adds nothing.
            if source.is_integral and middle.is_integral and dtype.is_integral and _holds(middle, source):
                return self._cast(dtype, inner, None)
            if source.is_integral and middle.is_integral and dtype.is_integral and not dtype.is_bool:
                # Both truncate: only the low bits count.
                if not middle.is_bool and dtype.bits <= middle.bits:
                    return self._cast(dtype, inner, None)
        if value.__class__ is Ramp and dtype.is_integral and isinstance(value.lanes, int):
            low, high = self._analyzer.bounds.of(value)
            if dtype.min_value <= low and high <= dtype.max_value:
                element = dtype.element
                return self.make_ramp(
                    self._cast(element, value.base, None), self._cast(element, value.stride, None), value.lanes
                )
        if op is not None and op.value is value:
            return op  # type: ignore[no-any-return]
        return self._mark(Cast(dtype, value, span=self.span), value)

    def _any_impure(self, parts: tuple[Any, ...]) -> bool:
        return bool(self.impure) and any(part in self.impure for part in parts)

    def _mark(self, new: Expr, *parts: Any) -> Expr:
        if self.impure and any(part in self.impure for part in parts):
            self.impure.add(new)
        return new

    # -- scopes ------------------------------------------------------------------------------------------------------
    def is_choice(self, op: Any) -> bool:
        """Whether a node chooses between parts by a scalar condition, which is a fact in each of them."""
        if op.__class__ in _LOGICAL:
            return self.branch_facts and op.dtype is BOOL
        if op.__class__ is Select:
            return op.condition.__class__ is not IntImm and op.condition.dtype is BOOL
        return op.__class__ is Call and op.op is _ITE and op.args[0].__class__ is not IntImm

    def choice(self, op: Any, simplify: Callable[[Any], Expr]) -> Expr:
        """A select or if_then_else: each arm is simplified (by ``simplify``) under its condition."""
        if op.__class__ in _LOGICAL:
            return self._logical_choice(op, simplify)
        if op.__class__ is Select:
            condition, yes, no = op.condition, op.true_value, op.false_value
        else:
            condition, yes, no = op.args
        test: Any = simplify(condition)
        if test.__class__ is IntImm:
            return simplify(yes if test.value else no)
        yes_new = self._under(test, yes, simplify)
        no_new = self._under(self.make_not(test) if self._asks_facts(no) else None, no, simplify)
        if op.__class__ is Select:
            return self._ternary(op, test, yes_new, no_new)
        same = test is condition and yes_new is yes and no_new is no
        return self._call(_ITE, (test, yes_new, no_new), op if same else None, op)

    def _under(self, fact: Expr | None, expr: Any, simplify: Callable[[Any], Expr]) -> Expr:
        """An expression simplified where a fact holds; a scope is opened only if facts could tell."""
        if fact is None or not self._asks_facts(expr):
            return simplify(expr)
        self.scopes += 1
        try:
            with self._analyzer.constraint_scope(fact):
                return simplify(expr)
        finally:
            self.scopes -= 1

    def _asks_facts(self, root: Any) -> bool:
        """Whether an expression has a node that facts might simplify: sums and products alone have none."""
        if root.is_leaf:
            return False
        seen: set[Any] = set()
        stack = [root]
        while stack:
            op = stack.pop()
            if op in seen:
                continue
            seen.add(op)
            if op.__class__ not in _FACTLESS:
                return True
            stack += op.children()
        return False

    def _logical_choice(self, op: Any, simplify: Callable[[Any], Expr]) -> Expr:
        """And, or: each side is simplified knowing that the other one leaves the question open."""
        conjunction = op.__class__ is ir.And
        a: Any = simplify(op.a)
        b: Any = self._under(a if conjunction else self.make_not(a), op.b, simplify)
        a = self._under(b if conjunction else self.make_not(b), a, simplify)
        return self.binary(op.__class__, a, b, op if a is op.a and b is op.b else None)

    def _enter_let(self, op: Any) -> None:
        """A let whose value is simple is substituted; of another one the bounds are known in the body."""
        value = self.memo[op.value]
        if value.__class__ in _LEAVES:
            self.substitution[op.var] = value
            self.memo.pop(op.var, None)
            self._analyzer.bounds.memo.pop(op.var, None)
        elif op.var.dtype.is_integral:
            self._analyzer.facts.restrict(op.var, self._analyzer.bounds.of(value))

    def _let(self, op: Any) -> Expr:
        value, body = self.memo[op.value], self.memo[op.body]
        if value.__class__ in _LEAVES:
            return body
        if value is op.value and body is op.body:
            return op  # type: ignore[no-any-return]
        return self._mark(ir.Let(op.var, value, body, span=self.span), value, body)

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

    def _fold(self, kind: Any, a: Any, b: Any) -> Expr | None:
        if kind in _DIVISIONS and b.value == 0:
            return None
        value = _FOLD[kind](a.value, b.value)
        if kind in _ORDER:
            return self.true if value else self.false
        return IntImm(a.dtype, wrap_int(value, a.dtype) if not a.dtype.is_bool else int(bool(value)))

    def _fold_float(self, kind: Any, a: Any, b: Any) -> Expr | None:
        if a.__class__ is not FloatImm or b.__class__ is not FloatImm or a.dtype.is_custom:
            return None
        if kind in (ir.Min, ir.Max) and (a.value != a.value or b.value != b.value or a.value == b.value):
            return None
        if kind in (ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max):
            # float32 and narrower: the exact float64 sum or product of two rounds as the operation itself does.
            value = _FOLD[kind](a.value, b.value)  # type: ignore[arg-type]
        elif kind is ir.Div and b.value != 0:
            value = a.value / b.value
        else:
            return None
        return FloatImm(a.dtype, value)

    def _known(self, kind: Any, a: Any, b: Any) -> Expr | None:
        """A comparison that a fact in scope states, or that bounds decide in every lane."""
        facts = self._analyzer.facts
        if a.dtype.is_vector:
            return self._known_vector(kind, a, b)
        if facts.literals:
            keys = self._analyzer.keys
            rep = keys.table.get((kind, keys.rep(a), keys.rep(b)))
            known = facts.literals.get(rep) if rep is not None else None
            if known is not None:
                return self.true if known else self.false
        if a.__class__ is FloatImm and b.__class__ is FloatImm:
            return self.true if _FOLD[kind](a.value, b.value) else self.false  # type: ignore[arg-type]
        return None

    def _known_vector(self, kind: Any, a: Any, b: Any) -> Expr | None:
        if not a.dtype.is_int or a.dtype.bits not in (32, 64) or a.dtype.scalable:
            return None
        p, q = self._analyzer.bounds.of(a), self._analyzer.bounds.of(b)
        less, greater = p[1] < q[0], q[1] < p[0]
        at_most, at_least = p[1] <= q[0], q[1] <= p[0]
        yes, no = {
            ir.LT: (less, at_least),
            ir.LE: (at_most, greater),
            ir.GT: (greater, at_most),
            ir.GE: (at_least, less),
            ir.EQ: (at_most and at_least, less or greater),
            ir.NE: (less or greater, at_most and at_least),
        }[kind]
        if yes or no:
            return Broadcast(self.true if yes else self.false, a.dtype.lanes)
        return None

    def _logical(self, kind: Any, a: Any, b: Any) -> Expr | None:
        """And, or: a conjunct that a fact decides drops out, or decides the whole."""
        facts = self._analyzer.facts
        if facts.literals and kind in (ir.And, ir.Or):
            keys = self._analyzer.keys
            for part, other in ((a, b), (b, a)):
                known = facts.literals.get(keys.rep(part))
                if known is not None:
                    if kind is ir.And:
                        return other if known else self.false  # type: ignore[no-any-return]
                    return self.true if known else other  # type: ignore[no-any-return]
        return None

    # -- what the conditions of rules ask ----------------------------------------------------------------------------
    def integral(self, x: Expr) -> bool:
        """Whether a value is no float."""
        return x.dtype.is_integral

    def divides(self, c: int, x: Expr) -> bool:
        """Whether ``x`` is a multiple of ``c``."""
        found = self._analyzer.modular.of(x)
        return found.coeff % c == 0 and found.base % c == 0

    def in_block(self, x: Expr, stride: int, size: int, lanes: Any) -> bool:
        """Whether ``x + stride * lane`` has one quotient by ``size`` in all lanes."""
        if not isinstance(lanes, int):
            return False
        reach = stride * (lanes - 1)
        found = self._analyzer.modular.of(x)
        if found.coeff % size == 0:
            return 0 <= found.base % size + min(reach, 0) and found.base % size + max(reach, 0) < size
        low, high = self._analyzer.bounds.of(x)
        low, high = low + min(reach, 0), high + max(reach, 0)
        return math.isfinite(low) and math.isfinite(high) and low // size == high // size

    def same_lanes(self, a: Any, b: Any) -> bool:
        """Whether two numbers of lanes are equal."""
        if isinstance(a, int) or isinstance(b, int):
            return isinstance(a, int) and isinstance(b, int) and a == b
        return self.same(a, b)

    def bound_lt(self, x: Expr, c: int) -> bool:
        """``x < c`` from bounds."""
        return self._analyzer.bounds.of(x)[1] < c

    def bound_le(self, x: Expr, c: int) -> bool:
        """``x <= c`` from bounds."""
        return self._analyzer.bounds.of(x)[1] <= c

    def bound_gt(self, x: Expr, c: int) -> bool:
        """``x > c`` from bounds."""
        return self._analyzer.bounds.of(x)[0] > c

    def bound_ge(self, x: Expr, c: int) -> bool:
        """``x >= c`` from bounds."""
        return self._analyzer.bounds.of(x)[0] >= c

    def bound_ne(self, x: Expr, c: int) -> bool:
        """``x != c`` from bounds and modular sets."""
        low, high = self._analyzer.bounds.of(x)
        if c < low or c > high:
            return True
        found = self._analyzer.modular.of(x)
        return (c - found.base) % found.coeff != 0 if found.coeff else found.base != c

    def bound_eq(self, x: Expr, c: int) -> bool:
        """``x == c`` from bounds."""
        return self._analyzer.bounds.of(x) == (c, c)

    def prove_lt(self, x: Expr, y: Expr) -> bool:
        """``x < y``."""
        return self.difference(x, y)[1] < 0

    def prove_le(self, x: Expr, y: Expr) -> bool:
        """``x <= y``."""
        return self.difference(x, y)[1] <= 0

    def prove_gt(self, x: Expr, y: Expr) -> bool:
        """``x > y``."""
        return self.difference(x, y)[0] > 0

    def prove_ge(self, x: Expr, y: Expr) -> bool:
        """``x >= y``."""
        return self.difference(x, y)[0] >= 0

    def prove_eq(self, x: Expr, y: Expr) -> bool:
        """``x == y``."""
        return self.difference(x, y) == (0, 0)

    def prove_ne(self, x: Expr, y: Expr) -> bool:
        """``x != y``."""
        low, high = self.difference(x, y)
        if low > 0 or high < 0:
            return True
        p, q = self._analyzer.modular.of(x), self._analyzer.modular.of(y)
        shared = math.gcd(p.coeff, q.coeff)
        return shared > 1 and (p.base - q.base) % shared != 0

    def difference(self, x: Any, y: Any) -> tuple[num, num]:
        """Bounds of ``x - y``: from the bounds of both, from their affine forms and the facts, then from the rules."""
        bounds = self._analyzer.bounds
        p, q = bounds.of(x), bounds.of(y)
        low, high = p[0] - q[1], p[1] - q[0]
        if x.__class__ is IntImm or y.__class__ is IntImm:
            if not self._analyzer.facts.linear or x.__class__ is Var or y.__class__ is Var:
                return (low, high)
        if low > 0 or high < 0 or x.dtype.is_vector or not x.dtype.is_int:
            return (low, high)
        if not is_index_type(x.dtype):
            return (low, high)
        key = (x, y)
        found = self._differences.get(key)
        if found is not None:
            return found
        better = self._difference(x, y)
        result = (max(low, better[0]), min(high, better[1]))
        if self.proof_depth == 0:
            self._differences[key] = result
        return result

    def _difference(self, x: Any, y: Any) -> tuple[num, num]:
        analyzer = self._analyzer
        left, right = affine_of(analyzer.keys, x, 64), affine_of(analyzer.keys, y, 64)
        low: num = -INF
        high: num = INF
        if left is not None and right is not None:
            form = left - right
            depth = analyzer.proof_steps
            high = analyzer.facts.upper_bound(form, depth)
            low = -analyzer.facts.upper_bound(form.plus(form, -2), depth)
            if low > 0 or high < 0 or not form.terms:
                return (low, high)
        if self.proof_depth < MAX_PROOF_DEPTH and (x.__class__ in _DEEP or y.__class__ in _DEEP):
            # Rules see what the affine form does not: min and max, quotients and remainders.
            self.proof_depth += 1
            try:
                least, most = analyzer.bounds.of(self.binary(ir.Sub, x, y))
            finally:
                self.proof_depth -= 1
            low, high = max(low, least), min(high, most)
        return (low, high)

    def enter(self) -> Any:
        """Start a scope of more facts; returns what :meth:`leave` needs."""
        outer = (self.memo, self._differences)
        self.memo, self._differences = {}, {}
        return outer

    def leave(self, outer: Any) -> None:
        """Back to the facts before."""
        self.memo, self._differences = outer


_DEEP = frozenset((ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max, ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod))


def _holds(wide: DataType, narrow: DataType) -> bool:
    """Whether every value of one integer type is a value of another."""
    return bool(wide.min_value <= narrow.min_value and narrow.max_value <= wide.max_value)


_INT_CALLS: dict[str, Callable[[int, int, DataType], int | None]] = {
    "tir.bitwise_and": lambda a, b, t: a & b,
    "tir.bitwise_or": lambda a, b, t: a | b,
    "tir.bitwise_xor": lambda a, b, t: a ^ b,
    "tir.shift_left": lambda a, b, t: a << b if 0 <= b < t.bits else None,
    "tir.shift_right": lambda a, b, t: a >> b if 0 <= b < t.bits else None,
}
_FLOAT_CALLS: dict[str, Callable[[float], float]] = {
    "tir.floor": math.floor,
    "tir.ceil": math.ceil,
    "tir.trunc": math.trunc,
    "tir.fabs": abs,
}


def fold_call(op: Op, args: tuple[Any, ...], dtype: DataType | None) -> Expr | None:
    """A call of constants whose result is exact, or None."""
    if not args or args[0].__class__ not in (IntImm, FloatImm):
        return None
    first = args[0]
    if len(args) == 2 and first.__class__ is IntImm and args[1].__class__ is IntImm:
        whole = _INT_CALLS.get(op.name)
        value = whole(first.value, args[1].value, first.dtype) if whole is not None else None
        return None if value is None else IntImm(first.dtype, wrap_int(value, first.dtype) if not first.dtype.is_bool else value)
    if first.__class__ is IntImm:
        bits = first.dtype.bits
        pattern = first.value & ((1 << bits) - 1)
        if op.name == "tir.popcount":
            return IntImm(first.dtype, wrap_int(pattern.bit_count(), first.dtype))
        if op.name == "tir.clz" and dtype is not None:
            return IntImm(dtype, bits - pattern.bit_length())
        if op.name == "tir.bitwise_not" and not first.dtype.is_bool:
            return IntImm(first.dtype, wrap_int(~first.value, first.dtype))
        return None
    exact = _FLOAT_CALLS.get(op.name)
    if exact is None or not math.isfinite(first.value) or first.value == 0 or first.dtype.is_custom:
        return None
    rounded = exact(first.value)
    # -0.5 rounds up to -0.0, which an int cannot say.
    return FloatImm(first.dtype, math.copysign(float(rounded), first.value) if rounded == 0 else float(rounded))
