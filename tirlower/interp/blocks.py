"""Blocks: an instance binds its iterators, checks its predicate, initialises at the start of a reduction, and runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tirlower.diagnostics import BoundsError, InterpreterError
from tirlower.interp.access import Layout
from tirlower.interp.memory import View
from tirlower.interp.scope import Frame, Loops, Place, Team, Value
from tirlower.interp.values import Fault
from tirlower.ir.buffer import IterKind, MatchBufferRegion
from tirlower.ir.custom_datatype import element_numpy
from tirlower.ir.expr import Expr, Var, is_const_int
from tirlower.ir.stmt import AllocBuffer, Block, Seq

if TYPE_CHECKING:
    from tirlower.interp.statements import StatementCompiler

__all__ = ["compile_block"]


def compile_block(compiler: StatementCompiler, block: Block) -> Callable[[Team], Team]:
    """The runner of a block.

    Raises InterpreterError (when it runs) for an iterator outside its domain where the predicate holds.
    """
    if any(it.value is None for it in block.iters):
        raise InterpreterError(
            f"block {block.name!r} has an iterator without a binding", span=block.span, help="bind every iterator"
        )
    mark = compiler.mark()
    place = compiler.place(block.span)
    values = [it.value for it in block.iters if it.value is not None]
    bindings = [compiler.expression(value, exact=True) for value in values]
    lows = [compiler.expression(it.domain.min, exact=True) for it in block.iters]
    extents = [compiler.expression(it.domain.extent, exact=True) for it in block.iters]
    slots = [compiler.define(it.var) for it in block.iters]
    for it, value in zip(block.iters, values, strict=True):
        compiler.bind(it.var, value)
    for it, slot in zip(block.iters, slots, strict=True):
        compiler.loops = Loops(compiler.loops, it.var.name, slot)
    inner_place = compiler.place(block.span)
    predicate = None if is_const_int(block.predicate, 1) else compiler.expression(block.predicate)
    own = block.matches_own
    outer = () if own else block.match_buffers
    matches = [_match(compiler, match, inner_place) for match in outer]
    stmts = block.body.stmts if isinstance(block.body, Seq) else (block.body,)
    # Allocations that head the body are in scope in the init too, and in matched regions of them, so they come before.
    heads = 0
    if block.init is not None or own:
        while heads < len(stmts) and isinstance(stmts[heads], AllocBuffer):
            heads += 1
    allocate = compiler.sequence(stmts[:heads]) if heads else None
    inner = [_match(compiler, match, inner_place) for match in block.match_buffers] if own else []
    init = None
    if block.init is not None:
        init_mark = compiler.mark()
        init = compiler.statement(block.init)
        compiler.leave(init_mark)
    body = compiler.sequence(stmts[heads:]) if len(stmts) - heads != 1 else compiler.statement(stmts[heads])
    compiler.leave(mark)
    iters = list(zip(slots, bindings, lows, extents, strict=True))
    reduce = [(slot, low) for it, slot, low in zip(block.iters, slots, lows, strict=True) if it.kind is IterKind.REDUCE]

    def enter(frame: Frame) -> bool:
        for slot, binding, _, _ in iters:
            frame[slot] = binding(frame)
        if predicate is not None and not predicate(frame):
            return False
        for slot, _, low, extent in iters:
            start = low(frame)
            if not start <= frame[slot] < start + extent(frame):
                _outside(block, slots.index(slot), frame, slot, start, extent(frame), inner_place)
        for match in matches:
            match(frame)
        return True

    def run(team: Team) -> Team:
        active = team
        frame = team[0]
        try:
            if len(team) == 1:
                if not enter(frame):
                    return team
            else:
                entered = []
                for frame in team:
                    if enter(frame):
                        entered.append(frame)
                if not entered:
                    return team
                if len(entered) != len(team):
                    active = entered
            if allocate is not None:
                allocate(active)
            for frame in active if inner else ():
                for match in inner:
                    match(frame)
            if init is not None:
                starting = active
                if reduce:
                    starting = [f for f in active if all(f[slot] == low(f) for slot, low in reduce)]
                if starting:
                    init(starting)
        except Fault as fault:
            raise place.error(fault, frame) from None
        if body(active) is active:
            return team
        return [frame for frame in team if frame[0].signal is None]

    return run


def _outside(block: Block, position: int, frame: Frame, slot: int, low: int, extent: int, place: Place) -> None:
    var = block.iters[position].var
    raise InterpreterError(
        f"iterator {var.name!r} of block {block.name!r} has the value {frame[slot]}, outside its domain "
        f"{low} <= {var.name} < {low + extent}",
        origin="interpret",
        span=place.span,
        notes=place.notes(frame),
        help="guard the instance with T.where, or correct the domain or the binding",
    )


def _match(compiler: StatementCompiler, match: MatchBufferRegion, place: Place) -> Callable[[Frame], None]:
    """Bind a buffer to a region of another: its variables from the source's layout, its constants checked."""
    buffer, region = match.buffer, match.source.region
    source = compiler.view(match.source.buffer, place)
    mins = [compiler.expression(part.min, exact=True) for part in region]
    sizes = [compiler.expression(part.extent, exact=True) for part in region]
    lead = len(region) - len(buffer.shape)
    if lead < 0:
        raise InterpreterError(
            f"buffer {buffer.name!r} has more dimensions than the region it matches", span=place.span
        )
    wrong = next(
        (
            f"{what} {mine}, that of {match.source.buffer.name!r} is {theirs}"
            for what, mine, theirs in (
                ("dtype", buffer.dtype, match.source.buffer.dtype),
                ("scope", buffer.scope, match.source.buffer.scope),
            )
            if mine != theirs
        ),
        None,
    )
    if wrong is not None:
        raise InterpreterError(f"match_buffer {buffer.name!r} states the {wrong}", origin="interpret", span=match.span)
    data = compiler.define(buffer.data)
    shape = [_unify(compiler, extent, f"extent of {buffer.name!r}", place) for extent in buffer.shape]
    strides = [_unify(compiler, stride, f"stride of {buffer.name!r}", place) for stride in buffer.strides]
    # An offset of 0 (where none is stated) says nothing about the region's place in its source.
    offset_slot = None
    if isinstance(buffer.elem_offset, Var) and buffer.elem_offset not in compiler.slots:
        offset_slot = compiler.define(buffer.elem_offset)
    offset = compiler.expression(buffer.elem_offset)
    slot = compiler.declare(buffer)
    layout = Layout(buffer, (), (), offset, False)

    def run(frame: Frame) -> None:
        outer: View = source(frame)
        start = outer.start
        for axis, (low, size) in enumerate(zip(mins, sizes, strict=True)):
            first, count = low(frame), size(frame)
            if count > 0 and not 0 <= first <= first + count <= outer.shape[axis]:
                raise BoundsError(
                    f"the region of {match.source.buffer.name!r} that {buffer.name!r} matches is out of bounds: "
                    f"{first} to {first + count} of dimension {axis}, which has {outer.shape[axis]} elements",
                    origin="interpret",
                    span=place.span,
                    notes=place.notes(frame),
                )
            if axis < lead and count != 1:
                raise InterpreterError(
                    f"dimension {axis} of the region that {buffer.name!r} matches has {count} elements, not 1",
                    origin="interpret",
                    span=place.span,
                )
            start += first * outer.strides[axis] * outer.lanes
        for bind, size in zip(shape, sizes[lead:], strict=True):
            bind(frame, size(frame))
        if strides:
            for bind, stride in zip(strides, outer.strides[lead:], strict=True):
                bind(frame, stride)
        element = start // buffer.dtype.lanes
        stated = None if offset_slot is not None else offset(frame)
        if stated not in (None, 0, element) or element % max(buffer.offset_factor, 1):
            raise InterpreterError(
                f"match_buffer {buffer.name!r} states the element offset "
                f"{stated if stated else f'to be a multiple of {buffer.offset_factor}'}, the region's is {element}",
                origin="interpret",
                span=match.span,
                notes=place.notes(frame),
            )
        size_of = element_numpy(buffer.dtype).itemsize * buffer.dtype.lanes
        base = outer.pointer(start)
        if offset_slot is not None:
            # Data is the source's data, the offset tells the region.
            frame[offset_slot] = element
            frame[data] = base + -element * size_of
        else:
            frame[data] = base + -layout.offset(frame) * size_of
        extents = tuple([size(frame) for size in sizes[lead:]])
        view = View(base, buffer.dtype, extents, outer.strides[lead:], 0)
        frame[slot] = view

    return run


def _unify(compiler: StatementCompiler, part: Expr, what: str, place: Place) -> Callable[[Frame, int], None]:
    """Bind a variable that stands bare and is not in scope; check anything else against the value."""
    if isinstance(part, Var) and part not in compiler.slots:
        slot = compiler.define(part)

        def bind(frame: Frame, value: int) -> None:
            frame[slot] = value

        return bind
    expected: Value = compiler.expression(part)

    def check(frame: Frame, value: int) -> None:
        if expected(frame) != value:
            raise InterpreterError(
                f"the {what} is {expected(frame)}, the region it matches has {value}",
                origin="interpret",
                span=place.span,
                notes=place.notes(frame),
            )

    return check
