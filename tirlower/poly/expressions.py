"""From expressions of the IR to quasi-affine forms and conditions.

Every integer expression becomes a form: what is not affine becomes an opaque atom with the bounds that are known, so
that a form always covers all values that the expression can have. Bindings are substituted. Arithmetic of int32 and
int64 on indices is taken not to overflow. On data (see :mod:`tirlower.ir.data`) it wraps: the form is the exact one where
the facts at hand keep it in its type, else the remainder of that by the size of the type. Arithmetic on other types may
wrap, and is opaque.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from tirlower import ir
from tirlower.arith.affine import Affine
from tirlower.arith.intervals import EVERYTHING, INF, Bound, intersection
from tirlower.ir import Buffer, BufferLoad, Call, DataType, Expr, IntImm, Op, Purity, Var
from tirlower.ir.data import chosen_of, follows_bits, gives_data
from tirlower.ir.dtype import INT64
from tirlower.ir.node import Node
from tirlower.poly.affine import MAX_WEIGHT, Space, limits_of
from tirlower.poly.conditions import (
    FALSE,
    TRUE,
    AtLeast,
    Condition,
    Unknown,
    all_of,
    any_of,
    at_least,
    conjuncts,
    either,
    equal,
    negate,
)
from tirlower.poly.evaluate import operation_of
from tirlower.poly.forms import Dim, Div, Form, constant, single
from tirlower.poly.operation_forms import RULES, chain, holds_all, is_index

__all__ = ["Converter"]

MAX_TERMS = 4_000
"""The terms of a sum, counted as often as they are used, beyond which it is taken as opaque."""


class Converter:
    """Converts the expressions of one function.

    ``loops`` are the loop variables around the place at hand; ``lane`` is the variable of the lanes of the access at
    hand; ``written`` holds the data variables that the function writes (a load of any other is a fixed value);
    ``returned`` gives the value that a call of another function returns, where that is known.
    ``facts`` gives the conditions at the place at hand, ``guards`` and ``local`` those of the part of an expression;
    ``infeasible`` says whether a form is certainly negative there; ``admits`` whether index arithmetic may be taken to
    stay within 64 bits. ``wrapping``: whether arithmetic on data wraps.
    """

    def __init__(self, space: Space, written: Collection[Var], wrapping: bool = True) -> None:
        self.space = space
        self.written = written
        self.wrapping = wrapping
        self.facts: Callable[[], Iterable[Condition]] = tuple
        self.guards: tuple[Condition, ...] = ()
        self.local: list[Condition] = []
        self.all_is_data = self.some_wrap = False
        self.infeasible: Callable[[Form], bool] = lambda violation: False
        self.admits: Callable[[Form], bool] = lambda lin: True
        self.values: dict[Var, Form] = {}
        self.truths: dict[Var, Condition] = {}
        self.loops: tuple[Var, ...] = ()
        self.lane: Var | None = None
        self.bound_deps: dict[Var, frozenset[Var]] = {}
        self.bound_data: set[Var] = set()
        self.returned: Callable[[Call], Expr | None] = lambda call: None
        # What was found for the parts of the one expression at hand, by identity: each is converted once.
        self._inside = False
        self._forms: dict[object, Form] = {}
        self._deps: dict[int, frozenset[Var]] = {}
        self._made_of_data: dict[int, bool] = {}
        self._effects = 0

    def bind(self, var: Var, value: Expr) -> None:
        """A variable stands for a value from here on."""
        if value.dtype.is_bool:
            truth = self.condition(value)
            self.truths[var] = truth if truth.weight <= MAX_WEIGHT else Unknown(var.name, self.deps_of(value))
        if value.dtype.is_integral and value.dtype.is_scalar:
            lin = self.lin(value)
            # What it stands for was computed here: a later change of memory does not change it.
            self.values[var] = lin
        if self.wrapping and self._is_made_of_data(value):
            self.bound_data.add(var)
        if not self._inside:
            self._made_of_data.clear()
        self.bound_deps[var] = self.deps_of(value)

    # Forms

    def lin(self, root: Expr) -> Form:
        """The form of an integer expression (of a vector: of its lane)."""
        if root.__class__ is IntImm:
            return constant(root.value)
        if root.__class__ is Var:
            return self._var(root)
        if not self._inside:
            self._inside = True
            try:
                return self.lin(root)
            finally:
                self._inside = False
                self._forms.clear()
                self._deps.clear()
                self._made_of_data.clear()
        # Under a condition of its own (an arm of a choice) a value may be known not to wrap.
        key = (id(root), self.all_is_data, *self.local)
        found = self._forms.get(key)
        if found is None:
            effects = self._effects
            sums = root.__class__ in (ir.Add, ir.Sub, ir.Mul) and is_index(root.dtype)
            found = self.space.settled(self._sum(root) if sums else self._leaf(root))
            if not sums and self.wrapping and self._wraps_indices(root):
                limits = limits_of(root.dtype)
                found = self.space.opaque(self._key(root), _short(root), self.deps_of(root), limits, limits)
            if effects == self._effects:  # a call with effects has a value of its own wherever it stands
                self._forms[key] = found
        return found

    def _sum(self, root: Expr) -> Form:
        """The form of a sum of terms."""
        total = constant(0)
        terms = total.terms
        const = 0
        stack: list[tuple[Expr, int]] = [(root, 1)]
        steps = 0
        while stack:
            op, factor = stack.pop()
            steps += 1
            if steps > MAX_TERMS:  # operands shared many times over
                return self.unknown(root)
            if op.__class__ is IntImm:
                const += factor * op.value
                continue
            if op.__class__ is ir.Add:
                stack += [(op.b, factor), (op.a, factor)]
                continue
            if op.__class__ is ir.Sub:
                stack += [(op.b, -factor), (op.a, factor)]
                continue
            if op.__class__ is ir.Mul:
                if op.b.__class__ is IntImm:
                    stack.append((op.a, factor * op.b.value))
                    continue
                if op.a.__class__ is IntImm:
                    stack.append((op.b, factor * op.a.value))
                    continue
                part = self.space.multiply(self.lin(op.a), self.lin(op.b))
            else:
                part = self.lin(op)
            const += factor * part.const
            for dim, c in part.terms.items():
                sum_ = terms.get(dim, 0) + factor * c
                if sum_:
                    terms[dim] = sum_
                else:
                    terms.pop(dim, None)
        exact = self.space.settled(Affine(terms, const))
        made = self.wrapped(root, exact)
        if self.wrapping and not self.space.is_data(made) and not self.admits(made):
            interval, deps = dtype_interval(root.dtype), self.space.deps(made)
            return self.space.opaque(("words", made.key), "a value past 64 bits", deps, interval, None)
        return made

    def _is_made_of_data(self, root: Expr) -> bool:
        """Whether an expression is data by what it is made of, whatever cancels out."""
        found = self._made_of_data.get(id(root))
        if found is None:
            seen: set[int] = set()
            stack: list[Node] = [root]
            while stack and not found:
                op = stack.pop()
                if op.__class__ is Var:
                    found = op in self.space.data or op in self.bound_data
                elif not op.is_leaf and id(op) not in seen:
                    seen.add(id(op))
                    found = gives_data(op) or self._made_of_data.get(id(op), False)
                    stack += chosen_of(op) or op.children()
            found = self._made_of_data[id(root)] = bool(found)
        return found

    def _wraps_indices(self, op: Expr) -> bool:
        """Whether an operation other than a sum has an index that may leave its type beside data: it takes what the type
        holds of it."""
        if not isinstance(op, ir.BinaryOp) or not is_index(op.dtype) or not self._is_made_of_data(op):
            return False
        # A variable is what is bound to it, which may leave the type as well.
        indices = [x for x in (op.a, op.b) if x.__class__ is not IntImm and not self._is_made_of_data(x)]
        return not all(self.fits(x.dtype, self.lin(x)) for x in indices)

    def wrapped(self, op: Expr, lin: Form, *, always: bool = False) -> Form:
        """The value that exact arithmetic's ``lin`` has in the type of its operation: itself where that is no data
        (unless ``always``), or stays in the type; else its remainder."""
        dtype = op.dtype
        if not self.wrapping or not (always or self.all_is_data or self.is_data(op, lin)) or self.fits(dtype, lin):
            return lin
        least, most = int(dtype.element.min_value), int(dtype.element.max_value)
        self._bound_sizes()
        return self.space.floormod(lin.shifted(-least), most - least + 1).shifted(least)

    def is_data(self, op: Expr, lin: Form) -> bool:
        """Whether an expression is data: where the data in it cancels out its form is an index, and it is data still."""
        return self.space.is_data(lin) or self._is_made_of_data(op)

    def _bound_sizes(self) -> None:
        """Keep sizes in their types from here on: past them, what wraps would have values that no call gives it."""
        if not self.some_wrap:
            self.some_wrap = True
            for var in [var for var in self.space.ranges if var not in self.space.iterated]:
                self.space.ranges[var] = intersection(self.space.ranges[var], limits_of(var.dtype))

    def computed_by_callee(self, value: Expr) -> Form:
        """What another function computes: to it, all that it is given is data."""
        outer, self.all_is_data = self.all_is_data, True
        made = self.lin(value)
        self.all_is_data = outer
        return made

    def fits(self, dtype: DataType, lin: Form) -> bool:
        """Whether a form certainly stays in a type."""
        least = int(dtype.element.min_value)
        return self.stays_below(dtype, lin) and (
            self.space.limits(lin)[0] >= least or self._never((-lin).shifted(least - 1))
        )

    def stays_below(self, dtype: DataType, lin: Form) -> bool:
        """Whether a form certainly is at most a type's greatest value."""
        most = int(dtype.element.max_value)
        return self.space.limits(lin)[1] <= most or self._never(lin.shifted(-most - 1))

    def here(self) -> list[Condition]:
        """What holds where the expression at hand is evaluated."""
        return [*self.facts(), *self.guards, *self.local]

    def _never(self, violation: Form) -> bool:
        """Whether a form is certainly negative here: by one of the conditions, or by all of them."""
        related = False
        for condition in conjuncts(self.here()):
            related = related or any(dim in violation.terms for lin in condition.forms() for dim in _dims(lin))
            if condition.__class__ is not AtLeast:
                continue
            known: Form = condition.lin
            for dim, c in known.terms.items():
                # violation + k * known is the least that is known of violation; k takes one dim away.
                k, rest = divmod(-violation.terms.get(dim, 0), c)
                if k > 0 and not rest:
                    if self.space.limits(violation.plus(known, k))[1] < 0:
                        return True
        return related and self.infeasible(violation)

    def _var(self, var: Var) -> Form:
        found = self.values.get(var)
        if found is not None:
            return found
        if var in self.truths:
            return self.space.choice(self.truths[var], constant(1), constant(0))
        if var not in self.space.ranges and var not in self.space.iterated:
            if var in self.bound_deps:
                lin = self.space.opaque(
                    ("bound", var), var.name, self.bound_deps[var], dtype_interval(var.dtype), limits_of(var.dtype)
                )
                self.values[var] = lin
                return lin
            known = self.some_wrap or var in self.space.data
            low, high = limits_of(var.dtype) if known else dtype_interval(var.dtype)
            self.space.ranges[var] = (max(low, 0) if var.nonneg else low, high)
        return single(var)

    def _leaf(self, op: Expr) -> Form:
        rule = RULES.get(op.__class__)
        if rule is not None:
            made = rule(self, op)
            if made is not None:
                return made
        return self.unknown(op)

    def unknown(self, op: Expr) -> Form:
        """An opaque value for an expression: one for equal expressions that read no changing memory."""
        if op.__class__ is Call and not _is_pure(op):
            self._effects += 1
        limits: Bound | None = limits_of(op.dtype)
        exact = op
        if op.__class__ is Call and is_index(op.dtype) and follows_bits(op) and not self._is_made_of_data(op):
            exact, limits = (
                op.with_(dtype=INT64),
                None,
            )  # the bits of indices are an index, which its type does not bound
        compute = operation_of(exact)
        key = None if compute is None else self._key(op)
        if compute is not None and key is not None:
            operands = tuple(self.lin(each) for each in op.children())
            return self.space.computed(key, _short(op), self.deps_of(op), self._interval(op), operands, compute, limits)
        return self.space.opaque(self._key(op), _short(op), self.deps_of(op), self._interval(op), limits)

    def deps_of(self, root: Expr) -> frozenset[Var]:
        """The loop variables that an expression's value is a function of: all around it if it reads memory that
        changes."""
        found: set[Var] = set()
        seen: set[int] = set()
        stack = [root]
        while stack:
            op = stack.pop()
            known = self._deps.get(id(op))
            if known is not None:
                found |= known
            elif id(op) not in seen:
                seen.add(id(op))
                if op.__class__ is Var:
                    found |= self._deps_of_var(op)
                elif (op.__class__ is BufferLoad and op.buffer.data in self.written) or (
                    op.__class__ is Call and not _is_pure(op)
                ):
                    found = set(self.loops)
                    break
                stack += op.children()
        made = frozenset(found)
        if self._inside:
            self._deps[id(root)] = made
        return made

    def _deps_of_var(self, var: Var) -> frozenset[Var]:
        if var in self.values:
            return self.space.deps(self.values[var])
        if var in self.truths:
            return self.space.deps_of_condition(self.truths[var])
        if var in self.bound_deps:
            return self.bound_deps[var]
        return frozenset((var,)) if var in self.space.iterated else frozenset()

    def _key(self, root: Expr) -> object:
        """A key for expressions that have one value in one iteration, or None."""
        if root.__class__ is BufferLoad:
            if root.buffer.data in self.written or root.predicate is not None or root.dtype.is_vector:
                return None
            return ("load", root.buffer, tuple(self.lin(i).key for i in root.indices))
        if (
            root.__class__ is Call
            and _is_pure(root)
            and all(a.dtype.is_integral for a in root.args)
            and root.dtype.is_scalar
        ):
            return ("call", root.op, root.dtype, tuple(self.lin(a).key for a in root.args))
        kind = root.__class__
        if (
            root.__class__ in (ir.Mul, ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod, ir.Add, ir.Sub)
            and root.dtype.is_integral
        ):
            return (kind, root.dtype, self.lin(root.a).key, self.lin(root.b).key) if root.dtype.is_scalar else None
        if root.__class__ is ir.Cast and root.value.dtype.is_integral and root.dtype.is_scalar:
            return (kind, root.dtype, self.lin(root.value).key)
        return None

    def _interval(self, op: Expr) -> Bound:
        if op.__class__ is ir.Cast and op.value.dtype.is_integral:
            found = self.space.interval(self.lin(op.value))
            if holds_all(op.dtype, found):
                return found
        return dtype_interval(op.dtype)

    # Conditions

    def condition(self, root: Expr) -> Condition:
        """The condition that a bool expression is."""
        if root.__class__ is IntImm:
            return TRUE if root.value else FALSE
        if root.__class__ is ir.And or root.__class__ is ir.Or:
            if root.__class__ is ir.Or:
                return any_of([self.condition(part) for part in chain(root, ir.Or)])
            # Each where those before it hold: the conjunction is the same.
            parts: list[Condition] = []
            outer = len(self.local)
            for part in chain(root, ir.And):
                parts.append(self.condition(part))
                self.local.append(parts[-1])
            del self.local[outer:]
            return all_of(parts)
        if root.__class__ is ir.Not:
            return negate(self.condition(root.a))
        if root.__class__ in _COMPARISONS and root.a.dtype.is_integral:
            # A comparison of what may wrap is one of opaque values, which the forms say.
            return self._compare(root.__class__, self.lin(root.a), self.lin(root.b))
        if root.__class__ is Var and root in self.truths:
            return self.truths[root]
        if root.__class__ is ir.Broadcast:
            return self.condition(root.value)
        if root.__class__ is ir.Let:
            self.bind(root.var, root.value)
            return self.condition(root.body)
        if root.__class__ is ir.Cast and root.value.dtype.is_bool:
            return self.condition(root.value)
        if root.__class__ is ir.Cast and root.value.dtype.is_integral:
            return negate(equal(self.lin(root.value)))
        if root.__class__ is ir.Select or (root.__class__ is Call and root.op is Op.find("tir.if_then_else")):
            operands = root.args if isinstance(root, Call) else (root.condition, root.true_value, root.false_value)
            chosen, then, other = (self.condition(part) for part in operands)
            return either(chosen, then, other)
        if root.__class__ is Call and root.op in (Op.find("tir.likely"), Op.find("tir.ignore_loop_partition")):
            return self.condition(root.args[0])
        if root.__class__ is Call and root.op is Op.find("tir.get_active_lane_mask") and self.lane is not None:
            base, limit = self.lin(root.args[0]), self.lin(root.args[1])
            return at_least((limit - base - single(self.lane)).shifted(-1))
        return Unknown(_short(root), self.deps_of(root))

    def _compare(self, kind: type, a: Form, b: Form) -> Condition:
        if kind is ir.LT:
            return at_least((b - a).shifted(-1))
        if kind is ir.LE:
            return at_least(b - a)
        if kind is ir.GT:
            return at_least((a - b).shifted(-1))
        if kind is ir.GE:
            return at_least(a - b)
        same = equal(a - b)
        return same if kind is ir.EQ else negate(same)


