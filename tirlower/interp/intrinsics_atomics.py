"""Atomic updates of an element of memory: each gives the old value.

``order`` (``"relaxed"`` by default, ``"acquire"``, ``"release"``, ``"acq_rel"``) says what else the update orders, and
``scope`` (``"device"`` by default, ``"block"``, ``"system"``) for whom; the interpreter runs one thread at a time, so
that both matter to the race detector only.
"""

from __future__ import annotations

from collections.abc import Callable

from tirlower.diagnostics import InterpreterError
from tirlower.interp.expressions import ExpressionCompiler, intrinsic, pointer_value
from tirlower.interp.intrinsics_memory import memory_error
from tirlower.interp.memory import OutsideMemory, ReadOnlyMemory, UnwrittenMemory
from tirlower.interp.races import touch_atomic
from tirlower.interp.scope import Frame, Value
from tirlower.interp.values import Datum, operation
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Call, StringImm

__all__: list[str] = []

ORDERS = ("relaxed", "acquire", "release", "acq_rel")
SCOPES = ("device", "block", "system")

Update = Callable[[Datum, Datum], Datum]

_ARITHMETIC = {"add": "Add", "max": "Max", "min": "Min"}
_BITWISE: dict[str, Update] = {
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def _update(name: str, kind: DataType) -> Update | None:
    if kind.is_vector or kind.is_handle:
        return None
    if name == "exchange":
        return lambda old, new: new
    if name in _BITWISE:
        return _BITWISE[name] if kind.is_integral else None
    return operation(_ARITHMETIC[name], kind)


def _order_and_scope(call: Call, first: int) -> tuple[str, str]:
    found = ["relaxed", "device"]
    for at, (arg, known) in enumerate(zip(call.args[first:], (ORDERS, SCOPES), strict=False)):
        if not isinstance(arg, StringImm) or arg.value not in known:
            raise InterpreterError(
                f"{call.op.name} has no {('order', 'scope')[at]} {arg}",
                origin="interpret",
                span=call.span,
                help="use one of " + ", ".join(map(repr, known)),
            )
        found[at] = arg.value
    return found[0], found[1]


@intrinsic(*[f"tir.atomic_{name}" for name in ("add", "max", "min", "and", "or", "xor", "exchange", "cas")])
def _atomic(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    name = str(call.op.name).rpartition("_")[2]
    swaps = name == "cas"
    address, value = args[0], args[2 if swaps else 1]
    expected = args[1] if swaps else None
    dtype = call.args[2 if swaps else 1].dtype
    combine = _update("exchange" if swaps else name, dtype)
    if combine is None:
        raise InterpreterError(f"{call.op.name} has no meaning on {dtype!s}", origin="interpret", span=call.span)
    fn: Update = combine
    order, scope = _order_and_scope(call, 3 if swaps else 2)
    place, detector = compiler.place(call.span), compiler.program.detector

    def run(frame: Frame) -> Datum:
        pointer = pointer_value(address(frame), call.op.name, place)
        new = value(frame)
        wanted = None if expected is None else expected(frame)
        touch_atomic(detector, frame, pointer, dtype, place, order=order, scope=scope)
        view = pointer.view(dtype)
        try:
            old = view.get(view.start)
            if wanted is None or old == wanted:
                view.put(view.start, fn(old, new))
        except (OutsideMemory, ReadOnlyMemory, UnwrittenMemory) as error:
            raise memory_error(error, pointer, place, frame) from None
        return old

    return run
