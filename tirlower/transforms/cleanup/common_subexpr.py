"""CommonSubexprElimTIR: what is computed more than once is computed once, where all its uses can see it."""

from __future__ import annotations

from tirlower.analysis.occurrences import (
    TEXT_LIMIT,
    Computation,
    Place,
    Scope,
    looked_at,
    measure,
    meet,
    operands_first,
    text_of,
)
from tirlower.arith.affine import affine_of
from tirlower.arith.interner import Interner
from tirlower.diagnostics import deep_recursion
from tirlower.ir.expr import (
    And,
    Broadcast,
    BufferLoad,
    Call,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Mod,
    Or,
    Ramp,
    Var,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.stmt import (
    Bind,
    Block,
    Seq,
    Stmt,
)
from tirlower.rewrite.base import Fact, FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.options import option
from tirlower.rewrite.scalar_overflow import analyzer_of

__all__ = ["CommonSubexprElimTIR"]

_ITE = Op.get("tir.if_then_else")
_ADDRESS = Op.get("tir.address_of")
_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)
EQUIVALENT_LIMIT = 200
"""Nodes beyond which a computation is compared by structure alone: simplifying every part of a long chain costs its
length squared."""


class _Region:
    """A part of a function over which computations are shared: its body, or the body of a block.

    Blocks are kept apart: what is inside sees the loops around it through its iterators only.
    """

    def __init__(self, owner: _Eliminator) -> None:
        self.owner = owner
        self.interner = Interner()
        self.analyzer = analyzer_of(owner.func)[0] if owner.identify else None
        self.classes: dict[Expr, Computation] = {}
        self.of_form: dict[object, Computation] = {}
        self.local: set[Var] = set()
        self.scopes = 0
        self.bound: dict[Computation, Var] = {}
        self.roots: dict[Computation, None] = {}
        self.replaced = False

    # Collecting

    def scope(self, parent: Scope | None, at: int) -> Scope:
        self.scopes += 1
        return Scope(parent, at, self.scopes)

    def collect(self, stmt: Stmt, scope: Scope, at: int) -> None:
        """The expressions of a statement and of those inside it."""
        place = (scope, at)
        if stmt.__class__ is Seq:
            inner = self.scope(scope, at)
            for index, child in enumerate(stmt.stmts):
                self.collect(child, inner, index)
            return
        if stmt.__class__ is Block:
            for it in stmt.iters:
                self.note(it.value, place)
            self.note(stmt.predicate, place)
            return
        for item in stmt.children():
            if isinstance(item, Expr):
                self.note(item, place)
            elif isinstance(item, Stmt):
                self.collect_body(item, place)

    def collect_body(self, stmt: Stmt, place: Place) -> None:
        if stmt.__class__ is Seq:
            self.collect(stmt, *place)
        else:
            self.collect(stmt, self.scope(*place), 0)

    def note(self, root: Expr | None, place: Place) -> None:
        if root is not None and not root.is_leaf:
            found = self.class_of(root)
            found.use(place, 1, True)
            found.seen((0,))
            self.roots.setdefault(found)

    def class_of(self, root: Expr) -> Computation:
        rep = self.interner.representative
        found = self.classes.get(rep(root))
        if found is not None:
            return found
        stack: list[Expr] = [root]
        while stack:
            op = stack[-1]
            key = rep(op)
            if key in self.classes:
                stack.pop()
                continue
            operands = [] if op.is_leaf else list(op.children())
            waiting = [c for c in operands if rep(c) not in self.classes]
            if waiting:
                waiting.reverse()
                stack += waiting
                continue
            stack.pop()
            self.classes[key] = self._new_class(op, operands)
        return self.classes[rep(root)]

    def _new_class(self, op: Expr, operands: list[Expr]) -> Computation:
        parts = [self.classes[self.interner.representative(c)] for c in operands]
        if op.__class__ is Let:
            self.local.add(op.var)
        made = Computation(op, len(self.classes))
        made.size = 1 + sum(part.size for part in parts)
        made.height = 1 + max((part.height for part in parts), default=0)
        made.faults = any(part.faults for part in parts) or _may_divide_by_zero(op)
        made.pure = _is_arithmetic(op) and all(part.pure or _is_atom(part.expr) for part in parts)
        made.eligible = made.pure and not isinstance(op, (Ramp, Broadcast))
        skipped = _conditional_operands(op)
        made.operands = [(part, index not in skipped) for index, part in enumerate(parts)]
        if op.__class__ is Call and op.op is _ADDRESS:
            made.operands = self._address(op)
        made.text = text_of(op, [part.text for part in parts]) if made.size <= TEXT_LIMIT else ""
        return self._first_equal(made)

    def _first_equal(self, made: Computation) -> Computation:
        """The class of the first expression equal up to arithmetic, which stands for all; itself by default.

        A form in other variables is left alone: those of one form need not be in scope where the other is.
        """
        op = made.expr
        dtype = op.dtype
        if self.analyzer is None or not made.eligible or made.faults or not (dtype.is_integral and dtype.is_scalar):
            return made
        if made.size > EQUIVALENT_LIMIT:
            return made
        normal = self.analyzer.simplify(op)
        form = affine_of(self.interner, normal)
        # A sum is the set of its terms, in whatever order.
        key = self.interner.representative(normal) if form is None else (*form.key, op.dtype)
        first = self.of_form.setdefault(key, made)
        if first is made or _variables(first.expr) != _variables(op):
            return made
        if made.text < first.text and not made.reaches(first):
            # The one that is written first in the dictionary is what the others become.
            first.expr, first.operands, first.text, first.size = op, made.operands, made.text, made.size
            self.replaced = True
        return first

    def _address(self, op: Call) -> list[tuple[Computation, bool]]:
        """The element of an address is named, not loaded: its indices are computed."""
        element = op.args[0]
        return [(self.classes[self.interner.representative(index)], True) for index in element.children()]

    # Choosing

    def choose(self) -> dict[tuple[int, int], list[tuple[Var, Computation]]]:
        """The variables to bind, by scope number and index, in order of binding."""
        distinct = list({id(computation): computation for computation in self.classes.values()}.values())
        if self.replaced:
            measure(distinct)
        local = self._local_classes()
        chosen: list[tuple[Place, Computation, int]] = []
        # Larger ones first: what is inside them counts once for each that is bound.
        for computation in sorted(distinct, key=lambda c: (-c.height, c.order)):
            if not computation.uses:
                continue
            total = sum(count for count, _ in computation.uses.values())
            if total >= 2 and computation.eligible and computation not in local and not computation.expr.dtype.is_bool:
                place = meet(computation.uses)
                if not computation.faults or computation.uses.get(place, (0, False))[1]:
                    chosen.append((place, computation, computation.rounds[1]))
                    for part, certain in computation.operands:
                        part.use(place, 1, certain)
                        part.seen((computation.rounds[1] + 1,))
                    computation.uses = {}
                    continue
            for part, certain in computation.operands:
                part.seen(computation.rounds)
                for place, (count, sure) in computation.uses.items():
                    part.use(place, count, certain and sure)
        return self._arranged(chosen) if chosen else {}

    def _arranged(
        self, chosen: list[tuple[Place, Computation, int]]
    ) -> dict[tuple[int, int], list[tuple[Var, Computation]]]:
        """Names and order. Variables are numbered from the outermost scope on, and at one place round by round, each
        from the largest to the smallest; they are bound in the opposite order, what a value needs before it."""
        met = looked_at(self.roots)
        chosen.sort(key=lambda c: (c[0][0].number, c[0][1], c[2], -c[1].size, met.get(c[1], c[1].order)))
        at_place: dict[tuple[int, int], list[Computation]] = {}
        for (scope, at), computation, _ in chosen:
            self.bound[computation] = self.owner.new_var(computation.expr)
            at_place.setdefault((scope.number, at), []).append(computation)
        return {
            where: [(self.bound[computation], computation) for computation in operands_first(ones, self.bound)]
            for where, ones in at_place.items()
        }

    def _local_classes(self) -> set[Computation]:
        """The classes that mention a variable bound inside an expression: their values have no place outside it."""
        found: set[Computation] = set()
        if self.local:
            for computation in sorted({id(c): c for c in self.classes.values()}.values(), key=lambda c: c.height):
                if computation.expr in self.local or any(part in found for part, _ in computation.operands):
                    found.add(computation)
        return found


