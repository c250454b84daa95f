"""What an annotation promises, where its key has a promise: it is proved before the key is put on, and before one is taken off
on which something rests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tirlower.analysis.pipeline_plan import (
    ASYNC,
    ORDER,
    STAGE,
    PipelineStage,
    check_dependences,
    read_annotations,
    summarize,
)
from tirlower.diagnostics import BadArgument
from tirlower.ir.annotations import BUFFER_DIM_ALIGN, EXPLICIT_READ, EXPLICIT_WRITE, REDUCTION, UNCHECKED
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.expr import IntImm
from tirlower.ir.stmt import AllocBuffer, AllocConst, Block, For, ForKind, Seq, Stmt
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.loops.lanes import exactness_of_partials
from tirlower.schedule.step import Step

__all__ = ["may_come", "may_go"]

Asked = Callable[[Step, "For | Block", str, object], Verdict]


def may_come(step: Step, stmt: For | Block, key: str, value: object) -> Verdict:
    """Whether what a key says with a value is true of a loop or block. Raises where it makes no sense there."""
    asked = PROMISES.get(key)
    return PROVED if asked is None else asked(step, stmt, key, value)


def may_go(step: Step, stmt: For | Block, key: str) -> Verdict:
    """Whether a loop is what its kind says without a key."""
    if (
        not isinstance(stmt, For)
        or key not in (REDUCTION, UNCHECKED)
        or stmt.kind in (ForKind.SERIAL, ForKind.UNROLLED)
    ):
        return PROVED
    reductions = key != REDUCTION and bool(stmt.annotations.get(REDUCTION))
    return _concurrent(step, stmt, reductions)


def _concurrent(step: Step, loop: For, reductions: bool) -> Verdict:
    site = step.site(step.handle("block_or_loop"))
    return step.facts.concurrent(
        step.func(site), site.steps, loop, loop.kind, loop.thread_tag or "", reductions=reductions
    )


def _loop(step: Step, stmt: For | Block, key: str) -> For:
    if not isinstance(stmt, For):
        step.refuse(f"{key!r} is about a loop", stmt)
    return stmt


def _block(step: Step, stmt: For | Block, key: str) -> Block:
    if not isinstance(stmt, Block):
        step.refuse(f"{key!r} is about a block", stmt)
    return stmt


def _reduction(step: Step, stmt: For | Block, key: str, value: object) -> Verdict:
    """The updates that iterations have in common may be made in another order, with partial results."""
    loop = _loop(step, stmt, key)
    if not value:
        return PROVED
    site = step.site(step.handle("block_or_loop"))
    carried = step.facts.carried(step.func(site), site.steps, loop)
    kind = ForKind.PARALLEL if loop.kind is ForKind.SERIAL else loop.kind
    found = step.facts.concurrent(step.func(site), site.steps, loop, kind, loop.thread_tag or "", reductions=True)
    if found.proved:
        step.exactness = exactness_of_partials(carried)
    return found


def _unchecked(step: Step, stmt: For | Block, key: str, value: object) -> Verdict:
    """The kind of a loop is taken on the user's word, so that this step is."""
    _loop(step, stmt, key)
    if not isinstance(value, str) or not value:
        raise BadArgument(f"{key!r} gives the reason, a string, got {value!r}")
    step.said = "unchecked"
    step.notes.append(value)
    return PROVED


def _numbers(key: str, value: object) -> list[int]:
    given = list(value) if isinstance(value, (list, tuple)) else [None]
    found = [int(one.value) if isinstance(one, IntImm) else one for one in given]
    if not all(isinstance(one, int) and not isinstance(one, bool) and one >= 0 for one in found):
        raise BadArgument(f"{key!r} is a list of numbers that are not negative, got {value!r}")
    return [one for one in found if isinstance(one, int)]


def _pipeline(step: Step, stmt: For | Block, key: str, value: object) -> Verdict:
    """Nothing is used at an earlier time than it is made at, as InjectSoftwarePipeline asks when it knows stages and order."""
    loop = _loop(step, stmt, key)
    _numbers(key, value)
    loop = loop.with_(annotations={**loop.annotations, key: value})
    if STAGE not in loop.annotations or ORDER not in loop.annotations:
        return PROVED
    parts, own = _parts(loop.body)
    stages, order, apart = read_annotations(loop, len(parts))
    analyzer = step.analyzer(step.site(step.handle("block_or_loop")))
    analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
    made = [
        PipelineStage(part, at, stages[at], order[at], summarize(part, analyzer), stages[at] in apart)
        for at, part in enumerate(parts)
    ]
    check_dependences(loop, made, own, analyzer)
    return PROVED


def _parts(body: Stmt) -> tuple[list[Stmt], set[Buffer]]:
    """The statements of a loop's body, and the buffers that each iteration has of its own."""
    while isinstance(body, Block):
        body = body.body
    found: list[Stmt] = []
    own: set[Buffer] = set()
    for stmt in body.stmts if isinstance(body, Seq) else (body,):
        if isinstance(stmt, (AllocBuffer, AllocConst)):
            own.add(stmt.buffer)
        else:
            found.append(stmt)
    return found, own


def _async(step: Step, stmt: For | Block, key: str, value: object) -> Verdict:
    """The stages that may go on by themselves are stages."""
    loop, numbers = _loop(step, stmt, key), _numbers(key, value)
    stages = _numbers(STAGE, loop.annotations[STAGE]) if STAGE in loop.annotations else []
    wrong = [one for one in numbers if one not in stages]
    if wrong:
        raise BadArgument(
            f"{key!r} names stage {wrong[0]}, and the loop's stages are {sorted(set(stages)) or 'not said'}",
            help=f"annotate {STAGE!r} first",
        )
    return PROVED


def _explicit(step: Step, stmt: For | Block, key: str, value: object) -> Verdict:
    """The regions of these numbers are declared as the user wants them."""
    block, numbers = _block(step, stmt, key), _numbers(key, value)
    regions = block.reads if key == EXPLICIT_READ else block.writes
    if any(one >= len(regions) for one in numbers):
        raise BadArgument(f"{key!r} names regions 0 to {len(regions) - 1} of the block, got {numbers}")
    return PROVED


def _align(step: Step, stmt: For | Block, key: str, value: object) -> Verdict:
    """Strides of buffers that are allocated, which ``storage_align`` asks for with all that has to hold."""
    _block(step, stmt, key)
    step.refuse(f"{key!r} lays a buffer out anew", stmt, "storage_align does, and asks what has to hold")


PROMISES: Final[dict[str, Asked]] = {
    REDUCTION: _reduction,
    UNCHECKED: _unchecked,
    STAGE: _pipeline,
    ORDER: _pipeline,
    ASYNC: _async,
    EXPLICIT_READ: _explicit,
    EXPLICIT_WRITE: _explicit,
    BUFFER_DIM_ALIGN: _align,
}
"""The keys that promise something."""
