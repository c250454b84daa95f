"""What a call takes, from the parameters of a prim func: arrays with their extents, scalars, symbols, outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from tirlower.diagnostics import LoweringError, deep_recursion, nearest_name
from tirlower.gpu.launch.expressions import ExpressionWriter
from tirlower.ir.buffer import ALLOC_ALIGNMENT, Buffer, MatchBufferRegion
from tirlower.ir.custom_datatype import storage_dtype
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor, post_order_visit
from tirlower.ir.op import Op, Purity
from tirlower.ir.stmt import BufferStore

__all__ = ["ArrayParam", "Compound", "Extent", "Param", "ScalarParam", "Signature", "Site", "signature_of"]

VECTOR_ALIGN: Final = 16
"""Bytes to which kernels expect arrays to be aligned unless their buffers say otherwise: the longest access."""

# Operations that only read through a pointer, by the positions of those arguments.
_READS: Final[dict[str, tuple[int, ...]]] = {
    "tir.ptx_cp_async": (2,),
    "tir.ptx_cp_async_bulk": (2,),
    "tir.ptx_cp_async_bulk_tensor": (2,),
    "tir.ptx_ldg32": (2,),
    "tir.prefetch": (0,),
    "tir.isnullptr": (0,),
}
_ADDRESS: Final = Op.get("tir.address_of")
_ACCESS: Final = Op.get("tir.tvm_access_ptr")


@dataclass(frozen=True, slots=True, eq=False)
class Compound:
    """An expression of symbols, like the ``n * 2`` of a shape: its text, its symbols, and how to compute it."""

    text: str
    symbols: tuple[Var, ...]
    compute: Callable[..., int]

    def evaluate(self, env: Mapping[Var, int]) -> int:
        """The value. Raises ZeroDivisionError where it has none, and OverflowError where it leaves its type."""
        return self.compute(*[env[symbol] for symbol in self.symbols])


Extent: TypeAlias = int | Var | Compound


@dataclass(frozen=True, slots=True, eq=False)
class ArrayParam:
    """An array: ``strides`` and ``offset`` count elements, ``strides=None`` is C-contiguous, ``alignment`` is in bytes."""

    name: str
    data: Var
    dtype: str
    itemsize: int
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...] | None
    offset: Extent
    alignment: int
    written: bool
    noalias: bool
    broadcast: bool

    @property
    def shape_text(self) -> str:
        """The shape as messages show it: ``(n, 16)``."""
        inside = ", ".join(extent_text(extent) for extent in self.shape)
        return f"({inside},)" if len(self.shape) == 1 else f"({inside})"

    def extents(self) -> list[tuple[str, int, Extent]]:
        """All extents in the order in which symbols are bound: (what, axis, extent)."""
        found: list[tuple[str, int, Extent]] = [("shape", axis, extent) for axis, extent in enumerate(self.shape)]
        found += [("strides", axis, extent) for axis, extent in enumerate(self.strides or ())]
        return [*found, ("elem_offset", 0, self.offset)]


@dataclass(frozen=True, slots=True, eq=False)
class ScalarParam:
    """A scalar of any numeric dtype."""

    name: str
    var: Var
    dtype: DataType


Param: TypeAlias = ArrayParam | ScalarParam


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """Where a symbol gets its value: ``what`` (shape, strides, elem_offset) of a parameter."""

    symbol: Var
    param: ArrayParam
    what: str
    axis: int

    @property
    def text(self) -> str:
        """The site as messages show it: ``shape[0] of `A```."""
        place = self.what if self.what == "elem_offset" else f"{self.what}[{self.axis}]"
        return f"{place} of `{self.param.name}`"


@dataclass(frozen=True, eq=False)
class Signature:
    """The parameters of a function and how a call gives them.

    ``outputs`` are the arrays that a call does not pass, in the order in which they are returned; ``sites`` say where
    each symbol is bound, in that order.
    """

    name: str
    params: tuple[Param, ...]
    outputs: tuple[ArrayParam, ...]
    sites: tuple[Site, ...]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """The values of scalar parameters that a call may leave out."""

    @property
    def inputs(self) -> tuple[Param, ...]:
        """The parameters that a call passes, in order."""
        return tuple(p for p in self.params if p not in self.outputs)

    @property
    def arrays(self) -> tuple[ArrayParam, ...]:
        """The arrays that a call passes, in order."""
        return tuple(p for p in self.inputs if isinstance(p, ArrayParam))

    @property
    def symbols(self) -> tuple[Var, ...]:
        """The symbols that arrays bind, in order."""
        return tuple(site.symbol for site in self.sites)

    @property
    def shaping(self) -> tuple[ScalarParam, ...]:
        """The scalars on which extents of arrays depend."""
        used: set[Var] = set()
        for param in self.params:
            if isinstance(param, ArrayParam):
                for _, _, extent in param.extents():
                    used.update(symbols_of(extent))
        return tuple(p for p in self.params if isinstance(p, ScalarParam) and p.var in used)


def extent_text(extent: Extent) -> str:
    """An extent as messages show it."""
    if isinstance(extent, int):
        return str(extent)
    return extent.name if isinstance(extent, Var) else extent.text


def symbols_of(extent: Extent) -> tuple[Var, ...]:
    """The symbols of an extent."""
    if isinstance(extent, int):
        return ()
    return (extent,) if isinstance(extent, Var) else extent.symbols


class _Writes(Visitor):
    """The data variables that a function writes through, or lets out to what may write."""

    def __init__(self) -> None:
        self.found: set[Var] = set()
        self.sources: dict[Var, Var] = {}

    def visit_MatchBufferRegion(self, op: MatchBufferRegion) -> None:
        self.sources[op.buffer.data] = op.source.buffer.data

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.found.add(op.buffer.data)
        self.generic(op)

    def visit_Call(self, op: Call) -> None:
        if op.op is _ACCESS:
            mask = op.args[4]
            if isinstance(op.args[1], Var) and not (isinstance(mask, IntImm) and not mask.value & 2):
                self.found.add(op.args[1])
            return
        callee = op.op
        if callee is _ADDRESS or (isinstance(callee, Op) and callee.purity <= Purity.READS):
            return
        reads = _READS.get(callee.name, ()) if isinstance(callee, Op) else ()
        for position, arg in enumerate(op.args):
            if position in reads:
                continue
            if isinstance(arg, Var) and arg.dtype.is_handle:
                self.found.add(arg)
            elif isinstance(arg, Call) and arg.op is _ADDRESS and isinstance(arg.args[0], BufferLoad):
                self.found.add(arg.args[0].buffer.data)


def written_data(func: PrimFunc) -> set[Var]:
    """The data variables through which a function writes, as far as its own statements say."""
    finder = _Writes()
    with deep_recursion():
        finder.visit(func.body)
    found = set(finder.found)
    for var in finder.found:
        while var in finder.sources:
            var = finder.sources[var]
            found.add(var)
    return found


def signature_of(func: PrimFunc, outputs: Sequence[str] = (), written: set[Var] | None = None) -> Signature:
    """The signature of a prim func as it was given to the build; outputs by name, or those of ``tir.outputs``.

    ``written`` are the data variables of its buffers that are written, where its own body does not say.

    Raises:
        LoweringError: a parameter cannot be passed, an output is no array that is written, or a symbol has no value.
    """
    writes = written_data(func) if written is None else written
    noalias = bool(func.attrs.get("tir.noalias"))
    stated = func.attrs.get("tir.outputs", ())
    chosen = tuple(outputs) or ((stated,) if isinstance(stated, str) else tuple(map(str, stated)))
    params: list[Param] = []
    taken: set[str] = set()
    for var in func.params:
        buffer = func.buffer_map.get(var)
        name = _fresh(var.name if buffer is None else buffer.name, taken)
        if buffer is not None:
            params.append(_array(func.name, name, buffer, buffer.data in writes, noalias))
        elif var.dtype.is_scalar and (var.dtype.is_integral or var.dtype.is_float or var.dtype.is_handle):
            params.append(ScalarParam(name, var, var.dtype))
        else:
            raise LoweringError(
                f"the parameter `{name}` of `{func.name}` is {var.dtype!s}, which no call can pass",
                origin="launch",
                span=var.span,
                help="pass an array, and load the vector from it",
            )
    made = _outputs(func.name, params, chosen)
    sites = _sites(func.name, params, made)
    return Signature(func.name, tuple(params), made, sites, dict(func.attrs.get("tir.defaults", {})))


def _fresh(hint: str, taken: set[str]) -> str:
    name, n = hint, 0
    while name in taken:
        n += 1
        name = f"{hint}_{n}"
    taken.add(name)
    return name


def _array(func: str, name: str, buffer: Buffer, written: bool, noalias: bool) -> ArrayParam:
    kind = storage_dtype(buffer.dtype)
    if kind.is_handle or kind.code == "void":
        raise LoweringError(
            f"buffer `{name}` of `{func}` has elements of {kind!s}, which no array has",
            origin="launch",
            help="declare it with a numeric type",
        )
    what = f"buffer `{name}` of `{func}`"
    shape = tuple(extent_of(extent, what) for extent in buffer.shape)
    strides = tuple(extent_of(stride, what) for stride in buffer.strides) if buffer.strides else None
    offset = extent_of(buffer.elem_offset, what)
    if kind.is_vector:
        # An array of vectors is an array of their elements, with a dimension more.
        if strides is not None or offset != 0:
            raise LoweringError(
                f"{what} has strides or an offset, and elements of {kind!s}",
                origin="launch",
                help="declare it with scalar elements and one dimension more",
            )
        shape = (*shape, kind.lanes)
    element = kind.element.numpy
    declared = buffer.align if buffer.align != ALLOC_ALIGNMENT else VECTOR_ALIGN
    alignment = max(declared, element.itemsize)
    broadcast = buffer.buffer_type == "auto_broadcast" and strides is not None
    dtype = str(DataType.from_numpy(element))
    return ArrayParam(
        name, buffer.data, dtype, element.itemsize, shape, strides, offset, alignment, written, noalias, broadcast
    )


def extent_of(expr: Expr, what: str) -> Extent:
    """An extent as a call computes it. Raises :class:`LoweringError` where it is no expression of symbols."""
    if isinstance(expr, IntImm):
        return expr.value
    if isinstance(expr, Var):
        return expr
    used: dict[Var, None] = {}

    def look(node: Any) -> None:
        if isinstance(node, Var):
            used.setdefault(node)

    post_order_visit(expr, look)
    return Compound(str(expr), tuple(used), function_of(expr, tuple(used), what))


def function_of(expr: Expr, variables: tuple[Var, ...], what: str, size: bool = True) -> Callable[..., int]:
    """An expression as a Python function of its variables. That of a size raises OverflowError where it leaves its type;
    any other wraps.
    """
    writer = ExpressionWriter(what)
    params = ", ".join([writer.define(var) for var in variables])
    value = writer.size(expr) if size else writer.value(expr)
    made: Callable[..., int] = eval(f"lambda {params}: {value}", writer.constants)
    return made


def _outputs(func: str, params: list[Param], names: tuple[str, ...]) -> tuple[ArrayParam, ...]:
    by_name = {p.name: p for p in params}
    written = [p.name for p in params if isinstance(p, ArrayParam) and p.written]
    made: list[ArrayParam] = []
    for name in names:
        param = by_name.get(name)
        if not isinstance(param, ArrayParam) or not param.written or names.count(name) > 1:
            near = nearest_name(name, written)
            raise LoweringError(
                f"`{func}`: output `{name}` is not an array that the function writes, named once",
                origin="launch",
                help=f"did you mean `{near}`?" if near and near != name else f"name some of {written}",
            )
        if param.strides is not None or param.offset != 0:
            raise LoweringError(
                f"`{func}`: output `{name}` has declared strides or an elem_offset",
                origin="launch",
                help="only compact buffers can be allocated",
            )
        made.append(param)
    return tuple(made)


def _sites(func: str, params: list[Param], outputs: tuple[ArrayParam, ...]) -> tuple[Site, ...]:
    scalars = {p.var for p in params if isinstance(p, ScalarParam)}
    bound: dict[Var, Site] = {}
    used: dict[Var, None] = {}
    for param in params:
        if not isinstance(param, ArrayParam):
            continue
        for what, axis, extent in param.extents():
            used.update(dict.fromkeys(symbols_of(extent)))
            if isinstance(extent, Var) and extent not in scalars and param not in outputs:
                bound.setdefault(extent, Site(extent, param, what, axis))
    for symbol in used:
        if symbol not in bound and symbol not in scalars:
            raise LoweringError(
                f"`{func}`: the value of `{symbol.name}` cannot be found: no {'passed ' if outputs else ''}array has it "
                "as a bare extent",
                origin="launch",
                help=f"make `{symbol.name}` a scalar parameter, or give an input the extent `{symbol.name}`",
            )
    return tuple(bound.values())
