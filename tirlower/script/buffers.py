"""Forms that make buffers: ``T.Buffer``, ``T.match_buffer``, ``T.alloc_buffer``, ``T.allocate``, ``T.decl_buffer`` …"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import SupportsInt, cast

import numpy as np

from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferOptions, BufferRegion, MatchBufferRegion, Shape
from tirlower.ir.buffer import decl_buffer as make_buffer
from tirlower.ir.cancel import linear_difference
from tirlower.ir.changes import may_change
from tirlower.ir.dtype import DataType, PointerType
from tirlower.ir.expr import BufferLoad, Expr, ExprLike, IntImm, Var, as_expr
from tirlower.ir.stmt import AllocConst, DeclBuffer
from tirlower.script.builder import Builder, name_buffer
from tirlower.script.forms import Frame, Sliced, as_region
from tirlower.script.scope import active_or_none

__all__ = [
    "Buffer_", "BufferSpec", "alloc_buffer", "alloc_local", "alloc_shared", "allocate", "allocate_const", "decl_buffer",
    "match_buffer",
]  # fmt: skip


class Options(BufferOptions, total=False):
    """What the forms take that make a buffer."""

    shape: Shape | None
    dtype: object


class BufferSpec:
    """The arguments of ``T.Buffer`` where its symbolic dimensions are named by strings: made when it is used."""

    __slots__ = ("options",)

    def __init__(self, options: Options) -> None:
        self.options = options

    def make(self, builder: Builder, name: str) -> Buffer:
        """The buffer, with the strings looked up in the function at hand."""
        return _declare(builder, name, **self.options)

    def __repr__(self) -> str:
        return f"T.Buffer({self.options['shape']!r}, {self.options['dtype']!r})"


def _dims(builder: Builder | None, dims: Shape | None) -> list[ExprLike]:
    if dims is None:
        return []
    if isinstance(dims, (int, str, Expr)):
        dims = (dims,)
    found: list[ExprLike] = []
    for dim in dims:
        if isinstance(dim, str):
            if builder is None:
                raise TirError(f"the dimension {dim!r} is symbolic, which has a meaning only in a prim_func")
            found.append(as_expr(builder.symbolic(dim)))
        else:
            found.append(dim)
    return found


def _fixed(builder: Builder, name: str, options: Options) -> Options:
    """The options of a buffer that the body makes, with what its layout reads from memory bound in front: the buffer
    stays as it was made when that memory changes."""

    def bound(part: object, word: str) -> object:
        if isinstance(part, (tuple, list)):
            return tuple(bound(one, word) for one in part)
        return builder.bind(f"{name}_{word}", part) if isinstance(part, Expr) and may_change(part) else part

    words = {"shape": "extent", "strides": "stride", "elem_offset": "offset"}
    found = {key: bound(value, words[key]) if key in words else value for key, value in options.items()}
    return cast("Options", found)


def _has_strings(*parts: object) -> bool:
    return any(
        isinstance(p, str) or (isinstance(p, (tuple, list)) and any(isinstance(d, str) for d in p)) for p in parts
    )


def _declare(
    builder: Builder | None,
    name: str,
    shape: Shape | None,
    dtype: object = "float32",
    data: Var | Buffer | None = None,
    strides: Shape | None = None,
    elem_offset: ExprLike | None = None,
    scope: str = "global",
    data_alignment: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Iterable[IntImm | SupportsInt] | None = None,
) -> Buffer:
    if isinstance(data, Buffer):
        data = data.data
    if data is not None and not isinstance(data, Var):
        raise TirError(f"data= is a pointer variable such as A.data, got {type(data).__name__}: {data}")
    if data is not None and not isinstance(data.type, PointerType):
        raise TirError(
            f"the data {data.name!r} of a buffer is a typed pointer, got {data.dtype!s}",
            help=f"declare it as T.handle({str(dtype)!r})",
        )
    if isinstance(elem_offset, str):
        elem_offset = _dims(builder, elem_offset)[0]
    buffer = make_buffer(
        _dims(builder, shape),
        DataType.named(dtype),
        name,
        data,
        _dims(builder, strides),
        elem_offset,
        str(scope or "global"),
        int(data_alignment) if data_alignment else 0,
        int(offset_factor) if offset_factor else 0,
        "" if buffer_type in ("", "default", None) else buffer_type,
        axis_separators,
    )
    return buffer


class Buffer_:
    """``T.Buffer(shape, dtype)``: an annotation of a parameter, or a declaration on existing memory (``data=``)."""

    def __call__(
        self,
        shape: Shape,
        dtype: object = "float32",
        data: Var | None = None,
        strides: Shape | None = None,
        elem_offset: ExprLike | None = None,
        scope: str = "global",
        align: int = 0,
        offset_factor: int = 0,
        buffer_type: str = "",
        axis_separators: Sequence[int] | None = None,
    ) -> object:
        """A buffer. With ``data=x`` of ``x = T.allocate(…)``, of its shape, dtype and scope, the allocated one."""
        options: Options = {
            "shape": shape, "dtype": dtype, "data": data, "strides": strides, "elem_offset": elem_offset,
            "scope": scope, "data_alignment": align, "offset_factor": offset_factor, "buffer_type": buffer_type,
            "axis_separators": axis_separators,
        }  # fmt: skip
        builder = active_or_none()
        if builder is None and _has_strings(shape, strides, elem_offset):
            return BufferSpec(options)
        if data is not None and builder is not None:
            options = _fixed(builder, "view", options)
        buffer = _declare(builder, "", **options)
        if data is not None and builder is not None:
            return builder.claim(buffer, None) or _remember(builder, buffer)
        return buffer

    def __getitem__(self, args: Shape) -> object:
        """``T.Buffer[shape, dtype]``, the older spelling of the annotation."""
        return self(*args) if isinstance(args, tuple) and not all(isinstance(a, int) for a in args) else self(args)

    def __repr__(self) -> str:
        return "T.Buffer"


def _remember(builder: Builder, buffer: Buffer) -> Buffer:
    builder.know_buffer(buffer)
    return buffer


class _MatchBuffer(Frame):
    __slots__ = ("options", "source")
    what = "T.match_buffer"

    def __init__(self, source: object, options: Options) -> None:
        super().__init__()
        self.source = source
        self.options = options

    def enter(self, builder: Builder, name: str | None) -> object:
        source, options = self.source, self.options
        if isinstance(source, Var):
            func = builder.need_function(self.what)
            if options["shape"] is None:
                raise TirError(f"T.match_buffer of the parameter {source.name!r} needs a shape")
            if not any(source is p for p in func.params):
                raise TirError(f"T.match_buffer takes a handle parameter or a region, {source.name!r} is neither")
            if not source.dtype.is_handle:
                raise TirError(f"T.match_buffer takes a handle parameter, {source.name!r} is {source.dtype!s}")
            if source in func.buffer_map:
                raise TirError(f"the parameter {source.name!r} is matched twice")
            buffer = _declare(builder, name or "", **options)
            func.buffer_map[source] = buffer
            builder.know_buffer(buffer)
            return buffer
        if not isinstance(source, (BufferRegion, BufferLoad, Sliced, Buffer)):
            raise TirError(
                f"T.match_buffer takes a handle parameter or a region of a buffer, got {type(source).__name__}"
            )
        region = as_region(source, self.what)
        block = builder.need_block("T.match_buffer of a region")
        if options["shape"] is None:
            options["shape"] = tuple(r.extent for r in region.region)
        if options["dtype"] is None:
            options["dtype"] = region.buffer.dtype
        if options["scope"] in (None, "", "global"):
            options["scope"] = region.buffer.scope
        buffer = _declare(builder, name or "", **options)
        _need_extents(region, buffer)
        block.matches.append(MatchBufferRegion(buffer, region, span=builder.here()))
        builder.know_buffer(buffer)
        return buffer


def _need_extents(region: BufferRegion, buffer: Buffer) -> None:
    """Raise :class:`TirError` where a buffer that names a region certainly has other extents.

    Dimensions of the region in front of those of the buffer have the extent 1.
    """
    front = len(region.region) - len(buffer.shape)
    if front < 0:
        raise TirError(
            f"a region of {len(region.region)} dimensions is matched by a buffer of {len(buffer.shape)}",
            help="the buffer has as many dimensions as the region, or less: the region's first ones are 1 then",
        )
    wanted = [build.const(1, part.extent.dtype) for part in region.region[:front]] + list(buffer.shape)
    for axis, (part, extent) in enumerate(zip(region.region, wanted, strict=True)):
        have, want = build.match_types(part.extent, extent)
        gap = linear_difference(have, want)
        if isinstance(gap, IntImm) and gap.value:
            raise TirError(
                f"dimension {axis} of the region of {region.buffer.name!r} has {part.extent} elements, the buffer that "
                f"matches it {extent}",
                help="give the buffer the extents of the region",
            )


def match_buffer(
    param: object,
    shape: Shape | None = None,
    dtype: object = None,
    data: Var | None = None,
    strides: Shape | None = None,
    elem_offset: ExprLike | None = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] | None = None,
) -> Frame:
    """A buffer for a handle parameter, or inside a block for a region of another buffer.

    For a region the shape, dtype and scope default to the region's.
    """
    if dtype is None and isinstance(param, Var):
        dtype = "float32"
    return _MatchBuffer(
        param,
        {
            "shape": shape, "dtype": dtype, "data": data, "strides": strides, "elem_offset": elem_offset,
            "scope": scope, "data_alignment": align, "offset_factor": offset_factor, "buffer_type": buffer_type,
            "axis_separators": axis_separators,
        },
    )  # fmt: skip


class _AllocBuffer(Frame):
    """New memory under a buffer's name."""

    __slots__ = ("annotations", "condition", "options")
    what = "T.alloc_buffer"

    def __init__(
        self, options: Options, annotations: dict[str, object] | None = None, condition: ExprLike = True
    ) -> None:
        super().__init__()
        self.options = options
        self.annotations = annotations
        self.condition = condition

    def enter(self, builder: Builder, name: str | None) -> object:
        buffer = _declare(builder, name or "", **_fixed(builder, name or "", self.options))
        builder.allocate(buffer, self.condition, self.annotations)
        return buffer


