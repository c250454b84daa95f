"""States are accessed once where that is enough, and are not there where a constant or another one is."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tests.graph.passes.checking import check_graph

SIMPLIFY = tg.passes.SimplifyGlobals()
FOLD = tg.passes.FoldGlobals()

H = '    h = tg.state("h", (2,), "float32", 0.0)\n'
P = '    p = tg.state("p", (2,), "float32", 0.0, public=False)\n'
TYPE = 'tg.Tensor((2,), "float32")'


def _graph(*lines: str, states: str = H, inner: str = "") -> str:
    body = "".join(f"    {line}\n" for line in lines).replace("->", f": {TYPE} =")
    return f"@tg.graph\ndef f(x: {TYPE}, y: {TYPE}):\n{states}{inner}{body}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["h.store(x)", "a-> h.load()", "return a"], ["h.store(x)", "return x"]),  # a load behind a store
        (["a-> h.load()", "b-> h.load()", "return a, b"], ["a-> h.load()", "return a, a"]),  # and behind a load
        (["h.store(x)", "h.store(y)", "return x"], ["h.store(y)", "return x"]),  # a store that is overwritten
        (["a-> h.load()", "h.store(a)", "return a"], ["a-> h.load()", "return a"]),  # what is there already
        (["a-> h.load()", "h.store(x)", "h.store(a)", "return a"], ["a-> h.load()", "return a"]),  # also at the end
    ],
)
def test_accesses_that_say_nothing_new_are_gone(before: list[str], after: list[str]) -> None:
    check_graph(SIMPLIFY, _graph(*before), _graph(*after))


READS = f"    @tg.graph\n    def reads(z: {TYPE}):\n        b: {TYPE} = h.load()\n        return b\n\n"
WRITES = "    @tg.graph\n    def writes(z: {0}):\n        h.store(z)\n        return z\n\n".replace("{0}", TYPE)


@pytest.mark.parametrize(
    ("lines", "inner"),
    [
        (["a-> h.load()", "h.store(x)", "return a"], ""),  # the load came before
        (["h.store(x)", "a-> reads(x)", "h.store(y)", "return a"], READS),  # a call that reads between two stores
        (["a-> h.load()", "b-> writes(x)", "c-> h.load()", "return a, b, c"], WRITES),  # a call that writes
        (["h.store(x)", "b-> writes(y)", "h.store(x)", "return b"], WRITES),
    ],
)
def test_accesses_that_others_may_see_stay(lines: list[str], inner: str) -> None:
    graph = tg.parse(_graph(*lines, inner=inner))
    assert check_graph(SIMPLIFY, graph, graph) is graph


def test_a_loop_that_writes_a_state_is_looked_into_but_not_through() -> None:
    total = tg.state("total", (), "int32")

    def model(n):
        total.store(n)
        total.store(n + 0)

        def body(i):
            total.store(total.load() + i)
            total.store(total.load() * 2)
            return i - 1

        tg.while_loop(lambda i: i > 0, body, n)
        return total.load()

    graph = tg.trace(model, tg.spec((), "int32"))
    after = SIMPLIFY(graph)
    loop = next(node for node in after.nodes if node.graphs)
    assert [type(n).__name__ for n in loop.graphs[1].nodes].count("Store") == 1
    assert [type(n).__name__ for n in after.nodes].count("Store") == 1
    for n in (0, 1, 3, 5):
        wanted = n
        for i in range(n, 0, -1):
            wanted = (wanted + i) * 2
        assert tg.interpret(after, np.int32(n)) == tg.interpret(graph, np.int32(n)) == wanted
        assert tg.compile(after)(np.int32(n)) == wanted


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (["a-> p.load()", "return a"], ['a = tg.constant("float32", (2,), 0.0)', "return a"]),  # never stored to
        (["p.store(x)", "return x"], ["return x"]),  # never loaded
        (  # the one constant is stored before anybody looks
            ['c = tg.constant("float32", (2,), 3.0)', "p.store(c)", "a-> p.load()", "return a"],
            ['c = tg.constant("float32", (2,), 3.0)', 'a = tg.constant("float32", (2,), 3.0)', "return a"],
        ),
        (  # what is stored is what was there at first
            ["a-> p.load()", 'c = tg.constant("float32", (2,), 0.0)', "p.store(c)", "return a"],
            ['a = tg.constant("float32", (2,), 0.0)', 'c = tg.constant("float32", (2,), 0.0)', "return a"],
        ),
    ],
)
def test_private_states_are_folded_away(before: list[str], after: list[str]) -> None:
    check_graph(FOLD, _graph(*before, states=P), _graph(*after, states=""))
    public = tg.parse(_graph(*before, states=P.replace(", public=False", "")))
    assert FOLD(public) is public


@pytest.mark.parametrize(
    "lines",
    [
        ["a-> p.load()", "p.store(x)", "return a"],
        ["a-> p.load()", 'c = tg.constant("float32", (2,), 3.0)', "p.store(c)", "return a"],  # the first call sees 0
        ['c = tg.constant("float32", (2,), 3.0)', "p.store(c)", "a-> p.load()", "p.store(x)", "return a"],
        ['c = tg.constant("float32", (2,), -0.0)', "a-> p.load()", "p.store(c)", "return a"],  # 0.0 is no -0.0
    ],
)
def test_states_that_change_stay(lines: list[str]) -> None:
    graph = tg.parse(_graph(*lines, states=P))
    assert check_graph(FOLD, graph, graph) is graph


Q = P + P.replace("p", "q", 1).replace('"p"', '"q"')


def test_of_two_states_that_hold_the_same_one_is_left() -> None:
    before = ["a-> p.load()", "b-> q.load()", "p.store(x)", "q.store(x)", "return a, b"]
    after = check_graph(FOLD, _graph(*before, states=Q))
    assert [one.name for one in after.effects] == ["p"] and len(after.nodes) == 3
    others = [
        ["a-> p.load()", "b-> q.load()", "p.store(x)", "q.store(y)", "return a, b"],
        ["p.store(x)", "b-> q.load()", "q.store(x)", "a-> p.load()", "return a, b"],  # once they differ
        ["a-> p.load()", "b-> q.load()", "p.store(x)", "p.store(y)", "q.store(x)", "q.store(y)", "return a, b"],
    ]
    for lines in others:
        graph = tg.parse(_graph(*lines, states=Q))
        assert check_graph(FOLD, graph, graph) is graph
    differ = tg.parse(_graph(*before, states=Q.replace('"q", (2,), "float32", 0.0', '"q", (2,), "float32", 1.0')))
    assert FOLD(differ) is differ


ASSERTED = [
    f"less: {TYPE} = tg.less(x, y)".replace("float32", "bool"),
    'ok: tg.Tensor((), "bool") = tg.all(less)',
    'tg.assert_(ok, "less")',
]


@pytest.mark.parametrize(
    ("which", "lines"),
    [
        (SIMPLIFY, ["h.store(x)", *ASSERTED, "h.store(y)", "a-> h.load()", "return x, y"]),
        (FOLD, ["a-> p.load()", "b-> q.load()", "p.store(x)", *ASSERTED, "q.store(x)", "return a, b"]),
    ],
)
def test_a_call_that_ends_at_an_assertion_leaves_what_it_had_stored(
    which: tg.passes.GraphPass, lines: list[str]
) -> None:
    before = tg.parse(_graph(*lines, states=H + Q))
    after = which(before)
    x, y = np.ones(2, "float32"), np.full(2, 2, "float32")
    seen: list[list[object]] = []
    for graph in (before, after):
        state: dict[str, np.ndarray] = {}
        with pytest.raises(tl.RuntimeAssertError):
            tg.interpret(graph, y, x, state=state)
        held = state.get("h", np.zeros(2, "float32")).tolist()
        seen.append([held, *(r.tolist() for r in tg.interpret(graph, x, y, state=state))])
    assert seen[0] == seen[1]
    assert seen[0] == ([[2, 2], [1, 1], [2, 2]] if which is SIMPLIFY else [[0, 0], [2, 2], [0, 0]])


def test_what_states_hold_after_several_calls_is_what_it_was() -> None:
    """A cache with a length, private twins and a public sum: three calls, by the reference and compiled."""
    total = tg.state("total", (), "float32")
    a, b = (tg.state(name, (3,), "float32", public=False) for name in "ab")

    def model(x):
        both = a.load() + b.load()
        a.store(x)
        b.store(x)
        total.store(total.load() + both.sum())
        total.store(total.load() + 1)
        return both, total.load()

    graph = tg.trace(model, tg.spec((3,), "float32"))
    after = FOLD(SIMPLIFY(graph))
    assert sorted(one.name for one in after.effects) == ["a", "total"]
    was, now, exe = {}, {}, tg.compile(after)
    for n in range(3):
        x = np.arange(3, dtype="float32") + n
        wanted, got, ran = tg.interpret(graph, x, state=was), tg.interpret(after, x, state=now), exe(x)
        for one, two, three in zip(wanted, got, ran, strict=True):
            np.testing.assert_array_equal(one, two)
            np.testing.assert_array_equal(one, three)
        assert was["total"] == now["total"] == exe.state["total"]


def test_twenty_thousand_accesses_are_looked_at_once() -> None:
    b = tg.GraphBuilder()
    held = tg.state("h", (2,), "float32").held
    x = b.param("x", (2,), "float32")
    for _ in range(10_000):
        b.store(held, x)
        x = b.load(held)
    assert len(SIMPLIFY(b.finish(x)).nodes) == 1
