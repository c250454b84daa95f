"""Guards: an assertion before each access that is not proved inside its buffer, and before no other.

A guard stands before the statement of its access, under the conditions under which the access is evaluated, or before
loops that would meet it first (:mod:`tirlower.legality.hoisted_guards`); everything before it has happened. It raises IndexError with the element, the index, the bounds and the loops' values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tirlower.analysis.purity import side_effect
from tirlower.diagnostics import Label, LegalityError, Span
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, MatchBufferRegion
from tirlower.ir.data import stop_of
from tirlower.ir.expr import BufferLoad, Div, Expr, FloorDiv, FloorMod, Mod, Var, const, is_const_int
from tirlower.ir.failure_message import failure
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import NodeT, pre_order_visit
from tirlower.ir.op import GlobalVar, Purity
from tirlower.ir.query import may_divide_by_zero
from tirlower.ir.refresh import refresh_binders
from tirlower.ir.stmt import Assert, Bind, Block, BufferStore, For, Seq, Stmt, seq
from tirlower.legality.bounds import BoundVerdicts, OpenAccess
from tirlower.legality.hoisted_guards import is_pipelined, lifted
from tirlower.legality.notes import AccessNote
from tirlower.legality.views import View
from tirlower.transforms.memory.bound_checkers import AccessGuardBuilder, AccessGuards, Place, Shown, lane_of, lanes_of

__all__ = ["insert_guards"]

_Division = Div | Mod | FloorDiv | FloorMod

MAX_SHOWN = 14
"""The values that a message shows beside the index and its bound."""


def insert_guards(
    name: str,
    func: PrimFunc,
    judged: BoundVerdicts,
    is_pure: Callable[[GlobalVar], bool],
    overflowing: Iterable[Stmt] = (),
    *,
    accesses: bool = True,
    lifts: bool = True,
) -> tuple[PrimFunc, tuple[AccessNote, ...]]:
    """The function with a guard before each open access, and a note on each access that got one.

    ``is_pure`` says of a call's operation that is a function of the module whether it has no effects. The variables of
    the loops ``overflowing`` may leave their types: these loops run up to the stop that they state, or get a guard too;
    with ``accesses=False`` nothing else does. With ``lifts`` guards stand before the loops that do not change them. Raises :class:`LegalityError` where a guard would have to evaluate a call
    with effects a second time.
    """
    guards = _Guards(name, judged, is_pure, {id(loop) for loop in overflowing}, accesses, lifts)
    made = func.with_body(guards.visit(func.body))
    return made, tuple(guards.notes.values())


def _escape(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _wide(index: Expr) -> Expr:
    """An index in int64, lanes and all."""
    dtype = index.dtype
    return build.cast(dtype.with_bits(64), index) if dtype.is_int and dtype.bits < 64 else index


class _Values:
    """The values of a message, each with its number in the template."""

    def __init__(self, *first: Expr) -> None:
        self.values = list(first)

    def add(self, value: Expr) -> str:
        """The placeholder of a value."""
        self.values.append(value)
        return f"{{{len(self.values) - 1}}}"

    @property
    def full(self) -> bool:
        """Whether no further value can be shown."""
        return len(self.values) >= MAX_SHOWN + 2


class _GuardBuilder(AccessGuardBuilder):
    """The guards of one statement."""

    def __init__(self, op: Stmt, owner: _Guards) -> None:
        super().__init__(op.span)
        self.owner = owner
        self.divisions: list[tuple[_Division, Place]] = []
        """What the statement has divided so far, and no guard in front of it has asked for its divisor."""

    def on_FloorDiv(self, op: _Division, place: Place) -> list[tuple[Expr, Place, bool]]:
        """A division of integers may fail before the accesses behind it are reached."""
        return [*self.otherwise(op, place), *([(op, place, True)] if may_divide_by_zero(op) else [])]

    on_FloorMod = on_Div = on_Mod = on_FloorDiv

    def evaluated(self, op: Expr, place: Place) -> None:
        """The guards of an access; a division is remembered for the guards behind it."""
        if isinstance(op, _Division):
            self.divisions.append((op, place))
        else:
            super().evaluated(op, place)

    def wanted(self, node: BufferLoad | BufferStore, axis: int) -> bool:
        """Whether a subscript is open. What the analysis did not come across is."""
        if not self.owner.accesses:
            return False
        found = self.owner.judged.open.get(id(node))
        if found is not None:
            return axis in found.axes
        return id(node) not in self.owner.judged.known

    def access(self, node: BufferLoad | BufferStore, place: Place) -> None:
        """The guards of an access: of its subscripts, of the region that it is in, of the memory behind a view."""
        super().access(node, place)
        found = self.owner.judged.open.get(id(node))
        if found is None or not self.owner.accesses:
            return
        if found.source:
            self._source(node, place)
        if found.view is not None:
            self._view(node, place, found.view)

    def message(self, node: BufferLoad | BufferStore, axis: int, which: str, shown: Shown) -> Expr:
        """The text of a guard on a subscript."""
        values = _Values(shown.index, shown.extent)
        element = self._element(node, values, shown, axis)
        text = f"{element} is out of bounds: index {{0}}{which} of dimension {axis} is outside 0 <= index < {{1}}"
        return self._failure(text, values)

    def _element(self, node: BufferLoad | BufferStore, values: _Values, shown: Shown, axis: int | None) -> str:
        """``A[3, 9]``, or the access as it is written where it has vectors."""
        if any(not index.dtype.is_scalar for index in node.indices) or len(node.indices) > MAX_SHOWN // 2:
            text = f"{node.buffer.name}[{', '.join(map(str, node.indices))}]"
            return _escape(text if len(text) <= 80 else f"{node.buffer.name}[…]")
        parts = ["{0}" if at == axis else values.add(shown.copy(index)) for at, index in enumerate(node.indices)]
        return f"{_escape(node.buffer.name)}[{', '.join(parts)}]"

    def _failure(self, text: str, values: _Values) -> Expr:
        loops = []
        for label, var in self.owner.visible:
            if not values.full:
                loops.append(f"{_escape(label)} = {values.add(var)}")
        return failure("IndexError", f"{text}, at {', '.join(loops)}" if loops else text, *values.values)

    def _source(self, node: BufferLoad | BufferStore, place: Place) -> None:
        """The element of the buffer that a matched region is of."""
        indices = list(node.indices)
        buffer: Buffer = node.buffer
        while buffer in self.owner.matched:
            source = self.owner.matched[buffer].source
            mins = [part.min for part in source.region]
            lead = len(mins) - len(indices)
            # In int64, where the sum of the two does not wrap.
            inner = [build.add(_wide(low), _wide(index)) for low, index in zip(mins[lead:], indices, strict=True)]
            indices, buffer = [*mins[:lead], *inner], source.buffer
        for axis, (index, extent) in enumerate(zip(indices, buffer.shape, strict=True)):
            for which, scalar in lanes_of(index):
                what = f"which is of a region of {_escape(buffer.name)}, is out of bounds: index {{0}}{which} of dimension {axis}"
                self._require(node, place, scalar, extent, f"{what} is outside 0 <= index < {{1}}")

    def _view(self, node: BufferLoad | BufferStore, place: Place, view: View) -> None:
        """The address of an access through a view."""
        for which, scalar in lanes_of(node.indices[-1]) if node.indices else [("", None)]:
            indices = [*node.indices[:-1], scalar] if scalar is not None else []
            offset = build.cast("int64", node.buffer.offset_of([_wide(index) for index in indices]))
            if view.scale != 1:
                offset = build.mul(offset, const(view.scale, "int64"))
            offset = build.add(offset, view.start)
            what = (
                f"is outside the memory of {_escape(view.owner.name)}: {view.unit} {{0}}{which} of {{1}} {view.unit}s"
            )
            self._require(node, place, offset, view.limit, what)

    def _require(self, node: BufferLoad | BufferStore, place: Place, index: Expr, extent: Expr, problem: str) -> None:
        index, extent = build.match_types(index, extent)
        inside = build.logical_and(build.ge(index, const(0, index.dtype)), build.lt(index, extent))
        shown = Shown(place.value(index), extent, place.value)
        values = _Values(shown.index, extent)
        text = f"{self._element(node, values, shown, None)}{',' if problem.startswith('which') else ''} {problem}"
        self.require(place.fact(inside), self._failure(text, values), node)

    def require(self, condition: Expr, message: Expr, node: BufferLoad | BufferStore) -> None:
        """Add a guard; its condition is evaluated in addition to the access, so it must have no effect."""
        if side_effect(condition, self.owner.is_pure) > Purity.READS:
            raise LegalityError(
                f"the access {node} of {self.owner.function!r} is not proved inside its buffer, and a guard would "
                "evaluate a call with effects a second time",
                origin="legality",
                labels=[Label(node.span, "this access")] if node.span is not None else [],
                help="bind the value to a variable first: `k: T.int32 = …`, then use k",
            )
        self.owner.note(node)
        self._divided(condition)
        self._add(condition, message, node.span)

    def _divided(self, condition: Expr) -> None:
        """Guards of the divisions in front of an access, whose error comes first. ``condition`` evaluates its own."""
        inside: set[int] = set()
        if self.divisions:
            pre_order_visit(condition, lambda op: inside.add(id(op)))
        for op, place in self.divisions:
            for lane in () if id(op) in inside else range(op.dtype.lanes):
                a, b = (op.a, op.b) if op.dtype.is_scalar else (lane_of(op.a, lane), lane_of(op.b, lane))
                # Each copy of a Let has a variable of its own.
                copy: Callable[[Expr], Expr] = refresh_binders if self.lets else lambda expr: expr
                message = failure("ZeroDivisionError", "division by zero: {0} divided by 0", copy(place.value(a)))
                self._add(copy(place.fact(build.ne(b, const(0, b.dtype)))), message, op.span)
        self.divisions.clear()

    def _add(self, condition: Expr, message: Expr, span: Span | None) -> None:
        guard = Assert(condition, message, span=span or self.span)
        self.owner.kept.append(guard)
        self.owner.guards.add(id(guard))
        self.asserts.append(guard)


class _Guards(AccessGuards):
    """Inserts guards, and keeps the loops (or block iterators) that can be named where it is."""

    def __init__(
        self,
        function: str,
        judged: BoundVerdicts,
        is_pure: Callable[[GlobalVar], bool],
        overflowing: set[int],
        accesses: bool,
        lifts: bool,
    ) -> None:
        self.function = function
        self.is_pure = is_pure
        self.judged = judged
        self.overflowing = overflowing
        self.accesses = accesses
        self.visible: list[tuple[str, Var]] = []
        self.matched: dict[Buffer, MatchBufferRegion] = {}
        self.notes: dict[int, AccessNote] = {}
        self.lifts = lifts
        self.pipelined = 0
        self.guards: set[int] = set()
        self.kept: list[Assert] = []
        """The guards, which live as long as their ids are asked for."""

    def checks(self, op: Stmt) -> AccessGuardBuilder:
        """The guards of a statement."""
        return _GuardBuilder(op, self)

    def note(self, node: BufferLoad | BufferStore) -> None:
        """Remember that an access has a guard."""
        if id(node) not in self.notes:
            found = self.judged.open.get(id(node)) or _unseen(node)
            self.notes[id(node)] = AccessNote(self.function, found.text, found.place, found.reason)

    def visit_Bind(self, op: Bind) -> Stmt:
        made = super().visit_Bind(op)
        held = self.judged.held.get(id(op)) if self.accesses else None
        if held is None:
            return made
        return Seq((*(made.stmts[:-1] if isinstance(made, Seq) else ()), held, op))

    def visit_For(self, op: For) -> Stmt:
        self.pipelined += is_pipelined(op)
        made: Stmt = super().visit_For(op)
        self.pipelined -= is_pipelined(op)
        *before, loop = made.stmts if isinstance(made, Seq) else (made,)
        # From 0 on nothing wraps but what the extent itself is computed of.
        if self.lifts and not self.pipelined and (id(op) not in self.overflowing or is_const_int(op.min, 0)):
            found, loop = lifted(loop, self.guards)
            self.guards.update(id(guard) for guard in found)
            self.kept += found
            before += found
            made = seq(*before, loop) if found else made
        if id(op) not in self.overflowing:
            return made
        if max(side_effect(part, self.is_pure) for part in (op.min, op.extent)) > Purity.READS:
            raise LegalityError(
                f"the loop {op.loop_var.name} of {self.function!r} may leave its type, and a guard would evaluate a call "
                "with effects a second time",
                origin="legality",
                labels=[Label(op.span, "this loop")] if op.span is not None else [],
                help="bind the bounds to variables first",
            )
        kind, stop = op.loop_var.dtype, stop_of(op)
        if stop is not None:
            starts = build.lt(op.min, stop)
            loop = loop.with_(extent=build.if_then_else(starts, op.extent, const(0, kind)))
            # What wraps to a negative number are more iterations than a number of the type.
            fits = build.logical_or(build.logical_not(starts), build.gt(op.extent, const(0, kind)))
            text = f"from {{0}} up to {{1}}, more iterations than {kind!s} counts"
            return seq(*before, self._counting(op, fits, text, stop), loop)
        room = build.sub(
            const(int(kind.max_value), kind), build.sub(build.max_(op.min, const(1, kind)), const(1, kind))
        )
        text = f"from {{0}} over {{1}} iterations, past the values of {kind!s}"
        return seq(*before, self._counting(op, build.le(op.extent, room), text, op.extent), loop)

    def _counting(self, op: For, fits: Expr, text: str, end: Expr) -> Stmt:
        """The guard of a loop that may leave its type."""
        failed = _GuardBuilder(op, self)._failure(
            f"the loop {_escape(op.loop_var.name)} runs {text}", _Values(op.min, end)
        )
        return Assert(fits, failed, span=op.span)

    def nested(self, op: NodeT) -> NodeT:
        """A loop or block with its body rewritten: its variable or iterators can be shown there."""
        before = self.visible
        if isinstance(op, For):
            self.visible = [*before, (op.loop_var.name, op.loop_var)]
        elif isinstance(op, Block):
            self.visible = self._in_block(op)
            for match in op.match_buffers:
                self.matched[match.buffer] = match
        made = super().nested(op)
        self.visible = before
        return made

    def _in_block(self, op: Block) -> list[tuple[str, Var]]:
        """A block with iterators names those alone; one that stands for a loop's variable goes by its name."""
        if not op.iters:
            return self.visible
        names = {id(var): label for label, var in self.visible}
        return [(names.get(id(it.value), it.var.name), it.var) for it in op.iters]


def _unseen(node: BufferLoad | BufferStore) -> OpenAccess:
    text = f"{node.buffer.name}[{', '.join(map(str, node.indices))}]"
    return OpenAccess(
        text, "" if node.span is None else str(node.span), "the analysis does not know when it is evaluated"
    )
