"""Expressions by name: ``T.exp``, ``T.max``, ``T.Cast``, the node constructors ``T.Add`` …, calls of operations.

The functions fold as the operators do; a node constructor builds exactly its node. Operations of the registry that
have no function of their own here are called through :class:`OpFunction`.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import ParamSpec, Protocol, TypeGuard, Unpack
from typing import cast as typing_cast

from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir import expr as nodes
from tirlower.ir.buffer import Buffer, CommReducer
from tirlower.ir.dtype import DataType, PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, ExprLike, FloatImm, IntImm, Select, StringImm, Var, as_expr, const
from tirlower.ir.intrinsics.arithmetic import BINARY_MATH, UNARY_MATH
from tirlower.ir.op import GlobalVar, Op
from tirlower.script.buffers import load_at

__all__ = ["NODE_CONSTRUCTORS", "OpFunction", "operation"]

P = ParamSpec("P")
_ROUNDING = ("floor", "ceil", "round", "trunc", "nearbyint")


def _arg(value: ExprLike | Buffer, name: str) -> Expr:
    if isinstance(value, Buffer):
        raise TirError(
            f"T.{name} takes expressions, got the buffer {value.name!r}",
            help=f'pass {value.name}.data, {value.name}.access_ptr("r") or an element',
        )
    return as_expr(value)


class OpFunction:
    """A registered operation as a function of scripts.

    Where the operation states its own type, the arguments follow; else the type is the first argument, or ``dtype=``.
    Mathematical functions take floats: a literal is float32, or takes the other operand's type.
    """

    __slots__ = ("name", "op")

    def __init__(self, op: Op) -> None:
        self.op = op
        self.name = op.short

    def __call__(
        self, *args: ExprLike, dtype: str | None = None, annotations: Mapping[str, object] | None = None
    ) -> Expr:
        """The call. Raises :class:`TirError` for a wrong number or type of arguments."""
        op, name = self.op, self.name
        values = list(args)
        if op.dtype_first:
            if dtype is None:
                if values and isinstance(values[0], str) and values[0] and _is_dtype(values[0]):
                    dtype = str(values.pop(0))
                elif op.infer is None:
                    raise TirError(
                        f"T.{name} needs the dtype of its result first", help=f'write T.{name}("float32", …)'
                    )
        elif op.infer is None and dtype is None:
            if len(values) == op.arity[0] + 1 and isinstance(values[-1], str):
                dtype = str(values.pop())
            elif values and isinstance(values[0], str) and _is_dtype(values[0]):
                dtype = str(values.pop(0))
            else:
                raise TirError(f"T.{name} needs the dtype of its result", help="add dtype=…")
        least, most = op.arity
        if len(values) < least or (most is not None and len(values) > most):
            wanted = str(least) if most == least else f"at least {least}" if most is None else f"{least} to {most}"
            raise TirError(f"T.{name} takes {wanted} arguments, got {len(values)}")
        if op.elementwise and name in _MATH:
            return self._math(values)
        exprs = tuple([_arg(v, name) for v in values])
        if name in _BITS and not exprs[0].dtype.is_integral:
            raise TirError(
                f"T.{name} takes an integer, got {exprs[0].dtype!s}: {exprs[0]}",
                span=exprs[0].span,
                help='T.reinterpret("uint32", …) has the bits of a float',
            )
        if name.startswith("atomic_") and isinstance(exprs[0], BufferLoad):
            # An element stands for its place; what is combined with it has its type.
            element = exprs[0].dtype
            given = [
                const(v, element) if isinstance(v, (int, float)) else e for v, e in zip(values, exprs, strict=True)
            ]
            exprs = (build.call("tir.address_of", exprs[0]), *given[1:])
        if dtype is None:
            assert op.infer is not None
            kind = op.infer(exprs)
        else:
            kind = DataType(str(dtype))
        return Call(op, exprs, kind, annotations=annotations)  # type: ignore[arg-type]

    def _math(self, values: list[ExprLike]) -> Expr:
        name = self.name
        if len(values) == 2 and name != "ldexp":
            pair = build.operands(*[float(v) if _is_int(v) else v for v in values])
            exprs: list[Expr] = list(build.match_types(*pair))
        else:
            exprs = [as_expr(float(values[0]) if _is_int(values[0]) else values[0])]
            exprs += [_like(v, exprs[0], name) for v in values[1:]]
        dtype = exprs[0].dtype
        if dtype.is_integral and name in _ROUNDING:
            return exprs[0]
        if not (dtype.is_float or dtype.is_custom):
            raise TirError(
                f"T.{name} takes a float, got {dtype!s}: {exprs[0]}",
                span=exprs[0].span,
                help='convert it, e.g. with T.Cast("float32", …)',
            )
        assert self.op.infer is not None
        return Call(self.op, tuple(exprs), self.op.infer(exprs))

    def __repr__(self) -> str:
        return f"T.{self.name}"


_BITS = frozenset(("popcount", "clz"))
_MATH = {*UNARY_MATH, *BINARY_MATH, "ldexp", "fma", "isnan", "isinf", "isfinite"}


def _is_int(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _like(value: ExprLike, first: Expr, name: str) -> Expr:
    if name == "ldexp":
        return as_expr(value)
    if isinstance(value, (int, float)):
        return const(value, first.dtype)
    expr = as_expr(value)
    if expr.dtype is not first.dtype:
        raise TirError(f"T.{name} takes arguments of one type, got {first.dtype!s} and {expr.dtype!s}", span=expr.span)
    return expr


@functools.lru_cache(maxsize=256)
def _is_dtype(text: str) -> bool:
    try:
        DataType(str(text))
    except ValueError:
        return False
    return True


_BY_SHORT: dict[str, Op] = {}


def operation(name: str) -> OpFunction | None:
    """The function of the registered operation with that short name, or None."""
    if len(_BY_SHORT) != len(Op.names()):
        _BY_SHORT.update({op.short: op for op in (Op.get(n) for n in Op.names())})
    found = _BY_SHORT.get(name)
    return None if found is None else OpFunction(found)


def operation_names() -> list[str]:
    """The short names of all operations."""
    operation("")
    return list(_BY_SHORT)


# Node constructors: literals take the other operand's type, nothing folds.


def _binary_node(node: type[nodes.BinaryOp | nodes.CompareOp]) -> Callable[[ExprLike, ExprLike], Expr]:
    def make(a: ExprLike, b: ExprLike) -> Expr:
        return node(*build.operands(a, b))

    make.__name__ = make.__qualname__ = node.__name__
    make.__doc__ = f"The node ``{node.__name__}(a, b)``, not folded; a literal takes the other operand's type."
    return make


NODE_CONSTRUCTORS: dict[str, Callable[[ExprLike, ExprLike], Expr]] = {
    cls.__name__: _binary_node(cls)
    for cls in (
        nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.Mod, nodes.FloorDiv, nodes.FloorMod, nodes.Min, nodes.Max,
        nodes.EQ, nodes.NE, nodes.LT, nodes.LE, nodes.GT, nodes.GE,
    )
}  # fmt: skip
"""The constructors of two operands by node name."""


def And(a: ExprLike, b: ExprLike) -> Expr:
    """The node ``And(a, b)``, not folded."""
    return nodes.And(_condition(a), _condition(b))


def Or(a: ExprLike, b: ExprLike) -> Expr:
    """The node ``Or(a, b)``, not folded."""
    return nodes.Or(_condition(a), _condition(b))


def Not(a: ExprLike) -> Expr:
    """The node ``Not(a)``, not folded."""
    return nodes.Not(_condition(a))


def _condition(value: ExprLike) -> Expr:
    return const(bool(value), "bool") if isinstance(value, (bool, int)) else as_expr(value)


def Select_(condition: ExprLike, true_value: ExprLike, false_value: ExprLike) -> Expr:
    """One of two values, both of which are evaluated; they are brought to one type."""
    t, f = build.match_types(*build.operands(true_value, false_value))
    return Select(build.as_bool(condition), t, f)


def Cast(dtype: str, value: ExprLike) -> Expr:
    """The node that converts ``value`` to a dtype, not folded."""
    return nodes.Cast(DataType(str(dtype)), as_expr(value))


def cast(value: ExprLike, dtype: str) -> Expr:
    """``value`` converted to a dtype (folds)."""
    return build.cast(str(dtype), value)


def Ramp(base: ExprLike, stride: ExprLike, lanes: int | Expr) -> Expr:
    """The vector ``base, base + stride, …`` of that many lanes."""
    return nodes.Ramp(*build.match_types(*build.operands(base, stride)), lanes)


def Broadcast(value: ExprLike, lanes: int | Expr) -> Expr:
    """The vector with ``value`` in each of its lanes."""
    return nodes.Broadcast(as_expr(value), lanes)


def Shuffle(vectors: Sequence[ExprLike], indices: Sequence[ExprLike]) -> Expr:
    """The lanes of the concatenated vectors chosen by indices."""
    return nodes.Shuffle(tuple(as_expr(v) for v in vectors), tuple(as_expr(i) for i in indices))


def Let(expr: ExprLike, where: Mapping[Var, ExprLike]) -> Expr:
    """``expr`` with variables bound: ``T.Let(x + 1, where={x: 3})``; several nest, the first outermost."""
    if not isinstance(where, Mapping) or not where:
        raise TirError("T.Let takes where={variable: value}")
    body = as_expr(expr)
    for var, value in reversed(list(where.items())):
        if not isinstance(var, Var):
            raise TirError(f"T.Let binds variables, got {type(var).__name__} {var}")
        bound = const(value, var.dtype) if isinstance(value, (int, float)) else as_expr(value)
        body = nodes.Let(var, bound, body)
    return body


def Call_(dtype: str, op: Op | GlobalVar | str, args: Sequence[ExprLike] = ()) -> Expr:
    """The node of a call, by operation, name or global variable."""
    target = op if isinstance(op, (Op, GlobalVar)) else _op_named(op)
    return Call(target, tuple(as_expr(a) for a in args), DataType(str(dtype)))


def Var_(name: str, dtype: PointerType | str = "int32") -> Var:
    """A new variable of a name."""
    return Var(str(name), dtype if isinstance(dtype, PointerType) else str(dtype))  # type: ignore[arg-type]


def SizeVar(name: str, dtype: str = "int32") -> Var:
    """A new variable that is at least 0."""
    return Var(str(name), DataType(str(dtype)), True)


def var(dtype: PointerType | str, name: str = "") -> Var:
    """A new variable of a dtype."""
    return Var_(name, dtype)


def _need_number(value: object, what: str) -> None:
    if isinstance(value, str) or not (hasattr(value, "__float__") or hasattr(value, "__int__")):
        raise TirError(f"{what} takes a dtype and a number, got {value!r}")


def IntImm_(dtype: str, value: int) -> Expr:
    """An integer constant."""
    _need_number(value, "T.IntImm")
    return IntImm(DataType(str(dtype)), value)


def FloatImm_(dtype: str, value: float) -> Expr:
    """A float constant."""
    _need_number(value, "T.FloatImm")
    return FloatImm(DataType(str(dtype)), float(value))


def StringImm_(value: str) -> Expr:
    """A string constant."""
    return StringImm(str(value))


def BufferLoad_(buffer: Buffer, indices: Sequence[object], predicate: ExprLike | None = None) -> Expr:
    """The load ``buffer[indices]``, with a mask of the lanes that are read."""
    return load_at(buffer, indices, predicate)


def min_(a: ExprLike, b: ExprLike, *more: ExprLike) -> Expr:
    """The least of two or more."""
    return functools.reduce(build.min_, more, build.min_(a, b))


def max_(a: ExprLike, b: ExprLike, *more: ExprLike) -> Expr:
    """The greatest of two or more."""
    return functools.reduce(build.max_, more, build.max_(a, b))


def abs_(x: ExprLike) -> Expr:
    """The absolute value."""
    return build.abs_(x)


def clamp(x: ExprLike, low: ExprLike, high: ExprLike) -> Expr:
    """The nearest value to ``x`` that is at least ``low`` and at most ``high``."""
    return build.min_(build.max_(x, low), high)


def any_(*conditions: ExprLike) -> Expr:
    """Whether one of the conditions holds."""
    return build.any_of(*conditions)


def all_(*conditions: ExprLike) -> Expr:
    """Whether all conditions hold."""
    return build.all_of(*conditions)


def pow_(x: ExprLike, y: ExprLike) -> Expr:
    """``x`` to the power ``y``, of floats."""
    found = operation("pow")
    assert found is not None
    return found(x, y)


def logaddexp(a: ExprLike, b: ExprLike) -> Expr:
    """``log(exp(a) + exp(b))`` of floats, without overflow in between."""
    a, b = build.match_types(*build.operands(a, b))
    if not a.dtype.is_float:
        raise TirError(
            f"T.logaddexp takes floats, got {a.dtype!s}: {a}",
            span=a.span,
            help='convert it, e.g. with T.Cast("float32", …)',
        )
    exp, log1p = operation("exp"), operation("log1p")
    assert exp is not None and log1p is not None
    apart = build.add(build.max_(a, b), log1p(exp(build.sub(0, build.abs_(build.sub(a, b))))))
    # Two infinities have no difference.
    return Select(build.eq(a, b), build.add(a, const(math.log(2), a.dtype)), apart)


def get_vscale_expr(dtype: str, min_size: int = 128) -> Expr:
    """How many elements a scalable vector holds whose least length is ``min_size`` bits: a multiple of ``T.vscale()``."""
    bits = DataType(str(dtype)).bits
    if not bits or min_size % bits:
        raise TirError(f"{min_size} bits are no whole number of {dtype}", help="give a multiple of the type's bits")
    return nodes.vscale(min_size // bits)


def infinity(dtype: str) -> Expr:
    """Infinity of a float dtype. Raises :class:`TirError` for integers and floats of 4 and 6 bits, which have none."""
    kind = DataType(str(dtype))
    if not kind.element.is_float or not kind.element.holds(math.inf):
        raise TirError(f"{kind!s} has no infinity", help=f"T.max_value({str(kind)!r}) is its greatest value")
    return const(math.inf, kind)


def min_value(dtype: str) -> Expr:
    """The least finite value of a dtype."""
    return build.min_value(str(dtype))


def max_value(dtype: str) -> Expr:
    """The greatest finite value of a dtype."""
    return build.max_value(str(dtype))


def reinterpret(*args: ExprLike, dtype: str | None = None) -> Expr:
    """The bits of a value seen as another dtype: ``T.reinterpret("int32", x)``."""
    if len(args) != (2 if dtype is None else 1):
        raise TirError(f"T.reinterpret takes a dtype and a value, got {len(args) + (dtype is not None)} arguments")
    if dtype is None:
        if not isinstance(args[0], str):
            args = args[::-1]
        return build.reinterpret(str(args[0]), args[1])
    return build.reinterpret(str(dtype), args[0])


def undef(dtype: str = "int32") -> Expr:
    """A value that may be anything; stored without a dtype it takes the buffer's."""
    return Call(Op.get("tir.undef"), (), DataType(str(dtype)))


