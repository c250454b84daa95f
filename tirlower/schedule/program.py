"""The program that a schedule gives to be compiled: what its functions rely on since their instances run otherwise."""

from __future__ import annotations

from tirlower.ir.annotations import IN_PLACE, NOALIAS, STRIDES_APART, SUMS_APART
from tirlower.ir.expr import IntImm
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.poly.in_place import in_place
from tirlower.rewrite.reductions.chains import sums_of_updates
from tirlower.rewrite.reductions.recurrences import apart_by_memory, sums_apart
from tirlower.schedule.state import Record, State

__all__ = ["program_of"]

_IN_ORDER = frozenset(
    {
        "AddUnitLoop",
        "Annotate",
        "Bind",
        "EnterPostproc",
        "Fuse",
        "Parallel",
        "Peel",
        "Split",
        "Unannotate",
        "Unroll",
    }
)
"""The steps after which all instances run in their order, once, or as loops run that stay serial where arrays overlap. Lanes do not: they
all load before one of them stores."""


def _in_order(record: Record) -> bool:
    kind = record.instruction.kind
    repeats = record.instruction.extra.get("tail") == "shift"
    return kind.is_pure or (kind.name in _IN_ORDER and not repeats)


def _as_written(func: PrimFunc, origin: PrimFunc | None) -> PrimFunc:
    """A function with what it relies on, and what its old loops decided."""
    if NOALIAS not in func.attrs:
        func = func.with_attr(NOALIAS, True)
        pairs = in_place(origin) if origin is not None else ()
        if pairs:
            func = func.with_attr(IN_PLACE, pairs)
    if STRIDES_APART not in func.attrs and any(
        not isinstance(stride, IntImm) for buffer in func.buffers for stride in buffer.strides
    ):
        func = func.with_attr(STRIDES_APART, True)
    if origin is not None and SUMS_APART not in func.attrs:
        sums, apart = sums_of_updates(origin.body), set(map(id, sums_apart(origin.body)))
        of = {id(operation) in apart for operation in sums}
        if len(of) == 1:
            func = func.with_attr(SUMS_APART, of.pop())
        elif of:
            func = func.with_attr(SUMS_APART, apart_by_memory(origin.body))
    return func


def program_of(state: State) -> IRModule:
    """The module of a moment; functions whose instances run in another order, or elsewhere, say what they rely on."""
    mod, first = state.mod, state.first.mod
    if all(map(_in_order, state.records())):
        return mod
    changed = {
        name: _as_written(func, first.functions.get(name))
        for name, func in mod.functions.items()
        if func is not first.functions.get(name)
    }
    return IRModule({**mod.functions, **changed}, mod.attrs)
