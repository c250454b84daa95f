"""A question cut down to where two programs differ has the answer of the whole function; what it costs does not grow with that."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import tirlower as tl
from bench.schedule import module_text
from tests.fuzz.values import VERBS, chain
from tirlower.diagnostics import ScheduleError
from tirlower.poly.verdict import Verdict
from tirlower.schedule import narrowed
from tirlower.schedule.draft import Draft
from tirlower.schedule.narrowed import Narrowed
from tirlower.script import parse


class Compared:
    """Asks each question of the whole function too."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        self.original = Draft._asked
        compared = self

        def asked(draft: Draft, cut: Narrowed | None) -> Verdict:
            found = compared.original(draft, cut)
            compared.compare(draft, cut, found)
            return found

        monkeypatch.setattr(Draft, "_asked", asked)

    def compare(self, draft: Draft, cut: Narrowed | None, found: Verdict) -> None:
        if cut is None:
            self.counts["whole"] += 1
            return
        whole = self.original(draft, None)
        near = bool(cut.around or cut.given)
        self.counts[f"{'near' if near else 'apart'} {found.status}"] += 1
        if near:
            assert whole.proved or not found.proved, f"{draft.old}\nto\n{draft.func()}\n{whole}"
        else:
            assert whole.status == found.status, f"{draft.old}\nto\n{draft.func()}\n{whole} but {found}"


