"""What ``bench.revisions`` counts."""

from __future__ import annotations

import pytest

import tirlower as tl
from bench.revision_worker import Counted
from bench.revisions import _COUNTS
from tirlower.script import parse

_HALVES = """
@T.prim_func
def halves(x: T.int64) -> T.int64:
    while x % 2 == 0 and x > 0:
        x = x // 2
    return x
"""


@pytest.mark.skipif(not _COUNTS, reason="counters are put into x86's assembly")
def test_what_a_call_executes_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE", "off")  # what counts belongs to this process
    with Counted() as counted:
        made = tl.build(parse(_HALVES), "llvm -num_threads=1")
    assert isinstance(made, tl.Kernel)

    def executed(x: int) -> list[int]:
        before = counted.executed()
        assert made(x) == 1
        return [now - then for now, then in zip(counted.executed(), before, strict=True)]

    ten, twenty, thirty = executed(1 << 10), executed(1 << 20), executed(1 << 30)
    assert [b - a for a, b in zip(ten, twenty, strict=True)] == [b - a for a, b in zip(twenty, thirty, strict=True)]
    instructions, decisions = (b - a for a, b in zip(ten, twenty, strict=True))
    assert instructions > decisions and decisions % 10 == 0 and decisions >= 20
    assert executed(1 << 10) == ten
