"""The update that instructions for dot products compute: a product of two short elements added to an element of 32 bits."""

from __future__ import annotations

from typing import Final

from tirlower.ir.expr import Add, BufferLoad, Call, Cast, Expr, Mul
from tirlower.ir.op import Op
from tirlower.ir.stmt import BufferStore
from tirlower.ir.structural import structural_equal

__all__ = ["short_factors"]

_FMA: Final = Op.get("tir.fma")
_KINDS: Final = {"int32": ("int8", "uint8", "int16"), "float32": ("bfloat16",)}
"""Types of sums, and those of the factors of what is added to them."""


def short_factors(store: BufferStore) -> tuple[BufferLoad, BufferLoad] | None:
    """The loads whose product a store adds to what stands in its element, each widened before; None for another update.

    >>> from tirlower.ir.query import each
    >>> from tirlower.script import parse
    >>> func = parse('''
    ... def f(A: T.Buffer((4,), "int8"), B: T.Buffer((4,), "uint8"), C: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         C[i] = C[i] + T.Cast("int32", A[i]) * T.Cast("int32", B[3 - i])
    ... ''')
    >>> [str(load) for load in short_factors(next(each(BufferStore, func.body)))]
    ['A[i]', 'B[3 - i]']
    """
    value, kind = store.value, str(store.buffer.dtype)
    sums: list[tuple[Expr, Expr, Expr]] = []
    if isinstance(value, Call) and value.op is _FMA:
        sums.append((value.args[2], value.args[0], value.args[1]))
    elif isinstance(value, Add):
        for old, product in ((value.a, value.b), (value.b, value.a)):
            if isinstance(product, Mul):
                sums.append((old, product.a, product.b))
    for old, *factors in sums:
        if not isinstance(old, BufferLoad) or old.buffer is not store.buffer or old.predicate is not None:
            continue
        if not all(structural_equal(mine, other) for mine, other in zip(old.indices, store.indices, strict=True)):
            continue
        loads = [_widened(one, kind) for one in factors]
        if None not in loads and len({one.buffer.dtype.is_bfloat16 for one in loads if one is not None}) == 1:
            a, b = loads
            assert a is not None and b is not None
            return a, b
    return None


def _widened(value: Expr, kind: str) -> BufferLoad | None:
    """The load of a short element, of which the value is one of the type of the sum."""
    if not isinstance(value, Cast) or str(value.dtype) != kind or not isinstance(value.value, BufferLoad):
        return None
    load = value.value
    if load.predicate is not None or any(index.dtype.is_vector for index in load.indices):
        return None
    return load if str(load.buffer.dtype) in _KINDS.get(kind, ()) else None
