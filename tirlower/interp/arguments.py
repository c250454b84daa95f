"""The entry of a function: arguments are checked against the parameters, and symbolic dimensions bound from them.

A dimension that is a bare variable binds at its first occurrence (buffers in parameter order; shape, then strides, then
offset); every other occurrence is checked. Scalar parameters are bound before any buffer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError, nearest_name
from tirlower.interp.access import Layout, make_view
from tirlower.interp.memory import Memory, Pointer, compact_strides, join_overlapping
from tirlower.interp.scope import Frame, Value
from tirlower.interp.statements import StatementCompiler
from tirlower.interp.values import Datum, rounder
from tirlower.ir.annotations import mapping_of
from tirlower.ir.buffer import Buffer, MatchBufferRegion
from tirlower.ir.custom_datatype import element_numpy, storage_dtype
from tirlower.ir.dlpack import pending
from tirlower.ir.dtype import Array, DataType
from tirlower.ir.expr import Call, Expr, IntImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.op import Op
from tirlower.ir.stmt import BufferStore

__all__ = ["Parameters", "as_array"]

_ACCESS_PTR = Op.get("tir.tvm_access_ptr")


class Part(NamedTuple):
    """One number of a buffer's layout: bound into ``slot``, or checked against ``value``."""

    expr: Expr
    what: str
    slot: int | None


class BufferParameter(NamedTuple):
    """A parameter that stands for a buffer."""

    position: int
    name: str
    buffer: Buffer
    shape: list[Part]
    strides: list[Part]
    offset: Part
    data: int
    view: int


class _Writes(Visitor):
    """Finds the data variables that a function writes through."""

    def __init__(self) -> None:
        self.found: set[Var] = set()
        self.sources: dict[Var, Var] = {}

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.found.add(op.buffer.data)
        self.generic(op)

    def visit_MatchBufferRegion(self, op: MatchBufferRegion) -> None:
        self.sources[op.buffer.data] = op.source.buffer.data

    def visit_Call(self, op: Call) -> None:
        if op.op is _ACCESS_PTR and isinstance(op.args[1], Var):
            mask = op.args[4]
            if not isinstance(mask, IntImm) or mask.value & 2:
                self.found.add(op.args[1])


def written_data(func: PrimFunc) -> set[Var]:
    """The data variables through which a function's own statements write."""
    finder = _Writes()
    finder.visit(func.body)
    found = set(finder.found)
    for var in finder.found:
        while var in finder.sources:
            var = finder.sources[var]
            found.add(var)
    return found


