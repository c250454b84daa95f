"""``annotate`` and ``unannotate``: keys and values of blocks and loops."""

from __future__ import annotations

import warnings

from tirlower.diagnostics import BadArgument
from tirlower.ir.func import PrimFunc
from tirlower.ir.stmt import Block, For
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.blocks.promises import may_come, may_go
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.sites import Change, Edit, Forward
from tirlower.schedule.step import Step

__all__ = ["ANNOTATE", "UNANNOTATE"]


def _annotated(step: Step) -> For | Block:
    stmt = step.stmt(step.handle("block_or_loop"))
    if isinstance(stmt, PrimFunc):
        step.refuse("a function without blocks has no root block that could be annotated")
    assert isinstance(stmt, (For, Block))
    return stmt


def _with(step: Step, stmt: For | Block, annotations: dict[str, object]) -> Change:
    new = stmt.with_(annotations=annotations)
    forward = Forward()
    forward.keep(stmt, new)
    return Change(Edit(step.site(step.handle("block_or_loop")), new), forward, relabel={})


def _plain(step: Step, value: object) -> object:
    """A value with the numbers of the schedule's expressions put in."""
    if isinstance(value, (list, tuple)):
        return [_plain(step, one) for one in value]
    if isinstance(value, dict):
        return {str(key): _plain(step, one) for key, one in value.items()}
    return step.number(value)


def _may_come(step: Step) -> Verdict:
    stmt, key = _annotated(step), str(step["ann_key"])
    return PROVED if key in stmt.annotations else may_come(step, stmt, key, _plain(step, step["ann_val"]))


def _may_go(step: Step) -> Verdict:
    return may_go(step, _annotated(step), str(step["ann_key"]))


def _annotate(step: Step) -> Change:
    stmt, key = _annotated(step), str(step["ann_key"])
    if key in stmt.annotations:
        warnings.warn(f"the annotation {key!r} keeps its value {stmt.annotations[key]!r}", stacklevel=6)
        return Change()
    return _with(step, stmt, {**stmt.annotations, key: _plain(step, step["ann_val"])})


def _unannotate(step: Step) -> Change:
    stmt, key = _annotated(step), str(step["ann_key"])
    if key not in stmt.annotations:
        raise BadArgument(
            f"there is no annotation {key!r}", help=f"it has: {', '.join(map(repr, stmt.annotations)) or 'none'}"
        )
    return _with(step, stmt, {name: value for name, value in stmt.annotations.items() if name != key})


ANNOTATE = Kind(
    "Annotate",
    "annotate",
    (
        Slot("block_or_loop", Takes.LOOP_OR_BLOCK),
        Slot("ann_key", Takes.STRING, attr=True),
        Slot("ann_val", Takes.VALUE),
    ),
    _annotate,
    """Annotate a block or a loop. A key that is there keeps its value, and a warning says so.

    Always legal, but for keys that promise something, which then is proved: ``tir.reduction`` (the updates that iterations have in
    common may be made in another order), ``software_pipeline_stage``, ``_order`` and ``_async_stages``, ``explicit_read_region`` and
    ``explicit_write_region``; ``tir.unchecked`` makes the step one on the user's word.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         A[i] = 1
    ... '''))
    >>> sch.annotate(sch.loop("i"), "hint", [1, 2])
    >>> dict(sch.get(sch.loop("i")).annotations)
    {'hint': (1, 2)}
    """,
    check=_may_come,
)
UNANNOTATE = Kind(
    "Unannotate",
    "unannotate",
    (Slot("block_or_loop", Takes.LOOP_OR_BLOCK), Slot("ann_key", Takes.STRING, attr=True)),
    _unannotate,
    """Take an annotation from a block or a loop, on which the loop's kind does not rest. Raises BadArgument where there is none of that key.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32")):
    ...     for i in T.serial(4, annotations={"hint": 1}):
    ...         A[i] = 1
    ... '''))
    >>> sch.unannotate(sch.loop("i"), "hint")
    >>> dict(sch.get(sch.loop("i")).annotations)
    {}
    """,
    check=_may_go,
)
