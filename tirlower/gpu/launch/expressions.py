"""Expressions of host code as Python source, exact in the width of each type.

Integers, comparisons and choices become Python's own operators; sums and products are wrapped once, where their value
is used. Everything else (math functions, conversions of floats) is left to the interpreter, operation by operation.
"""

from __future__ import annotations

import keyword
import math
import re
import struct
from collections.abc import Callable
from typing import Any, Final

from tirlower.diagnostics import BoundsError, LoweringError
from tirlower.interp.interpreter import Interpreter
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Select,
    StringImm,
    Sub,
    Var,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import Op
from tirlower.ir.stmt import Evaluate

__all__ = ["ExpressionWriter", "function_of"]

_RING: Final[dict[type, str]] = {Add: "+", Sub: "-", Mul: "*"}
_COMPARE: Final[dict[type, str]] = {EQ: "==", NE: "!=", LT: "<", LE: "<=", GT: ">", GE: ">="}
_BITS: Final = {"tir.bitwise_and": "&", "tir.bitwise_or": "|", "tir.bitwise_xor": "^"}
_PASS: Final = frozenset(("tir.likely", "tir.ignore_loop_partition", "tir.tvm_thread_invariant"))
_RET: Final = Op.get("tir.ret")
_ADDRESS: Final = Op.get("tir.address_of")
_ACCESS: Final = Op.get("tir.tvm_access_ptr")
_UNSAFE: Final = re.compile(r"\W")


