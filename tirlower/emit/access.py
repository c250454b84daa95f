"""Where an access goes: from a buffer and indices to an address and the form of its lanes.

The last index may be a vector. One that is affine in the lane (a ramp, a broadcast, sums and constant multiples of
them) is taken apart into a scalar base and a stride, both computed as 64-bit indices, so that contiguous lanes become
one vector access; any other becomes a vector of indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tirlower.emit.emitter import Emitter, Root
from tirlower.emit.exact import evaluate_lanes, wide_lanes
from tirlower.emit.expressions import Run
from tirlower.emit.llvm_text import I64, Type, Value, const_vector, vector
from tirlower.emit.types import memory_bytes, memory_type
from tirlower.emit.vectors import spread, steps
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Add, Broadcast, Expr, IntImm, Mul, Ramp, Sub, is_const_int

__all__ = ["Access", "LaneForm", "affine_lanes", "finish_access", "schedule_access"]

#: sums nested deeper than this are not taken apart: their lanes are gathered
_DEPTH = 64


@dataclass(frozen=True, slots=True)
class LaneForm:
    """``sum(coefficient * term) + lane * stride``: the scalar terms, and the stride as a number or an expression."""

    terms: tuple[tuple[int, Expr], ...]
    stride: int | Expr


def affine_lanes(op: Expr, depth: int = 0) -> LaneForm | None:
    """A vector of integers as an affine function of the lane, or None."""
    cls = op.__class__
    if cls is Ramp:
        stride = op.stride.value if isinstance(op.stride, IntImm) else op.stride  # type: ignore[attr-defined]
        return LaneForm(((1, op.base),), stride)  # type: ignore[attr-defined]
    if cls is Broadcast:
        return None if op.value.dtype.is_vector else LaneForm(((1, op.value),), 0)  # type: ignore[attr-defined]
    if cls not in (Add, Sub, Mul) or depth > _DEPTH or op.dtype.is_uint:
        return None
    a, b = affine_lanes(op.a, depth + 1), affine_lanes(op.b, depth + 1)  # type: ignore[attr-defined]
    if a is None or b is None:
        return None
    if cls is Mul:
        a, b = (b, a) if _constant(a) is not None else (a, b)
        factor = _constant(b)
        if factor is None or not isinstance(a.stride, int):
            return None
        return LaneForm(tuple((k * factor, term) for k, term in a.terms), a.stride * factor)
    sign = 1 if cls is Add else -1
    terms = a.terms + tuple((sign * k, term) for k, term in b.terms)
    if isinstance(a.stride, int) and isinstance(b.stride, int):
        return LaneForm(terms, a.stride + sign * b.stride)
    if isinstance(b.stride, int) and b.stride == 0:
        return LaneForm(terms, a.stride)
    if isinstance(a.stride, int) and a.stride == 0 and sign == 1:
        return LaneForm(terms, b.stride)
    return None


def _first_lane(form: LaneForm, kind: DataType) -> LaneForm:
    """The form of lanes that may wrap: the first in its type, the others (which are in the buffer too) next to it."""
    total: Expr | None = None
    for factor, term in form.terms:
        part = term if factor == 1 else Mul(term, IntImm(kind, _in_type(factor, kind)))
        total = part if total is None else Add(total, part)
    assert total is not None  # a form has terms
    stride = form.stride
    return LaneForm(((1, total),), _in_type(stride, kind) if isinstance(stride, int) else stride)


def _stays_near(run: Run, form: LaneForm, kind: DataType) -> bool:
    """Whether no two lanes are as far apart as the type has numbers: two in the buffer may then be lanes between which
    others, which are masked, have wrapped."""
    stride = form.stride
    low, high = (stride, stride) if isinstance(stride, int) else run.em.facts.range_of(stride)
    return max(-low, high) * (kind.lanes - 1) <= int(kind.max_value)


def _in_type(value: int, kind: DataType) -> int:
    least, size = int(kind.min_value), 1 << kind.bits
    return (value - least) % size + least


def _constant(form: LaneForm) -> int | None:
    if form.stride != 0 or not all(isinstance(term, IntImm) for _, term in form.terms):
        return None
    return sum(k * term.value for k, term in form.terms if isinstance(term, IntImm))


@dataclass(slots=True)
class Access:
    """An access, emitted up to its address.

    ``pointer`` is the address of the first lane's element (or, with ``offsets``, of element 0); ``count`` the number of
    index lanes; ``stride`` their distance in elements, an int, or an i64 value; ``offsets`` a vector of element
    offsets instead of a stride. ``group`` is the number of lanes of one element, ``unit`` the memory type of a lane,
    ``align`` what is known of ``pointer``; ``pointer`` is ``place`` elements behind ``base``, where that
    is noted.
    """

    root: Root
    pointer: Value
    count: int
    stride: int | Value
    offsets: Value | None
    group: int
    unit: Type
    unit_bytes: int
    align: int
    base: Value | None = None
    place: Value | None = None

    @property
    def lanes(self) -> int:
        """All lanes of the access."""
        return self.count * self.group


def schedule_access(run: Run, buffer: Buffer, indices: Sequence[Expr], masked: bool = False) -> LaneForm | None:
    """Schedule what the address needs; gives the form of a vector index that has one. ``masked`` lanes may be outside."""
    if len(indices) == 1 and indices[0].dtype.is_scalar and _is_flat(buffer):
        run.evaluate_index(indices[0])
        return None
    scalars = list(indices)
    form = None
    if indices and indices[-1].dtype.is_vector:
        last = scalars.pop()
        form = affine_lanes(last)
        if form is not None and run.em.facts.data_wraps(last):
            if masked and not _stays_near(run, form, last.dtype):
                form = None
            elif form.terms != ((1, form.terms[0][1]),):
                form = _first_lane(form, last.dtype.element)
                run.em.facts.kept += [term for _, term in form.terms]
        if form is None:
            evaluate_lanes(run, last)
        else:
            for _, term in reversed(form.terms):
                run.evaluate_index(term)
            if isinstance(form.stride, Expr):
                run.evaluate_index(form.stride)
    for index in reversed(scalars):
        run.evaluate_index(index)
    if len(indices) > 1 or buffer.strides:
        for extent in buffer.strides or buffer.shape[1:]:
            run.evaluate_index(extent)
    if not is_const_int(buffer.elem_offset, 0):
        run.evaluate_index(buffer.elem_offset)
    return form


def finish_access(
    run: Run, buffer: Buffer, indices: Sequence[Expr], form: LaneForm | None, *, inbounds: bool = True
) -> Access:
    """Emit the address, from what :func:`schedule_access` had evaluated; ``inbounds``: it is one of the buffer's."""
    em, b = run.em, run.em.b
    root = em.root(buffer.data)
    inbounds = inbounds and not root.offset
    pointer = em.lookup(buffer.data).value
    group = buffer.dtype.lanes
    unit, unit_bytes = memory_type(buffer.dtype), memory_bytes(buffer.dtype)
    if group == 1 and len(indices) == 1 and indices[0].dtype.is_scalar and _is_flat(buffer):
        # A scalar of a flat buffer, which is most accesses: its own alignment is all that it needs.
        at = run.get_index(indices[0])
        if at.text != "0":
            pointer = b.gep(unit, pointer, at, inbounds=inbounds)
        return Access(root, pointer, 1, 0, None, 1, unit, unit_bytes, _natural(unit_bytes))
    facts = em.facts
    total = _Sum(em)
    divisor = 1 << 16
    count = indices[-1].dtype.lanes if indices and indices[-1].dtype.is_vector else 1
    vector_last = bool(indices) and indices[-1].dtype.is_vector
    strides = _strides(run, buffer)
    scalars = indices[:-1] if vector_last else indices
    if buffer.strides or len(indices) > 1:
        for index, (stride, known) in zip(scalars, strides, strict=False):
            total.add(run.get_index(index), stride)
            divisor = min(divisor, facts.of(index).divisor * known)
    elif scalars:
        total.add(run.get_index(scalars[0]), 1)
        divisor = facts.of(scalars[0]).divisor
    lane_stride: int | Value = 0
    offsets: Value | None = None
    if vector_last:
        last_stride, last_known = strides[-1] if buffer.strides else (1, 1)
        if form is not None:
            lane_stride, divisor = _affine(run, form, last_stride, last_known, total, divisor)
        else:
            offsets = wide_lanes(run, indices[-1])
            if last_stride != 1:
                step = last_stride if isinstance(last_stride, Value) else b.i64(last_stride)
                offsets = b.binary("mul nsw", offsets, b.splat(step, count))
            divisor = 1
    if not is_const_int(buffer.elem_offset, 0):
        total.add(run.get_index(buffer.elem_offset), 1)
        divisor = min(divisor, facts.of(buffer.elem_offset).divisor)
    element_bytes = unit_bytes * group
    base, place = pointer, total.value()
    if place is not None:
        scaled = place if group == 1 else b.binary("mul nsw", place, b.i64(group))
        pointer = b.gep(unit, pointer, scaled, inbounds=inbounds)
    known_align = root.align if place is None or place.text == "0" else min(root.align, _power(divisor * element_bytes))
    align = max(known_align, _natural(unit_bytes))
    return Access(root, pointer, count, lane_stride, offsets, group, unit, unit_bytes, align, base, place)


