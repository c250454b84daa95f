"""What words of Python and NumPy mean in a script: functions called with expressions, types as dtypes, tables.

Each function keeps its own meaning: ``int`` truncates, ``round`` takes halves to even, ``math.floor`` gives an integer
and ``np.floor`` a float. Python's ``int`` is int64 and its ``float`` float64. Functions of :mod:`math` and universal
functions of NumPy take floats as they are, and integers as float64.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import TypeAlias

import numpy as np

from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, IterVar
from tirlower.ir.build import BinaryBuilder
from tirlower.ir.dtype import DataType, DataTypeError
from tirlower.ir.expr import Expr, ExprLike, as_expr
from tirlower.script.forms import Sliced, TypeFunc
from tirlower.script.operators import Operation, clamp, operation
from tirlower.script.weak import Weak

__all__ = [
    "BUFFER_REMEDIES",
    "NAME_REMEDIES",
    "REMEDIES",
    "as_dtype",
    "as_number",
    "is_word",
    "meaning_of",
    "sequence_of",
    "symbolic",
]

Items: TypeAlias = list[ExprLike] | tuple[ExprLike, ...]
_SYMBOLIC = (Expr, Sliced, IterVar, Buffer, BufferRegion, Weak)


def symbolic(value: object) -> bool:
    """Whether a value, or an element of a list of them, is one of the program."""
    if isinstance(value, (list, tuple)):
        return any(symbolic(v) for v in value)
    return isinstance(value, _SYMBOLIC)


def as_dtype(value: object) -> object:
    """The data type that a Python or NumPy type means (``float``, ``np.float32``, ``np.dtype``); else the value."""
    if isinstance(value, (np.dtype, type)):
        try:
            return TypeFunc(DataType.named(value))
        except DataTypeError:
            return value
    return value


def as_number(value: object) -> object:
    """A NumPy scalar as the constant that it is; anything else as it is."""
    return as_expr(value) if isinstance(value, np.generic) and not isinstance(value, np.str_) else value


def sequence_of(value: object) -> list[object] | None:
    """The items of a Python value over which a ``for`` runs while the script is read; None for anything else.

    Raises :class:`TirError` for a buffer, whose elements are not known then.
    """
    if isinstance(value, Buffer):
        raise TirError(
            f"a loop does not run over the buffer {value.name!r}",
            help=f"for i in range({value.shape[0]}): … {value.name}[i] …" if value.shape else None,
        )
    if isinstance(value, np.ndarray):
        return [as_number(item) if isinstance(item, np.generic) else item for item in value]
    if isinstance(value, Iterable) and (
        isinstance(value, (list, tuple, dict, set, frozenset, range, zip, enumerate, map, filter, reversed))
        or type(value).__name__ in ("list_reverseiterator", "range_iterator", "dict_keys", "dict_values", "dict_items")
    ):
        return list(value)
    return None


def _math(name: str) -> Operation:
    """An operation of floats, which takes integers as float64."""

    def make(*args: ExprLike | Buffer) -> Expr:
        op = operation(name)
        assert op is not None
        floats = [_as_float(arg, args) for arg in args]
        return op(*floats)

    return make


def _as_float(value: ExprLike | Buffer, among: Sequence[object]) -> ExprLike:
    if isinstance(value, (int, float)):
        return value if len(among) > 1 else build.cast("float64", value)
    expr = as_expr(value)
    return build.cast("float64", expr) if expr.dtype.is_integral else expr


def _to_int(x: ExprLike) -> Expr:
    """``int(x)``: an integer in whose type the product of two such elements fits, for Python's hold any number."""
    expr = as_expr(x)
    dtype = expr.dtype
    if not dtype.is_integral or dtype.is_bool or (dtype.is_uint and 16 <= dtype.bits <= 32):
        return build.cast(DataType("int64").with_lanes(dtype.lanes), expr)
    return build.cast(DataType("int32").with_lanes(dtype.lanes), expr) if dtype.bits < 32 else expr


def _rounded(x: ExprLike, digits: object = None) -> Expr:
    if digits is not None:
        raise TirError(
            "round(x, digits) is not part of the dialect",
            help="round the scaled value: T.nearbyint(x * 100.0) / 100.0",
        )
    return _integer_of("nearbyint")(x)


