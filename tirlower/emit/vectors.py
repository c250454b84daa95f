"""Vectors made of scalars and of other vectors: ramps, broadcasts, shuffles, halves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tirlower.emit.emitter import Emitter, constant
from tirlower.emit.expressions import Run, call_control, call_rule, combine
from tirlower.emit.llvm_text import I1, I32, I64, Type, Value, const_vector, int_type, vector, zero
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Broadcast, Call, IntImm, Ramp, Shuffle

__all__ = ["concatenate", "lane", "lanes_of", "map_lanes", "repeat", "reverse", "steps"]


def steps(t: Type) -> Value:
    """The constant vector 0, 1, 2, ... (wrapped) of an integer vector type."""
    scalar = t.scalar
    return const_vector([constant(scalar, i) for i in range(t.lanes)])


def repeat(em: Emitter, value: Value, times: int) -> Value:
    """A scalar in so many lanes, or a vector repeated whole."""
    if not value.type.is_vector:
        return value if times == 1 else em.b.splat(value, times)
    if times == 1:
        return value
    return em.b.shuffle(value, None, list(range(value.type.lanes)) * times)


def spread(em: Emitter, value: Value, times: int) -> Value:
    """Each lane repeated in place: ``a b`` becomes ``a a b b``."""
    if times == 1:
        return value
    if not value.type.is_vector:
        return em.b.splat(value, times)
    return em.b.shuffle(value, None, [i for i in range(value.type.lanes) for _ in range(times)])


def reverse(em: Emitter, value: Value, group: int = 1) -> Value:
    """The lanes (or groups of lanes) in reverse order."""
    count = value.type.lanes // group
    return em.b.shuffle(value, None, [g * group + i for g in reversed(range(count)) for i in range(group)])


def lane(em: Emitter, value: Value, index: int) -> Value:
    """One lane; a scalar is its own lane 0."""
    return em.b.extract_element(value, index) if value.type.is_vector else value


def lanes_of(em: Emitter, value: Value) -> list[Value]:
    """All lanes."""
    return [lane(em, value, i) for i in range(value.type.lanes)]


def from_lanes(em: Emitter, values: Sequence[Value]) -> Value:
    """A vector of scalars; one alone stays a scalar."""
    if len(values) == 1:
        return values[0]
    t = vector(values[0].type, len(values))
    made = Value(t, "poison")
    for i, value in enumerate(values):
        made = em.b.insert_element(made, value, i)
    return made


def map_lanes(em: Emitter, fn: Callable[[list[Value]], Value], args: list[Value]) -> Value:
    """A function of scalars applied lane by lane (to scalars directly)."""
    count = max(arg.type.lanes for arg in args)
    if count == 1 and not any(arg.type.is_vector for arg in args):
        return fn(args)
    return from_lanes(em, [fn([lane(em, arg, i) for arg in args]) for i in range(count)])


def concatenate(em: Emitter, values: Sequence[Value]) -> Value:
    """The lanes of vectors and scalars in order."""
    if all(not value.type.is_vector for value in values):
        return from_lanes(em, values)
    parts = list(values)
    while len(parts) > 1:
        parts = [_pair(em, *parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


def _pair(em: Emitter, a: Value, b: Value | None = None) -> Value:
    if b is None:
        return a
    if not a.type.is_vector:
        a = em.b.insert_element(Value(vector(a.type, 1), "poison"), a, 0)
    if not b.type.is_vector:
        b = em.b.insert_element(Value(vector(b.type, 1), "poison"), b, 0)
    n, m = a.type.lanes, b.type.lanes
    if n == m:
        return em.b.shuffle(a, b, range(n + m))
    # A shuffle takes two vectors of one type: widen the shorter one first.
    most = max(n, m)
    wide_a = a if n == most else em.b.shuffle(a, None, [*range(n), *[-1] * (most - n)])
    wide_b = b if m == most else em.b.shuffle(b, None, [*range(m), *[-1] * (most - m)])
    return em.b.shuffle(wide_a, wide_b, [*range(n), *range(most, most + m)])


@combine(Ramp)
def _ramp(em: Emitter, op: Ramp, base: Value, stride: Value) -> Value:
    count = em.type_of(op.dtype).lanes
    if count == 1:
        return base
    start = em.b.splat(base, count)
    if isinstance(op.stride, IntImm):
        first = constant(base.type, 0)
        scaled = const_vector([constant(base.type, i * op.stride.value) for i in range(count)])
        return scaled if base.text == first.text else em.b.add(start, scaled)
    return em.b.add(start, em.b.mul(em.b.splat(stride, count), steps(start.type)))


@combine(Broadcast)
def _broadcast(em: Emitter, op: Broadcast, value: Value) -> Value:
    em.type_of(op.dtype)  # refuses scalable vectors
    return repeat(em, value, op.dtype.lanes // op.value.dtype.lanes)


@combine(Shuffle)
def _shuffle(em: Emitter, op: Shuffle, *values: Value) -> Value:
    vectors, indices = values[: len(op.vectors)], values[len(op.vectors) :]
    if not all(isinstance(index, IntImm) for index in op.indices):
        whole = concatenate(em, vectors)
        if not whole.type.is_vector:
            return repeat(em, whole, len(indices))
        return from_lanes(em, [em.b.extract_element(whole, index) for index in indices])
    mask = [index.value for index in op.indices if isinstance(index, IntImm)]
    if all(not v.type.is_vector for v in vectors):
        return from_lanes(em, [vectors[i] for i in mask])
    if len(mask) == 1:
        at = mask[0]
        for v in vectors:
            if at < v.type.lanes:
                return lane(em, v, at)
            at -= v.type.lanes
    moved = _moved(em, vectors, mask)
    if moved is not None:
        return moved
    if len(vectors) == 2 and vectors[0].type == vectors[1].type:
        return em.b.shuffle(vectors[0], vectors[1], mask)
    whole = concatenate(em, vectors)
    if mask == list(range(whole.type.lanes)):
        return whole
    return em.b.shuffle(whole, None, mask)


def _moved(em: Emitter, vectors: Sequence[Value], indices: Sequence[int]) -> Value | None:
    """A vector moved up or down by some lanes, with zeros behind it, as a rotation of which lanes are kept by a mask.

    None for any other shuffle, and where there are no such masks. Scans are made of these: LLVM would take the zeros for
    the gaps of an expansion or a compression (``vexpandps``), twice as slow as the masked rotation (``valignd``). It does
    not where it cannot see the mask, which stands in a register.
    """
    count = len(indices)
    lanes = [(vector, at) for vector in vectors for at in range(vector.type.lanes)]
    chosen = [lanes[index] for index in indices]
    kept = [not _is_zero(vector) for vector, _ in chosen]
    found = {vector.text: vector for (vector, _), keep in zip(chosen, kept, strict=True) if keep}
    distances = {i - at for i, ((_, at), keep) in enumerate(zip(chosen, kept, strict=True)) if keep}
    if len(found) != 1 or len(distances) != 1 or all(kept) or not any(distances):
        return None
    (value,), (distance,) = found.values(), distances
    wide = "avx512f" if value.type.bits == 512 else "avx512vl"
    if value.type.lanes != count or value.type.bits not in (256, 512) or value.type.scalar.bits not in (32, 64):
        return None
    if not em.machine.is_x86 or wide not in em.machine.features:
        return None
    own = value.type
    if own.scalar.bits == 32 and distance % 2 == 0:
        # LLVM permutes pairs then, under no mask that tells the halves of a pair apart.
        count, distance, kept = count // 2, distance // 2, kept[::2]
        value = em.b.bitcast(value, vector(I64, count))
    bits = em.b.i32(sum(keep << i for i, keep in enumerate(kept)))
    hidden = em.b.call_asm("", "=r,0", I32, [bits], side_effect=False, attrs=["nounwind", "memory(none)"])
    mask = em.b.bitcast(em.b.trunc(hidden, int_type(count)), vector(I1, count))
    rotated = em.b.shuffle(value, None, [(i - distance) % count for i in range(count)])
    return em.b.bitcast(em.b.select(mask, rotated, zero(value.type)), own)


def _is_zero(value: Value) -> bool:
    return value.is_constant and value.text in (zero(value.type).text, zero(value.type.scalar).text)


@call_rule("tir.vectorlow", "tir.vectorhigh")
def _half(em: Emitter, op: Call, args: list[Value]) -> Value:
    from_low = op.op.name == "tir.vectorlow"
    (value,) = args
    count = value.type.lanes
    half = count // 2
    if count == 1:
        return value
    start = 0 if from_low else half
    if half == 1:
        return lane(em, value, start)
    end = half if from_low else count
    return em.b.shuffle(value, None, range(start, end))


@call_rule("tir.vectorcombine")
def _combine(em: Emitter, op: Call, args: list[Value]) -> Value:
    return concatenate(em, args)


_INT32: Final = DataType("int32")


@call_control("tir.get_active_lane_mask")
def _active_lanes(run: Run, op: Call) -> None:
    base, limit = op.args

    def compare(_: object) -> None:
        em, count = run.em, op.dtype.lanes
        first, last = run.get_index(base), run.get_index(limit)
        if count == 1:
            run.set(op, em.b.icmp("slt", first, last))
            return
        # base + i < limit without a sum that could wrap: i < limit - base; cut to the lanes where it need not fit an int32.
        left = em.b.sub(last, first)
        (least, most), (low, high) = map(em.facts.range_of, op.args)
        if low - most >= _INT32.min_value and high - least <= _INT32.max_value:
            # Half as wide: a mask of 8 floats made of 64-bit lanes is two registers, packed and spread again.
            near = em.b.splat(em.b.trunc(left, I32), count)
            run.set(op, em.b.icmp("slt", steps(vector(I32, count)), near))
            return
        for name, end in (("smin", count), ("smax", 0)):
            left = em.b.intrinsic(f"llvm.{name}", I64, [left, em.b.i64(end)], [I64])
        run.set(op, em.b.icmp("slt", steps(vector(I32, count)), em.b.splat(em.b.trunc(left, I32), count)))

    run.then(compare)
    run.evaluate_index(limit)
    run.evaluate_index(base)


def mask_of(em: Emitter, value: Value, count: int) -> Value:
    """A boolean as a mask of so many lanes (each lane spread, where it has fewer)."""
    assert value.type.scalar is I1
    have = value.type.lanes
    return value if have == count and value.type.is_vector else spread(em, value, count // have)
