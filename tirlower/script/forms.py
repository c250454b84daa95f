"""Values that scripts compute with beside nodes: types that are called, slices, and forms that open a scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeGuard

import numpy as np

from tirlower.diagnostics import Span, TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, Range
from tirlower.ir.cancel import range_between, span_difference
from tirlower.ir.dtype import HANDLE, DataType, DataTypeError, PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, ExprLike, IntImm, Mul, Ramp, Var, as_expr, const, is_const_int
from tirlower.ir.op import Op

if TYPE_CHECKING:
    from tirlower.script.builder import Builder

__all__ = [
    "Frame", "HandleType", "Let", "LetAnnotation", "MetaVar", "ScopeName", "Sliced", "TypeFunc", "as_region",
    "is_number", "is_unnamed", "type_of_annotation",
]  # fmt: skip


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a Python number (bool too)."""
    return isinstance(value, (int, float))


def is_unnamed(value: object) -> TypeGuard[Var]:
    """Whether a value is a variable that waits for its name (``x = T.int32()``)."""
    return value.__class__ is Var and not value.name


class TypeFunc(str):
    """A data type as scripts write it: ``T.int32`` is a type, ``T.int32()`` a new variable, ``T.int32(5)`` a constant.

    It is the type's name as a string, so that it stands wherever a dtype is expected.
    """

    __slots__ = ()

    def __call__(self, value: ExprLike | None = None, *, is_size_var: bool = False, dtype: str | None = None) -> Expr:
        """A new variable without a value; a constant of a number or ``"inf"``, ``"-inf"``, ``"nan"``; else a cast.

        ``is_size_var`` states that the variable is at least 0. Raises :class:`TirError` for other values.
        """
        kind = DataType(str(self))
        if value is None:
            return Var("", kind, is_size_var)
        if isinstance(value, str):
            if not kind.is_float or value not in ("inf", "-inf", "nan"):
                raise TirError(
                    f"{self}() takes a number, got {value!r}",
                    help="float types take 'inf', '-inf' and 'nan' as text",
                )
            if not kind.element.holds(float(value)):
                raise TirError(
                    f"the value {value} does not fit in {self}", help=f"its greatest value is {kind.element.max_value}"
                )
            return const(float(value), kind)
        if isinstance(value, int) and kind.element.is_integral and not kind.is_bool:
            least, most = kind.element.min_value, kind.element.max_value
            if not least <= value <= most:
                raise TirError(
                    f"the value {value} does not fit in {self}",
                    help=f"{self} holds {least} to {most}; T.Cast wraps a wider value",
                )
        if isinstance(value, float) and kind.is_float and not kind.element.holds(value):
            raise TirError(
                f"the value {value} does not fit in {self}",
                help=f"write T.{self}('inf') for infinity"
                if kind.bits >= 8
                else f"its greatest value is {kind.max_value}",
            )
        return build.cast(kind, value)

    def __repr__(self) -> str:
        return f"T.{self}"

    @property
    def dtype(self) -> DataType:
        """The data type."""
        return DataType(str(self))


class HandleType(TypeFunc):
    """``T.handle``: a type, and ``T.handle("float32", "shared")`` a variable that points to such elements."""

    __slots__ = ()

    def __call__(
        self,
        value: ExprLike | None = None,
        storage_scope: str = "",
        *,
        dtype: str | None = None,
        is_size_var: bool = False,
    ) -> Expr:
        """A new pointer variable: untyped, or to elements of a dtype in a storage scope; an expression is cast."""
        target = value if value is not None else dtype
        if target is None:
            return Var("", HANDLE) if not storage_scope else Var("", PointerType("void", storage_scope))
        if isinstance(target, str):
            return Var("", PointerType(str(target), storage_scope or "global"))
        if isinstance(target, Expr) and target.dtype.is_handle:
            return target
        return build.reinterpret("handle", build.cast("uint64", target))


class PtrType:
    """``T.Ptr[T.float32]`` and ``T.Ptr("float32", "shared")``: what ``T.handle("float32", "shared")`` says too."""

    __slots__ = ()

    def __call__(self, dtype: object, storage_scope: str = "global") -> Var:
        """A new variable that points to elements of ``dtype`` in a storage scope."""
        return Var("", PointerType(str(dtype), storage_scope))

    def __getitem__(self, args: object) -> Var:
        return self(*args) if isinstance(args, tuple) else self(args)


class LetAnnotation:
    """``T.let[T.int32]``: the annotation of an immutable scalar."""

    __slots__ = ("type",)

    def __init__(self, kind: object) -> None:
        self.type = kind


def type_of_annotation(value: object) -> DataType | PointerType | None:
    """The type that an annotation names, or None where it names none."""
    if isinstance(value, LetAnnotation):
        return type_of_annotation(value.type)
    if isinstance(value, Var):
        return value.type
    if isinstance(value, PointerType):
        return value
    if isinstance(value, (str, type, np.dtype)):
        try:
            return DataType.named(value)
        except DataTypeError:
            return None
    return None