def _truncdiv(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _truncmod(a: int, b: int) -> int:
    return a - b * _truncdiv(a, b)


def _float32(value: float) -> float:
    if not math.isfinite(value):
        return value
    try:
        return float(struct.unpack("f", struct.pack("f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _element(index: int, size: int, name: str) -> int:
    if not 0 <= index < size:
        raise BoundsError(f"host code accesses element {index} of {name!r}, which has {size}", origin="call")
    return index


def _fitting(value: int, low: int, high: int, text: str, kind: str) -> int:
    if not low <= value <= high:
        raise OverflowError(f"{text} = {value} does not fit {kind}")
    return value


HELPERS: Final[dict[str, Any]] = {
    "_fitting": _fitting,
    "_truncdiv": _truncdiv,
    "_truncmod": _truncmod,
    "_float32": _float32,
    "_element": _element,
}
"""The names that generated code may use."""


class ExpressionWriter:
    """Writes expressions as Python source in terms of named variables.

    ``names`` are the variables in scope; ``constants`` collects objects that the source refers to. Memory that host code
    itself owns is in ``lists``: Python lists by data variable; all other memory is the device's, which it cannot read.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.names: dict[Var, str] = {}
        self.constants: dict[str, Any] = dict(HELPERS)
        self.lists: set[Var] = set()
        self._taken: set[str] = set()
        self._exact = False

    # -- names -------------------------------------------------------------------------------------------------------

    def name(self, hint: str) -> str:
        """A name for a local variable that nothing else has."""
        base = _UNSAFE.sub("_", hint) or "v"
        if base[0] == "_" or base[0].isdigit() or keyword.iskeyword(base):
            base = f"v{base}"
        found, n = base, 0
        while found in self._taken:
            n += 1
            found = f"{base}_{n}"
        self._taken.add(found)
        return found

    def define(self, var: Var) -> str:
        """The name of a variable, from here on."""
        found = self.names[var] = self.name(var.name)
        return found

    def constant(self, hint: str, value: Any) -> str:
        """A name for an object."""
        found = f"_{hint}{len(self.constants)}"
        self.constants[found] = value
        return found

    def error(self, message: str, node: Any, help: str) -> LoweringError:
        """An error about host code."""
        return LoweringError(f"{self.what}: {message}", origin="launch", span=getattr(node, "span", None), help=help)

    # -- values ------------------------------------------------------------------------------------------------------

    def value(self, expr: Expr) -> str:
        """The source of a scalar's value, in the range of its type.

        Raises :class:`LoweringError` for what host code cannot evaluate: device memory, vectors, unknown variables.
        """
        if expr.__class__ in _RING and expr.dtype.is_integral and expr.dtype.is_scalar:
            exact, kind = self._ring(expr), expr.dtype
            if self._exact and kind.is_int:
                return f"_fitting({exact}, {kind.min_value}, {kind.max_value}, {str(expr)!r}, '{kind}')"
            return _wrapped(exact, kind)
        return self._plain(expr)

    def size(self, expr: Expr) -> str:
        """The source of a size's value, whose sums and products do not wrap: it raises OverflowError where one leaves its
        type."""
        outer, self._exact = self._exact, True
        try:
            return self.value(expr)
        finally:
            self._exact = outer

    def _ring(self, expr: Expr) -> str:
        """A sum or product, not wrapped yet: wrapping the end of a chain gives what wrapping each step does."""
        symbol = _RING.get(expr.__class__)
        if symbol is None:
            return self._plain(expr)
        a, b = expr.a, expr.b  # type: ignore[attr-defined]
        return f"({self._ring(a)} {symbol} {self._ring(b)})"

    def _plain(self, expr: Expr) -> str:
        cls = expr.__class__
        if not expr.dtype.is_scalar:
            raise self.error(f"host code has the vector {expr}", expr, "compute vectors in a kernel")
        if isinstance(expr, IntImm):
            return str(bool(expr.value)) if expr.dtype.is_bool else _number(expr.value)
        if isinstance(expr, Var):
            return self._variable(expr)
        if isinstance(expr, FloatImm):
            return repr(expr.value) if math.isfinite(expr.value) else self.constant("f", expr.value)
        if isinstance(expr, StringImm):
            return repr(expr.value)
        if cls in _COMPARE:
            return f"({self.value(expr.a)} {_COMPARE[cls]} {self.value(expr.b)})"  # type: ignore[attr-defined]
        if isinstance(expr, (And, Or)):
            word = "and" if isinstance(expr, And) else "or"
            return f"({self.value(expr.a)} {word} {self.value(expr.b)})"
        if isinstance(expr, Not):
            return f"(not {self.value(expr.a)})"
        if isinstance(expr, Select):
            return self._choice(expr.condition, expr.true_value, expr.false_value)
        if isinstance(expr, BufferLoad):
            return f"{self.element(expr)}"
        if isinstance(expr, Let):
            value = self.value(expr.value)
            name = self.define(expr.var)
            return f"(lambda {name}: {self.value(expr.body)})({value})"
        if isinstance(expr, Cast):
            return self._cast(expr)
        if isinstance(expr, Call):
            return self._call(expr)
        return self._arithmetic(expr)

    def _variable(self, var: Var) -> str:
        found = self.names.get(var)
        if found is None:
            raise self.error(f"{var.name!r} has no value here", var, f"make {var.name!r} a parameter, or bind it first")
        return found

    def _choice(self, condition: Expr, yes: Expr, no: Expr) -> str:
        return f"({self.value(yes)} if {self.value(condition)} else {self.value(no)})"

    def _arithmetic(self, expr: Any) -> str:
        cls, kind = expr.__class__, expr.dtype
        a, b = self.value(expr.a), self.value(expr.b)
        if kind.is_integral:
            if cls in (FloorDiv, FloorMod):
                return _wrapped(f"({a} {'//' if cls is FloorDiv else '%'} {b})", kind, only=cls is FloorDiv)
            if cls in (Div, Mod):
                return _wrapped(f"_trunc{'div' if cls is Div else 'mod'}({a}, {b})", kind, only=cls is Div)
            if cls in (Min, Max):
                return f"{'min' if cls is Min else 'max'}({a}, {b})"
        elif kind in ("float32", "float64") and cls in _RING:
            # Computed in float64 and rounded once: for + - * that is float32's own result.
            text = f"({a} {_RING[cls]} {b})"
            return text if kind == "float64" else f"_float32({text})"
        return self._interpreted(expr, [expr.a, expr.b], lambda operands: cls(*operands))

    def _cast(self, expr: Cast) -> str:
        source, kind = expr.value.dtype, expr.dtype
        value = self.value(expr.value)
        if kind.is_bool and source.is_integral:
            return f"({value} != 0)"
        if source.is_integral and kind.is_integral:
            text = f"int({value})" if source.is_bool else value
            inside = source.min_value >= kind.min_value and source.max_value <= kind.max_value
            return text if inside else _wrapped(text, kind)
        if source.is_float and kind == "float64":
            return value
        return self._interpreted(expr, [expr.value], lambda operands: Cast(kind, operands[0]))

    def _call(self, expr: Call) -> str:
        op = expr.op
        name = op.name if isinstance(op, Op) else ""
        args = expr.args
        if name in _PASS:
            return self.value(args[0])
        if name == "tir.if_then_else":
            return self._choice(*args)
        if name == "tir.isnullptr":
            return f"({self.pointer(args[0])} == 0)"
        if name in _BITS and expr.dtype.is_integral and not expr.dtype.is_bool:
            return f"({self.value(args[0])} {_BITS[name]} {self.value(args[1])})"
        if not isinstance(op, Op) or op.purity or any(a.dtype.is_handle for a in args):
            raise self.error(
                f"host code calls {expr}", expr, "call functions of the device in a kernel; host code launches kernels"
            )
        return self._interpreted(expr, list(args), lambda operands: expr.with_(args=tuple(operands)))

    def _interpreted(self, expr: Expr, operands: list[Expr], rebuild: Callable[[list[Expr]], Expr]) -> str:
        """An operation that the interpreter evaluates, on operands that Python has evaluated."""
        params = [Var(f"x{i}", operand.dtype) for i, operand in enumerate(operands)]
        body = Evaluate(Call(_RET, (rebuild(list(params)),), expr.dtype))
        run = Interpreter(PrimFunc(tuple(params), {}, expr.dtype, {"global_symbol": "value"}, body))
        name = self.constant("op", lambda *values: run.call("value", *values))
        return f"{name}({', '.join([self.value(operand) for operand in operands])})"

    # -- memory ------------------------------------------------------------------------------------------------------

    def element(self, access: Any) -> str:
        """An element of the host's own memory, to read or to assign: of a load or a store."""
        buffer = access.buffer
        if buffer.data not in self.lists:
            raise self.error(
                f"host code accesses {buffer.name!r}, which is in device memory",
                access,
                "access it in a kernel: bind the loops around it to threads",
            )
        if access.predicate is not None or not access.indices[-1].dtype.is_scalar:
            raise self.error(f"host code accesses a vector of {buffer.name!r}", access, "use single elements")
        cells = self._variable(buffer.data)
        return f"{cells}[_element({self.value(buffer.offset_of(access.indices))}, len({cells}), {buffer.name!r})]"

    def pointer(self, expr: Expr) -> str:
        """The source of a device address: a data variable, or a place in its memory."""
        if isinstance(expr, Var):
            if expr in self.lists:
                raise self.error(f"a kernel is given {expr.name!r}, which is host memory", expr, "use the scope global")
            return self._variable(expr)
        if isinstance(expr, IntImm):
            return str(expr.value)
        if isinstance(expr, Call) and expr.op is _ADDRESS and isinstance(expr.args[0], BufferLoad):
            load = expr.args[0]
            return self._offset(load.buffer.data, load.buffer.offset_of(load.indices), load.buffer.dtype)
        if isinstance(expr, Call) and expr.op is _ACCESS and isinstance(expr.args[1], Var):
            return self._offset(expr.args[1], expr.args[2], expr.args[0].dtype)
        raise self.error(
            f"a kernel is given the address {expr}", expr, "pass a buffer's data, or address_of an element"
        )

    def _offset(self, data: Var, offset: Expr, dtype: DataType) -> str:
        size = dtype.element.numpy.itemsize * dtype.lanes
        base = self.pointer(data)
        return base if isinstance(offset, IntImm) and not offset.value else f"({base} + {self.value(offset)} * {size})"


def _number(value: int) -> str:
    return str(value) if value >= 0 else f"({value})"


def _wrapped(text: str, kind: DataType, *, only: bool = True) -> str:
    """A value brought into the range of its type; ``only`` False where it is there already."""
    if not only or kind.is_bool:
        return text
    mask = (1 << kind.bits) - 1
    if kind.is_uint:
        return f"({text} & {mask})"
    half = 1 << (kind.bits - 1)
    return f"(({text} + {half} & {mask}) - {half})"


def function_of(expr: Expr, variables: tuple[Var, ...], what: str, size: bool = True) -> Callable[..., int]:
    """An expression as a Python function of its variables. That of a size raises OverflowError where it leaves its type;
    any other wraps.
    """
    writer = ExpressionWriter(what)
    params = ", ".join([writer.define(var) for var in variables])
    value = writer.size(expr) if size else writer.value(expr)
    made: Callable[..., int] = eval(f"lambda {params}: {value}", writer.constants)
    return made
