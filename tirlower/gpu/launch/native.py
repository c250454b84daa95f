"""Calls through machine code: the words that it reads, filled from calls that were checked in Python.

A call goes through Python first. What it was becomes a line, and later calls of its kind take about a tenth of a
microsecond, until other kinds have taken the line's place. The machine code is one for all kernels
(:mod:`tirlower.gpu.codegen.native_call`).
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Final, Literal

from tirlower.call.dlpack import Exchange, exchange_of
from tirlower.call.signature import BufferParam, Param, Signature
from tirlower.call.vectorcall import (
    CALLABLE,
    HEADER,
    call_through_pointer,
    python_function,
    set_word,
    vectorcall_type,
    word,
)
from tirlower.call.views import Result, View
from tirlower.gpu.launch.array import ArrayKind, DeviceArray
from tirlower.gpu.launch.constants import STREAM_PER_THREAD
from tirlower.gpu.launch.device import Device
from tirlower.gpu.launch.dlpack import CUDA
from tirlower.gpu.launch.host_function import CallMemory, HostFunction
from tirlower.gpu.launch.native_layout import (
    ARRAY_SLOTS,
    BLOCK,
    MOST_ARGUMENTS,
    MOST_SLOTS,
    STREAM_SLOTS,
    Api,
    Block,
    Expected,
    Foreign,
    Giver,
    Kind,
    Line,
    LineArgument,
    Output,
    Parameter,
    offsets,
)
from tirlower.gpu.launch.plan import Plan, Planner, allocated_slots
from tirlower.gpu.launch.stream import Stream
from tirlower.gpu.launch.views import InterfaceFacts, TorchFacts, is_nameless
from tirlower.ir.dlpack import CODES
from tirlower.ir.dtype import DataType

__all__ = ["NATIVE", "NativeCalls", "NativelyCalled", "give_natively", "native_class", "takes_native_calls"]

_MOST_LINES: Final = 16
_MOST_STREAMS: Final = 128
_ALL: Final = (1 << 64) - 1

_OBJECTS: Final[dict[Api, object]] = {
    Api.NONE: None,
    Api.TRUE: True,
    Api.FALSE: False,
    Api.TUPLE: tuple,
    Api.INT: int,
    Api.FLOAT: float,
    Api.DICT: dict,
    Api.ARRAY: DeviceArray,
    Api.STREAM: Stream,
    Api.NAME_STREAM: sys.intern("stream"),
    Api.NAME_INTERFACE: sys.intern("__cuda_array_interface__"),
    Api.NAME_SHAPE: sys.intern("shape"),
    Api.NAME_STRIDES: sys.intern("strides"),
    Api.NAME_TYPESTR: sys.intern("typestr"),
    Api.NAME_DATA: sys.intern("data"),
    Api.NAME_MASK: sys.intern("mask"),
    Api.NAME_REQUIRES_GRAD: sys.intern("requires_grad"),
    Api.NAME_IS_NEG: sys.intern("is_neg"),
}


def _slots_hold() -> bool:
    """Whether objects have their slots where :mod:`~tirlower.gpu.launch.native_layout` says."""
    for cls, slots in ((DeviceArray, ARRAY_SLOTS), (Stream, STREAM_SLOTS)):
        probe = cls.__new__(cls)
        # What is false ends nothing when the probe is gone.
        values: dict[str, object] = {name: 0 if name == "pointer" else () for name in offsets(slots)}
        for name, value in values.items():
            setattr(probe, name, value)
        wrong = [name for name, at in offsets(slots).items() if word(id(probe) + at) != id(values[name])]
        for at in range(len(values)):
            # One at a time, so that two slots are not taken for each other.
            name = list(values)[at]
            mark = 0 if name in ("pointer", "_event", "_owns") else object()
            setattr(probe, name, mark)
            wrong += [name] if word(id(probe) + offsets(slots)[name]) != id(mark) else []
        if wrong:
            return False
    return True


def _why_not() -> str | None:
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return "not CPython on a 64-bit little-endian machine"
    if HEADER != 16:
        return "other threads may run at any time: this Python has no lock"
    return None if _slots_hold() else "objects have their slots elsewhere"


#: None where calls go through machine code; else the reason, in words
WHY_NOT: Final = _why_not()
NATIVE: Final = WHY_NOT is None

if TYPE_CHECKING:

    class NativelyCalled:
        """What is called through machine code."""

        def __call__(self, /, *args: object, **kwargs: object) -> Result: ...

elif NATIVE:
    NativelyCalled = vectorcall_type("tirlower.gpu.launch.native.NativelyCalled", 1)
else:
    NativelyCalled = object


def native_class(cls: type) -> type:
    """A class of the same kind whose objects are called through their pointers."""
    made = type(cls.__name__, (cls,), {})
    call_through_pointer(made, NativelyCalled)
    return made


def _process_words() -> ctypes.Array[ctypes.c_uint64]:
    words = (ctypes.c_uint64 * len(Api))()
    for api in Api:
        words[api] = id(_OBJECTS[api]) if api in _OBJECTS else python_function(api.name)
    return words


_api: Final = _process_words() if NATIVE else None


class _Giver(NativelyCalled):
    """What gives the memory of arrays of a device back."""

    def __init__(self, device: Device, code: int) -> None:
        assert _api is not None
        words = {Giver.API: ctypes.addressof(_api), Giver.GIVE: device.give_code, Giver.TABLE: device.table}
        self._words = _words([words[Giver(i)] for i in range(Giver.WORDS)])
        set_word(id(self) + BLOCK, ctypes.addressof(self._words))
        set_word(id(self) + CALLABLE, code)


if NATIVE:
    call_through_pointer(_Giver, NativelyCalled)


def give_natively(device: Device, function: HostFunction) -> None:
    """Let arrays of a device give their memory back through machine code, which no kernel takes with it."""
    if NATIVE and device.giver is None and device.give_code and function.native_give:
        device.giver = _Giver(device, function.native_give)


def _kind(param: Param) -> Kind | None:
    """How machine code reads a parameter; None where it cannot."""
    if isinstance(param, BufferParam):
        return Kind.ARRAY
    dtype = DataType(param.dtype)
    if dtype.is_bool:
        return Kind.BOOL
    if dtype.is_int or dtype.is_uint:
        return Kind.INT
    return {"float64": Kind.FLOAT64, "float32": Kind.FLOAT32}.get(param.dtype)


def takes_native_calls(signature: Signature, symbols: int, returns: str | None) -> bool:
    """Whether machine code knows all that calls of a signature have; ``symbols`` is what stands behind the call's memory."""
    inputs = signature.inputs
    return (
        NATIVE
        and returns is None
        and len(inputs) <= MOST_ARGUMENTS
        and len(signature.params) + 3 + symbols <= MOST_SLOTS
        and len(allocated_slots(signature)) == len(signature.outputs)
        and all(_kind(param) is not None for param in inputs)
    )


