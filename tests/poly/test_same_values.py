"""``same_values``: two programs with what each access of one was in the other; what differs is shown by two instances."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import UnprovedStep
from tirlower.ir import PrimFunc, Var
from tirlower.ir.query import each
from tirlower.ir.stmt import BufferStore
from tirlower.poly import Scop, extract
from tirlower.poly.same_values import _Question, at_most, same_values
from tirlower.poly.scop import Statement
from tirlower.poly.twins import Handed, Twin
from tirlower.poly.verdict import Verdict
from tirlower.script import parse


def scops(before: str, after: str) -> tuple[Scop, Scop]:
    """Two programs whose parameters are the same memory."""
    first, second = (parse("@T.prim_func\n" + text) for text in (before, after))
    assert isinstance(first, PrimFunc)
    buffers = dict(zip(second.buffers, first.buffers, strict=True))
    from tirlower.ir.functor import substitute

    params = dict(zip(second.params, first.params, strict=True))
    memory = {mine.data: other.data for mine, other in buffers.items()}
    body = substitute(second.body, {**params, **memory}, buffers)
    return extract(first), extract(first.with_(body=body))


def compare(before: str, after: str, copies: tuple[int, ...] = (), pairs: dict[int, int] | None = None) -> Verdict:
    """The verdict where the n-th store after is the n-th store before, or the one that is given, in loops of the same names."""
    old, new = scops(before, after)
    twins = {}
    copied: list[Statement] = []
    for at, statement in enumerate(s for s in new.statements if isinstance(s.node, BufferStore)):
        if at in copies:
            copied.append(statement)
            continue
        stores = [s for s in old.statements if isinstance(s.node, BufferStore)]
        was = stores[(pairs or {}).get(at, at)]
        names = {loop.name: loop.var for loop in statement.loops}
        values: dict[Var, Var] = {loop.var: names[loop.name] for loop in was.loops}
        for mine, other in zip(statement.accesses, was.accesses, strict=True):
            twins[mine] = Twin(other, values)
    return same_values(old, new, twins, copied)


HEAD = 'def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):\n'


def test_a_copy_is_seen_through() -> None:
    before = HEAD + "    for i in range(8):\n        C[i] = A[i] + 1\n"
    copied = """    B = T.alloc_buffer(({size},), "int32")
    for j in range({size}):
        B[j] = A[j + {by}]
    for i in range(8):
        C[i] = B[i] + 1
"""
    assert compare(before, HEAD + copied.format(size=8, by=0), copies=(0,), pairs={1: 0}).proved
    short = compare(before, HEAD + copied.format(size=7, by=0), copies=(0,), pairs={1: 0})
    assert short.refuted
    assert str(short.witness) == "iteration (i = 7) reads A[7]"
    assert compare(before, HEAD + copied.format(size=8, by=-1), copies=(0,), pairs={1: 0}).refuted


def test_the_order_of_two_writes_of_one_element() -> None:
    both = "    for i in range(8):\n        C[i] = {}\n    for j in range(2, 5):\n        C[j] = {}\n"
    before = HEAD + both.format("1", "2")
    after = HEAD + "    for j in range(2, 5):\n        C[j] = 2\n    for i in range(8):\n        C[i] = 1\n"
    assert compare(before, before).proved
    found = compare(before, after, pairs={0: 1, 1: 0})
    assert found.refuted
    assert found.witness is not None
    assert [point.is_write for point in found.witness.points] == [True, True]


def test_a_result_that_is_not_left_any_more() -> None:
    before = HEAD + "    for i in range(8):\n        C[i] = A[i]\n"
    found = compare(before, HEAD + "    for i in range(7):\n        C[i] = A[i]\n")
    assert found.refuted
    assert str(found.witness) == "iteration (i = 7) writes C[7]"


def test_more_iterations_than_there_were() -> None:
    before = HEAD + "    for i in range(7):\n        C[i] = A[i]\n"
    assert compare(before, HEAD + "    for i in range(8):\n        C[i] = A[i]\n").refuted


def test_repetition_is_harmless_but_for_what_reads_its_own_result() -> None:
    twice = "    for t, i in T.grid(2, 8):\n        C[i] = {}\n"
    once = "    for i in range(8):\n        C[i] = {}\n"
    assert compare(HEAD + once.format("A[i] + 1"), HEAD + twice.format("A[i] + 1")).proved
    assert compare(HEAD + once.format("C[i] + 1"), HEAD + twice.format("C[i] + 1")).refuted


def test_memory_of_one_iteration_is_not_that_of_the_next() -> None:
    before = HEAD + "    for i in range(1, 8):\n        C[i] = A[i - 1]\n"
    after = (
        HEAD
        + """    for i in range(1, 8):
        B = T.alloc_buffer((8,), "int32")
        for j in range(8):
            if i == 1:
                B[j] = A[j]
        C[i] = B[i - 1]
