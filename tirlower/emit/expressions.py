"""The expression engine: a stack of tasks, so that an expression of any depth is emitted without recursion.

A node is emitted in one of two modes. As a *value* it has its own type and wraps as the language says. As an *index* it
is an i64: sums, products and quotients of 32-bit variables are computed in 64 bits from variables widened at the
leaves, without wrap-around (``nsw``), so that LLVM sees affine addresses. That rests on the rule of the language that
index arithmetic does not overflow; subexpressions that depend on data (loads, calls, scalar parameters) and may leave
their type mean their wrap-around, and are computed in their own type first. Comparisons of indices that may leave 32
bits are made on the indices: :mod:`tirlower.emit.exact`.

Each distinct node of a root is emitted once. What was emitted inside a branch is forgotten at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Concatenate, Final, Never, ParamSpec, TypeVar, cast, overload

from tirlower.emit.emitter import ENGINE, Emitter, constant
from tirlower.emit.facts import BITS, DATA, LEAVES, WRAPS
from tirlower.emit.llvm_text import I64, Block, Phi, Value
from tirlower.emit.masked import is_masked, keep_order
from tirlower.ir import build
from tirlower.ir.dtype import INT64
from tirlower.ir.expr import (
    BinaryOp,
    Call,
    Cast,
    Expr,
    FloatImm,
    IntImm,
    Let,
    StringImm,
    Var,
)
from tirlower.ir.op import GlobalVar, Op

__all__ = ["CALLS", "COMBINE", "CONTROL", "INDEX_CONTROL", "Run", "call_rule", "combine", "control"]

E = TypeVar("E", bound=Expr)
Values = ParamSpec("Values")
Argument = TypeVar("Argument")
Rule = TypeVar("Rule")
Control = Callable[["Run", E], None]
CallRule = Callable[[Emitter, Call, list[Value]], Value]
Controls = dict[type | Op | GlobalVar, Control[Expr]]
CallRules = dict[Op | GlobalVar, CallRule]

# A rule takes nodes of the class that it is registered for, and is called with no others.

#: node class -> function (emitter, node, *values of its children)
COMBINE: Final[dict[type, Callable[[Emitter, Expr, *tuple[Value, ...]], Value]]] = {}
#: node class -> function (run, node) that schedules the operands itself
CONTROL: Final[Controls] = {}
#: operation -> function (emitter, call, values of the arguments)
CALLS: Final[CallRules] = {}
#: operation -> function (run, call) that schedules the arguments itself
CALL_CONTROL: Final[Controls] = {}
#: node class of index arithmetic -> function (emitter, node, a, b)
INDEX: Final[dict[type, Callable[[Emitter, BinaryOp, Value, Value], Value]]] = {}
#: node class, or operation of a call -> function (run, node) that schedules it as an index, where it leaves 32 bits
INDEX_CONTROL: Final[Controls] = {}


def _register(table: dict[Argument, Rule], keys: Iterable[Argument]) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        table.update(dict.fromkeys(keys, rule))
        return rule

    return register


def combine(
    *kinds: type[E],
) -> Callable[[Callable[Concatenate[Emitter, E, Values], Value]], Callable[Concatenate[Emitter, E, Values], Value]]:
    """Register the emission of nodes whose operands are simply evaluated first."""
    return cast(
        "Callable[[Callable[Concatenate[Emitter, E, Values], Value]], Callable[Concatenate[Emitter, E, Values], Value]]",
        _register(COMBINE, kinds),
    )


def control(*kinds: type[E], table: Controls = CONTROL) -> Callable[[Control[E]], Control[E]]:
    """Register the emission of nodes that decide when their operands are evaluated."""
    return cast("Callable[[Control[E]], Control[E]]", _register(table, kinds))


def call_rule(*names: str, table: CallRules = CALLS) -> Callable[[CallRule], CallRule]:
    """Register the emission of calls of operations whose arguments are simply evaluated first."""
    return _register(table, list(map(Op.get, names)))


def call_control(*names: str, table: Controls = CALL_CONTROL) -> Callable[[Control[Call]], Control[Call]]:
    """Register the emission of calls that decide when their arguments are evaluated."""
    return cast("Callable[[Control[Call]], Control[Call]]", _register(table, list(map(Op.get, names))))


_LEAVES: Final = frozenset({Var, IntImm, FloatImm, StringImm})


def leaf_value(em: Emitter, op: Expr) -> Value:
    """The value of a variable or constant."""
    if op.__class__ is Var:
        return em.lookup(op, op.span).value
    if op.__class__ is IntImm:
        return constant(em.type_of(op.dtype), op.value)
    if op.__class__ is FloatImm:
        return FLOAT_CONSTANT[0](em, op)
    if op.__class__ is StringImm:
        return em.module.string_constant(op.value)
    raise em.error(f"{type(op).__name__} is no expression that code can be generated for", op)


class Run:
    """The emission of one root."""

    __slots__ = ("em", "memo", "tasks", "trail")

    def __init__(self, em: Emitter) -> None:
        self.em = em
        self.memo: dict[int, Value] = {}
        self.trail: list[int] = []
        self.tasks: list[tuple[Callable[[Never], None], object]] = []

    # -- scheduling --------------------------------------------------------------------------------------------------

    def evaluate(self, op: Expr) -> None:
        """Schedule the value of an expression."""
        if op.__class__ not in _LEAVES:
            self.tasks.append((self._visit, op))

    def evaluate_index(self, op: Expr) -> None:
        """Schedule an expression as an index."""
        if op.__class__ is not IntImm:
            self.tasks.append((self._visit_index, op))

    @overload
    def then(self, fn: Callable[[None], None]) -> None: ...
    @overload
    def then(self, fn: Callable[[Argument], None], arg: Argument) -> None: ...
    def then(self, fn: Callable[[Never], None], arg: object = None) -> None:
        """Schedule a step. Steps run in the reverse of the order of scheduling."""
        self.tasks.append((fn, arg))

    def get(self, op: Expr) -> Value:
        """The value of an expression evaluated before."""
        found = self.memo.get(id(op))
        return leaf_value(self.em, op) if found is None else found

    def is_known(self, op: Expr) -> bool:
        """Whether an expression was evaluated before, and its value holds here."""
        return id(op) in self.memo

    def get_index(self, op: Expr) -> Value:
        """The index value of an expression evaluated before."""
        if op.__class__ is IntImm:
            return Value(I64, str(op.value))
        return self.memo[~id(op)]

    def set(self, op: Expr, value: Value) -> None:
        """Say what the value of an expression is."""
        key = id(op)
        self.memo[key] = value
        self.trail.append(key)

    def set_index(self, op: Expr, value: Value) -> None:
        """Say what the index value of an expression is."""
        key = ~id(op)
        self.memo[key] = value
        self.trail.append(key)

    def mark(self) -> int:
        """The state of knowledge, for :meth:`forget`."""
        return len(self.trail)

    def forget(self, mark: int) -> None:
        """Forget the values emitted since a mark: they do not dominate what follows."""
        for key in self.trail[mark:]:
            self.memo.pop(key, None)
        del self.trail[mark:]

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work off the tasks."""
        # Each stands with the argument that it takes.
        tasks = cast("list[tuple[Callable[[object], None], object]]", self.tasks)
        while tasks:
            fn, arg = tasks.pop()
            fn(arg)

    def _visit(self, op: Expr) -> None:
        if id(op) in self.memo:
            return
        handler = CONTROL.get(op.__class__)
        if handler is not None:
            handler(self, op)
            return
        if op.__class__ is Call and self._schedule_call(op):
            return
        tasks = self.tasks
        tasks.append((self._combine, op))
        for child in reversed(list(op.children())):
            if child.__class__ not in _LEAVES:
                tasks.append((self._visit, child))

    def _schedule_call(self, op: Call) -> bool:
        """Let schedule the arguments of a call what does that; False where they are simply evaluated."""
        platform, callee = self.em.state.platform, op.op
        found: Control[Call] | None = platform.controls.get(callee)
        if found is None and callee not in platform.calls:
            found = CALL_CONTROL.get(callee) or (None if callee in CALLS else platform.other_call)
        if found is not None:
            found(self, op)
        return found is not None

    def _combine(self, op: Expr) -> None:
        if id(op) in self.memo:
            return
        memo, em = self.memo, self.em
        args = []
        for child in op.children():
            found = memo.get(id(child))
            args.append(leaf_value(em, child) if found is None else found)
        if op.__class__ is Call:
            rules = em.state.platform.calls
            value = (rules.get(op.op) or CALLS[op.op])(em, op, args)
        else:
            rule = COMBINE.get(op.__class__)
            if rule is None:
                raise em.error(f"{type(op).__name__} is no expression that code can be generated for", op)
            value = rule(em, op, *args)
        self.set(op, value)

    def _visit_index(self, op: Expr) -> None:
        if ~id(op) in self.memo:
            return
        em, kind = self.em, op.dtype
        if op.__class__ is Var:
            if op in em.masked:
                keep_order(em, op)
            self.set_index(op, widened_var(em, op))
            return
        if kind.is_int and kind.bits in (32, 64) and kind.lanes == 1:
            if isinstance(op, BinaryOp) and not self._stays_narrow(op):
                self.tasks.append((self._combine_index, op))
                for child in (op.b, op.a):
                    if child.__class__ is not IntImm:
                        self.tasks.append((self._visit_index, child))
                return
            if op.__class__ is Cast and op.value.dtype.is_int and self._keeps_index(op):
                self.tasks.append((self._alias_index, op))
                self.evaluate_index(op.value)
                return
            exact = INDEX_CONTROL.get(op.op if op.__class__ is Call else op.__class__)
            if exact is not None and em.facts.leaves(op):
                exact(self, op)
                return
        self.tasks.append((self._extend, op))
        self.evaluate(op)

    def _stays_narrow(self, op: Expr) -> bool:
        """Whether index arithmetic is done in its own type: what may wrap, and on a GPU whatever depends on data or bits."""
        flags = self.em.facts.of(op).flags
        if flags & DATA and flags & WRAPS:
            return True
        return bool(flags & (DATA | BITS)) and not flags & LEAVES and not self.em.state.machine.wide_indices

    def _combine_index(self, op: BinaryOp) -> None:
        if ~id(op) not in self.memo:
            self.set_index(op, INDEX[op.__class__](self.em, op, self.get_index(op.a), self.get_index(op.b)))

    def _keeps_index(self, op: Cast) -> bool:
        """Whether a conversion of an index to another type changes no value that it may have."""
        facts, kind = self.em.facts, op.dtype
        if facts.of(op).flags & DATA:
            return False
        if op.value.dtype.bits <= kind.bits:
            return True
        low, high = facts.value_range(op.value)
        return bool(kind.min_value <= low and high <= kind.max_value)

    def _alias_index(self, op: Cast) -> None:
        self.set_index(op, self.get_index(op.value))

    def _extend(self, op: Expr) -> None:
        if is_masked(op, self.em.masked):
            keep_order(self.em, op)
        self.set_index(op, extend(self.em, self.get(op), op))