class _Row:
    """A line with all objects whose addresses it has; ``checked`` is where its addresses begin that were checked last."""

    __slots__ = ("_held", "_streams", "checked", "memory", "plan", "words")

    def __init__(
        self, plan: Plan, memory: CallMemory, words: Sequence[int], checked: int, held: Sequence[object]
    ) -> None:
        self.plan, self.memory = plan, memory
        self.words = (ctypes.c_uint64 * len(words))(*words)
        at = self.address
        for place in (Line.OUTPUTS, Line.SYMBOLS, Line.CHECKED):
            self.words[place] = at + 8 * self.words[place]
        self.checked = checked
        self._held = held
        self._streams: dict[int, Stream] = {}

    @property
    def address(self) -> int:
        """Where the line is."""
        return ctypes.addressof(self.words)

    def learn(self, addresses: list[int]) -> None:
        """These were checked: all at once, for machine code reads them in between."""
        self.words[self.checked : self.checked + len(addresses)] = [*addresses]

    def works_on(self, stream: Stream) -> None:
        """The library of the tensors works on this stream now. It lives as long as a call may have it."""
        if stream.handle != STREAM_PER_THREAD and (
            stream.handle in self._streams or len(self._streams) < _MOST_STREAMS
        ):
            self._streams[stream.handle] = stream
            self.words[Line.HANDLE : Line.STREAM + 1] = [stream.handle & _ALL, id(stream)]


