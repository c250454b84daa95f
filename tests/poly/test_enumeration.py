"""isl's verdict against brute force on random loop nests: no wrong verdict, and none unknown, for all is affine.

Two thousand nests (and a few more, for those too large to enumerate), all but each fourth batch of them in the long checks;
``TIRLOWER_NESTS`` runs another number of them, ``TIRLOWER_NESTS_FROM`` starts at another seed.
"""

from __future__ import annotations

import os

import pytest

from tests.poly.brute import events, parallel_conflict, vector_conflict
from tests.poly.nests import random_nest
from tests.sampling import by_day
from tirlower.poly import extract, is_parallel, is_vectorizable

COUNT = int(os.environ.get("TIRLOWER_NESTS", "2020"))
START = int(os.environ.get("TIRLOWER_NESTS_FROM", "0"))
BATCH = 20


def check(seed: int) -> None:
    func = random_nest(seed)
    found = events(func)
    if len(found) > 3000:
        return
    scop = extract(func)
    for loop in scop.loops:
        for question, brute in ((is_parallel, parallel_conflict), (is_vectorizable, vector_conflict)):
            verdict = question(scop, loop)
            conflict = brute(found, loop.node)
            wanted = "proved" if conflict is None else "refuted"
            assert verdict.status == wanted, (
                f"seed {seed}: {question.__name__}({loop.name}) is {verdict.status} ({verdict.reason}; "
                f"{verdict.witness}), brute force: {conflict}\n{func.script()}"
            )
            if conflict is not None:
                assert verdict.witness is not None, f"seed {seed}: no witness"
                times = []
                for point in verdict.witness.points:
                    hits = [
                        e
                        for e in found
                        if e.node is point.node
                        and tuple(v for _, v, _ in e.loops) == tuple(v for _, v in point.loops)
                        and point.indices in e.indices
                    ]
                    assert hits, f"seed {seed}: {point} does not happen\n{func.script()}"
                    times.append(min(found.index(e) for e in hits))
                assert times == sorted(times), (
                    f"seed {seed}: {verdict.witness}: the first comes second\n{func.script()}"
                )


@pytest.mark.parametrize("first", by_day(range(START, START + COUNT, BATCH), 4))
def test_verdicts_equal_brute_force(first: int):
    for seed in range(first, min(first + BATCH, START + COUNT)):
        check(seed)
