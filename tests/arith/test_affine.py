"""Affine forms against sums computed with Python's integers: each operation at random points, bounds over random boxes."""

from __future__ import annotations

import math
import random

import pytest

from tirlower.arith.affine import Affine, affine_of, collect_terms, without_quotients
from tirlower.arith.interner import Interner
from tirlower.arith.intervals import EVERYTHING, INF, Bound
from tirlower.ir import Var

ATOMS = "abcde"


def drawn(rng: random.Random) -> Affine[str]:
    """A form of some atoms, of small and of huge numbers."""
    atoms = rng.sample(ATOMS, rng.randint(0, 4))
    numbers = [-7, -2, -1, 1, 2, 3, 12, 1 << 40, -(1 << 70)]
    return Affine({atom: rng.choice(numbers) for atom in atoms}, rng.choice([0, 5, *numbers]))


def value(form: Affine[str], point: dict[str, int]) -> int:
    """What a form is at a point."""
    return form.const + sum(c * point[atom] for atom, c in form.terms.items())


@pytest.mark.parametrize("seed", range(40))
def test_operations_compute_what_integers_do(seed: int):
    rng = random.Random(seed)
    for _ in range(25):
        a, b = drawn(rng), drawn(rng)
        factor, divisor = rng.choice([-3, -1, 0, 1, 2, 9]), rng.choice([1, 2, 3, 4, 12, -4])
        point = {atom: rng.randint(-50, 50) for atom in ATOMS}
        x, y = value(a, point), value(b, point)
        whole, rest = a.divided(divisor)
        for made, wanted in (
            (a + b, x + y),
            (a - b, x - y),
            (-a, -x),
            (a.plus(b, factor), x + factor * y),
            (a.scaled(factor), factor * x),
            (a.shifted(factor), x + factor),
            (a.without("c"), x - a.terms.get("c", 0) * point["c"]),
            (whole.scaled(divisor) + rest, x),
        ):
            assert value(made, point) == wanted
            assert all(made.terms.values()), "a coefficient is 0"
        assert rest.const == a.const % divisor
        assert not any(c % divisor == 0 for c in rest.terms.values())
        assert (a - b).is_constant == (a.terms == b.terms)
        assert (a.key == b.key) == (a.terms == b.terms and a.const == b.const)


@pytest.mark.parametrize("seed", range(40))
def test_bounds_are_the_extremes_over_a_box(seed: int):
    rng = random.Random(seed)
    for _ in range(25):
        form = drawn(rng)
        box: dict[str, Bound] = {}
        for atom in ATOMS:
            low, high = sorted(rng.sample(range(-9, 10), 2))
            box[atom] = (low if rng.random() < 0.8 else -INF, high if rng.random() < 0.8 else INF)
        corners = [
            {atom: box[atom][(c > 0) == most] for atom, c in form.terms.items()} for most in (False, True)
        ]  # where each term is least, and where it is greatest
        found = form.bound(box.__getitem__)
        for end, corner in zip(found, corners, strict=True):
            if all(math.isfinite(x) for x in corner.values()):
                assert end == value(form, corner)  # type: ignore[arg-type]
            else:
                assert math.isinf(end)
        assert found[0] <= found[1]


def test_bounds_of_numbers_that_no_float_holds():
    form = Affine({"a": 10**400, "b": 1}, 10**400)
    assert form.bound({"a": (0, 1), "b": (0, 1)}.__getitem__) == (10**400, 2 * 10**400 + 1)
    for ends in ((0, INF), (-INF, 0)):
        assert form.bound({"a": (0, 1), "b": ends}.__getitem__) == EVERYTHING
        assert Affine({"b": 10**400}).bound({"b": ends}.__getitem__) == EVERYTHING


def test_a_sum_is_walked_once_and_cancels():
    i, j = Var("i"), Var("j")
    total = i * 4 + j
    for _ in range(40):
        total = total + total
    form = affine_of(Interner(), total)
    assert form is not None
    assert form.terms == {i: 4 << 40, j: 1 << 40}
    assert (form - form).key == Affine({}).key
    assert collect_terms(total, limit=8) is None


def test_numbers_are_the_constant_and_no_terms():
    i, j = Var("i"), Var("j")
    form = affine_of(Interner(), (i * 4 + 3 - (j + 5)) * 2 - 7)
    assert form is not None
    assert (form.terms, form.const) == ({i: 8, j: -2}, -11)


def test_a_form_without_quotients_is_above_the_form():
    i, n = Var("i"), Var("n")
    interner = Interner()
    for expr, of in (
        (i - n // 4, lambda i, n: i - n // 4),
        (n // 3 * 2 - n // 4 + i, lambda i, n: n // 3 * 2 - n // 4 + i),
    ):
        form = affine_of(interner, expr)
        assert form is not None
        found = without_quotients(interner, form)
        assert found is not None
        upper, scale = found
        assert set(upper.terms) <= {i, n}
        for at in range(-12, 13):
            for size in range(-12, 13):
                above = upper.const + sum(c * {i: at, n: size}[atom] for atom, c in upper.terms.items())  # type: ignore[index]
                assert scale * of(at, size) <= above