def alloc_buffer(
    shape: Shape,
    dtype: object = "float32",
    data: Var | None = None,
    strides: Shape | None = None,
    elem_offset: ExprLike | None = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] | None = None,
    *,
    annotations: dict[str, object] | None = None,
    condition: ExprLike = True,
) -> Frame:
    """New memory for the rest of the scope, as a buffer; where the condition is false, none is needed."""
    return _AllocBuffer(
        {
            "shape": shape, "dtype": dtype, "data": data, "strides": strides, "elem_offset": elem_offset,
            "scope": scope, "data_alignment": align, "offset_factor": offset_factor, "buffer_type": buffer_type,
            "axis_separators": axis_separators,
        },
        annotations,
        condition,
    )  # fmt: skip


def alloc_shared(shape: Shape, dtype: object = "float32", scope: str = "shared") -> Frame:
    """New memory shared by the threads of a block."""
    return alloc_buffer(shape, dtype, scope=scope)


def alloc_local(shape: Shape, dtype: object = "float32", scope: str = "local") -> Frame:
    """New memory of one thread."""
    return alloc_buffer(shape, dtype, scope=scope)


class _Allocate(Frame):
    """``x = T.allocate(…)``: memory by its data variable."""

    __slots__ = ("annotations", "condition", "dtype", "extents", "scope")
    what = "T.allocate"

    def __init__(
        self,
        extents: Shape,
        dtype: object,
        scope: str,
        condition: ExprLike | None,
        annotations: dict[str, object] | None,
    ) -> None:
        super().__init__()
        self.extents = extents
        self.dtype = dtype
        self.scope = scope
        self.condition = condition
        self.annotations = annotations

    def enter(self, builder: Builder, name: str | None) -> object:
        extents = _fixed(builder, name or "", {"shape": self.extents})["shape"]
        buffer = _declare(builder, name or "", extents, self.dtype, scope=self.scope)
        condition = True if self.condition is None else self.condition
        builder.allocate(buffer, condition, self.annotations, claimable=True)
        return buffer.data


