"""Loads and stores: scalars, contiguous, reversed, strided and scattered vectors, with and without a predicate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tirlower.analysis.streamed import has_streams
from tirlower.emit.access import Access, LaneForm, finish_access, lane_pointers, schedule_access
from tirlower.emit.emitter import Emitter, constant
from tirlower.emit.expressions import Run, call_control, call_rule, control
from tirlower.emit.facts import DATA
from tirlower.emit.llvm_text import I1, PTR, VOID, Builder, Type, Value, null, vector, zero
from tirlower.emit.types import memory_bytes, memory_type
from tirlower.emit.vectors import lane, mask_of, repeat, reverse
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, Call, Expr, Var, is_const_int
from tirlower.ir.op import Op
from tirlower.ir.stmt import BufferStore, Stmt

__all__ = ["fence_streams", "from_memory", "has_stream_stores", "store_access", "to_memory"]

_REGISTER: Final = 16
"""The bytes of the shortest vector register."""

_LINE: Final = 64
"""Those of a line of the caches."""

_ADDRESS_OF: Final = Op.get("tir.address_of")


def from_memory(em: Emitter, value: Value, kind: DataType) -> Value:
    """What was loaded, as a value of the data type."""
    if kind.is_bool:
        return em.b.icmp("ne", value, constant(value.type, 0))
    t = value.type.with_scalar(em.type_of(kind.element))
    return value if t == value.type else em.b.trunc(value, t)


def to_memory(em: Emitter, value: Value, kind: DataType) -> Value:
    """A value as it is stored."""
    t = value.type.with_scalar(memory_type(kind))
    if t == value.type:
        return value
    return em.b.sext(value, t) if kind.is_int else em.b.zext(value, t)


def _vector(unit: Type, lanes: int) -> Type:
    return unit if lanes == 1 else vector(unit, lanes)


# -- loads -----------------------------------------------------------------------------------------------------------


@control(BufferLoad)
def _load(run: Run, op: BufferLoad) -> None:
    predicate = None if op.predicate is None or is_const_int(op.predicate, 1) else op.predicate
    run.em.type_of(op.dtype)  # refuses scalable vectors

    def finish(_: object) -> None:
        em = run.em
        access = finish_access(run, op.buffer, op.indices, form)
        mask = None if predicate is None else run.get(predicate)
        mask = _with_lane_mask(em, mask, access.count)
        if mask is not None and _lies_in_own_array(em, op.buffer, op.indices, form):
            every = load_access(em, access, None)
            raw = em.b.select(mask_of(em, mask, access.lanes), every, zero(every.type))
        else:
            raw = load_access(em, access, mask)
        run.set(op, from_memory(em, raw, op.buffer.dtype))

    run.then(finish)
    if predicate is not None:
        run.evaluate(predicate)
    form = schedule_access(run, op.buffer, op.indices, predicate is not None or run.em.lane_mask is not None)


def _with_lane_mask(em: Emitter, mask: Value | None, count: int) -> Value | None:
    """The predicate, and the lanes chosen by an ``if_then_else`` around the access."""
    outer = em.lane_mask
    if outer is None or outer.type.lanes != count:
        return mask
    return outer if mask is None else em.b.and_(outer, mask)


def load_access(em: Emitter, access: Access, mask: Value | None) -> Value:
    """Load all lanes, as they are in memory; lanes that the mask leaves out are zero."""
    b, md = em.b, access.root.attachments
    lanes, group = access.lanes, access.group
    t = _vector(access.unit, lanes)
    if access.count == 1 and access.offsets is None:
        if mask is None:
            return b.load(t, access.pointer, access.align, md=md)
        return _guarded_load(em, access, mask, t)
    if isinstance(access.stride, int) and access.offsets is None:
        stride = access.stride
        if stride == 1:
            return _contiguous_load(b, access, mask and mask_of(em, mask, lanes), t)
        if stride == -1:
            back = _moved(b, access, -(access.count - 1))
            flipped = None if mask is None else mask_of(em, reverse(em, mask), lanes)
            return reverse(em, _contiguous_load(b, back, flipped, t), group)
        if stride == 0 and mask is None:
            one = b.load(_vector(access.unit, group), access.pointer, access.align, md=md)
            return repeat(em, one, access.count)
        if abs(stride) == 2 and group == 1 and mask is None:
            return _every_other(em, access, stride)
    pointers = lane_pointers(em, access)
    everything = mask_of(em, mask, lanes) if mask is not None else Value(t.mask, "splat (i1 true)")
    return b.intrinsic(
        "llvm.masked.gather",
        t,
        [pointers, everything, zero(t)],
        [t, pointers.type],
        arg_attrs={0: f"align {access.unit_bytes}"},
        md=md,
    )


def _contiguous_load(b: Builder, access: Access, mask: Value | None, t: Type) -> Value:
    md = access.root.attachments
    if mask is None:
        return b.load(t, access.pointer, access.align, md=md)
    attrs = {0: f"align {access.align}"}
    return b.intrinsic("llvm.masked.load", t, [access.pointer, mask, zero(t)], [t, PTR], arg_attrs=attrs, md=md)


def _every_other(em: Emitter, access: Access, stride: int) -> Value:
    """Lanes two apart: two overlapping vectors, within the first and the last lane's elements, and a shuffle."""
    b, count, md = em.b, access.count, access.root.attachments
    first = access if stride > 0 else _moved(b, access, -2 * (count - 1))
    t = vector(access.unit, count)
    low = b.load(t, first.pointer, first.align, md=md)
    # Elements count - 1 .. 2 * count - 2: the last of them is the last lane.
    high_at = b.gep(access.unit, first.pointer, b.i64(count - 1), inbounds=False)
    high = b.load(t, high_at, access.unit_bytes, md=md)
    picks = [2 * i if 2 * i < count else count + 2 * i - (count - 1) for i in range(count)]
    return b.shuffle(low, high, picks if stride > 0 else picks[::-1])


