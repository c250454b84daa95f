"""Every key with a row, on loops of every kind."""

from __future__ import annotations

import pytest

from tirlower.ir import Evaluate, For, Var
from tirlower.schedule.annotations import ROWS, shared_out


@pytest.mark.parametrize("kind", ["serial", "parallel", "vectorized", "unroll"])
def test_nothing_is_lost_and_kinds_keep_what_is_theirs(kind: str) -> None:
    keys = {**dict.fromkeys(ROWS, True), "unknown": 1}
    loop = For(Var("i"), 0, 8, kind, None, keys, Evaluate(0))
    plain = loop.with_(kind="serial", annotations={})
    parts = [loop, plain] if kind == "parallel" else [plain, loop]
    made = shared_out(loop, parts)
    assert set(made[0]) | set(made[1]) == set(keys) and "unknown" in made[0]
    assert ("tir.reduction" in made[0]) == (kind in ("parallel", "serial"))
