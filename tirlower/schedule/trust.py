"""What is believed where a verdict is "unknown": declared regions of blocks about opaque calls, letters of their iterators."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from tirlower.ir import build
from tirlower.ir.buffer import BufferRegion
from tirlower.ir.expr import BufferLoad, Call, Expr, StringImm, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import StmtMutator
from tirlower.ir.op import Op
from tirlower.ir.stmt import Block, BufferStore, Evaluate, For, ForKind, Stmt, seq
from tirlower.poly.verdict import Verdict
from tirlower.schedule.conditions import violated
from tirlower.schedule.regions import has_opaque_call, is_opaque_call

if TYPE_CHECKING:
    from tirlower.schedule.step import Step

__all__ = ["believed", "by_regions"]

_BY_REGIONS = frozenset(
    {
        "Bind",
        "Blockize",
        "Fission",
        "FuseSiblings",
        "Interchange",
        "Merge",
        "Parallel",
        "Reorder",
        "ReorderStmts",
        "Reverse",
        "TransformBlockLayout",
        "Vectorize",
    }
)
"""The steps that leave calls as they are, at other times: what moves values would have to move those of the calls too."""

_BY_AXES = frozenset({"Reorder", "Parallel", "Vectorize", "Bind"})
"""The steps that iterators say something about."""


def believed(step: Step, verdict: Verdict, judge: Callable[[Step], Verdict]) -> str:
    """On whose word a step may be taken that is not known to be legal; nothing where on none's.

    With ``trust=("regions",)`` an opaque call touches what its block declares and nothing else; with "axes" spatial iterators are
    independent and the order of reduction iterators is free. Neither is believed where a verdict refutes.
    """
    if not verdict.unknown:
        return ""
    if "regions" in step.policy.trust and step.kind.name in _BY_REGIONS:
        mod, names = step.state.mod, dict[str, None]()
        for name, func in mod.items():
            made = by_regions(func, names)
            if made is not func:
                mod = mod.with_func(name, made)
        if mod is not step.state.mod:
            other = step.other(step.kind, **step.values)
            other.state = dataclasses.replace(step.state, mod=mod)
            if judge(other).proved:
                step.exactness = other.exactness
                return f"the regions of {', '.join(map('`{}`'.format, names))}"
    if "axes" in step.policy.trust and step.kind.name in _BY_AXES:
        blocks = _blocks(step)
        if blocks and not violated(step):
            return f"the iterators of {', '.join(dict.fromkeys(f'`{one.name}`' for one in blocks))}"
    return ""


def _blocks(step: Step) -> list[Block]:
    """The blocks in the loops of a step; none where something is in no block."""
    handles = step.handles("ordered_loops") if step.kind.name == "Reorder" else [step.handle("loop")]
    found: list[Block] = []
    stack: list[Stmt] = [step.loop(one) for one in handles]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, Block) and stmt.iters:
            found.append(stmt)
        elif isinstance(stmt, (BufferStore, Evaluate)):
            return []
        else:
            stack += [one for one in stmt.children() if isinstance(one, Stmt)]
    return found


def by_regions(func: PrimFunc, names: dict[str, None]) -> PrimFunc:
    """A function whose opaque calls in blocks are loads and stores of all that the blocks declare; ``names`` gets the blocks'.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... def f(A: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         with T.block("A"):
    ...             vi = T.axis.spatial(4, i)
    ...             T.reads()
    ...             T.writes(A[vi])
    ...             T.evaluate(T.call_extern("int32", "fill", T.address_of(A[vi])))
    ... ''')
    >>> names = {}
    >>> "call_extern" in str(by_regions(func, names)), list(names)
    (False, ['A'])
    """
    if not has_opaque_call(func.body):
        return func
    return func.with_(body=_ByRegions(names).visit(func.body))


class _ByRegions(StmtMutator):
    def __init__(self, names: dict[str, None]) -> None:
        self.names = names
        self.around: list[Block] = []

    def visit_Block(self, op: Block) -> Stmt:
        self.around.append(op)
        made = self.generic(op)
        self.around.pop()
        return made

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        if not self.around or not self.around[-1].iters or not is_opaque_call(op):
            return op
        block = self.around[-1]
        self.names[block.name] = None
        return seq([*_touched(block.reads, block, False), *_touched(block.writes, block, True)])


def _touched(regions: Sequence[BufferRegion], block: Block, writes: bool) -> Iterator[Stmt]:
    """A nest for each region that loads, or stores, each of its elements."""
    for region in regions:
        loops = [Var(f"r{at}", part.extent.dtype) for at, part in enumerate(region.region)]
        indices = [
            build.add(part.min, build.cast(part.min.dtype, var)) for part, var in zip(region.region, loops, strict=True)
        ]
        load = BufferLoad(region.buffer, tuple(indices))
        stmt: Stmt = Evaluate(load)
        if writes:
            stmt = BufferStore(region.buffer, _some_value(load, block, loops), tuple(indices))
        for var, part in zip(loops[::-1], region.region[::-1], strict=True):
            stmt = For(var, const(0, var.dtype), part.extent, ForKind.SERIAL, None, {}, stmt)
        yield stmt


def _some_value(load: BufferLoad, block: Block, loops: Sequence[Var]) -> Expr:
    """A value of which nothing is known, another one in each instance."""
    return Call(_PURE, (StringImm("value"), *(it.var for it in block.iters), *loops), load.dtype)


_PURE = Op.get("tir.call_pure_extern")