class NativeCalls:
    """What machine code knows of a kernel's calls; ``slow`` makes a call in Python.

    Other threads call while it is written: a line is complete before its address stands among the lines, and one that
    others have taken the place of is kept as long as a call has it.
    """

    def __init__(self, signature: Signature, planner: Planner, symbols: int, slow: object) -> None:
        assert _api is not None
        self._planner = planner
        self._inputs = signature.inputs
        self._shaping = {param.name for param in signature.shaping}
        self._buffers = [i for i, param in enumerate(self._inputs) if isinstance(param, BufferParam)]
        self._output_slots = allocated_slots(signature)
        self._lines = (ctypes.c_uint64 * _MOST_LINES)()
        self._rows: dict[int, _Row] = {}
        self._next = 0
        self._lock = threading.Lock()
        self._slow, self._failed = slow, self.failed
        alignments = dict(zip(self._buffers, planner.alignments, strict=True))
        #: an alignment that is no power of two is Python's to check
        self._odd = any(alignment & (alignment - 1) for alignment in alignments.values())
        slots = {param.name: i for i, param in enumerate(signature.params)}
        rows = [self._parameter(p, slots[p.name], alignments.get(i, 1)) for i, p in enumerate(self._inputs)]
        pairs = [self._buffers[i] for pair in planner.meeting for i in pair]
        self._parameters, self._pairs = _words([word for row in rows for word in row]), _words(pairs)
        words = {
            Block.API: ctypes.addressof(_api),
            Block.SLOW: id(slow),
            Block.FAILED: id(self._failed),
            Block.PARAMETERS: ctypes.addressof(self._parameters),
            Block.PARAMETER_COUNT: len(self._inputs),
            Block.PAIRS: ctypes.addressof(self._pairs),
            Block.PAIR_COUNT: len(planner.meeting),
            Block.OUTPUT_COUNT: len(self._output_slots),
            Block.TABLE_SLOT: len(signature.params),
            Block.SYMBOL_COUNT: symbols,
            Block.LINES: ctypes.addressof(self._lines),
            Block.LINE_COUNT: 0,
        }
        self._block = _words([words[Block(i)] for i in range(Block.WORDS)])

    def _parameter(self, param: Param, slot: int, alignment: int) -> list[int]:
        words = [0] * Parameter.WORDS
        kind = _kind(param)
        assert kind is not None
        words[Parameter.KIND], words[Parameter.SLOT] = kind, slot
        words[Parameter.KEYED] = _ALL if param.name in self._shaping else 0
        if isinstance(param, BufferParam):
            words[Parameter.WRITTEN] = int(param.written)
            words[Parameter.ALIGNED], words[Parameter.ADDRESS] = alignment - 1, _ALL
        elif kind is Kind.INT:
            dtype = DataType(param.dtype)
            words[Parameter.LEAST] = int(dtype.min_value)
            words[Parameter.GREATEST] = min(int(dtype.max_value), (1 << 63) - 1)
        return words

    def enter(self, kernel: NativelyCalled, code: int) -> None:
        """Give an object its code and its block, which live as long as this does."""
        set_word(id(kernel) + BLOCK, ctypes.addressof(self._block))
        set_word(id(kernel) + CALLABLE, code)

    def failed(self, line: int) -> None:
        """Raise what went wrong in the call of a line, which is free then."""
        row = self._rows[line]
        error = row.plan.host.failure(row.memory)
        row.words[Line.BUSY] = 0
        raise error

    # -- lines -------------------------------------------------------------------------------------------------------

    def learn(
        self, plan: Plan, key: Hashable, values: Sequence[object], pointers: tuple[int, ...], on: Stream | None
    ) -> None:
        """A call was made in Python: the next ones of its kind need not be. ``on`` is its stream, where it named none."""
        row = plan.line
        if row is False:
            return
        if not isinstance(row, _Row) or row.address not in self._rows:
            if not self._lock.acquire(blocking=False):
                return  # another thread is at it, or this one, which the collector has interrupted
            try:
                row = plan.line = self._new(plan, key, values)
            finally:
                self._lock.release()
        if row:
            addresses = [0] * len(self._inputs)
            for i, pointer in zip(self._buffers, pointers, strict=True):
                addresses[i] = pointer
            row.learn(addresses)
            if on is not None and plan.sources and callable(plan.sources[0]):
                row.works_on(on)

    def _new(self, plan: Plan, key: Hashable, values: Sequence[object]) -> _Row | Literal[False]:
        """A line for a plan; False where there cannot be one."""
        held: list[object] = [key]
        arguments = None if plan.others else self._arguments(plan, key, values, held)
        if arguments is None:
            return False
        asked = any(arguments[LineArgument.EXPECTED :: LineArgument.WORDS])
        foreign, current = Foreign.IN_DEFAULT if asked else Foreign.NONE, 0
        if any(callable(source) for source in plan.sources):
            exchanges = {exchange for exchange in held if isinstance(exchange, Exchange)}
            current = exchanges.pop().current if len(exchanges) == 1 else 0
            if not current:
                return False
            foreign = Foreign.TENSORS
        memory = plan.host.pool.pop() if plan.host.pool else plan.host.memory()
        outputs = [
            word for slot, kind in zip(self._output_slots, plan.outputs, strict=True) for word in _output(slot, kind)
        ]
        checked = Line.WORDS + len(arguments) + len(outputs) + len(plan.symbols)
        words = {
            Line.BUSY: 0,
            Line.CALL: plan.host.call,
            Line.TABLE: plan.host.table,
            Line.SCRATCH: memory.scratch,
            Line.RECORD: memory.record,
            Line.RESULT: memory.result,
            Line.DEVICE: id(plan.device),
            Line.DEFAULT: id(plan.default),
            Line.FOREIGN: foreign,
            Line.STRICT: self._odd or None in plan.places,
            Line.ORDER: plan.device.order_code,
            Line.ORDER_TABLE: plan.device.table,
            Line.OUTPUTS: Line.WORDS + len(arguments),
            Line.SYMBOLS: Line.WORDS + len(arguments) + len(outputs),
            Line.CHECKED: checked,
            Line.HELD: plan.device.lock.held,
            Line.CURRENT: current,
            Line.ORDINAL: plan.device.ordinal,
            Line.HANDLE: _ALL,
            Line.STREAM: 0,
        }
        line = [int(words[Line(i)]) for i in range(Line.WORDS)] + arguments + outputs + list(plan.symbols)
        row = _Row(plan, memory, line + [0] * len(self._inputs), checked, held)
        self._place(row)
        return row

    def _place(self, row: _Row) -> None:
        """Let machine code find a line, in the place of the one that has been there longest."""
        self._rows[row.address] = row
        self._lines[self._next] = row.address
        self._next = (self._next + 1) % _MOST_LINES
        self._block[Block.LINE_COUNT] = min(self._block[Block.LINE_COUNT] + 1, _MOST_LINES)
        standing = set(self._lines)
        for address, old in list(self._rows.items()):
            if address not in standing and not old.words[Line.BUSY]:
                del self._rows[address]
                old.plan.host.pool.append(old.memory)

    def _arguments(self, plan: Plan, key: Hashable, values: Sequence[object], held: list[object]) -> list[int] | None:
        """The words of a line's arguments; ``held`` gets what they are addresses of."""
        assert isinstance(key, tuple)
        said, spans, moved, views = iter(key), iter(plan.spans), iter(self._planner.moved(plan)), iter(plan.views)
        words: list[int] = []
        for param, value in zip(self._inputs, values, strict=True):
            row = [0] * LineArgument.WORDS
            if isinstance(param, BufferParam):
                row[LineArgument.LOW], row[LineArgument.HIGH] = next(spans)
                row[LineArgument.OFFSET] = next(moved)
                facts, view = next(said), next(views)
                if type(value) is DeviceArray:
                    row[LineArgument.KEY] = id(facts)
                else:
                    tensor = isinstance(facts, TorchFacts)
                    expected = _tensor(value, view, plan.device.ordinal, held) if tensor else _interface(facts)
                    if expected is None:
                        return None
                    held += [type(value), expected]
                    row[LineArgument.KEY], row[LineArgument.EXPECTED] = id(type(value)), ctypes.addressof(expected)
            elif param.name in self._shaping:
                number = next(said)
                if not isinstance(number, int):
                    return None
                row[LineArgument.KEY] = number
            words += row
        return words