def _variables(expr: Expr) -> set[Var]:
    return set(each(Var, expr))


def _is_atom(expr: Expr) -> bool:
    return expr.is_leaf and not expr.dtype.is_handle


def _is_arithmetic(op: Expr) -> bool:
    """Whether a node may be part of a bound computation: no loads, calls or pointers."""
    return not (op.is_leaf or isinstance(op, (BufferLoad, Call, Let)) or op.dtype.is_handle)


def _may_divide_by_zero(op: object) -> bool:
    if not isinstance(op, _DIVISIONS) or not op.dtype.is_integral:
        return False
    divisor = op.b.value if isinstance(op.b, Broadcast) else op.b
    return not (isinstance(divisor, IntImm) and divisor.value != 0)


def _conditional_operands(op: object) -> tuple[int, ...]:
    """The operands that evaluating an expression may leave out."""
    if op.__class__ is Call and op.op is _ITE:
        return (1, 2)
    return (1,) if isinstance(op, (And, Or)) else ()


class _Replacer(Mutator):
    """Puts the bound variables in the place of what they hold."""

    def __init__(self, region: _Region) -> None:
        self.region = region
        self.root: Expr | None = None
        self.visible: set[Var] = set()

    def enter_Expr(self, op: Expr) -> Expr | None:
        if op.is_leaf or op is self.root:
            return None
        found = self.region.classes.get(self.region.interner.representative(op))
        var = None if found is None else self.region.bound.get(found)
        return var if var in self.visible else None

    def value(self, expr: Expr) -> Expr:
        """What a variable is bound to: the expression with its parts replaced, not itself."""
        self.root = expr
        new = self.visit_expr(expr)
        self.root = None
        return new