_COMPARISONS = (ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE)


def _dims(lin: Form) -> Iterator[Dim]:
    """The dims of a form, and of what it is a division of."""
    for dim in lin.terms:
        yield dim
        if isinstance(dim, Div):
            yield from _dims(dim.of)


def dtype_interval(dtype: DataType) -> Bound:
    """The values of a data type, where that is worth saying: those of 16 bits and less, and that unsigned ones are
    not negative."""
    if dtype.is_bool:
        return (0, 1)
    if dtype.is_integral and dtype.bits <= 16:
        return (int(dtype.element.min_value), int(dtype.element.max_value))
    return (0, INF) if dtype.is_uint else EVERYTHING


def _is_pure(call: Call) -> bool:
    return isinstance(call.op, Op) and call.op.purity is Purity.PURE


def _short(op: Expr) -> str:
    text = str(op) if not _is_large(op) else f"<{type(op).__name__}>"
    return text if len(text) <= 60 else text[:57] + "..."


def _is_large(op: Expr) -> bool:
    stack, count = [op], 0
    while stack and count <= 30:  # a part counts as often as it is printed
        stack += stack.pop().children()
        count += 1
    return bool(stack)


def buffer_forms(conv: Converter, buffer: Buffer) -> tuple[tuple[Form, ...], tuple[Form, ...], Form]:
    """The shape, strides (row-major where none are stated) and offset of a buffer as forms."""
    shape = tuple(conv.lin(extent) for extent in buffer.shape)
    if buffer.strides:
        strides = tuple(conv.lin(stride) for stride in buffer.strides)
    else:
        made: list[Form] = []
        step = constant(1)
        for extent in reversed(shape):
            made.append(step)
            step = conv.space.multiply(step, extent)
        strides = tuple(reversed(made))
    return shape, strides, conv.lin(buffer.elem_offset)
