"""Control, hints, and operations that rearrange lanes or bits."""

from __future__ import annotations

from tirlower.diagnostics import InterpreterError, RuntimeAssertError
from tirlower.interp.expressions import VSCALE, ExpressionCompiler, intrinsic, selection
from tirlower.interp.memory import Pointer
from tirlower.interp.scope import Frame, Value
from tirlower.interp.values import UNDEF, Datum, bits_of, decoder, encoder, from_bits, lane_values
from tirlower.ir.expr import BufferLoad, Call
from tirlower.ir.op import Op

__all__: list[str] = []

_ADDRESS_OF = Op.get("tir.address_of")


@intrinsic("tir.if_then_else")
def _if_then_else(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    condition, true_value, false_value = args
    if call.args[0].dtype.is_vector:
        return selection(args, True)
    return lambda frame: true_value(frame) if condition(frame) else false_value(frame)


@intrinsic("tir.likely", "tir.ignore_loop_partition", "tir.tvm_thread_context", "tir.tvm_thread_invariant")
def _same(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    return args[0]


@intrinsic("tir.assume")
def _assume(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    (condition,) = args
    place, fact = compiler.place(call.span), call.args[0]

    def check(frame: Frame) -> bool:
        if not all(lane_values(condition(frame))):
            raise RuntimeAssertError(
                f"the assumption does not hold: {fact}",
                origin="interpret",
                span=place.span,
                notes=place.notes(frame),
                help="T.assume states a fact that every run must satisfy",
            )
        return True

    return check


@intrinsic("tir.undef")
def _undef(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    value = UNDEF if call.dtype.is_scalar else (UNDEF,) * call.dtype.lanes
    return lambda frame: value


@intrinsic(
    "tir.type_annotation", "tir.start_profile_intrinsic", "tir.end_profile_intrinsic",
    "tir.tvm_global_barrier_kinit", "tir.dma_wait", "tir.dma_start_group", "tir.dma_end_group",
)  # fmt: skip
def _nothing(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """Hints, and waiting for copies that are complete at once."""
    return lambda frame: 0


@intrinsic("tir.prefetch", own_arguments=True)
def _prefetch(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """A hint; the indices are evaluated, while the element need not be in its buffer."""
    where = call.args[0]
    if isinstance(where, Call) and where.op is _ADDRESS_OF:
        where = where.args[0]
    parts = where.indices if isinstance(where, BufferLoad) else (where,)
    values = [compiler.expression(part, exact=True) for part in parts]

    def run(frame: Frame) -> int:
        for value in values:
            value(frame)
        return 0

    return run


@intrinsic("tir.reinterpret")
def _reinterpret(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    (value,) = args
    source, target = call.args[0].dtype, call.dtype
    place = compiler.place(call.span)
    if target.is_handle and source.is_handle:
        return value
    if target.is_handle:

        def to_pointer(frame: Frame) -> None:
            number = value(frame)
            if number != 0:
                raise InterpreterError(
                    f"the integer {number} is no pointer here: only 0, the null pointer, can be one",
                    origin="interpret",
                    span=place.span,
                )

        return to_pointer
    if source.is_handle:

        def to_address(frame: Frame) -> Datum:
            pointer = value(frame)
            address = 0 if pointer is None else pointer.address if isinstance(pointer, Pointer) else id(pointer)
            return from_bits(address, target, 1)

        return to_address
    scale = VSCALE if target.scalable else 1
    if source.is_vector and source.bits == target.bits:
        encode, decode = encoder(source.element), decoder(target.element)

        def to_lanes(frame: Frame) -> Datum:
            return tuple([UNDEF if lane is UNDEF else decode(encode(lane)) for lane in lane_values(value(frame))])

        return to_lanes
    return lambda frame: from_bits(bits_of(value(frame), source), target, target.lanes * scale)


@intrinsic("tir.vscale")
def _vscale(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    return lambda frame: VSCALE


@intrinsic("tir.get_active_lane_mask")
def _active_lane_mask(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    base, limit = args
    lanes = call.dtype.lanes * (VSCALE if call.dtype.scalable else 1)
    if call.dtype.is_scalar:
        return lambda frame: base(frame) < limit(frame)
    return lambda frame: tuple([base(frame) + lane < limit(frame) for lane in range(lanes)])


@intrinsic("tir.vectorlow", "tir.vectorhigh")
def _half(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    (vector,) = args
    half = call.args[0].dtype.lanes // 2
    part = slice(0, half) if call.op.name == "tir.vectorlow" else slice(half, None)
    if half == 1:
        return lambda frame: vector(frame)[part][0]
    return lambda frame: vector(frame)[part]


@intrinsic("tir.vectorcombine")
def _combine(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    low, high = args
    return lambda frame: lane_values(low(frame)) + lane_values(high(frame))
