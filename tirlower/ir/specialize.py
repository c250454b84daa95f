"""Fixing parameters of a function: ``func.specialize({param or symbolic variable: value or buffer})``."""

from __future__ import annotations

from collections.abc import Mapping

from tirlower.diagnostics import TirError, deep_recursion
from tirlower.ir import build
from tirlower.ir.binding import buffer_variables
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Expr, IntImm, Var, as_expr, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Substituter
from tirlower.ir.refresh import copy_var
from tirlower.ir.stmt import Bind, Seq, Stmt
from tirlower.ir.structural import structural_equal

__all__ = ["specialize"]


def specialize(func: PrimFunc, values: Mapping[Var, object]) -> PrimFunc:
    """The function with parameters or symbolic variables fixed.

    - A handle parameter of a buffer maps to a :class:`Buffer`, whose shape, strides and offset bind the variables
      that stand bare in the parameter's buffer; what is not a variable there must be equal. The parameter stays.
    - Any other variable (a scalar parameter, a symbolic dimension, stride or offset) maps to a number or an
      expression of its dtype; a parameter so fixed is removed.
    - A handle parameter without a buffer maps to another handle; an expression that is no variable is bound at the
      head of the body.

    What changes is folded as the operators fold. Raises :class:`TirError` for a variable that the function does not
    have, for ranks, dtypes, alignments or extents that do not fit, and for one variable bound to two values.

    >>> from tirlower.ir import BufferStore, For
    >>> n, i = Var("n", "int32"), Var("i", "int32")
    >>> a = Var("a", "handle")
    >>> A = Buffer("A", (n, 4), "int32")
    >>> body = For(i, 0, n, "serial", None, {}, BufferStore(A, i, (i, 0)))
    >>> made = PrimFunc((a, n), {a: A}, "void", {}, body).specialize({n: 16})
    >>> len(made.params), made.buffers[0].shape[0].value, made.body.extent.value
    (1, 16, 16)
    """
    if not values:
        return func
    bound: dict[Var, Expr] = {}
    known = set(func.params)
    for buffer in func.buffers:
        known.update(buffer_variables(buffer))
    for key, value in values.items():
        var = key if isinstance(key, Var) else getattr(key, "var", key)
        if not isinstance(var, Var) or var not in known:
            names = ", ".join(dict.fromkeys(v.name for v in known))
            raise TirError(
                f"specialize: {key!s} is neither a parameter nor a symbolic variable of function {func.name!r}",
                help=f"it has {names or 'none'}",
            )
        if isinstance(value, Buffer):
            _bind_buffer(func, var, value, bound)
        else:
            _bind(bound, var, _value_for(func, var, value), f"the variable {var.name!r}")
    for key, value in values.items():
        if isinstance(value, Buffer):
            _check_buffer(func.buffer_map[key], value, bound)
    return _rebuild(func, bound)


def _value_for(func: PrimFunc, var: Var, value: object) -> Expr:
    if var in func.buffer_map:
        raise TirError(
            f"specialize: the parameter {var.name!r} is the buffer {func.buffer_map[var].name!r}, got {value!s}",
            help="give a buffer (decl_buffer), or the values of its symbolic variables",
        )
    if isinstance(value, (bool, int, float)) and not var.dtype.is_handle:
        if isinstance(value, float) and var.dtype.is_integral:
            raise TirError(f"specialize: the variable {var.name!r} is {var.dtype!s}, got the float {value}")
        if var.dtype.is_integral and not var.dtype.min_value <= value <= var.dtype.max_value:
            raise TirError(f"specialize: the value {value} of {var.name!r} does not fit in {var.dtype!s}")
        return const(value, var.dtype)
    expr = as_expr(value)
    if expr.dtype is not var.dtype:
        if isinstance(expr, IntImm) and var.dtype.is_integral:
            return _value_for(func, var, expr.value)
        raise TirError(
            f"specialize: the variable {var.name!r} is {var.dtype!s}, its value {expr.dtype!s}: {expr}",
            help="convert the value with T.Cast",
        )
    return expr


def _bind(bound: dict[Var, Expr], var: Var, value: Expr, what: str) -> None:
    earlier = bound.setdefault(var, value)
    if earlier is not value and not structural_equal(earlier, value):
        raise TirError(f"specialize: {what} would be both {earlier} and {value}", help="give it one value")


def _bind_buffer(func: PrimFunc, param: Var, given: Buffer, bound: dict[Var, Expr]) -> None:
    """Check a buffer against a parameter's, and bind the variables that stand bare in it."""
    buffer = func.buffer_map.get(param)
    if buffer is None:
        raise TirError(
            f"specialize: the parameter {param.name!r} of function {func.name!r} is no buffer, got {given!r}",
            help="give a value of its dtype",
        )
    for what, have, want in (
        ("dimensions", len(given.shape), len(buffer.shape)),
        ("strides", len(given.strides), len(buffer.strides)),
        ("dtype", given.dtype, buffer.dtype),
        ("scope", given.scope, buffer.scope),
        ("alignment", given.align, buffer.align),
        ("offset factor", given.offset_factor, buffer.offset_factor),
    ):
        if have != want:
            raise TirError(f"specialize: buffer {buffer.name!r} has {what} {want!s}, the one given for it {have!s}")
    for mine, other in _pairs(buffer, given):
        if isinstance(mine, Var):
            value = build.cast(mine.dtype, other)
            _bind(bound, mine, value, f"the variable {mine.name!r} of buffer {buffer.name!r}")


def _pairs(buffer: Buffer, given: Buffer) -> list[tuple[Expr, Expr]]:
    mine = (*buffer.shape, *buffer.strides, buffer.elem_offset)
    return list(zip(mine, (*given.shape, *given.strides, given.elem_offset), strict=True))


def _check_buffer(buffer: Buffer, given: Buffer, bound: dict[Var, Expr]) -> None:
    """What is not a bare variable must be what the given buffer has, once all variables are known."""
    worker = Substituter(bound)
    for mine, other in _pairs(buffer, given):
        if isinstance(mine, Var):
            continue
        value = worker.visit_expr(mine)
        if not structural_equal(value, build.cast(value.dtype, other)):
            raise TirError(
                f"specialize: buffer {buffer.name!r} has {value} where the one given for it has {other}",
                help="only what is a variable by itself is bound; the rest must be equal",
            )


def _rebuild(func: PrimFunc, bound: dict[Var, Expr]) -> PrimFunc:
    heads: list[Stmt] = []
    vmap: dict[Var, Expr] = {}
    for var, value in bound.items():
        if var.dtype.is_handle and not isinstance(value, Var):
            # A buffer's data is a variable, so the address gets one of its own.
            local = copy_var(var)
            heads.append(Bind(local, value))
            value = local
        vmap[var] = value
    worker = Substituter(vmap)
    with deep_recursion():
        buffers = {param: worker.map_buffer(buffer) for param, buffer in func.buffer_map.items()}
        body = worker.visit(func.body)
        attributes = worker.map_attr(func.attrs)
    if heads:
        body = Seq((*heads, body))
    params = tuple(p for p in func.params if p not in vmap)
    return func.with_(params=params, buffer_map=buffers, attrs=attributes, body=body)