def allocate(
    extents: Shape,
    dtype: object,
    scope: str = "global",
    condition: ExprLike | None = None,
    annotations: dict[str, object] | None = None,
) -> Frame:
    """New memory for the rest of the scope, as its data variable; ``T.decl_buffer(…, data=x)`` names it as a buffer."""
    return _Allocate(extents, dtype, scope, condition, annotations)


class _AllocateConst(Frame):
    __slots__ = ("annotations", "array", "dtype", "extents")
    what = "T.allocate_const"

    def __init__(self, array: object, dtype: object, extents: Shape, annotations: dict[str, object] | None) -> None:
        super().__init__()
        self.array = array
        self.dtype = dtype
        self.extents = extents
        self.annotations = annotations

    def enter(self, builder: Builder, name: str | None) -> object:
        buffer = _declare(builder, name or "", self.extents, self.dtype)
        values = [v.value if isinstance(v, Expr) and hasattr(v, "value") else v for v in _flat(self.array)]
        array = np.asarray(values).astype(buffer.dtype.numpy)
        wanted = [e.value if hasattr(e, "value") else None for e in buffer.shape]
        if None not in wanted and array.size == int(np.prod(wanted, dtype=np.int64)):  # type: ignore[arg-type]
            array = array.reshape(wanted)  # type: ignore[arg-type]
        builder.emit(AllocConst(buffer, array, self.annotations or {}))
        builder.know_buffer(buffer)
        if builder.func is not None:
            builder.func.unclaimed[buffer.data] = buffer
        return buffer.data


