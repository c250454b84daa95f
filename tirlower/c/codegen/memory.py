"""Memory in C text: loads and stores, addresses, allocations.

C forbids to access an object as two types, but for bytes. A buffer is an array of its elements' type where all that the
function knows of its memory agrees on it; any other (views of another type, pointers that are passed on or come from
outside, arrays of different types that may overlap) is accessed by ``memcpy``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from tirlower.c.codegen.arithmetic import INDEX, arithmetic, convert, extremum, wrapped
from tirlower.c.codegen.expressions import at_lane, begin, index_of, lane_arithmetic, node_rule, value_of
from tirlower.c.codegen.state import FunctionState
from tirlower.c.codegen.values import (
    ATOM,
    CHOICE,
    UNARY,
    Kind,
    Value,
    int_literal,
    is_narrow_float,
    kind_of,
    memory_bits,
    memory_type,
    type_range,
)
from tirlower.call.errors import escape_template
from tirlower.diagnostics import AllocationError
from tirlower.ir.buffer import ALLOC_ALIGNMENT, Buffer
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import (
    Add,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Sub,
    Var,
    is_const_int,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.op import Op
from tirlower.ir.stmt import AllocBuffer, AllocConst, Bind, BufferStore, DeclBuffer

__all__ = ["Memory", "address", "allocate", "constant", "from_memory", "store_lane"]

STACK_LIMIT: Final = 4 << 10
"""The largest buffer that is a local array, in bytes."""

_ADDRESS: Final = Op.get("tir.address_of")
_BYTES: Final = ("int8_t", "uint8_t")


class Memory(Visitor):
    """What a function knows of each data variable: as what its elements are accessed, and whether others may see it."""

    def __init__(self, func: PrimFunc, may_share: Iterable[Var]) -> None:
        self.types: dict[Var, set[str]] = {}
        self.shared: set[Var] = {p for p in func.params if p.dtype.is_handle and p not in func.buffer_map}
        for buffer in func.buffers:
            self.visit_buffer(buffer)
        if len({kind for kinds in self.types.values() for kind in kinds}) > 1:
            self.shared |= set(may_share)
        self.visit(func.body)

    def typed(self, data: Var) -> str | None:
        """The C type of the elements, where all accesses agree on it."""
        kinds = self.types.get(data, set())
        if data in self.shared or len(kinds) != 1:
            return None
        return next(iter(kinds))

    def visit_buffer(self, buffer: Buffer) -> None:
        """An access, or a declaration."""
        self.types.setdefault(buffer.data, set()).add(memory_type(buffer.dtype))

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        """A load."""
        self.visit_buffer(op.buffer)

    def visit_BufferStore(self, op: BufferStore) -> None:
        """A store."""
        self.visit_buffer(op.buffer)
        self.generic(op)

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        """An allocation."""
        self.visit_buffer(op.buffer)
        self.generic(op)

    def visit_DeclBuffer(self, op: DeclBuffer) -> None:
        """A view."""
        self.visit_buffer(op.buffer)

    def visit_AllocConst(self, op: AllocConst) -> None:
        """A constant: bytes."""
        self.visit_buffer(op.buffer)
        self.shared.add(op.buffer.data)

    def visit_Bind(self, op: Bind) -> None:
        """Another name of a pointer."""
        self._let_out(op.value)
        if op.var.dtype.is_handle:
            self.shared.add(op.var)
        self.generic(op)

    def visit_Let(self, op: Let) -> None:
        """The same inside an expression."""
        self._let_out(op.value)
        if op.var.dtype.is_handle:
            self.shared.add(op.var)

    def visit_Call(self, op: Call) -> None:
        """Pointers that are let out."""
        if op.op is _ADDRESS and isinstance(op.args[0], BufferLoad):
            self.shared.add(op.args[0].buffer.data)
        for arg in op.args:
            self._let_out(arg)

    def _let_out(self, op: Expr) -> None:
        if isinstance(op, Var) and op.dtype.is_handle:
            self.shared.add(op)


# -- accesses --------------------------------------------------------------------------------------------------------


def from_memory(state: FunctionState, text: str, dtype: DataType, depth: int) -> Value:
    """What was loaded, as a value of the (scalar) type."""
    kind = kind_of(dtype)
    low, high = type_range(dtype)
    if dtype.is_bool:
        return convert(state, Value(text, Kind.I32, low=-128, high=127, depth=depth), DataType("int8"), dtype)
    if is_narrow_float(dtype):
        return Value(f"{state.module.need(f'tir_{dtype.element}_of')}({text})", kind, depth=depth, raw=text)
    if dtype.is_integral and dtype.bits != memory_bits(dtype):
        held = DataType.of("int" if dtype.is_int else "uint", memory_bits(dtype))
        return wrapped(state, Value(text, kind_of(held), UNARY, *type_range(held), depth), dtype)
    return Value(text, kind, low=low, high=high, depth=depth)


def _to_memory(state: FunctionState, value: Value, dtype: DataType) -> str:
    if is_narrow_float(dtype):
        if value.raw:
            return value.raw
        # A call of the function that rounds rounds once.
        inner = value.text.removeprefix(f"tir_{dtype.element}") if value.rank == ATOM else ""
        text = inner if inner.startswith("(") else f"({value.text})"
        return f"{state.module.need(f'tir_{dtype.element}_bits')}{text}"
    return value.text


def _pointer(state: FunctionState, data: Var) -> Value:
    found = state.lookup(data)
    assert isinstance(found, Value)
    return found


def place_of(state: FunctionState, buffer: Buffer, indices: tuple[Expr, ...]) -> Value:
    """The number of the lane in memory, counted from the data pointer: of the current lane, where an index has some."""
    group = buffer.dtype.lanes
    lane = state.lane
    total: Value | None = None
    last = len(indices) - 1
    weights = list(buffer.strides)
    for position, index in enumerate(indices):
        vector = index.dtype.is_vector
        if vector:
            assert lane is not None
            inner = lane if group == 1 else lane_arithmetic(state, Div, lane, group)
            found = at_lane(state, inner, index, index=True)
        else:
            found = index_of(state, index)
        if weights:
            total = _sum(state, total, arithmetic(state, Mul, INDEX, found, index_of(state, weights[position])))
        elif total is None:
            total = found
        else:
            total = _sum(state, arithmetic(state, Mul, INDEX, total, index_of(state, buffer.shape[position])), found)
        assert position <= last
    if total is None:
        total = int_literal(0, Kind.I32)
    if not is_const_int(buffer.elem_offset, 0):
        total = _sum(state, total, index_of(state, buffer.elem_offset))
    if group > 1:
        total = arithmetic(state, Mul, INDEX, total, int_literal(group, Kind.I32))
        assert lane is not None
        many = bool(indices) and indices[-1].dtype.is_vector
        total = _sum(state, total, lane_arithmetic(state, Mod, lane, group) if many else lane)
    return total


def _sum(state: FunctionState, a: Value | None, b: Value) -> Value:
    return b if a is None or a.constant == 0 else a if b.constant == 0 else arithmetic(state, Add, INDEX, a, b)


def _suffix(ctype: str) -> str:
    return "pointer" if ctype == "void *" else ctype.replace("_t", "")


def load(state: FunctionState, buffer: Buffer, place: Value) -> Value:
    """A lane in memory."""
    data = _pointer(state, buffer.data)
    ctype, depth = memory_type(buffer.dtype), place.depth + 1
    if state.memory.typed(buffer.data) == ctype:
        text = f"{data.text}[{place.text}]"
    else:
        text = f"{state.module.need(f'tir_get_{_suffix(ctype)}')}({data.text}, {place.text})"
    return from_memory(state, text, buffer.dtype.element, depth)


def _load(state: FunctionState, op: BufferLoad) -> Value:
    place = place_of(state, op.buffer, op.indices)
    made = load(state, op.buffer, place)
    if op.predicate is None or is_const_int(op.predicate, 1):
        return made
    group = op.buffer.dtype.lanes
    if op.predicate.dtype.is_vector and state.lane is not None:
        inner = (
            state.lane if op.predicate.dtype.lanes == op.dtype.lanes else lane_arithmetic(state, Div, state.lane, group)
        )
        taken = at_lane(state, inner, op.predicate)
    else:
        taken = value_of(state, op.predicate)
    zero = "NULL" if made.kind is Kind.POINTER else "0.0f" if made.kind in (Kind.F32, Kind.F64) else "0"
    text = f"{taken.inside(CHOICE + 1)} ? {made.inside(CHOICE + 1)} : {zero}"
    return Value(text, made.kind, CHOICE, min(made.low, 0), max(made.high, 0), made.depth + 1)


node_rule(BufferLoad, _load)


def store_lane(state: FunctionState, buffer: Buffer, place: Value, value: Value) -> None:
    """Store a lane."""
    data = _pointer(state, buffer.data)
    ctype, text = memory_type(buffer.dtype), _to_memory(state, value, buffer.dtype)
    if state.memory.typed(buffer.data) == ctype:
        state.line(f"{data.text}[{place.text}] = {text};")
    else:
        put = state.module.need(f"tir_put_{_suffix(ctype)}")
        state.line(f"{put}({data.text}, {place.text}, {text});")


def address(state: FunctionState, buffer: Buffer, indices: tuple[Expr, ...]) -> Value:
    """Where an element stands: the first lane of it."""
    outer = state.lane
    state.lane = int_literal(0, Kind.I32)
    place = place_of(state, buffer, indices)
    state.lane = outer
    return moved(state, _pointer(state, buffer.data), memory_type(buffer.dtype), place)


def moved(state: FunctionState, data: Value, ctype: str, place: Value) -> Value:
    """A pointer so many elements further."""
    if place.constant == 0:
        return Value(f"(void *){data.inside(UNARY)}", Kind.POINTER, UNARY, depth=1)
    star = "void **" if ctype == "void *" else f"{ctype} *"
    return Value(
        f"(void *)(({star}){data.inside(UNARY)} + {place.inside(UNARY)})", Kind.POINTER, UNARY, depth=place.depth + 1
    )


# -- allocations -----------------------------------------------------------------------------------------------------


def _extents(buffer: Buffer) -> list[tuple[Expr, Expr | None]]:
    """What the size of an allocation is the product of; with strides, the extents and strides whose span it is."""
    if not buffer.strides:
        return [(extent, None) for extent in buffer.shape]
    return list(zip(buffer.shape, buffer.strides, strict=True))


def _constant_elements(buffer: Buffer) -> int | None:
    parts = (*buffer.shape, *buffer.strides, buffer.elem_offset)
    numbers = [part.value for part in parts if isinstance(part, IntImm)]
    if len(numbers) < len(parts):
        return None
    rank = len(buffer.shape)
    shape, strides, offset = numbers[:rank], numbers[rank:-1], numbers[-1]
    count = math.prod(max(extent, 0) for extent in shape)
    if strides:
        count = max(1 + sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True)), 0)
    return count + offset


def allocate(state: FunctionState, op: AllocBuffer) -> None:
    """An AllocBuffer: a local array where it is small, else heap memory, freed on every way out of its scope."""
    buffer = op.buffer
    if buffer.dtype.is_custom:
        raise state.error(f"an allocation of the custom type {buffer.dtype!s}", op, "run LowerCustomDatatypes")
    begin(state, op.condition, *buffer.shape, *buffer.strides, buffer.elem_offset)
    typed, name = state.memory.typed(buffer.data), state.fresh(buffer.name)
    unit = memory_bits(buffer.dtype) // 8 * buffer.dtype.lanes
    align = 1 << (max(buffer.align, ALLOC_ALIGNMENT) - 1).bit_length()
    count = _constant_elements(buffer)
    star = typed or "unsigned char"
    star = f"{star}*" if star.endswith("*") else f"{star} *"
    state.define(buffer.data, Value(name, Kind.POINTER))
    if count is not None and count * unit <= min(STACK_LIMIT, state.stack_left):
        state.stack_left -= count * unit
        lanes = max(count, 1) * (buffer.dtype.lanes if typed else unit)
        state.line(
            f"_Alignas({align}) {star.removesuffix('*').rstrip()} {name}[{lanes}];"
            if not star.endswith("**")
            else f"_Alignas({align}) void *{name}[{lanes}];"
        )
        return
    size = _size(state, op, count, unit)
    rounding = f"({size.inside(UNARY)} + {align - 1}) / {align} * {align}"
    state.line(f"{star}{name} = aligned_alloc({align}, (size_t)({size.text} > 0 ? {rounding} : {align}));")
    text = f"cannot allocate {{0}} bytes for buffer `{escape_template(buffer.name)}` of `{escape_template(state.name)}`"
    state.fail_if(f"{name} == NULL", AllocationError, text, [(size, INDEX)])
    state.cleanups.append(name)


def _size(state: FunctionState, op: AllocBuffer, count: int | None, unit: int) -> Value:
    """The bytes of an allocation (0 where its condition is false), checked where they are not constant."""
    buffer = op.buffer
    always = is_const_int(op.condition, 1)
    needed = "" if always else value_of(state, op.condition).inside(UNARY)
    if count is not None:
        size = count * unit
        if size >= 1 << 62:
            shape = ", ".join(map(str, buffer.shape))
            raise state.error(f"buffer `{buffer.name}` of shape ({shape}) takes {size} bytes", op)
        text = str(size) if always else f"{needed} ? {size} : 0"
        return state.spill(Value(text, Kind.I64, CHOICE, 0, size, 1), INDEX, "size")
    total, bad = state.fresh("size"), state.fresh("bad")
    state.line(f"int64_t {total} = {1 if buffer.strides else unit};")
    state.line(f"bool {bad} = false;")
    shown: list[Value] = []
    if buffer.strides:
        term = state.fresh("reach")
        state.line(f"int64_t {term};")
        for extent, stride in _extents(buffer):
            a = _exact(state, extent, bad)
            shown.append(a)
            b = _exact(state, stride, bad) if stride is not None else a
            less = state.fresh("less")
            state.line(f"int64_t {less};")
            state.line(f"{bad} |= {state.module.need('tir_add_leaves')}({a.text}, -1, &{less});")
            state.line(f"{bad} |= {state.module.need('tir_mul_leaves')}({less}, {b.text}, &{term});")
            state.line(f"{bad} |= tir_add_leaves({total}, {term}, &{total});")
        state.line(f"{bad} |= {state.module.need('tir_mul_leaves')}({total}, {unit}, &{total});")
    else:
        for extent, _ in _extents(buffer):
            value = _exact(state, extent, bad)
            shown.append(value)
            if value.low < 0:
                state.line(f"{bad} |= {value.text} < 0;")
            state.line(f"{bad} |= {state.module.need('tir_mul_leaves')}({total}, {value.text}, &{total});")
    if not is_const_int(buffer.elem_offset, 0):
        offset, moved_by = _exact(state, buffer.elem_offset, bad), state.fresh("offset")
        shown.append(offset)
        state.line(f"int64_t {moved_by};")
        state.line(
            f"{bad} |= {offset.text} < 0 || {state.module.need('tir_mul_leaves')}({offset.text}, {unit}, &{moved_by});"
        )
        state.line(f"{bad} |= {state.module.need('tir_add_leaves')}({total}, {moved_by}, &{total});")
    template = ", ".join(f"{{{i}}}" for i in range(min(len(shown), 16)))
    where = f"buffer `{escape_template(buffer.name)}` of `{escape_template(state.name)}`"
    state.fail_if(
        bad if always else f"{bad} && {needed}",
        AllocationError,
        f"cannot allocate {where}: its extents are {template}",
        [(value, INDEX) for value in shown],
    )
    if not always:
        state.line(f"{total} = {needed} ? {total} : 0;")
    return Value(total, Kind.I64, low=0, high=(1 << 63) - 1)


def _exact(state: FunctionState, extent: Expr, bad: str) -> Value:
    """An extent in 64 bits; ``bad`` becomes true where a sum or product on the way does not fit in them."""
    if isinstance(extent, (Add, Sub, Mul)) and extent.dtype.is_int:
        a, b = _exact(state, extent.a, bad), _exact(state, extent.b, bad)
        name = state.fresh("extent")
        state.line(f"int64_t {name};")
        if isinstance(extent, Sub):
            minus = state.fresh("minus")
            state.line(f"int64_t {minus};")
            state.line(f"{bad} |= {state.module.need('tir_mul_leaves')}({b.text}, -1, &{minus});")
            b = Value(minus, Kind.I64)
        helper = "tir_mul_leaves" if isinstance(extent, Mul) else "tir_add_leaves"
        state.line(f"{bad} |= {state.module.need(helper)}({a.text}, {b.text}, &{name});")
        return Value(name, Kind.I64, low=-(1 << 63), high=(1 << 63) - 1)
    if isinstance(extent, (Min, Max)) and extent.dtype.is_int:
        a, b = _exact(state, extent.a, bad), _exact(state, extent.b, bad)
        return state.spill(extremum(state, type(extent), INDEX, a, b))
    if isinstance(extent, Cast) and extent.dtype.is_int and extent.value.dtype.is_int:
        if extent.dtype.bits >= extent.value.dtype.bits:
            return _exact(state, extent.value, bad)
    return state.spill(index_of(state, extent))


def constant(state: FunctionState, op: AllocConst) -> None:
    """An AllocConst: bytes of the text."""
    buffer = op.buffer
    data = op.data.astype(buffer.dtype.element.numpy).tobytes() or b"\0"
    name = state.module.symbol(f"tir_data_{state.name}_{buffer.name}")
    rows = [", ".join(str(b) for b in data[i : i + 24]) for i in range(0, len(data), 24)]
    body = ",\n    ".join(rows)
    state.module.constants.append(
        f"static const _Alignas(64) unsigned char {name}[{len(data)}] = {{\n    {body}\n}};\n"
    )
    state.define(buffer.data, Value(f"(void *){name}", Kind.POINTER, UNARY))
