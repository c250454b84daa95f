"""Operations on custom data types: the Python functions that were registered for them, on bit patterns."""

from __future__ import annotations

from tirlower.diagnostics import InterpreterError
from tirlower.interp.values import Datum, Fault, Function, coerce
from tirlower.ir.custom_datatype import custom_name, find_op
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BinaryOp, Call, Cast, CompareOp, Expr, FloatImm
from tirlower.ir.op import Op

__all__ = ["custom_call", "custom_cast", "custom_constant", "custom_operation", "is_custom_call"]

_REINTERPRET = Op.get("tir.reinterpret")


def _meaning(
    node: Expr, bits: int, op_name: str, source: str, target: str | None = None, intrinsic: str | None = None
) -> Function:
    found = find_op(op_name, None, source, target, intrinsic)
    function = None if found is None else found.meaning(bits)
    if function is None:
        what = intrinsic or (f"a cast to {target}" if target is not None else op_name)
        raise InterpreterError(
            f"{what} has no meaning on {source}: {node}",
            origin="interpret",
            span=node.span,
            help=f"register a Python function for it: custom_datatype.register_op(function, {op_name!r}, …)",
        )
    return function


def _typed(function: Function, result: DataType) -> Function:
    element = result.element

    def run(*values: Datum) -> Datum:
        made = function(*values)
        try:
            return coerce(made, element)
        except (TypeError, ValueError) as error:
            raise Fault(f"the function of a custom type returned {made!r}, which is no {element!s}") from error

    return run


def custom_operation(node: BinaryOp | CompareOp) -> Function:
    """The scalar function of a binary node or a comparison. Raises InterpreterError when none is registered."""
    dtype = node.a.dtype
    return _typed(_meaning(node, dtype.bits, type(node).__name__, custom_name(dtype)), node.dtype)


def custom_cast(node: Cast) -> Function:
    """The scalar function of a cast from or to a custom type."""
    source, target = node.value.dtype, node.dtype
    if source.element is target.element:
        return lambda value: value
    bits = target.bits if target.is_custom else source.bits
    return _typed(_meaning(node, bits, "Cast", custom_name(source), custom_name(target)), target)


def custom_constant(node: FloatImm) -> int:
    """The bits of a constant."""
    name, bits = custom_name(node.dtype), node.dtype.bits
    found = find_op("FloatImm", None, name)
    function = None if found is None else found.meaning(bits)
    if function is None:
        function = _meaning(node, bits, "Cast", "float", name)
    return int(_typed(function, node.dtype)(node.value))


def is_custom_call(node: Call) -> bool:
    """Whether a call computes with values of a custom type (and does not just move their bits)."""
    op = node.op
    if not isinstance(op, Op) or not op.elementwise or op is _REINTERPRET:
        return False
    return node.dtype.is_custom or any(arg.dtype.is_custom for arg in node.args)


def custom_call(node: Call) -> Function:
    """The scalar function of a call of an operation on a custom type."""
    assert isinstance(node.op, Op)
    kind = next((arg.dtype for arg in node.args if arg.dtype.is_custom), node.dtype)
    function = _meaning(node, kind.bits, "Call", custom_name(kind), None, node.op.name)
    return _typed(function, node.dtype)
