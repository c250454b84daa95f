"""Tensor-core fragments of a warp as a whole (``wmma``), and guarded loads.

A fragment of a ``wmma.*`` buffer is a matrix that the threads of a warp hold together. How it is spread over their
registers is the device's own affair; here the fragment with number ``index`` lies row-major in the buffer's memory, one
copy for each warp, and its rows and columns are noted when it is filled or loaded. A product sums in float64 and rounds
once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tirlower.diagnostics import InterpreterError
from tirlower.interp.expressions import ExpressionCompiler, intrinsic, pointer_value
from tirlower.interp.memory import OutsideMemory, ReadOnlyMemory, UnwrittenMemory, View
from tirlower.interp.operands import element_bytes
from tirlower.interp.scope import Frame, Place, State, Team, Value
from tirlower.interp.threads import WARP_SIZE, collective
from tirlower.interp.values import Datum, Fault, coerce
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import Call, Expr, Var

__all__: list[str] = []


class _Fragment(NamedTuple):
    """A matrix in fragment memory."""

    view: View
    start: int
    rows: int
    columns: int

    def get(self, row: int, column: int) -> Datum:
        return self.view.get(self.start + row * self.columns + column)

    def put(self, row: int, column: int, value: Datum) -> None:
        self.view.put(self.start + row * self.columns + column, value)


class _Operand:
    """A fragment operand of a call: its buffer's pointer, element type and kind, and the number of the fragment."""

    def __init__(self, compiler: ExpressionCompiler, data: Expr, index: Expr, place: Place) -> None:
        if not isinstance(data, Var) or not isinstance(data.type, PointerType):
            raise InterpreterError(f"a fragment is the data of a buffer, got {data}", span=place.span)
        self.pointer = compiler.expression(data)
        self.index = compiler.expression(index)
        self.element = data.type.element
        self.kind = data.type.scope
        self.place = place

    def shaped(self, frame: Frame, m: int, n: int, k: int) -> _Fragment:
        """The fragment with the rows and columns of its kind in an m x n x k product, noted for later."""
        rows, columns = {"wmma.matrix_a": (m, k), "wmma.matrix_b": (k, n)}.get(self.kind, (m, n))
        pointer = pointer_value(self.pointer(frame), "a fragment", self.place)
        number = self.index(frame)
        pointer.memory.fragments[number] = (rows, columns)
        return _Fragment(pointer.view(self.element), number * rows * columns, rows, columns)

    def known(self, frame: Frame) -> _Fragment:
        """The fragment with the shape it was given. Raises Fault when it has none."""
        pointer = pointer_value(self.pointer(frame), "a fragment", self.place)
        number = self.index(frame)
        shape = pointer.memory.fragments.get(number)
        if shape is None:
            raise Fault(f"fragment {number} of {pointer.memory.name!r} is used before it is filled or loaded")
        return _Fragment(pointer.view(self.element), number * shape[0] * shape[1], *shape)


def _once_per_warp(
    compiler: ExpressionCompiler, target: _Operand, work: Callable[[Frame], None], place: Place
) -> Value:
    """A call that the threads of a warp make together and that has its effect once."""

    def run(team: Team, slot: int) -> None:
        done: set[object] = set()
        for frame in team:
            state: State = frame[0]
            frame[slot] = 0
            memory = pointer_value(target.pointer(frame), "a fragment", place).memory
            key = (id(memory), target.index(frame), id(state.group), state.linear_thread() // WARP_SIZE)
            if key in done:
                continue
            done.add(key)
            try:
                work(frame)
            except Fault as fault:
                raise place.error(fault, frame) from None
            except (OutsideMemory, UnwrittenMemory, ReadOnlyMemory) as error:
                kind = "outside its memory" if isinstance(error, OutsideMemory) else "at an unwritten or constant place"
                raise place.error(Fault(f"a matrix operation works {kind}"), frame) from None

    return collective(compiler, run)


@intrinsic("tir.tvm_fill_fragment", own_arguments=True)
def _fill(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    place = compiler.place(call.span)
    target = _Operand(compiler, call.args[0], call.args[4], place)
    m, n, k = (compiler.expression(arg) for arg in call.args[1:4])
    value = compiler.expression(call.args[5])

    def work(frame: Frame) -> None:
        fragment = target.shaped(frame, m(frame), n(frame), k(frame))
        scalar = coerce(value(frame), target.element)
        for row in range(fragment.rows):
            for column in range(fragment.columns):
                fragment.put(row, column, scalar)

    return _once_per_warp(compiler, target, work, place)


@intrinsic("tir.tvm_load_matrix_sync", "tir.tvm_store_matrix_sync", own_arguments=True)
def _transfer(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(fragment, m, n, k, index, pointer, stride, layout): between a fragment and memory."""
    place = compiler.place(call.span)
    operand = _Operand(compiler, call.args[0], call.args[4], place)
    m, n, k, pointer, stride, layout = (compiler.expression(call.args[i]) for i in (1, 2, 3, 5, 6, 7))
    load = call.op.name == "tir.tvm_load_matrix_sync"

    def work(frame: Frame) -> None:
        fragment = operand.shaped(frame, m(frame), n(frame), k(frame))
        memory = pointer_value(pointer(frame), call.op.name, place).view(operand.element)
        step, by_rows = stride(frame), layout(frame) == "row_major"
        for row in range(fragment.rows):
            for column in range(fragment.columns):
                at = memory.start + (row * step + column if by_rows else column * step + row)
                if load:
                    fragment.put(row, column, memory.get(at))
                else:
                    memory.put(at, fragment.get(row, column))

    return _once_per_warp(compiler, operand, work, place)


@intrinsic("tir.tvm_mma_sync", own_arguments=True)
def _mma(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(D, index, A, index, B, index, C, index): ``D = A @ B + C``."""
    place = compiler.place(call.span)
    d, a, b, c = (_Operand(compiler, call.args[i], call.args[i + 1], place) for i in (0, 2, 4, 6))

    def work(frame: Frame) -> None:
        left, right, addend = a.known(frame), b.known(frame), c.known(frame)
        result = d.shaped(frame, left.rows, right.columns, left.columns)
        values = [
            [
                addend.get(i, j) + sum(left.get(i, k) * right.get(k, j) for k in range(left.columns))
                for j in range(right.columns)
            ]
            for i in range(left.rows)
        ]
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                result.put(i, j, coerce(value, d.element))

    return _once_per_warp(compiler, d, work, place)


@intrinsic("tir.ptx_ldg32", own_arguments=True)
def _ldg32(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(register, guard, element, index): the element is loaded into the register's index where the guard holds."""
    place = compiler.place(call.span)
    register, guard, element, index = (compiler.expression(arg) for arg in call.args)
    step, dtype = element_bytes(call.args[0]), call.args[2].dtype

    def run(frame: Frame) -> int:
        if guard(frame):
            value = element(frame)
            view = (pointer_value(register(frame), "ptx_ldg32", place) + index(frame) * step).view(dtype)
            view.put(view.start, value)
        return 0

    return run
