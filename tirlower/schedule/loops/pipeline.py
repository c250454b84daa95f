"""``pipeline``: the statements of a loop's body in stages, which run for different iterations at one time."""

from __future__ import annotations

from tirlower.analysis.pipeline_plan import (
    ASYNC,
    ORDER,
    STAGE,
    PipelineStage,
    check_dependences,
    read_annotations,
    summarize,
)
from tirlower.arith import Analyzer
from tirlower.diagnostics import BadArgument
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.expr import IntImm, is_const_int
from tirlower.ir.functor import Mutator, substitute
from tirlower.ir.splice import jumps_out
from tirlower.ir.stmt import AllocBuffer, Bind, Block, BufferStore, DeclBuffer, For, ForKind, IfThenElse, Seq, Stmt
from tirlower.poly.dataflow import covers
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.loops.bounds import bounds_stay
from tirlower.schedule.memory.caches import has_blocks
from tirlower.schedule.places import allocation_of, reading, writing
from tirlower.schedule.sites import Change, Edit, Forward, Site
from tirlower.schedule.step import Step

__all__ = ["PIPELINE"]


class _Opened(Mutator):
    """Blocks as the statements that they are lowered to: iterators are their values, the init stands in front."""

    def visit_Block(self, op: Block) -> Stmt:
        """The body of a block."""
        values = {it.var: it.value for it in op.iters if it.value is not None}
        parts = [substitute(part, values) for part in (op.init, op.body) if part is not None]
        made: Stmt = Seq(tuple(self.visit(part) for part in parts)) if len(parts) > 1 else self.visit(parts[0])
        return made if is_const_int(op.predicate, 1) else IfThenElse(op.predicate, made)


def _statements(step: Step, loop: For) -> list[Stmt]:
    """The statements that have stages."""
    if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
        step.refuse(f"the iterations of `{loop.loop_var.name}` run in no order", loop, "pipeline a serial loop")
    if isinstance(loop.extent, IntImm) and loop.extent.value <= 1:
        step.refuse(f"`{loop.loop_var.name}` has no iterations that could run at one time", loop)
    body = loop.body
    if not isinstance(body, Seq):
        step.refuse(
            "a pipeline has at least two statements",
            loop,
            "stage an operand in the loop: stage_mem, cache_read, compute_at",
        )
    if jumps_out(body):
        step.refuse("the loop is left early, and a pipeline runs all of its iterations", loop)
    found: list[Stmt] = []
    for stmt in body.stmts:
        if isinstance(stmt, (Bind, DeclBuffer)):
            step.refuse("the body binds a name or declares a view", stmt, "bind it in the statement that uses it")
        if not isinstance(stmt, AllocBuffer):
            found.append(stmt)
    return found


def _plan(step: Step) -> tuple[Site, For, dict[str, object]]:
    """The loop with its place, and the annotations. Raises :class:`BadArgument` for numbers that mean nothing."""
    handle = step.handle("loop")
    site, loop = step.site(handle), step.loop(handle)
    stmts, stages, order = _statements(step, loop), _numbers(step, "stages"), step["order"]
    orders = [*range(len(stmts))] if order is None else _numbers(step, "order")
    for word, numbers in (("stages", stages), ("order", orders)):
        if len(numbers) != len(stmts):
            raise BadArgument(f"{word}= has {len(numbers)} numbers, and the loop {len(stmts)} statements")
    if sorted(orders) != [*range(len(stmts))]:
        raise BadArgument(f"order={orders} is no order of {len(stmts)} statements")
    annotations: dict[str, object] = {**loop.annotations, STAGE: tuple(stages), ORDER: tuple(orders)}
    if step["async_"]:
        annotations[ASYNC] = tuple(sorted({one for one in stages if one < max(stages)}))
    return site, loop, annotations


def _numbers(step: Step, word: str) -> list[int]:
    given = step[word]
    assert isinstance(given, (list, tuple))
    if any(isinstance(one, bool) or not isinstance(one, int) or one < 0 for one in given):
        raise BadArgument(f"{word}={given!r} is a list of numbers from 0 on")
    return [*given]


def _check(step: Step) -> Verdict:
    """What the pass will ask (:mod:`tirlower.analysis.pipeline_plan`): no dependence on an earlier stage is turned round."""
    site, loop, annotations = _plan(step)
    bounds_stay(step, [loop])
    annotated = loop.with_(annotations=annotations)
    stmts = _statements(step, loop)
    stages, orders, _ = read_annotations(annotated, len(stmts))
    analyzer: Analyzer = step.analyzer(site)
    analyzer.bind(loop.loop_var, Range(loop.min, loop.extent))
    made = [
        PipelineStage(stmt, at, stages[at], orders[at], summarize(_Opened().visit(stmt), analyzer))
        for at, stmt in enumerate(stmts)
    ]
    check_dependences(annotated, made, _own(step, site, loop), analyzer)
    return PROVED


def _own(step: Step, site: Site, loop: For) -> set[Buffer]:
    """The buffers that are new in each iteration: those allocated in it; in a program of blocks, whose allocations stand at the root until they are
    lowered, those too that are used in the loop alone and written there before they are read."""
    func, body = step.func(site), (*site.steps, "body")
    inside = step.facts.inside(loop)
    own = {stmt.buffer for _, stmt in inside if isinstance(stmt, AllocBuffer)}
    if not has_blocks(func):
        return own
    scop = step.facts.scop(func)
    for buffer in {stmt.buffer for _, stmt in inside if isinstance(stmt, BufferStore)} - own:
        uses = [way for way, _ in (*reading(step.facts, func, buffer), *writing(step.facts, func, buffer))]
        if allocation_of(step.facts, func, buffer) is None or any(way[: len(body)] != body for way in uses):
            continue
        mine = [one for one in scop.accesses if one.data is buffer.data]
        reads = [one for one in mine if not one.is_write]
        if covers(scop, [one for one in mine if one.is_write], reads, loop).proved:
            own.add(buffer)
    return own


def _rewrite(step: Step) -> Change:
    site, loop, annotations = _plan(step)
    made, forward = loop.with_(annotations=annotations), Forward()
    forward.keep(loop, made)
    return Change(Edit(site, made), forward)


PIPELINE = Kind(
    "Pipeline",
    "pipeline",
    (
        Slot("loop", Takes.LOOP),
        Slot("stages", Takes.INTEGERS, attr=True),
        Slot("order", Takes.INTEGERS, default=None, attr=True),
        Slot("async_", Takes.FLAG, default=False, attr=True),
    ),
    _rewrite,
    """Let the statements of a loop's body run in stages: one of stage ``s`` works ``s`` iterations behind, so that what it needs was begun before.

    ``stages``: a number for each statement; ``order``: which comes first at one time. With ``async_`` the copies of all but the last stage may go on by
    themselves. Legal where no statement depends on one of a later stage, or of an earlier iteration that would run later. The loop is annotated
    (``software_pipeline_stage`` …); buffers get as many versions as their stages are apart when it is lowered.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
    ...     for i in range(16):
    ...         B = T.alloc_buffer((1,), "float32")
    ...         B[0] = A[i] * T.float32(2)
    ...         C[i] = B[0] + T.float32(1)
    ... '''))
    >>> sch.pipeline("i", [0, 1])
    >>> dict(sch.get(sch.loop("i")).annotations)
    {'software_pipeline_stage': (0, 1), 'software_pipeline_order': (0, 1)}
    """,
    check=_check,
    tvm=False,
)
