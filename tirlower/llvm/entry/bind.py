"""The checks of a call in Python: from arguments to the 64-bit slots that the packed kernel takes.

The native entry makes the same checks in machine code and comes here as soon as one fails, or when it meets an object
that it does not know; so this file decides what a call accepts, and writes every message. It runs before the kernel.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tirlower.diagnostics import ArgumentError, ArgumentTypeError, ArgumentValueError, nearest_name
from tirlower.llvm.entry.dtypes import numpy_dtype
from tirlower.llvm.entry.scalars import BadScalar, scalar_bits
from tirlower.llvm.entry.signature import BindSite, BufferParam, Extent, Param, ScalarParam, Signature, Sym
from tirlower.llvm.entry.views import NotAnArray, View, view_of

__all__ = ["Binder", "Bound", "aligned_empty"]

#: what outputs are aligned to: a cache line, and the widest vector register
OUTPUT_ALIGNMENT = 64
_Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Bound:
    """A checked call: the kernel's arguments as 64-bit slots, the arrays to return, the values of the symbols.

    ``elements`` counts the elements of all arrays; ``keep`` must outlive the kernel's run. ``overlap`` says that arrays
    share memory which the kernel takes to be apart.
    """

    slots: ctypes.Array[ctypes.c_uint64]
    outputs: tuple[_Array, ...]
    env: Mapping[str, int]
    elements: int
    keep: Sequence[object]
    overlap: bool = False


def aligned_empty(shape: Sequence[int], dtype: np.dtype[Any], alignment: int = OUTPUT_ALIGNMENT) -> _Array:
    """An uninitialised C-contiguous array whose data is aligned to 64 bytes or more (NumPy alone gives 16)."""
    nbytes = math.prod(shape) * dtype.itemsize
    raw = np.empty(nbytes + alignment, np.uint8)
    start = -raw.ctypes.data % alignment
    return raw[start : start + nbytes].view(dtype).reshape(shape)


class Binder:
    """Checks the arguments of a call against a signature.

    ``refuses`` says that there is no version of the kernel for arrays that share memory.

    Raises (from :meth:`bind`):
        ArgumentTypeError: a missing, unknown or repeated argument, or one of a wrong kind or dtype.
        ArgumentValueError: a wrong rank, extent, stride, alignment or range, read-only memory for a written buffer, or
            memory shared where the function declares ``noalias``, or where no version takes it.
    """

    def __init__(self, signature: Signature, refuses: bool = True) -> None:
        self.signature = signature
        self._refuses = refuses
        self._inputs = signature.inputs
        self._names = [p.name for p in self._inputs]
        self._defaults = {
            p.name: p.default for p in self._inputs if isinstance(p, ScalarParam) and p.default is not None
        }
        self._buffers = {p.name: p for p in signature.buffers}
        self._alignments = {p.name: max(p.alignment, numpy_dtype(p.dtype).alignment, 1) for p in self._buffers.values()}
        self._pairs = signature.alias_pairs()
        self._bound_at = {site.symbol.name: site for site in signature.sites}

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Bound:
        """Check everything about a call and return what to run."""
        given = self._arrange(args, kwargs)
        env: dict[str, int] = {}
        bits: dict[str, int] = {}
        views: dict[str, View] = {}
        for param, value in zip(self._inputs, given, strict=True):
            if isinstance(param, ScalarParam):
                bits[param.name], number = self._scalar(param, value)
                if number is not None:
                    env[param.name] = number
            else:
                views[param.name] = self._view(param, value)
        by_name = self._buffers
        for site in self.signature.sites:
            env[site.symbol.name] = self._bind_symbol(site, by_name[site.param], views[site.param])
        for name, view in views.items():
            self._check_view(by_name[name], view, env)
        # All pairs: one that is refused counts for more than one that is not.
        overlap = [self._overlaps(first, second, views) for first, second in self._pairs]
        outputs = tuple(self._allocate(by_name[name], env) for name in self.signature.outputs)
        for name, array in zip(self.signature.outputs, outputs, strict=True):
            views[name] = view_of(array, written=True)
        for param in self.signature.params:
            if isinstance(param, BufferParam):
                offset = self._value(param.elem_offset, env)
                bits[param.name] = views[param.name].data - offset * views[param.name].itemsize
        words = [bits[p.name] for p in self.signature.params] + [env[s.name] for s in self.signature.symbols]
        slots = (ctypes.c_uint64 * max(1, len(words)))(*[w & 0xFFFF_FFFF_FFFF_FFFF for w in words])
        elements = sum(view.size for view in views.values())
        return Bound(slots, outputs, env, elements, list(views.values()), any(overlap))

    # -- which argument is which -------------------------------------------------------------------------------------

    def _arrange(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        names, sig = self._names, self.signature
        listed = ", ".join(names) or "none"
        if len(args) > len(names):
            help = f"the arguments are: {listed}"
            if sig.outputs:
                help += f"; {', '.join(sig.outputs)} would be allocated and returned, and cannot be passed"
            raise self._error(
                ArgumentTypeError,
                f"`{sig.name}`: expected {len(names)} argument{'s' * (len(names) != 1)}, got {len(args) + len(kwargs)}",
                help,
            )
        given: dict[str, Any] = dict(zip(names, args, strict=False))
        for name, value in kwargs.items():
            if name in given:
                raise self._error(
                    ArgumentTypeError,
                    f"argument `{name}` of `{sig.name}`: expected once, got twice (by position and by keyword)",
                    f"pass `{name}` once",
                )
            if name not in names:
                near = nearest_name(name, names)
                help = f"did you mean `{near}`?" if near else f"the arguments are: {listed}"
                if name in sig.outputs:
                    help = f"`{name}` is allocated and returned; leave it out"
                raise self._error(
                    ArgumentTypeError, f"`{sig.name}`: expected arguments {listed}, got unknown argument `{name}`", help
                )
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing and self._defaults:
            given = {**self._defaults, **given}
            missing = [name for name in names if name not in given]
        if missing:
            words = ", ".join(f"`{name}`" for name in missing)
            raise self._error(
                ArgumentTypeError,
                f"`{sig.name}`: missing argument{'s' * (len(missing) > 1)} {words}: "
                f"expected {len(names)} ({listed}), got {len(given)}",
                f"pass {words}",
            )
        return [given[name] for name in names]

    def _error(self, cls: type[ArgumentError], message: str, help: str) -> ArgumentError:
        return cls(message, origin="call", help=help)

    def _wrong(self, cls: type[ArgumentError], param: Param, expected: str, got: str, help: str) -> ArgumentError:
        message = f"argument `{param.name}` of `{self.signature.name}`: expected {expected}, got {got}"
        return self._error(cls, message, help)

    # -- one argument ------------------------------------------------------------------------------------------------

    def _scalar(self, param: ScalarParam, value: Any) -> tuple[int, int | None]:
        try:
            return scalar_bits(param.dtype, value)
        except BadScalar as bad:
            cls = ArgumentValueError if bad.out_of_range else ArgumentTypeError
            raise self._wrong(cls, param, bad.expected, bad.got, bad.remedy) from None

    def _view(self, param: BufferParam, value: Any) -> View:
        try:
            view = view_of(value, param.written)
        except NotAnArray as bad:
            wanted = f"a {param.dtype} array of shape {param.shape_text}"
            raise self._wrong(ArgumentTypeError, param, wanted, bad.got, bad.remedy) from bad.__cause__
        if view.dtype != param.dtype:
            remedy = f"convert it first: x.astype({_dtype_text(param.dtype)})"
            if param.dtype == "bool" and view.itemsize == 1:
                remedy = "pass x != 0, or x.view(np.bool_) if it holds only 0 and 1"
            raise self._wrong(ArgumentTypeError, param, f"dtype {param.dtype}", f"dtype {view.dtype}", remedy)
        if len(view.shape) != param.ndim:
            raise self._wrong(
                ArgumentValueError,
                param,
                f"{param.ndim} dimension{'s' * (param.ndim != 1)} {param.shape_text}",
                f"{len(view.shape)} with shape {view.shape}",
                "reshape the array",
            )
        if param.written and view.readonly:
            raise self._wrong(
                ArgumentValueError,
                param,
                "a writeable array (the function writes it)",
                f"a read-only {view.text()}",
                "pass a writeable array, such as a copy",
            )
        return view

    def _bind_symbol(self, site: BindSite, param: BufferParam, view: View) -> int:
        if site.what == "elem_offset":
            return 0
        value = view.shape[site.axis] if site.what == "shape" else self._stride(param, view, site.axis)
        if site.symbol.dtype == "int32" and not -(1 << 31) <= value < 1 << 31:
            raise self._wrong(
                ArgumentValueError,
                param,
                f"{site.what}[{site.axis}] that fits int32 (symbol `{site.symbol.name}`)",
                str(value),
                f"declare `{site.symbol.name}` as int64",
            )
        return value

    def _stride(self, param: BufferParam, view: View, axis: int) -> int:
        """A stride in elements; where no second element exists along the axis, any byte stride is as good."""
        if param.broadcast and view.shape[axis] == 1:
            return 0
        elements, rest = divmod(view.strides[axis], view.itemsize)
        if not rest:
            return elements
        if view.shape[axis] <= 1 or not view.size:
            return math.prod(view.shape[axis + 1 :])
        raise self._wrong(
            ArgumentValueError,
            param,
            f"strides that are multiples of the {view.itemsize} bytes of {param.dtype}",
            f"strides[{axis}] of {view.strides[axis]} bytes",
            "pass np.ascontiguousarray(x)",
        )

    # -- all that needs the symbols ----------------------------------------------------------------------------------

    def _value(self, extent: Extent, env: Mapping[str, int]) -> int:
        if isinstance(extent, int):
            return extent
        if isinstance(extent, Sym):
            return env[extent.name]
        try:
            return int(extent.evaluate(env))
        except ZeroDivisionError:
            told = ", ".join(f"`{name}` = {env[name]} by {self._origin(name)}" for name in dict.fromkeys(extent.names))
            raise self._error(
                ArgumentValueError,
                f"`{self.signature.name}`: expected a value for the extent {extent.text}, got a division by zero ({told})",
                "pass arrays for which the extent has a value",
            ) from None
        except OverflowError as error:
            raise self._error(
                ArgumentValueError,
                f"`{self.signature.name}`: the extent {extent.text} is too large: {error}",
                "pass smaller sizes, or declare the symbols as int64",
            ) from None

    def _explain(self, extent: Extent, env: Mapping[str, int]) -> str:
        """An extent for a message: its value, its text, and where its symbols come from."""
        value = self._value(extent, env)
        if isinstance(extent, int):
            return str(value)
        names = [extent.name] if isinstance(extent, Sym) else list(dict.fromkeys(extent.names))
        told = [f"`{name}` is {env[name]} by {self._origin(name)}" for name in names]
        return f"{extent.text} = {value} ({', '.join(told)})"

    def _origin(self, name: str) -> str:
        site = self._bound_at.get(name)
        return site.text if site else f"argument `{name}`"

    def _check_view(self, param: BufferParam, view: View, env: Mapping[str, int]) -> None:
        for axis, extent in enumerate(param.shape):
            if view.shape[axis] != self._value(extent, env):
                raise self._wrong(
                    ArgumentValueError,
                    param,
                    f"shape[{axis}] to be {self._explain(extent, env)}",
                    f"{view.shape[axis]} (shape {view.shape})",
                    "pass an array of the expected shape",
                )
        if param.strides is None:
            if not view.compact:
                raise self._wrong(
                    ArgumentValueError,
                    param,
                    "a C-contiguous array",
                    f"strides {view.strides} bytes for shape {view.shape}",
                    "pass np.ascontiguousarray(x), or declare symbolic strides for the buffer",
                )
        else:
            self._check_strides(param, param.strides, view, env)
        self._check_alignment(param, view, env)

    def _check_strides(self, param: BufferParam, strides: Sequence[Extent], view: View, env: Mapping[str, int]) -> None:
        for axis, extent in enumerate(strides):
            if view.shape[axis] <= 1 or not view.size:
                continue
            got = self._stride(param, view, axis)
            if got != self._value(extent, env):
                raise self._wrong(
                    ArgumentValueError,
                    param,
                    f"strides[{axis}] to be {self._explain(extent, env)} elements",
                    f"{got} (strides {view.strides} bytes)",
                    "pass an array with the expected strides",
                )

    def _check_alignment(self, param: BufferParam, view: View, env: Mapping[str, int]) -> None:
        alignment = self._alignments[param.name]
        address = view.data - self._value(param.elem_offset, env) * view.itemsize
        if address % alignment and view.size:
            raise self._wrong(
                ArgumentValueError,
                param,
                f"data aligned to {alignment} bytes",
                f"address {address:#x}, {address % alignment} bytes off",
                "pass a copy (x.copy()), or lower the declared alignment",
            )

    def _overlaps(self, first: BufferParam, second: BufferParam, views: Mapping[str, View]) -> bool:
        """Whether two arrays share memory that the kernel takes to be apart."""
        a, b = views[first.name], views[second.name]
        if not _share_memory(a, b) or (a.data == b.data and self.signature.may_coincide(first, second)):
            return False
        if not (self._refuses or first.noalias or second.noalias):
            return True
        low, high = max(a.byte_range()[0], b.byte_range()[0]), min(a.byte_range()[1], b.byte_range()[1])
        written = " and ".join(f"`{p.name}`" for p in (first, second) if p.written)
        raise self._wrong(
            ArgumentValueError,
            second,
            f"memory that does not overlap `{first.name}` (noalias; the function writes {written})",
            f"an overlap of up to {high - low} bytes at {low:#x}",
            f"pass a copy of `{first.name}` or of `{second.name}`",
        )

    def _allocate(self, param: BufferParam, env: Mapping[str, int]) -> _Array:
        shape = tuple(self._value(extent, env) for extent in param.shape)
        for axis, extent in enumerate(param.shape):
            if shape[axis] < 0:
                raise self._wrong(
                    ArgumentValueError,
                    param,
                    f"shape[{axis}] of at least 0 to allocate",
                    self._explain(extent, env),
                    "pass larger inputs",
                )
        dtype = numpy_dtype(param.dtype)
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes > MAX_OUTPUT_BYTES:
            raise self._wrong(
                ArgumentValueError, param, "an output that memory can hold", f"{nbytes} bytes {shape}", "pass less"
            )
        return aligned_empty(shape, dtype, max(OUTPUT_ALIGNMENT, param.alignment))


#: the most that an output may take; beyond it no machine of today has the address space
MAX_OUTPUT_BYTES = 1 << 46


def _dtype_text(dtype: str) -> str:
    return f"np.{dtype}" if hasattr(np, dtype) else f"ml_dtypes.{dtype}"


def _share_memory(a: View, b: View) -> bool:
    """True where two views have a byte in common, or where telling would cost too much."""
    (low_a, high_a), (low_b, high_b) = a.byte_range(), b.byte_range()
    if low_a >= high_b or low_b >= high_a or not a.size or not b.size:
        return False
    if a.compact and b.compact:
        return True
    try:
        # Interleaved views overlap as ranges only: this solves for a common byte.
        return bool(np.shares_memory(_bytes_of(a), _bytes_of(b), max_work=100_000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


class _Interface:
    def __init__(self, view: View) -> None:
        self.__array_interface__ = {
            "data": (view.data, True),
            "shape": view.shape,
            "strides": view.strides,
            "typestr": f"|V{view.itemsize}",
            "version": 3,
        }


def _bytes_of(view: View) -> _Array:
    return np.asarray(_Interface(view))