def _moved(b: Builder, access: Access, elements: int) -> Access:
    pointer = b.gep(access.unit, access.pointer, b.i64(elements * access.group), inbounds=False)
    return Access(
        access.root, pointer, access.count, 1, None, access.group, access.unit, access.unit_bytes, access.unit_bytes
    )


def _guarded_load(em: Emitter, access: Access, mask: Value, t: Type) -> Value:
    b = em.b
    cond = lane(em, mask, 0)
    start = b.block
    taken, after = em.new_block("active"), em.new_block("loaded")
    b.cond_br(cond, taken, after)
    em.enter(taken)
    value = b.load(t, access.pointer, access.align, md=access.root.attachments)
    b.br(after)
    em.enter(after)
    return b.phi(t, "masked", [(zero(t), start), (value, taken)])


def _lies_in_own_array(em: Emitter, buffer: Buffer, indices: Sequence[Expr], form: LaneForm | None) -> bool:
    """Whether all lanes, masked ones too, lie in a row in an array on this function's stack, which no other thread knows.

    There a whole load, a select and a whole store change nothing more than the masked ones do, and LLVM keeps the
    array in registers, as it does not with masked accesses.
    """
    size = em.arrays.get(buffer.data)
    if size is None or form is None or form.stride != 1 or len(indices) != 1 or buffer.strides:
        return False
    if not is_const_int(buffer.elem_offset, 0) or any(em.facts.of(term).flags & DATA for _, term in form.terms):
        return False
    ends = [sorted(factor * end for end in em.facts.index_range(term)) for factor, term in form.terms]
    last = sum(high for _, high in ends) + indices[0].dtype.lanes
    return sum(low for low, _ in ends) >= 0 and last * memory_bytes(buffer.dtype) * buffer.dtype.lanes <= size


# -- stores ----------------------------------------------------------------------------------------------------------


