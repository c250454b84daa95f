"""Where handles stand after others moved: in sequences that grow, in what was rewritten, in what is no more."""

from __future__ import annotations

from tirlower.ir.func import IRModule
from tirlower.ir.stmt import For, Seq
from tirlower.schedule.facts import Facts
from tirlower.schedule.handles import LoopRV
from tirlower.schedule.sites import Change, Edit, Ended, Forward, Place, Site, at_site, moved
from tirlower.script import parse

THREE = """
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        A[i] = 1
    for j in range(8):
        A[j] = 2
    for k in range(8):
        for l in range(8):
            A[k] = 3
"""


def test_a_statement_becomes_two_and_those_behind_are_counted_anew() -> None:
    mod = IRModule({"main": parse(THREE)})
    body = mod["main"].body
    assert isinstance(body, Seq)
    i, j, k = body.stmts
    assert isinstance(i, For) and isinstance(j, For) and isinstance(k, For)
    places: dict[object, Place] = {}
    handles = {name: LoopRV(name, None) for name in "ijkl"}  # type: ignore[arg-type]
    for at, name in enumerate("ijk"):
        places[handles[name]] = Site("main", ("body", "stmts", at))
    places[handles["l"]] = Site("main", ("body", "stmts", 2, "body"))
    one, two = j.with_(kind="unroll"), j.with_(kind="parallel")
    forward = Forward()
    forward.end(j, one, two)
    change = Change(Edit(Site("main", ("body", "stmts", 1)), Seq((one, two))), forward)
    ended = Ended(1, "cut")
    made = moved(mod, places, change, ended, Facts().inside)  # type: ignore[arg-type]
    after, table, found = made.mod, made.places, made.found
    assert table[handles["j"]] is ended
    assert [at_site(after, table[handles[name]]) for name in "ikl"] == [i, k, k.body]
    assert at_site(after, found[one]) is one and at_site(after, found[two]) is two
    # What was not touched is the same object, and the module of before is as it was.
    assert mod["main"].body is body and len(after["main"].body.stmts) == 4


def test_facts_about_what_did_not_change_are_not_collected_again() -> None:
    func = parse(THREE)
    facts = Facts()
    first = facts.inside(func.body)
    assert [way for way, stmt in first if isinstance(stmt, For)] == [
        ("stmts", 0),
        ("stmts", 1),
        ("stmts", 2),
        ("stmts", 2, "body"),
    ]
    assert facts.inside(func.body) is first
    body = func.body
    assert isinstance(body, Seq)
    changed = body.with_(stmts=(body.stmts[0].with_(kind="parallel"), *body.stmts[1:]))
    assert facts.inside(changed) is not first and facts.inside(body.stmts[2]) is facts.inside(body.stmts[2])