def clz(x: ExprLike) -> Expr:
    """The number of leading zero bits."""
    return build.call("tir.clz", x)


def address_of(load: ExprLike | Buffer) -> Expr:
    """The address of a buffer element; of a buffer, of its first one."""
    if isinstance(load, Buffer):
        load = BufferLoad(load, tuple(const(0, extent.dtype) for extent in load.shape))
    element = as_expr(load)
    if not isinstance(element, BufferLoad):
        raise TirError(f"T.address_of takes an element of a buffer, got {element}", span=element.span)
    return build.call("tir.address_of", element)


def _op_named(name: str) -> Op:
    if not isinstance(name, str):
        raise TirError(f"an operation is named by a string, got {type(name).__name__}")
    return Op.find(f"tir.{name}") or Op.get(str(name))


def call_intrin(
    dtype: str, func_name: Op | str, *args: ExprLike | Buffer, annotations: Mapping[str, object] | None = None
) -> Expr:
    """A call of an operation by its full name: ``T.call_intrin("float32", "tir.exp", x)``."""
    op = func_name if isinstance(func_name, Op) else _op_named(func_name)
    exprs = tuple(_arg(a, "call_intrin") for a in args)
    return Call(op, exprs, DataType(str(dtype)), annotations=annotations)  # type: ignore[arg-type]


