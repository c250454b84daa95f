"""Buffers, and the small data objects around them: ranges, iterators, regions, reducers."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, SupportsInt, TypeAlias, TypedDict

from tirlower.diagnostics import Span, TirError, WellFormedError
from tirlower.ir import build
from tirlower.ir.dtype import INT32, DataType, PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, ExprLike, IntImm, Ramp, Var, as_expr, as_exprs, const, is_const_int
from tirlower.ir.flat_index import continued, shape_key
from tirlower.ir.node import Node, binds, buffer_use, child, disjoint_base, hint, node
from tirlower.ir.node import data as plain
from tirlower.ir.op import Op

if TYPE_CHECKING:
    from tirlower.ir.stmt import BufferStore

__all__ = [
    "ALLOC_ALIGNMENT",
    "Buffer",
    "BufferRegion",
    "CommReducer",
    "IterKind",
    "IterVar",
    "MatchBufferRegion",
    "Range",
    "decl_buffer",
    "pointer_dtype",
]

ALLOC_ALIGNMENT = 64
"""Bytes to which allocations are aligned at least: a cache line, an AVX-512 register."""


def pointer_dtype(dtype: DataType) -> DataType:
    """The element dtype of a buffer's data pointer: bool is stored as int8."""
    return DataType("int8").with_lanes(dtype.lanes) if dtype.is_bool else dtype


Shape: TypeAlias = "Expr | int | Iterable[ExprLike]"
"""Extents; one stands for itself."""
Slice: TypeAlias = "slice[object, object, object]"
Index: TypeAlias = "ExprLike | Slice | Range"
"""What stands between the brackets of an access, for one dimension."""


class LayoutOptions(TypedDict, total=False):
    """What :func:`decl_buffer` takes besides shape, dtype, name and scope."""

    data: Var | None
    strides: Shape | None
    elem_offset: ExprLike | None
    data_alignment: int
    offset_factor: int
    buffer_type: str
    axis_separators: Iterable[IntImm | SupportsInt] | None


class BufferOptions(LayoutOptions, total=False):
    """What :func:`decl_buffer` takes besides shape, dtype and name."""

    scope: str


def _shape(value: Shape) -> tuple[Expr, ...]:
    return as_exprs((value,) if isinstance(value, (int, Expr)) else value)


def _strides(value: Shape | None) -> tuple[Expr, ...]:
    return _shape(value or ())


def _separators(values: Iterable[IntImm | SupportsInt] | None) -> tuple[int, ...]:
    return tuple([int(x.value if isinstance(x, IntImm) else x) for x in values or ()])