class ScopeName(str):
    """A buffer's storage scope, which scripts also read as a call: ``A.scope()``."""

    __slots__ = ()

    def __call__(self) -> str:
        return str(self)


def _is_scalable(lanes: object) -> bool:
    """Whether a length is ``T.vscale()``, or that times a constant."""
    if isinstance(lanes, Mul):
        lanes = lanes.b if isinstance(lanes.a, IntImm) else lanes.a if isinstance(lanes.b, IntImm) else lanes
    return isinstance(lanes, Call) and lanes.op is Op.get("tir.vscale")


class Sliced:
    """``A[0:4, i]`` or ``A[i]`` of a matrix: a region where one is asked for, else a load of vectors."""

    __slots__ = ("buffer", "indices", "span")

    def __init__(self, buffer: Buffer, indices: Sequence[object], span: Span | None = None) -> None:
        self.buffer = buffer
        self.indices = tuple(indices)
        self.span = span

    def vector_indices(self) -> tuple[Expr, ...]:
        """The indices with slices as ramps.

        Raises :class:`TirError` for a slice whose length is neither a constant nor a multiple of ``T.vscale()``.
        """
        found: list[Expr] = []
        for axis, part in enumerate(self.indices):
            if not isinstance(part, slice):
                found.append(as_expr(part))
                continue
            start, step, lanes = self.span_of(axis)
            if _is_scalable(lanes):
                found.append(Ramp(start, step, lanes, span=self.span))
                continue
            if not isinstance(lanes, IntImm):
                raise TirError(
                    f"the length of {self._slice_text(axis)} is not a constant: {lanes}",
                    span=self.span,
                    help="write a loop over the elements; a vector has a constant length: T.Ramp(start, step, lanes)",
                )
            if lanes.value < 1:
                raise TirError(f"{self._slice_text(axis)} is empty", span=self.span, help=self.front(axis))
            found.append(start if lanes.value == 1 else Ramp(start, step, lanes.value, span=self.span))
        return tuple(found)

    def _slice(self, axis: int) -> slice[object, object, object]:
        part = self.indices[axis]
        assert isinstance(part, slice)
        return part

    def span_of(self, axis: int) -> tuple[Expr, Expr, Expr]:
        """The first index, the step and the length of a slice."""
        part = self._slice(axis)
        step = as_expr(1 if part.step is None else part.step)
        if is_const_int(step, 0):
            raise TirError(f"the step of a slice of buffer {self.buffer.name!r} is zero", span=self.span)
        backwards = isinstance(step, IntImm) and step.value < 0
        start, stop = self._ends(part, axis, backwards)
        start, step = build.match_types(*build.operands(start, step))
        length = span_difference(start, stop)
        if backwards:
            length = build.ceildiv(build.neg(length), -step.value)  # type: ignore[attr-defined]
        elif not is_const_int(step, 1):
            length = build.ceildiv(length, step)
        return start, step, length

    def is_vector(self, axis: int) -> bool:
        """Whether a slice may be a vector: its length is a constant, or a multiple of ``T.vscale()``."""
        length = self.span_of(axis)[2]
        return isinstance(length, IntImm) or _is_scalable(length)

    def _ends(self, part: slice[object, object, object], axis: int, backwards: bool = False) -> tuple[Expr, Expr]:
        extent = self.buffer.shape[axis]
        first, last = const(0, extent.dtype), extent
        if backwards:
            first, last = build.sub(extent, const(1, extent.dtype)), const(-1, extent.dtype)
        start = first if part.start is None else as_expr(part.start)
        stop = last if part.stop is None else as_expr(part.stop)
        return start, stop

    def front(self, axis: int) -> str | None:
        """What to write for an end that counts from the back, where a slice has one."""
        part = self._slice(axis)
        for end in (part.start, part.stop):
            if end is not None and isinstance(end := as_expr(end), IntImm) and end.value < 0:
                return f"ends count from the front: write {self.buffer.shape[axis]} - {-end.value} for {end}"
        return None

    def _slice_text(self, axis: int) -> str:
        start, stop = self._ends(self._slice(axis), axis)
        return f"the slice {start}:{stop} of buffer {self.buffer.name!r}"

    def as_expr(self) -> Expr:
        """The load."""
        if len(self.indices) > len(self.buffer.shape):
            raise TirError(
                f"buffer {self.buffer.name!r} has {len(self.buffer.shape)} dimensions, got {len(self.indices)} indices",
                span=self.span,
            )
        return BufferLoad(self.buffer, self.vector_indices(), span=self.span)

    def as_region(self) -> BufferRegion:
        """The region; dimensions without an index are covered."""
        shape = self.buffer.shape
        if len(self.indices) > len(shape):
            raise TirError(
                f"buffer {self.buffer.name!r} has {len(shape)} dimensions, got {len(self.indices)} indices",
                span=self.span,
            )
        ranges = []
        for axis in range(len(shape)):
            part = self.indices[axis] if axis < len(self.indices) else slice(None)
            if isinstance(part, slice):
                if part.step is not None and not is_const_int(as_expr(part.step), 1):
                    raise TirError(
                        f"a region of buffer {self.buffer.name!r} has unit steps, got {part.step}", span=self.span
                    )
                start, stop = self._ends(part, axis)
                ranges.append(range_between(start, stop))
            elif isinstance(part, Range):
                ranges.append(part)
            else:
                index = as_expr(part)
                ranges.append(Range(index, const(1, index.dtype)))
        return BufferRegion(self.buffer, tuple(ranges), span=self.span)

    @property
    def dtype(self) -> DataType:
        """The dtype of the load."""
        return self.as_expr().dtype

    def astype(self, dtype: str) -> Expr:
        """The load, converted."""
        return self.as_expr().astype(dtype)


