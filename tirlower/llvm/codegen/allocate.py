"""Memory of the function: on the stack, on the heap, constant.

Small buffers of constant size are slots of the function's stack frame (LLVM turns those with constant indices into
registers); others are heap memory aligned to 64 bytes, freed on every way out of their scope; what is large, or may be,
is kept for later calls (:mod:`tirlower.llvm.scratch`). Heap memory of a buffer allocated in a loop is allocated once,
ahead of the outermost loop in which its size does not change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from tirlower.diagnostics import AllocationError
from tirlower.emit.emitter import Emitter, Root
from tirlower.emit.llvm_text import I1, I8, I64, PTR, VOID, Value, array, const_bytes, null, struct, zero
from tirlower.emit.types import memory_bytes, memory_type
from tirlower.ir import build
from tirlower.ir.buffer import ALLOC_ALIGNMENT, Buffer
from tirlower.ir.expr import Add, Cast, Expr, IntImm, Max, Min, Mul, Sub, Var, const, is_const_int
from tirlower.ir.functor import post_order_visit
from tirlower.ir.stmt import AllocBuffer, AllocConst, Bind, For, ForKind, Stmt
from tirlower.llvm import scratch

__all__ = [
    "STACK_LIMIT",
    "aligned_alloc",
    "emit_alloc",
    "emit_alloc_const",
    "free",
    "hoist_allocations",
    "pad_bytes",
    "size_in_bytes",
]

#: the largest buffer that goes on the stack, in bytes
STACK_LIMIT = 16 << 10


def pad_bytes(size: int) -> int:
    """A size as it is allocated: whole cache lines, at least one."""
    return max(-(-size // ALLOC_ALIGNMENT), 1) * ALLOC_ALIGNMENT


def element_bytes(buffer: Buffer) -> int:
    """The bytes of an element of a buffer."""
    return memory_bytes(buffer.dtype) * buffer.dtype.lanes


def _extents(buffer: Buffer) -> tuple[Expr, ...]:
    """What the size of an allocation is the product of."""
    if not buffer.strides:
        return buffer.shape
    # The last element stands at the sum of the strides; in what order they grow does not matter.
    dtype = buffer.strides[0].dtype
    span: Expr = const(1, dtype)
    for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
        span = build.add(
            span, build.mul(build.sub(build.cast(dtype, extent), const(1, dtype)), build.cast(dtype, stride))
        )
    return (span,)


def constant_elements(buffer: Buffer) -> int | None:
    """The number of elements to allocate, where it is constant."""
    extents = _extents(buffer)
    if not all(isinstance(extent, IntImm) for extent in extents) or not isinstance(buffer.elem_offset, IntImm):
        return None
    return math.prod(max(e.value, 0) for e in extents if isinstance(e, IntImm)) + buffer.elem_offset.value


def on_stack(em: Emitter, buffer: Buffer) -> bool:
    """Whether a buffer is small enough for the stack, of which enough is left."""
    count = constant_elements(buffer)
    if count is None:
        return False
    size = pad_bytes(count * element_bytes(buffer))
    return size <= STACK_LIMIT and size <= em.stack_left


def _root(em: Emitter, buffer: Buffer) -> Root:
    root = em.root(buffer.data)
    root.align = max(root.align, _alignment(buffer))
    return root


def _alignment(buffer: Buffer) -> int:
    """The alignment of an allocation: what the buffer asks for, and at least a cache line."""
    align = max(buffer.align, ALLOC_ALIGNMENT)
    return 1 << (align - 1).bit_length()


def emit_alloc(em: Emitter, op: AllocBuffer) -> None:
    """Emit an AllocBuffer, in force until the cleanups of its scope."""
    buffer = op.buffer
    root = _root(em, buffer)
    root.offset = False
    if buffer.data in em.hoisted:
        return
    if on_stack(em, buffer):
        count = constant_elements(buffer) or 0
        size = pad_bytes(count * element_bytes(buffer))
        em.stack_left -= size
        em.lowest = min(em.lowest, em.stack_left)
        unit = memory_type(buffer.dtype)
        many = max(count * buffer.dtype.lanes, 1)
        slot = em.b.alloca(array(many, unit), align=_alignment(buffer), name=_hint(buffer.name))
        em.define(buffer.data, slot)
        em.arrays[buffer.data] = count * element_bytes(buffer)
        return
    allocate(em, buffer, op.condition)


def _hint(name: str) -> str:
    return "".join(ch if ch.isalnum() or ch == "_" else "_" for ch in name) or "buffer"


def allocate(em: Emitter, buffer: Buffer, condition: Expr) -> None:
    """Emit heap memory of a buffer (of no size where the condition is false), and register that it be freed."""
    needed = None if is_const_int(condition, 1) else em.value(condition)
    size = size_in_bytes(em, buffer, needed)
    kept = _is_kept(em, size)
    pointer = aligned_alloc(em, size, _alignment(buffer), _hint(buffer.name), kept=kept)
    code = em.state.errors.code(
        AllocationError, f"cannot allocate {{0}} bytes for buffer `{_brace(buffer.name)}` of `{_brace(em.kernel.name)}`"
    )
    em.fail_if(em.b.icmp("eq", pointer, null()), code, [size])
    em.define(buffer.data, pointer)
    em.cleanups.append(lambda here: free(here, here.lookup(buffer.data).value, kept=kept))


def _brace(name: str) -> str:
    return name.replace("{", "{{").replace("}", "}}")


def _is_kept(em: Emitter, size: Value) -> bool:
    """Whether memory of a size, which may be known at run time only, is kept for later calls."""
    return not em.machine.is_windows and not (size.is_constant and int(size.text) < scratch.LARGE)


def aligned_alloc(em: Emitter, size: Value, align: int, name: str, *, kept: bool = False) -> Value:
    """Heap memory of that many bytes; null where there is none. What is ``kept`` may be from an earlier call."""
    b = em.b
    marks = ("nounwind", "willreturn", 'allockind("alloc,uninitialized,aligned")', "memory(inaccessiblemem: readwrite)")
    if em.machine.is_windows:
        f = em.module.symbol("_aligned_malloc") or em.module.declare(
            "_aligned_malloc", PTR, [I64, I64], ret_attrs=["noalias"], attrs=["nounwind", "willreturn"]
        )
        return b.call_pointer(f, PTR, [size, b.i64(align)], name)
    word = scratch.TAKE if kept else "aligned_alloc"
    f = em.module.symbol(word) or em.module.declare(
        word,
        PTR,
        [I64, I64],
        ret_attrs=["noalias"],
        param_attrs={0: ["allocalign"]},
        attrs=[*marks, "allocsize(1)", ("alloc-family", _family(kept))],
    )
    padded = size if size.is_constant else _padded(em, size, align)
    if size.is_constant:
        padded = b.i64(-(-max(int(size.text), 1) // align) * align)
    return b.call_pointer(f, PTR, [b.i64(align), padded], name)


def _family(kept: bool) -> str:
    return "tirlower_scratch" if kept else "malloc"


def _padded(em: Emitter, size: Value, align: int) -> Value:
    """Sizes are multiples of the alignment, and not zero (which may give a null pointer)."""
    b = em.b
    up = b.and_(b.add(size, b.i64(align - 1)), b.i64(-align))
    return b.intrinsic("llvm.umax", I64, [up, b.i64(align)], [I64])


def free(em: Emitter, pointer: Value, *, kept: bool = False) -> None:
    """Give heap memory back."""
    name = scratch.GIVE if kept else "_aligned_free" if em.machine.is_windows else "free"
    f = em.module.symbol(name) or em.module.declare(
        name,
        VOID,
        [PTR],
        param_attrs={0: ["allocptr", "noundef", "captures(none)"]},
        attrs=["nounwind", "willreturn", 'allockind("free")', ("alloc-family", _family(kept))],
    )
    em.b.call_pointer(f, VOID, [pointer])


def size_in_bytes(em: Emitter, buffer: Buffer, needed: Value | None) -> Value:
    """The size (0 where no memory is needed), computed with a check for extents below zero and for overflow where it is not constant."""
    b = em.b
    count = constant_elements(buffer)
    if count is not None:
        size = count * element_bytes(buffer)
        if size >= 1 << 62:
            raise em.error(
                f"buffer `{buffer.name}` of shape ({', '.join(map(str, buffer.shape))}) takes {size} bytes", buffer
            )
        return b.i64(size) if needed is None else b.select(needed, b.i64(size), b.i64(0))
    total: Value = b.i64(element_bytes(buffer))
    bad: Value | None = None
    overflows: list[Value] = []
    values = [_exact(em, extent, overflows) for extent in _extents(buffer)]
    for overflow in overflows:
        bad = overflow if bad is None else b.or_(bad, overflow)
    for extent, value in zip(_extents(buffer), values, strict=True):
        if em.facts.index_range(extent)[0] < 0:
            negative = b.icmp("slt", value, b.i64(0))
            bad = negative if bad is None else b.or_(bad, negative)
        pair = b.intrinsic("llvm.smul.with.overflow", struct(I64, I1), [total, value], [I64])
        total = b.extract_value(pair, 0)
        overflow = b.extract_value(pair, 1)
        bad = overflow if bad is None else b.or_(bad, overflow)
    if not is_const_int(buffer.elem_offset, 0):
        # The first element stands so far behind the beginning.
        offset = _exact(em, buffer.elem_offset, [])
        words = [b.intrinsic("llvm.smul.with.overflow", struct(I64, I1), [offset, b.i64(element_bytes(buffer))], [I64])]
        words.append(
            b.intrinsic("llvm.sadd.with.overflow", struct(I64, I1), [total, b.extract_value(words[0], 0)], [I64])
        )
        total = b.extract_value(words[1], 0)
        for flag in (*(b.extract_value(word, 1) for word in words), b.icmp("slt", offset, b.i64(0))):
            bad = flag if bad is None else b.or_(bad, flag)
        values.append(offset)
    if bad is not None:
        if needed is not None:
            bad = b.and_(needed, bad)
        shown = ", ".join(f"{{{i}}}" for i in range(len(values)))
        code = em.state.errors.code(
            AllocationError,
            f"cannot allocate buffer `{_brace(buffer.name)}` of `{_brace(em.kernel.name)}`: its extents are {shown}",
        )
        em.fail_if(bad, code, values[:16])
    return total if needed is None else b.select(needed, total, b.i64(0))


def _exact(em: Emitter, extent: Expr, overflows: list[Value]) -> Value:
    """An extent in 64 bits; ``overflows`` gets whether a sum or product on the way does not fit in them.

    The extents of a flattened buffer are the products of those it had.
    """
    b = em.b
    if isinstance(extent, Cast) and extent.dtype.is_int and extent.value.dtype.is_int:
        if extent.dtype.bits >= extent.value.dtype.bits:
            return _exact(em, extent.value, overflows)
    if isinstance(extent, (Add, Sub, Mul)) and extent.dtype.is_int and not is_const_int(extent):
        first, second = _exact(em, extent.a, overflows), _exact(em, extent.b, overflows)
        word = {Add: "sadd", Sub: "ssub", Mul: "smul"}[type(extent)]
        pair = b.intrinsic(f"llvm.{word}.with.overflow", struct(I64, I1), [first, second], [I64])
        overflows.append(b.extract_value(pair, 1))
        return b.extract_value(pair, 0)
    if isinstance(extent, (Max, Min)) and extent.dtype.is_int:
        first, second = _exact(em, extent.a, overflows), _exact(em, extent.b, overflows)
        return b.intrinsic("llvm.smax" if isinstance(extent, Max) else "llvm.smin", I64, [first, second], [I64])
    return em.index(extent)


def emit_alloc_const(em: Emitter, op: AllocConst) -> None:
    """Emit an AllocConst: a private global constant."""
    buffer = op.buffer
    data = op.data.astype(buffer.dtype.element.numpy).tobytes()
    root = _root(em, buffer)
    root.constant = True
    root.align = ALLOC_ALIGNMENT
    name = em.module.unique_name(f"{em.kernel.name}.{_hint(buffer.name)}")
    initial = const_bytes(data) if data else zero(array(1, I8))
    em.define(buffer.data, em.module.global_constant(name, initial, align=ALLOC_ALIGNMENT))


# -- ahead of loops --------------------------------------------------------------------------------------------------


def hoist_allocations(em: Emitter, loop: Stmt, *variables: Var) -> list[Var]:
    """Allocate heap buffers of a loop's body whose size does not change in it; gives their data variables.

    ``variables`` change in it besides those that are bound in ``loop``.

    Bodies of parallel loops are left out: they become functions of their own.
    """
    found: list[Var] = []
    if not em.kernel.allocates:
        return found
    bound: set[Var] = set(variables)

    def visit(stmt: Stmt) -> None:
        if isinstance(stmt, For):
            if stmt.kind is ForKind.PARALLEL and em.runs_parallel and stmt is not loop:
                return
            bound.add(stmt.loop_var)
        elif isinstance(stmt, Bind):
            bound.add(stmt.var)
        elif isinstance(stmt, AllocBuffer):
            buffer = stmt.buffer
            sizes = (*_extents(buffer), buffer.elem_offset)
            always = is_const_int(stmt.condition, 1)
            if always and buffer.data not in em.hoisted and not on_stack(em, buffer) and _invariant(sizes, bound):
                _root(em, buffer)
                allocate(em, buffer, stmt.condition)
                em.hoisted.add(buffer.data)
                found.append(buffer.data)
        for child in stmt.children():
            if isinstance(child, Stmt):
                visit(child)

    visit(loop)
    return found


def _invariant(exprs: Iterable[Expr], bound: set[Var]) -> bool:
    free = True

    def look(op: Expr) -> None:
        nonlocal free
        # A size that is loaded may change in the loop.
        free = free and op not in bound and op.__class__.__name__ not in ("BufferLoad", "Call")

    for expr in exprs:
        post_order_visit(expr, look)
    return free
