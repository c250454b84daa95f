"""Two graphs held against each other by the reference: inputs for them, and where their results differ.

>>> import tirlower.graph as tg
>>> x = tg.spec((tg.dim("B", 1, 64), 2), "float32")
>>> [list(values.values()) for values in bindings(tg.trace(lambda x: x + 1, x))]
[[1], [5], [16]]
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from tirlower.graph.core.debug import Said
from tirlower.graph.core.effects import OUTSIDE
from tirlower.graph.core.nodes import Graph, Op
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.evaluate import extent_value
from tirlower.graph.ops.interpret import interpret
from tirlower.ir import Var
from tirlower.ir.dtype import Array, DataType

__all__ = [
    "Difference",
    "bindings",
    "compare",
    "difference",
    "estimated_work",
    "outcome",
    "random_inputs",
    "results",
    "said_differs",
]

Results: TypeAlias = "tuple[Array, ...]"

_WANTED = (0, 5, 16)
"""Values of dims: the least, an odd one, a large one, each as near as the dim admits."""


@dataclass(frozen=True)
class Difference:
    """What is wrong with the second of two graphs."""

    kind: str
    """Two differences of one kind are the same failure."""
    message: str


def bindings(graph: Graph) -> list[dict[Var, int]]:
    """Values of the dims of a graph: the least, odd, and large ones; one for a graph of static shapes."""
    made: list[dict[Var, int]] = []
    for wanted in _WANTED:
        values = {one.var: one.nearest(wanted) for one in graph.dims}
        if values not in made:
            made.append(values)
    return made


def estimated_work(graph: Graph, values: Mapping[Var, int]) -> int:
    """The elements of all values of a graph, weighted by what one element of a contraction reads.

    A guess from shapes alone: an operation is taken to visit each element of its largest operand for each row of its
    result where it is smaller, as a product of matrices does.
    """
    total = 0
    for node in graph.nodes:
        if not isinstance(node, Op):
            continue
        made = sum(_size(v.shape, values) for v in node.results)
        read = [_size(v.shape, values) for v in node.operands]
        several = len([n for n in read if n > 1]) > 1
        total += made + max(read, default=0) * (int(made**0.5) if several and node.name in _CONTRACTIONS else 1)
    return total


_CONTRACTIONS = frozenset({"matmul", "conv", "conv_transpose", "einsum", "linear", "attention"})


def _size(shape: Sequence[object], values: Mapping[Var, int]) -> int:
    size = 1
    for extent in shape:
        size *= extent_value(extent, values)  # type: ignore[arg-type]
    return size


def random_inputs(graph: Graph, values: Mapping[Var, int], seed: int = 0, special: bool = False) -> list[Array]:
    """Inputs for a graph: floats of both signs, small integers that may be indices; ``special``: NaN, infinities and -0 too.

    Raises :class:`GraphError` where an extent is negative at these values.
    """
    rng = np.random.default_rng(seed)
    return [random_array(tuple(extent_value(e, values) for e in p.shape), p.dtype, rng, special) for p in graph.params]


def random_array(shape: tuple[int, ...], kind: DataType, rng: np.random.Generator, special: bool = False) -> Array:
    """A random array of a dtype."""
    if any(extent < 0 for extent in shape):
        raise GraphError(f"no array has the shape {shape}")
    if kind.is_float:
        array = rng.standard_normal(shape).astype(kind.numpy)
        if special and array.size:
            places = rng.integers(0, array.size, max(1, array.size // 8))
            array.reshape(-1)[places] = np.asarray(
                rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0], places.size), kind.numpy
            )
        return array
    return rng.integers(0, 2 if kind.is_bool else 4, shape).astype(kind.numpy)


def results(
    graph: Graph,
    inputs: Sequence[Array],
    precise: bool = False,
    state: dict[str, Array] | None = None,
    calls: int | None = None,
    said: list[Said] | None = None,
) -> Results:
    """The results of a graph in order, whatever its structure; with states (``state`` gets them), of two calls in a row.

    ``said`` gets what assertions and prints say.
    """
    held = {} if state is None else state
    several: list[Array] = []
    for _ in range(1 + bool(graph.effects) if calls is None else calls):
        made = interpret(graph, *inputs, precise=precise, state=held, said=[] if said is None else said)
        several += made.values() if isinstance(made, dict) else made if isinstance(made, tuple) else (made,)
    return tuple(several)


def outcome(
    graph: Graph, inputs: Sequence[Array], like: Graph, precise: bool = False, said: list[Said] | None = None
) -> Results:
    """The results of as many calls of a graph as another one wants, and what the public states of that one hold in the end.

    ``said`` gets what assertions and prints say; a call goes on where an assertion does not hold.
    """
    held: dict[str, Array] = {}
    made = results(graph, inputs, precise, held, 1 + bool(like.effects), said)
    # Without an access a state holds what it held at first.
    states = [one for one in like.effects if one.public and one is not OUTSIDE]
    return (*made, *(held[one.name] if one.name in held else one.initial.numpy() for one in states))


def compare(
    before: Graph, after: Graph, numerics: Numerics, inputs: Sequence[Array], debug: bool = True
) -> Difference | None:
    """How the second graph differs from the first on inputs; None where it does not, or the first itself fails.

    What assertions and prints say is compared too, unless ``debug`` is false.
    Results of class ``exact`` have the same bits, NaNs aside. Those of the others may be off by what the first is off from
    float64 four times, and 4 units in the last place of the largest element; ``fast`` says nothing of NaN and infinity.
    """
    said: list[list[Said]] = [[], [], []]
    try:
        was = outcome(before, inputs, before, said=said[0])
    except GraphError:
        return None  # without meaning on these inputs
    try:
        now = outcome(after, inputs, before, said=said[1])
    except GraphError as error:
        return Difference(
            "fails " + re.sub(r"'[^']*'|[0-9]+", "_", error.message), f"fails where its input runs: {error}"
        )
    exact = was
    if numerics is not Numerics.EXACT:
        exact = outcome(before, inputs, before, precise=True, said=said[2])
    found = difference(was, now, exact, numerics)
    return found if found is not None or not debug else said_differs(said[0], said[1], said[2], numerics)


def said_differs(
    was: Sequence[Said], now: Sequence[Said], exact: Sequence[Said], numerics: Numerics
) -> Difference | None:
    """How what assertions and prints say differs from what they said."""
    before, after = ([(one.kind.__name__.lower(), one.text) for one in several] for several in (was, now))
    if before != after:
        n = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), min(map(len, (was, now))))
        old, new = (f"{s[n][0]} {s[n][1]!r}" if n < len(s) else "nothing" for s in (before, after))
        return Difference("says", f"changes what assertions and prints say: {new} comes where {old} came")
    if len(exact) != len(was):  # a loop that turns once more, or not at all, in float64
        exact = was
    arrays = [tuple(one.array for one in several) for several in (was, now, exact)]
    found = difference(arrays[0], arrays[1], arrays[2], numerics)
    return (
        None
        if found is None
        else Difference(
            "says",
            found.message.replace("changes what result", "changes what is said: number", 1).replace(
                "changes result", "changes what is said: number", 1
            ),
        )
    )


def difference(was: Results, now: Results, exact: Results, numerics: Numerics) -> Difference | None:
    """How results differ from what they were; ``exact`` are those of float64 (where bits may change)."""
    for n, (a, b, precise) in enumerate(zip(was, now, exact, strict=True)):
        if a.dtype != b.dtype or a.shape != b.shape:
            return Difference("types", f"changes result {n}: it was {a.dtype}{a.shape} and is now {b.dtype}{b.shape}")
        agrees = _equal(a, b) if numerics is Numerics.EXACT else _near_enough(a, b, precise, numerics)
        wrong = np.argwhere(np.logical_not(np.atleast_1d(agrees)))
        if len(wrong):
            at = tuple(int(i) for i in wrong[0])
            old, new = np.atleast_1d(a)[at], np.atleast_1d(b)[at]
            where = ", ".join(map(str, at))
            more = f" ({len(wrong)} of {a.size} elements differ)"
            return Difference("differs", f"changes what result {n} is: [{where}] was {old} and is now {new}{more}")
    return None


def _equal(a: Array, b: Array) -> Array:
    """Where two arrays have the same bits; a NaN is a NaN."""
    if DataType.from_numpy(a.dtype).is_float:
        same = np.logical_and(np.equal(a, b), np.equal(np.signbit(a), np.signbit(b)))
        return np.asarray(np.logical_or(same, np.logical_and(np.isnan(a), np.isnan(b))))
    equal: Array = a == b
    return equal


def _near_enough(a: Array, b: Array, precise: Array, numerics: Numerics) -> Array:
    kind = DataType.from_numpy(a.dtype)
    if not kind.is_float:
        return _equal(a, b)
    x, y, wanted = (np.asarray(v, np.float64) for v in (a, b, precise))
    with np.errstate(all="ignore"):
        finite = np.isfinite(x) & np.isfinite(wanted)
        error = np.abs(np.where(finite, x - wanted, 0)).max(initial=0)
        scale = np.abs(np.where(finite, wanted, 0)).max(initial=0)
        unit = 2.0 ** (1 - {"float64": 53, "float32": 24, "float16": 11}.get(str(kind), 8))
        near = np.abs(y - wanted) <= 4 * error + 4 * unit * scale
    return np.where(finite, near, np.logical_or(_equal(a, b), numerics is Numerics.FAST))