def _delegate(name: str) -> object:
    def method(self: Sliced, *args: object) -> object:
        return getattr(self.as_expr(), name)(*args)

    return method


# Arithmetic in Python helper functions works on the load.
for _op in ("add", "sub", "mul", "truediv", "floordiv", "mod", "lshift", "rshift", "and", "or", "xor"):
    setattr(Sliced, f"__{_op}__", _delegate(f"__{_op}__"))
    setattr(Sliced, f"__r{_op}__", _delegate(f"__r{_op}__"))
for _op in ("neg", "pos", "invert", "lt", "le", "gt", "ge"):
    setattr(Sliced, f"__{_op}__", _delegate(f"__{_op}__"))


def as_region(value: object, what: str) -> BufferRegion:
    """A region from what scripts write for one: a slice, an element, a whole buffer, a region.

    Raises :class:`TirError` naming ``what`` takes regions when it is something else.
    """
    if isinstance(value, Sliced):
        return value.as_region()
    if isinstance(value, BufferRegion):
        return value
    if isinstance(value, BufferLoad):
        ranges = []
        for index in value.indices:
            if isinstance(index, Ramp) and isinstance(index.lanes, int):
                if not isinstance(index.stride, IntImm):
                    raise TirError(f"{what}: the stride of {index} is not a constant", span=value.span)
                last = const((index.lanes - 1) * abs(index.stride.value), index.base.dtype)
                first = index.base if index.stride.value >= 0 else build.sub(index.base, last)
                ranges.append(Range(first, const(last.value + 1, index.base.dtype)))  # type: ignore[attr-defined]
            else:
                ranges.append(Range(index, const(1, index.dtype)))
        return BufferRegion(value.buffer, tuple(ranges), span=value.span)
    if isinstance(value, Buffer):
        return BufferRegion(value, tuple(Range.from_extent(extent) for extent in value.shape))
    raise TirError(
        f"{what} takes regions of buffers such as A[0:4, i], got {type(value).__name__} {value!r}",
    )


class MetaVar:
    """``T.meta_var(x)``: the name stands for the expression itself; nothing is bound in the program."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


class Frame:
    """A form that declares something or opens a scope: for the rest of the scope it stands in, or of its ``with``."""

    __slots__ = ("span",)

    what = "this form"
    only_with = False

    def __init__(self) -> None:
        self.span: Span | None = None

    def enter(self, builder: Builder, name: str | None) -> object:
        """Start the form in the current scope; returns the value it binds."""
        raise TirError(f"{self.what} is used as `with {self.what}(…):`", span=self.span)

    def begin(self, builder: Builder, name: str | None) -> object:
        """Start the form as a ``with``; returns the value after ``as``."""
        builder.open()
        return self.enter(builder, name)

    @property
    def runs(self) -> str:
        """Whether the body of the ``with`` runs: "always", "perhaps", as an "arm" of "arms"."""
        return "always"

    def end(self, builder: Builder) -> None:
        """End the ``with``."""
        builder.emit(builder.close_scope(), self.span)


class Let(Frame):
    """A variable bound to a value."""

    __slots__ = ("type", "value", "var")

    what = "T.LetStmt"

    def __init__(self, value: object, type_annotation: object = None, *, var: Var | None = None) -> None:
        super().__init__()
        self.value = value
        self.type = type_annotation
        self.var = var

    def enter(self, builder: Builder, name: str | None) -> object:
        """Emit the binding; returns the variable."""
        kind = None if self.type is None else type_of_annotation(self.type)
        if self.type is not None and kind is None:
            raise TirError(f"the type of a binding is a dtype, got {self.type!r}", span=self.span)
        var = self.var
        if var is None and kind is not None:
            var = Var(name or "v", kind)
        elif var is not None and not isinstance(var, Var):
            raise TirError(f"{self.what}: var= is a variable, got {type(var).__name__}", span=self.span)
        return builder.bind(name or "v", self.value, var)
