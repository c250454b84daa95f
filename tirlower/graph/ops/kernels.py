"""Prim funcs as kernels of a graph: what they are given beside tensors, and whether the tensors fit them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tirlower.graph.core.dims import DimEnv, extent_expr
from tirlower.graph.core.extents import readable
from tirlower.graph.core.nodes import TensorType
from tirlower.graph.errors import GraphError
from tirlower.ir import Buffer, Expr, IntImm, PrimFunc, Var
from tirlower.ir.dtype import INT64
from tirlower.ir.functor import substitute
from tirlower.ir.query import each

__all__ = ["closed", "fit", "numbers_of", "scalars_of"]


def closed(kernel: PrimFunc) -> PrimFunc:
    """The prim func with its symbolic extents as parameters, behind all others: a call between functions passes pointers."""
    known = set(kernel.params)
    found = dict.fromkeys(
        var
        for param in kernel.params
        if param in kernel.buffer_map
        for var in each(Var, *kernel.buffer_map[param].shape)
        if var not in known
    )
    return kernel.with_(params=(*kernel.params, *found)) if found else kernel


def scalars_of(kernel: PrimFunc) -> tuple[Var, ...]:
    """The scalar parameters of a closed kernel, in order."""
    return tuple(p for p in kernel.params if p not in kernel.buffer_map)


def numbers_of(
    kernel: PrimFunc,
    types: Sequence[TensorType],
    given: Sequence[Expr] = (),
    named: Mapping[str, Expr] | None = None,
) -> dict[Var, Expr]:
    """The values of a kernel's symbolic extents: those that are ``given``, in order, or from the types of its tensors.

    The types are those of the results too; ``named`` are values of scalars that are no extent of a tensor, by their names.
    Raises :class:`GraphError` where a tensor does not fit, or where nothing says the value of a scalar.

    >>> from tirlower.script.parse import parse
    >>> doubled = parse('''
    ... def doubled(A: T.Buffer((n, 4), "float32"), B: T.Buffer((n, 4), "float32"), n: T.int64):
    ...     for i, j in T.grid(n, 4):
    ...         B[i, j] = A[i, j] * 2.0
    ... ''')
    >>> from tirlower.ir import DataType
    >>> {v.name: str(e) for v, e in numbers_of(doubled, [TensorType((6, 4), DataType("float32"))] * 2).items()}
    {'n': 'T.int64(6)'}
    """
    scalars = scalars_of(closed(kernel))
    if given and len(given) != len(scalars):
        raise GraphError(f"the kernel {kernel.name!r} takes {len(scalars)} numbers, got {len(given)}")
    found: dict[Var, Expr] = dict(zip(scalars, given, strict=False))
    for buffer, kind in _pairs(kernel, types):
        for extent, own in zip(buffer.shape, kind.shape, strict=True):
            if isinstance(extent, Var):
                found.setdefault(extent, extent_expr(own))
    for param in scalars:
        if param not in found and param.name in (named or {}):
            found[param] = (named or {})[param.name]
        if param not in found:
            raise GraphError(
                f"{param.name!r} of the kernel {kernel.name!r} is no extent of a tensor: nothing says its value",
                help="give the values of all its scalars, in order: tg.call(..., numbers=(...))",
            )
    return found


def fit(
    kernel: PrimFunc, operands: Sequence[TensorType], results: Sequence[TensorType], given: Sequence[Expr], env: DimEnv
) -> None:
    """Check that a kernel's tensors are as large as it takes them to be; what is not known is left to each call.

    Raises :class:`GraphError` where one is not, where an operand is written, and for memory that is not plain.
    """
    from tirlower.interp.arguments import written_data

    types = [*operands, *results]
    numbers = numbers_of(kernel, types, given)
    written = written_data(kernel)
    for at, (buffer, _) in enumerate(_pairs(kernel, types)):
        what = f"{buffer.name!r} of the kernel {kernel.name!r}"
        if at < len(operands) and buffer.data in written:
            raise GraphError(
                f"{what} is an operand, and is written", help="write a result: out= says the types of several"
            )
        offset = buffer.elem_offset
        if buffer.strides or buffer.align or not isinstance(offset, IntImm) or offset.value:
            raise GraphError(
                f"{what} states strides, an offset or an alignment",
                help="a graph gives tensors row by row, at any address",
            )
    for scalar in scalars_of(closed(kernel)):
        own = scalar.dtype
        holds = own is INT64 or (
            own.is_integral
            and not own.is_bool
            and env.analyzer.can_prove(numbers[scalar] <= min(own.max_value, INT64.max_value))
        )
        if not holds:
            raise GraphError(
                f"{scalar.name!r} of the kernel {kernel.name!r} is {own!s}, which may not hold {readable(numbers[scalar])}",
                help="make it int64, or state the greatest value of the dims; other numbers are tensors without axes",
            )
    for buffer, kind in _pairs(kernel, types):
        for n, (extent, stated) in enumerate(zip(buffer.shape, kind.shape, strict=True)):
            wanted = env.simplify(substitute(extent.astype("int64"), numbers))
            about = f"{buffer.name!r} of the kernel {kernel.name!r} has along axis {n} the extent {readable(extent)}, got {kind}"
            env.same(wanted, stated, about)


def _pairs(kernel: PrimFunc, types: Sequence[TensorType]) -> list[tuple[Buffer, TensorType]]:
    """The buffers of a kernel and the types of what they hold."""
    buffers = [kernel.buffer_map[p] for p in kernel.params if p in kernel.buffer_map]
    if len(buffers) != len(types):
        names = ", ".join(b.name for b in buffers)
        raise GraphError(
            f"the kernel {kernel.name!r} takes {len(buffers)} tensors ({names}), results included, got {len(types)}"
        )
    for buffer, kind in zip(buffers, types, strict=True):
        wrong = buffer.dtype != kind.dtype or len(buffer.shape) != len(kind.shape)
        for extent, own in zip(buffer.shape, kind.shape, strict=False):
            wrong = wrong or (isinstance(extent, IntImm) and isinstance(own, int) and extent.value != own)
        if wrong:
            wanted = f"{buffer.dtype!s}[{', '.join(map(str, buffer.shape))}]"
            raise GraphError(f"{buffer.name!r} of the kernel {kernel.name!r} is {wanted}, got {kind}")
    return list(zip(buffers, types, strict=True))
