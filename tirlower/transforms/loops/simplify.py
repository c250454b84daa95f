"""Simplify: the analyzer over statements, with what loops, conditions and asserts say in scope."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from tirlower.analysis.aliasing import same_place
from tirlower.analysis.purity import side_effect
from tirlower.arith import Extension
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Call, Expr, FloatImm, IntImm, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Substituter, Visitor, substitute
from tirlower.ir.node import Node, Role
from tirlower.ir.op import Purity
from tirlower.ir.query import each, is_small
from tirlower.ir.splice import DECLARATIONS, as_scope
from tirlower.ir.stmt import AllocBuffer, Bind, Block, BufferStore, DeclBuffer, Evaluate, IfThenElse, Seq, Stmt, seq
from tirlower.rewrite.base import Fact, FuncPass
from tirlower.rewrite.buffer_contents import KnownValues
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator, stated_fact, without_likely
from tirlower.rewrite.known_mutator import KnownMutator
from tirlower.rewrite.scalar_overflow import scalars_wrap

__all__ = ["Simplify"]

INLINE_LIMIT = 200
"""Distinct nodes of a binding's value that may take the place of its variable: a chain of bindings, each using the one
before, would otherwise be simplified once for every member."""


class _UsedInDefinitions(Visitor):
    """Variables that a buffer's declaration (``layouts``), an attribute or an annotation (``found``) names.

    Their bindings must stay; those of layouts only where no constant or other variable takes their place.
    """

    def __init__(self) -> None:
        self.found: set[Var] = set()
        self.layouts: set[Var] = set()
        self.seen: set[Buffer] = set()

    def _add(self, value: object) -> None:
        if isinstance(value, Buffer):
            self.visit_buffer(value)
        elif isinstance(value, Node):
            self.found.update(each(Var, value))
        elif isinstance(value, Mapping):
            for item in value.values():
                self._add(item)
        elif isinstance(value, tuple):
            for item in value:
                self._add(item)

    def visit_buffer(self, buffer: Buffer) -> None:
        """A use of a buffer: an undeclared view is defined there."""
        if buffer not in self.seen:
            self.seen.add(buffer)
            self.layouts.update(each(Var, *buffer.children()))

    def generic(self, op: Node) -> None:
        """Annotations and attributes are no children."""
        for field in op.fields:
            if field.role is Role.ATTRS:
                self._add(getattr(op, field.name))
        super().generic(op)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        self.visit_buffer(op.buffer)
        self.generic(op)

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        self.visit_buffer(op.buffer)

    def visit_Block(self, op: Block) -> None:
        for match in op.match_buffers:
            self.visit_buffer(match.buffer)
        self.generic(op)

    def visit_Call(self, op: Call) -> None:
        self._add(op.annotations)

    def visit_expr(self, root: Expr) -> None:
        if not root.is_leaf or isinstance(root, BufferLoad):
            super().visit_expr(root)


class _Simplifier(FactMutator):
    def __init__(self, func: PrimFunc, used: _UsedInDefinitions, extensions: Extension) -> None:
        super().__init__(func)
        self.analyzer.enabled_extensions = extensions
        self.used = used
        self.aliases = Substituter({})
        """What takes the place of variables in the layouts of buffers."""
        self.bound: dict[Var, Expr] = {}
        """The values of bindings that stay and compute only."""
        self.constants: dict[Var, Expr] = {}
        """Those of bindings to numbers, which wrap where they are added."""
        self.predicates: list[Expr] = []
        """Those of the blocks around."""

    def visit_expr(self, root: Expr) -> Expr:
        if root.is_leaf and (root.__class__ is not Var or root.dtype.is_handle):
            return self.aliases.vmap.get(root, root) if isinstance(root, Var) else root
        if self.constants:
            root = substitute(root, self.constants)
        made = self.wrapping.simplify(root, self._simplify)
        return self.aliases.visit(made) if self.aliases.vmap else made

    def map_buffer(self, buffer: Buffer) -> Buffer:
        """The buffer, with variables that only name others replaced in its layout."""
        return self.aliases.map_buffer(buffer) if self.aliases.vmap else buffer

    def _simplify(self, root: Expr) -> Expr:
        return self.analyzer.simplify(root)

    def visit_Seq(self, op: Seq) -> Stmt:
        done: list[Stmt] = []
        with ExitStack() as facts:
            for stmt in op.stmts:
                if isinstance(stmt, Bind):
                    new = self._bind(stmt)
                    if new is None:
                        continue
                else:
                    new = self.visit(stmt)
                    if not isinstance(stmt, DECLARATIONS):
                        new = as_scope(new)
                done.append(new)
                fact = stated_fact(new)
                if fact is not None:
                    facts.enter_context(self.holding(fact))
        if done and len(done) == len(op.stmts) and all(a is b for a, b in zip(done, op.stmts, strict=True)):
            return op
        return as_scope(seq(*done))

    def _bind(self, op: Bind) -> Stmt | None:
        """A binding with its value simplified; None where the value takes the variable's place."""
        value = self.visit(op.value)
        if self.wrapping.is_data(op.value) and not self.wrapping.is_data(value):
            # As an index it would be exact where what it is added to wraps.
            kept = self.aliases.visit(substitute(op.value, self.wrapping.inlined))
            value = kept if self.wrapping.is_data(kept) else value
        elif op.var in self.used.layouts and op.var not in self.used.found and self._renames(op.var, value):
            self.aliases.vmap[op.var] = value
            if not value.dtype.is_handle:
                self.analyzer.bind(op.var, value, allow_override=True)
            return None
        if self._inlines(value) and not (self.wrapping.wraps(value) or self.wrapping.may_fail(value)):
            self.analyzer.bind(op.var, value, allow_override=True)
            self.wrapping.inlined[op.var] = value
            if isinstance(value, IntImm) and scalars_wrap():
                self.constants[op.var] = value
            if op.var not in self.used.found and op.var not in self.used.layouts:
                return None
        elif op.var.dtype.is_bool and op.var.dtype.is_scalar and side_effect(value) is Purity.PURE:
            self.bound[op.var] = value
        made = op.with_(value=value)
        self.note_binding(made)
        return made

    @staticmethod
    def _renames(var: Var, value: Expr) -> bool:
        """Whether a value, in the layout of a buffer, is as good as the variable: a constant or another variable."""
        return isinstance(value, IntImm) or (isinstance(value, Var) and value.type == var.type)

    @staticmethod
    def _inlines(value: Expr) -> bool:
        """Constants, variables, and integers computed without reading memory."""
        if value.dtype.is_handle or value.dtype.is_vector:
            return False
        if isinstance(value, (IntImm, FloatImm, Var)):
            return True
        return value.dtype.is_int and is_small(INLINE_LIMIT, value) and side_effect(value) is Purity.PURE

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        condition = self._condition(op.condition)
        known = without_likely(condition)
        if isinstance(known, IntImm):
            if known.value:
                return as_scope(self.visit(op.then_case))
            return as_scope(self.visit(op.else_case)) if op.else_case is not None else seq()
        return self.branches(op, condition)

    def _condition(self, condition: Expr) -> Expr:
        """A branch's condition, decided where the predicates of blocks and the values of bindings decide it."""
        made: Expr = self.visit(condition)
        if isinstance(without_likely(made), IntImm):
            return made
        if self.predicates:
            with ExitStack() as facts:
                for predicate in self.predicates:
                    facts.enter_context(self.holding(predicate))
                found = self.visit(made)
            if isinstance(without_likely(found), IntImm):
                return without_likely(found)
        if self.bound and any(var in self.bound for var in _variables(made)):
            found = self.visit(substitute(without_likely(made), self.bound))
            if isinstance(found, IntImm) and not self.wrapping.may_fail(made):
                return found
        return made

    def visit_Block(self, op: Block) -> Stmt:
        # A predicate decides conditions inside; expressions keep the form that they have without it.
        predicate = self.visit(op.predicate)
        with self.analyzer.constraint_scope(const(True, "bool")):
            for it in op.iters:
                self.analyzer.bind(it.var, it.domain, allow_override=True)
            self.predicates.append(predicate)
            rest = self.generic(op.with_(predicate=const(True, "bool")))
            self.predicates.pop()
        parts = {name: getattr(rest, name) for name in op.child_names if name != "predicate"}
        return op.with_(predicate=predicate, **parts)

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        op = self.generic(op)
        if not isinstance(op.value, BufferLoad) or any(map(self.wrapping.may_fail, op.indices)):
            return op
        return seq() if same_place(op, op.value) else op

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        # The operands of a call for its effects are simplified, the call itself stays.
        value = op.value
        if isinstance(value, Call) and side_effect(value) > Purity.READS:
            return op.with_(value=value.map_children(self.visit))
        return op.with_(value=self.visit(value))


