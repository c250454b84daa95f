"""What a software pipeline is made of: the annotations, the statements with their stages, and whether that is legal.

Statement ``a`` of iteration ``i`` runs at time ``i + stage(a)``, those of one time in the order given. A dependence from
``(a, i)`` to ``(b, i + d)`` is kept if ``stage(a) < d + stage(b)``, or if these are equal and ``a`` comes first.
"""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.analysis.access_summary import Access, Box, Summarizer, Summary, disjoint
from tirlower.arith import Analyzer
from tirlower.diagnostics import Label, TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Var, const
from tirlower.ir.functor import substitute
from tirlower.ir.stmt import For, Stmt

__all__ = [
    "ASYNC",
    "ORDER",
    "STAGE",
    "PipelineStage",
    "check_dependences",
    "read_annotations",
    "summarize",
    "versions_of",
]

STAGE = "software_pipeline_stage"
ORDER = "software_pipeline_order"
ASYNC = "software_pipeline_async_stages"
ORIGIN = "tir.InjectSoftwarePipeline"


@dataclass(eq=False)
class PipelineStage:
    """A statement of the pipelined body: its place in the program, its stage, its order, what it accesses."""

    stmt: Stmt
    position: int
    stage: int
    order: int
    summary: Summary
    is_async: bool = False

    @property
    def opaque(self) -> bool:
        """Whether it may do anything to memory, as far as can be seen."""
        return self.summary.opaque or bool(self.summary.pointers)

    def describe(self) -> str:
        """How errors name it."""
        return f"statement {self.position} (stage {self.stage}, order {self.order})"


def _numbers(loop: For, key: str) -> list[int]:
    value = loop.annotations[key]
    values = list(value) if isinstance(value, tuple) else [value]
    numbers = [n for v in values if isinstance(n := getattr(v, "value", v), int) and not isinstance(n, bool) and n >= 0]
    if len(numbers) != len(values):
        raise TransformError(
            f"the annotation {key!r} of loop {loop.loop_var.name!r} is a list of numbers from 0 on, got {value!r}",
            origin=ORIGIN,
            span=loop.span,
        )
    return numbers


def read_annotations(loop: For, count: int) -> tuple[list[int], list[int], list[int]]:
    """The stages, orders and asynchronous stages of a loop whose body has ``count`` statements.

    Raises :class:`TransformError` where one of the first two is missing, has another length, or an order repeats.
    """
    for key, other in ((STAGE, ORDER), (ORDER, STAGE)):
        if key not in loop.annotations:
            raise TransformError(
                f"the pipelined loop {loop.loop_var.name!r} has {other!r} but no {key!r}",
                origin=ORIGIN,
                span=loop.span,
                help=f"annotate it with both, one number for each of its {count} statements",
            )
    stages, orders = _numbers(loop, STAGE), _numbers(loop, ORDER)
    for key, numbers in ((STAGE, stages), (ORDER, orders)):
        if len(numbers) != count:
            raise TransformError(
                f"the pipelined loop {loop.loop_var.name!r} has {count} statements, but {key!r} has {len(numbers)}",
                origin=ORIGIN,
                span=loop.span,
                help="give one number for each statement, those of nested sequences included",
            )
    if len(set(orders)) != count:
        raise TransformError(
            f"the order of the pipelined loop {loop.loop_var.name!r} repeats a number: {orders}",
            origin=ORIGIN,
            span=loop.span,
            help="order numbers are distinct: they say which statement comes first at one time",
        )
    return stages, orders, _numbers(loop, ASYNC) if ASYNC in loop.annotations else []


def _conflicts(a: Summary, b: Summary, own: set[Buffer]) -> list[tuple[Access, Access]]:
    """Pairs of accesses to memory that both touch and one writes; ``own`` buffers are new in each iteration."""
    pairs = []
    for x, y in (
        *((w, r) for w in a.writes for r in (*b.reads, *b.writes)),
        *((r, w) for r in a.reads for w in b.writes),
    ):
        if x.buffer.data is y.buffer.data and x.buffer not in own:
            pairs.append((x, y))
    return pairs


def _apart(analyzer: Analyzer, a: Access, b: Access) -> bool:
    return a.buffer is b.buffer and disjoint(analyzer, a.box, b.box)


