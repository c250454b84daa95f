"""The loops of a program as a tree, with what a person wants to know of each to choose the next step."""

from __future__ import annotations

from collections.abc import Iterator

from tirlower.diagnostics import TirError
from tirlower.ir.expr import IntImm
from tirlower.ir.func import PrimFunc
from tirlower.ir.stmt import Block, BufferStore, For, ForKind, Stmt
from tirlower.poly import footprint
from tirlower.poly.isl import isl
from tirlower.schedule.edits import Steps
from tirlower.schedule.facts import Facts

__all__ = ["tree"]


def tree(func: PrimFunc, facts: Facts) -> str:
    """A line for each loop, block and store: extent and kind of a loop, whether its iterations may run at once or what they
    carry, and how many bytes of each buffer one iteration touches.
    """
    return "\n".join(_lines(func, facts, func.body, ("body",), 0))


def _lines(func: PrimFunc, facts: Facts, stmt: Stmt, steps: Steps, depth: int) -> Iterator[str]:
    said = _said(func, facts, stmt, steps)
    if said:
        yield "  " * depth + said
        depth += 1
    for name in stmt.child_names:
        value = getattr(stmt, name)
        if isinstance(value, Stmt):
            yield from _lines(func, facts, value, (*steps, name), depth)
        elif isinstance(value, tuple):
            for at, one in enumerate(value):
                if isinstance(one, Stmt):
                    yield from _lines(func, facts, one, (*steps, name, at), depth)


def _said(func: PrimFunc, facts: Facts, stmt: Stmt, steps: Steps) -> str:
    if isinstance(stmt, Block):
        return f"block {stmt.name}"
    if isinstance(stmt, BufferStore):
        uses = facts.uses(stmt)
        return f"{stmt.buffer.name} = {', '.join(buffer.name for buffer in uses.reads) or 'constants'}"
    if not isinstance(stmt, For):
        return ""
    words = [f"{stmt.loop_var.name}: {stmt.extent}"]
    if stmt.kind is not ForKind.SERIAL:
        words.append(stmt.thread_tag or stmt.kind.value)
    words.append(_carried(func, facts, stmt, steps))
    sizes = [f"{name} {size} B" for name, size in _bytes(func, facts, stmt, steps)]
    return "  ".join([*words, *([", ".join(sizes)] if sizes else [])])


def _carried(func: PrimFunc, facts: Facts, loop: For, steps: Steps) -> str:
    """Whether the iterations of a loop depend on each other, and through what."""
    found = facts.concurrent(func, steps, loop, ForKind.PARALLEL)
    if found.proved:
        return "independent"
    if found.witness is not None:
        what = found.witness.source.buffer
        return f"carries {found.reduction or what}" if found.refuted else f"may carry {what}"
    return "may depend" if found.unknown else "dependent"


def _bytes(func: PrimFunc, facts: Facts, loop: For, steps: Steps) -> Iterator[tuple[str, int]]:
    """The bytes of each buffer that one iteration touches, where that is a number."""
    scop, uses = facts.part(func, steps), facts.uses(loop)
    for buffer in dict.fromkeys((*uses.reads, *uses.writes)):
        try:
            extents = footprint(scop, buffer, loop).extents
        except (TirError, ImportError, isl.Error):  # the last one: of unknown size
            continue
        size = buffer.dtype.bytes * buffer.dtype.lanes
        for extent in extents:
            if not isinstance(extent, (int, IntImm)):
                break
            size *= int(extent.value) if isinstance(extent, IntImm) else extent
        else:
            yield buffer.name, size
