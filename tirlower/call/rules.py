"""What a call accepts: the checks of its arguments, and every message about one.

The same for arrays of the host and of a device; what runs a call adds how it finds the memory of an argument. The native
entry of a CPU makes the same checks in machine code, and leaves calls that fail them to these.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from tirlower.call.dtypes import numpy_dtype
from tirlower.call.extents import Extent, extent_text, names_in
from tirlower.call.scalars import BadScalar, converted
from tirlower.call.signature import BindSite, BufferParam, Param, ScalarParam, Signature
from tirlower.call.views import NotAnArray, View, share_memory
from tirlower.diagnostics import ArgumentError, ArgumentTypeError, ArgumentValueError, nearest_name

__all__ = ["MAX_OUTPUT_BYTES", "ArgumentRules"]

#: the most that an output may take; beyond it no machine of today has the address space
MAX_OUTPUT_BYTES = 1 << 46


class ArgumentRules:
    """The checks of a call against a signature.

    They raise :class:`ArgumentTypeError` for a missing, unknown or repeated argument, or one of a wrong kind or dtype;
    and :class:`ArgumentValueError` for a wrong rank, extent, stride, alignment or range, read-only memory for a written
    buffer, or memory that is shared where it may not be.
    """

    where: ClassVar[str] = ""
    """Where arrays are, for messages."""
    contiguous: ClassVar[str] = "np.ascontiguousarray(x)"
    """What a caller passes in place of an array with strides."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self._inputs = signature.inputs
        self._names = [p.name for p in self._inputs]
        self._buffers = {p.name: p for p in signature.buffers}
        self._defaults = {p.name: p.default for p in signature.scalars if p.default is not None}
        self._alignments = {p.name: max(p.alignment, numpy_dtype(p.dtype).alignment, 1) for p in signature.buffers}
        self._pairs = signature.alias_pairs()
        self._bound_at = {site.symbol.name: site for site in signature.sites}

    # -- which argument is which -------------------------------------------------------------------------------------

    def arrange(self, args: Sequence[object], kwargs: Mapping[str, object]) -> list[object]:
        """The arguments in the order of the parameters."""
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
        given: dict[str, object] = dict(zip(names, args, strict=False))
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

    def wrong(self, cls: type[ArgumentError], param: Param, expected: str, got: str, help: str) -> ArgumentError:
        """The error of an argument."""
        message = f"argument `{param.name}` of `{self.signature.name}`: expected {expected}, got {got}"
        return self._error(cls, message, help)

    # -- one argument ------------------------------------------------------------------------------------------------

    def scalar(self, param: ScalarParam, value: object) -> tuple[int, int | float]:
        """The bits of a scalar argument, and its value in the range and the precision of the parameter."""
        try:
            return converted(param.dtype, value)
        except BadScalar as bad:
            cls = ArgumentValueError if bad.out_of_range else ArgumentTypeError
            raise self.wrong(cls, param, bad.expected, bad.got, bad.remedy) from None

    def no_array(self, param: BufferParam, bad: NotAnArray) -> ArgumentError:
        """The error of an argument that is no array."""
        wanted = f"a {param.dtype} array of shape {param.shape_text}{self.where}"
        return self.wrong(ArgumentTypeError, param, wanted, bad.got, bad.remedy)

    def check_kind(self, param: BufferParam, view: View) -> None:
        """The dtype, the number of dimensions, and whether the memory may be written."""
        if view.dtype != param.dtype:
            remedy = f"convert it first: x.astype({_dtype_text(param.dtype)})"
            if param.dtype == "bool" and view.itemsize == 1:
                remedy = "pass x != 0, or x.view(np.bool_) if it holds only 0 and 1"
            raise self.wrong(ArgumentTypeError, param, f"dtype {param.dtype}", f"dtype {view.dtype}", remedy)
        if len(view.shape) != param.ndim:
            raise self.wrong(
                ArgumentValueError,
                param,
                f"{param.ndim} dimension{'s' * (param.ndim != 1)} {param.shape_text}",
                f"{len(view.shape)} with shape {view.shape}",
                "reshape the array",
            )
        if param.written and view.readonly:
            raise self.wrong(
                ArgumentValueError,
                param,
                "a writeable array (the function writes it)",
                f"a read-only {view.text()}",
                "pass a writeable array, such as a copy",
            )

    # -- symbols -----------------------------------------------------------------------------------------------------

    def bind_symbols(self, views: Mapping[str, View], env: dict[str, float]) -> None:
        """Add the values of the symbols to those of the scalars."""
        for site in self.signature.sites:
            env[site.symbol.name] = self._bound(site, self._buffers[site.param], views[site.param])

    def _bound(self, site: BindSite, param: BufferParam, view: View) -> int:
        if site.what == "elem_offset":
            return 0
        value = view.shape[site.axis] if site.what == "shape" else self._stride(param, view, site.axis)
        if site.symbol.dtype == "int32" and not -(1 << 31) <= value < 1 << 31:
            raise self.wrong(
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
        raise self.wrong(
            ArgumentValueError,
            param,
            f"strides that are multiples of the {view.itemsize} bytes of {param.dtype}",
            f"strides[{axis}] of {view.strides[axis]} bytes",
            f"pass {self.contiguous}",
        )

    def value(self, extent: Extent, env: Mapping[str, float]) -> int:
        """The value of an extent."""
        if isinstance(extent, int):
            return extent
        try:
            return extent.evaluate(env)
        except ZeroDivisionError:
            raise self._error(
                ArgumentValueError,
                f"`{self.signature.name}`: expected a value for the extent {extent.text}, got a division by zero "
                f"({self._told(extent, env)})",
                "pass arrays for which the extent has a value",
            ) from None
        except OverflowError as error:
            raise self._error(
                ArgumentValueError,
                f"`{self.signature.name}`: the extent {extent.text} is too large: {error}",
                "pass smaller sizes, or declare the symbols as int64",
            ) from None

    def _told(self, extent: Extent, env: Mapping[str, float]) -> str:
        """Where the symbols of an extent come from."""
        sites = self._bound_at
        places = {name: sites[name].text if name in sites else f"argument `{name}`" for name in names_in(extent)}
        return ", ".join(f"`{name}` is {env[name]} by {place}" for name, place in places.items())

    def _explain(self, extent: Extent, env: Mapping[str, float]) -> str:
        """An extent for a message: its value, its text, and where its symbols come from."""
        value = self.value(extent, env)
        return str(value) if isinstance(extent, int) else f"{extent_text(extent)} = {value} ({self._told(extent, env)})"

    # -- all that needs the symbols ----------------------------------------------------------------------------------

    def check_layout(self, param: BufferParam, view: View, env: Mapping[str, float]) -> None:
        """The extents and the strides."""
        for axis, extent in enumerate(param.shape):
            if view.shape[axis] != self.value(extent, env):
                raise self.wrong(
                    ArgumentValueError,
                    param,
                    f"shape[{axis}] to be {self._explain(extent, env)}",
                    f"{view.shape[axis]} (shape {view.shape})",
                    "pass an array of the expected shape",
                )
        if param.strides is None:
            if not view.compact:
                raise self.wrong(
                    ArgumentValueError,
                    param,
                    "a C-contiguous array",
                    f"strides {view.strides} bytes for shape {view.shape}",
                    f"pass {self.contiguous}, or declare symbolic strides for the buffer",
                )
            return
        for axis, extent in enumerate(param.strides):
            if view.shape[axis] <= 1 or not view.size:
                continue
            got = self._stride(param, view, axis)
            if got != self.value(extent, env):
                raise self.wrong(
                    ArgumentValueError,
                    param,
                    f"strides[{axis}] to be {self._explain(extent, env)} elements",
                    f"{got} (strides {view.strides} bytes)",
                    "pass an array with the expected strides",
                )

    def check_alignment(self, param: BufferParam, view: View, address: int) -> None:
        """The alignment of the address that the kernel gets."""
        alignment = self._alignments[param.name]
        if address % alignment and view.size:
            # What NumPy allocates is aligned to 16 bytes, what a GPU's runtime does to more than anybody asks for.
            room = "x.copy()" if alignment <= 16 else f"NumPy's in `tl.aligned_empty(x.shape, x.dtype, {alignment})`"
            raise self.wrong(
                ArgumentValueError,
                param,
                f"data aligned to {alignment} bytes",
                f"address {address:#x}, {address % alignment} bytes off",
                f"pass a copy ({room}), or declare a smaller alignment for the buffer",
            )

    def meets(self, first: BufferParam, a: View, data_a: int, second: BufferParam, b: View, data_b: int) -> bool:
        """Whether two arrays, at these addresses, share memory that the kernel takes to be apart."""
        same = data_a == data_b and self.signature.may_coincide(first, second)
        return not same and share_memory(a, data_a, b, data_b)

    def overlap(
        self, first: BufferParam, second: BufferParam, spans: Sequence[tuple[int, int]], why: str
    ) -> ArgumentError:
        """The error of two arrays that share memory; ``spans`` are the addresses of each, ``why`` they may not."""
        low, high = max(low for low, _ in spans), min(high for _, high in spans)
        written = " and ".join(f"`{p.name}`" for p in (first, second) if p.written)
        return self.wrong(
            ArgumentValueError,
            second,
            f"memory that does not overlap `{first.name}` ({why}; the function writes {written})",
            f"an overlap of up to {high - low} bytes at {low:#x}",
            f"pass a copy of `{first.name}` or of `{second.name}`",
        )

    def output_shape(self, param: BufferParam, env: Mapping[str, float]) -> tuple[int, ...]:
        """The shape of an array that the call allocates."""
        shape = tuple(self.value(extent, env) for extent in param.shape)
        for axis, extent in enumerate(param.shape):
            if shape[axis] < 0:
                raise self.wrong(
                    ArgumentValueError,
                    param,
                    f"shape[{axis}] of at least 0 to allocate",
                    self._explain(extent, env),
                    "pass larger inputs",
                )
        nbytes = math.prod(shape) * numpy_dtype(param.dtype).itemsize
        if nbytes > MAX_OUTPUT_BYTES:
            raise self.wrong(
                ArgumentValueError, param, "an output that memory can hold", f"{nbytes} bytes {shape}", "pass less"
            )
        return shape


def _dtype_text(dtype: str) -> str:
    return f"np.{dtype}" if hasattr(np, dtype) else f"ml_dtypes.{dtype}"
