"""``sample_categorical``, ``sample_perfect_tile``, ``sample_partitioned_tile``: numbers drawn, and remembered as decisions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tirlower.diagnostics import BadArgument
from tirlower.ir.expr import IntImm
from tirlower.schedule import tiles
from tirlower.schedule.kind import Kind, Slot, Takes
from tirlower.schedule.sampling import draw
from tirlower.schedule.sites import Change
from tirlower.schedule.state import Instruction
from tirlower.schedule.step import Step

__all__ = ["SAMPLE_CATEGORICAL", "SAMPLE_PARTITIONED_TILE", "SAMPLE_PERFECT_TILE", "choices"]

FINE = 1 << 53
"""Into how many parts the interval from 0 to 1 is cut where something is drawn by weights."""


def _numbers(value: object, what: str) -> list[int]:
    if not isinstance(value, (list, tuple)):
        raise BadArgument(f"the decision is {what}, got {value!r}")
    return [int(one) for one in value]


def _categorical(step: Step) -> Change:
    candidates, probs = step["candidates"], step["probs"]
    assert isinstance(candidates, (list, tuple)) and isinstance(probs, (list, tuple))
    if len(candidates) != len(probs):
        raise BadArgument(f"{len(candidates)} candidates have as many weights, got {len(probs)}")
    total = math.fsum(probs)
    if not candidates or not all(one >= 0 for one in probs) or not 0 < total < math.inf:
        raise BadArgument(f"weights are not negative, and not all 0, got {list(probs)}")
    decision, random = step.decision, step.state.random
    if decision is None:
        number, random = draw(random, FINE)
        reach, decision = 0.0, len(probs) - 1
        for at, one in enumerate(probs):
            reach += one
            if one and number / FINE * total < reach:
                decision = at
                break
    if not isinstance(decision, int) or not 0 <= decision < len(candidates):
        raise BadArgument(f"the decision is the number of a candidate, 0 to {len(candidates) - 1}, got {decision!r}")
    return Change(outputs=(int(candidates[decision]),), decision=decision, random=random)


SAMPLE_CATEGORICAL = Kind(
    "SampleCategorical",
    "sample_categorical",
    (Slot("candidates", Takes.INTEGERS, attr=True), Slot("probs", Takes.FLOATS, attr=True)),
    _categorical,
    """Draw one of some numbers by weights; the decision is its place. Returns an expression.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((4,), "int32")):
    ...     for i in range(4):
    ...         A[i] = 1
    ... '''))
    >>> sch.get(sch.sample_categorical([2, 4], [0.5, 0.5], decision=1))
    4
    """,
    returns="one",
    pure=True,
    draws=True,
)


def _count(step: Step, name: str = "n") -> int:
    found = step[name]
    assert isinstance(found, int)
    if found < 1:
        raise BadArgument(f"{name}= is 1 or more, got {found}")
    return found


def _extent(step: Step) -> int | None:
    """The extent of the loop, where it is a constant."""
    extent = step.loop(step.handle("loop")).extent
    return int(extent.value) if isinstance(extent, IntImm) and extent.value > 0 else None


def _given(step: Step, n: int) -> list[int] | None:
    if step.decision is None:
        return None
    found = _numbers(step.decision, f"{n} factors")
    if len(found) != n:
        raise BadArgument(f"the decision is {n} factors, got {found}")
    return found


def _perfect_tile(step: Step) -> Change:
    n, extent, most = _count(step), _extent(step), step["max_innermost_factor"]
    assert isinstance(most, int)
    if most < 1 and most != -1:
        raise BadArgument(f"max_innermost_factor= is positive, or -1 for any, got {most}")
    given, random = _given(step, n), step.state.random
    if extent is None:
        made = [-1, *[1] * (n - 1)]
    elif given is not None:
        made = tiles.repaired(extent, given)
    else:
        at, random = draw(random, tiles.count(extent, n, most))
        made = tiles.nth(extent, n, at, most)
    return Change(outputs=tuple(made), decision=made, random=random)


SAMPLE_PERFECT_TILE = Kind(
    "SamplePerfectTile",
    "sample_perfect_tile",
    (
        Slot("loop", Takes.LOOP),
        Slot("n", Takes.INTEGER, attr=True),
        Slot("max_innermost_factor", Takes.INTEGER, default=16, attr=True),
    ),
    _perfect_tile,
    """Draw ``n`` factors whose product is the extent of a loop, the last one at most ``max_innermost_factor`` (-1: any).

    All such factors are as likely. Of an extent that is no constant the first factor is what the others leave, and these are
    1. A decision of a loop of another extent is repaired from the inside: a factor that does not divide takes what is left.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((24,), "int32")):
    ...     for i in range(24):
    ...         A[i] = 1
    ... '''))
    >>> factors = sch.sample_perfect_tile("i", 2, decision=[6, 4])
    >>> [sch.get(loop).extent.value for loop in sch.split("i", factors)]
    [6, 4]
    """,
    returns="many",
    pure=True,
    draws=True,
)


def _partitioned_tile(step: Step) -> Change:
    n, extent = _count(step), _extent(step)
    position, part = step["partition_pos"], _count(step, "innerpart_factor")
    assert isinstance(position, int)
    if not 0 <= position <= n:
        raise BadArgument(f"partition_pos= is 0 to n = {n}, got {position}")
    given, random = _given(step, n), step.state.random
    if extent is None or extent % part or (position == n and part > 1):
        made = [-1, *[1] * (n - 1)]
    elif given is not None:
        made = _mended(extent, given, position, part)
    else:
        ways = partitions(extent, n, position, part)
        at, random = draw(random, sum(count for *_, count in ways))
        made = _way(ways, at, n, position)
    return Change(outputs=tuple(made), decision=made, random=random)


def partitions(extent: int, n: int, position: int, part: int) -> list[tuple[int, int, int]]:
    """The products of the outer and inner factors, the inner one divisible by ``part``, with how many ways each has."""
    if position in (0, n):
        return [(1, extent, tiles.count(extent, n))]
    return [
        (outer, extent // outer, tiles.count(outer, position) * tiles.count(extent // outer, n - position))
        for outer in tiles.divisors(extent)
        if extent // outer % part == 0
    ]


def _way(ways: Sequence[tuple[int, int, int]], at: int, n: int, position: int) -> list[int]:
    for outer, inner, count in ways:
        if at < count:
            if position in (0, n):
                return tiles.nth(inner, n, at)
            each = tiles.count(inner, n - position)
            return [*tiles.nth(outer, position, at // each), *tiles.nth(inner, n - position, at % each)]
        at -= count
    raise AssertionError("no way has this number")


def _mended(extent: int, given: Sequence[int], position: int, part: int) -> list[int]:
    """A decision of another extent: its inner factors are kept while they divide, and the part stays in the inner ones."""
    made = tiles.repaired(extent, given)
    if math.prod(made[position:]) % part and position < len(made):
        made = [1] * len(made)
        made[position] = extent
    return made


SAMPLE_PARTITIONED_TILE = Kind(
    "SamplePartitionedTile",
    "sample_partitioned_tile",
    (
        Slot("loop", Takes.LOOP),
        Slot("n", Takes.INTEGER, attr=True),
        Slot("partition_pos", Takes.INTEGER, default=0, attr=True),
        Slot("innerpart_factor", Takes.INTEGER, default=1, attr=True),
    ),
    _partitioned_tile,
    """Draw ``n`` factors whose product is the extent of a loop, the product of those from ``partition_pos`` on a multiple of
    ``innerpart_factor``. All such factors are as likely; where there are none, the first one is the whole extent.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((24,), "int32")):
    ...     for i in range(24):
    ...         A[i] = 1
    ... '''))
    >>> a, b, c = [sch.get(one) for one in sch.sample_partitioned_tile("i", 3, 1, 8)]
    >>> a * b * c, b * c % 8
    (24, 0)
    """,
    returns="many",
    pure=True,
    draws=True,
)


def choices(inst: Instruction, decision: object, first: int = 0) -> tuple[int, Iterator[object]]:
    """How many decisions an instruction that draws has, and these in order from a number on; the extent of a loop is what its decision multiplies to.

    Where that cannot be told (0) the loop has no constant extent, or the choice is the program's.
    """
    nothing: Iterator[object] = iter(())
    if inst.kind is SAMPLE_CATEGORICAL:
        weights = inst.attrs[1]
        assert isinstance(weights, (list, tuple))
        found = [at for at, one in enumerate(weights) if one > 0]
        return len(found), iter(found[first:])
    if inst.kind not in (SAMPLE_PERFECT_TILE, SAMPLE_PARTITIONED_TILE):
        return 0, nothing
    numbers = _numbers(decision, "a list of factors")
    extent, n = math.prod(numbers), len(numbers)
    if extent <= 0:
        return 0, nothing
    if inst.kind is SAMPLE_PERFECT_TILE:
        most = inst.attrs[1]
        assert isinstance(most, int)
        total = tiles.count(extent, n, most)
        return total, (tiles.nth(extent, n, at, most) for at in range(first, total))
    _, position, part = inst.attrs
    assert isinstance(position, int) and isinstance(part, int)
    if extent % part or (position == n and part > 1):
        return 0, nothing
    ways = partitions(extent, n, position, part)
    total = sum(count for *_, count in ways)
    return total, (_way(ways, at, n, position) for at in range(first, total))
