"""CommonSubexprElimTIR: what is computed more than once is computed once, where all its uses can see it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tirlower.arith import Analyzer
from tirlower.arith.affine import affine_of
from tirlower.arith.keys import Keys
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
from tirlower.ir.functor import Mutator, pre_order_visit
from tirlower.ir.op import Op
from tirlower.ir.stmt import (
    Bind,
    Block,
    Seq,
    Stmt,
)
from tirlower.transforms.base import FuncPass
from tirlower.transforms.context import PassContext

__all__ = ["CommonSubexprElimTIR"]

_ITE = Op.get("tir.if_then_else")
_ADDRESS = Op.get("tir.address_of")
_DIVISIONS = (Div, Mod, FloorDiv, FloorMod)
EQUIVALENT_LIMIT = 200
"""Nodes beyond which a computation is compared by structure alone: simplifying every part of a long chain costs its
length squared."""


class _Scope:
    """A list of statements; ``parent`` and ``at`` say in which statement of which scope it stands."""

    __slots__ = ("at", "depth", "number", "parent")

    def __init__(self, parent: _Scope | None, at: int, number: int) -> None:
        self.parent = parent
        self.at = at
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.number = number


Place = tuple[_Scope, int]
"""In front of which statement of which scope."""


def _meet(places: Iterable[Place]) -> Place:
    """The innermost place in front of all: in the lowest common scope, at the first statement that holds one."""
    result: Place | None = None
    for scope, at in places:
        if result is None:
            result = (scope, at)
            continue
        other, first = result
        while scope is not other:
            if scope.depth >= other.depth:
                assert scope.parent is not None
                at, scope = scope.at, scope.parent
            else:
                assert other.parent is not None
                first, other = other.at, other.parent
        result = (scope, min(at, first))
    assert result is not None
    return result


class _Class:
    """An expression up to structure (and, where asked, up to what it simplifies to)."""

    __slots__ = ("eligible", "expr", "faults", "height", "operands", "order", "size", "uses")

    def __init__(self, expr: Any, order: int) -> None:
        self.expr = expr
        self.order = order
        self.size = self.height = 1
        self.operands: list[tuple[_Class, bool]] = []
        self.eligible = self.faults = False
        # How often it is evaluated at a place (2 stands for more), and whether it certainly is.
        self.uses: dict[Place, tuple[int, bool]] = {}

    def use(self, place: Place, count: int, certain: bool) -> None:
        known = self.uses.get(place)
        if known is not None:
            count, certain = min(count + known[0], 2), certain or known[1]
        self.uses[place] = (count, certain)


class _Region:
    """A part of a function over which computations are shared: its body, or the body of a block.

    Blocks are kept apart: what is inside sees the loops around it through its iterators only.
    """

    def __init__(self, owner: _Eliminator) -> None:
        self.owner = owner
        self.keys = Keys()
        self.analyzer = Analyzer() if owner.identify else None
        self.classes: dict[Expr, _Class] = {}
        self.of_form: dict[Any, _Class] = {}
        self.local: set[Var] = set()
        self.scopes = 0
        self.bound: dict[_Class, Var] = {}

    # Collecting

    def scope(self, parent: _Scope | None, at: int) -> _Scope:
        self.scopes += 1
        return _Scope(parent, at, self.scopes)

    def collect(self, stmt: Any, scope: _Scope, at: int) -> None:
        """The expressions of a statement and of those inside it."""
        place = (scope, at)
        kind = stmt.__class__
        if kind is Seq:
            inner = self.scope(scope, at)
            for index, one in enumerate(stmt.stmts):
                self.collect(one, inner, index)
            return
        if kind is Block:
            for it in stmt.iters:
                self.note(it.value, place)
            self.note(stmt.predicate, place)
            return
        for name in stmt.child_names:
            value = getattr(stmt, name)
            for item in value if value.__class__ is tuple else (value,):
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
            self.class_of(root).use(place, 1, True)

    def class_of(self, root: Expr) -> _Class:
        rep = self.keys.rep
        found = self.classes.get(rep(root))
        if found is not None:
            return found
        stack: list[Any] = [root]
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

    def _new_class(self, op: Any, operands: list[Expr]) -> _Class:
        parts = [self.classes[self.keys.rep(c)] for c in operands]
        if op.__class__ is Let:
            self.local.add(op.var)
        made = _Class(op, len(self.classes))
        made.size = 1 + sum(part.size for part in parts)
        made.height = 1 + max((part.height for part in parts), default=0)
        made.faults = any(part.faults for part in parts) or _may_divide_by_zero(op)
        made.eligible = (
            not op.is_leaf and _shareable(op) and all(part.eligible or _is_atom(part.expr) for part in parts)
        )
        skipped = _conditional_operands(op)
        made.operands = [(part, index not in skipped) for index, part in enumerate(parts)]
        if op.__class__ is Call and op.op is _ADDRESS:
            made.operands = self._address(op)
        return self._first_equal(made)

    def _first_equal(self, made: _Class) -> _Class:
        """The class of the first expression equal up to arithmetic, which stands for all; itself by default.

        A form in other variables is left alone: those of one form need not be in scope where the other is.
        """
        op = made.expr
        if self.analyzer is None or not made.eligible or made.faults or not op.dtype.is_integral:
            return made
        if made.size > EQUIVALENT_LIMIT:
            return made
        normal = self.analyzer.simplify(op)
        form = affine_of(self.keys, normal)
        # A sum is the set of its terms, in whatever order.
        key = self.keys.rep(normal) if form is None else (frozenset(form.terms.items()), form.constant, op.dtype)
        first = self.of_form.setdefault(key, made)
        return first if first is not made and _variables(first.expr) == _variables(op) else made

    def _address(self, op: Call) -> list[tuple[_Class, bool]]:
        """The element of an address is named, not loaded: its indices are computed."""
        load: Any = op.args[0]
        return [(self.classes[self.keys.rep(index)], True) for index in load.children()]

    # Choosing

    def choose(self) -> dict[tuple[int, int], list[tuple[Var, _Class]]]:
        """The variables to bind, by scope number and index, in order of binding."""
        local = self._local_classes()
        chosen: list[tuple[Place, _Class]] = []
        distinct = {id(one): one for one in self.classes.values()}
        # Larger ones first: what is inside them counts once for each that is bound.
        for one in sorted(distinct.values(), key=lambda c: (-c.height, c.order)):
            if not one.uses:
                continue
            total = sum(count for count, _ in one.uses.values())
            if total >= 2 and one.eligible and one not in local and not one.expr.dtype.is_bool:
                place = _meet(one.uses)
                if not one.faults or one.uses.get(place, (0, False))[1]:
                    chosen.append((place, one))
                    for part, certain in one.operands:
                        part.use(place, 1, certain)
                    one.uses = {}
                    continue
            for part, certain in one.operands:
                for place, (count, sure) in one.uses.items():
                    part.use(place, count, certain and sure)
        # Named from the outermost scope on, larger before smaller; bound in the opposite order, operands first.
        chosen.sort(key=lambda c: (c[0][0].number, c[0][1], -c[1].size, -c[1].height, c[1].order))
        bindings: dict[tuple[int, int], list[tuple[Var, _Class]]] = {}
        for (scope, at), one in chosen:
            var = self.owner.new_var(one.expr)
            self.bound[one] = var
            bindings.setdefault((scope.number, at), []).insert(0, (var, one))
        for at_place in bindings.values():
            at_place.sort(key=lambda item: item[1].height)
        return bindings

    def _local_classes(self) -> set[_Class]:
        """The classes that mention a variable bound inside an expression: their values have no place outside it."""
        found: set[_Class] = set()
        if self.local:
            for one in sorted({id(c): c for c in self.classes.values()}.values(), key=lambda c: c.height):
                if one.expr in self.local or any(part in found for part, _ in one.operands):
                    found.add(one)
        return found


def _variables(expr: Expr) -> set[Var]:
    found: set[Var] = set()
    pre_order_visit(expr, lambda op: found.add(op) if isinstance(op, Var) else None)
    return found


def _is_atom(expr: Expr) -> bool:
    return expr.is_leaf and not expr.dtype.is_handle


def _shareable(op: Any) -> bool:
    """Whether a node may be part of a bound computation: no loads, calls or vectors in the making."""
    return not isinstance(op, (BufferLoad, Call, Let, Ramp, Broadcast)) and not op.dtype.is_handle


def _may_divide_by_zero(op: Any) -> bool:
    if not isinstance(op, _DIVISIONS) or not op.dtype.is_integral:
        return False
    divisor = op.b.value if isinstance(op.b, Broadcast) else op.b
    return not (isinstance(divisor, IntImm) and divisor.value != 0)


def _conditional_operands(op: Any) -> tuple[int, ...]:
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

    def enter_Expr(self, op: Any) -> Expr | None:
        if op.is_leaf or op is self.root:
            return None
        found = self.region.classes.get(self.region.keys.rep(op))
        var = None if found is None else self.region.bound.get(found)
        return var if var in self.visible else None

    def value(self, expr: Expr) -> Expr:
        """What a variable is bound to: the expression with its parts replaced, not itself."""
        self.root = expr
        new: Expr = self.visit_expr(expr)
        self.root = None
        return new


class _Eliminator:
    """One function: its regions are handled one by one, the body's first."""

    def __init__(self, identify: bool) -> None:
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
        self, owner: _Eliminator, region: _Region, bindings: dict[tuple[int, int], list[tuple[Var, _Class]]]
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
        for var, one in self.bindings.get((number, at), ()):
            made.append(Bind(var, self.replacer.value(one.expr)))
            self.replacer.visible.add(var)
        return made

    def _leave(self, stmts: list[Stmt]) -> None:
        self.replacer.visible.difference_update([stmt.var for stmt in stmts if isinstance(stmt, Bind)])

    def _single(self, op: Stmt) -> Stmt:
        """A scope of one statement."""
        binds = self._binds(self._enter(), 0)
        new: Stmt = self.stmt(op)
        self._leave(binds)
        return Seq((*binds, new)) if binds else new

    def body(self, op: Stmt) -> Stmt:
        return self.stmt(op) if op.__class__ is Seq else self._single(op)

    def stmt(self, op: Any) -> Any:
        kind = op.__class__
        if kind is Seq:
            return self._sequence(op)
        if kind is Block:
            return self._block(op)
        changes: dict[str, Any] = {}
        for name in op.child_names:
            old = getattr(op, name)
            if old.__class__ is tuple:
                new = [self.replacer.visit(item) for item in old]
                if any(a is not b for a, b in zip(old, new, strict=True)):
                    changes[name] = tuple(new)
            elif isinstance(old, Expr):
                changes[name] = self.replacer.visit(old)
            elif isinstance(old, Stmt):
                changes[name] = self.body(old)
        return op.with_(**changes) if changes else op

    def _sequence(self, op: Seq) -> Stmt:
        number = self._enter()
        done: list[Stmt] = []
        for index, one in enumerate(op.stmts):
            done += self._binds(number, index)
            done.append(self.stmt(one))
        self._leave(done)
        same = len(done) == len(op.stmts) and all(a is b for a, b in zip(done, op.stmts, strict=True))
        return op if same else Seq(tuple(done), span=op.span)

    def _block(self, op: Block) -> Block:
        iters = [it if it.value is None else it.with_(value=self.replacer.visit(it.value)) for it in op.iters]
        changes: dict[str, Any] = {"predicate": self.replacer.visit(op.predicate), "body": self.owner.region(op.body)}
        if any(a is not b for a, b in zip(iters, op.iters, strict=True)):
            changes["iters"] = tuple(iters)
        if op.init is not None:
            changes["init"] = self.owner.region(op.init)
        return op.with_(**changes)


