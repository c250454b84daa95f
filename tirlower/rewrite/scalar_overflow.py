"""The option ``tir.scalar_overflow``: whether a pass takes arithmetic on data, scalar parameters included, to wrap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tirlower.analysis.overflow import DataAnalyzer, Wrapping
from tirlower.arith import Analyzer
from tirlower.arith.bounds import is_index_type
from tirlower.ir.data import data_parameters
from tirlower.ir.expr import BufferLoad, Call, Cast, Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.query import each, statements
from tirlower.ir.stmt import Bind
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
    if _integers(data_parameters(func)):
        return True
    return any(
        is_index_type(op.dtype) and not (isinstance(op, Cast) and is_index_type(op.value.dtype))
        for op in each((BufferLoad, Call, Cast), func.body)
    )


def _integers(data: Iterable[Var]) -> bool:
    """Whether integers are among the data."""
    return any(var.dtype.is_integral for var in data)


def scalars_wrap() -> bool:
    """Whether arithmetic on scalar parameters wraps: in a pipeline it does, in a pass called by hand (as in TIR) it does
    not, and ``tir.scalar_overflow`` chooses."""
    chosen = PassContext.current().option("tir.scalar_overflow")
    return _BUILDING.get() is not None if chosen == "auto" else chosen == "wrap"


def analyzer_of(func: PrimFunc | None) -> tuple[Analyzer, Wrapping]:
    """The analyzer of a pass over a function, and what it says of wrapping."""
    wraps = scalars_wrap()
    data = data_parameters(func) if func is not None and wraps else ()
    if func is None or not wraps or (_BUILDING.get() is False and not _integers(data)):
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
    for op in statements(func.body):
        if op.__class__ is Bind and not op.var.dtype.is_handle and wrapping.is_data(op.value):
            wrapping.data.add(op.var)
