"""Prim funcs as kernels of a graph: what they are given beside tensors, and what they give back."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.graph.core.dims import extent_expr
from tirlower.graph.core.nodes import TensorType
from tirlower.graph.errors import GraphError
from tirlower.ir import Bind, Buffer, BufferLoad, Expr, IntImm, PrimFunc, Var
from tirlower.ir.dtype import HANDLE
from tirlower.ir.query import each
from tirlower.ir.stmt import seq

__all__ = ["closed", "from_tensors", "numbers_of"]


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


def numbers_of(kernel: PrimFunc, types: Sequence[TensorType]) -> dict[Var, Expr]:
    """The values of a kernel's symbolic extents, from the types of its tensors, results included.

    Raises :class:`GraphError` where a tensor does not fit, or a scalar parameter is no extent.

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
    buffers = [kernel.buffer_map[p] for p in kernel.params if p in kernel.buffer_map]
    if len(buffers) != len(types):
        names = ", ".join(b.name for b in buffers)
        raise GraphError(
            f"the kernel {kernel.name!r} takes {len(buffers)} tensors ({names}), results included, got {len(types)}"
        )
    found: dict[Var, Expr] = {}
    for buffer, kind in zip(buffers, types, strict=True):
        wanted = f"{buffer.dtype!s}[{', '.join(map(str, buffer.shape))}]"
        if buffer.dtype != kind.dtype or len(buffer.shape) != len(kind.shape):
            raise GraphError(f"{buffer.name!r} of the kernel {kernel.name!r} is {wanted}, got {kind}")
        for extent, given in zip(buffer.shape, kind.shape, strict=True):
            if isinstance(extent, Var):
                found.setdefault(extent, extent_expr(given))
            elif isinstance(extent, IntImm) and isinstance(given, int) and extent.value != given:
                raise GraphError(f"{buffer.name!r} of the kernel {kernel.name!r} is {wanted}, got {kind}")
    for param in closed(kernel).params:
        if param not in kernel.buffer_map and param not in found:
            raise GraphError(
                f"{param.name!r} of the kernel {kernel.name!r} is no extent of a tensor: nothing says its value",
                help="give it as a tensor without axes",
            )
    return found


def from_tensors(kernel: PrimFunc, scalars: Sequence[Var], at: int) -> PrimFunc:
    """A prim func that reads some of its scalars from tensors without axes, its parameters behind the first ``at``."""
    kept = [p for p in kernel.params if p not in scalars]
    buffers = [Buffer(f"{one.name}_value", (), one.dtype) for one in scalars]
    handles = [Var(buffer.name, HANDLE) for buffer in buffers]
    binds = [Bind(one, BufferLoad(buffer, ())) for one, buffer in zip(scalars, buffers, strict=True)]
    given = dict(zip(handles, buffers, strict=True))
    order = (*kept[:at], *handles, *kept[at:])
    places = {**kernel.buffer_map, **given}
    return kernel.with_(
        params=order, buffer_map={p: places[p] for p in order if p in places}, body=seq([*binds, kernel.body])
    )
