"""Arithmetic on data wraps; arithmetic on indices does not.

The analyzer takes ``int32`` and ``int64`` arithmetic not to overflow, as the language says of indices: loop
variables, sizes, and what is computed from them. Values that come from memory or from calls may be anything, and sums
of them wrap: ``A[i] * 4 // 2`` is not ``A[i] * 2``. Scalar parameters are such values too, where ``tir.scalar_overflow``
says so (:mod:`tirlower.rewrite.scalar_overflow`); where ``words`` are given so is index arithmetic past 64 bits
(:mod:`tirlower.analysis.word_reach`). :class:`Wrapping` tells the two apart. An operation on data is safe
for the analyzer where its operands are bounded well inside their type (half of its range leaves room for what a rule
may build of them); any other is *wrapping*, and so is every expression around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager

from tirlower.analysis.evaluated import conditions_of, evaluations
from tirlower.analysis.purity import side_effect
from tirlower.analysis.word_reach import WordReach
from tirlower.arith import Analyzer, ConstIntBound
from tirlower.arith.bounds import is_index_type
from tirlower.ir import build
from tirlower.ir.build import logical_not
from tirlower.ir.data import chosen_of, gives_data
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import (
    Add,
    And,
    BinaryOp,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Or,
    Ramp,
    Sub,
    Var,
    const,
    is_const_int,
)
from tirlower.ir.functor import fold, substitute
from tirlower.ir.node import Node
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each

__all__ = ["Wrapping", "leaves", "may_overflow"]

_RING = frozenset((Add, Sub, Mul))
_SUMS = frozenset((Add, Sub))
_EXTREMA = frozenset((Min, Max))
_ITE = Op.get("tir.if_then_else")
_DIVISIONS = frozenset((Div, Mod, FloorDiv, FloorMod))
_VALUES = frozenset((Var, IntImm, BufferLoad))
_SHIFT_LEFT = Op.get("tir.shift_left")
_RESULT_MAY_LEAVE = frozenset((Add, Sub, Mul, Div, FloorDiv, Ramp))
"""Operations whose exact result may be outside their type; of a quotient that of the least integer by -1."""


def leaves(bound: ConstIntBound, kind: DataType) -> bool:
    """Whether values within a bound may be outside a type. An infinite bound is the greatest int64."""
    low, high = bound.ends
    return low < kind.min_value or high > kind.max_value


def may_overflow(op: Expr) -> bool:
    """Whether a node is an operation whose exact result may be outside its type."""
    return _is_arithmetic(op) and is_index_type(op.dtype.element)


def _narrows(op: Cast) -> bool:
    """Whether a cast takes what a type holds of an index: all but those to signed types that are no narrower."""
    source, target = op.value.dtype, op.dtype
    return is_index_type(source.element) and not (target.is_int and target.bits >= source.bits)


def _is_arithmetic(op: Expr) -> bool:
    return op.__class__ in _RESULT_MAY_LEAVE or (op.__class__ is Call and op.op is _SHIFT_LEFT)


class Wrapping:
    """Finds the operations of an expression that may wrap; ``data`` are variables bound to values from memory.

    ``wrapping_bounds`` says that the analyzer's bounds of data are those of what wraps.
    """

    def __init__(self, analyzer: Analyzer, data: Iterable[Var] = (), *, wrapping_bounds: bool = False) -> None:
        self.analyzer = analyzer
        self.wrapping_bounds = wrapping_bounds
        self.data: set[Var] = set(data)
        self.inlined: dict[Var, Expr] = {}
        """What took the place of variables that are bound no longer."""
        self.atoms: dict[Expr, Var] = {}
        """A variable for each operand of sums that wrap."""
        self.invented: set[Var] = set()
        self.keeps_errors = False
        """Whether a division by data that may be zero is kept for its error."""
        self.words: WordReach | None = None
        """Finds index arithmetic past 64 bits, where that wraps."""
        self.reached: dict[Var, int] = {}
        """How far from 0 variables are that are bound to indices."""
        self.visited: list[dict[int, Expr]] = []
        """What :meth:`simplify` made of the nodes of the expression at hand, by identity, in each scope of facts."""

    def is_data(self, root: Expr) -> bool:
        """Whether a value is made of memory, of a call with effects, or of a variable bound to such a value. What a
        choice is made of is what it is between, whatever chooses."""
        stack: list[Node] = [root]
        seen: set[int] = set()
        while stack:
            op = stack.pop()
            if op.is_leaf:
                if self.is_data_node(op):
                    return True
            elif id(op) not in seen:
                seen.add(id(op))
                self.note_let(op)
                if self.is_data_node(op):
                    return True
                stack += chosen_of(op) or op.children()
        return False

    def note_let(self, op: Node) -> None:
        """A variable that an expression binds to data is data in it."""
        if op.__class__ is Let:
            self.note(op.var, op.value)

    def note(self, var: Var, value: Expr) -> None:
        """A variable that is bound to data is data, and one that is bound to an index is as far from 0 as that."""
        if self.is_data(value):
            self.data.add(var)
        elif self.words is not None and value.dtype.is_int:
            self.reached[var] = self.words.of(value)

    def past(self, root: Expr) -> set[int]:
        """The ids of the operations of an expression on indices that may leave 64 bits."""
        return {id(op) for op in self.words.leaving(root)} if self.words is not None else set()

    def wraps(self, root: Expr) -> bool:
        """Whether an expression holds a wrapping operation."""
        return id(root) in self._classify(root)[0]

    def may_fail(self, root: Expr) -> bool:
        """Whether an expression divides by data that may be zero: its error stays, whatever its value is for."""
        return self.keeps_errors and bool(self._failing(self._classify(root)[1]))

    def _failing(self, quotients: list[BinaryOp]) -> list[BinaryOp]:
        """The divisions whose divisor is not known to be other than zero."""
        prove = self.analyzer.can_prove
        return [op for op in quotients if not prove(build.ne(op.b, const(0, op.b.dtype)))]

    def overflows(self, root: Expr) -> bool:
        """Whether arithmetic on data inside an expression may leave its type: bounds of it mean nothing then, and it is
        no fact."""
        data: dict[int, bool] = {}
        stack: list[Expr] = [root]
        while stack:
            op = stack[-1]
            if id(op) in data:
                stack.pop()
                continue
            # What a load is at is another question.
            operands = () if op.is_leaf or op.__class__ is BufferLoad else tuple(op.children())
            waiting = [c for c in operands if id(c) not in data]
            if waiting:
                self.note_let(op)
                stack += waiting
                continue
            stack.pop()
            mine = data[id(op)] = self.is_data_node(op) or any(data[id(c)] for c in chosen_of(op) or operands)
            if mine and may_overflow(op) and leaves(self.analyzer.const_int_bound(op), op.dtype.element):
                return True
        return False

    def atom(self, expr: Expr) -> Var:
        """A variable for an expression of which nothing is known: the same for equal expressions."""
        rep = self.analyzer.interner.representative(expr)
        name = self.atoms.get(rep)
        if name is None:
            name = self.atoms[rep] = self.unknown(expr.dtype)
        return name

    def unknown(self, dtype: DataType) -> Var:
        """A new variable of which nothing is known: no program may come to hold it."""
        name = Var("atom", dtype)
        self.invented.add(name)
        return name

    def _classify(self, root: Expr) -> tuple[set[int], list[BinaryOp]]:
        """The ids of the wrapping nodes (operations and everything around them), and the divisions by data."""
        data: dict[int, bool] = {}
        wrapping = self.past(root)
        quotients: list[BinaryOp] = []
        stack: list[Expr] = [root]
        while stack:
            op = stack[-1]
            key = id(op)
            if key in data:
                stack.pop()
                continue
            if op.is_leaf:
                stack.pop()
                data[key] = self.is_data_node(op)
                continue
            operands = tuple(op.children())
            waiting = [c for c in operands if id(c) not in data]
            if waiting:
                self.note_let(op)
                stack += waiting
                continue
            stack.pop()
            data[key] = self.is_data_node(op) or any(data[id(c)] for c in chosen_of(op) or operands)
            if (wrapping and any(id(c) in wrapping for c in operands)) or self._wraps_here(op, data):
                wrapping.add(key)
            if op.__class__ in _DIVISIONS and (data[id(op.b)] or is_const_int(op.b, 0)) and op.dtype.is_integral:
                quotients.append(op)
        return wrapping, quotients

    def is_data_node(self, op: Node) -> bool:
        """Whether a node gives data, whatever its operands are."""
        return op in self.data if op.__class__ is Var else gives_data(op)

    def _wraps_here(self, op: Expr, data: dict[int, bool]) -> bool:
        if isinstance(op, (BinaryOp, CompareOp)):
            if op.a.dtype.is_vector and op.__class__ not in _RING and any(map(self._lanes_wrap, (op.a, op.b))):
                return True
            if not is_index_type(op.a.dtype):
                return not isinstance(op, CompareOp) and data[id(op)] and self._beside_data(op, data)
            if isinstance(op, CompareOp) and self._is_given(op.a) and self._is_given(op.b):
                return False  # what is given is compared, nothing is computed
            if any(data[id(x)] and not self._is_small(x) for x in (op.a, op.b, op)):
                return True
            return data[id(op)] and self._beside_data(op, data)
        if op.__class__ is Cast and not data[id(op.value)] and _narrows(op) and self._may_leave(op.value):
            return True  # a cast back would take the index for the number that it is
        return may_overflow(op) and data[id(op)] and not self._is_small(op)

    def _is_given(self, op: Expr) -> bool:
        """Whether a value is a number, a variable or a load, and not the name of what is computed."""
        return self.inlined.get(op, op).__class__ in _VALUES if op.__class__ is Var else op.__class__ in _VALUES

    def _lanes_wrap(self, root: Expr) -> bool:
        """Whether lanes hold arithmetic on data that may leave its type."""
        return any(may_overflow(op) and self.is_data(op) and not self._is_small(op) for op in each(Expr, root))

    def _beside_data(self, op: BinaryOp | CompareOp, data: Mapping[int, bool]) -> bool:
        """Whether an operand is an index that may leave its type: beside data it is what the type holds of it."""
        return any(not data[id(x)] and self._may_leave(x) for x in (op.a, op.b))

    def _may_leave(self, root: Expr) -> bool:
        """Whether arithmetic on indices, done exactly, may leave its type."""
        # A name that is bound no longer is what it was bound to, exactly.
        root = self.inlined.get(root, root) if root.__class__ is Var else root
        if root.is_leaf or not is_index_type(root.dtype.element) or self.is_data(root):
            return False
        bound, kind = self.analyzer.const_int_bound, root.dtype.element
        parts = (op for op in each(Expr, root) if op.dtype.element is kind and _is_arithmetic(op))
        return any(leaves(bound(op), kind) for op in parts)

    def _keeps_kind(self, op: Expr, new: Expr) -> bool:
        """Whether what became of an operation on data is the same number: it wraps, and so do indices beside data, also
        where the data cancels out and an index is left."""
        if new is op or not is_index_type(op.dtype.element) or not self.is_data(op):
            return True
        if op.__class__ not in _RING and any(self._may_leave(x) for x in chosen_of(op) or op.children()):
            return self.is_data(new) and new.__class__ is op.__class__
        return new.is_leaf or self.is_data(new) or not self._may_leave(new)

    def _is_small(self, expr: Expr) -> bool:
        """Whether a value is known to lie in the middle half of its type."""
        dtype = expr.dtype.element
        if not is_index_type(dtype):
            return True
        limit = 1 << (dtype.bits - 2)
        if isinstance(expr, Cast) and expr.value.dtype.is_integral and expr.value.dtype.bits < dtype.bits - 1:
            return True
        bound = self.analyzer.const_int_bound(expr)
        return -limit <= bound.min_value and bound.max_value <= limit

    def simplify(self, root: Expr, simplify: Callable[[Expr], Expr]) -> Expr:
        """``simplify`` applied to the largest parts of an expression that do not wrap.

        Of the rest, sums and products are simplified as the ring that they are however they wrap, each arm of a
        choice under its condition, and what becomes constant is folded.
        """
        # Most of what passes ask about is a name or a number.
        if root.is_leaf:
            return simplify(root)
        if self.words is None:
            return self._keeping(root, simplify, {})

        def within(part: Expr) -> Expr:
            """Rules are of numbers: ``i * -2 % m`` is ``i * (m - 2) % m``, which may leave 64 bits where it did not."""
            made = simplify(part)
            return self._as_written(part) if self.past(made) else made

        return self._keeping(root, within, {})

    def _keeping(self, root: Expr, simplify: Callable[[Expr], Expr], done: dict[int, Expr]) -> Expr:
        """Simplified, but for divisions by what may be zero that would be gone: the value may decide nothing, or be that
        of ``x // x``."""
        wrapping, quotients = self._classify(root)
        made = self._simplified(root, wrapping, simplify)
        if not quotients or made is root or self._keeps(root, made, self._failing(quotients), simplify):
            return made

        def inside(part: Expr) -> Expr:
            if id(part) not in done:
                done[id(part)] = self._keeping(part, simplify, done)
            return done[id(part)]

        kept: Expr = root.map_children(inside)
        if kept.__class__ is Call and kept.op is _ITE:
            return _chosen(kept)
        decided = kept.__class__ in (And, Or) and kept.a.__class__ is IntImm
        return fold(kept) if decided else kept

    def _keeps(self, root: Expr, made: Expr, failing: list[BinaryOp], simplify: Callable[[Expr], Expr]) -> bool:
        """Whether what became of an expression divides by all that it divided by and that may be zero, and where it did."""
        if not failing:
            return True
        rep = self.analyzer.interner.representative
        wanted = {id(op) for op in failing}
        before = evaluations(root, lambda op: id(op) if id(op) in wanted else None, rep)
        after = evaluations(made, lambda op: rep(op.b) if op.__class__ in _DIVISIONS else None, rep)
        for op in failing:
            places = after.get(rep(op.b), set()) | after.get(rep(simplify(op.b)), set())
            for here in before[id(op)]:
                known = here.union(*(conditions_of(simplify(part), holds, rep) for holds, part in here))
                if not any(place <= known for place in places):
                    return False
        return True

    def _simplified(self, root: Expr, wrapping: set[int], simplify: Callable[[Expr], Expr]) -> Expr:
        if id(root) not in wrapping:
            return simplify(root)

        def visit(op: Expr) -> Expr:
            if id(op) not in wrapping:
                return simplify(op)
            # Operands that several operations share (lowered divisions have two) are visited once under the same facts.
            done = self.visited[-1]
            found = done.get(id(op))
            if found is None:
                found = inside(op)
                done[id(op)] = found = found if self._keeps_kind(op, found) else self._as_written(op)
            return found

        def inside(op: Expr) -> Expr:
            if _is_arithmetic(op) and not (op.dtype.bits == 64 and op.__class__ in _RING) and not self.is_data(op):
                return op.map_children(visit)  # an index: it wraps past 64 bits, whatever its type
            if op.__class__ in _RING:
                return self._ring(op, wrapping, visit, simplify)
            if op.__class__ is Call and op.op is _ITE:
                return self._choice(op, visit)
            new = op.map_children(visit)
            if new.__class__ in _EXTREMA:
                new = self._decided(new)
            return fold(new) if new is not op else op

        self.visited.append({})
        try:
            return visit(root)
        finally:
            self.visited.pop()

    def _as_written(self, op: Expr) -> Expr:
        """An operation that is not to change, but for names that are bound no longer."""
        return substitute(op, self.inlined) if self.inlined else op

    def _decided(self, op: BinaryOp) -> Expr:
        """A minimum or maximum, or the operand that it is: what wraps may be bounded all the same, a remainder is."""
        if not (is_index_type(op.dtype) and op.dtype.is_scalar):
            return op
        if not self.wrapping_bounds and self.overflows(op):
            return op  # any other analyzer bounds sums of data as if they did not wrap
        least_a, most_a = self.analyzer.const_int_bound(op.a).ends
        least_b, most_b = self.analyzer.const_int_bound(op.b).ends
        if most_a > least_b and most_b > least_a:
            return op
        chosen, other = (op.a, op.b) if (most_a <= least_b) is (op.__class__ is Min) else (op.b, op.a)
        return chosen if side_effect(other) <= Purity.READS else op

    @contextmanager
    def _scope(self, fact: Expr) -> Iterator[None]:
        """A fact holds, and what was visited without it is visited again."""
        self.visited.append({})
        try:
            with self.analyzer.constraint_scope(fact):
                yield
        finally:
            self.visited.pop()

    def _choice(self, op: Call, visit: Callable[[Expr], Expr]) -> Expr:
        """An if_then_else, each arm under the condition: a fact where it does not depend on memory."""
        test = visit(op.args[0])
        if test.__class__ is IntImm or side_effect(test) is not Purity.PURE or self.wraps(test):
            return _chosen(op.map_children(lambda c: test if c is op.args[0] else visit(c)))
        with self._scope(test):
            yes = visit(op.args[1])
        with self._scope(logical_not(test)):
            self.analyzer.facts.deny(test)
            no = visit(op.args[2])
        same = test is op.args[0] and yes is op.args[1] and no is op.args[2]
        return op if same else op.with_(args=(test, yes, no))

    def _ring(
        self, root: Expr, wrapping: set[int], visit: Callable[[Expr], Expr], simplify: Callable[[Expr], Expr]
    ) -> Expr:
        """A sum or product that wraps. Its identities hold modulo ``2**bits``, with anything in place of its operands:
        they are simplified, then stand as variables of which nothing is known.
        """
        interner = self.analyzer.interner
        rebuilt: dict[int, Expr] = {}
        plain: dict[int, Expr] = {}
        values: dict[Var, Expr] = {}
        # Without two constants, an operand met twice or a sum on the right of another one there is nothing to do.
        constants = 0
        worthwhile = False
        used: set[int] = set()
        stack: list[Expr] = [root]
        while stack:
            op = stack[-1]
            if id(op) in plain:
                stack.pop()
                continue
            if op.__class__ in _RING and (op is root or id(op) in wrapping):
                waiting = [c for c in (op.a, op.b) if id(c) not in plain]
                if waiting:
                    stack += reversed(waiting)
                    continue
                stack.pop()
                worthwhile = (
                    worthwhile
                    or op.a.__class__ is IntImm
                    or (op.b.__class__ in _SUMS and op.__class__ in _SUMS)
                    or not used.isdisjoint((id(op.a), id(op.b)))
                    or op.a is op.b
                )
                used.update(id(c) for c in (op.a, op.b) if c.__class__ is not IntImm)
                a, b = rebuilt[id(op.a)], rebuilt[id(op.b)]
                rebuilt[id(op)] = op if a is op.a and b is op.b else fold(op.with_(a=a, b=b))
                plain[id(op)] = op.with_(a=plain[id(op.a)], b=plain[id(op.b)])
                continue
            stack.pop()
            made = rebuilt[id(op)] = visit(op)
            if made.__class__ is IntImm:
                plain[id(op)] = made
                constants += 1
                continue
            name = self.atom(made)
            worthwhile = worthwhile or name in values
            values.setdefault(name, made)
            plain[id(op)] = name
        result, start = rebuilt[id(root)], plain[id(root)]
        if not (worthwhile or constants > 1) or any(side_effect(value) > Purity.READS for value in values.values()):
            return result
        found = simplify(start)
        if found is start or interner.same(found, start):
            return result
        return substitute(found, values)


def _chosen(op: Call) -> Expr:
    """An if_then_else whose condition is constant is the arm chosen."""
    test = op.args[0]
    return op if test.__class__ is not IntImm else op.args[1] if test.value else op.args[2]