class CommonSubexprElimTIR(FuncPass):
    """A pure computation that occurs more than once is bound to a variable once, at the lowest common scope.

    The variables ``cse_var_1``, ``cse_var_2`` … stand in front of the first statement that uses them, in the
    innermost scope around all uses; larger computations first, what is left inside them after that. Bound is what
    costs an instruction and only that: arithmetic on variables and constants. Loads and calls are never bound (no
    load moves over a store, no call is made earlier), their indices and arguments are; ramps, broadcasts and plain
    casts of variables are parts of an access, conditions are facts that later stages read where they stand. A division
    that may fault is bound only where the statement at that place evaluates it anyway, never out of the arm of
    a condition or a loop that may not run.

    ``enable_cse_tir=False`` changes nothing; ``identify_equiv_terms=True`` takes computations as equal that the
    simplifier brings to one form, such as ``x + (y + z)`` and ``z + (x + y)``; integers only, since floats do not
    reassociate. The context's ``tir.disable_cse_tir`` and ``tir.enable_equiv_terms_in_cse_tir`` are the pipeline's
    switches for them. Stands near the end, since bound computations tell other passes less. Raises nothing.

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
    options = {"enable_cse_tir": True, "identify_equiv_terms": False}
    positional = ("enable_cse_tir", "identify_equiv_terms")

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Bind the repeated computations of a function."""
        if not self.option("enable_cse_tir", ctx):
            return func
        with deep_recursion():
            return func.with_body(_Eliminator(bool(self.option("identify_equiv_terms", ctx))).region(func.body))