@node
@disjoint_base
class Buffer(Node):
    """A view of memory as an array: a data pointer, a shape, and how indices become addresses.

    ``shape`` and ``strides`` (in elements; empty means compact and row-major) are expressions; ``elem_offset`` is
    the offset of element 0 from ``data``, in elements; ``align`` the alignment of ``data`` in bytes that is
    stated, which calls are checked for and accesses rely on, 0 where none is; ``offset_factor`` divides ``elem_offset``; ``axis_separators`` split the dimensions into groups that are
    flattened separately; ``buffer_type`` is ``"default"`` or ``"auto_broadcast"``. Without ``data`` a variable
    of the buffer's name is made, a pointer to ``dtype`` (int8 for bool) in ``scope``.
    """

    name: str = hint(convert=str)
    shape: tuple[Expr, ...] = child(convert=_shape)
    dtype: DataType = plain(default="float32", convert=DataType)
    data: Var = child(default=None)
    strides: tuple[Expr, ...] = child(default=(), convert=_strides)
    elem_offset: Expr = child(default=None)
    scope: str = plain(default="global")
    align: int = plain(default=0)
    offset_factor: int = plain(default=0)
    axis_separators: tuple[int, ...] = plain(default=(), convert=_separators)
    buffer_type: str = plain(default="default", convert=lambda v: v or "default")

    if TYPE_CHECKING:

        def children(self) -> Sequence[Expr]:
            """Its extents, data variable, strides and offset."""

    def check(self) -> None:
        """Fill in the data variable, the offset and the alignment; refuse shapes and strides that do not fit."""
        if self.data is None:
            self.data = Var(self.name, PointerType(pointer_dtype(self.dtype), self.scope))
        else:
            pointer = self.data.type
            if not isinstance(pointer, PointerType):
                raise WellFormedError(f"the data of buffer {self.name!r} is a pointer, got {self.data.dtype!s}")
            self.scope = pointer.scope
        for extent in (*self.shape, *self.strides):
            if not extent.dtype.is_integral or extent.dtype.is_vector:
                raise WellFormedError(
                    f"the shape and strides of buffer {self.name!r} are integers, got {extent.dtype!s}: {extent}"
                )
        if self.strides and len(self.strides) != len(self.shape):
            raise WellFormedError(
                f"buffer {self.name!r} has {len(self.shape)} dimensions but {len(self.strides)} strides"
            )
        if self.elem_offset is None:
            self.elem_offset = IntImm(self.shape[0].dtype if self.shape else INT32, 0)
        elif not isinstance(self.elem_offset, Expr):
            self.elem_offset = as_expr(self.elem_offset)
        align = int(self.align) if self.align else 0
        if align < -1 or (align > 0 and align & (align - 1)):
            raise WellFormedError(
                f"buffer {self.name!r} is aligned to {self.align} bytes", help="give a power of two, or nothing"
            )
        self.align = max(align, 0)
        if self.buffer_type not in ("default", "auto_broadcast"):
            raise WellFormedError(
                f"buffer {self.name!r} has the type {self.buffer_type!r}", help="it is 'default' or 'auto_broadcast'"
            )
        self.offset_factor = int(self.offset_factor) if self.offset_factor else 1
        separators = self.axis_separators
        if any(not 0 <= s <= len(self.shape) for s in separators) or list(separators) != sorted(separators):
            raise WellFormedError(
                f"axis separators of buffer {self.name!r} rise from 0 to {len(self.shape)}, got {list(separators)}"
            )

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def is_compact(self) -> bool:
        """Whether it states no strides and no offset."""
        return not self.strides and is_const_int(self.elem_offset, 0)

    READ = 1
    WRITE = 2
    # Without it, Python would ask for element after element, and a symbolic buffer has no last one.
    __iter__ = None

    def __getitem__(self, indices: Index | tuple[Index, ...]) -> Expr | BufferRegion:
        """``buffer[i, j]`` is a load; a slice of constant length in the last index a vector load; slices elsewhere
        (or of unit step in several dimensions) make a region."""
        if not isinstance(indices, tuple):
            indices = (indices,)
        if len(indices) > len(self.shape):
            raise TirError(f"buffer {self.name!r} has {len(self.shape)} dimensions, got {len(indices)} indices")
        plain = [i for i in indices if not isinstance(i, (slice, Range))]
        if len(plain) == len(self.shape):
            return BufferLoad(self, as_exprs(plain))
        last = indices[-1]
        if len(indices) < len(self.shape) or len(plain) < len(indices) - 1 or not isinstance(last, slice):
            return self.region(indices)
        return BufferLoad(self, (*as_exprs(plain), self._ramp(last)))

    def _ramp(self, part: Slice) -> Expr:
        start = as_expr(0 if part.start is None else part.start)
        stop = as_expr(self.shape[-1] if part.stop is None else part.stop)
        step = as_expr(1 if part.step is None else part.step)
        start, step = build.match_types(start, step)
        lanes = build.ceildiv(build.sub(stop, start), step)
        if not isinstance(lanes, IntImm):
            lanes = _constant_difference(start, stop, step)
        return Ramp(start, step, lanes.value) if lanes.value != 1 else start

    def region(self, indices: Sequence[Index] | None = None) -> BufferRegion:
        """The region that indices and slices name; missing trailing indices cover their dimension."""
        given = list(indices or ())
        ranges = []
        for axis, extent in enumerate(self.shape):
            part = given[axis] if axis < len(given) else slice(None)
            if isinstance(part, Range):
                ranges.append(part)
            elif isinstance(part, slice):
                if part.step is not None and not is_const_int(as_expr(part.step), 1):
                    raise TirError(f"a region of buffer {self.name!r} has unit steps, got step {part.step}")
                start = as_expr(0 if part.start is None else part.start)
                stop = extent if part.stop is None else as_expr(part.stop)
                if part.start is None:
                    start = IntImm(stop.dtype, 0)
                ranges.append(Range(start, build.sub(stop, start)))
            else:
                start = as_expr(part)
                ranges.append(Range(start, IntImm(start.dtype, 1)))
        return BufferRegion(self, tuple(ranges))

    def vload(
        self, begin: ExprLike | Sequence[ExprLike], dtype: DataType | str | None = None, predicate: Expr | None = None
    ) -> Expr:
        """A load of the lanes of ``dtype`` from ``begin`` on, along the last dimension. Raises :class:`WellFormedError` for
        another type of element than the buffer's."""
        if dtype is not None and DataType(dtype).element is not self.dtype.element:
            raise WellFormedError(f"buffer {self.name!r} holds {self.dtype!s}, and no {dtype} is loaded from it")
        return BufferLoad(self, self._vector_indices(begin, dtype), predicate)

    def vstore(
        self, begin: ExprLike | Sequence[ExprLike], value: ExprLike, predicate: Expr | None = None
    ) -> BufferStore:
        """A store of the lanes of ``value`` from ``begin`` on, along the last dimension."""
        from_value = as_expr(value)
        return _store_of()(self, from_value, self._vector_indices(begin, from_value.dtype), predicate)

    def _vector_indices(self, begin: ExprLike | Sequence[ExprLike], dtype: DataType | str | None) -> tuple[Expr, ...]:
        indices = [as_expr(i) for i in (begin if isinstance(begin, (tuple, list)) else (begin,))]
        lanes = 1 if dtype is None else DataType(dtype).lanes // self.dtype.lanes
        if lanes > 1 and indices[-1].dtype.is_scalar:
            indices[-1] = Ramp(indices[-1], const(1, indices[-1].dtype), lanes)
        return tuple(indices)

    @property
    def data_alignment(self) -> int:
        """The alignment that is stated, in TIR's word; 0 where none is."""
        return self.align

    def offset_of(self, indices: Sequence[ExprLike]) -> Expr:
        """The element offset of an access from ``data``: row-major or by strides, plus ``elem_offset``.

        A quotient and its remainder that meet are put together: ``i // 8, i % 8`` of rows of 8 is ``i``. Raises
        :class:`WellFormedError` for another number of indices than dimensions.
        """
        exprs = [as_expr(i) for i in indices]
        if len(exprs) != len(self.shape):
            raise WellFormedError(f"buffer {self.name!r} has {len(self.shape)} dimensions, got {len(exprs)} indices")
        offset: Expr | None = None
        if self.strides:
            for index, stride in zip(exprs, self.strides, strict=True):
                term = build.mul(index, stride)
                offset = term if offset is None else build.add(offset, term)
        else:
            for index, extent in zip(exprs, self.shape, strict=True):
                offset = index if offset is None else continued(offset, extent, index)
        if offset is None:
            return self.elem_offset
        return build.add(offset, self.elem_offset)

    def get_flattened_buffer(self) -> Buffer:
        """The buffer with one dimension for each group between axis separators, over the same data.

        A group with strides has its outermost extent times its stride elements. The same object where nothing is to
        be flattened.

        >>> flat = Buffer("A", (4, 8, 2), axis_separators=(2,)).get_flattened_buffer()
        >>> [extent.value for extent in flat.shape], flat.axis_separators
        ([32, 2], (1,))
        """
        starts = (0, *self.axis_separators)
        if len(starts) == len(self.shape) and not self.strides:
            return self
        sizes: list[Expr] = []
        for first, last in zip(starts, (*self.axis_separators, len(self.shape)), strict=True):
            size: Expr = IntImm(self.elem_offset.dtype, 1)
            if self.strides and first < last:
                size = build.mul(self.strides[first], self.shape[first])
            for extent in self.shape[first:last] if not self.strides else ():
                size = build.mul(size, extent)
            sizes.append(size)
        return self.with_(shape=tuple(sizes), strides=(), axis_separators=tuple(range(1, len(starts))))

    def access_ptr(
        self,
        access_mask: int | str,
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: ExprLike = 0,
        extent: ExprLike | None = None,
    ) -> Expr:
        """A ``tvm_access_ptr`` to the buffer from ``offset`` elements on; the mask is "r", "w", "rw" or 1, 2, 3."""
        if isinstance(access_mask, str):
            unknown = set(access_mask) - {"r", "w"}
            if unknown:
                raise TirError(f"an access mask is made of 'r' and 'w', got {access_mask!r}")
            access_mask = ("r" in access_mask) + 2 * ("w" in access_mask)
        first = build.add(self.elem_offset, offset)
        if self.strides:
            size = build.mul(self.strides[0], self.shape[0]) if self.shape else as_expr(1)
        else:
            size = as_expr(1)
            for dim in self.shape:
                size = build.mul(size, dim)
        size = build.sub(size, offset) if extent is None else as_expr(extent)
        content = self.dtype
        if content_lanes > 1:
            content = content.with_lanes(content_lanes * content.lanes)
            size, first = build.floordiv(size, content_lanes), build.floordiv(first, content_lanes)
        marker = Call(Op.get("tir.type_annotation"), (), content)
        return Call(
            Op.get("tir.tvm_access_ptr"), (marker, self.data, first, size, as_expr(access_mask)), DataType(ptr_type)
        )

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        dims = ", ".join(map(str, self.shape)) + ("," if len(self.shape) == 1 else "")
        return f"Buffer({self.name!r}, ({dims}), {str(self.dtype)!r})"