"""
    )
    assert compare(before, after, copies=(0,), pairs={1: 0}).refuted


def test_values_that_are_handed_on() -> None:
    text = """    B = T.alloc_buffer((8,), "int32")
    for i in range({count}):
        B[i] = A[i]
    for i in range(8):
        C[i] = B[i]
"""
    for count, fine in ((8, True), (7, False)):
        old, new = scops(HEAD + text.format(count=count), HEAD + "    for i in range(8):\n        C[i] = A[i]\n")
        (read_a, write_b), (read_b, write_c) = (s.accesses for s in old.statements)
        loop = old.loops[0]
        mine = new.statements[0].loops[0].var
        theirs = old.loops[1].var
        twins = {
            new.accesses[0]: Twin(read_a, {loop.var: mine}),
            new.accesses[1]: Twin(write_c, {theirs: mine}),
        }
        handed = [Handed(read_b, write_b, {loop.var: theirs})]
        found = same_values(old, new, twins, handed_before=handed)
        assert found.proved is fine


@pytest.mark.parametrize("index", ["X[i]", "i"])
def test_an_unknown_element_keeps_its_order(index: str) -> None:
    head = 'def f(X: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):\n'
    before = head + f"    for i in range(8):\n        C[{index}] = i\n    for j in range(8):\n        C[j] = C[j] + 1\n"
    assert compare(before, before).proved
    assert all(
        store.buffer.name == "C" for store in each(BufferStore, extract(parse("@T.prim_func\n" + before)).func.body)
    )


def test_effects_do_not_move() -> None:
    before = HEAD + '    for i in range(8):\n        C[i] = T.call_extern("int32", "next")\n'
    assert "effects" in compare(before, before.replace("range(8)", "range(0, 8)")).reason


def test_isl_that_gives_up_makes_no_answer_another_one() -> None:
    seen = set()
    program = parse("""
@T.prim_func
def f(A: T.Buffer((23, 31), "int32"), C: T.Buffer((23,), "int32")):
    for i, k in T.grid(23, 31):
        if i + k < 40:
            C[i] = C[i] + A[i, k]
""")
    for limit in (1, 40, 170, 700, 1500, *range(2000, 30000, 1733), 1_000_000):
        sch: Any = tl.Schedule(program)
        outer, inner = sch.split("i", [None, 5])
        sch.reorder(outer, "k", inner)
        try:
            with at_most(limit):
                sch.stage_mem("k", "C")
            seen.add("proved")
        except UnprovedStep:
            seen.add("unknown")
    assert seen == {"proved", "unknown"}


def test_questions_stop_after_so_much_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Question, "by_boxes", lambda *_: None)  # the ways that ask isl nothing
    sch: Any = tl.Schedule(
        parse("""
@T.prim_func
def f(A: T.Buffer(("n",), "int32"), C: T.Buffer(("n",), "int32")):
    for i in range(n):
        C[i] = A[i] + A[n - 1 - i]
""")
    )
    with at_most(1_000_000), at_most(1):
        given_up = sch.can("stage_mem", sch.loop("i"), "A")
    assert given_up.status == "unknown" and "isl gave up" in given_up.reason
    with pytest.raises(ZeroDivisionError), at_most(1):
        raise ZeroDivisionError
    assert sch.can("stage_mem", sch.loop("i"), "A").proved