def widened_var(em: Emitter, var: Var) -> Value:
    """A variable as an index."""
    binding = em.lookup(var, var.span)
    return binding.wide if binding.wide is not None else extend(em, binding.value, var)


def extend(em: Emitter, value: Value, op: Expr) -> Value:
    """A scalar integer as an i64, by its sign."""
    if value.type is I64 or value.type.bits == 64:
        return value
    if not op.dtype.is_integral or op.dtype.is_vector:
        raise em.error(f"an index is a scalar integer, got {op.dtype!s}: {op}", op)
    return em.b.sext(value, I64) if op.dtype.is_int else em.b.zext(value, I64)


def value_of(em: Emitter, root: Expr) -> Value:
    """Emit an expression as a value."""
    if root.__class__ in _LEAVES:
        return leaf_value(em, root)
    run = Run(em)
    run.evaluate(root)
    run.run()
    return run.get(root)


def index_of(em: Emitter, root: Expr) -> Value:
    """Emit an expression as an index."""
    if root.__class__ is IntImm:
        return Value(I64, str(root.value))
    run = Run(em)
    run.evaluate_index(root)
    run.run()
    return run.get_index(root)


def values_of(em: Emitter, roots: Sequence[Expr]) -> list[Value]:
    """Emit expressions in order, sharing what they have in common."""
    run = Run(em)
    for root in reversed(roots):
        run.evaluate(root)
    run.run()
    return [run.get(root) for root in roots]