# Statements are built above expressions and buffers; the store class registers itself here (see `stmt`).
_STORE: list[type[BufferStore]] = []


def _store_of() -> type[BufferStore]:
    return _STORE[0]


def _constant_difference(start: Expr, stop: Expr, step: Expr) -> IntImm:
    """The lanes of ``start:stop:step`` when both ends share a symbolic part, e.g. ``i * 4 : i * 4 + 4``."""

    def terms(expr: Expr, sign: int, into: dict[object, int]) -> int:
        from_kind = type(expr).__name__
        if isinstance(expr, IntImm):
            return sign * expr.value
        if from_kind == "Add":
            return terms(expr.a, sign, into) + terms(expr.b, sign, into)  # type: ignore[attr-defined]
        if from_kind == "Sub":
            return terms(expr.a, sign, into) + terms(expr.b, -sign, into)  # type: ignore[attr-defined]
        key = shape_key(expr)
        into[key] = into.get(key, 0) + sign
        return 0

    rest: dict[object, int] = {}
    difference = terms(stop, 1, rest) + terms(start, -1, rest)
    if any(rest.values()) or not isinstance(step, IntImm) or step.value == 0:
        raise TirError(f"the length of the slice {start}:{stop}:{step} is not a constant", help="use T.Ramp")
    return build.int32(-((-difference) // step.value))


@node
@disjoint_base
class Range(Node):
    """The integers from ``min`` on, ``extent`` of them."""

    min: Expr = child(convert=as_expr)
    extent: Expr = child(convert=as_expr)
    span: Span | None = hint(default=None, kw_only=True)

    def check(self) -> None:
        """Bring both to one dtype: a literal takes the other's."""
        if self.min.dtype is not self.extent.dtype:
            if isinstance(self.min, IntImm):
                self.min = build.cast(self.extent.dtype, self.min)
            elif isinstance(self.extent, IntImm):
                self.extent = build.cast(self.min.dtype, self.extent)
            else:
                self.min, self.extent = build.match_types(self.min, self.extent)

    @classmethod
    def from_min_extent(cls, min: ExprLike, extent: ExprLike, span: Span | None = None) -> Range:
        """The range of ``extent`` integers from ``min`` on."""
        return cls(as_expr(min), as_expr(extent), span=span)

    @classmethod
    def from_extent(cls, extent: ExprLike) -> Range:
        """The range from 0."""
        extent = as_expr(extent)
        return cls(IntImm(extent.dtype, 0), extent)

    def __repr__(self) -> str:
        return f"Range({self.min}, {build.add(self.min, self.extent)})"


class IterKind(enum.Enum):
    """What a block iterator means for the order of its instances."""

    SPATIAL = "spatial"
    REDUCE = "reduce"
    SCAN = "scan"
    OPAQUE = "opaque"


_ITER_KINDS = (
    "DataPar", "ThreadIndex", "CommReduce", "Ordered", "Opaque", "Unrolled", "Vectorized", "Parallelized", "Tensorized",
)  # fmt: skip
"""TIR's kinds of iteration variables, by their numbers."""
_OF_BLOCKS = {"spatial": "DataPar", "reduce": "CommReduce", "scan": "Ordered", "opaque": "Opaque"}
"""The same of the kinds of a block's iterators."""


def _iter_kind(kind: str | int) -> str:
    if not isinstance(kind, int):
        return str(kind)
    if not 0 <= kind < len(_ITER_KINDS):
        raise WellFormedError(
            f"there is no kind {kind} of an iteration variable", help=f"the kinds are 0 to {len(_ITER_KINDS) - 1}"
        )
    return _ITER_KINDS[kind]


def iter_type_of(kind: str) -> int:
    """TIR's number of a kind of iteration variables, also of a block's.

    >>> iter_type_of("reduce"), iter_type_of("ThreadIndex")
    (2, 1)
    """
    return _ITER_KINDS.index(_OF_BLOCKS.get(kind, kind))


def _domain(dom: Range | Sequence[ExprLike] | None) -> Range | None:
    if dom is None or isinstance(dom, Range):
        return dom
    if not isinstance(dom, (tuple, list)) or len(dom) != 2:
        raise WellFormedError(f"the domain of an iteration variable is a Range, or its two ends, got {dom!r}")
    return Range(as_expr(dom[0]), build.sub(dom[1], dom[0]))


@node
class IterVar(Node):
    """An iteration variable with its domain; with a thread tag, a thread axis.

    As in TIR the domain may be given by its ends, the variable by its name, and the kind by its number.

    >>> axis = IterVar((0, 4), "i", 1, "threadIdx.x")
    >>> axis.dom, axis.var, axis.kind
    (Range(0, 4), Var(i), 'ThreadIndex')
    """

    DataPar, ThreadIndex, CommReduce, Ordered, Opaque, Unrolled, Vectorized, Parallelized, Tensorized = range(9)

    dom: Range | None = child(convert=_domain)
    var: Var = binds(convert=lambda v: v if isinstance(v, Var) else Var(v))
    kind: str = plain(default="spatial", convert=_iter_kind)
    thread_tag: str = plain(default="")
    span: Span | None = hint(default=None, kw_only=True)

    def as_expr(self) -> Expr:
        """The variable (an IterVar stands for it in expressions)."""
        return self.var

    @property
    def iter_type(self) -> int:
        """TIR's number of the kind: ``IterVar.CommReduce`` for a reduction."""
        return iter_type_of(self.kind)


@node
@disjoint_base
class BufferRegion(Node):
    """A box of a buffer: one range per dimension."""

    buffer: Buffer = buffer_use()
    region: tuple[Range, ...] = child(convert=tuple)
    span: Span | None = hint(default=None, kw_only=True)

    def check(self) -> None:
        """One range for each dimension."""
        if not isinstance(self.buffer, Buffer):
            raise TirError(f"a region is of a buffer, got {type(self.buffer).__name__} {self.buffer}")
        if len(self.region) != len(self.buffer.shape):
            raise WellFormedError(
                f"a region of buffer {self.buffer.name!r} has {len(self.buffer.shape)} ranges, got {len(self.region)}"
            )


@node
class MatchBufferRegion(Node):
    """A buffer that names a region of another one inside a block."""

    declares = True
    buffer: Buffer = binds()
    source: BufferRegion = child()
    span: Span | None = hint(default=None, kw_only=True)


@node
class CommReducer(Node):
    """A commutative, associative combination of tuples, with its identity element."""

    lhs: tuple[Var, ...] = binds(convert=tuple)
    rhs: tuple[Var, ...] = binds(convert=tuple)
    result: tuple[Expr, ...] = child(convert=as_exprs)
    identity: tuple[Expr, ...] = child(convert=as_exprs)
    span: Span | None = hint(default=None, kw_only=True)

    @property
    def identity_element(self) -> tuple[Expr, ...]:
        """The identity, in TIR's word."""
        return self.identity

    def check(self) -> None:
        """All four have one length."""
        if not len(self.lhs) == len(self.rhs) == len(self.result) == len(self.identity):
            raise WellFormedError("a reducer has as many left and right variables, results and identities")


def decl_buffer(
    shape: Shape,
    dtype: DataType | str = "float32",
    name: str = "buffer",
    data: Var | None = None,
    strides: Shape | None = None,
    elem_offset: ExprLike | None = None,
    scope: str = "",
    data_alignment: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: Iterable[IntImm | SupportsInt] | None = None,
) -> Buffer:
    """A new buffer, with the conventions of scripts: an offset variable where only ``offset_factor`` is given,
    stride variables for ``auto_broadcast`` without strides.

    >>> decl_buffer((4, 8), "int8", "A")
    Buffer('A', (4, 8), 'int8')
    """
    dims = _shape(shape)
    index_type = dims[0].dtype if dims else INT32
    if offset_factor and elem_offset is None:
        elem_offset = Var(f"{name}_elem_offset", index_type)
    if buffer_type == "auto_broadcast" and not strides:
        strides = [Var(f"{name}_stride_{i}", index_type) for i in range(len(dims))]
    return Buffer(
        name,
        dims,
        DataType(dtype),
        data,  # type: ignore[arg-type]  # None makes the variable
        _strides(strides),
        elem_offset,  # type: ignore[arg-type]  # None makes an offset of 0
        scope or "global",
        data_alignment,
        offset_factor,
        _separators(axis_separators),
        buffer_type or "default",
    )
