"""What is known of the contents of buffers: from assumptions, and from stores.

A :class:`Fact` says that for all values of its parameters (the variables of loops that have ended) that satisfy its
condition, an element of a buffer has a value. Facts are learned walking forward, generalised where a loop ends, put
under the condition where a branch ends, and forgotten where something may write to the buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace

from tirlower.analysis.aliasing import Aliases, same_place
from tirlower.analysis.buffer_facts import (
    Effects,
    Fact,
    alternatives,
    defined,
    has_stray_effects,
    is_pure,
    stated,
    stores_to,
)
from tirlower.analysis.element_facts import guessed, is_apart, reached, vector_fact
from tirlower.analysis.overflow import Wrapping
from tirlower.arith import Analyzer
from tirlower.arith.conditions import conjuncts, negated
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.expr import (
    BufferLoad,
    Call,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    Mod,
    Var,
    const,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, substitute
from tirlower.ir.node import Node
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each, is_small, mentions, nodes
from tirlower.ir.stmt import (
    BufferStore,
    For,
)
from tirlower.ir.structural import structural_equal

__all__ = ["KnownValues", "evaluable", "in_bounds"]

MAX_FACTS = 64
"""Facts kept at once; older ones go first."""
MAX_COMPARED = 8
"""The latest facts, with whose elements those of stores are compared."""
MAX_NODES = 64
"""Distinct nodes of a fact: the value of a chain of stores, each using the one before, would grow without end."""

_ASSUME = Op.get("tir.assume")
_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)


class KnownValues:
    """The facts at a point. ``dataflow=False`` learns from assumptions in the same iteration only."""

    def __init__(self, func: PrimFunc, analyzer: Analyzer, wrapping: Wrapping, dataflow: bool) -> None:
        self.analyzer = analyzer
        self.wrapping = wrapping
        self.dataflow = dataflow
        self.aliases = Aliases(func)
        self.lanes: list[Var] = []
        self.facts: list[Fact] = []
        # Effects in the midst of expressions are not followed: with them nothing is known.
        self.learns = not has_stray_effects(func.body)

    # Learning

    def assume(self, condition: Expr) -> None:
        """``T.assume``: each conjunct may state a value, some of its alternatives being the condition."""
        for part in conjuncts(condition):
            terms = alternatives(part)
            loads = [term for term in terms if not is_pure(term)]
            found = stated(loads[0]) if len(loads) == 1 else None
            if found is not None:
                others = [negated(term) for term in terms if term is not loads[0]]
                self._learn(Fact(found[0].buffer, found[0].indices, found[1], build.all_of(*others)))

    def store(self, op: BufferStore) -> None:
        """A store: what it wrote is known, if it depends on no memory."""
        data = op.buffer.data
        partly = None
        if self.dataflow and self.facts and op.predicate is None and not is_pure(op.value):
            partly = self._partly(op.value)
        apart = [f for f in self.facts[-MAX_COMPARED:] if f.buffer.data is data and self._apart(f, op)]
        self.facts = [
            f for f in self.facts if not self.aliases.may_alias(f.buffer.data, data) or any(f is a for a in apart)
        ]
        # Lanes in step: the last one's value stands in a place that they share.
        shared = any(all(self._offset(index, lane) is None for index in op.indices) for lane in self.lanes)
        if self.dataflow and op.predicate is None and is_pure(op.value) and not shared:
            lanes = vector_fact(op, self.analyzer) if op.value.dtype.is_vector and not self.lanes else None
            self._learn(lanes or Fact(op.buffer, op.indices, op.value, const(True, "bool"), stored=True))
        elif partly is not None and not shared:
            self._learn(Fact(op.buffer, op.indices, *partly, stored=True))

    def _partly(self, value: Expr) -> tuple[Expr, Expr] | None:
        """What a value that reads memory is where a condition holds, and that condition: the elements that are known
        only under it put in for their loads."""
        found: dict[Expr, Expr] = {}
        conditions: list[Expr] = []
        for load in each(BufferLoad, value):
            known = self._found(load, partly=True)
            if known is not None:
                found[load] = known[0]
                conditions.append(known[1])
        if not found:
            return None
        made = self.simplified(_Given(found).visit_expr(value))
        return (made, build.all_of(*conditions)) if is_pure(made) else None

    def kept(
        self,
        fact: Fact,
        places: list[BufferStore],
        path: Callable[[BufferStore], ExitStack | None],
        loops: Mapping[Var, Range],
    ) -> Expr | None:
        """Where all stores to the elements of a fact put their values there again: the condition under which they do.

        ``path`` enters the loops and conditions around a store and adds the loops to ``loops``; None where it cannot.
        The condition mentions their variables, and the parameter of the fact.
        """
        conditions: list[Expr] = []
        for place in places:
            scopes = path(place) if fact.buffer is place.buffer and place.predicate is None else None
            if scopes is None:
                return None
            with scopes:
                # The element stored to is one of the fact's: which one, and what it was before.
                had = self._applied(fact, BufferLoad(place.buffer, place.indices))
                if had is None:
                    return None
                before, self.facts = self.facts, [*self.facts, fact]
                stored = (place.value, const(True, "bool")) if is_pure(place.value) else self._partly(place.value)
                self.facts = before
                if stored is None or not self.equal(stored[0], had[0]):
                    return None
                conditions.append(substitute(stored[1], reached(fact, place, loops, self.analyzer)))
        return build.all_of(*conditions)

    def _apart(self, fact: Fact, op: BufferStore) -> bool:
        """Whether a store certainly leaves the elements of a fact alone, in this lane and in others."""
        if fact.buffer is not op.buffer or self.lanes or fact.params:
            return False
        return any(
            a.dtype is b.dtype and a.dtype.is_scalar and self.analyzer.can_prove(build.ne(a, b))
            for a, b in zip(fact.indices, op.indices, strict=True)
        )

    def _learn(self, fact: Fact) -> None:
        scalar = all(index.dtype.is_scalar and index.dtype.is_int for index in fact.indices)
        if (
            self.learns
            and scalar
            and fact.value.dtype is fact.buffer.dtype
            and is_small(MAX_NODES, *fact.parts())
            and all(is_pure(part) for part in fact.parts())
        ):
            self.facts = [*self.facts, fact][-MAX_FACTS:]

    def forget(self, written: set[Var], anything: bool = False) -> None:
        """Something may write to these data variables (or to everything)."""
        if anything:
            self.facts = []
        elif written:
            self.facts = [f for f in self.facts if not any(self.aliases.may_alias(f.buffer.data, d) for d in written)]

    def overwrite(self, stmt: Node) -> None:
        """Forget what a statement may write, anywhere inside it."""
        effects = Effects()
        effects.visit(stmt)
        self.forget(effects.written, effects.anything)

    def enter_loop(self, op: For) -> list[Fact]:
        """At the start of each iteration: what holds there of memory that the loop does not write, and of the elements
        that it writes, those of this iteration alone. Returns the facts that last beyond the loop."""
        effects = Effects()
        effects.visit(op.body)
        facts = self.facts
        self.forget(effects.written, effects.anything)
        lasting = self.facts
        if effects.anything or not self.dataflow:
            return lasting
        own: list[Fact] = []
        for data in effects.written:
            touched = [f for f in facts[-MAX_COMPARED:] if f.buffer.data is data]
            place = self._own_place(op, data, effects.written) if touched else None
            if place is not None:
                at, offset, buffer = place
                for fact in touched:
                    if fact.buffer is not buffer:
                        continue  # of another view: its elements are elsewhere
                    here = build.eq(fact.indices[at], build.add(op.loop_var, offset))
                    own.append(replace(fact, condition=build.logical_and(here, fact.condition)))
        self.facts = [*lasting, *own]
        return lasting

    def _own_place(self, op: For, data: Var, written: set[Var]) -> tuple[int, Expr, Buffer] | None:
        """The dimension, and the offset from the loop's variable, in which each iteration of a loop has a place of its
        own, and the buffer of which: all that it writes of a data variable is there."""
        places = stores_to(op.body, data)
        if not places or self._others(written, data) or any(p.buffer is not places[0].buffer for p in places):
            return None
        inside = defined(op.body)
        for at, index in enumerate(places[0].indices):
            offset = self._offset(index, op.loop_var) if index.dtype.is_scalar else None
            if offset is None or not is_pure(offset) or mentions(offset, inside):
                continue
            if all(p.indices[at] is index or structural_equal(p.indices[at], index) for p in places):
                return at, offset, places[0].buffer
        return None

    def leave_loop(self, op: For, before: list[Fact]) -> None:
        """After a loop: what each iteration stated holds for all of them, unless a later one wrote it again."""
        learned = [fact for fact in self.facts if not any(fact is old for old in before)]
        self.facts = [fact for fact in self.facts if any(fact is old for old in before)]
        if not self.dataflow:
            return
        effects = Effects()
        effects.visit(op.body)
        runs = self.analyzer.can_prove_greater_equal(op.extent, 1)
        var = op.loop_var
        bounded = is_pure(op.min) and is_pure(op.extent)
        for fact in learned:
            ranges = [end for _, low, n in fact.params for end in (low, n)]
            varies = any(mentions(part, (var,)) for part in (*fact.parts(), *ranges))
            again = effects.anything or any(self.aliases.may_alias(fact.buffer.data, data) for data in effects.written)
            if fact.stored and again:
                # Safe if each iteration writes one element of its own, however often.
                places = stores_to(op.body, fact.buffer.data)
                one = all(same_place(places[0], place) for place in places)
                only = one and not effects.anything and not self._others(effects.written, fact.buffer.data)
                others = {param for param, _, _ in fact.params}
                offsets = [self._offset(index, var) for index in fact.indices]
                # Its place in one dimension is its own, whatever the loops inside it.
                moving = any(offset is not None and not mentions(offset, others) for offset in offsets) or any(
                    is_apart(index, var, fact, self.analyzer) for index in fact.indices
                )
                if not only or (varies and not moving):
                    continue
            elif again:
                continue
            if not varies:
                if runs:
                    self.facts.append(fact)
            elif bounded:
                self.facts.append(replace(fact, params=(*fact.params, (var, op.min, op.extent))))
        self.facts = self.facts[-MAX_FACTS:]

    def _others(self, written: set[Var], data: Var) -> bool:
        return any(other is not data and self.aliases.may_alias(data, other) for other in written)

    def leave_scope(self, values: dict[Var, Expr]) -> None:
        """Where bindings end: their values stand for their variables, if they depend on no memory."""
        kept: list[Fact] = []
        for fact in self.facts:
            used = [var for var in reversed(values) if any(mentions(part, (var,)) for part in fact.parts())]
            while used and all(is_pure(values[var]) for var in used):
                fact = fact.substituted({var: values[var] for var in used})
                used = [var for var in values if any(mentions(part, (var,)) for part in fact.parts())]
            if not used and not any(mentions(e, values) for _, low, n in fact.params for e in (low, n)):
                kept.append(fact)
        self.facts = kept

    def under(self, condition: Expr, facts: list[Fact]) -> list[Fact]:
        """Facts of a branch, after it: they hold where its condition does."""
        if not is_pure(condition):
            return []
        return [replace(f, condition=build.logical_and(condition, f.condition)) for f in facts]

    # Asking

    def value(self, load: BufferLoad) -> Expr | None:
        """The value that an element certainly has here."""
        found = self._found(load, partly=False)
        return None if found is None else found[0]

    def _found(self, load: BufferLoad, partly: bool) -> tuple[Expr, Expr] | None:
        """The value of an element, and the condition under which it has it: one that holds here, or (``partly``) any."""
        if load.predicate is not None or not load.dtype.is_scalar:
            return None
        for fact in reversed(self.facts):
            if fact.buffer is load.buffer:
                found = self._applied(fact, load)
                if found is not None and (partly or self._prove(found[1])):
                    return found
        return None

    def _applied(self, fact: Fact, load: BufferLoad) -> tuple[Expr, Expr] | None:
        bound: dict[Var, Expr] = {}
        params = {var for var, _, _ in fact.params}
        for index, asked in zip(fact.indices, load.indices, strict=True):
            free = [var for var in params if mentions(index, (var,)) and var not in bound]
            if len(free) == 1:
                offset = self._offset(index, free[0])
                if offset is not None and not mentions(offset, params):
                    bound[free[0]] = build.sub(asked, offset)
        if len(bound) < len(params):
            bound = guessed(fact, load.indices, self.analyzer)
        ranges = [end for _, low, n in fact.params for end in (low, n)]
        if any(var not in bound for var in params if any(mentions(part, (var,)) for part in (*fact.parts(), *ranges))):
            return None
        prove = self._prove
        for var, low, extent in fact.params:
            if var in bound:
                at = bound[var]
                low, extent = substitute(low, bound), substitute(extent, bound)
                if not (prove(build.ge(at, low)) and prove(build.lt(at, build.add(low, extent)))):
                    return None
        for index, asked in zip(fact.indices, load.indices, strict=True):
            if not self.analyzer.can_prove_equal(substitute(index, bound), asked):
                return None
        return substitute(fact.value, bound), substitute(fact.condition, bound)

    def _prove(self, condition: Expr) -> bool:
        return not self.wrapping.wraps(condition) and self.analyzer.can_prove(condition)

    def _offset(self, index: Expr, var: Var) -> Expr | None:
        """``index - var`` where that does not use the variable."""
        rest = self.analyzer.simplify(build.sub(index, var)) if index.dtype is var.dtype else None
        return None if rest is None or mentions(rest, (var,)) else rest

    def replaced(self, expr: Expr) -> Expr:
        """An expression with the known elements in the place of their loads, simplified."""
        if not self.facts:
            return self.simplified(expr)
        made: Expr = _Replacer(self).visit_expr(expr)
        return self.simplified(made)

    def simplified(self, expr: Expr) -> Expr:
        """An expression simplified, arithmetic on data taken to wrap."""
        return self.wrapping.simplify(expr, self.analyzer.simplify)

    def equal(self, a: Expr, b: Expr) -> bool:
        """Whether two values are certainly the same."""
        if a is b or structural_equal(a, b):
            return True
        if a.dtype is not b.dtype or self.wrapping.wraps(a) or self.wrapping.wraps(b):
            return False
        return self.analyzer.can_prove_equal(a, b)


class _Replacer(Mutator):
    folds = True

    def __init__(self, known: KnownValues) -> None:
        self.known = known

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        value = self.known.value(op)
        return op if value is None else value


class _Given(Mutator):
    """Puts values in for loads."""

    folds = True

    def __init__(self, values: dict[Expr, Expr]) -> None:
        self.values = values

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        return self.values.get(op, op)


def evaluable(known: KnownValues, *roots: Expr) -> bool:
    """Whether expressions can certainly be evaluated here: loads stay in their buffers and find something there, no
    divisor is zero, nothing is called that is not pure. The arms of an ``if_then_else`` count as evaluated."""
    analyzer = known.analyzer

    def loads(op: BufferLoad) -> bool:
        # Memory of the function's own may not have been written yet.
        written = op.buffer.data not in known.aliases.local or known.value(op) is not None
        return op.predicate is None and written and in_bounds(analyzer, op)

    def fine(op: Node) -> bool:
        if isinstance(op, BufferLoad):
            return loads(op)
        if isinstance(op, Call):
            return isinstance(op.op, Op) and op.op.purity <= Purity.PURE
        if isinstance(op, _DIVISIONS) and op.dtype.is_integral:
            bound = analyzer.const_int_bound(op.b)
            return not bound.min_value <= 0 <= bound.max_value
        return True

    return all(map(fine, nodes(*roots)))


def in_bounds(analyzer: Analyzer, access: BufferLoad | BufferStore) -> bool:
    """Whether every index of an access is certainly inside the buffer's extent."""
    for index, extent in zip(access.indices, access.buffer.shape, strict=True):
        if not index.dtype.is_scalar:
            return False
        low, high = build.ge(index, const(0, index.dtype)), build.lt(index, extent)
        if not (analyzer.can_prove(low) and analyzer.can_prove(high)):
            return False
    return True