def in_branches(
    run: Run,
    cond: Value,
    then: Expr | Value,
    otherwise: Expr | Value,
    finish: Callable[[Phi], None],
    likely: bool | None = None,
    odds: int = 2000,
) -> None:
    """Schedule ``then if cond else otherwise``, each evaluated only where it is chosen. ``likely``: see the builder's."""
    em = run.em
    blocks = em.new_block("then"), em.new_block("else")
    after = em.new_block("choice")
    ends: list[tuple[Value, Block]] = []
    arms = (then, otherwise)
    mark = run.mark()
    direct: list[Block | None] = [None, None]
    start = em.b.block
    # An arm that is a value needs no block of its own.
    targets = [after if isinstance(arm, Value) else block for arm, block in zip(arms, blocks, strict=True)]
    for position, arm in enumerate(arms):
        if isinstance(arm, Value):
            direct[position] = start
            ends.append((arm, start))
    em.b.cond_br(cond, targets[0], targets[1], likely=likely, odds=odds)

    def end(arm: Expr) -> None:
        ends.append((run.get(arm), em.b.block))
        em.b.br(after)
        run.forget(mark)

    def begin(position: int) -> None:
        em.enter(blocks[position])

    def merge(_: object) -> None:
        em.enter(after)
        finish(em.b.phi(ends[0][0].type, "choice", ends))

    run.then(merge)
    for position in (1, 0):
        arm = arms[position]
        if not isinstance(arm, Value):
            run.then(end, arm)
            run.evaluate(arm)
            run.then(begin, position)


