"""Several iterations of a serial loop side by side, each with partial results of its own.

An addition waits for the one before: a loop that adds a vector in each iteration takes an addition's latency for it, though
the processor could begin several. So iteration ``i`` adds to the lanes of chain ``i % 4``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tirlower.arith import Analyzer
from tirlower.ir import build
from tirlower.ir.annotations import NO_UNROLL
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Call, Expr, IntImm, Var, const
from tirlower.ir.functor import pre_order_visit, substitute
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.refresh import refresh_binders
from tirlower.ir.splice import jumps_out, returns
from tirlower.ir.stmt import AllocBuffer, Assert, Bind, For, ForKind, IfThenElse, Seq, Stmt, While
from tirlower.rewrite.reductions.partials import Dim, LanePartials, Redirect

__all__ = ["chains_of", "interleaved"]

#: so many vector additions in flight hide an addition's latency
_CHAINS: Final = 4
#: bytes of all the partial results of a loop: a quarter of the registers with AVX-512, half of them with AVX2
_BYTES: Final = 256
#: a loop of fewer iterations ends before it gains what combining the chains costs
_LEAST_ITERATIONS: Final = 2 * _CHAINS
#: nodes of a body up to which it is copied; a larger one has enough to do while an addition waits
_MOST_NODES: Final = 120
#: calls that are an instruction or two; elementary functions take longer than an addition waits
_CHEAP: Final = frozenset(Op.get(f"tir.{name}") for name in ("if_then_else", "likely", "fma", "fabs", "reinterpret"))


def chains_of(loop: For, body: Stmt, partials: Sequence[LanePartials]) -> int:
    """How many iterations of a serial loop may accumulate side by side; 1 where it stays as it is.

    It depends on the program alone, so that the order of additions does.
    """
    if loop.kind is not ForKind.SERIAL or loop.annotations or not partials:
        return 1
    if isinstance(loop.extent, IntImm) and loop.extent.value < _LEAST_ITERATIONS:
        return 1
    parts = [part for partial in partials for part in partial.parts]
    if not all(part.acc.buffer.dtype.is_float and all(dim.single for dim in part.dims) for part in parts):
        return 1
    if jumps_out(body) or returns(body) or not _is_short(body):
        return 1
    used = sum(partial.lanes * part.buffer.dtype.bytes for partial in partials for part in partial.parts)
    return max(min(_CHAINS, _BYTES // used), 1)


def _is_short(body: Stmt) -> bool:
    """Whether a body has vectorized loops alone, a few operations, and no calls that take long.

    Guards do not count: how much is proved shall not decide on an order.
    """
    nodes = 0
    plain = True

    def look(op: Node) -> bool:
        nonlocal nodes, plain
        if isinstance(op, Assert):
            return False
        nodes += not (isinstance(op, Expr) and op.is_leaf)
        loops = isinstance(op, While) or (isinstance(op, For) and op.kind is not ForKind.VECTORIZED)
        if loops or isinstance(op, AllocBuffer) or (isinstance(op, Call) and op.op not in _CHEAP):
            plain = False
        return plain

    pre_order_visit(body, look)
    return plain and nodes <= _MOST_NODES


def interleaved(
    loop: For, body: Stmt, partials: Sequence[LanePartials], chains: int, analyzer: Analyzer
) -> tuple[Stmt, list[LanePartials]]:
    """The loop in rounds of ``chains`` iterations, and its partial results with as many times the lanes.

    The iterations keep their order, and what else they do.
    """
    dtype = loop.loop_var.dtype
    chain = Var("chain", dtype)
    moved: list[LanePartials] = []
    targets: dict[Var, tuple[Buffer, Sequence[Dim], Callable[[Sequence[Expr]], tuple[Expr, ...]]]] = {}
    for partial in partials:
        first = build.mul(chain, const(partial.lanes, dtype))
        parts = []
        for part in partial.parts:
            old = part.buffer
            wide = Buffer(old.name, (const(chains * partial.lanes),), old.dtype, scope=old.scope)
            parts.append(replace(part, buffer=wide))
            lane = Dim(const(0), const(partial.lanes), partial.lanes)
            targets[old.data] = (wide, (lane,), lambda at, first=first: (build.add(first, at[0]),))  # type: ignore[misc]
        moved.append(replace(partial, parts=tuple(parts), lanes=chains * partial.lanes))
    body = Redirect(targets, analyzer).visit(body)

    turn = Var(loop.loop_var.name, dtype)
    before: list[Stmt] = []
    count = analyzer.simplify(build.max_(loop.extent, const(0, dtype)))
    if not isinstance(count, IntImm):
        trips = Var(f"{loop.loop_var.name}_trips", dtype)
        before.append(Bind(trips, count))
        count = trips
    width = const(chains, dtype)
    rounds, rest = build.floordiv(count, width), build.floormod(count, width)

    def side_by_side(first: Expr, several: Expr, guard: Expr | None = None) -> Stmt:
        place = analyzer.simplify(build.add(loop.min, build.add(build.mul(first, width), chain)))
        if first is turn and isinstance(loop.min, IntImm):
            iteration = substitute(body, {loop.loop_var: place})
        else:
            # A loop variable is exact in products that data (the trips, say) wraps in, and stays one where it is noted.
            notes: dict[str, object] = {NO_UNROLL: True}
            iteration = For(loop.loop_var, place, const(1, dtype), ForKind.SERIAL, None, notes, body)
        guarded = iteration if guard is None else IfThenElse(guard, iteration)
        return refresh_binders(For(chain, const(0, dtype), several, ForKind.UNROLLED, None, {}, guarded))

    steps: list[Stmt] = [loop.with_(loop_var=turn, min=const(0, dtype), extent=rounds, body=side_by_side(turn, width))]
    if not isinstance(rest, IntImm):
        steps.append(side_by_side(rounds, const(chains - 1, dtype), build.lt(chain, rest)))
    elif rest.value:
        steps.append(side_by_side(rounds, rest))
    return Seq((*before, *steps)), moved
