"""Loads, stores and addresses: from indices to positions in a view, with every check and its message."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple, NoReturn

from tirlower.diagnostics import BoundsError, InterpreterError, TirError, UnboundError
from tirlower.interp.memory import (
    OutsideMemory,
    Pointer,
    ReadOnlyMemory,
    UnwrittenMemory,
    View,
    compact_strides,
)
from tirlower.interp.scope import Frame, Place, Team, Value
from tirlower.interp.values import UNDEF, Datum, lane_values
from tirlower.ir.buffer import Buffer

__all__ = ["Access", "Layout", "make_view"]


class Layout(NamedTuple):
    """The compiled shape, strides and offset of a buffer; ``constant`` when they depend on nothing."""

    buffer: Buffer
    shape: tuple[Value, ...]
    strides: tuple[Value, ...]
    offset: Value
    constant: bool

    def values(self, frame: Frame) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """Shape, strides (row-major where none are stated) and offset."""
        shape = tuple([extent(frame) for extent in self.shape])
        strides = tuple([stride(frame) for stride in self.strides]) if self.strides else compact_strides(shape)
        return shape, strides, self.offset(frame)


def make_view(layout: Layout, pointer: Datum, frame: Frame, place: Place) -> View:
    """The view of a buffer through a pointer. Raises InterpreterError when the pointer is null or is none."""
    if not isinstance(pointer, Pointer):
        what = "null" if pointer is None else f"a {type(pointer).__name__}, not memory"
        raise InterpreterError(
            f"the data pointer of buffer {layout.buffer.name!r} is {what}",
            origin="interpret",
            span=place.span,
            notes=place.notes(frame),
        )
    shape, strides, offset = layout.values(frame)
    return View(pointer, layout.buffer.dtype, shape, strides, offset)


class Access:
    """One access of a program: finds positions, and explains what is wrong with them."""

    __slots__ = ("buffer", "indices", "place", "predicate", "view")

    def __init__(
        self, buffer: Buffer, view: Value, indices: Sequence[Value], predicate: Value | None, place: Place
    ) -> None:
        self.buffer = buffer
        self.view = view
        self.indices = tuple(indices)
        self.predicate = predicate
        self.place = place

    def load(self, vector: bool) -> Value:
        """The compiled load; ``vector`` when its value has lanes."""
        if vector:
            return self._load_lanes
        if self.predicate is not None:
            return lambda frame: self._load_lanes(frame)[0]
        locate, refuse = self.locate(), self._refuse

        def load(frame: Frame) -> Datum:
            view, position = locate(frame)
            try:
                return view.get(position)
            except (OutsideMemory, UnwrittenMemory) as error:
                refuse(frame, view, error)

        return load

    def locate(self) -> Callable[[Frame], tuple[View, int]]:
        """The compiled search for the view and the position of a scalar access."""
        get_view, indices, refuse = self.view, self.indices, self._refuse
        if len(indices) == 1:
            index = indices[0]

            def locate_one(frame: Frame) -> tuple[View, int]:
                view = get_view(frame)
                at = index(frame)
                if not 0 <= at < view.shape[0]:
                    refuse(frame, view)
                return view, view.start + at * view.strides[0]

            return locate_one

        def locate(frame: Frame) -> tuple[View, int]:
            view = get_view(frame)
            position = view.start
            for index, extent, stride in zip(indices, view.shape, view.strides):  # noqa: B905 (checked by the node)
                at = index(frame)
                if not 0 <= at < extent:
                    refuse(frame, view)
                position += at * stride
            return view, position

        return locate

    def _load_lanes(self, frame: Frame) -> tuple[Datum, ...]:
        view, positions = self.positions(frame)
        lanes: list[Datum] = []
        try:
            for position in positions:
                if position is None:
                    lanes += [UNDEF] * view.lanes
                else:
                    lanes += [view.get(lane) for lane in range(position, position + view.lanes)]
        except (OutsideMemory, UnwrittenMemory) as error:
            self._refuse(frame, view, error)
        return tuple(lanes)

    def positions(self, frame: Frame) -> tuple[View, list[int | None]]:
        """The view and the position (of its first scalar) of each lane of the index, None where masked off."""
        view: View = self.view(frame)
        if not self.indices:
            return view, [view.start]
        lead = view.start
        for index, extent, stride in zip(self.indices[:-1], view.shape, view.strides):  # noqa: B905 (the last is below)
            at = index(frame)
            if not 0 <= at < extent:
                self._refuse(frame, view)
            lead += at * stride * view.lanes
        last = lane_values(self.indices[-1](frame))
        mask = lane_values(self.predicate(frame)) if self.predicate is not None else (True,) * len(last)
        extent, stride = view.shape[-1], view.strides[-1] * view.lanes
        found: list[int | None] = []
        for at, enabled in zip(last, mask, strict=True):
            if not enabled:
                found.append(None)
                continue
            if not 0 <= at < extent:
                self._refuse(frame, view)
            found.append(lead + at * stride)
        return view, found

    def store(self, value: Value, vector: bool) -> Callable[[Team], None]:
        """The compiled store of a team: all values and places are found first, the value before its place as in Python's
        assignments, then written in order."""
        if vector or self.predicate is not None:

            def store_lanes(team: Team) -> None:
                pending = [(frame, value(frame), *self.positions(frame)) for frame in team]
                for frame, lanes, view, positions in pending:
                    self._commit(frame, view, positions, lane_values(lanes))

            return store_lanes
        locate, refuse = self.locate(), self._refuse

        def store(team: Team) -> None:
            pending = [(frame, value(frame), *locate(frame)) for frame in team]
            for frame, scalar, view, position in pending:
                try:
                    view.put(position, scalar)
                except (OutsideMemory, ReadOnlyMemory) as error:
                    refuse(frame, view, error)

        return store

    def _commit(self, frame: Frame, view: View, positions: list[int | None], lanes: tuple[Datum, ...]) -> None:
        width = view.lanes
        try:
            for number, position in enumerate(positions):
                if position is not None:
                    for lane in range(width):
                        view.put(position + lane, lanes[number * width + lane])
        except (OutsideMemory, ReadOnlyMemory) as error:
            self._refuse(frame, view, error)

    def address(self, frame: Frame) -> Pointer:
        """The pointer to the (first) element. One past the end of a dimension is allowed, as in C."""
        view: View = self.view(frame)
        position = view.start
        for index, extent, stride in zip(self.indices, view.shape, view.strides, strict=True):
            at = lane_values(index(frame))[0]
            if not 0 <= at <= extent:
                self._refuse(frame, view)
            position += at * stride * view.lanes
        return view.pointer(position)

    def _text(self, frame: Frame) -> str:
        shown = [_index_text(index(frame)) for index in self.indices]
        return f"{self.buffer.name}[{', '.join(shown)}]"

    def _refuse(self, frame: Frame, view: View, error: Exception | None = None) -> NoReturn:
        """Raise the public error for this access."""
        text = self._text(frame)
        notes = [f"the shape of {self.buffer.name} is {view.shape}", *self.place.notes(frame)]
        made: TirError
        if isinstance(error, UnwrittenMemory):
            made = UnboundError(
                f"{text} is read before it is written",
                help=f"initialise buffer {self.buffer.name!r} on every path to this read",
            )
        elif isinstance(error, ReadOnlyMemory):
            made = InterpreterError(
                f"{text} is written, but its memory is read-only",
                help="pass a writable array, or do not write a constant",
            )
        elif isinstance(error, OutsideMemory):
            notes.append(f"strides {view.strides}, offset {view.start} of {view.length} elements")
            made = BoundsError(
                f"{text} is element {error.args[0]} of its memory {view.memory.name!r}, "
                f"which has {view.length} elements of {view.dtype.element!s}",
                help="the view's shape, strides or offset reach outside the allocation",
            )
        else:
            made = BoundsError(
                f"{text} is out of bounds: {self._guilty(frame, view)}",
                help="guard the access (if, T.where, T.if_then_else), or enlarge the buffer",
            )
        made.origin = "interpret"
        made.labels = [*TirError("", span=self.place.span).labels]
        made.notes = notes
        raise made from None

    def _guilty(self, frame: Frame, view: View) -> str:
        mask = None
        if self.predicate is not None:
            mask = lane_values(self.predicate(frame))
        for dimension, (index, extent) in enumerate(zip(self.indices, view.shape, strict=True)):
            lanes = lane_values(index(frame))
            for number, at in enumerate(lanes):
                if mask is not None and len(lanes) > 1 and not mask[number]:
                    continue
                if not 0 <= at < extent:
                    lane = f" (lane {number})" if len(lanes) > 1 else ""
                    return f"index {at}{lane} of dimension {dimension} is outside 0 <= index < {extent}"
        return "an index is outside its dimension"


def _index_text(value: Datum) -> str:
    if value.__class__ is not tuple:
        return str(int(value) if isinstance(value, bool) else value)
    if len(value) > 1 and all(b - a == value[1] - value[0] for a, b in itertools.pairwise(value)):
        step = value[1] - value[0]
        stop = value[-1] + step
        return f"{value[0]}:{stop}" if step == 1 else f"{value[0]}:{stop}:{step}"
    return "{" + ", ".join(map(str, value)) + "}"