def _moved(access: Access, var: Var, by: int) -> Access:
    """An access some iterations later."""
    later = {var: build.add(var, const(by, var.dtype))}
    box: Box = tuple(
        type(part)(
            None if part.min_value is None else substitute(part.min_value, later),
            None if part.max_value is None else substitute(part.max_value, later),
        )
        for part in access.box
    )
    return Access(access.buffer, box)


def check_dependences(loop: For, stages: list[PipelineStage], own: set[Buffer], analyzer: Analyzer) -> None:
    """Raise :class:`TransformError` where the pipeline would turn a dependence round.

    ``own`` are the buffers allocated in the body: each iteration has its own, so only an iteration's statements depend
    on each other through them. Different buffers are taken not to overlap: the annotations ask for the reordering.
    """
    for a in stages:
        for b in stages:
            if a.position < b.position:
                _check_same_iteration(loop, a, b, analyzer)
            if a.stage <= b.stage:
                continue  # a later iteration of b is later in the pipeline too
            if a.opaque or b.opaque:
                _refuse(loop, a, b, 1, "either may do anything")
            for x, y in _conflicts(a.summary, b.summary, own):
                for distance in range(1, a.stage - b.stage + 1):
                    kept = distance == a.stage - b.stage and a.order < b.order
                    if not kept and not _apart(analyzer, x, _moved(y, loop.loop_var, distance)):
                        _refuse(loop, a, b, distance, f"both access {x.buffer.name!r}")


def _check_same_iteration(loop: For, a: PipelineStage, b: PipelineStage, analyzer: Analyzer) -> None:
    if (a.stage, a.order) < (b.stage, b.order):
        return
    opaque = a.opaque or b.opaque
    shared = [x for x, y in _conflicts(a.summary, b.summary, set()) if not _apart(analyzer, x, y)]
    if not shared and not opaque:
        return
    through = f"through {shared[0].buffer.name!r}" if shared else "since one may do anything"
    if a.stage > b.stage:
        message = f"{b.describe()} cannot depend on {a.describe()}, which is in a later stage ({through})"
        help = "give the later statement at least the stage of what it depends on"
    else:
        message = f"{b.describe()} depends on {a.describe()} ({through}), but is ordered before it in one stage"
        help = "statements of one stage that depend on each other keep their order"
    raise TransformError(
        f"the pipeline of loop {loop.loop_var.name!r} is illegal: {message}",
        origin=ORIGIN,
        labels=[Label(a.stmt.span, "this runs first in the program"), Label(b.stmt.span, "and this after it")],
        help=help,
    )


def _refuse(loop: For, a: PipelineStage, b: PipelineStage, distance: int, why: str) -> None:
    raise TransformError(
        f"the pipeline of loop {loop.loop_var.name!r} is illegal: {b.describe()} of an iteration depends on "
        f"{a.describe()} {distance} iteration{'s' if distance > 1 else ''} before ({why}), but would run earlier",
        origin=ORIGIN,
        labels=[Label(a.stmt.span, "must come first"), Label(b.stmt.span, "would be moved before it")],
        help="give both one stage, or order the first one before the second",
    )


def versions_of(buffer: Buffer, stages: list[PipelineStage], analyzer: Analyzer) -> int:
    """How many copies a buffer of the body needs: the stages from its first write to its last use.

    Two copies are not needed where every later use comes before the next write at its time, or touches other elements.
    """
    uses = [s for s in stages if any(a.buffer.data is buffer.data for a in (*s.summary.reads, *s.summary.writes))]
    writers = [s for s in uses if any(w.buffer.data is buffer.data for w in s.summary.writes)]
    if not writers:
        return 1
    count = max(s.stage for s in uses) - min(s.stage for s in writers) + 1
    if count != 2:
        return max(count, 1)
    for writer in writers:
        for reader in uses:
            if writer.order < reader.order and writer.stage < reader.stage:
                if any(
                    x.buffer.data is buffer.data and not _apart(analyzer, x, y)
                    for x, y in _conflicts(writer.summary, reader.summary, set())
                ):
                    return 2
    return 1


def summarize(stmt: Stmt, analyzer: Analyzer) -> Summary:
    """What a statement of the body accesses, the pipelined loop's variable left as it is."""
    return Summarizer(analyzer).of(stmt)
