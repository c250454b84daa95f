from __future__ import annotations

import itertools

import pytest

from tirlower.arith import Analyzer
from tirlower.ir import IntImm, Ramp, Range, Var, as_expr, build, substitute
from tirlower.rewrite.storage.in_place import injective

i, j, k, n = Var("i"), Var("j"), Var("k"), Var("n")

INDICES = [
    (i,), (i * 2,), (i + j,), (i * 5 + j,), (i * 4 + j,), (j * 8 + i,), (i - j * 8,), (i, j), (j,), (i // 2,), (i % 3,),
    (i // 2, i % 2), (i * 10 + j,), (7 - i,), ((i * 5 + j) // 5, (i * 5 + j) % 5), (as_expr(0),), (i * j,), (i * 0 + j,),
    (build.min_(i, 3),), (i + j * 7, j), (Ramp(i * 4, 1, 4),), (Ramp(i, 1, 4),), (Ramp(i * 8, 2, 4),), (Ramp(i, 8, 2),),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(INDICES)))
@pytest.mark.parametrize("extents", [(8, 1), (8, 5), (2, 3), (1, 1)])
def test_never_claimed_where_two_iterations_meet(case: int, extents: tuple[int, int]) -> None:
    indices = INDICES[case]
    loops = {i: Range(as_expr(0), as_expr(extents[0])), j: Range(as_expr(0), as_expr(extents[1]))}
    seen: set[tuple[int, ...]] = set()
    meet = False
    for a, b in itertools.product(range(extents[0]), range(extents[1])):
        lanes = indices[0].lanes if isinstance(indices[0], Ramp) else 1
        touched = set()
        for lane in range(lanes):
            parts = [x.base + x.stride * lane if isinstance(x, Ramp) else x for x in indices]
            found = [Analyzer().simplify(substitute(part, {i: a, j: b})) for part in parts]
            touched.add(tuple(f.value for f in found if isinstance(f, IntImm)))
        meet = meet or bool(touched & seen)
        seen |= touched
    claimed = injective(indices, loops)
    assert not (claimed and meet)
    usual = case in (0, 1, 3, 5, 7, 13) or (extents[1] == 1 and case in (2, 4, 6, 12, 20))
    if usual and not meet:
        assert claimed


def test_symbolic_extents() -> None:
    outer, inner = Range(as_expr(0), n), Range(as_expr(0), as_expr(4))
    assert injective((i * 4 + j,), {i: outer, j: inner})
    assert not injective((i + j,), {i: outer, j: inner})
    assert injective((i, j), {i: outer, j: Range(as_expr(0), n)})
    assert not injective((i * 4 + j,), {i: outer, j: Range(as_expr(0), n)})
