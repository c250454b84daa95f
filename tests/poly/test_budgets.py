"""Forms, conditions and their texts stay small, however often names repeat what they stand for."""

from __future__ import annotations

import pytest

from tirlower.arith.affine import Affine
from tirlower.arith.intervals import EVERYTHING
from tirlower.ir import Var
from tirlower.poly import extract
from tirlower.poly.affine import MAX_WEIGHT, Space
from tirlower.poly.conditions import AtLeast, at_least
from tirlower.poly.forms import Extremum, constant, single, weight_of
from tirlower.script import parse

STEPS = {
    "sum": "x{k} + x{k} * A[1]",
    "square": "x{k} * x{k} + 1",
    "division": "x{k} // 2 + x{k} // 3",
    "remainder": "(x{k} * 3 + {k}) % (64 + {k})",
    "remainders": "x{k} % 7 + (x{k} + 1) % 5",
    "by a value": "x{k} // (x{k} % 7 + 2) + x{k}",
    "select": "T.Select(x{k} > {k}, x{k} - 1, x{k} + 2)",
    "if": "T.if_then_else(x{k} > {k}, x{k} - 1, x{k} + 2)",
    "min": "T.min(x{k} * 2, T.max(x{k} - 1, {k}))",
    "cast": 'T.Cast("int32", T.Cast("int8", x{k})) + x{k} // 2',
    "bits": "(x{k} ^ 21) + (x{k} & 6)",
    "truth": 'T.Cast("int32", x{k} > 3) + T.Cast("int32", x{k} < 9)',
    "load": "A[x{k} % 8] + A[(x{k} + 1) % 8]",
}
"""One line of a chain of names, each used twice by the next."""


def chain(step: str, length: int) -> str:
    """A function whose last subscript is the end of a chain."""
    lines = [f"        x{k + 1} = {step.format(k=k)}" for k in range(length)]
    return "\n".join(
        [
            "@T.prim_func",
            'def f(A: T.Buffer((8,), "int32"), B: T.Buffer((64,), "int32")):',
            "    for i in range(8):",
            "        x0 = i",
            *lines,
            f"        B[x{length} % 64] = x{length}",
        ]
    )


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
def test_a_chain_of_names_makes_small_forms(step: str) -> None:
    scop = extract(parse(chain(step, 60)))
    for access in scop.accesses:
        assert access.indices is not None
        for form in access.indices:
            assert weight_of(form) <= 4 * MAX_WEIGHT
            assert len(repr(form)) < 100_000
    assert len(scop.accesses) == 1 + (120 if step is STEPS["load"] else 60 if step is STEPS["sum"] else 0)


def test_short_chains_are_followed_exactly() -> None:
    (access,) = extract(parse(chain("x{k} + x{k}", 5))).accesses
    assert access.indices is not None and "32*i" in repr(access.indices[0])


def test_a_form_past_the_budget_is_one_value_with_its_bounds() -> None:
    space = Space()
    loops = [Var(f"i{n}") for n in range(MAX_WEIGHT + 1)]
    for var in loops:
        space.ranges[var] = (0, 3)
        space.iterated.add(var)
    within = Affine(dict.fromkeys(loops[:-1], 1))
    beyond = Affine(dict.fromkeys(loops, 1), 5)
    assert space.settled(within) is within
    made = space.settled(beyond)
    assert made.key == space.settled(Affine(dict(beyond.terms), 5)).key
    assert space.interval(made) == (5, 3 * len(loops) + 5)
    assert space.deps(made) == frozenset(loops)


def test_a_coefficient_that_no_index_has_is_not_followed() -> None:
    space, i = Space(), Var("i")
    space.ranges[i] = (1, 9)
    made = space.settled(single(i).scaled(1 << 70))
    assert i not in made.terms and space.interval(made) == EVERYTHING
    assert space.settled(constant(1 << 62)).const == 1 << 62


def test_comparisons_of_many_extrema_are_not_split() -> None:
    space = Space()
    lin = constant(0)
    for n in range(40):
        a, b = Var(f"a{n}"), Var(f"b{n}")
        lin = lin + space.extremum([single(a), single(b)], is_max=bool(n % 2))
    made = at_least(lin)
    assert isinstance(made, AtLeast) and all(isinstance(dim, Extremum) for dim in made.lin.terms)
    two = Affine(dict(list(lin.terms.items())[:2]))
    assert not isinstance(at_least(two), AtLeast)