def _flat(values: object) -> list[object]:
    if isinstance(values, np.ndarray):
        return list(values.reshape(-1))
    if isinstance(values, (list, tuple)):
        return [x for v in values for x in _flat(v)]
    return [values]


def allocate_const(data: object, dtype: object, extents: Shape, annotations: dict[str, object] | None = None) -> Frame:
    """A constant array (nested lists or NumPy) for the rest of the scope, as its data variable."""
    return _AllocateConst(data, dtype, extents, annotations)


class _DeclBuffer(Frame):
    __slots__ = ("options",)
    what = "T.decl_buffer"

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.options = options

    def enter(self, builder: Builder, name: str | None) -> object:
        buffer = _declare(builder, name or "", **_fixed(builder, name or "", self.options))
        if self.options["data"] is None:
            builder.allocate(buffer)
            return buffer
        claimed = builder.claim(buffer, name)
        if claimed is not None:
            return claimed
        builder.emit(DeclBuffer(buffer))
        builder.know_buffer(buffer)
        return buffer


def decl_buffer(
    shape: Shape,
    dtype: object = "float32",
    data: Var | None = None,
    strides: Shape | None = None,
    elem_offset: ExprLike | None = None,
    scope: str = "global",
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Sequence[int] | None = None,
) -> Frame:
    """A buffer over existing memory (``data=``) for the rest of the scope; without ``data`` it allocates."""
    return _DeclBuffer(
        {
            "shape": shape, "dtype": dtype, "data": data, "strides": strides, "elem_offset": elem_offset,
            "scope": scope, "data_alignment": align, "offset_factor": offset_factor, "buffer_type": buffer_type,
            "axis_separators": axis_separators,
        }
    )  # fmt: skip


def parameter_buffer(builder: Builder, name: str, value: Buffer | BufferSpec) -> Buffer:
    """The buffer of a parameter from its annotation: a fresh one, so that one annotation serves many parameters."""
    if isinstance(value, BufferSpec):
        return value.make(builder, name)
    if value.name:
        options = {k: getattr(value, k) for k in ("shape", "dtype", "strides", "elem_offset", "scope")}
        return _declare(
            builder, name, **options, data_alignment=value.align, offset_factor=value.offset_factor,
            axis_separators=value.axis_separators,
            buffer_type=value.buffer_type,
        )  # fmt: skip
    name_buffer(value, name)
    return value


def load_at(buffer: Buffer, indices: Sequence[object], predicate: ExprLike | None = None) -> Expr:
    """A load as ``T.BufferLoad`` writes it."""
    mask = None if predicate is None else as_expr(predicate)
    if any(isinstance(i, slice) for i in indices):
        indices = Sliced(buffer, indices).vector_indices()
    return BufferLoad(buffer, tuple(as_expr(i) for i in indices), mask)
