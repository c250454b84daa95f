"""Random programs at random new positions, and the order of two accesses there, found by running all instances."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tests.poly.brute import Event
from tirlower.ir import BufferStore, Expr, For, PrimFunc, Stmt, Var
from tirlower.ir.query import each

__all__ = ["Number", "conflicts", "leaf_positions", "turned", "value_at"]

Number = int | Expr


def conflicts(found: Sequence[Event], one_memory: bool = False) -> list[tuple[Event, Event]]:
    """The pairs of accesses of one element, one of them a write, in their order. With ``one_memory`` what is allocated in a
    loop is the same in all iterations."""
    touched: dict[Any, list[Event]] = {}
    for event in found:
        for element in event.elements:
            memory = event.node.buffer.data if one_memory else event.memory  # type: ignore[union-attr]
            touched.setdefault((memory, element), []).append(event)
    return [
        (a, b)
        for group in touched.values()
        for n, a in enumerate(group)
        for b in group[n + 1 :]
        if a.is_write or b.is_write
    ]


def value_at(coordinate: Number, values: dict[Var, int]) -> int:
    """The value of a coordinate: sums, products, quotients and remainders of variables."""
    if isinstance(coordinate, int):
        return coordinate
    names = {var: f"v{n}" for n, var in enumerate(values)}
    text = _text(coordinate, names)
    return int(eval(text, {}, {names[var]: value for var, value in values.items()}))


_SIGNS = {"Add": "+", "Sub": "-", "Mul": "*", "FloorDiv": "//", "FloorMod": "%"}


def _text(op: Any, names: dict[Var, str]) -> str:
    if isinstance(op, Var):
        return names[op]
    kind = type(op).__name__
    return f"({_text(op.a, names)} {_SIGNS[kind]} {_text(op.b, names)})" if kind in _SIGNS else str(op.value)


def leaf_positions(func: PrimFunc, seed: int) -> dict[Stmt, tuple[Number, ...]]:
    """New positions for all stores: those that they have, with some of the coordinates changed, or random ones."""
    rng = random.Random(seed)
    places = _places(func.body)
    length = max(len(place) for place in places.values())
    if rng.random() < 0.15:
        count = rng.randint(2, 3)
        return {
            store: tuple(_random(rng, [x for x in place if not isinstance(x, int)]) for _ in range(count)) + (n,)
            for n, (store, place) in enumerate(places.items())
        }
    made = {store: [*place, *[0] * (length - len(place))] for store, place in places.items()}
    loops = [loop.loop_var for loop in each(For, func.body)]
    changes: dict[Var, Any] = {}
    for var in loops:
        if rng.random() < 0.25:
            by = rng.choice([2, 3])
            changes[var] = rng.choice(
                [lambda v: v * -1, lambda v: v + 1, lambda v, by=by: v // by, lambda v, by=by: v % by]
            )
    swap = tuple(rng.sample(range(1, length, 2), 2)) if length > 4 and rng.random() < 0.5 else None
    skew = tuple(rng.sample(range(1, length, 2), 2)) if length > 4 and rng.random() < 0.3 else None
    apart = rng.random() < 0.2
    for store, place in made.items():
        tail = [x for x in place if isinstance(x, Var) and changes.get(x)]
        place[:] = [changes[x](x) if isinstance(x, Var) and x in changes else x for x in place]
        if swap is not None:
            place[swap[0]], place[swap[1]] = place[swap[1]], place[swap[0]]
        if skew is not None:
            place[skew[0]] = place[skew[0]] + place[skew[1]] * rng.choice([1, -1])
        if apart:
            place.insert(0, rng.choice([0, 0, 1]))
        elif rng.random() < 0.1:
            place[0] = 0
        made[store] = [*place, *[x for _, x in zip(range(2), tail, strict=False)]]
    length = max(len(place) for place in made.values())
    return {store: (*place, *[0] * (length - len(place))) for store, place in made.items()}


def _random(rng: random.Random, names: Sequence[Expr]) -> Number:
    if not names or rng.random() < 0.2:
        return rng.randint(0, 1)
    total: Any = rng.choice(names) * rng.choice([1, 1, 1, -1])
    if rng.random() < 0.4:
        total = total + rng.choice(names) * rng.choice([1, -1, 2])
    return total // 2 if rng.random() < 0.2 else total


def _places(root: Stmt) -> dict[Stmt, tuple[Number, ...]]:
    """The stores with the number and the variable of each loop around them, and their own number."""
    found: dict[Stmt, tuple[Number, ...]] = {}
    count = 0

    def walk(op: Stmt, way: tuple[Number, ...]) -> None:
        nonlocal count
        count += 1
        if isinstance(op, BufferStore):
            found[op] = (*way, count)
        if isinstance(op, For):
            way = (*way, count, op.loop_var)
        for child in op.children():
            if isinstance(child, Stmt):
                walk(child, way)

    walk(root, ())
    return found


def turned(
    pairs: Sequence[tuple[Event, Event]], positions: dict[Stmt, tuple[Number, ...]]
) -> tuple[Event, Event] | None:
    """Two accesses that do not come in their order where the stores run at new positions; None if there are none."""
    order = {store: n for n, store in enumerate(positions)}
    known: dict[Any, tuple[int, ...]] = {}
    for a, b in pairs:
        keys = []
        for event in (a, b):
            at = event.statement, tuple(value for _, value, _ in event.loops)
            if at not in known:
                values = {node.loop_var: value for node, value, _ in event.loops}
                known[at] = (*(value_at(x, values) for x in positions[event.statement]), order[event.statement])
            keys.append((at, known[at]))
        if keys[0][0] != keys[1][0] and keys[0][1] >= keys[1][1]:
            return a, b
    return None