def _is_flat(buffer: Buffer) -> bool:
    return len(buffer.shape) == 1 and not buffer.strides and is_const_int(buffer.elem_offset, 0)


def _natural(unit_bytes: int) -> int:
    return unit_bytes & -unit_bytes


def _power(value: int) -> int:
    return value & -value


def _affine(
    run: Run, form: LaneForm, scale: int | Value, known: int, total: _Sum, divisor: int
) -> tuple[int | Value, int]:
    em, b = run.em, run.em.b
    for factor, term in form.terms:
        value = run.get_index(term)
        if isinstance(scale, Value):
            step: int | Value = scale if factor == 1 else b.binary("mul nsw", scale, b.i64(factor))
        else:
            step = factor * scale
        total.add(value, step)
        divisor = min(divisor, em.facts.of(term).divisor * _power(factor or 1 << 16) * known)
    stride: int | Value = form.stride if isinstance(form.stride, int) else run.get_index(form.stride)
    if isinstance(stride, int) and isinstance(scale, int):
        return stride * scale, divisor
    if stride == 0:
        return 0, divisor
    x = b.i64(stride) if isinstance(stride, int) else stride
    y = b.i64(scale) if isinstance(scale, int) else scale
    return (x if scale == 1 else b.binary("mul nsw", x, y)), divisor


