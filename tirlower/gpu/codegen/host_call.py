"""How machine code calls the driver in a device's context: host functions are entered so, with the outputs of the call
allocated, and memory is given back and streams are ordered so.

In Python each of them took longer than all the rest of a call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tirlower.emit.llvm_text import I32, I64, PTR, Builder, FunctionRef, Module, Type, Value, null
from tirlower.gpu.artifact import NO_OUTPUT, Service

__all__ = ["emit_call", "emit_give", "emit_order"]


class _Inside:
    """A function that is built: ``status`` is the place of its result, ``driver`` the table of the driver's functions."""

    def __init__(self, module: Module, name: str, params: list[tuple[Type, str]]) -> None:
        self.function = module.function(name, I32, params, attrs=("nounwind",))
        self.args = self.function.args
        self.b = Builder(self.function, self.function.block("entry"))
        self.driver = self.args[0]
        self.status = self.b.alloca(I32, align=4)

    def call(self, service: Service, *args: Value) -> Value:
        """The result of a function of the driver."""
        b = self.b
        return b.call_pointer(b.load(PTR, b.gep(PTR, self.driver, int(service)), 8), I32, args, attrs=["nounwind"])

    def ok(self) -> Value:
        """Whether all went well until here."""
        return self.b.icmp("eq", self.b.load(I32, self.status, 4), self.b.i32(0))

    @contextmanager
    def context(self) -> Iterator[None]:
        """What stands in the ``with`` runs in the device's context; the function ends behind it with its status.

        A context of somebody else's is put back; a thread that has none keeps the device's.
        """
        b = self.b
        place = b.alloca(PTR, align=8)
        b.store(null(), place, 8)
        b.store(b.i32(0), self.status, 4)
        self.call(Service.GET_CONTEXT, place)
        before, own = b.load(PTR, place, 8), b.load(PTR, b.gep(PTR, self.driver, int(Service.CONTEXT)), 8)
        changes = b.icmp("ne", before, own)
        with b.if_then(changes, likely=False, name="enter"):
            self.call(Service.SET_CONTEXT, own)
        yield
        with b.if_then(b.and_(changes, b.icmp("ne", before, null())), likely=False, name="leave"):
            self.call(Service.SET_CONTEXT, before)
        b.ret(b.load(I32, self.status, 4))


def emit_call(module: Module, packed: FunctionRef, name: str, table: int, outputs: int) -> None:
    """Define ``i32 @name(ptr slots, ptr err, ptr ret)``: ``packed`` in the context of its device.

    Slot ``table`` has the table of the driver's functions, the next one the stream. Slot ``outputs`` has a count, and behind
    it stand as many numbers of slots: each has the bytes of an output, and gets its address before ``packed`` runs (0 for
    no bytes).
    """
    made = _Inside(module, name, [(PTR, "slots"), (PTR, "err"), (PTR, "ret")])
    b, (slots, err, ret) = made.b, made.args
    made.driver = b.load(PTR, b.gep(I64, slots, table), 8)
    with made.context():
        with b.for_range(b.i64(0), b.load(I64, b.gep(I64, slots, outputs), 8), name="output") as i:
            place = b.load(I64, b.gep(I64, slots, b.add(i, b.i64(outputs + 1))), 8)
            slot = b.gep(I64, slots, place)
            size = b.load(I64, slot, 8)
            b.store(b.i64(0), slot, 8)
            with b.if_then(b.and_(b.icmp("ne", size, b.i64(0)), made.ok()), name="allocate"):
                code = made.call(Service.ALLOCATE, slot, size, b.load(PTR, b.gep(I64, slots, table + 1), 8))
                with b.if_then(b.icmp("ne", code, b.i32(0)), likely=False, name="refused"):
                    b.store(b.i64(0), slot, 8)
                    b.store(code, made.status, 4)
                    b.store(b.i32(NO_OUTPUT), err, 4)
                    b.store(b.i32(2), b.gep(I32, err, 1), 4)
                    b.store(b.sext(code, I64), b.gep(I64, err, 1), 8)
                    b.store(size, b.gep(I64, err, 2), 8)
        with b.if_then(made.ok(), likely=True, name="run"):
            b.store(b.call(packed, [slots, err, ret]), made.status, 4)


def emit_give(module: Module, name: str) -> None:
    """Define ``i32 @name(ptr table, ptr memory, ptr stream)``: memory is given back in the order of a stream."""
    made = _Inside(module, name, [(PTR, "table"), (PTR, "memory"), (PTR, "stream")])
    _, memory, stream = made.args
    with made.context():
        made.b.store(made.call(Service.FREE, memory, stream), made.status, 4)


def emit_order(module: Module, name: str) -> None:
    """Define ``i32 @name(ptr table, ptr event, ptr before, ptr after)``: a stream waits for what another has, by an event."""
    made = _Inside(module, name, [(PTR, "table"), (PTR, "event"), (PTR, "before"), (PTR, "after")])
    b, (_, event, before, after) = made.b, made.args
    with made.context():
        b.store(made.call(Service.RECORD, event, before), made.status, 4)
        with b.if_then(made.ok(), likely=True, name="wait"):
            b.store(made.call(Service.WAIT, after, event, b.i32(0)), made.status, 4)
