"""Constants, data types and plain attribute values as text."""

from __future__ import annotations

import math

from tirlower.ir.dtype import DataType, PointerType, round_float
from tirlower.ir.expr import FloatImm, IntImm, Var
from tirlower.script.printer.style import USUAL, Style

__all__ = [
    "annotation_text",
    "bare_text",
    "float_text",
    "imm_text",
    "new_var",
    "plain_text",
    "string_text",
    "type_text",
]


def string_text(text: str) -> str:
    """A string literal in double quotes.

    >>> print(string_text('a"b'))
    "a\\"b"
    """
    quoted = repr(str(text))
    if quoted[0] == '"':
        return quoted
    inner = quoted[1:-1].replace("\\'", "'").replace('"', '\\"')
    return f'"{inner}"'


def float_text(value: float, dtype: DataType | None = None) -> str:
    """The shortest decimal that is read back as ``value`` (in a dtype); whole numbers without a point.

    >>> float_text(0.10000000149011612, DataType("float32")), float_text(2.0), float_text(-0.0)
    ('0.1', '2', '-0.0')
    """
    if value == 0:
        return "-0.0" if math.copysign(1.0, value) < 0 else "0"
    if value == int(value) and abs(value) < 1e16:
        return str(int(value))
    if dtype is not None and dtype.is_float and dtype.bits < 64:
        for digits in range(1, 17):
            text = f"{value:.{digits}g}"
            if round_float(float(text), dtype) == value:
                return repr(float(text))
    return repr(value)


def bare_text(op: FloatImm) -> str:
    """A finite float as a number of Python.

    >>> bare_text(FloatImm("float32", 0.1)), bare_text(FloatImm("float32", -2.0))
    ('0.1', '-2.0')
    """
    return repr(float(float_text(op.value, op.dtype)))


def imm_text(op: IntImm | FloatImm, explicit: bool = False, style: Style = USUAL) -> str:
    """A constant: an integer bare where it has the style's type (unless ``explicit``), everything else with its type."""
    dtype = op.dtype
    if isinstance(op, IntImm):
        if dtype == style.int_dtype and not explicit and not dtype.is_bool:
            return str(op.value)
        text = str(bool(op.value)) if dtype.is_bool else str(op.value)
        return f"T.{dtype}({text})"
    value = op.value
    if math.isfinite(value):
        text = float_text(value, dtype)
        if not dtype.is_custom:
            return f"T.{dtype}({text})"
    else:
        text = "nan" if value != value else "inf" if value > 0 else "-inf"
        if not dtype.is_custom:
            return f'T.{dtype}("{text}")'
        text = f'float("{text}")'
    return f'T.FloatImm("{dtype}", {text})'


def type_text(kind: DataType | PointerType) -> str:
    """A type as an annotation (not a custom one, which has no name)."""
    if isinstance(kind, PointerType):
        if kind.scope == "global":
            return f'T.handle("{kind.element}")'
        return f'T.handle("{kind.element}", "{kind.scope}")'
    return f"T.{kind}"


def new_var(var: Var) -> str:
    """The expression that makes a variable of the same type."""
    kind = var.type
    if isinstance(kind, PointerType):
        return type_text(kind)
    if not kind.is_custom:
        return f"T.{kind}(is_size_var=True)" if var.nonneg else f"T.{kind}()"
    made = "T.SizeVar" if var.nonneg else "T.Var"
    return f'{made}({string_text(var.name)}, "{kind}")'


def plain_text(value: object) -> str | None:
    """A Python value of an attribute as text, or None for what is no plain value."""
    if value is None or value is True or value is False:
        return str(value)
    if isinstance(value, str):
        return string_text(str(value))
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float):
        if math.isfinite(value):
            return repr(float(value))
        return f'T.float32("{"nan" if value != value else "inf" if value > 0 else "-inf"}")'
    return None


def annotation_text(var: Var) -> str:
    """The annotation that gives a variable its type."""
    kind = var.type
    if isinstance(kind, PointerType):
        return type_text(kind)
    return new_var(var) if var.nonneg or kind.is_custom else type_text(kind)
