"""Pointer operands of device operations: a data variable and an offset in its elements, read and written as runs.

Operations on fragments and asynchronous copies name memory in this way. Every run is checked like any other access: it
lies inside its allocation, what is read was written, and a race detector hears of it.
"""

from __future__ import annotations

import numpy as np

from tirlower.diagnostics import BoundsError, InterpreterError
from tirlower.interp.clocks import Agent
from tirlower.interp.expressions import ExpressionCompiler, pointer_value
from tirlower.interp.intrinsics_memory import memory_error
from tirlower.interp.memory import Pointer, ReadOnlyMemory, UnwrittenMemory
from tirlower.interp.races import RaceDetector
from tirlower.interp.scope import Frame, Place
from tirlower.ir.custom_datatype import element_numpy
from tirlower.ir.dtype import Array, DataType, PointerType
from tirlower.ir.expr import Call, Expr, IntImm, StringImm, Var
from tirlower.ir.op import Op

__all__ = ["Operand", "Run", "constant_int", "constant_text", "element_bytes"]


def element_bytes(data: Expr) -> int:
    """The bytes of an element behind a data variable, ``access_ptr`` or ``address_of``; 1 for any other pointer."""
    if isinstance(data, Call) and data.op in (Op.get("tir.tvm_access_ptr"), Op.get("tir.address_of")):
        return element_numpy(data.args[0].dtype).itemsize * data.args[0].dtype.lanes
    kind = data.type if isinstance(data, Var) else None
    if not isinstance(kind, PointerType) or kind.element == DataType("void"):
        return 1
    return element_numpy(kind.element).itemsize * kind.element.lanes


def constant_int(call: Call, position: int, what: str) -> int:
    """An argument that the operation's meaning depends on. Raises InterpreterError unless it is a literal integer."""
    arg = call.args[position]
    if isinstance(arg, IntImm):
        return arg.value
    raise InterpreterError(
        f"{what} of {call.op.name} is a constant, got {arg}", origin="interpret", span=call.span, help="write a number"
    )


def constant_text(call: Call, position: int, what: str) -> str:
    """An argument that names something. Raises InterpreterError unless it is a literal string."""
    arg = call.args[position]
    if isinstance(arg, StringImm):
        return arg.value
    raise InterpreterError(f"{what} of {call.op.name} is a string, got {arg}", origin="interpret", span=call.span)


class Run:
    """Bytes that an operation touches for a thread."""

    __slots__ = ("detector", "frame", "place", "pointer", "size")

    def __init__(
        self, pointer: Pointer, size: int, frame: Frame, place: Place, detector: RaceDetector | None = None
    ) -> None:
        self.pointer, self.size, self.frame, self.place = pointer, size, frame, place
        self.detector = detector
        if pointer.offset < 0 or pointer.offset + size > pointer.memory.size:
            raise BoundsError(
                f"{size} bytes from byte {pointer.offset} of {pointer.memory.name!r} ({pointer.memory.size} bytes) on "
                "reach outside the allocation",
                origin="interpret",
                span=place.span,
                notes=place.notes(frame),
            )

    def touch(self, write: bool, agent: Agent | None = None) -> None:
        """Tell the race detector of an access, of the thread or of an asynchronous operation that it starts."""
        if self.detector is not None:
            start, memory = self.pointer.offset, self.pointer.memory
            text = f"{memory.name} (bytes {start} to {start + self.size - 1})"
            self.detector.touch(self.frame, memory, start, self.size, write, text, self.place, agent=agent)

    def touch_by_engine(self, agent: Agent | None) -> None:
        """Tell the race detector that an asynchronous operation reads shared memory past the threads' way to it."""
        self.touch(False, agent)
        if self.detector is not None:
            start, memory = self.pointer.offset, self.pointer.memory
            text = f"{memory.name} (bytes {start} to {start + self.size - 1})"
            self.detector.read_by_engine(memory, start, self.size, agent, text, self.place)

    def unwatched(self) -> Run:
        """The same run, of whose accesses the race detector has heard."""
        return Run(self.pointer, self.size, self.frame, self.place)

    def read(self, kind: DataType | str, *, known: bool = True) -> Array:
        """The bytes as elements of a type, a copy. With ``known`` raises UnboundError where one was never written."""
        start, memory = self.pointer.offset, self.pointer.memory
        if known and memory.written is not None and memory.written.find(0, start, start + self.size) >= 0:
            raise memory_error(UnwrittenMemory(), self.pointer, self.place, self.frame)
        self.touch(False)
        return memory.raw[start : start + self.size].copy().view(element_numpy(DataType(kind)))

    def write(self, values: Array, written: bytes | bytearray | None = None) -> None:
        """Store elements; ``written`` says which bytes hold a value (all, by default).

        Raises InterpreterError where the memory is read-only.
        """
        start, memory = self.pointer.offset, self.pointer.memory
        if memory.readonly:
            raise memory_error(ReadOnlyMemory(), self.pointer, self.place, self.frame)
        self.touch(True)
        memory.raw[start : start + self.size] = np.ascontiguousarray(values).view(np.uint8).reshape(-1)
        if memory.written is not None:
            memory.written[start : start + self.size] = b"\1" * self.size if written is None else written

    def known(self) -> bytes | bytearray | None:
        """Which bytes hold a value, None for all."""
        written, start = self.pointer.memory.written, self.pointer.offset
        return None if written is None else written[start : start + self.size]

    def copy_from(self, source: Run) -> None:
        """Copy the bytes of a run of the same size, and what is known about them."""
        self.write(source.read("uint8", known=False), source.known())


class Operand:
    """A pointer operand of a call: compiled, for any thread."""

    __slots__ = ("_data", "_offset", "detector", "place", "step", "what")

    def __init__(self, compiler: ExpressionCompiler, call: Call, position: int, offset: int | None = -1) -> None:
        """The operand at a position of a call; its offset stands behind it, or where ``offset`` says (None: none)."""
        data = call.args[position]
        where = position + 1 if offset == -1 else offset
        self.what = str(call.op.name).removeprefix("tir.")
        self.place = compiler.place(call.span)
        self.step = element_bytes(data)
        self._data = compiler.expression(data)
        self._offset = None if where is None else compiler.expression(call.args[where])
        self.detector = compiler.program.detector

    def pointer(self, frame: Frame) -> Pointer:
        """The place that a thread names. Raises InterpreterError for a null pointer."""
        pointer = pointer_value(self._data(frame), self.what, self.place)
        return pointer if self._offset is None else pointer + self._offset(frame) * self.step

    def run(self, frame: Frame, size: int) -> Run:
        """``size`` bytes from there on. Raises BoundsError where they reach outside the allocation."""
        return Run(self.pointer(frame), size, frame, self.place, self.detector)

    def read(self, frame: Frame, kind: DataType | str, count: int) -> Array:
        """``count`` elements of a type."""
        return self.run(frame, count * element_numpy(DataType(kind)).itemsize).read(kind)

    def write(self, frame: Frame, values: Array) -> None:
        """Store elements."""
        self.run(frame, values.nbytes).write(values)

    def aligned(self, frame: Frame, size: int, alignment: int) -> Run:
        """``size`` bytes whose first lies at a multiple of ``alignment``. Raises InterpreterError where it does not."""
        run = self.run(frame, size)
        if run.pointer.offset % alignment:
            raise InterpreterError(
                f"{self.what} works at byte {run.pointer.offset} of {run.pointer.memory.name!r}, "
                f"which is no multiple of {alignment}",
                origin="interpret",
                span=self.place.span,
                notes=self.place.notes(frame),
                help=f"align the offset to {alignment} bytes",
            )
        return run
