"""The asynchronous stages of a software pipeline: which statements commit together, and how long others wait.

Each asynchronous stage has a queue. The statements of one stage that follow each other in the order form a group; a
group commits once for each iteration. A statement that reads what a queue's stage writes waits until at most so many
of the queue's latest commits are under way that none of them is one that it needs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce

from tirlower.analysis.access_summary import Access
from tirlower.analysis.pipeline_plan import PipelineStage
from tirlower.arith import Analyzer
from tirlower.ir import build
from tirlower.ir.expr import Expr, Var, const
from tirlower.ir.query import each
from tirlower.ir.stmt import For
from tirlower.ir.structural import structural_equal

__all__ = ["Instance", "Queues"]


@dataclass(eq=False)
class Instance:
    """A statement at one time of the pipeline: its iteration, whether that exists, its (queue, commits under way)."""

    of: PipelineStage
    index: Expr
    inside: Expr
    waits: list[tuple[int, Expr]] = field(default_factory=list)


class Queues:
    """The queues of a pipeline; ``stages`` are its statements in their order, ``versions`` the copies of the buffers
    allocated in its body."""

    def __init__(self, stages: list[PipelineStage], loop: For, versions: dict[Var, int]) -> None:
        self.stages = stages
        self.loop = loop
        self.versions = versions
        self.groups: dict[int, list[list[PipelineStage]]] = {}
        previous: PipelineStage | None = None
        for stage in stages:
            if stage.is_async:
                groups = self.groups.setdefault(stage.stage, [])
                if previous is None or previous.stage != stage.stage or _depends(stage, groups[-1]):
                    groups.append([])
                groups[-1].append(stage)
            previous = stage if stage.is_async else None

    def commit_groups(self, present: list[Instance]) -> list[list[Instance]]:
        """The instances of one time, those that commit together in one list.

        Groups stay apart where what stands between them has no iteration yet: every group commits for each iteration.
        """
        found: list[list[Instance]] = []
        for instance in present:
            together = next((g for g in self.groups.get(instance.of.stage, ()) if instance.of in g), ())
            if found and found[-1][-1].of in together:
                found[-1].append(instance)
            else:
                found.append([instance])
        return found

    def place_waits(self, present: list[Instance], var: Var | None, analyzer: Analyzer) -> None:
        """Give each instance its waits; ``var`` is the loop around this time.

        The first that waits for a queue does so for those after it too, until the queue commits again.
        """
        waiting: dict[int | None, Instance] = {}
        for instance in present:
            own = instance.of.stage if instance.of.is_async else None
            waiting.pop(own, None)
            for queue in sorted(self.groups):
                count = self._under_way(instance, queue, var, analyzer)
                if count is None:
                    continue
                first = waiting.get(queue)
                if first is None or not structural_equal(first.inside, instance.inside):
                    waiting[queue] = instance
                    instance.waits.append((queue, count))
                    continue
                at = next(i for i, (known, _) in enumerate(first.waits) if known == queue)
                first.waits[at] = (queue, analyzer.simplify(build.min_(first.waits[at][1], count)))
            waiting.pop(own, None)  # it commits

    def _under_way(self, instance: Instance, queue: int, var: Var | None, analyzer: Analyzer) -> Expr | None:
        """How many commits of a queue may be under way when an instance starts; None if it needs none of them.

        The commits after the last one needed, of all groups; and not more than those that came after its own need in
        each group that it needs (which is all that TIR counts). None of iterations that do not exist.
        """
        groups = self.groups[queue]
        # Which iteration each group has come to, and which one is needed of it, counted from the instance's own.
        heads = [instance.of.stage - queue - (0 if group[0].order < instance.of.order else 1) for group in groups]
        needs = {
            at: heads[at] - ahead
            for at, group in enumerate(groups)
            if (ahead := self._ahead(instance.of, group)) is not None
        }
        if not needs:
            return None
        dtype = instance.index.dtype
        left = build.sub(build.sub(build.add(self.loop.min, self.loop.extent), 1), instance.index)

        def after(at: int, need: int) -> Expr:
            return build.sub(build.min_(const(heads[at], dtype), left), need)

        counts = [sum((after(at, need) for at, need in needs.items()), const(0, dtype))]
        for needed, need in needs.items():
            later = len(groups) - 1 - needed
            counts.append(sum((after(at, need) for at in range(len(groups))), const(later, dtype)))
        count = analyzer.simplify(build.max_(reduce(build.min_, counts), 0))
        # A queue is asked for a number known before the program runs (once short loops are unrolled): else for all.
        return count if _only_mentions(count, var) else const(0, dtype)

    def _ahead(self, stage: PipelineStage, group: list[PipelineStage]) -> int | None:
        """How many iterations a group may be ahead of the one that a statement needs; None where it needs none.

        It needs its own iteration's for what the group writes, and for what it overwrites after the group has read it;
        in a buffer of the body with so many copies, before the group reads it, that of so many iterations before. What lies outside the body may come from any
        iteration before: all that were begun must have ended.
        """
        issued = stage.stage - group[0].stage - (0 if group[0].order < stage.order else 1)
        reads, writes = _data(stage.summary.reads), _data(stage.summary.writes)
        found: list[int] = []
        for other in group:
            if other is not stage or not reads.isdisjoint(_data(other.summary.writes)):
                for data in (reads | writes) & _data(other.summary.writes):
                    if data not in self.versions:
                        found.append(min(issued, 0) if stage in group else issued)
                    elif stage not in group:
                        found.append(issued)
            if other is not stage:
                for data in writes & _data(other.summary.reads):
                    # A statement further down read this copy the last time that it was in use.
                    found.append(issued + (self.versions.get(data, 0) if other.position > stage.position else 0))
        return max(min(found), 0) if found else None


def _data(accesses: list[Access]) -> set[Var]:
    return {access.buffer.data for access in accesses}


def _depends(stage: PipelineStage, group: list[PipelineStage]) -> bool:
    """Whether a statement needs what a group writes, or writes what it uses: it may not start while that is under way."""
    reads, writes = _data(stage.summary.reads), _data(stage.summary.writes)
    for other in group:
        written = _data(other.summary.writes)
        if not (reads | writes).isdisjoint(written) or not writes.isdisjoint(_data(other.summary.reads)):
            return True
    return False


def _only_mentions(expr: Expr, var: Var | None) -> bool:
    return all(op is var for op in each(Var, expr))
