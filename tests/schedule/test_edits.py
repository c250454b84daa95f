"""Changes at several places of a function: where every old place is afterwards, against the nodes that stand there."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tirlower.diagnostics import ScheduleError
from tirlower.ir import AllocBuffer, Block, Buffer, BufferStore, For, PrimFunc, Seq, Stmt, Var, const
from tirlower.ir.path import Path, node_at, places
from tirlower.schedule.edits import Edit, Insert, Rebuilt, Site, edits_between

A = Buffer("A", (99,), "int32")


def store(number: int) -> Stmt:
    return BufferStore(A, number, (0,))


def tree(rng: random.Random, depth: int, count: list[int]) -> Stmt:
    count[0] += 1
    if depth and rng.random() < 0.25:  # a scope of its own among other statements
        alloc = AllocBuffer(Buffer(f"t{count[0]}", (4,), "int32"))
        return Seq((alloc, *(tree(rng, depth - 1, count) for _ in range(rng.randint(1, 2)))))
    if depth == 0 or rng.random() < 0.2:
        return store(count[0])
    body = (
        Seq(tuple(tree(rng, depth - 1, count) for _ in range(rng.randint(2, 4))))
        if rng.random() < 0.7
        else tree(rng, depth - 1, count)
    )
    return For(Var(f"l{count[0]}"), 0, 2, "serial", None, {}, body)


def drawn(rng: random.Random, func: PrimFunc, count: int) -> list[Any]:
    """Changes of places none of which is in another one."""
    found = [
        path.steps
        for path, node in places(func.body)
        if isinstance(node, Stmt) and not isinstance(node, Seq) and path.steps
    ]
    chosen: list[Any] = []
    for way in rng.sample(found, min(count, len(found))):
        steps = ("body", *way)
        taken = [one.site.steps for one in chosen if isinstance(one, Edit)]
        if any(steps[: len(t)] == t or t[: len(steps)] == steps for t in taken):
            continue
        if any(one.site.steps[: len(steps)] == steps for one in chosen):
            continue
        if rng.random() < 0.4:
            stmts = tuple(store(1000 + n) for n in range(rng.randint(1, 2)))
            chosen.append(Insert(Site("f", steps), stmts, behind=rng.random() < 0.5))
        else:
            new = rng.choice([None, store(2000), Seq((store(2001), store(2002)))])
            chosen.append(Edit(Site("f", steps), new))
    return chosen


@pytest.mark.parametrize("seed", range(60))
def test_places_lead_to_the_same_nodes(seed: int) -> None:
    rng = random.Random(seed)
    func = PrimFunc((), {}, "void", {}, tree(rng, 4, [0]))
    changes = drawn(rng, func, 4)
    made = Rebuilt(func, changes)
    replaced = [one.site.steps for one in changes if isinstance(one, Edit)]
    for path, node in places(func.body):
        steps = ("body", *path.steps)
        if not isinstance(node, Stmt) or isinstance(node, Seq):
            continue
        after = made.moved(steps)
        if any(steps[: len(one)] == one for one in replaced):
            assert after is None
            continue
        assert after is not None
        there = node_at(made.func, Path(after))
        if any(one.site.steps[: len(steps)] == steps and one.site.steps != steps for one in changes):
            assert isinstance(there, For) and isinstance(node, For) and there.loop_var is node.loop_var
        else:
            assert there is node
    for way, stmt in made.made():
        assert node_at(made.func, Path(way)) is stmt
    news = [one.value.value for _, one in places(made.func.body) if isinstance(one, BufferStore)]  # type: ignore[attr-defined]
    wanted = sum(len(one.stmts) for one in changes if isinstance(one, Insert))
    assert (
        sum(1000 <= value < 2000 for value in news)
        == wanted
        == sum(1 for _, s in made.made() if _value(s) // 1000 == 1)
    )


def _value(stmt: Stmt) -> int:
    return int(stmt.value.value) if isinstance(stmt, BufferStore) else 0  # type: ignore[attr-defined]


def test_one_that_is_left_alone_stands_without_its_sequence() -> None:
    loop = For(Var("i"), 0, 2, "serial", None, {}, Seq((store(1), store(2))))
    func = PrimFunc((), {}, "void", {}, loop)
    made = Rebuilt(func, [Edit(Site("f", ("body", "body", "stmts", 0)), None)])
    assert made.func.body.body is loop.body.stmts[1]  # type: ignore[attr-defined]
    assert made.moved(("body", "body", "stmts", 1)) == ("body", "body")


def test_what_is_allocated_in_front_reaches_to_the_end() -> None:
    func = PrimFunc((), {}, "void", {}, Seq((store(1), store(2))))
    alloc = AllocBuffer(Buffer("T", (4,), "int32"))
    made = Rebuilt(func, [Insert(Site("f", ("body", "stmts", 1)), (alloc,))])
    assert [type(one).__name__ for one in made.func.body.stmts] == ["BufferStore", "AllocBuffer", "BufferStore"]  # type: ignore[attr-defined]
    at_head = Rebuilt(func, [Insert(Site("f", ("body",)), (alloc,)), Edit(Site("f", ("body", "stmts", 0)), store(7))])
    assert at_head.func.body.stmts[0] is alloc and len(at_head.func.body.stmts) == 3  # type: ignore[attr-defined]
    assert at_head.moved(("body", "stmts", 1)) == ("body", "stmts", 2)


def test_changes_inside_of_each_other_are_an_error_of_ours() -> None:
    loop = For(Var("i"), 0, 2, "serial", None, {}, store(1))
    func = PrimFunc((), {}, "void", {}, loop)
    outer, inner = Edit(Site("f", ("body",)), store(3)), Edit(Site("f", ("body", "body")), store(4))
    for changes in ([outer, inner], [inner, outer], [outer, outer]):
        with pytest.raises(ScheduleError, match="internal error"):
            Rebuilt(func, changes)


def test_a_whole_function() -> None:
    func = PrimFunc((), {}, "void", {}, store(1))
    other = func.with_body(store(int(const(2, "int32").value)))
    made = Rebuilt(func, [Edit(Site("f"), other)])
    assert made.func is other and [*made.made()] == [(("body",), other.body)] and made.moved(("body",)) is None


@pytest.mark.parametrize("seed", range(40))
def test_the_edits_between_two_programs_are_of_what_differs(seed: int) -> None:
    rng, count = random.Random(seed), [0]
    whole = Seq(tuple(tree(rng, 2, count) for _ in range(6)))
    stmts = whole.stmts
    block = Block("root", (), body=whole)
    func = PrimFunc([A], body=block)
    changed = {at for at in range(len(stmts)) if rng.random() < 0.3}
    body = Seq(tuple(store(-1) if at in changed else stmt for at, stmt in enumerate(stmts)))
    new = block.with_(body=body)
    found = edits_between(Site("main", ("body",)), block, new)
    assert [edit.site.steps[-1] for edit in found] == sorted(changed)
    if found:
        made = Rebuilt(func, found).func
        assert isinstance(made.body, Block) and isinstance(made.body.body, Seq)
        assert [a is b for a, b in zip(made.body.body.stmts, stmts, strict=True)] == [
            at not in changed for at in range(len(stmts))
        ]
    other = new.with_(name="another")
    assert edits_between(Site("main", ("body",)), block, other) == (Edit(Site("main", ("body",)), other),)
