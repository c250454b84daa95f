"""The option ``tir.scalar_overflow``: whether a pass takes arithmetic on data, scalar parameters included, to wrap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tirlower.analysis.overflow import DataAnalyzer, Wrapping
from tirlower.arith import Analyzer
from tirlower.arith.bounds import is_index_type
from tirlower.ir.data import data_parameters
from tirlower.ir.expr import BufferLoad, Call
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.stmt import Bind, Stmt
from tirlower.rewrite.context import PassContext

__all__ = ["analyzer_of", "building", "scalars_wrap"]

_BUILDING: ContextVar[bool | None] = ContextVar("tirlower_building", default=None)
"""None: a pass called by hand. Else a pipeline runs, on a module that has data or has none."""


@contextmanager
def building(mod: IRModule) -> Iterator[None]:
    """Inside, passes take arithmetic on data to wrap, scalar parameters included, unless ``tir.scalar_overflow`` says
    otherwise."""
    functions = [func for _, func in mod.items() if isinstance(func, PrimFunc)]
    token = _BUILDING.set(any(_holds_data(func) for func in functions))
    try:
        yield
    finally:
        _BUILDING.reset(token)


def _holds_data(func: PrimFunc) -> bool:
    """Whether a function computes with integers that are data."""
    if data_parameters(func):
        return True
    found = False

    def look(op: Any) -> bool:
        nonlocal found
        if op.__class__ is BufferLoad or op.__class__ is Call:
            found = found or is_index_type(op.dtype)
        return not found

    pre_order_visit(func.body, look)
    return found


def scalars_wrap() -> bool:
    """Whether arithmetic on scalar parameters wraps: in a pipeline it does, in a pass called by hand (as in TIR) it does
    not, and ``tir.scalar_overflow`` chooses."""
    chosen = PassContext.current().option("tir.scalar_overflow")
    return _BUILDING.get() is not None if chosen == "auto" else chosen == "wrap"


def analyzer_of(func: PrimFunc | None) -> tuple[Analyzer, Wrapping]:
    """The analyzer of a pass over a function, and what it says of wrapping."""
    wraps = scalars_wrap()
    data = data_parameters(func) if func is not None and wraps else ()
    if func is None or not wraps or (_BUILDING.get() is False and not data):
        analyzer = Analyzer()
        wrapping = Wrapping(analyzer)
    else:
        analyzer = DataAnalyzer(data)
        wrapping = analyzer.wrapping
        _know_bound(func, wrapping)
    wrapping.keeps_errors = wraps
    return analyzer, wrapping


def _know_bound(func: PrimFunc, wrapping: Wrapping) -> None:
    """What a function's statements bind to data is data, for passes that do not follow bindings too."""

    left: list[Any] = [func.body]
    while left:  # statements alone, in order: this runs in most passes
        op = left.pop()
        if op.__class__ is Bind:
            if op.var.dtype.is_int and wrapping.is_data(op.value):
                wrapping.data.add(op.var)
        else:
            left += [child for child in op.children() if isinstance(child, Stmt)][::-1]