@control(Let)
def _let(run: Run, op: Let) -> None:
    _in_scope(run, op, as_index=False)


@control(Let, table=INDEX_CONTROL)
def _let_index(run: Run, op: Let) -> None:
    _in_scope(run, op, as_index=True)


def _in_scope(run: Run, op: Let, *, as_index: bool) -> None:
    """Schedule a let's value, and its body in the scope of the variable."""
    em = run.em

    def bind(_: object) -> None:
        em.facts.define_as(op.var, op.value)
        wide = None
        if exact:
            wide = run.get_index(op.value) if lanes is None else run.get(lanes)
        em.define(op.var, run.get(op.value), wide)
        pointer_alias(em, op.var, op.value)

    def done(_: object) -> None:
        if as_index:
            run.set_index(op, run.get_index(op.body))
        else:
            run.set(op, run.get(op.body))

    run.then(done)
    (run.evaluate_index if as_index else run.evaluate)(op.body)
    run.then(bind)
    run.evaluate(op.value)
    exact = em.facts.leaves(op.value)
    lanes = build.cast(INT64.with_lanes(op.var.dtype.lanes), op.value) if exact and op.var.dtype.is_vector else None
    if lanes is not None:
        em.facts.kept.append(lanes)
        run.evaluate(lanes)
    elif exact:
        run.evaluate_index(op.value)


def pointer_alias(em: Emitter, var: Var, value: Expr) -> None:
    """Where a handle variable is another pointer, or points into its memory, it shares what is known of that memory."""
    if not var.dtype.is_handle:
        return
    if value.__class__ is Var and value in em.kernel.roots:
        em.kernel.roots[var] = em.kernel.roots[value]


# Installed by the module that knows: constants of all float types.
FLOAT_CONSTANT: list[Callable[[Emitter, FloatImm], Value]] = []

ENGINE[:] = [value_of, index_of]
