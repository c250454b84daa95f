"""Known contents: what a model computes of shapes is computed while it is imported, on numbers and expressions of dims.

Contents move as an array of objects moves; numbers alone are computed by NumPy in their dtype, expressions in int64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from tirlower.graph.core.dims import DimEnv, Extent, extent_expr
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_file import dtype_of
from tirlower.graph.frontend.onnx_ops.items import MOST_KNOWN, Item, objects
from tirlower.graph.frontend.onnx_ops.table import Call
from tirlower.ir import Expr, IntImm, Node, build
from tirlower.ir.constants import const
from tirlower.ir.dtype import BOOL, INT64, Array, DataType

__all__ = ["axes_given", "evaluated"]

Evaluate: TypeAlias = "Callable[[Call, list[Array]], Array | None]"


def evaluated(c: Call) -> Item | None:
    """The result of a node that the table below can compute of known contents; None for all others."""
    known = _KNOWN.get(c.node.op)
    if c.node.op == "Shape":
        return _shape(c)
    if c.node.op == "Size":
        return _size(c)
    if known is None or not c.items:
        return None
    given: list[Array] = []
    for item in c.items:
        contents = objects([]) if item is None else item.contents
        if contents is None:
            return None
        given.append(contents)
    first = next((item for item in c.items if item is not None), None)
    if first is None:
        return None
    made = known(c, given)
    if made is None or made.size > MOST_KNOWN:
        return None
    return Item.of_contents(made, _dtype(c, first))


def _dtype(c: Call, first: Item) -> DataType:
    if c.node.op == "Cast":
        return DataType(dtype_of(c.integer("to"), "the result of Cast"))
    if c.node.op == "Where":
        return c.item(1).dtype
    if c.node.op == "ConstantOfShape":
        return DataType(c.tensor("value").dtype.name) if c.given("value") else DataType("float32")
    return BOOL if c.node.op in _TRUTH else first.dtype


_TRUTH = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Not", "And", "Or"}


def _of(extents: Sequence[Extent]) -> Item:
    return Item.of_contents(objects(list(extents)))


def _shape(c: Call) -> Item:
    shape = c.shape(0)
    rank = len(shape)
    start, end = c.integer("start", 0), c.integer("end", rank)
    low, high = (min(max(n + rank if n < 0 else n, 0), rank) for n in (start, end))
    return _of(shape[low : max(low, high)])


def _size(c: Call) -> Item:
    total: Extent = 1
    for extent in c.shape(0):
        total = total * extent
    return Item.of_contents(objects([total]).reshape(()))


# Moves


def axes_given(c: Call, given: Sequence[Array]) -> tuple[int, ...] | None:
    """The axes of a node: its attribute, or from opset 13 on its second operand; None where they are left out."""
    if len(given) > 1 and c.has(1):
        return tuple(_integers(given[1]) or ())
    return c.ints("axes")


def _gather(c: Call, given: list[Array]) -> Array | None:
    at = _integers(given[1])
    if at is None:
        return None
    return _array(np.take(given[0], np.array(at, np.int64).reshape(given[1].shape), axis=c.integer("axis", 0)))


def _elements(contents: Array) -> list[Extent]:
    return [e for e in contents.reshape(-1).tolist() if isinstance(e, (int, Expr))]


def _array(found: object) -> Array:
    if isinstance(found, np.ndarray):
        return found
    return objects([found]).reshape(())


def _slice(c: Call, given: list[Array]) -> Array | None:
    if c.opset < 10:
        bounds: list[Sequence[int] | None] = [c.ints("starts"), c.ints("ends"), c.ints("axes"), None]
    else:
        bounds = []
        for n in range(1, 5):
            numbers = _integers(given[n]) if c.has(n) else None
            if c.has(n) and numbers is None:
                return None
            bounds.append(numbers)
    starts, ends = bounds[0] or (), bounds[1] or ()
    axes = bounds[2] if bounds[2] is not None else range(len(starts))
    steps = bounds[3] if bounds[3] is not None else (1,) * len(starts)
    x = given[0]
    cut = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        if step < 0:  # a start before the first element is the first one: in Python nothing is left
            start = max(start, -x.shape[axis])
        last = None if step < 0 and end < -x.shape[axis] else end
        cut[axis] = slice(start, last, step)
    return _array(x[tuple(cut)])


def _concat(c: Call, given: list[Array]) -> Array:
    return np.concatenate(given, axis=c.integer("axis"))


def _squeeze(c: Call, given: list[Array]) -> Array:
    axes = axes_given(c, given)
    return _array(np.squeeze(given[0], axis=axes))


def _unsqueeze(c: Call, given: list[Array]) -> Array:
    return _array(np.expand_dims(given[0], axes_given(c, given) or ()))


def _reshape(c: Call, given: list[Array]) -> Array | None:
    wanted = _integers(given[1])
    if wanted is None:
        return None
    if not c.flag("allowzero"):
        wanted = [given[0].shape[n] if e == 0 else e for n, e in enumerate(wanted)]
    return given[0].reshape(wanted)


def _transpose(c: Call, given: list[Array]) -> Array:
    return given[0].transpose(c.ints("perm"))


def _expand(c: Call, given: list[Array]) -> Array | None:
    shape = _integers(given[1])
    if shape is None or math.prod(shape) > MOST_KNOWN:
        return None
    target = np.broadcast_shapes(given[0].shape, tuple(shape))
    return np.array(np.broadcast_to(given[0], target))


def _identity(c: Call, given: list[Array]) -> Array:
    return given[0]


def _filled(c: Call, given: list[Array]) -> Array | None:
    shape = _integers(given[0])
    if shape is None or min(shape, default=0) < 0 or math.prod(shape) > MOST_KNOWN:
        return None
    value = c.tensor("value") if c.given("value") else np.zeros(1, np.float32)
    return objects([value.reshape(-1)[0].item()] * math.prod(shape)).reshape(shape)


def _range(c: Call, given: list[Array]) -> Array | None:
    whole = [_numbers(each, c.item(0).dtype.numpy) for each in given]
    if any(each is None or each.size != 1 for each in whole):
        return None
    start, stop, step = (each.reshape(-1)[0].item() for each in whole if each is not None)
    if step == 0:
        raise GraphError("the step of Range is 0")
    if abs(stop - start) / abs(step) > MOST_KNOWN:
        return None
    made = [start + n * step for n in range(max(0, math.ceil((stop - start) / step)))]
    return objects(np.array(made, c.item(0).dtype.numpy).tolist())


# Arithmetic


def _simplest(env: DimEnv, found: Expr) -> Extent:
    """An expression in its simplest form; a number, which may be negative, where it is one."""
    made = env.analyzer.simplify(found)
    return made.value if isinstance(made, IntImm) else made


_MOST_TERMS = 1000
"""An expression of more nodes is none of a shape: such grow exponentially where a model combines each with itself."""


def _follow(c: Call, found: object) -> None:
    """Raise :class:`GraphError` for what a model computes of shapes where int64 does not hold it, or nobody reads it."""
    if isinstance(found, Expr):
        if not _is_short(found):
            raise GraphError(
                f"{c.node.op} computes an extent of more than {_MOST_TERMS} terms",
                help='bind the dims to numbers: dims={"name": 8}',
            )
    elif isinstance(found, int) and not -(2**63) <= found < 2**63:
        raise GraphError(
            f"{c.node.op} computes {found} of shapes, which is no int64", help="a damaged model: no tensor is so large"
        )


def _is_short(extent: Expr) -> bool:
    """Whether it has few nodes as it is written, where what stands twice counts twice."""
    waiting: list[Node] = [extent]
    for _ in range(_MOST_TERMS):
        if not waiting:
            return True
        waiting += waiting.pop().children()
    return not waiting


def _integers(contents: Array) -> list[int] | None:
    """The contents as a list of integers; None where there are others."""
    found = [e for e in contents.reshape(-1).tolist() if isinstance(e, int)]
    return found if len(found) == contents.size else None


def _numbers(contents: Array, dtype: object) -> Array | None:
    """The contents as numbers of a dtype; None where there are expressions."""
    flat = contents.reshape(-1).tolist()
    if any(isinstance(e, Expr) for e in flat):
        return None
    kind = dtype.numpy if isinstance(dtype, DataType) else np.dtype(str(dtype))
    return np.array(flat, kind).reshape(contents.shape)


Pair: TypeAlias = "Callable[[DimEnv, Extent, Extent], object]"
"""The result for two numbers or expressions; None where it cannot be told."""


def _binary(numbers: Callable[[Array, Array], Array], pair: Pair) -> Evaluate:
    def run(c: Call, given: list[Array]) -> Array | None:
        dtype = c.item(0).dtype
        a, b = _numbers(given[0], dtype), _numbers(given[1], dtype)
        if a is not None and b is not None:
            with np.errstate(all="ignore"):
                return np.asarray(numbers(a, b)).astype(object)
        if dtype is not INT64:
            return None
        left, right = np.broadcast_arrays(given[0], given[1])
        made: list[object] = []
        for x, y in zip(left.reshape(-1).tolist(), right.reshape(-1).tolist(), strict=True):
            found = pair(c.b.env, x, y)
            if found is None:
                return None
            _follow(c, found)
            made.append(_simplest(c.b.env, found) if isinstance(found, Expr) and not found.dtype.is_bool else found)
        return objects(made).reshape(left.shape)

    return run


def _provable(env: DimEnv, test: Expr) -> bool:
    return env.analyzer.can_prove(test)


def _quotient(env: DimEnv, a: Extent, b: Extent) -> object:
    """ONNX rounds toward zero, which is down where both are positive."""
    x, y = extent_expr(a) if isinstance(a, Expr) else const(a, INT64), const(b, INT64) if isinstance(b, int) else b
    if _provable(env, y > 0) and _provable(env, x >= 0):
        return build.floordiv(x, y)
    return None


def _remainder(env: DimEnv, a: Extent, b: Extent) -> object:
    x, y = (const(e, INT64) if isinstance(e, int) else e for e in (a, b))
    if _provable(env, y > 0) and _provable(env, x >= 0):
        return build.floormod(x, y)
    return None


def _equal(env: DimEnv, a: Extent, b: Extent) -> object:
    x, y = (const(e, INT64) if isinstance(e, int) else e for e in (a, b))
    if env.analyzer.can_prove_equal(x, y):
        return True
    if _provable(env, x < y) or _provable(env, y < x):
        return False
    return None


def _ordered(test: Callable[[Expr, Expr], Expr], contrary: Callable[[Expr, Expr], Expr]) -> Pair:
    def run(env: DimEnv, a: Extent, b: Extent) -> object:
        x, y = (const(e, INT64) if isinstance(e, int) else e for e in (a, b))
        if _provable(env, test(x, y)):
            return True
        return False if _provable(env, contrary(x, y)) else None

    return run


def _choice(extreme: Callable[[Expr, Expr], Expr]) -> Pair:
    def run(env: DimEnv, a: Extent, b: Extent) -> object:
        x, y = (const(e, INT64) if isinstance(e, int) else e for e in (a, b))
        return extreme(x, y)

    return run


def _never(env: DimEnv, a: Extent, b: Extent) -> object:
    return None


def _divided(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(np.divide(a, b))
    if not np.all(b):
        raise GraphError("Div divides a shape by 0")
    return np.asarray(np.floor_divide(np.subtract(a, np.fmod(a, b)), b))


def _remaining(a: Array, b: Array) -> Array:
    if not np.all(b):
        raise GraphError("Mod divides a shape by 0")
    return np.asarray(np.mod(a, b))


def _where(c: Call, given: list[Array]) -> Array | None:
    condition = _numbers(given[0], BOOL)
    return None if condition is None else np.asarray(np.where(condition, given[1], given[2]))


def _cast(c: Call, given: list[Array]) -> Array | None:
    kind = DataType(dtype_of(c.integer("to"), "the result of Cast"))
    if c.flag("saturate") and c.given("saturate") and not (kind.is_integral or kind.is_float):
        return None
    numbers = _numbers(given[0], c.item(0).dtype)
    if numbers is None:
        return given[0] if kind is INT64 or str(kind) == "int32" else None
    if not kind.is_float and numbers.dtype.kind == "f" and not np.all(np.abs(numbers.astype(np.float64)) < 2**53):
        return None
    return numbers.astype(kind.numpy).astype(object)


def _unary(function: Callable[[Array], Array]) -> Evaluate:
    def run(c: Call, given: list[Array]) -> Array | None:
        numbers = _numbers(given[0], c.item(0).dtype)
        return None if numbers is None else np.asarray(function(numbers)).astype(object)

    return run


def _negated(c: Call, given: list[Array]) -> Array | None:
    if c.item(0).dtype is not INT64:
        return None
    return objects(
        [_simplest(c.b.env, const(0, INT64) - e) if isinstance(e, Expr) else 0 - e for e in _elements(given[0])]
    ).reshape(given[0].shape)


def _reduced(numbers: Callable[[Extent, Extent], object], start: Extent | None) -> Evaluate:
    """All elements of a vector combined: what exporters do to shapes."""

    def run(c: Call, given: list[Array]) -> Array | None:
        axes = axes_given(c, given)
        if c.item(0).dtype is not INT64 or given[0].ndim != 1 or axes not in (None, (), (0,), (-1,)):
            return None
        if not axes and c.flag("noop_with_empty_axes"):
            return None
        elements = given[0].tolist()
        if start is None and not elements:
            return None
        found = elements.pop(0) if start is None else start
        for each in elements:
            found = numbers(found, each)
            _follow(c, found)
        found = _simplest(c.b.env, found) if isinstance(found, Expr) else found
        return objects([found]).reshape((1,) if c.flag("keepdims", True) else ())

    return run


def _greater(a: Extent, b: Extent) -> object:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else build.max_(extent_expr(a), extent_expr(b))


def _lesser(a: Extent, b: Extent) -> object:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else build.min_(extent_expr(a), extent_expr(b))


def _two(run: Evaluate) -> Evaluate:
    """Of operators that take any number of operands, those with two."""
    return lambda c, given: run(c, given) if len(given) == 2 else None


_KNOWN: dict[str, Evaluate] = {
    "Gather": _gather,
    "Slice": _slice,
    "Concat": _concat,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Transpose": _transpose,
    "Expand": _expand,
    "Identity": _identity,
    "ConstantOfShape": _filled,
    "Range": _range,
    "Add": _binary(np.add, lambda env, a, b: a + b),
    "Sub": _binary(np.subtract, lambda env, a, b: a - b),
    "Mul": _binary(np.multiply, lambda env, a, b: a * b),
    "Div": _binary(_divided, _quotient),
    "Mod": _binary(_remaining, _remainder),
    "Max": _two(_binary(np.maximum, _choice(build.max_))),
    "Min": _two(_binary(np.minimum, _choice(build.min_))),
    "Equal": _binary(np.equal, _equal),
    "Less": _binary(np.less, _ordered(build.lt, build.ge)),
    "LessOrEqual": _binary(np.less_equal, _ordered(build.le, build.gt)),
    "Greater": _binary(np.greater, _ordered(build.gt, build.le)),
    "GreaterOrEqual": _binary(np.greater_equal, _ordered(build.ge, build.lt)),
    "And": _binary(np.logical_and, _never),
    "Or": _binary(np.logical_or, _never),
    "Not": _unary(np.logical_not),
    "Floor": _unary(np.floor),
    "Ceil": _unary(np.ceil),
    "Sqrt": _unary(np.sqrt),
    "Neg": _negated,
    "Where": _where,
    "Cast": _cast,
    "ReduceSum": _reduced(lambda a, b: a + b, 0),
    "ReduceProd": _reduced(lambda a, b: a * b, 1),
    "ReduceMax": _reduced(_greater, None),
    "ReduceMin": _reduced(_lesser, None),
}
"""What is computed while importing."""
