"""The checks of a call: from arguments to a plan, which holds for all later calls with arrays of the same facts.

What a call accepts is decided here, and every message about an argument is written here. Addresses are no facts: their
alignment, their device and the overlap of arrays are checked whenever a call brings other addresses than the last one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tirlower.diagnostics import ArgumentError, ArgumentTypeError, ArgumentValueError
from tirlower.gpu.launch.device import Device
from tirlower.gpu.launch.signature import ArrayParam, Compound, Extent, ScalarParam, Signature, Site
from tirlower.gpu.launch.stream import order_after
from tirlower.gpu.launch.views import NotOnDevice, View, facts_of, reader_of, share_memory, stream_source
from tirlower.ir.expr import Var

__all__ = ["Plan", "Planner"]


class Plan:
    """A checked kind of call: where it runs and what the host function is given besides addresses and scalars.

    ``symbols`` are their values; ``offsets`` the bytes before each array's first element that its address is moved to;
    ``outputs`` the shapes to allocate; ``producers`` the streams of work that made the arguments; ``default`` says which
    stream the arguments' library works on. ``last`` are the addresses that were checked last.
    """

    __slots__ = ("default", "device", "enter", "last", "leave", "offsets", "outputs", "producers", "run", "symbols", "views")  # fmt: skip

    def __init__(
        self,
        device: Device,
        run: Callable[..., Any],
        views: tuple[View, ...],
        symbols: tuple[int, ...],
        offsets: tuple[int, ...],
        outputs: tuple[tuple[int, ...], ...],
        default: Callable[[], int] | None,
    ) -> None:
        self.device = device
        self.enter = device.enter
        self.leave = device.leave
        self.run = run
        self.views = views
        self.symbols = symbols
        self.offsets = offsets
        self.outputs = outputs
        # The protocols call the legacy default stream 1; its handle is 0.
        told = [v.facts.stream for v in views if v.facts.stream is not None]
        self.producers = tuple(dict.fromkeys(0 if s == 1 else s for s in told))
        self.default = default
        self.last: tuple[int, ...] = ()

    def wait(self, stream: int) -> None:
        """Let a stream wait for those that made the arguments."""
        for producer in self.producers:
            order_after(self.device, stream, producer)


class Planner:
    """Checks calls against a signature.

    ``device`` gives the device of a number; ``run`` the host function bound to it; ``at`` are the places in the
    signature from which the host function's symbols get their values. Raises (from :meth:`prepare`):
    :class:`ArgumentTypeError` for an argument of a wrong kind or dtype, :class:`ArgumentValueError` for a wrong rank,
    extent, stride, alignment, device, for read-only memory that is written, and for memory shared where one of two
    arrays is written. The pairs ``in_place`` (positions of parameters) may be one array, unless the function declares
    ``tir.noalias``.
    """

    def __init__(
        self,
        signature: Signature,
        at: Sequence[Extent],
        device: Callable[[int], Device],
        run: Callable[[Device], Callable[..., Any]],
        in_place: Iterable[tuple[int, int]] = (),
    ) -> None:
        self.signature = signature
        self._at = tuple(at)
        self._device = device
        self._run = run
        self._arrays = signature.arrays
        self._sites = {site.symbol: site for site in signature.sites}
        self._places = {p: i for i, p in enumerate(p for p in signature.params if isinstance(p, ArrayParam))}
        self._names = {p.var: p.name for p in signature.params if isinstance(p, ScalarParam)}
        self._pairs = [
            (i, j)
            for i, a in enumerate(self._arrays)
            for j, b in enumerate(self._arrays)
            if i < j and (a.written or b.written)
        ]
        params = signature.params
        self._in_place = {frozenset((params[a].name, params[b].name)) for a, b in in_place}

    # -- errors ------------------------------------------------------------------------------------------------------

    def _wrong(self, cls: type[ArgumentError], param: ArrayParam, expected: str, got: str, help: str) -> ArgumentError:
        message = f"argument `{param.name}` of `{self.signature.name}`: expected {expected}, got {got}"
        return cls(message, origin="call", help=help)

    # -- a new kind of call ------------------------------------------------------------------------------------------

    def prepare(self, values: Mapping[ArrayParam, Any], scalars: Mapping[Var, Any]) -> Plan:
        """Check everything about a call; ``scalars`` are those on which extents depend."""
        self._device(0)  # without a device nothing about the arguments matters
        views = {param: self._view(param, values[param]) for param in self._arrays}
        ordinal = self._ordinal(views)
        device = self._device(ordinal)
        env: dict[Var, int] = dict(scalars)
        for site in self.signature.sites:
            env[site.symbol] = self._bind(site, views[site.param])
        for param, view in views.items():
            self._check(param, view, env)
        symbols = tuple(self._value(extent, env) for extent in self._at)
        offsets = tuple(
            self._value(p.offset, env) * p.itemsize for p in self.signature.params if isinstance(p, ArrayParam)
        )
        outputs = tuple(self._output(p, env) for p in self.signature.outputs)
        first = values[self._arrays[0]] if self._arrays else None
        run = self._run(device)
        return Plan(device, run, tuple(views.values()), symbols, offsets, outputs, stream_source(first, ordinal))

    def _view(self, param: ArrayParam, value: Any) -> View:
        try:
            data, said = reader_of(value)(value)
            view = View.of(data, facts_of(value, said))
        except NotOnDevice as bad:
            wanted = f"a {param.dtype} array of shape {param.shape_text} on a CUDA device"
            raise self._wrong(ArgumentTypeError, param, wanted, bad.got, bad.remedy) from bad.__cause__
        facts = view.facts
        if facts.dtype != param.dtype:
            remedy = f"convert it first: x.astype({param.dtype!r})"
            raise self._wrong(ArgumentTypeError, param, f"dtype {param.dtype}", f"dtype {facts.dtype}", remedy)
        if len(facts.shape) != len(param.shape):
            count = len(param.shape)
            wanted = f"{count} dimension{'s' * (count != 1)} {param.shape_text}"
            got = f"{len(facts.shape)} with shape {facts.shape}"
            raise self._wrong(ArgumentValueError, param, wanted, got, "reshape the array")
        if param.written and facts.readonly:
            wanted = "a writeable array (the function writes it)"
            got = f"a read-only {view.text()}"
            raise self._wrong(ArgumentValueError, param, wanted, got, "pass a writeable array, such as a copy")
        return view

    def _ordinal(self, views: Mapping[ArrayParam, View]) -> int:
        """The number of the device on which all arrays are."""
        chosen: tuple[ArrayParam, int] | None = None
        for param, view in views.items():
            ordinal = self._place(param, view.facts.device, view.data)
            if ordinal is None:
                continue
            if chosen is None:
                chosen = param, ordinal
            elif chosen[1] != ordinal:
                wanted = f"an array on device {chosen[1]}, where `{chosen[0].name}` is"
                help = "copy one of them to the other's device"
                raise self._wrong(ArgumentValueError, param, wanted, f"one on device {ordinal}", help)
        return 0 if chosen is None else chosen[1]

    def _place(self, param: ArrayParam, stated: int | None, pointer: int) -> int | None:
        """The device of an array: what it says, or what the driver knows of its address; None for no memory."""
        if stated is not None or not pointer:
            return stated
        device = self._device(0)
        before = device.enter()
        try:
            found = device.driver.pointer_device(pointer)
        finally:
            device.leave(before)
        if found is None:
            raise self._wrong(
                ArgumentValueError,
                param,
                "memory of a CUDA device",
                f"the address {pointer:#x}, which the driver does not know as such",
                "copy it to the device first: tl.gpu.to_device(x)",
            )
        return found

    # -- extents -----------------------------------------------------------------------------------------------------

    def _bind(self, site: Site, view: View) -> int:
        if site.what == "elem_offset":
            return 0
        param = site.param
        value = view.shape[site.axis] if site.what == "shape" else self._stride(param, view, site.axis)
        kind = site.symbol.dtype
        if not kind.min_value <= value <= kind.max_value:
            wanted = f"{site.what}[{site.axis}] that fits {kind!s} (symbol `{site.symbol.name}`)"
            help = f"declare `{site.symbol.name}` as int64"
            raise self._wrong(ArgumentValueError, param, wanted, str(value), help)
        return value

    def _stride(self, param: ArrayParam, view: View, axis: int) -> int:
        """A stride in elements; where no second element exists along the axis, any byte stride is as good."""
        if param.broadcast and view.shape[axis] == 1:
            return 0
        elements, rest = divmod(view.strides[axis], param.itemsize)
        if not rest:
            return elements
        if view.shape[axis] <= 1 or not view.size:
            return math.prod(view.shape[axis + 1 :])
        wanted = f"strides that are multiples of the {param.itemsize} bytes of {param.dtype}"
        got = f"strides[{axis}] of {view.strides[axis]} bytes"
        raise self._wrong(ArgumentValueError, param, wanted, got, "pass a contiguous copy")

    def _value(self, extent: Extent, env: Mapping[Var, int]) -> int:
        if isinstance(extent, int):
            return extent
        if not isinstance(extent, Compound):
            return env[extent]
        try:
            return int(extent.evaluate(env))
        except ZeroDivisionError:
            told = ", ".join(self._told(symbol, env) for symbol in extent.symbols)
            raise ArgumentValueError(
                f"`{self.signature.name}`: expected a value for the extent {extent.text}, got a division by zero ({told})",
                origin="call",
                help="pass arrays for which the extent has a value",
            ) from None
        except OverflowError as error:
            raise ArgumentValueError(
                f"`{self.signature.name}`: the extent {extent.text} is too large: {error}",
                origin="call",
                help="pass smaller sizes, or declare the symbols as int64",
            ) from None

    def _told(self, symbol: Var, env: Mapping[Var, int]) -> str:
        site = self._sites.get(symbol)
        place = site.text if site else f"argument `{self._names.get(symbol, symbol.name)}`"
        return f"`{symbol.name}` is {env[symbol]} by {place}"

    def _explain(self, extent: Extent, env: Mapping[Var, int]) -> str:
        """An extent for a message: its value, its text, and where its symbols come from."""
        value = self._value(extent, env)
        if isinstance(extent, int):
            return str(value)
        symbols = extent.symbols if isinstance(extent, Compound) else (extent,)
        text = extent.text if isinstance(extent, Compound) else extent.name
        return f"{text} = {value} ({', '.join(self._told(symbol, env) for symbol in symbols)})"

    def _check(self, param: ArrayParam, view: View, env: Mapping[Var, int]) -> None:
        for axis, extent in enumerate(param.shape):
            if view.shape[axis] != self._value(extent, env):
                wanted = f"shape[{axis}] to be {self._explain(extent, env)}"
                got = f"{view.shape[axis]} (shape {view.shape})"
                raise self._wrong(ArgumentValueError, param, wanted, got, "pass an array of the expected shape")
        if param.strides is None:
            if not view.compact:
                got = f"strides {view.strides} bytes for shape {view.shape}"
                help = "pass a contiguous copy, or declare symbolic strides for the buffer"
                raise self._wrong(ArgumentValueError, param, "a C-contiguous array", got, help)
            return
        for axis, extent in enumerate(param.strides):
            if view.shape[axis] <= 1 or not view.size:
                continue
            found = self._stride(param, view, axis)
            if found != self._value(extent, env):
                wanted = f"strides[{axis}] to be {self._explain(extent, env)} elements"
                got = f"{found} (strides {view.strides} bytes)"
                raise self._wrong(ArgumentValueError, param, wanted, got, "pass an array with the expected strides")

    def _output(self, param: ArrayParam, env: Mapping[Var, int]) -> tuple[int, ...]:
        shape = tuple(self._value(extent, env) for extent in param.shape)
        if min(shape, default=0) < 0:
            raise ArgumentValueError(
                f"output `{param.name}` of `{self.signature.name}`: expected extents of at least 0, got {shape}",
                origin="call",
                help="pass arrays for which the shape has a value",
            )
        return shape

    # -- addresses ---------------------------------------------------------------------------------------------------

    def accepts(self, plan: Plan, pointers: tuple[int, ...]) -> bool:
        """Check the addresses of a call. False where the plan is for another device than theirs."""
        for param, view, pointer in zip(self._arrays, plan.views, pointers, strict=True):
            address = pointer - plan.offsets[self._places[param]]
            if address % param.alignment and view.size:
                raise self._wrong(
                    ArgumentValueError,
                    param,
                    f"data aligned to {param.alignment} bytes",
                    f"address {address:#x}, {address % param.alignment} bytes off",
                    "pass a copy, or declare a smaller alignment for the buffer",
                )
            if self._place(param, view.facts.device, pointer) not in (None, plan.device.ordinal):
                return False
        for i, j in self._pairs:
            self._check_overlap(i, j, plan, pointers)
        plan.last = pointers
        return True

    def _check_overlap(self, i: int, j: int, plan: Plan, pointers: tuple[int, ...]) -> None:
        first, second = self._arrays[i], self._arrays[j]
        a, b = plan.views[i], plan.views[j]
        (low_a, high_a), (low_b, high_b) = a.span, b.span
        low = max(pointers[i] + low_a, pointers[j] + low_b)
        high = min(pointers[i] + high_a, pointers[j] + high_b)
        if low >= high or not share_memory(a, pointers[i], b, pointers[j]):
            return
        declared = first.noalias or second.noalias
        if pointers[i] == pointers[j] and not declared and {first.name, second.name} in self._in_place:
            return
        why = "noalias" if declared else "threads run in any order"
        written = " and ".join(f"`{p.name}`" for p in (first, second) if p.written)
        raise self._wrong(
            ArgumentValueError,
            second,
            f"memory that does not overlap `{first.name}` ({why}; the function writes {written})",
            f"an overlap of up to {high - low} bytes at {low:#x}",
            f"pass a copy of `{first.name}` or of `{second.name}`",
        )
