"""Numbers whose float type is not decided yet: ``n * 0.1`` takes that of the float it meets or is stored to.

A float literal beside integers says nothing about precision: computing it in float32 and storing it to float64 would
lose half of the digits. So the arithmetic waits: it is built when it meets a float, never in less than float32.
"""

from __future__ import annotations

from collections.abc import Callable

from tirlower.diagnostics import Span
from tirlower.ir import build
from tirlower.ir.build import BinaryBuilder
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Expr, ExprLike, as_expr, const
from tirlower.script.scope import active_or_none

__all__ = ["Weak", "at_type", "combine", "default_float", "default_int"]

_FLOAT32, _FLOAT64 = DataType("float32"), DataType("float64")
_LARGEST = 3.4028235677973366e38
"""From here on a finite number rounds to infinity in float32."""


def default_float(value: float = 0.0) -> DataType:
    """The type of a float that meets none: float64 in a function whose floats all are, or for a large number."""
    builder = active_or_none()
    if builder is not None and builder.wide_floats():
        return _FLOAT64
    return _FLOAT64 if _LARGEST <= abs(value) < float("inf") else _FLOAT32


def default_int() -> DataType:
    """The type of a variable of integer literals alone: int64 in a function whose integers all are."""
    builder = active_or_none()
    return DataType("int64" if builder is not None and builder.wide_ints() else "int32")


class Weak:
    """An expression of a float type to come; ``make`` builds it.

    ``bare``: it takes any type that it meets, as a literal does (a variable whose type is being found).
    """

    __slots__ = ("bare", "kind", "make", "plain")

    def __init__(self, make: Callable[[DataType], Expr], kind: str = "float", bare: bool = False) -> None:
        self.make = make
        self.kind = kind
        self.bare = bare
        # Built once at once: what is wrong in it is reported where it stands.
        self.plain = make(self.default())

    def default(self) -> DataType:
        """Its type where it meets no float."""
        if self.kind == "float":
            return default_float()
        return default_int() if self.kind == "int" else DataType("bool")

    def at(self, dtype: DataType) -> Expr:
        """The expression in a type, or in float32 where that is narrower."""
        kind = dtype.element
        if not self.bare and not (kind.is_float and kind.bits >= 32):
            kind = _FLOAT32
        return self.plain if kind is self.plain.dtype.element else self.make(kind)

    def as_expr(self) -> Expr:
        """The expression in its default type."""
        return self.plain

    @property
    def dtype(self) -> DataType:
        """The default type."""
        return self.plain.dtype

    def __neg__(self) -> Weak:
        return Weak(lambda dtype: build.neg(self.at(dtype)), self.kind, self.bare)

    def astype(self, dtype: str) -> Expr:
        """The expression, converted."""
        kind = DataType(str(dtype))
        return build.cast(kind, self.at(kind) if kind.element.is_float else self.plain)


def _delegate(operator: BinaryBuilder, swapped: bool, decides: bool) -> Callable[[Weak, ExprLike], Expr | Weak]:
    def method(self: Weak, other: ExprLike) -> Expr | Weak:
        return combine(operator, other if swapped else self, self if swapped else other, None, decides)

    return method


# Arithmetic in Python helper functions waits as well.
for _name in ("add", "sub", "mul", "floordiv", "lshift", "rshift", "and", "or", "xor", "truediv", "mod"):
    _build = {
        "and": build.bitwise_and, "or": build.bitwise_or, "xor": build.bitwise_xor, "lshift": build.shift_left,
        "rshift": build.shift_right, "truediv": build.true_div, "mod": build.floormod,
    }.get(_name) or getattr(build, _name)  # fmt: skip
    setattr(Weak, f"__{_name}__", _delegate(_build, False, False))
    setattr(Weak, f"__r{_name}__", _delegate(_build, True, False))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Weak, f"__{_name}__", _delegate(getattr(build, _name), False, True))


def at_type(value: ExprLike, dtype: DataType) -> ExprLike:
    """An operand where the float type is decided: literals and what waits take it, typed expressions stay."""
    if isinstance(value, Weak):
        return value.at(dtype)
    return const(value, dtype) if value.__class__ is float else value


def _waits(value: object) -> bool:
    return value.__class__ is float or value.__class__ is Weak


def combine(operator: BinaryBuilder, a: ExprLike, b: ExprLike, span: Span | None, decides: bool = False) -> Expr | Weak:
    """``a operator b``: by the usual rules, unless one is a float literal or waits for its type.

    ``decides``: the result has a type of its own (a comparison), so nothing waits any longer.
    """
    if not (_waits(a) or _waits(b)):
        return operator(a, b, span)
    if not _waits(a) and not isinstance(a, (bool, int, float)):
        a = as_expr(a)
    if not _waits(b) and not isinstance(b, (bool, int, float)):
        b = as_expr(b)
    for one, other in ((a, b), (b, a)):
        if isinstance(other, Expr):
            element = other.dtype.element
            if isinstance(one, Weak) and one.bare and not (one.kind == "float" and element.is_integral):
                x, y = (one.at(element), other) if one is a else (other, one.at(element))
                return operator(x, y, span)
            if not element.is_integral:
                if one.__class__ is float:
                    return operator(a, b, span)
                return operator(at_type(a, element), at_type(b, element), span)
    if not isinstance(a, Weak) and not isinstance(b, Weak) and not (isinstance(a, Expr) or isinstance(b, Expr)):
        return operator(a, b, span)
    bare = all(not isinstance(v, Expr) and (not isinstance(v, Weak) or v.bare) for v in (a, b))
    kinds = [v.kind if isinstance(v, Weak) else "float" if isinstance(v, float) else "int" for v in (a, b)]
    kind = "float" if "float" in kinds else "int"

    def make(dtype: DataType) -> Expr:
        return operator(at_type(a, dtype), at_type(b, dtype), span)

    if decides:
        wide = Weak(make, kind, bare) if kind != "float" else None
        return wide.plain if wide is not None else make(default_float())
    return Weak(make, kind, bare)