def as_array(value: Datum, name: str) -> Array:
    """An argument as a NumPy array on the same memory. Raises ArgumentTypeError when it is none."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "__dlpack__"):
        undone = pending(value)
        if undone is not None:
            raise ArgumentTypeError(
                f"argument {name!r} is a tensor with a pending {undone[0]}",
                origin="interpret",
                help=f"pass tensor.{undone[1]}()",
            )
        try:
            return np.from_dlpack(value)
        except (BufferError, TypeError, RuntimeError) as error:
            raise ArgumentTypeError(f"argument {name!r} cannot be shared with NumPy: {error}") from error
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        raise ArgumentTypeError(
            f"argument {name!r} is an array, got {type(value).__name__}",
            origin="interpret",
            help="pass a NumPy array, or an object with __dlpack__ or the buffer protocol",
        ) from None


def as_scalar(value: object, dtype: DataType, name: str) -> Datum:
    """An argument as a scalar of a type. Raises ArgumentTypeError or ArgumentValueError."""
    if isinstance(value, (np.generic, np.ndarray)) and np.ndim(value) == 0:
        value = value.item()
    dtype = storage_dtype(dtype)  # a custom type's argument is its bits
    if dtype.is_integral and isinstance(value, (bool, int)):
        if not dtype.min_value <= value <= dtype.max_value:
            raise ArgumentValueError(
                f"argument {name!r} is {dtype!s} ({dtype.min_value} to {dtype.max_value}), got {value}",
                origin="interpret",
            )
        return bool(value) if dtype.is_bool else int(value)
    if dtype.is_float and isinstance(value, (int, float)):
        return float(np.float64(value)) if dtype.bits == 64 else rounder(dtype)(float(value))
    raise ArgumentTypeError(
        f"argument {name!r} is a scalar of type {dtype!s}, got {type(value).__name__} {value!r}", origin="interpret"
    )


class Parameters:
    """The compiled signature of a function."""

    def __init__(self, compiler: StatementCompiler, func: PrimFunc) -> None:
        self.func = func
        self.slots = [compiler.define(param) for param in func.params]
        self.place = compiler.place(func.span)
        self.buffers: list[BufferParameter] = []
        for position, param in enumerate(func.params):
            buffer = func.buffer_map.get(param)
            if buffer is None:
                continue
            data = compiler.slots.get(buffer.data)
            shape = [self._part(compiler, e, f"extent {i}") for i, e in enumerate(buffer.shape)]
            strides = [self._part(compiler, e, f"stride {i}") for i, e in enumerate(buffer.strides)]
            offset = self._part(compiler, buffer.elem_offset, "element offset")
            self.buffers.append(
                BufferParameter(
                    position,
                    buffer.name,
                    buffer,
                    shape,
                    strides,
                    offset,
                    compiler.define(buffer.data) if data is None else data,
                    compiler.declare(buffer),
                )
            )
        # Compound parts may use variables that later parameters bind.
        self.layouts: list[Layout] = [compiler.layout(p.buffer) for p in self.buffers]
        self.written = written_data(func)

    @staticmethod
    def _part(compiler: StatementCompiler, expr: Expr, what: str) -> Part:
        if isinstance(expr, Var) and expr not in compiler.slots:
            return Part(expr, what, compiler.define(expr))
        return Part(expr, what, None)

    # ------------------------------------------------------------ binding

    def bind(self, frame: Frame, args: Sequence[object], outputs: Sequence[str]) -> list[Array]:
        """Put arguments into a fresh frame; the arrays allocated for ``outputs``.

        Raises ArgumentTypeError or ArgumentValueError, naming the argument, what is expected and what was given.
        """
        chosen = self._output_positions(outputs)
        names = [self._name(position) for position in range(len(self.slots))]
        given = [n for position, n in enumerate(names) if position not in chosen]
        defaults = mapping_of(self.func.attrs, "tir.defaults")
        missing = given[len(args) :]
        if missing and all(name in defaults for name in missing):
            args = [*args, *[defaults[name] for name in missing]]
        if len(args) != len(given):
            raise ArgumentTypeError(
                f"{self.func.name} takes {len(given)} arguments ({', '.join(given)}), got {len(args)}",
                origin="interpret",
            )
        values = dict(zip([p for p in range(len(names)) if p not in chosen], args, strict=True))
        buffers = {p.position for p in self.buffers}
        for position, value in values.items():
            if position not in buffers:
                frame[self.slots[position]] = self._plain(position, value)
        arrays: dict[int, Array | Pointer] = {}
        for parameter in self.buffers:
            value = values.get(parameter.position)
            if parameter.position not in chosen:
                arrays[parameter.position] = self._array(frame, parameter, value)
        made: dict[int, Array] = {}
        memories: list[Memory] = []
        for parameter, layout in zip(self.buffers, self.layouts, strict=True):
            if parameter.position in chosen:
                made[parameter.position] = self._allocate(frame, parameter, layout)
        for parameter, layout in zip(self.buffers, self.layouts, strict=True):
            array = made.get(parameter.position)
            held = arrays.get(parameter.position) if array is None else array
            self._check(frame, parameter, layout, held)
            fresh = array is not None
            pointer = (
                held if isinstance(held, Pointer) else Pointer.of_array(held, parameter.name, known=not fresh)  # type: ignore[arg-type]
            )
            frame[self.slots[parameter.position]] = pointer
            frame[parameter.data] = pointer
            frame[parameter.view] = make_view(layout, pointer, frame, self.place)
            if isinstance(held, np.ndarray) and not fresh:
                memories.append(pointer.memory)
        join_overlapping(memories)
        self._check_overlap({**arrays, **made})
        return [made[position] for position in chosen]

    def _name(self, position: int) -> str:
        param = self.func.params[position]
        buffer = self.func.buffer_map.get(param)
        return param.name if buffer is None else buffer.name

    def _output_positions(self, outputs: Sequence[str]) -> list[int]:
        known = {p.name: p.position for p in self.buffers}
        known |= {self.func.params[p.position].name: p.position for p in self.buffers}
        found = []
        for name in outputs:
            if name not in known:
                near = nearest_name(name, known)
                raise ArgumentValueError(
                    f"{self.func.name} has no buffer parameter {name!r} to return",
                    origin="interpret",
                    help=f"did you mean {near!r}?" if near else f"it has: {', '.join(p.name for p in self.buffers)}",
                )
            found.append(known[name])
        return found

    def _plain(self, position: int, value: object) -> Datum:
        param = self.func.params[position]
        if not param.dtype.is_handle:
            return as_scalar(value, param.dtype, param.name)
        if value is None or not (isinstance(value, np.ndarray) or hasattr(value, "__dlpack__")):
            return value  # a pointer, a structure, or an object that only externs understand
        return Pointer.of_array(as_array(value, param.name), param.name)

    def _array(self, frame: Frame, parameter: BufferParameter, value: object) -> Array | Pointer:
        """Check what does not depend on other arguments, and bind the bare dimensions."""
        if isinstance(value, Pointer):
            for part in (*parameter.shape, *parameter.strides):
                if part.slot is not None and frame[part.slot] is None:
                    raise ArgumentValueError(
                        f"the {part.what} {part.expr} of {parameter.name!r} does not follow from a bare pointer",
                        origin="interpret",
                        help="pass an array, or make the dimension a scalar parameter",
                    )
            if parameter.offset.slot is not None:
                frame[parameter.offset.slot] = 0
            return value
        buffer, name = parameter.buffer, parameter.name
        array = as_array(value, name)
        wanted = element_numpy(buffer.dtype)
        if array.dtype != wanted:
            raise ArgumentTypeError(f"argument {name!r} has dtype {wanted}, got {array.dtype}", origin="interpret")
        lanes = buffer.dtype.lanes
        ndim = len(buffer.shape) + (lanes > 1)
        if array.ndim != ndim:
            more = f" (the last for the {lanes} lanes of {buffer.dtype!s})" if lanes > 1 else ""
            raise ArgumentValueError(
                f"argument {name!r} has {ndim} dimensions{more}, got {array.ndim} (shape {array.shape})",
                origin="interpret",
            )
        # The strides of an array without elements mean nothing.
        if lanes > 1 and (array.shape[-1] != lanes or (array.size and array.strides[-1] != array.itemsize)):
            raise ArgumentValueError(
                f"the last dimension of argument {name!r} holds the {lanes} lanes of {buffer.dtype!s}, contiguous; "
                f"got shape {array.shape}",
                origin="interpret",
            )
        if buffer.data in self.written and not array.flags.writeable:
            raise ArgumentValueError(
                f"argument {name!r} is written, but the array is read-only",
                origin="interpret",
                help="pass a writable array (array.copy())",
            )
        self._bind_parts(frame, name, parameter.shape, array.shape)
        self._bind_parts(frame, name, parameter.strides, self._strides(parameter, array))
        if parameter.offset.slot is not None:
            frame[parameter.offset.slot] = 0
        return array

    @staticmethod
    def _strides(parameter: BufferParameter, array: Array) -> tuple[int, ...]:
        """The strides of an array in elements of the buffer."""
        buffer = parameter.buffer
        unit = array.itemsize * buffer.dtype.lanes
        strides = []
        for extent, stride in zip(array.shape[: len(buffer.shape)], array.strides, strict=False):
            if stride % unit:
                raise ArgumentValueError(
                    f"the strides of argument {parameter.name!r} are multiples of {unit} bytes, got {array.strides}",
                    origin="interpret",
                )
            broadcast = buffer.buffer_type == "auto_broadcast" and extent == 1
            strides.append(0 if broadcast else stride // unit)
        return tuple(strides)

    @staticmethod
    def _bind_parts(frame: Frame, name: str, parts: Sequence[Part], values: Sequence[int]) -> None:
        for part, value in zip(parts, values, strict=False):
            if part.slot is None or frame[part.slot] is not None:
                continue
            if not part.expr.dtype.min_value <= value <= part.expr.dtype.max_value:
                raise ArgumentValueError(
                    f"the {part.what} of argument {name!r} is {part.expr.dtype!s}, got {value}", origin="interpret"
                )
            frame[part.slot] = value

    def _allocate(self, frame: Frame, parameter: BufferParameter, layout: Layout) -> Array:
        for part in parameter.shape:
            if part.slot is not None and frame[part.slot] is None:
                raise ArgumentValueError(
                    f"the {part.what} {part.expr} of output {parameter.name!r} does not follow from the arguments",
                    origin="interpret",
                    help="pass the array, or make the dimension a scalar parameter",
                )
        shape = tuple([extent(frame) for extent in layout.shape])
        self._bind_parts(frame, parameter.name, parameter.strides, compact_strides(shape))
        if parameter.offset.slot is not None:
            frame[parameter.offset.slot] = 0
        dtype = parameter.buffer.dtype
        return np.zeros(shape + ((dtype.lanes,) if dtype.lanes > 1 else ()), element_numpy(dtype))

    def _check(self, frame: Frame, parameter: BufferParameter, layout: Layout, array: Array | Pointer | None) -> None:
        """Check the parts that are not bound here against the array."""
        if not isinstance(array, np.ndarray):
            return
        buffer, name = parameter.buffer, parameter.name
        self._compare(frame, name, parameter.shape, layout.shape, array.shape, array)
        if parameter.strides:
            strides = self._strides(parameter, array)
            self._compare(frame, name, parameter.strides, layout.strides, strides, array, skip_units=True)
        elif not array.flags.c_contiguous:
            raise ArgumentValueError(
                f"argument {name!r} is contiguous (row-major), got strides {array.strides} for shape {array.shape}",
                origin="interpret",
                help="pass numpy.ascontiguousarray(array), or declare symbolic strides",
            )
        offset = layout.offset(frame)
        if offset != 0:
            raise ArgumentValueError(
                f"argument {name!r} has the element offset {offset} ({buffer.elem_offset}), got 0",
                origin="interpret",
            )

    @staticmethod
    def _compare(
        frame: Frame,
        name: str,
        parts: Sequence[Part],
        expected: Sequence[Value],
        values: Sequence[int],
        array: Array,
        skip_units: bool = False,
    ) -> None:
        for axis, (part, wanted) in enumerate(zip(parts, expected, strict=True)):
            if skip_units and (array.shape[axis] <= 1 or not array.size):
                continue  # the stride of a dimension of one element means nothing, nor do those of no elements
            want = wanted(frame)
            if want != values[axis]:
                shown = f"{want}" if isinstance(part.expr, IntImm) else f"{want} ({part.expr})"
                raise ArgumentValueError(
                    f"{part.what} of argument {name!r} is {shown}, got {values[axis]} (shape {array.shape})",
                    origin="interpret",
                )

    def _check_overlap(self, arrays: dict[int, Array | Pointer]) -> None:
        if not self.func.attrs.get("tir.noalias"):
            return
        held = [(p, arrays[p.position]) for p in self.buffers]
        for first, (p, a) in enumerate(held):
            for q, b in held[first + 1 :]:
                if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
                    continue
                if (p.buffer.data in self.written or q.buffer.data in self.written) and _overlap(a, b):
                    raise ArgumentValueError(
                        f"arguments {p.name!r} and {q.name!r} overlap in memory, but the function declares tir.noalias",
                        origin="interpret",
                        help="pass separate arrays, or remove the attribute tir.noalias",
                    )


def _overlap(a: Array, b: Array) -> bool:
    if not np.may_share_memory(a, b):
        return False
    try:
        return bool(np.shares_memory(a, b, max_work=1_000_000))  # type: ignore[arg-type]  # the stubs know only two values
    except np.exceptions.TooHardError:
        return True  # their spans meet, and nobody can tell that their elements do not