def emit_store(em: Emitter, op: BufferStore) -> None:
    """Emit a BufferStore."""
    root = em.root(op.buffer.data)
    if root.constant:
        raise em.error(f"a store to `{op.buffer.name}`, which is constant", op, "use T.alloc_buffer, and fill it")
    predicate = None if op.predicate is None or is_const_int(op.predicate, 1) else op.predicate
    if predicate is not None and is_const_int(predicate, 0):
        return
    em.type_of(op.value.dtype)  # refuses scalable vectors
    run = Run(em)
    form = schedule_access(run, op.buffer, op.indices, predicate is not None)
    if predicate is not None:
        run.evaluate(predicate)
    run.evaluate(op.value)
    run.run()
    value = to_memory(em, run.get(op.value), op.buffer.dtype)
    mask = None if predicate is None else run.get(predicate)
    access = finish_access(run, op.buffer, op.indices, form)
    if mask is not None and _lies_in_own_array(em, op.buffer, op.indices, form):
        value = em.b.select(mask_of(em, mask, access.lanes), value, load_access(em, access, None))
        mask = None
    past, sequential = op.buffer.data in em.streams, op.buffer.data in em.sequential
    store_access(em, access, value, mask, nontemporal=past, pieces=sequential)


def store_access(
    em: Emitter, access: Access, value: Value, mask: Value | None, nontemporal: bool = False, pieces: bool = False
) -> None:
    """Store all lanes, given as they are in memory; where lanes meet in one element, the last one stays.

    ``nontemporal`` stores go past the caches, with ``pieces`` those of parts of lines too.
    """
    b, md = em.b, access.root.attachments
    lanes, group = access.lanes, access.group
    if nontemporal and mask is None and _streams(access):
        _stream(em, access, value, pieces)
        return
    if access.count == 1 and access.offsets is None:
        if mask is None:
            b.store(value, access.pointer, access.align, md=md)
            return
        with b.if_then(lane(em, mask, 0), name="active"):
            b.store(value, access.pointer, access.align, md=md)
        return
    if isinstance(access.stride, int) and access.offsets is None:
        if access.stride == 1:
            _contiguous_store(em, access, value, mask and mask_of(em, mask, lanes))
            return
        if access.stride == -1:
            back = _moved(b, access, -(access.count - 1))
            flipped = None if mask is None else mask_of(em, reverse(em, mask), lanes)
            _contiguous_store(em, back, reverse(em, value, group), flipped)
            return
        if access.stride == 0 and mask is None:
            last = b.shuffle(value, None, range(lanes - group, lanes)) if group > 1 else lane(em, value, lanes - 1)
            b.store(last, access.pointer, access.align, md=md)
            return
    pointers = lane_pointers(em, access)
    everything = mask_of(em, mask, lanes) if mask is not None else Value(value.type.mask, "splat (i1 true)")
    b.intrinsic(
        "llvm.masked.scatter",
        VOID,
        [value, pointers, everything],
        [value.type, pointers.type],
        arg_attrs={1: f"align {access.unit_bytes}"},
        md=md,
    )


def _contiguous_store(em: Emitter, access: Access, value: Value, mask: Value | None) -> None:
    b, md = em.b, access.root.attachments
    if mask is None:
        b.store(value, access.pointer, access.align, md=md)
        return
    attrs = {1: f"align {access.align}"}
    b.intrinsic("llvm.masked.store", VOID, [value, access.pointer, mask], [value.type, PTR], arg_attrs=attrs, md=md)


def has_stream_stores(em: Emitter) -> bool:
    """Whether the machine has stores past the caches, which a fence has to follow."""
    return em.machine.is_x86


def fence_streams(em: Emitter, body: Stmt) -> None:
    """At each way out of the function: other threads see all that it stored past the caches in ``body``."""
    if has_stream_stores(em) and (em.streams or has_streams(body)):
        em.cleanups.append(_fence)


def _fence(em: Emitter) -> None:
    em.b.intrinsic("llvm.x86.sse.sfence", VOID, [])


def _streams(access: Access) -> bool:
    """Whether an access is of whole registers in a row."""
    in_a_row = access.offsets is None and (access.count == 1 or access.stride == 1)
    return in_a_row and access.lanes * access.unit_bytes % _REGISTER == 0 and access.unit.bits % 8 == 0


