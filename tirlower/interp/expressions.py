"""Expressions as closures: each node becomes a function from a frame to its value, built once.

The walk over an expression uses an explicit stack; an operand that several nodes share is evaluated once for each
evaluation of the whole, so that a chain of ``e + e`` costs its distinct nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from tirlower.diagnostics import InterpreterError
from tirlower.interp.access import Access, Layout, make_view
from tirlower.interp.custom import custom_call, custom_cast, custom_constant, custom_operation, is_custom_call
from tirlower.interp.indices import SHIFTS, is_exact, takes_exact, wrapped
from tirlower.interp.memory import Pointer, View
from tirlower.interp.races import WatchedAccess
from tirlower.interp.scope import Frame, Place, Scope, Value, shared_nodes, ways_into
from tirlower.interp.values import (
    UNDEF,
    Binary,
    Datum,
    Function,
    caster,
    integer_wrapper,
    lane_values,
    operation,
    shift,
)
from tirlower.ir import expr as ir
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import INT64, DataType
from tirlower.ir.expr import BinaryOp, Call, CompareOp, Expr, IntImm
from tirlower.ir.functor import by_class
from tirlower.ir.op import GlobalVar, Op, Purity

if TYPE_CHECKING:
    from tirlower.interp.interpreter import Program

__all__ = ["INTRINSICS", "VSCALE", "Builder", "ExpressionCompiler", "intrinsic", "lifted"]

VSCALE = 2
"""What ``T.vscale()`` is here: a legal value that is not 1, so that code which forgets it shows."""

Builder = Callable[["ExpressionCompiler", Call, list[Value]], Value]
NodeBuilder = Callable[["ExpressionCompiler", object, list[Value]], Value]
INTRINSICS: dict[Op, Builder] = {}
"""How a call of each operation becomes a closure, from the closures of its arguments."""

_MISSING = object()
_OWN_ARGUMENTS: set[Op] = set()


def intrinsic(*names: str, own_arguments: bool = False) -> Callable[[Builder], Builder]:
    """Register the builder of operations by their names. Raises TirError for an unknown one.

    With ``own_arguments`` the builder gets no closures and compiles those arguments that it evaluates.
    """

    def register(builder: Builder) -> Builder:
        for name in names:
            INTRINSICS[Op.get(name)] = builder
            if own_arguments:
                _OWN_ARGUMENTS.add(Op.get(name))
        return builder

    return register


def lifted(fn: Function, args: Sequence[Value], vector: bool) -> Value:
    """A scalar function applied to evaluated arguments, lane by lane when ``vector``.

    Lanes in which an argument is undefined are undefined; scalar arguments of a vector call serve every lane.
    """
    if not vector:
        if len(args) == 1:
            (a,) = args
            return lambda frame: fn(a(frame))
        if len(args) == 2:
            a, b = args
            return lambda frame: fn(a(frame), b(frame))
        return lambda frame: fn(*[arg(frame) for arg in args])

    def run(frame: Frame) -> tuple[Datum, ...]:
        values = [arg(frame) for arg in args]
        lanes = max(len(v) for v in values if v.__class__ is tuple)
        columns = [v if v.__class__ is tuple else (v,) * lanes for v in values]
        return tuple([UNDEF if _any_undefined(row) else fn(*row) for row in zip(*columns, strict=True)])

    return run


def _lanewise(left: Value, right: Value, decisive: bool) -> Value:
    """And (``decisive`` False) or Or (True) of vectors: lanes that the left side decides do not use the right one."""

    def lane(x: Datum, y: Datum) -> Datum:
        if x is UNDEF:
            return UNDEF
        return decisive if bool(x) is decisive else UNDEF if y is UNDEF else bool(y)

    return lambda frame: tuple([lane(x, y) for x, y in zip(left(frame), right(frame), strict=True)])


def _both(first: Callable[[Frame], bool] | None, then: Callable[[Frame], bool]) -> Callable[[Frame], bool]:
    """Whether two conditions hold, of which the second one stands around the first."""
    return then if first is None else lambda frame: then(frame) and first(frame)


def _any_undefined(row: tuple[Datum, ...]) -> bool:
    return any(value is UNDEF for value in row)


_BINARY = frozenset((*BinaryOp.__subclasses__(), *CompareOp.__subclasses__()))


def operands(node: Expr) -> tuple[Expr, ...]:
    """The expressions that are evaluated for a node: its children, unless its builder sees to them."""
    if node.is_leaf or (node.__class__ is Call and node.op in _OWN_ARGUMENTS):
        return ()
    if isinstance(node, (BinaryOp, CompareOp)):
        return node.a, node.b
    return tuple(node.children())


class ExpressionCompiler(Scope):
    """Compiles expressions in a scope."""

    _builders: ClassVar[dict[type, NodeBuilder]] = {}

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def expression(self, root: Expr, *, exact: bool = False) -> Value:
        """The closure of an expression; of an index, with ``exact``, as the number that it is, else as its type holds it.

        Raises InterpreterError for what has no meaning here.
        """
        if root.is_leaf:
            closure = self._build(root, [])
            return wrapped(closure, root.dtype) if root in self.beyond and not exact else closure
        mark = self.mark()
        order = list(shared_nodes(root, operands))
        lets: dict[Expr, Expr] = {}
        for node, _, _ in order:
            if node.__class__ is ir.Let:
                self.define(node.var)
                lets[node.var] = node.value
        compiled: dict[int, Value] = {}
        indices: set[int] = set()
        beyond: set[int] = set()  # the indices of 32 bits that may be past their type
        impure: set[int] = set()
        acting: set[int] = set()  # what may not be evaluated once more: effects other than calls made together
        together: dict[int, range] = {}
        memo_slots: list[int] = []
        for node, children, shared in order:
            bound = lets.get(node)
            is_index = self._note(node, bound, indices)
            if is_index and node.dtype.is_int and node.dtype.bits == 32:
                if not node.is_leaf or node in self.beyond or id(bound) in beyond:
                    beyond.add(id(node))
            args = [compiled[id(child)] for child in children]
            if beyond and not takes_exact(node, is_index):
                args = [
                    wrapped(arg, child.dtype) if id(child) in beyond else arg
                    for arg, child in zip(args, children, strict=True)
                ]
            calls = len(self.collectives)
            closure = self._exact(node, args) if id(node) in beyond else self._build(node, args)
            has_effect = _has_effect(node)
            if len(self.collectives) > calls:
                together[id(node)] = range(calls, len(self.collectives))
            elif has_effect or (acting and any(id(child) in acting for child in children)):
                acting.add(id(node))
            if has_effect or (impure and any(id(child) in impure for child in children)):
                impure.add(id(node))
            elif shared and children:
                slot = self.hidden()
                memo_slots.append(slot)
                closure = _remembered(closure, slot)
            compiled[id(node)] = closure
        self.leave(mark)
        if together:
            self._note_arms(root, together, compiled, acting, memo_slots)
        result = compiled[id(root)]
        if id(root) in beyond and not exact:
            result = wrapped(result, root.dtype)
        if not memo_slots:
            return result

        def with_memo(frame: Frame) -> Datum:
            for slot in memo_slots:
                frame[slot] = _MISSING
            return result(frame)

        return with_memo

    def _note_arms(
        self,
        root: Expr,
        together: dict[int, range],
        compiled: dict[int, Value],
        acting: set[int],
        memo_slots: list[int],
    ) -> None:
        """Say of the calls that threads make together inside an expression, by node, which threads come to them.

        Of conditions with effects of their own, and of what a let binds, all are taken to come.
        """
        ways = ways_into(root, set(together), lambda condition: id(condition) not in acting)
        for node, guards in ways.items():
            if not all(guards):
                continue  # one way is open to all
            conditions = [[(compiled[id(condition)], holds) for condition, holds in way] for way in guards]

            def reached(frame: Frame, conditions: list[list[tuple[Value, bool]]] = conditions) -> bool:
                for slot in memo_slots:
                    frame[slot] = _MISSING
                return any(all(bool(value(frame)) is holds for value, holds in way) for way in conditions)

            for at in together[node]:
                call = self.collectives[at]
                self.collectives[at] = call._replace(reached=_both(call.reached, reached))

    def _build(self, node: Expr, args: list[Value]) -> Value:
        builder = self._builders.get(node.__class__)
        if builder is None:
            raise InterpreterError(f"{type(node).__name__} is no expression of the IR", span=node.span)
        return builder(self, node, args)

    def _note(self, node: Expr, bound: Expr | None, indices: set[int]) -> bool:
        """Whether a node is made of no data, noted in ``indices``."""
        index = is_exact(node, indices, self.data) if bound is None else id(bound) in indices
        if index:
            indices.add(id(node))
        return index

    def bind(self, var: ir.Var, value: Expr) -> None:
        """Note whether a variable is an index, which may be past its type, or data."""
        indices: set[int] = set()
        lets: dict[Expr, Expr] = {}
        for node, _, _ in shared_nodes(value, lambda op: () if op.is_leaf else tuple(op.children())):
            if node.__class__ is ir.Let:
                lets[node.var] = node.value
            self._note(node, lets.get(node), indices)
        index = id(value) in indices
        (self.data.discard if index else self.data.add)(var)
        past = index and var.dtype.is_int and var.dtype.bits == 32 and value.__class__ is not ir.IntImm
        (self.beyond.add if past else self.beyond.discard)(var)

    def _exact(self, node: Expr, args: list[Value]) -> Value:
        """Index arithmetic of 32 bits, computed in 64."""
        if isinstance(node, BinaryOp):
            return lifted(operation(type(node).__name__, INT64), args, node.dtype.is_vector)  # type: ignore[arg-type]
        if node.__class__ is Call and node.op in SHIFTS:
            return lifted(shift(node.op.name, INT64, node.dtype.bits), args, node.dtype.is_vector)
        return self._ramp(node, args, INT64) if node.__class__ is ir.Ramp else self._build(node, args)

    # ------------------------------------------------------------ buffers

    def layout(self, buffer: Buffer) -> Layout:
        """The compiled shape, strides and offset of a buffer."""
        parts = (*buffer.shape, *buffer.strides, buffer.elem_offset)
        return Layout(
            buffer,
            tuple([self.expression(extent, exact=True) for extent in buffer.shape]),
            tuple([self.expression(stride, exact=True) for stride in buffer.strides]),
            self.expression(buffer.elem_offset, exact=True),
            all(isinstance(part, IntImm) for part in parts),
        )

    def view(self, buffer: Buffer, place: Place) -> Value:
        """The view of a buffer: of a declared one from its slot, of any other through its data variable."""
        slot = self.views.get(buffer)
        if slot is not None:
            return lambda frame: frame[slot]
        data = self.variable(buffer.data, place.span)
        layout = self.layout(buffer)
        if not layout.constant:
            return lambda frame: make_view(layout, data(frame), frame, place)
        cache = self.hidden()

        def cached(frame: Frame) -> View:
            pointer = data(frame)
            held = frame[cache]
            if held is None or held[0] is not pointer:
                held = frame[cache] = (pointer, make_view(layout, pointer, frame, place))
            view: View = held[1]
            return view

        return cached

    def access(self, buffer: Buffer, indices: Sequence[Value], predicate: Value | None, place: Place) -> Access:
        """An access of a buffer at compiled indices."""
        detector = self.program.detector
        if detector is None:
            return Access(buffer, self.view(buffer, place), indices, predicate, place)
        made = WatchedAccess(buffer, self.view(buffer, place), indices, predicate, place)
        made.detector = detector
        return made

    # ------------------------------------------------------------ nodes

    def _var(self, node: ir.Var, args: list[Value]) -> Value:
        return self.variable(node, node.span)

    def _int(self, node: IntImm, args: list[Value]) -> Value:
        value = bool(node.value) if node.dtype.is_bool else node.value
        return lambda frame: value

    def _literal(self, node: ir.FloatImm | ir.StringImm, args: list[Value]) -> Value:
        value = custom_constant(node) if isinstance(node, ir.FloatImm) and node.dtype.is_custom else node.value
        return lambda frame: value

    def _cast(self, node: ir.Cast, args: list[Value]) -> Value:
        source, target = node.value.dtype, node.dtype
        if source.is_custom or target.is_custom:
            return lifted(custom_cast(node), args, target.is_vector)
        return lifted(caster(source, target), args, node.dtype.is_vector)

    def _binary(self, node: BinaryOp | CompareOp, args: list[Value]) -> Value:
        dtype = node.a.dtype
        fn = custom_operation(node) if dtype.is_custom else operation(type(node).__name__, dtype)
        if fn is None:
            raise InterpreterError(f"{type(node).__name__} has no meaning on {dtype!s}: {node}", span=node.span)
        if dtype.is_scalar:
            a, b = args
            compute: Binary = fn
            return lambda frame: compute(a(frame), b(frame))
        return lifted(fn, args, True)

    def _and(self, node: ir.And, args: list[Value]) -> Value:
        a, b = args
        if node.dtype.is_scalar:
            return lambda frame: bool(a(frame)) and bool(b(frame))
        return _lanewise(a, b, False)

    def _or(self, node: ir.Or, args: list[Value]) -> Value:
        a, b = args
        if node.dtype.is_scalar:
            return lambda frame: bool(a(frame)) or bool(b(frame))
        return _lanewise(a, b, True)

    def _not(self, node: ir.Not, args: list[Value]) -> Value:
        return lifted(lambda x: not x, args, node.dtype.is_vector)

    def _select(self, node: ir.Select, args: list[Value]) -> Value:
        return selection(args, node.dtype.is_vector)

    def _load(self, node: ir.BufferLoad, args: list[Value]) -> Value:
        count = len(node.indices)
        predicate = args[count] if node.predicate is not None else None
        return self.access(node.buffer, args[:count], predicate, self.place(node.span)).load(node.dtype.is_vector)

    def _lanes(self, lanes: int | Expr) -> Callable[[Frame], int]:
        if isinstance(lanes, int):
            return lambda frame: lanes
        return self.expression(lanes)

    def _ramp(self, node: ir.Ramp, args: list[Value], dtype: DataType | None = None) -> Value:
        base, stride = args
        lanes = self._lanes(node.lanes)
        wrap = integer_wrapper(dtype or node.base.dtype)

        def run(frame: Frame) -> tuple[int, ...]:
            first, step = base(frame), stride(frame)
            return tuple([wrap(first + lane * step) for lane in range(lanes(frame))])

        return run

    def _broadcast(self, node: ir.Broadcast, args: list[Value]) -> Value:
        (value,) = args
        lanes = self._lanes(node.lanes)
        return lambda frame: lane_values(value(frame)) * lanes(frame)

    def _shuffle(self, node: ir.Shuffle, args: list[Value]) -> Value:
        vectors, indices = args[: len(node.vectors)], args[len(node.vectors) :]
        scalar = node.dtype.is_scalar

        def run(frame: Frame) -> Datum:
            lanes: list[Datum] = []
            for vector in vectors:
                lanes += lane_values(vector(frame))
            picked = [lanes[index(frame)] for index in indices]
            return picked[0] if scalar else tuple(picked)

        return run

    def _let(self, node: ir.Let, args: list[Value]) -> Value:
        value, body = args
        slot = self.slots[node.var]

        def run(frame: Frame) -> Datum:
            frame[slot] = value(frame)
            return body(frame)

        return run

    def _call(self, node: Call, args: list[Value]) -> Value:
        op = node.op
        if isinstance(op, GlobalVar):
            name, dtype, place = op.name, node.dtype, self.place(node.span)
            self.program.need_function(name, place)
            return lambda frame: self.program.call_function(name, [arg(frame) for arg in args], dtype, frame)
        if is_custom_call(node):
            return lifted(custom_call(node), args, node.dtype.is_vector)
        builder = INTRINSICS.get(op)
        if builder is None:
            raise InterpreterError(
                f"the interpreter has no meaning for {op.name}",
                origin="interpret",
                span=node.span,
                help="interpret an earlier stage of the program, or register it as an extern",
            )
        return builder(self, node, args)


def selection(args: Sequence[Value], vector: bool) -> Value:
    """``Select``: every argument is evaluated, then one value (of each lane) chosen."""
    condition, true_value, false_value = args
    if not vector:

        def run(frame: Frame) -> Datum:
            chosen, a, b = condition(frame), true_value(frame), false_value(frame)
            return a if chosen else b

        return run

    def run_lanes(frame: Frame) -> tuple[Datum, ...]:
        chosen, a, b = condition(frame), true_value(frame), false_value(frame)
        if chosen.__class__ is not tuple:
            whole: tuple[Datum, ...] = a if chosen else b
            return whole
        return tuple([UNDEF if c is UNDEF else x if c else y for c, x, y in zip(chosen, a, b, strict=True)])

    return run_lanes


def _has_effect(node: Expr) -> bool:
    if node.__class__ is not Call:
        return False
    return not isinstance(node.op, Op) or node.op.purity >= Purity.WRITES


def _remembered(closure: Value, slot: int) -> Value:
    def run(frame: Frame) -> Datum:
        value = frame[slot]
        if value is _MISSING:
            value = frame[slot] = closure(frame)
        return value

    return run


ExpressionCompiler._builders = by_class(
    {
        **dict.fromkeys(_BINARY, ExpressionCompiler._binary),
        ir.Var: ExpressionCompiler._var,
        IntImm: ExpressionCompiler._int,
        ir.FloatImm: ExpressionCompiler._literal,
        ir.StringImm: ExpressionCompiler._literal,
        ir.Cast: ExpressionCompiler._cast,
        ir.And: ExpressionCompiler._and,
        ir.Or: ExpressionCompiler._or,
        ir.Not: ExpressionCompiler._not,
        ir.Select: ExpressionCompiler._select,
        ir.BufferLoad: ExpressionCompiler._load,
        ir.Ramp: ExpressionCompiler._ramp,
        ir.Broadcast: ExpressionCompiler._broadcast,
        ir.Shuffle: ExpressionCompiler._shuffle,
        ir.Let: ExpressionCompiler._let,
        Call: ExpressionCompiler._call,
    }
)


def pointer_value(value: Datum, what: str, place: Place) -> Pointer:
    """A value that must be a pointer. Raises InterpreterError when it is null or anything else."""
    if isinstance(value, Pointer):
        return value
    raise InterpreterError(
        f"{what} needs a pointer to memory, got {'a null pointer' if value is None else repr(value)}",
        origin="interpret",
        span=place.span,
    )
