from __future__ import annotations

import itertools
import random

import pytest

from tirlower.poly.isl import Solver, isl_module


@pytest.mark.parametrize("seed", range(40))
def test_solutions_against_enumeration(seed: int):
    rng = random.Random(seed)
    columns = rng.randint(1, 3)
    box = [(4, *(int(c == at) for c in range(columns))) for at in range(columns)]
    box += [(4, *(-int(c == at) for c in range(columns))) for at in range(columns)]
    rows = [tuple(rng.randint(-4, 4) for _ in range(columns + 1)) for _ in range(rng.randint(0, 3))]
    equations = [tuple(rng.randint(-4, 4) for _ in range(columns + 1)) for _ in range(rng.randint(0, 1))]
    answer = Solver().solve(columns, equations, [*box, *rows])

    def value(row, point):
        return row[0] + sum(c * x for c, x in zip(row[1:], point, strict=True))

    def good(point):
        return all(value(r, point) >= 0 for r in [*box, *rows]) and all(value(e, point) == 0 for e in equations)

    every = [p for p in itertools.product(range(-4, 5), repeat=columns) if good(p)]
    assert answer.empty == (not every)
    if every:
        assert answer.point is not None and good(answer.point)
        smallest = Solver().smallest(columns, equations, [*box, *rows], ())
        assert smallest in every


def test_questions_are_remembered_and_the_memo_is_bounded():
    solver = Solver(memo_size=2)
    for _ in range(3):
        solver.solve(1, [], [(0, 1)])
    assert (solver.asked, solver.solved) == (3, 1)
    for n in range(5):
        solver.solve(1, [], [(n, 1)])
    assert len(solver._memo) == 2


def test_a_limit_is_an_answer_and_is_lifted_again():
    solver = Solver(max_operations=10)
    rows = [tuple(random.Random(n).randint(-9, 9) for _ in range(9)) for n in range(20)]
    answer = solver.solve(8, [], rows)
    assert not answer.empty and answer.point is None and "gave up after 10 operations" in answer.reason
    assert isl_module().DEFAULT_CONTEXT.get_max_operations() == 0


def test_large_numbers():
    big = 2**40
    assert Solver().solve(1, [(-big, 1)], []).point == (big,)


def test_a_smallest_point_where_isl_finds_none():
    """isl says of this that it has points, and that it has no least one."""
    word, half = 2**32, 2**31
    rows = [
        (-1, -half, 0, 1, word, 0),
        (-1, 1 - half, -word, 0, 0, 0),
        (0, -1, 0, 0, 2, 0),
        (0, -1, 0, 1, 0, 0),
        (0, 0, 0, 1, 0, 0),
        (0, half, 0, 0, -word, 0),
        (half - 1, -1, 0, 0, 0, 0),
        (half - 1, 0, 0, -1, 0, 0),
        (half - 1, half - 1, word, 0, 0, 0),
        (half, 1 - half, -word, 0, 0, 0),
        (half, 1, 0, 0, 0, 0),
        (half + 6, 1, 0, 0, 0, -word),
        (5 * half, half, 0, 0, 0, -(2**63)),
    ]
    found = Solver().smallest(5, [], rows, [0, 2])
    assert found is not None
    assert all(row[0] + sum(c * x for c, x in zip(row[1:], found, strict=True)) >= 0 for row in rows)
