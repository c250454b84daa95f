"""``non_temporal``: what nobody reads goes past the caches; what is read again does not."""

from __future__ import annotations

from typing import Any

import numpy as np

import tirlower as tl
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable
from tirlower.script import parse

FILL = """
@T.prim_func
def f(A: T.Buffer((64, 32), "float32"), C: T.Buffer((64, 32), "float32"), D: T.Buffer((32,), "float32")):
    for i in range(64):
        for j in range(32):
            C[i, j] = {value}
    for j in range(32):
        D[j] = {again}
"""


def test_a_filled_array() -> None:
    text = FILL.format(value="A[i, j] * T.float32(2)", again="A[0, j]")
    sch = taken(text, lambda sch: sch.non_temporal("i", "C"))
    assert any("fits into a cache" in record.why for record in sch.steps)
    a, c, d = (
        np.arange(64 * 32, dtype="float32").reshape(64, 32),
        np.zeros((64, 32), "float32"),
        np.zeros(32, "float32"),
    )
    tl.build(sch.mod["main"], schedule="none")(a, c, d)
    np.testing.assert_array_equal(c, a * 2)


def test_what_is_read_again_or_not_only_filled() -> None:
    again = FILL.format(value="A[i, j]", again="C[3, j]")
    refused(again, lambda sch: sch.non_temporal("i", "C"), NotApplicable, "read again")
    update = FILL.format(value="C[i, j] + A[i, j]", again="A[0, j]")
    refused(update, lambda sch: sch.non_temporal("i", "C"), NotApplicable, "only store")


def test_wrong_arguments_and_own_memory() -> None:
    text = FILL.format(value="A[i, j]", again="A[0, j]")
    refused(text, lambda sch: sch.non_temporal("i", "C", "load"), BadArgument)
    own: Any = tl.Schedule(parse(text))
    own.cache_write("C", 0, "global")
    assert not _can(own)


def _can(sch: Any) -> bool:
    try:
        return bool(sch.can("non_temporal", "i", "C_global").proved)
    except NotApplicable:
        return False
