"""Loops that stand side by side: where they do, and what they must have in common to run in step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tirlower.diagnostics import BadArgument
from tirlower.ir.expr import BufferLoad, Call
from tirlower.ir.query import has
from tirlower.ir.stmt import For, ForKind, Seq, Stmt, seq
from tirlower.schedule.handles import Handle
from tirlower.schedule.sites import Site
from tirlower.schedule.step import Step

__all__ = ["Siblings", "need_alike", "said", "siblings_of"]


@dataclass
class Siblings:
    """Loops in statements of one sequence: its place, their numbers in it, and for each the loops from the statement down
    to it."""

    site: Site
    node: Seq
    numbers: list[int]
    chains: list[list[For]]

    def with_last(self, made: Stmt) -> Stmt:
        """The sequence with the last of the loops replaced, and the others gone."""
        stmts = [
            made if at == self.numbers[-1] else stmt
            for at, stmt in enumerate(self.node.stmts)
            if at not in self.numbers[:-1]
        ]
        return seq(stmts)


def siblings_of(step: Step, handles: Sequence[Handle]) -> Siblings:
    """Where loops stand beside each other, in the order of the text. Refused where they do not."""
    sites = [step.site(handle) for handle in handles]
    loops = [step.loop(handle) for handle in handles]
    if len(set(loops)) < len(loops):
        raise BadArgument("a loop is named twice")
    ways = [site.steps for site in sites]
    common = 0
    while all(len(way) > common and way[common] == ways[0][common] for way in ways):
        common += 1
    numbers = [way[common] if len(way) > common else None for way in ways]
    parent = step.chain(Site(sites[0].func, ways[0][: common - 1]))[-1] if common > 1 else None
    apart = all(isinstance(number, int) for number in numbers) and len(set(numbers)) == len(numbers)
    if len({site.func for site in sites}) > 1 or not isinstance(parent, Seq) or not apart:
        step.refuse(
            "the loops do not stand beside each other in one sequence of statements",
            loops[-1],
            "loops that stand in each other are fused, or reordered",
        )
    found: list[int] = []
    for number, loop in zip(numbers, loops, strict=True):
        if not isinstance(number, int) or (found and number < found[-1]):
            step.refuse(f"the loop `{loop.loop_var.name}` comes before another one", loop, "name them in their order")
        found.append(number)
    chains: list[list[For]] = []
    for number, loop in zip(found, loops, strict=True):
        chain: list[For] = []
        stmt: Stmt = parent.stmts[number]
        while isinstance(stmt, For):
            chain.append(stmt)
            if stmt is loop:
                break
            stmt = stmt.body
        if not chain or chain[-1] is not loop:
            step.refuse(
                f"there is more than loops around `{loop.loop_var.name}` in its statement", stmt, "name an outer loop"
            )
        chains.append(chain)
    return Siblings(Site(sites[0].func, ways[0][: common - 1]), parent, found, chains)


def need_alike(step: Step, loops: Sequence[For]) -> None:
    """Refuse loops that cannot run as one: of different kinds or annotations, bound to threads, left early."""
    first = loops[0]
    for loop in loops:
        name = loop.loop_var.name
        if loop.kind is not first.kind or dict(loop.annotations) != dict(first.annotations):
            step.refuse(
                f"the loops `{first.loop_var.name}` and `{name}` are of different kinds or annotations: {said(first)} "
                f"and {said(loop)}",
                loop,
                "put the loops together first, and annotate what they became",
            )
        if loop.kind is ForKind.THREAD_BINDING:
            step.refuse(f"the loop `{name}` is bound to {loop.thread_tag}", loop, "bind afterwards")
        if has((BufferLoad, Call), loop.min, loop.extent):
            step.refuse(f"the bounds of the loop `{name}` read memory", loop, "store them in scalars first")


def said(loop: For) -> str:
    """The kind and annotations of a loop."""
    return f"{loop.kind.value}, {dict(loop.annotations)}" if loop.annotations else loop.kind.value