class _Propagator(KnownMutator, _Simplifier):
    """Simplifies with the contents of buffers that stores and assumptions state.

    ``values`` puts them in for loads; without it they decide conditions of branches only.
    """

    def __init__(
        self, func: PrimFunc, used: _UsedInDefinitions, extensions: Extension, conditions: bool, values: bool
    ) -> None:
        _Simplifier.__init__(self, func, used, extensions)
        self.known = KnownValues(func, self.analyzer, self.wrapping, dataflow=True)
        self.conditions = conditions
        self.values = values

    def visit_expr(self, root: Expr) -> Expr:
        made = _Simplifier.visit_expr(self, root)
        return self.known.replaced(made) if self.values else made

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        if self.conditions:
            found = without_likely(self.known.replaced(without_likely(op.condition)))
            quiet = side_effect(op.condition) <= Purity.READS and not self.wrapping.may_fail(op.condition)
            if isinstance(found, IntImm) and quiet:
                op = op.with_(condition=found)
        return _Simplifier.visit_IfThenElse(self, op)

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        made = _Simplifier.visit_BufferStore(self, op)
        if isinstance(made, BufferStore):
            self.known.store(made)
        return made

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        made = _Simplifier.visit_Evaluate(self, op)
        self.evaluated(made)
        return made