def _integer_of(name: str) -> Callable[[ExprLike], Expr]:
    """``math.floor`` and its kin: of an integer itself, of a float the integer."""

    def make(x: ExprLike) -> Expr:
        expr = as_expr(x)
        return expr if expr.dtype.is_integral else build.cast("int64", _math(name)(expr))

    return make


def _power(x: ExprLike, y: ExprLike, modulus: object = None) -> Expr:
    if modulus is not None:
        raise TirError("pow(x, y, modulus) is not part of the dialect", help="write a loop of products and remainders")
    return _math("pow")(x, y)


def _length(x: object) -> ExprLike:
    if isinstance(x, (list, tuple)):
        return len(x)
    if not isinstance(x, Buffer) or not x.shape:
        raise TirError(f"len() takes a buffer or a Python sequence, got {type(x).__name__}")
    return x.shape[0]


def _of_items(name: str, fold: BinaryBuilder) -> object:
    """The function ``min(a, b, …)`` and ``min([a, b, …])``."""

    def make(*args: object) -> object:
        items = args if len(args) > 1 else args[0]
        if isinstance(items, (Buffer, BufferRegion)) or not isinstance(items, (list, tuple)) or not items:
            raise TirError(
                f"{name}() takes values or a Python sequence of them, not a buffer",
                help=f"write a loop over its elements: acc = {name}(acc, A[i])",
            )
        return functools.reduce(fold, items)

    return make


def _sum(items: Items, start: ExprLike = 0) -> ExprLike:
    if not isinstance(items, (list, tuple)):
        raise TirError(
            "sum() takes a Python sequence of values, not a buffer",
            help="write a loop: acc = 0.0, then acc += A[i] for each i",
        )
    return functools.reduce(build.add, items, start) if items else start


def _where(condition: ExprLike, yes: ExprLike, no: ExprLike) -> Expr:
    return build.select(build.as_bool(condition), yes, no)


def _square(x: ExprLike) -> Expr:
    return build.mul(x, x)


def _sign(x: ExprLike) -> Expr:
    expr = as_expr(x)
    return build.select(build.gt(expr, 0), 1, build.select(build.lt(expr, 0), -1, expr))


def _not_a_value(what: str, remedy: str) -> object:
    def make(*args: object, **kwargs: object) -> object:
        raise TirError(f"{what} is not known when the program is built", help=remedy)

    return make


_SAME_NAME = (
    "sqrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh",
    "hypot", "copysign", "nextafter", "fmod", "isnan", "isinf", "isfinite", "fabs",
)  # fmt: skip
_MATH_ONLY: dict[str, object] = {
    "asin": _math("asin"), "acos": _math("acos"), "atan": _math("atan"), "atan2": _math("atan2"),
    "asinh": _math("asinh"), "acosh": _math("acosh"), "atanh": _math("atanh"), "erf": _math("erf"),
    "pow": _power, "ldexp": _math("ldexp"),
    "floor": _integer_of("floor"), "ceil": _integer_of("ceil"), "trunc": _integer_of("trunc"),
}  # fmt: skip
_NUMPY_ONLY: dict[str, object] = {
    "arcsin": _math("asin"), "arccos": _math("acos"), "arctan": _math("atan"), "arctan2": _math("atan2"),
    "arcsinh": _math("asinh"), "arccosh": _math("acosh"), "arctanh": _math("atanh"),
    "floor": _math("floor"), "ceil": _math("ceil"), "trunc": _math("trunc"), "rint": _math("nearbyint"),
    "absolute": build.abs_, "negative": build.neg, "maximum": build.max_, "minimum": build.min_,
    "fmax": build.max_, "fmin": build.min_, "add": build.add, "subtract": build.sub, "multiply": build.mul,
    "divide": build.true_div, "floor_divide": build.floordiv, "remainder": build.floormod, "square": _square,
    "power": _power, "float_power": _power, "sign": _sign, "reciprocal": lambda x: build.true_div(1.0, x),
    "logical_and": lambda a, b: build.logical_and(build.as_bool(a), build.as_bool(b)),
    "logical_or": lambda a, b: build.logical_or(build.as_bool(a), build.as_bool(b)),
    "logical_not": lambda a: build.logical_not(build.as_bool(a)),
    "bitwise_and": build.bitwise_and, "bitwise_or": build.bitwise_or, "bitwise_xor": build.bitwise_xor,
    "invert": build.bitwise_not, "left_shift": build.shift_left, "right_shift": build.shift_right,
    "equal": build.eq, "not_equal": build.ne, "less": build.lt, "less_equal": build.le, "greater": build.gt,
    "greater_equal": build.ge, "where": _where, "clip": clamp, "round": _math("nearbyint"),
}  # fmt: skip
_LOOP = "write a loop over the elements: acc = 0.0, then acc += A[i] for each i"
_NO_REDUCTION = dict.fromkeys(("sum", "mean", "prod", "dot", "matmul", "max", "min", "argmax", "cumsum"), _LOOP)

