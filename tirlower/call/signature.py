"""What a call of a kernel takes: parameters, symbolic dimensions, outputs.

:mod:`tirlower.call.parameters` describes a prim func's parameters with these classes; every entry, in machine code or in
Python, for a CPU or a GPU, derives all its checks from the description. Where a symbol gets its value is decided here,
once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tirlower.call.dtypes import element_type, numpy_dtype
from tirlower.call.extents import Compound, Extent, Sym, extent_text, names_in
from tirlower.diagnostics import LoweringError, nearest_name

__all__ = ["BindSite", "BufferParam", "Compound", "Extent", "Param", "ScalarParam", "Signature", "Sym", "extents_of"]


@dataclass(frozen=True, slots=True)
class BufferParam:
    """An array parameter.

    ``strides`` and ``elem_offset`` count elements; ``strides=None`` demands a C-contiguous array. ``alignment`` is in
    bytes (0: that of the dtype) and holds for the pointer that the kernel gets. ``noalias`` demands that the array share
    no memory with another one if either is written. ``broadcast`` makes the stride of an axis of extent one 0, so that
    its one element is read at every index.
    """

    name: str
    dtype: str
    shape: tuple[Extent, ...]
    strides: tuple[Extent, ...] | None = None
    elem_offset: Extent = 0
    alignment: int = 0
    written: bool = False
    noalias: bool = False
    broadcast: bool = False

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def shape_text(self) -> str:
        """The shape as messages show it: ``(n, 16)``."""
        inside = ", ".join(extent_text(extent) for extent in self.shape)
        return f"({inside},)" if len(self.shape) == 1 else f"({inside})"


@dataclass(frozen=True, slots=True)
class ScalarParam:
    """A scalar parameter of any dtype of :func:`~tirlower.call.dtypes.element_type`.

    ``default`` is its value in a call that does not pass it, if it may be left out.
    """

    name: str
    dtype: str
    default: int | float | bool | None = None


Param: TypeAlias = BufferParam | ScalarParam


@dataclass(frozen=True, slots=True)
class BindSite:
    """Where a symbol gets its value: ``what`` (``"shape"``, ``"strides"``, ``"elem_offset"``) of a parameter."""

    symbol: Sym
    param: str
    what: str
    axis: int

    @property
    def text(self) -> str:
        """The site as messages show it: ``shape[0] of `A```."""
        place = self.what if self.what == "elem_offset" else f"{self.what}[{self.axis}]"
        return f"{place} of `{self.param}`"


@dataclass(frozen=True)
class Signature:
    """The parameters of a kernel and how a call gives them.

    ``outputs`` names the buffer parameters that a call does not pass: they are allocated and returned. ``returns`` is
    the dtype of the kernel's own return value, if it has one. ``apart`` says that the kernel was compiled for arrays
    that share no memory where one of them is written; calls with others need another version of it. The pairs
    ``in_place`` (names) may be one array nevertheless, from the same address on; of parameters that say ``noalias``
    those that are ``left_open`` too.

    ``symbols`` (derived) are the symbolic dimensions in the order of their first bare occurrence (parameter order;
    shape, then strides, then elem_offset), which is their order as kernel arguments; a :class:`Sym` that names a scalar
    parameter is that parameter, and not among them. ``sites`` (derived) say where a call binds each.

    >>> n = Sym("n", "int32")
    >>> sig = Signature("f", (BufferParam("A", "float32", (n,)), BufferParam("B", "float32", (n, 4), written=True)))
    >>> [s.name for s in sig.symbols], sig.sites[0].text
    (['n'], 'shape[0] of `A`')

    Raises:
        LoweringError: a name is used twice, an output is no buffer parameter or is not written, strides do not match
            the shape, a dtype cannot be passed, or a symbol never stands bare in an argument.
    """

    name: str
    params: tuple[Param, ...]
    outputs: tuple[str, ...] = ()
    returns: str | None = None
    apart: bool = False
    in_place: frozenset[tuple[str, str]] = frozenset()
    left_open: frozenset[tuple[str, str]] = frozenset()
    symbols: tuple[Sym, ...] = field(init=False)
    sites: tuple[BindSite, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._check_params()
        scalars = {p.name: p for p in self.params if isinstance(p, ScalarParam)}
        order: dict[str, Sym] = {}
        bound: dict[str, BindSite] = {}
        for param in self.params:
            if not isinstance(param, BufferParam):
                continue
            for what, axis, extent in extents_of(param):
                if not isinstance(extent, Sym):
                    continue
                self._check_symbol(extent, order, scalars)
                if extent.name in scalars:
                    continue
                order.setdefault(extent.name, extent)
                if param.name not in self.outputs:
                    bound.setdefault(extent.name, BindSite(extent, param.name, what, axis))
        self._check_bound({*scalars, *bound}, order)
        object.__setattr__(self, "symbols", tuple(order.values()))
        object.__setattr__(self, "sites", tuple(bound.values()))

    @property
    def inputs(self) -> tuple[Param, ...]:
        """The parameters that a call passes, in order."""
        return tuple(p for p in self.params if p.name not in self.outputs)

    @property
    def buffers(self) -> tuple[BufferParam, ...]:
        """The buffer parameters, in order."""
        return tuple(p for p in self.params if isinstance(p, BufferParam))

    @property
    def scalars(self) -> tuple[ScalarParam, ...]:
        """The scalar parameters, in order."""
        return tuple(p for p in self.params if isinstance(p, ScalarParam))

    @property
    def shaping(self) -> tuple[ScalarParam, ...]:
        """The scalar parameters on which extents of arrays depend."""
        used = {name for param in self.buffers for _, _, extent in extents_of(param) for name in names_in(extent)}
        return tuple(p for p in self.scalars if p.name in used)

    def alias_pairs(self) -> tuple[tuple[BufferParam, BufferParam], ...]:
        """The pairs of passed buffers that the kernel takes to share no memory: one of them is written, and one (at
        least) declared ``noalias``, or the kernel is compiled for arrays that are ``apart``."""
        passed = [p for p in self.buffers if p.name not in self.outputs]
        return tuple(
            (a, b)
            for i, a in enumerate(passed)
            for b in passed[i + 1 :]
            if (a.written or b.written) and (self.apart or a.noalias or b.noalias)
        )

    def may_coincide(self, a: BufferParam, b: BufferParam) -> bool:
        """Whether two of those buffers may be one array."""
        pairs = self.in_place
        found = [pair for pair in ((a.name, b.name), (b.name, a.name)) if pair in pairs]
        return bool(found) and (not (a.noalias or b.noalias) or not self.left_open.isdisjoint(found))

    def _fail(self, message: str, help: str) -> LoweringError:
        return LoweringError(f"`{self.name}`: {message}", origin="call", help=help)

    def _check_params(self) -> None:
        names = [p.name for p in self.params]
        for name in names:
            if names.count(name) > 1:
                raise self._fail(f"two parameters are named `{name}`", "rename one of them")
        by_name = {p.name: p for p in self.params}
        for name in self.outputs:
            param = by_name.get(name)
            if not isinstance(param, BufferParam) or not param.written or self.outputs.count(name) > 1:
                near = nearest_name(name, [p.name for p in self.buffers if p.written])
                raise self._fail(
                    f"output `{name}` is not a buffer parameter that the function writes, named once",
                    f"did you mean `{near}`?"
                    if near and near != name
                    else f"name some of {[p.name for p in self.buffers if p.written]}",
                )
            if param.strides is not None or param.elem_offset != 0:
                raise self._fail(
                    f"output `{name}` has declared strides or an elem_offset", "only compact buffers can be allocated"
                )
        for param in self.params:
            if isinstance(param, ScalarParam):
                element_type(param.dtype)
                continue
            numpy_dtype(param.dtype)
            if param.strides is not None and len(param.strides) != len(param.shape):
                raise self._fail(
                    f"`{param.name}` has {len(param.shape)} dimensions and {len(param.strides)} strides",
                    "give one stride a dimension",
                )
            if param.alignment < 0 or param.alignment & (param.alignment - 1):
                raise self._fail(f"`{param.name}` is aligned to {param.alignment} bytes", "use a power of two")
        if self.returns is not None:
            element_type(self.returns)

    def _check_symbol(self, symbol: Sym, order: dict[str, Sym], scalars: Mapping[str, ScalarParam]) -> None:
        if symbol.dtype not in ("int32", "int64") and symbol.name not in scalars:
            raise self._fail(f"symbol `{symbol.name}` has dtype {symbol.dtype}", "use int32 or int64")
        known = order.get(symbol.name, symbol).dtype
        if symbol.name in scalars:
            known = scalars[symbol.name].dtype
            if element_type(known).kind not in ("int", "uint"):
                raise self._fail(f"`{symbol.name}`, a {known}, stands for a dimension", "make it an integer parameter")
        if known != symbol.dtype:
            raise self._fail(f"symbol `{symbol.name}` is {known} in one place and {symbol.dtype} in another", "use one")

    def _check_bound(self, bound: set[str], order: Mapping[str, Sym]) -> None:
        used = dict.fromkeys(order)
        for param in self.buffers:
            for _, _, extent in extents_of(param):
                used.update(dict.fromkeys(names_in(extent)))
        for name in used:
            if name not in bound:
                where = "no passed array" if self.outputs else "no array"
                raise self._fail(
                    f"the value of `{name}` cannot be found: {where} has it as a bare extent",
                    f"make `{name}` a scalar parameter, or give an input the extent `{name}`",
                )


def extents_of(param: BufferParam) -> list[tuple[str, int, Extent]]:
    """All extents of a buffer in binding order: ``(what, axis, extent)``."""
    found: list[tuple[str, int, Extent]] = [("shape", i, extent) for i, extent in enumerate(param.shape)]
    found += [("strides", i, extent) for i, extent in enumerate(param.strides or ())]
    found.append(("elem_offset", 0, param.elem_offset))
    return found
