"""What a code generator emits around a parallel region: the launch, and the record of an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tirlower.emit.llvm_text import I32, I64, PTR, Builder, Function, FunctionRef, Value
from tirlower.llvm.parallel.pool import NUM_THREADS, PARALLEL_LAUNCH

__all__ = ["MAX_ERROR_VALUES", "emit_launch", "emit_num_threads", "emit_record_error"]

#: how many numbers an error record holds
MAX_ERROR_VALUES: Final = 16
_NVALS: Final = 4
_VALS: Final = 8


def emit_launch(b: Builder, fn: Function | FunctionRef, ctx: Value, tasks: Value, flags: Value | int = 0) -> Value:
    """Call ``fn(ctx, begin, end, thread)`` so that the ranges cover tasks ``0 .. tasks - 1``; gives the i32 result.

    ``fn`` is ``i32 (ptr, i64, i64, i32)``, ``tasks`` an i64, and ``flags`` come from
    :func:`~tirlower.llvm.parallel.launch_flags`, or are an i32 made of such at run time.

    Raises:
        TypeError: an operand has another type.
    """
    ref = fn.ref if isinstance(fn, Function) else fn
    if ref.ret != I32 or list(ref.params) != [PTR, I64, I64, I32]:
        raise TypeError(f"a task function is i32 (ptr, i64, i64, i32), and {ref.text} is {ref.signature}")
    launch = b.module.get_or_declare(PARALLEL_LAUNCH, I32, [PTR, PTR, I64, I32], attrs=("nounwind",))
    pointer = Value(PTR, ref.text)
    return b.call(launch, [pointer, ctx, tasks, b.i32(flags) if isinstance(flags, int) else flags], "launched")


def emit_num_threads(b: Builder) -> Value:
    """The i32 number of threads of a region without a number of its own; at least 1."""
    return b.call(b.module.get_or_declare(NUM_THREADS, I32, [], attrs=("nounwind",)), [], "num_threads")


def emit_record_error(
    b: Builder, record: Value, code: int | Value, values: Sequence[Value] = (), *, claim: Value | None = None
) -> None:
    """Fill the error record ``{i32 code, i32 nvals, [16 x i64] vals}``, unless another thread of the call did.

    ``claim`` is the kernel call's claim word: an i32 that is 0 when the call starts and that all its threads reach.
    Whoever turns it to 1 fills the record; all others leave it alone. (Neither ``code`` nor ``nvals`` can serve for
    that: 0 is a valid value of both, and the record's memory need not be cleared before each call.) Filling needs no
    ordering of its own: who reads the record does so behind the join of the region. Without ``claim`` the record is
    simply filled, as code outside of parallel loops may.

    The builder goes on behind; returning a nonzero result is up to the caller. ``values`` are i64.

    Raises:
        TypeError: a value is not an i64.
        ValueError: there are more than 16 values.
    """
    if len(values) > MAX_ERROR_VALUES:
        raise ValueError(f"an error record holds {MAX_ERROR_VALUES} values, got {len(values)}")
    for value in values:
        if value.type != I64:
            raise TypeError(f"an error record holds i64 values, got `{value}`")
    if claim is None:
        _fill(b, record, code, values)
        return
    swapped = b.cmpxchg(claim, b.i32(0), b.i32(1), "monotonic", "monotonic")
    with b.if_then(b.extract_value(swapped, 1), name="claimed"):
        _fill(b, record, code, values)


def _fill(b: Builder, record: Value, code: int | Value, values: Sequence[Value]) -> None:
    b.store(b.i32(code) if isinstance(code, int) else code, record, 4)
    b.store(b.i32(len(values)), b.offset(record, _NVALS), 4)
    for i, value in enumerate(values):
        b.store(value, b.offset(record, _VALS + 8 * i), 8)