_MEANINGS: dict[int, object] = {
    id(int): _to_int,
    id(float): lambda x: build.cast("float64", x),
    id(bool): lambda x: build.as_bool(x),
    id(round): _rounded,
    id(abs): build.abs_,
    id(pow): _power,
    id(divmod): lambda a, b: (build.floordiv(a, b), build.floormod(a, b)),
    id(len): _length,
    id(sum): _sum,
    id(min): _of_items("min", build.min_),
    id(max): _of_items("max", build.max_),
    id(any): lambda items: build.any_of(*[build.as_bool(x) for x in items]),
    id(all): lambda items: build.all_of(*[build.as_bool(x) for x in items]),
    id(sorted): _not_a_value("the order of expressions", "sort in the program, or choose with min and max"),
    id(str): _not_a_value("the text of an expression", "store the value in a buffer and format it outside"),
    id(isinstance): _not_a_value("the Python type of an expression", "ask for its dtype: A[i].dtype"),
    id(type): _not_a_value("the Python type of an expression", "ask for its dtype: A[i].dtype"),
    id(repr): _not_a_value("the text of an expression", "store the value in a buffer and format it outside"),
    **{id(getattr(math, name)): _math(name) for name in _SAME_NAME if hasattr(math, name)},
    **{id(getattr(math, name)): made for name, made in _MATH_ONLY.items()},
    **{id(getattr(np, name)): _math(name) for name in _SAME_NAME if hasattr(np, name)},
    **{id(getattr(np, name)): made for name, made in _NUMPY_ONLY.items()},
    **{
        id(getattr(np, name)): _not_a_value(f"np.{name} of a buffer or an expression", remedy)
        for name, remedy in _NO_REDUCTION.items()
    },
}
"""What functions mean when they are called with expressions or buffers, by identity (they live as long as Python)."""

_NAMED = (math, np)


def _print(*args: object, **kwargs: object) -> object:
    raise TirError(
        "a prim_func prints nothing",
        help="store the value in a buffer and print that after the call; tl.interpret runs the function step by step",
    )


def is_value_of(module: ModuleType, name: str) -> bool:
    """Whether a text may read that attribute of a module: numbers, types, and functions with a meaning here, of
    :mod:`math` and NumPy."""
    if module not in _NAMED:
        return False
    found = getattr(module, name, None)
    return isinstance(found, (int, float)) or is_word(found)


def is_word(func: object) -> bool:
    """Whether calling a function with expressions computes what it means, and nothing else."""
    return id(func) in _MEANINGS or (isinstance(func, type) and isinstance(as_dtype(func), TypeFunc))


