"""The option ``tir.scalar_overflow``: whether a pass takes arithmetic on data, scalar parameters included, to wrap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Flag, auto

from tirlower.analysis.data_analyzer import DataAnalyzer
from tirlower.analysis.overflow import Wrapping
from tirlower.analysis.word_reach import WordReach
from tirlower.arith import Analyzer
from tirlower.arith.bounds import is_index_type
from tirlower.ir.buffer import IterVar
from tirlower.ir.data import data_parameters
from tirlower.ir.expr import BufferLoad, Call, Cast, Expr, IntImm, Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.query import each, statements
from tirlower.ir.stmt import Bind, For
from tirlower.rewrite.context import PassContext

__all__ = ["analyzer_of", "building", "scalars_wrap"]


class _Wraps(Flag):
    """What may wrap in a module that a pipeline runs on."""

    NOTHING = 0
    DATA = auto()
    WORDS = auto()
    """Index arithmetic, past 64 bits."""


_LARGE = 1 << 31

_BUILDING: ContextVar[_Wraps | None] = ContextVar("tirlower_building", default=None)
"""None: a pass called by hand."""


@contextmanager
def building(mod: IRModule) -> Iterator[None]:
    """Inside, passes take arithmetic on data to wrap, scalar parameters included, unless ``tir.scalar_overflow`` says
    otherwise; and so they take index arithmetic past 64 bits."""
    functions = [func for _, func in mod.items() if isinstance(func, PrimFunc)]
    data = _Wraps.DATA if any(map(_holds_data, functions)) else _Wraps.NOTHING
    token = _BUILDING.set(data | (_Wraps.WORDS if any(map(_leaves_words, functions)) else _Wraps.NOTHING))
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


def _leaves_words(func: PrimFunc) -> bool:
    """Whether index arithmetic of a function may leave 64 bits, where it wraps as data does."""
    if any(not -_LARGE <= number.value <= _LARGE for number in each(IntImm, func.body)):
        return True  # a condition may say of a variable that it is as far
    reach: dict[Var, int] = {}
    words = WordReach(reach.get)
    for op in statements(func.body):
        if any(words.leaving(part) for part in op.children() if isinstance(part, Expr)):
            return True
        if isinstance(op, For):
            reach[op.loop_var] = words.of(op.min) + words.of(op.extent)
        elif isinstance(op, IterVar) and op.dom is not None:
            reach[op.var] = words.of(op.dom.min) + words.of(op.dom.extent)
        elif isinstance(op, Bind):
            reach[op.var] = words.of(op.value)
    return False


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
    known = _BUILDING.get()
    if func is None or not wraps or (known is _Wraps.NOTHING and not _integers(data)):
        analyzer = Analyzer()
        wrapping = Wrapping(analyzer)
    else:
        analyzer = DataAnalyzer(data, words=known is None or _Wraps.WORDS in known)
        wrapping = analyzer.wrapping
        _know_bound(func, wrapping)
    wrapping.keeps_errors = wraps
    return analyzer, wrapping


def _know_bound(func: PrimFunc, wrapping: Wrapping) -> None:
    """What a function's statements bind to what wraps wraps, for passes that do not follow bindings too."""
    for op in statements(func.body):
        if op.__class__ is Bind and not op.var.dtype.is_handle:
            wrapping.note(op.var, op.value)