def _words(values: Sequence[int]) -> ctypes.Array[ctypes.c_uint64]:
    return (ctypes.c_uint64 * len(values))(*values)


def _output(slot: int, kind: ArrayKind) -> list[int]:
    """The words of an output."""
    words = {
        Output.SLOT: slot,
        Output.BYTES: kind.nbytes,
        Output.DEVICE: id(kind.device),
        Output.SHAPE: id(kind.shape),
        Output.DTYPE: id(kind.dtype),
        Output.FACTS: id(kind.facts),
    }
    return [words[Output(i)] for i in range(Output.WORDS)]


def _interface(facts: object) -> ctypes.Array[ctypes.c_uint64] | None:
    """The words of what ``__cuda_array_interface__`` has to say; None where machine code does not ask for it. The facts live."""
    if not isinstance(facts, InterfaceFacts) or facts.masked or is_nameless(facts.typestr):
        return None
    if facts.readonly is not True and facts.readonly is not False:
        return None
    words = {
        Expected.SHAPE: id(facts.shape),
        Expected.STRIDES: id(facts.strides),
        Expected.TYPESTR: id(facts.typestr),
        Expected.READONLY: id(facts.readonly),
        Expected.STREAM: id(facts.stream),
    }
    return _words([words.get(Expected(i), 0) for i in range(Expected.WORDS)])


def _tensor(value: object, view: View, ordinal: int, held: list[object]) -> ctypes.Array[ctypes.c_uint64] | None:
    """The words of what a tensor has to say; None where its library has no exchange. ``held`` gets what they point to."""
    exchange = exchange_of(type(value))
    dtype = DataType(view.dtype)
    if exchange is None or dtype.code not in CODES:
        return None
    shape, strides = _words(view.shape), _words([stride // view.itemsize for stride in view.strides])
    held += [exchange, shape, strides]
    bits = 8 if dtype.is_bool else dtype.bits
    words = {
        Expected.TENSOR: exchange.tensor,
        Expected.SHAPE: ctypes.addressof(shape),
        Expected.STRIDES: ctypes.addressof(strides),
        Expected.DEVICE: CUDA | ordinal << 32,
        Expected.TYPE: len(view.shape) | CODES[dtype.code] << 32 | bits << 40 | 1 << 48,
        Expected.RANK: len(view.shape),
    }
    return _words([words.get(Expected(i), 0) for i in range(Expected.WORDS)])
