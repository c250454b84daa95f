"""Numbers with which one more update of a reduction changes something: what the refusal of a filled-in value shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from tirlower.diagnostics import TirError
from tirlower.interp import interpret
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Expr, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.query import each
from tirlower.ir.stmt import BufferStore
from tirlower.ir.structural import structural_equal
from tirlower.schedule.draft import mapped

__all__ = ["example"]


def example(store: BufferStore, is_filled: Callable[[BufferLoad], bool], filler: float, any_old: bool = True) -> str:
    """An old value, and values of what is not filled, with which an update where all else is the filler gives another value;
    "" where none is found, or the update computes with more than loads. Unless it may be ``any_old`` value, the old one is 1.

    >>> from tirlower.script import parse
    >>> update = parse('''
    ... def f(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((1,), "float32")):
    ...     C[0] = C[0] + A[0] * B[0]
    ... ''').body
    >>> example(update, lambda load: load.buffer.name == "A", 0, any_old=False)
    'where B[0] is inf, 1.0 in C[0] becomes nan'
    """
    own = BufferLoad(store.buffer, store.indices)
    others = {str(load): load for load in each(BufferLoad, store.value)}
    shown = [text for text, load in others.items() if not is_filled(load) and not structural_equal(load, own)]
    for old, other in _values(store.buffer, bool(shown), any_old):
        made = _updated(store, own, is_filled, filler, old, other)
        if made is not None and repr(made) != repr(old):
            where = f"where {' and '.join(shown)} {'are' if len(shown) > 1 else 'is'} {other}, " if shown else ""
            return f"{where}{old} in {own} becomes {made}"
    return ""


def _values(buffer: Buffer, others: bool, any_old: bool) -> Iterator[tuple[float, float]]:
    if not buffer.dtype.is_float:
        yield from ((old, other) for other in ((1, 2, -1) if others else (0,)) for old in ((1, 0) if any_old else (1,)))
        return
    for other in (1.0, math.inf, math.nan) if others else (0.0,):
        yield from ((old, other) for old in ((1.0, -0.0, math.nan) if any_old else (1.0,)))


def _updated(
    store: BufferStore,
    own: BufferLoad,
    is_filled: Callable[[BufferLoad], bool],
    filler: float,
    old: float,
    other: float,
) -> float | None:
    """What the update makes of an old value; None where it is not computed."""

    def replace(before: BufferLoad, _: BufferLoad) -> Expr:
        value = old if structural_equal(before, own) else filler if is_filled(before) else other
        return const(value, before.dtype)

    try:
        value = mapped(store.value, replace)
        if any(True for _ in each(Var, value)):
            return None
        out = Buffer("out", (const(1, "int32"),), store.buffer.dtype)
        result = np.zeros(1, str(store.buffer.dtype))
        interpret(PrimFunc([out], body=BufferStore(out, value, (0,))), result)  # type: ignore[arg-type]
    except (TirError, ValueError, TypeError, OverflowError):
        return None  # a type that NumPy has not, a division by zero
    found: float = result[0].item()
    return found