def meaning_of(func: object, args: Sequence[object], kwargs: dict[str, object]) -> object:
    """What takes the place of a Python or NumPy function in a call, or None where it is called as it is.

    Raises :class:`TirError` for a function of :mod:`math` or NumPy that has no meaning on expressions.
    """
    if func is builtins.print:
        return _print
    values = [*args, *kwargs.values()]
    if not any(map(symbolic, values)):
        return None
    if func in _OVER_ITEMS:
        for value in values:
            sequence_of(value)  # says that a buffer is none
    if func is range:
        raise TirError(
            "Python's range() takes numbers that are known when the program is built",
            help="use it directly in `for i in range(…)`; backwards as range(n - 1, -1, -1)",
        )
    if isinstance(func, type):
        dtype = as_dtype(func)
        if isinstance(dtype, TypeFunc) and func not in (float, int, bool):
            return dtype
    found = _MEANINGS.get(id(func))
    if found is None:
        module = type(func).__module__ if isinstance(func, np.ufunc) else getattr(func, "__module__", None) or ""
        if module == "math" or module.partition(".")[0] == "numpy":
            name = getattr(func, "__name__", str(func))
            raise TirError(
                f"{'math' if module == 'math' else 'np'}.{name} has no meaning on expressions of a program",
                help=f"write T.{name}" if operation(name) is not None else "write it with T functions and loops",
            )
    return found


_OVER_ITEMS = (enumerate, zip, list, tuple, reversed, map, filter, set, iter)

REMEDIES: dict[str, str] = {
    "sum": _LOOP,
    "mean": _LOOP,
    "print": "a prim_func prints nothing: store the value in a buffer and print that after the call",
    "printf": "a prim_func prints nothing: store the value in a buffer and print that after the call",
    "zeros": "write T.alloc_buffer(shape, dtype) and a loop that stores 0",
    "ones": "write T.alloc_buffer(shape, dtype) and a loop that stores 1",
    "empty": "write T.alloc_buffer(shape, dtype)",
    "array": "write T.alloc_buffer(shape, dtype), or T.allocate_const for a table",
    "range": "write range(n), T.serial(n) or T.parallel(n)",
    "prange": "write T.parallel(n)",
    "Tensor": "write T.Buffer(shape, dtype)",
    "float": "write T.float32 or T.float64",
    "double": "write T.float64",
    "half": "write T.float16",
    "int": "write T.int32 or T.int64",
    "long": "write T.int64",
    "While": "write `while condition:`",
    "logical_and": "write `a and b`, or T.And(a, b)",
    "logical_or": "write `a or b`, or T.Or(a, b)",
    "dot": "write loops, as in docs/tutorial.md",
    "matmul": "write loops, as in docs/tutorial.md",
    "barrier": 'write T.tvm_storage_sync("shared")',
    "syncthreads": 'write T.tvm_storage_sync("shared")',
}
"""The way, for words after ``T.`` that other systems have: the nearest name would mislead."""

NAME_REMEDIES: dict[str, str] = {
    "print": "a prim_func prints nothing: store the value in a buffer and print that after the call",
    "isinstance": "ask for the dtype of an expression: A[i].dtype",
    "type": "ask for the dtype of an expression: A[i].dtype",
    "prange": "write T.parallel(n)",
    "cuda": 'write T.thread_binding(n, thread="threadIdx.x")',
    "tid": 'write T.thread_binding(n, thread="threadIdx.x")',
    "float32": "write T.float32, or the string 'float32'",
    "float64": "write T.float64, or the string 'float64'",
    "int32": "write T.int32, or the string 'int32'",
    "int64": "write T.int64, or the string 'int64'",
    "sqrt": "write T.sqrt, or import math",
    "exp": "write T.exp, or import math",
}
"""The way, for names that are not defined."""

BUFFER_REMEDIES: dict[str, str] = {
    **dict.fromkeys(("sum", "mean", "prod", "dot", "max", "min", "argmax", "argmin", "any", "all", "cumsum"), _LOOP),
    "T": "swap the subscripts: A[j, i]",
    "transpose": "swap the subscripts: A[j, i]",
    "copy": "write T.alloc_buffer and a loop that copies",
    "fill": "write a loop that stores the value",
    "reshape": "compute the subscripts, or see it by T.decl_buffer(shape, dtype, data=A.data)",
    "astype": "convert the elements: A[i].astype(dtype)",
    "item": "name the element: A[0]",
    "tolist": "name the elements: [A[0], A[1]]",
    "nbytes": "multiply A.size by the bytes of an element",
    "flatten": "compute the subscripts, or see it by T.decl_buffer(shape, dtype, data=A.data)",
    "ravel": "compute the subscripts, or see it by T.decl_buffer(shape, dtype, data=A.data)",
}
"""The way, for attributes of NumPy's arrays that buffers do not have."""