def _variables(expr: Expr) -> set[Var]:
    return set(each(Var, expr))


class Simplify(FuncPass):
    """Every expression is simplified under the facts of its place.

    Loop ranges, the conditions of branches, asserts and assumes are known inside their scope, and that the extents of
    parameter buffers are not negative; a branch whose condition is decided is taken; bindings of integers that read no
    memory are replaced by their values; storing what was just loaded from the same place is dropped.

    Options: ``transitively_prove_inequalities`` chains comparisons; ``convert_boolean_to_and_of_ors`` gives conditions
    that form; ``apply_constraints_to_boolean_branches`` simplifies each side of an and (or) knowing that the other
    holds (does not); ``propagate_knowns_to_prove_conditional`` and ``propagate_knowns_to_simplify_expressions`` follow
    the values that stores and assumptions give to elements of buffers, to decide branches and to take the place of
    loads. A variable that only names another one, or a constant, gives way to it in the layouts of buffers too. Needs
    nothing, raises nothing.

    >>> from tirlower.script import parse
    >>> print(Simplify()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((16,), "int32")):
    ...     for i, j in T.grid(4, 4):
    ...         if i * 4 + j < 16:
    ...             A[(i * 4 + j) // 4 * 4 + (i * 4 + j) % 4] = i + 0
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((16,), "int32")):
        for i, j in T.grid(4, 4):
            A[i * 4 + j] = i
    """

    name = "tir.Simplify"
    needs = (Fact.DIVISIONS,)
    transitively_prove_inequalities: bool = False
    propagate_knowns_to_prove_conditional: bool = False
    propagate_knowns_to_simplify_expressions: bool = False
    convert_boolean_to_and_of_ors: bool = False
    apply_constraints_to_boolean_branches: bool = False

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Simplify a function's body."""
        used = _UsedInDefinitions()
        used.visit(func.body)
        extensions = Extension.NO_EXTENSIONS
        for key, flag in _EXTENSIONS.items():
            if getattr(self, key):
                extensions |= flag
        conditions = self.propagate_knowns_to_prove_conditional
        values = self.propagate_knowns_to_simplify_expressions
        if conditions or values:
            return func.with_body(_Propagator(func, used, extensions, conditions, values).visit(func.body))
        return func.with_body(_Simplifier(func, used, extensions).visit(func.body))


_EXTENSIONS = {
    "transitively_prove_inequalities": Extension.TRANSITIVELY_PROVE_INEQUALITIES,
    "convert_boolean_to_and_of_ors": Extension.CONVERT_BOOLEAN_TO_AND_OF_ORS,
    "apply_constraints_to_boolean_branches": Extension.APPLY_CONSTRAINTS_TO_BOOLEAN_BRANCHES,
}