@pytest.mark.parametrize("first", range(0, 90, 30))
def test_random_steps(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Compared(monkeypatch)
    for seed in range(first, first + 30):
        rng = random.Random(seed)
        sch: Any = tl.Schedule(parse(chain(seed)), reassociate=False)
        for _ in range(4):
            try:
                VERBS[rng.choice(list(VERBS))](sch, rng)
            except ScheduleError:
                continue
    assert compared.counts["near proved"] and compared.counts["apart proved"] + compared.counts["apart refuted"]


BESIDE = """
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32"), n: T.int32):
    B = T.alloc_buffer((8, 8), "int32")
    X = T.alloc_buffer((8, 8), "int32")
    FIRST
    for i in range(8):
        BEFORE
        for j in range(8):
            B[i, j] = A[i, j] + 1
        for j in range(8):
            C[i, j] = B[i, j] * 2
        AFTER
    LAST
"""


@pytest.mark.parametrize(
    ("where", "stmt", "legal"),
    [
        ("LAST", "A[0, 0] = B[7, 7]", True),
        ("LAST", "X[0, 0] = A[0, 0]", True),
        ("AFTER", "A[i, 0] = B[i, 3]", True),
        ("AFTER", "A[i, 0] = 4", True),
        ("AFTER", "A[7 - i, 0] = B[7 - i, 3]", False),
        ("BEFORE", "A[i, 0] = B[i, 3]", False),
        ("BEFORE", "A[0, 0] = B[7 - i, 0]", False),
        ("BEFORE", "T.evaluate(T.assume(n > 3))", True),
        ("FIRST", "assert n > 3", True),
        ("AFTER", 'T.evaluate(T.call_extern("int32", "g", B.data))', False),
    ],
)
def test_what_stands_beside_decides_what_it_should(
    where: str, stmt: str, legal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = Compared(monkeypatch)
    lines = BESIDE.replace(where, stmt).splitlines()
    words = {"FIRST", "BEFORE", "AFTER", "LAST"}
    sch: Any = tl.Schedule(parse("\n".join(line for line in lines if line.strip() not in words)))
    assert sch.can("compute_inline", "B").proved is legal
    assert sum(compared.counts.values())


def test_an_index_that_something_left_out_writes_is_no_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Compared(monkeypatch)
    sch: Any = tl.Schedule(
        parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32"), P: T.Buffer((1,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        P[0] = 7 - i
        for j in range(1):
            B[P[0]] = A[i]
    for i in range(8):
        C[i] = B[i]
""")
    )
    assert not sch.can("stage_mem", sch.loop("j"), "B[0:+8]", load=False, store=False).proved
    assert not sch.can("compute_inline", "B").proved
    assert sum(compared.counts.values())


def test_copies_of_what_nothing_has_written_are_seen() -> None:
    sch: Any = tl.Schedule(
        parse("""
@T.prim_func
def f(C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        for j in range(8):
            B[j] = i
        C[i] = B[i]
""")
    )
    assert not sch.can("stage_mem", sch.loop("j"), "B", load=True, store=True).proved


STEPS = {
    "decompose_reduction": lambda sch, block, loops: sch.decompose_reduction(block, loops[2]),
    "cache_read": lambda sch, block, loops: sch.cache_read(block, 0, "local"),
    "cache_write": lambda sch, block, loops: sch.cache_write(block, 0, "local"),
    "reindex": lambda sch, block, loops: sch.reindex(block, ("read", 0)),
    "stage_mem": lambda sch, block, loops: sch.stage_mem(loops[1], "B4"),
}


@pytest.mark.parametrize("verb", STEPS)
def test_what_is_extracted_does_not_grow_with_the_module(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    original = narrowed.extract

    def counted(func: Any, *args: Any, **named: Any) -> Any:
        scop = original(func, *args, **named)
        sizes.append(len(scop.accesses))
        return scop

    def whole(*_: object) -> Any:
        raise AssertionError("the whole function was extracted")

    monkeypatch.setattr(narrowed, "extract", counted)
    monkeypatch.setattr("tirlower.schedule.facts.Facts.scop", whole)
    counts = []
    for blocks in (8, 24):
        sizes.clear()
        sch: Any = tl.Schedule(parse(module_text(blocks)))
        block = sch.get_block("C5")
        STEPS[verb](sch, block, sch.get_loops(block))
        counts.append([*sizes])
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("over", "where", "stmt", "legal"),
    [
        ("A", "LAST", "V[0] = B[7, 7]", True),
        ("A", "AFTER", "V[i * 8] = 4", True),
        ("A", "AFTER", "V[i * 8] = B[i, 3]", True),
        ("A", "BEFORE", "V[i * 8] = B[i, 3]", False),
        ("A", "BEFORE", "V[63 - i] = n", True),
        ("B", "AFTER", "A[i, 0] = V[i * 8 + 3]", False),
        ("B", "BEFORE", "V[i * 8] = 3", True),
        ("B", "LAST", "A[0, 0] = V[63]", False),
        ("C", "AFTER", "A[i, 0] = V[i * 8 + 3]", True),
        ("C", "BEFORE", "V[i * 8] = 3", True),
        ("X", "AFTER", "V[i] = B[i, 0]", True),
    ],
)
def test_views_of_memory_beside(over: str, where: str, stmt: str, legal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Compared(monkeypatch)
    view = f'V = T.decl_buffer((64,), "int32", data={over}.data)'
    lines = BESIDE.replace("FIRST", view).replace(where, stmt).splitlines()
    sch: Any = tl.Schedule(parse("\n".join(line for line in lines if line.strip() not in {"BEFORE", "AFTER", "LAST"})))
    for kind, given in (
        ("compute_inline", ("B",)),
        ("stage_mem", (sch.loop("C/j"), "B")),
        ("fission", (sch.loop("i"),)),
        ("cache_write", ("B", 0, "local")),
    ):
        found = sch.can(kind, *given)
        assert kind != "compute_inline" or found.proved is legal, found
    assert compared.counts.total()


def test_one_run_is_asked_about_under_a_view(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Compared(monkeypatch)
    sch: Any = tl.Schedule(
        parse("""
@T.prim_func
def f(m: T.int32, n: T.int32, A: T.Buffer((m * n,), "int32"), C: T.Buffer((m * n,), "int32")):
    V = T.decl_buffer((m, n), "int32", data=A.data)
    W = T.decl_buffer((m, n), "int32", data=C.data)
    for i in range(m):
        for j in range(n):
            W[i, j] = V[i, j] + W[i, j]
""")
    )
    sch.stage_mem(sch.loop("j"), "W")
    assert compared.counts["near proved"] == 1
