"""Loops and blocks by where they stand in a schedule now, as selectors that a trace keeps."""

from __future__ import annotations

from tirlower.autoschedule.verbs import Verbs
from tirlower.diagnostics import NotFound
from tirlower.ir.func import PrimFunc
from tirlower.ir.query import statements
from tirlower.ir.stmt import Block, BufferStore, For, IfThenElse
from tirlower.schedule.handles import LoopRV

__all__ = ["block_in", "loop_in", "other_case"]


def loop_in(sch: Verbs, outer: LoopRV, name: str) -> LoopRV:
    """The first loop of a name inside of another one. Raises :class:`NotFound`.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8, 4), "int32")):
    ...     for i, j in T.grid(8, 4):
    ...         A[i, j] = 1
    ... '''))
    >>> first, second = sch.loop_partition("i", [2])
    >>> sch.get(loop_in(sch, second, "j")) is sch.get(sch.loop("j#1"))
    True
    """
    func = sch.mod["main"]
    assert isinstance(func, PrimFunc)
    around = sch.get(outer)
    assert isinstance(around, For)
    inside = {id(stmt) for stmt in statements(around.body)}
    same = [stmt for stmt in statements(func.body) if isinstance(stmt, For) and stmt.loop_var.name == name]
    at = next((number for number, stmt in enumerate(same) if id(stmt) in inside), None)
    if at is None:
        raise NotFound(f"no loop {name!r} stands in `{around.loop_var.name}`")
    return sch.loop(name if len(same) == 1 else f"{name}#{at}")


def other_case(sch: Verbs, loop: LoopRV) -> LoopRV:
    """The loop that stands for one in the other case of the condition around it. Raises :class:`NotFound`.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((64,), "int32"), n: T.int32):
    ...     for i in range(n):
    ...         A[i] = i
    ... '''))
    >>> sch.specialize(sch.loop("i"), "n > 8")
    >>> sch.get(other_case(sch, sch.loop("i#0"))) is sch.get(sch.loop("i#1"))
    True
    """
    func = sch.mod["main"]
    assert isinstance(func, PrimFunc)
    node = sch.get(loop)
    assert isinstance(node, For)
    loops = [
        stmt for stmt in statements(func.body) if isinstance(stmt, For) and stmt.loop_var.name == node.loop_var.name
    ]
    for stmt in statements(func.body):
        if isinstance(stmt, IfThenElse) and stmt.then_case is node and stmt.else_case is not None:
            at = next((number for number, one in enumerate(loops) if one is stmt.else_case), None)
            if at is not None:
                return sch.loop(f"{node.loop_var.name}#{at}")
    raise NotFound(f"`{node.loop_var.name}` is no case of a condition")


def block_in(sch: Verbs, outer: LoopRV) -> str | None:
    """The name of the only block with stores and no block in it that stands in a loop; None where there is none, or several."""
    around = sch.get(outer)
    assert isinstance(around, For)
    found = [
        stmt.name
        for stmt in statements(around.body)
        if isinstance(stmt, Block)
        and not any(isinstance(inner, Block) for inner in statements(stmt.body))
        and any(isinstance(inner, BufferStore) for inner in statements(stmt.body))
    ]
    return found[0] if len(found) == 1 else None
