"""The checks of a call: from arguments to a plan, which holds for all later calls with arrays of the same facts.

Addresses are no facts: their alignment, their device and the overlap of arrays are checked whenever a call brings other
addresses than the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final, cast

from tirlower.call.dtypes import numpy_dtype
from tirlower.call.extents import Extent
from tirlower.call.rules import ArgumentRules
from tirlower.call.signature import BufferParam, Signature
from tirlower.call.views import NotAnArray, View
from tirlower.diagnostics import ArgumentValueError
from tirlower.gpu.launch.array import ArrayKind, DeviceArray, Step, use_on
from tirlower.gpu.launch.device import Device
from tirlower.gpu.launch.facts import Facts
from tirlower.gpu.launch.host_function import HostFunction
from tirlower.gpu.launch.order import wait_for
from tirlower.gpu.launch.stream import Stream, default_stream, stream_on
from tirlower.gpu.launch.views import StreamSource, stream_source, view_of
from tirlower.ir.dtype import DataType

__all__ = ["Plan", "Planner", "allocated_slots"]

_MOST_ADDRESSES: Final = 64
_MOST_STEPS: Final = 16


def allocated_slots(signature: Signature) -> tuple[int, ...]:
    """The positions of the outputs that the machine code allocates: those that begin where their memory does."""
    params = enumerate(signature.params)
    return tuple(
        i for i, p in params if p.name in signature.outputs and isinstance(p, BufferParam) and p.elem_offset == 0
    )


class Plan:
    """A checked kind of call: the host function that runs, and what it is given besides addresses and scalars.

    ``views`` are the arrays as they were first passed, ``spans`` the bytes that each reaches from its address, ``places`` the
    devices that they state; ``symbols`` are what stands behind the arguments: the host function's symbols, and the
    slots of its outputs; ``offsets`` the bytes before each array's first element that its address is moved to;
    ``outputs`` the arrays to allocate; ``uses`` the positions of our own arrays, and whether each is written. ``sources`` say
    on which streams the libraries of the other arrays work; a call without a stream runs on the first of them (``default``
    where there is none), and only the ``others`` are to be waited for. ``known`` are addresses that were checked,
    ``ordered`` a stream with the users of the arrays that were found in order on it. ``line`` is what machine code has of
    it, False where it cannot (:mod:`~tirlower.gpu.launch.native`).
    """

    __slots__ = ("_steps", "default", "device", "host", "known", "line", "offsets", "ordered", "others", "outputs", "places", "sources", "spans", "symbols", "uses", "views")  # fmt: skip

    def __init__(
        self,
        device: Device,
        host: HostFunction,
        views: tuple[View, ...],
        facts: tuple[Facts, ...],
        symbols: tuple[int, ...],
        offsets: tuple[int, ...],
        outputs: tuple[ArrayKind, ...],
        slots: tuple[int, ...],
        uses: tuple[tuple[int, bool], ...],
        sources: tuple[StreamSource, ...],
    ) -> None:
        self.device = device
        self.host = host
        self.views = views
        self.spans = tuple(view.span() for view in views)
        self.places = tuple(known.device for known in facts)
        self.symbols = (*symbols, len(slots), *slots)
        self.offsets = offsets
        self.outputs = outputs
        self.uses = uses
        self.sources = sources
        self.default = default_stream(device)
        chosen = sources[0] if sources and callable(sources[0]) else 0
        self.others = tuple(source for source in sources if source != chosen)
        self.known: set[tuple[int, ...]] = set()
        self.line: object = None
        self.ordered: tuple[object, ...] = ()
        self._steps: dict[tuple[object, ...], tuple[Step, tuple[object, ...]]] = {}

    def chosen(self) -> Stream:
        """The stream of a call that names none."""
        first = self.sources[0]
        return stream_on(self.device, first()) if callable(first) else self.default

    def order(self, on: Stream, found: tuple[object, ...], values: Sequence[object]) -> None:
        """Put the call's use of our own arrays into its stream; ``found`` is the stream with their users as they were."""
        known = self._steps.get(found)
        if known is None or not known[0].again(on, self._ours(values)):
            known = self._step(on, found, values)
        if known is not None:
            self.ordered = known[1]

    def _ours(self, values: Sequence[object]) -> tuple[DeviceArray, ...]:
        """The arrays that are ours: values of the same facts as the plan's are so where those were."""
        found = values if len(values) == len(self.uses) else [values[i] for i, _ in self.uses]
        return cast("tuple[DeviceArray, ...]", tuple(found))

    def _step(
        self, on: Stream, found: tuple[object, ...], values: Sequence[object]
    ) -> tuple[Step, tuple[object, ...]] | None:
        stream_on(self.device, on)  # of this device
        written = [written for _, written in self.uses]
        step = use_on(on, list(zip(self._ours(values), written, strict=True)))
        if step is None:
            return None
        users = list(found)
        for (i, _), own in zip(self.uses, step.after, strict=True):
            users[i + 1] = own
        if len(self._steps) >= _MOST_STEPS:
            self._steps.clear()  # they hold streams that may be gone otherwise
        if step.before == tuple(found[i + 1] for i, _ in self.uses):
            self._steps[found] = step, tuple(users)
        return step, tuple(users)

    def wait(self, on: Stream, sources: Sequence[StreamSource]) -> None:
        """Let a stream wait for what other libraries may have given theirs."""
        wait_for([stream_on(self.device, source() if callable(source) else source) for source in sources], on)

    def publish(self, on: Stream) -> None:
        """Let the libraries' streams wait for a call that named none."""
        for source in self.others:
            wait_for([on], stream_on(self.device, source() if callable(source) else source))