class _Eliminator:
    """One function: its regions are handled one by one, the body's first."""

    def __init__(self, func: PrimFunc, identify: bool) -> None:
        self.func = func
        self.identify = identify
        self.count = 0

    def new_var(self, like: Expr) -> Var:
        self.count += 1
        return Var(f"cse_var_{self.count}", like.dtype)

    def region(self, body: Stmt) -> Stmt:
        region = _Region(self)
        root = region.scope(None, 0)
        region.collect(body, root, 0)
        bindings = region.choose()
        return _Placer(self, region, bindings).root(body)


class _Placer:
    """Rebuilds a region with its bindings, numbering scopes as `_Region.collect` did."""

    def __init__(
        self, owner: _Eliminator, region: _Region, bindings: dict[tuple[int, int], list[tuple[Var, Computation]]]
    ) -> None:
        self.owner = owner
        self.bindings = bindings
        self.replacer = _Replacer(region)
        self.scopes = 0

    def root(self, body: Stmt) -> Stmt:
        """The body of the region."""
        return self._single(body)

    def _enter(self) -> int:
        self.scopes += 1
        return self.scopes

    def _binds(self, number: int, at: int) -> list[Stmt]:
        made: list[Stmt] = []
        for var, computation in self.bindings.get((number, at), ()):
            made.append(Bind(var, self.replacer.value(computation.expr)))
            self.replacer.visible.add(var)
        return made

    def _leave(self, stmts: list[Stmt]) -> None:
        self.replacer.visible.difference_update([stmt.var for stmt in stmts if isinstance(stmt, Bind)])

    def _single(self, op: Stmt) -> Stmt:
        """A scope of one statement."""
        binds = self._binds(self._enter(), 0)
        new = self.stmt(op)
        self._leave(binds)
        return Seq((*binds, new)) if binds else new

    def body(self, op: Stmt) -> Stmt:
        return self.stmt(op) if op.__class__ is Seq else self._single(op)

    def stmt(self, op: Stmt) -> Stmt:
        if op.__class__ is Seq:
            return self._sequence(op)
        if op.__class__ is Block:
            return self._block(op)
        return op.map_children(lambda part: self.body(part) if isinstance(part, Stmt) else self.replacer.visit(part))

    def _sequence(self, op: Seq) -> Stmt:
        number = self._enter()
        done: list[Stmt] = []
        for index, child in enumerate(op.stmts):
            done += self._binds(number, index)
            done.append(self.stmt(child))
        self._leave(done)
        same = len(done) == len(op.stmts) and all(a is b for a, b in zip(done, op.stmts, strict=True))
        return op if same else Seq(tuple(done), span=op.span)

    def _block(self, op: Block) -> Block:
        iters = [it if it.value is None else it.with_(value=self.replacer.visit(it.value)) for it in op.iters]
        changes: dict[str, object] = {
            "predicate": self.replacer.visit(op.predicate),
            "body": self.owner.region(op.body),
        }
        if any(a is not b for a, b in zip(iters, op.iters, strict=True)):
            changes["iters"] = tuple(iters)
        if op.init is not None:
            changes["init"] = self.owner.region(op.init)
        return op.with_(**changes)