class Operation(Protocol):
    """A function that makes an operation of its arguments, however many they are."""

    def __call__(self, *args: ExprLike | Buffer) -> Expr:
        """The operation."""


def _packed(name: str) -> Operation:
    op = Op.get(f"tir.{name}")

    def make(*args: ExprLike | Buffer) -> Expr:
        return Call(op, tuple(_array_argument(a) if isinstance(a, Buffer) else as_expr(a) for a in args), "int32")  # type: ignore[arg-type]

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"A call of a host function by name (``{name}``); a buffer is passed as an array structure."
    return make


def _array_argument(buffer: Buffer) -> Expr:
    shape = build.call("tir.tvm_stack_make_shape", *buffer.shape)
    strides: ExprLike = build.call("tir.tvm_stack_make_shape", *buffer.strides) if buffer.strides else 0
    dtype = const(0, buffer.dtype)
    return build.call(
        "tir.tvm_stack_make_array", buffer.data, shape, strides, len(buffer.shape), dtype, buffer.elem_offset
    )


call_packed = tvm_call_packed = _packed("tvm_call_packed")
call_cpacked = tvm_call_cpacked = _packed("tvm_call_cpacked")
call_packed_lowered = tvm_call_packed_lowered = _packed("tvm_call_packed_lowered")
call_cpacked_lowered = tvm_call_cpacked_lowered = _packed("tvm_call_cpacked_lowered")


