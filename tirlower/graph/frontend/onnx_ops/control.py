"""Graphs inside nodes: inlined and unrolled where what they depend on is known while importing, else choices and loops."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tirlower.graph.core.dims import Extent
from tirlower.graph.core.nodes import Graph, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_ops.items import Item
from tirlower.graph.frontend.onnx_ops.model import OnnxGraph
from tirlower.graph.frontend.onnx_ops.table import Call, Inside, row
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.ir import Expr

__all__ = ["with_row"]

_MOST_TRIPS = 10_000
"""A loop of more trips stays a loop."""
_MOST_NODES = 20_000
"""A loop whose trips have more nodes than these, loops inside unrolled too, stays a loop."""


def _truth(item: Item) -> bool | None:
    """A condition, where it is known."""
    contents = item.contents
    if contents is None or contents.size != 1:
        return None
    found = contents.reshape(-1)[0]
    return found if isinstance(found, bool) else None


def _scalar(b: GraphBuilder, value: Value, what: str) -> Value:
    """A tensor of one element without its axes."""
    if not value.shape:
        return value
    if any(extent != 1 for extent in value.shape if isinstance(extent, int)):
        raise GraphError(f"{what} is one element, got {value.type}")
    return b.op("reshape", value, shape=())


# Choices


@row("If", "then_branch else_branch")
def _if(c: Call) -> Sequence[Item | Value]:
    chosen = _truth(c.item(0))
    if chosen is not None:
        return c.home.run(c.graph("then_branch" if chosen else "else_branch"), {})
    then, then_results = _way(c, "then_branch", [])
    other, other_results = _way(c, "else_branch", then.captured)
    for value in other.captured:
        then.capture(value)
    graphs = then.builder.finish(then_results), other.builder.finish(other_results)
    return c.b.if_(_scalar(c.b, c.value(0), "the condition of If"), *graphs, *other.captured)


def _way(c: Call, name: str, before: Sequence[Value]) -> tuple[Inside, list[Value]]:
    inside = c.home.inside(name)
    for value in before:
        inside.capture(value)
    return inside, [item.as_value(inside.builder) for item in inside.run(c.graph(name), {})]


# Loops


@row("Loop", "body")
def _loop(c: Call) -> Sequence[Item | Value]:
    body = c.graph("body")
    carried = [c.item(n) for n in range(2, len(c))]
    if len(body.inputs) != len(carried) + 2 or len(body.outputs) < len(carried) + 1:
        raise GraphError(
            f"the body of Loop has {len(body.inputs)} inputs and {len(body.outputs)} results, which do not fit"
        )
    trips = _trips(c)
    again = _truth(c.item(1)) if c.has(1) else True
    unrolled = None
    if again is not None and not isinstance(trips, (Value, Expr)):
        unrolled = _unrolled(c, body, carried, again, trips)
    return unrolled if unrolled is not None else _repeated(c, body, carried, trips, again is True)


def _trips(c: Call) -> Extent | Value | None:
    """The number of trips: known, an expression of dims, by data, or not limited."""
    if not c.has(0):
        return None
    if c.item(0).contents is None:
        return _scalar(c.b, c.value(0), "the number of trips of Loop")
    found = c.extents(0, "the number of trips")
    if len(found) != 1:
        raise GraphError(f"the number of trips of Loop is one element, got {len(found)}")
    return found[0]


def _unrolled(
    c: Call, body: OnnxGraph, carried: list[Item], again: bool, trips: int | None
) -> Sequence[Item | Value] | None:
    """The results, one trip behind the other; None where a condition depends on data, or there are too many trips.

    What the trips before that have made is read by nobody then, and goes as other dead code does.
    """
    if trips is not None and trips > _MOST_TRIPS:
        return None
    collected: list[list[Item]] = [[] for _ in range(len(body.outputs) - 1 - len(carried))]
    if collected and (not again or (trips is not None and trips < 1)):
        return None  # a loop knows the shape of what it collects without making a trip
    condition = Item.of_array(np.array(True))
    trip, before = 0, c.home.nodes
    while again and (trips is None or trip < trips):
        if trip >= _MOST_TRIPS:
            raise GraphError(f"Loop has more than {_MOST_TRIPS} trips: it is not unrolled")
        if c.home.nodes - before > _MOST_NODES:
            return None
        given = [Item.of_array(np.array(trip, np.int64)), condition, *carried]
        made = c.home.run(body, dict(zip(body.inputs, given, strict=True)))
        known = _truth(made[0])
        if known is None:
            return None
        again = known
        for old, new in zip(carried, made[1:], strict=False):
            if len(old.shape) != len(new.shape):
                raise GraphError(f"what Loop carries changes its shape: {old.shape} and {new.shape}")
        carried = made[1 : 1 + len(carried)]
        for several, one in zip(collected, made[1 + len(carried) :], strict=True):
            several.append(one)
        trip += 1
    stacks = [c.op("stack", *[one.as_value(c.b) for one in several], axis=0) for several in collected]
    return [*carried, *stacks]


def _repeated(
    c: Call, body: OnnxGraph, carried: list[Item], trips: Extent | Value | None, again_at_first: bool
) -> Sequence[Value]:
    """The results of a loop that stays one; it carries the trip, the condition, what the model carries, what it reads of
    the graph around, and the rows that are collected."""
    b = c.b
    first = [
        b.const(np.array(0, np.int64), "trip"),
        _scalar(b, c.value(1), "the condition of Loop") if c.has(1) else b.const(np.array(True), "again"),
        *(item.as_value(b) for item in carried),
    ]
    inside = c.home.inside("body")
    inner = inside.builder
    names = ["trip", "again", *list(body.inputs)[2:]]
    formal = [inner.param(name or "x", v.shape, v.dtype) for name, v in zip(names, first, strict=True)]
    # The body runs only while the condition holds.
    given = [Item.of_value(formal[0]), Item.of_array(np.array(True)), *map(Item.of_value, formal[2:])]
    made = inside.run(body, dict(zip(body.inputs, given, strict=True)))
    endless = _truth(made[0]) is True
    if endless and trips is None:
        raise GraphError("Loop never ends once it runs: its condition always holds, and nothing limits its trips")
    condition = formal[1] if endless else _scalar(inner, made[0].as_value(inner), "the condition of Loop")
    results = [inner.op("add", formal[0], 1), condition]
    results += [item.as_value(inner) for item in made[1 : 1 + len(carried)]]
    if isinstance(trips, Value):
        inside.capture(trips)
    captured = inside.captured
    results += [inside.capture(v) for v in captured]
    known = trips if endless and again_at_first and isinstance(trips, (int, Expr)) else None
    rows: list[Value] = []
    for n, item in enumerate(made[1 + len(carried) :]):
        one = item.as_value(inner)
        extent = c.room(len(carried) + n) if known is None else known
        rows.append(b.op("full", shape=(extent, *one.shape), value=0, dtype=str(one.dtype)))
        held = inner.param("rows", (extent, *one.shape), one.dtype)
        results.append(with_row(inner, held, extent, formal[0], one))
    whole = [*first, *captured, *rows]
    limit = 2 + len(carried) + captured.index(trips) if isinstance(trips, Value) else None
    last = b.while_(_again(c, whole, trips, limit), inner.finish(results), *whole)
    if known is None:
        for n in range(len(rows)):
            c.home.count(c.node.outputs[len(carried) + n], last[0])
    return [*last[2 : 2 + len(carried)], *last[len(whole) - len(rows) :]]


def with_row(b: GraphBuilder, rows: Value, extent: Extent, at: Value, row_: Value) -> Value:
    """The rows with one of them replaced."""
    place = b.op("arange", stop=extent, start=0, step=1, dtype="int64")
    here = b.op("equal", b.op("reshape", place, shape=(extent, *[1] * len(row_.shape))), at)
    return b.op("where", here, b.op("expand_dims", row_, axis=(0,)), rows)


def _again(c: Call, carried: Sequence[Value], trips: Extent | Value | None, limit: int | None) -> Graph:
    """The condition of a loop: its own, and that there are trips left, whose number may be one of what is carried."""
    b = GraphBuilder("again", env=c.b.env)
    formal = [b.param(v.name or "x", v.shape, v.dtype) for v in carried]
    holds = formal[1]
    if trips is not None:
        most = b.op("dim_value", value=trips, dtype="int64") if limit is None else formal[limit]
        holds = b.op("logical_and", holds, b.op("less", formal[0], most))
    return b.finish(holds)