def _stream(em: Emitter, access: Access, value: Value, pieces: bool) -> None:
    """Store past the caches where whole lines, or whole vectors that are shorter, begin at the address.

    LLVM cuts what is less aligned, down to 16 bytes, to which NumPy aligns. For aligned arrays that took 1.3 to 1.5 times
    as long in softmax and norms. For others it is better than ordinary stores where the pieces of a line are written one
    behind the other (a copy takes 0.75 of the time), and far worse where not (a blur that does four rows at once: 4 times).
    """
    b, md = em.b, access.root.attachments
    size = access.lanes * access.unit_bytes
    whole = min(_LINE, size & -size)
    if access.align >= whole:
        b.store(value, access.pointer, access.align, md=md, nontemporal=True)
        return
    # The index's part of the address drops out of the test where it is a whole number of registers, and LLVM makes two
    # loops of one.
    address = b.ptrtoint(access.base or access.pointer)
    if access.base is not None and access.place is not None:
        address = b.add(address, b.binary("mul", access.place, b.i64(access.unit_bytes * access.group)))

    def store(align: int) -> None:
        """From an alignment on past the caches."""
        aligned = b.icmp("eq", b.and_(address, b.i64(align - 1)), b.i64(0))
        with b.if_else(aligned, name="stream") as (past, through):
            with past:
                b.store(value, access.pointer, align, md=md, nontemporal=True)
            with through:
                if pieces and align > _REGISTER:
                    store(_REGISTER)
                else:
                    b.store(value, access.pointer, access.align, md=md)

    store(whole)


# -- addresses -------------------------------------------------------------------------------------------------------


@call_control("tir.address_of")
def _address_of(run: Run, op: Call) -> None:
    target = op.args[0]
    if isinstance(target, BufferLoad):
        load = target

        def finish(_: object) -> None:
            run.set(op, finish_access(run, load.buffer, load.indices, None).pointer)

        _refuse_vector(run.em, load, op)
        run.then(finish)
        schedule_access(run, load.buffer, load.indices)
        return
    if isinstance(target, Var) and target.dtype.is_handle:
        run.set(op, run.get(target))
        return
    raise run.em.error(f"the address of {target}, which is no element of a buffer", op)


@call_control("tir.tvm_access_ptr")
def _access_ptr(run: Run, op: Call) -> None:
    marker, data, offset = op.args[:3]

    def finish(_: object) -> None:
        em = run.em
        dtype = marker.dtype
        unit = memory_type(dtype)
        index = run.get_index(offset)
        scaled = index if dtype.lanes == 1 else em.b.binary("mul nsw", index, em.b.i64(dtype.lanes))
        run.set(op, em.b.gep(unit, run.get(data), scaled, inbounds=False))

    run.then(finish)
    run.evaluate_index(offset)
    run.evaluate(data)


@call_rule("tir.isnullptr")
def _is_null(em: Emitter, op: Call, args: list[Value]) -> Value:
    return em.b.icmp("eq", args[0], null())


@call_control("tir.prefetch")
def _prefetch(run: Run, op: Call) -> None:
    em = run.em
    where, *rest = op.args
    numbers = [arg.value if is_const_int(arg) else None for arg in rest]  # type: ignore[attr-defined]
    if None in numbers or numbers[0] not in (0, 1) or numbers[1] not in (0, 1, 2, 3) or numbers[2] not in (0, 1):
        raise em.error(
            f"prefetch takes constants (read 0 or write 1, locality 0 to 3, instruction 0 or data 1), got {op.args[1:]}",
            op,
        )

    def emit(pointer: Value) -> None:
        em.b.intrinsic("llvm.prefetch", VOID, [pointer, *[em.b.i32(int(n or 0)) for n in numbers]], [PTR])
        run.set(op, Value(I1, "false"))

    if isinstance(where, Call) and where.op is _ADDRESS_OF:
        where = where.args[0]
    if isinstance(where, BufferLoad):
        load: BufferLoad = where
        _refuse_vector(em, load, op)
        # What is fetched ahead lies behind the array's end, sooner or later.
        run.then(lambda _: emit(finish_access(run, load.buffer, load.indices, None, inbounds=False).pointer))
        schedule_access(run, load.buffer, load.indices)
    else:
        handle: Expr = where
        run.then(lambda _: emit(run.get(handle)))
        run.evaluate(handle)


def _refuse_vector(em: Emitter, load: BufferLoad, op: Call) -> None:
    if load.indices and load.indices[-1].dtype.is_vector:
        raise em.error("the address of a vector of elements", op, "take the address of its first element")