class CommonSubexprElimTIR(FuncPass):
    """A pure computation that occurs more than once is bound to a variable once, at the lowest common scope.

    The variables ``cse_var_1``, ``cse_var_2`` … stand in front of the first statement that uses them, in the
    innermost scope around all uses; larger computations are bound first, and what is left inside them after that in
    front of them. Bound is what costs an instruction and only that: arithmetic on variables and constants. Loads and
    calls are never bound (no load moves over a store, no call is made earlier), their indices and arguments are; a ramp
    or broadcast is part of a larger computation, conditions are facts that later stages read where they stand. A division that
    may fault is bound only where the statement at that place evaluates it anyway, never out of the arm of a condition
    or a loop that may not run.

    ``enable_cse_tir=False`` changes nothing; ``identify_equiv_terms=True`` takes computations as equal that the
    simplifier brings to one form, such as ``x + (y + z)`` and ``z + (x + y)``, and writes the one whose text, with all
    parentheses, sorts first; integers only, since floats do not reassociate. The context's
    ``tir.enable_equiv_terms_in_cse_tir`` asks for it too, and its ``tir.disable_cse_tir`` leaves the pass out of the
    pipelines. Stands near the end, since bound computations tell other passes less. Raises nothing.

    The source of the idea is value numbering by structure (Cocke, 1970); placement is by lowest common ancestor.

    >>> from tirlower.script import parse
    >>> print(CommonSubexprElimTIR()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((64,), "int32"), x: T.int32, y: T.int32):
    ...     for i in range(8):
    ...         A[i * 8 + x] = (x + y) * 2
    ...         A[i * 8 + y] = A[i * 8 + x] + (x + y)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((64,), "int32"), x: T.int32, y: T.int32):
        for i in range(8):
            cse_var_3: T.int32 = i * 8
            cse_var_2: T.int32 = x + y
            cse_var_1: T.int32 = cse_var_3 + x
            A[cse_var_1] = cse_var_2 * 2
            A[cse_var_3 + y] = A[cse_var_1] + cse_var_2
    """

    name = "tir.CommonSubexprElimTIR"
    needs = (Fact.DIVISIONS, Fact.UNORDERED)
    breaks = (Fact.PLAIN_EXPRESSIONS, Fact.SINGLE_STATEMENTS)
    enable_cse_tir: bool = option(default=True, kw_only=False)
    identify_equiv_terms: bool = option(default=False, key="tir.enable_equiv_terms_in_cse_tir", kw_only=False)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Bind the repeated computations of a function."""
        if not self.enable_cse_tir:
            return func
        with deep_recursion():
            return func.with_body(_Eliminator(func, self.identify_equiv_terms).region(func.body))
