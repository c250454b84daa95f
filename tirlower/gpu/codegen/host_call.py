"""How the machine code of a host function is entered: in the device's context, with the outputs of the call allocated.

In Python both took longer than all the rest of a call.
"""

from __future__ import annotations

from tirlower.emit.llvm_text import I32, I64, PTR, Builder, FunctionRef, Module, Value, null
from tirlower.gpu.artifact import NO_OUTPUT, Service

__all__ = ["emit_call"]


def emit_call(module: Module, packed: FunctionRef, name: str, table: int, outputs: int) -> None:
    """Define ``i32 @name(ptr slots, ptr err, ptr ret)``: ``packed`` in the context of its device.

    Slot ``table`` has the table of the driver's functions, the next one the stream. Slot ``outputs`` has a count, and behind
    it stand as many numbers of slots: each has the bytes of an output, and gets its address before ``packed`` runs (0 for
    no bytes). A context of somebody else's is put back at the end; a thread that has none keeps the device's.
    """
    function = module.function(name, I32, [(PTR, "slots"), (PTR, "err"), (PTR, "ret")], attrs=("nounwind",))
    slots, err, ret = function.args
    b = Builder(function, function.block("entry"))
    driver = b.load(PTR, b.gep(I64, slots, table), 8)

    def call(service: Service, *args: Value) -> Value:
        return b.call_pointer(b.load(PTR, b.gep(PTR, driver, int(service)), 8), I32, args, attrs=["nounwind"])

    context, status = b.alloca(PTR, align=8), b.alloca(I32, align=4)
    b.store(null(), context, 8)
    b.store(b.i32(0), status, 4)
    call(Service.GET_CONTEXT, context)
    before, own = b.load(PTR, context, 8), b.load(PTR, b.gep(PTR, driver, int(Service.CONTEXT)), 8)
    changes = b.icmp("ne", before, own)
    with b.if_then(changes, likely=False, name="enter"):
        call(Service.SET_CONTEXT, own)
    with b.for_range(b.i64(0), b.load(I64, b.gep(I64, slots, outputs), 8), name="output") as i:
        place = b.load(I64, b.gep(I64, slots, b.add(i, b.i64(outputs + 1))), 8)
        slot = b.gep(I64, slots, place)
        size = b.load(I64, slot, 8)
        b.store(b.i64(0), slot, 8)
        wanted = b.and_(b.icmp("ne", size, b.i64(0)), b.icmp("eq", b.load(I32, status, 4), b.i32(0)))
        with b.if_then(wanted, name="allocate"):
            code = call(Service.ALLOCATE, slot, size, b.load(PTR, b.gep(I64, slots, table + 1), 8))
            with b.if_then(b.icmp("ne", code, b.i32(0)), likely=False, name="refused"):
                b.store(b.i64(0), slot, 8)
                b.store(code, status, 4)
                b.store(b.i32(NO_OUTPUT), err, 4)
                b.store(b.i32(2), b.gep(I32, err, 1), 4)
                b.store(b.sext(code, I64), b.gep(I64, err, 1), 8)
                b.store(size, b.gep(I64, err, 2), 8)
    with b.if_then(b.icmp("eq", b.load(I32, status, 4), b.i32(0)), likely=True, name="run"):
        b.store(b.call(packed, [slots, err, ret]), status, 4)
    with b.if_then(b.and_(changes, b.icmp("ne", before, null())), likely=False, name="leave"):
        call(Service.SET_CONTEXT, before)
    b.ret(b.load(I32, status, 4))
