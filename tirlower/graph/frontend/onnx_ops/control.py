"""Graphs inside nodes: inlined and unrolled where what they depend on is known while importing."""

from __future__ import annotations

import numpy as np

from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_ops.items import Item
from tirlower.graph.frontend.onnx_ops.table import Call, row

__all__ = []

_MOST_TRIPS = 10_000


def _truth(item: Item) -> bool | None:
    """A condition, where it is known."""
    contents = item.contents
    if contents is None or contents.size != 1:
        return None
    found = contents.reshape(-1)[0]
    return found if isinstance(found, bool) else None


def _unknown(c: Call, what: str) -> GraphError:
    return GraphError(
        f"{what} of {c.node.op} depends on data: control flow is not supported yet",
        help="make it an initializer, or bind the input: inputs={name: array}",
    )


@row("If", "then_branch else_branch")
def _if(c: Call) -> list[Item]:
    chosen = _truth(c.item(0))
    if chosen is None:
        raise _unknown(c, "the condition")
    assert c.run is not None
    return c.run(c.graph("then_branch" if chosen else "else_branch"), {})


@row("Loop", "body")
def _loop(c: Call) -> list[Item]:
    assert c.run is not None
    body = c.graph("body")
    trips: int | None = None
    if c.has(0):
        if c.item(0).array is None:
            raise _unknown(c, "the number of trips")
        trips = c.numbers(0, "the number of trips")[0]
    again = True
    if c.has(1):
        known = _truth(c.item(1))
        if known is None:
            raise _unknown(c, "the condition")
        again = known
    carried = [c.item(n) for n in range(2, len(c))]
    if len(body.inputs) != len(carried) + 2 or len(body.outputs) < len(carried) + 1:
        raise GraphError(
            f"the body of Loop has {len(body.inputs)} inputs and {len(body.outputs)} results, which do not fit"
        )
    collected: list[list[Item]] = [[] for _ in range(len(body.outputs) - 1 - len(carried))]
    condition = Item.of_array(np.array(True))
    trip = 0
    while again and (trips is None or trip < trips):
        if trip >= _MOST_TRIPS:
            raise GraphError(f"Loop has more than {_MOST_TRIPS} trips: it is not unrolled")
        given = [Item.of_array(np.array(trip, np.int64)), condition, *carried]
        made = c.run(body, dict(zip(body.inputs, given, strict=True)))
        known = _truth(made[0])
        if known is None:
            raise _unknown(c, "the condition")
        again = known
        for old, new in zip(carried, made[1:], strict=False):
            if len(old.shape) != len(new.shape):
                raise GraphError(f"what Loop carries changes its shape: {old.shape} and {new.shape}")
        carried = made[1 : 1 + len(carried)]
        for several, one in zip(collected, made[1 + len(carried) :], strict=True):
            several.append(one)
        trip += 1
    if collected and not trip:
        raise GraphError("Loop has no trips, and collects results whose shape nothing says")
    stacks = [c.op("stack", *[one.as_value(c.b) for one in several], axis=0) for several in collected]
    return [*carried, *[Item.of_value(v) for v in stacks]]