def llvm_lookup_intrinsic_id(name: str) -> Expr:
    """What names an intrinsic of LLVM to ``T.call_llvm_intrin``: its name, which no version of LLVM renumbers.

    Raises :class:`TirError` for a text that is no name of one.
    """
    if not str(name).startswith("llvm."):
        raise TirError(f"the names of LLVM's intrinsics begin with 'llvm.', got {str(name)!r}")
    return as_expr(str(name))


def comm_reducer(combiner: Callable[P, object], identity: Sequence[ExprLike]) -> CommReducer:
    """A reducer from a function of the left and right values: ``T.comm_reducer(lambda x, y: x + y, [T.float32(0)])``.

    For n values the function takes 2n arguments, left ones first, and returns n results.
    """
    names = list(inspect.signature(combiner).parameters)
    values = [as_expr(v) for v in identity]
    if len(names) != 2 * len(values):
        raise TirError(f"a reducer of {len(values)} values takes {2 * len(values)} arguments, got {len(names)}")
    params = [Var(name, values[i % len(values)].dtype) for i, name in enumerate(names)]
    result = typing_cast("Callable[[Unpack[tuple[Var, ...]]], object]", combiner)(*params)
    results = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    return CommReducer(tuple(params[: len(values)]), tuple(params[len(values) :]), results, tuple(values))