class _Sum:
    """A sum of index terms being emitted."""

    def __init__(self, em: Emitter) -> None:
        self.em = em
        self.terms: list[Value] = []
        self.constant = 0

    def add(self, value: Value, factor: int | Value) -> None:
        """Add ``value * factor``."""
        b = self.em.b
        if isinstance(factor, Value):
            if factor.text == "1":
                factor = 1
            else:
                self.terms.append(b.binary("mul nsw", value, factor))
                return
        if factor == 0:
            return
        if value.is_constant:
            self.constant += int(value.text) * factor
        else:
            self.terms.append(value if factor == 1 else b.binary("mul nsw", value, b.i64(factor)))

    def value(self) -> Value | None:
        """The sum; None for zero."""
        b = self.em.b
        made: Value | None = None
        for term in self.terms:
            made = term if made is None else b.binary("add nsw", made, term)
        if self.constant:
            last = b.i64(self.constant)
            made = last if made is None else b.binary("add nsw", made, last)
        return made


def _strides(run: Run, buffer: Buffer) -> list[tuple[int | Value, int]]:
    """The stride of each dimension, with a power of two that divides it."""
    facts = run.em.facts

    def known(expr: Expr) -> tuple[int | Value, int]:
        if isinstance(expr, IntImm):
            return expr.value, _power(expr.value or 1 << 16)
        return run.get_index(expr), facts.of(expr).divisor

    if buffer.strides:
        return [known(stride) for stride in buffer.strides]
    if len(buffer.shape) <= 1:
        return [(1, 1)] * len(buffer.shape)
    out: list[tuple[int | Value, int]] = [(1, 1)]
    step: int | Value = 1
    divisor = 1
    for extent in reversed(buffer.shape[1:]):
        size, power = known(extent)
        divisor = min(divisor * power, 1 << 16)
        if isinstance(step, int) and isinstance(size, int):
            step = step * size
        elif isinstance(step, int) and step == 1:
            step = size
        else:
            x = run.em.b.i64(step) if isinstance(step, int) else step
            y = run.em.b.i64(size) if isinstance(size, int) else size
            step = run.em.b.binary("mul nsw", x, y)
        out.append((step, divisor))
    return out[::-1]


def lane_pointers(em: Emitter, access: Access) -> Value:
    """A vector of the addresses of all lanes."""
    b = em.b
    count, group = access.count, access.group
    if access.offsets is not None:
        offsets = access.offsets
    elif isinstance(access.stride, int):
        offsets = const_vector([Value(I64, str(i * access.stride)) for i in range(count)])
    else:
        t = vector(I64, count)
        offsets = b.binary("mul nsw", b.splat(access.stride, count), steps(t))
    if group > 1:
        many = spread(em, b.binary("mul nsw", offsets, b.splat(b.i64(group), count)), group)
        inner = const_vector([Value(I64, str(i % group)) for i in range(count * group)])
        offsets = b.binary("add nsw", many, inner)
    return b.gep(access.unit, access.pointer, offsets, inbounds=False)