class Planner(ArgumentRules):
    """Checks calls on arrays of a device against a signature.

    ``device`` gives the device of a number; ``host`` the host function on it; ``at`` are the places in the
    signature from which the host function's symbols get their values. Raises as :class:`ArgumentRules` does, and
    :class:`ArgumentValueError` for arrays of several devices and for memory of none.
    """

    where: ClassVar[str] = " on a CUDA device"
    contiguous: ClassVar[str] = "a contiguous copy"

    def __init__(
        self,
        signature: Signature,
        at: Sequence[Extent],
        device: Callable[[int], Device],
        host: Callable[[Device], HostFunction],
    ) -> None:
        super().__init__(signature)
        self._at = tuple(at)
        self._device = device
        self._host = host
        self._arrays = tuple(p for p in signature.buffers if p.name not in signature.outputs)
        order = {p.name: i for i, p in enumerate(self._arrays)}
        self._meeting = [(order[a.name], order[b.name]) for a, b in self._pairs]
        self._slots = allocated_slots(signature)
        self._offset_of = [list(self._buffers).index(p.name) for p in self._arrays]

    @property
    def alignments(self) -> tuple[int, ...]:
        """The bytes to which the addresses of the arrays passed are aligned."""
        return tuple(self._alignments[param.name] for param in self._arrays)

    @property
    def meeting(self) -> tuple[tuple[int, int], ...]:
        """The positions, among the arrays passed, of pairs that may share no memory."""
        return tuple(self._meeting)

    def moved(self, plan: Plan) -> tuple[int, ...]:
        """The bytes that the address of each array passed is moved by."""
        return tuple(plan.offsets[i] for i in self._offset_of)

    # -- a new kind of call ------------------------------------------------------------------------------------------

    def prepare(self, values: Mapping[str, object], scalars: Mapping[str, float]) -> Plan:
        """Check everything about a call; ``scalars`` are those on which extents depend."""
        self._device(0)  # without a device nothing about the arguments matters
        found = {param.name: self._view(param, values[param.name]) for param in self._arrays}
        views = {name: view for name, (view, _) in found.items()}
        facts = tuple(known for _, known in found.values())
        ordinal = self._ordinal(views, facts)
        device = self._device(ordinal)
        env = dict(scalars)
        self.bind_symbols(views, env)
        for param in self._arrays:
            self.check_layout(param, views[param.name], env)
        symbols = tuple(self.value(extent, env) for extent in self._at)
        offsets = tuple(self.value(p.elem_offset, env) * numpy_dtype(p.dtype).itemsize for p in self._buffers.values())
        outputs = tuple(
            ArrayKind.of(device, self.output_shape(param, env), DataType(param.dtype))
            for param in (self._buffers[name] for name in self.signature.outputs)
        )
        foreign: dict[StreamSource, None] = {}
        uses = []
        for i, (param, known) in enumerate(zip(self._arrays, facts, strict=True)):
            if (
                type(values[param.name]) is DeviceArray
            ):  # one of a class of somebody's own is read as other libraries' are
                uses.append((i, param.written))
            else:
                foreign[stream_source(values[param.name], ordinal, known)] = None
        # A call that names no stream runs where a library works, if one says where.
        sources = tuple(sorted(foreign, key=lambda source: not callable(source)))
        return Plan(
            device,
            self._host(device),
            tuple(views.values()),
            facts,
            symbols,
            offsets,
            outputs,
            self._slots,
            tuple(uses),
            sources,
        )

    def _view(self, param: BufferParam, value: object) -> tuple[View, Facts]:
        try:
            view, facts = view_of(value)
        except NotAnArray as bad:
            raise self.no_array(param, bad) from bad.__cause__
        self.check_kind(param, view)
        return view, facts

    def _ordinal(self, views: Mapping[str, View], facts: Sequence[Facts]) -> int:
        """The number of the device on which all arrays are."""
        chosen: tuple[BufferParam, int] | None = None
        for param, known in zip(self._arrays, facts, strict=True):
            ordinal = self._place(param, known.device, views[param.name].data)
            if ordinal is None:
                continue
            if chosen is None:
                chosen = param, ordinal
            elif chosen[1] != ordinal:
                wanted = f"an array on device {chosen[1]}, where `{chosen[0].name}` is"
                help = "copy one of them to the other's device"
                raise self.wrong(ArgumentValueError, param, wanted, f"one on device {ordinal}", help)
        return 0 if chosen is None else chosen[1]

    def _place(self, param: BufferParam, stated: int | None, pointer: int) -> int | None:
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
            raise self.wrong(
                ArgumentValueError,
                param,
                "memory of a CUDA device",
                f"the address {pointer:#x}, which the driver does not know as such",
                "copy it to the device first: tl.gpu.to_device(x)",
            )
        return found

    # -- addresses ---------------------------------------------------------------------------------------------------

    def accepts(self, plan: Plan, pointers: tuple[int, ...]) -> bool:
        """Check the addresses of a call. False where the plan is for another device than theirs."""
        for i, (param, pointer) in enumerate(zip(self._arrays, pointers, strict=True)):
            self.check_alignment(param, plan.views[i], pointer - plan.offsets[self._offset_of[i]])
            if self._place(param, plan.places[i], pointer) not in (None, plan.device.ordinal):
                return False
        for i, j in self._meeting:
            self._check_apart(i, j, plan, pointers)
        if len(plan.known) >= _MOST_ADDRESSES or None in plan.places:
            # An array that does not say its device is asked for it again where its address is another's.
            plan.known.clear()
        plan.known.add(pointers)
        return True

    def _check_apart(self, i: int, j: int, plan: Plan, pointers: tuple[int, ...]) -> None:
        a, b = pointers[i], pointers[j]
        (low_a, high_a), (low_b, high_b) = plan.spans[i], plan.spans[j]
        if a + low_a >= b + high_b or b + low_b >= a + high_a:
            return
        first, second = self._arrays[i], self._arrays[j]
        if self.meets(first, plan.views[i], a, second, plan.views[j], b):
            why = "noalias" if first.noalias or second.noalias else "threads run in any order"
            raise self.overlap(first, second, [(a + low_a, a + high_a), (b + low_b, b + high_b)], why)
