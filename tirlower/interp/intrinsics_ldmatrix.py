"""Moves between shared memory and the fragments of a warp: ``ldmatrix``, ``stmatrix``, filling and storing.

``ldmatrix`` moves matrices of 8 rows of 16 bytes. Lane ``8 * j + r`` names row ``r`` of matrix ``j``; lane ``l`` gets
of each matrix the two 16-bit elements ``2 * (l % 4)`` and the next of row ``l // 4``, or with ``trans`` of column
``l // 4`` (PTX manual, ldmatrix).
"""

from __future__ import annotations

import numpy as np

from tirlower.diagnostics import InterpreterError
from tirlower.interp.expressions import ExpressionCompiler, intrinsic
from tirlower.interp.mma_layouts import Indices
from tirlower.interp.operands import Operand, Run, constant_int, constant_text
from tirlower.interp.scope import Frame, Value
from tirlower.interp.threads import WARP_SIZE, together
from tirlower.ir.custom_datatype import element_numpy
from tirlower.ir.expr import Call

__all__: list[str] = []

_LANES = np.arange(WARP_SIZE, dtype=np.int64)
_ROW = np.broadcast_to(_LANES[:, None] // 4, (WARP_SIZE, 2))
_COLUMN = 2 * (_LANES[:, None] % 4) + np.arange(2, dtype=np.int64)


def _matrices(call: Call) -> int:
    """How many matrices a call moves. Raises InterpreterError for a form that there is not."""
    count, kind = constant_int(call, 1, "the number of matrices"), constant_text(call, 2, "the element type")
    if count not in (1, 2, 4) or kind != ".b16":
        raise InterpreterError(
            f"{call.op.name} moves 1, 2 or 4 matrices of .b16 elements, got {count} of {kind}",
            origin="interpret",
            span=call.span,
        )
    return count


def _of_lanes(trans: bool) -> tuple[Indices, Indices]:
    """Row and column of the two elements that each lane holds of a matrix."""
    return (_COLUMN, _ROW) if trans else (_ROW, _COLUMN)


def _touch(rows: list[Run], frames: list[Frame], at: tuple[Indices, Indices], memory: Operand) -> None:
    """Tell a race detector of the rows that lanes name, and of the elements that each lane gets."""
    if memory.detector is not None:
        for row in rows:
            row.touch(False)
        for lane, frame in enumerate(frames):
            for first in range(0, len(rows), 8):
                for i in range(2):
                    start = rows[first + at[0][lane, i]].pointer + 2 * int(at[1][lane, i])
                    Run(start, 2, frame, memory.place, memory.detector).touch(False)


@intrinsic("tir.ptx_ldmatrix", own_arguments=True)
def _ldmatrix(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    count = _matrices(call)
    trans, registers, memory = compiler.expression(call.args[0]), Operand(compiler, call, 3), Operand(compiler, call, 5)

    def work(frames: list[Frame]) -> None:
        rows = [memory.aligned(frame, 16, 16) for frame in frames[: 8 * count]]
        # What is not written stays so in the registers.
        at = _of_lanes(bool(trans(frames[0])))
        _touch(rows, frames, at, memory)
        known = [row.known() for row in rows]
        values = np.stack([row.unwatched().read("uint16", known=False) for row in rows]).reshape(count, 8, 8)
        flags = np.stack([np.frombuffer(bytes(k or b"\1" * 16), np.uint16) for k in known]).reshape(count, 8, 8)
        for lane, frame in enumerate(frames):
            held = [part[:, at[0][lane], at[1][lane]] for part in (values, flags)]
            registers.run(frame, 4 * count).write(held[0], held[1].tobytes())

    return together(compiler, call, work)


@intrinsic("tir.ptx_stmatrix", own_arguments=True)
def _stmatrix(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    count = _matrices(call)
    trans, memory, registers = compiler.expression(call.args[0]), Operand(compiler, call, 3), Operand(compiler, call, 5)

    def work(frames: list[Frame]) -> None:
        held = np.stack([registers.read(frame, "uint16", 2 * count) for frame in frames]).reshape(WARP_SIZE, count, 2)
        values = np.zeros((count, 8, 8), np.uint16)
        rows, columns = _of_lanes(bool(trans(frames[0])))
        values[:, rows, columns] = held.transpose(1, 0, 2)
        for lane, frame in enumerate(frames[: 8 * count]):
            memory.aligned(frame, 16, 16).write(values[lane // 8, lane % 8])

    return together(compiler, call, work)


@intrinsic("tir.mma_fill", own_arguments=True)
def _fill(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(elements, registers, offset): zeros."""
    count, registers = compiler.expression(call.args[0]), Operand(compiler, call, 1)
    kind = element_numpy(call.dtype)

    def run(frame: Frame) -> int:
        registers.write(frame, np.zeros(count(frame), kind))
        return 0

    return run


@intrinsic("tir.mma_store", own_arguments=True)
def _store(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(rows, columns, first element, registers, offset, stride): the 16 x 16 sums of a warp, 8 of each thread.

    Element i of lane l is that of row ``8 * (i // 2 % 2) + l // 4`` and column ``8 * (i // 4) + 2 * (l % 4) + i % 2``:
    the C fragments of two m16n8 products side by side.
    """
    m, n = (constant_int(call, position, "an extent") for position in (0, 1))
    if (m, n) != (16, 16):
        raise InterpreterError(f"mma_store stores 16 x 16 elements, got {m} x {n}", origin="interpret", span=call.span)
    target, source, stride = (
        Operand(compiler, call, 2, None),
        Operand(compiler, call, 3),
        compiler.expression(call.args[5]),
    )
    place, kind = compiler.place(call.span), element_numpy(call.dtype)
    detector = compiler.program.detector

    def run(frame: Frame) -> int:
        lane = frame[0].linear_thread() % WARP_SIZE
        values = source.read(frame, call.dtype, 8)
        start, step = target.pointer(frame), stride(frame)
        for i in range(8):
            row = 8 * (i // 2 % 2) + lane // 4
            column = 8 * (i // 4) + 2 * (lane % 4) + i % 2
            at = start + (row * step + column) * kind.itemsize
            Run(at, kind.itemsize, frame, place, detector).write(values[i : i + 1])
        return 0

    return run
