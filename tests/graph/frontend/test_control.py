"""Choices, loops, calls and states of traced functions, judged by the same functions on NumPy's arrays."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.diagnostics import ArgumentValueError
from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.control import Call, If, While
from tirlower.graph.errors import GraphError
from tirlower.ir import assert_structural_equal
from tirlower.script.parse import parse

B = tg.dim("B", 0, 9)
X = tg.spec((B, 3), "float32")
FLAG = tg.spec((), "bool")


def same(a: object, b: object) -> None:
    for x, y in zip(a if isinstance(a, tuple) else (a,), b if isinstance(b, tuple) else (b,), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def round_trip(g: tg.Graph) -> None:
    """The text of a graph parses back to it, and gives it when it is run as Python."""
    text = str(g)
    store = {n.data.digest: n.data for h in (g, *inner_graphs(g)) for n in h.nodes if isinstance(n, tg.Const)}
    store |= {s.initial.digest: s.initial for s in g.effects}
    made = tg.parse(text, store)
    assert_structural_equal(made, g)
    assert str(made) == text
    tg.verify(made)
    space: dict[str, Any] = {"tg": tg}
    exec(text, space)
    assert_structural_equal(next(v for v in space.values() if isinstance(v, tg.Graph)), g)


def judged(function: Callable[..., object], specs: tuple[object, ...], *calls: tuple[Any, ...]) -> tg.Graph:
    """The graph of a function, whose results by the reference and compiled are those of the function on arrays."""
    g = tg.trace(function, *specs)
    tg.verify(g)
    round_trip(g)
    exe = tg.compile(g)
    for given in calls:
        wanted = function(*given)
        same(tg.interpret(g, *given), wanted)
        same(exe(*given), wanted)
    return g


def rows(n: int) -> Any:
    return np.arange(n * 3, dtype="float32").reshape(n, 3) / 4


def test_a_choice_reads_what_is_around_it() -> None:
    w = np.arange(3, dtype="float32")

    def f(x: Any, c: Any) -> object:
        y = x * 2
        return tg.cond(c, lambda v: (v + y, y), lambda v: (v * w, v), x)

    calls = [(rows(n), np.array(c)) for n in (0, 1, 5) for c in (True, False)]
    g = judged(f, (X, FLAG), *calls)
    (node,) = [n for n in g.nodes if isinstance(n, If)]
    assert [v.name for v in node.inputs] == ["x", "multiply"]


def test_a_known_condition_chooses_while_tracing() -> None:
    g = tg.trace(lambda x: tg.cond(True, np.exp, np.sin, x), X)
    assert [n.name for n in g.ops] == ["exp"]


def test_loops_of_no_trips_and_several() -> None:
    def f(n: Any, x: Any) -> object:
        return tg.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, v * 2 + x), np.int64(0), x)

    g = judged(f, (tg.spec((), "int64"), X), *[(np.array(n), rows(2)) for n in (0, 1, 4)])
    (loop,) = [n for n in g.nodes if isinstance(n, While)]
    assert len(loop.inputs) == 4  # what is carried, and what is read of the function around


def test_carried_values_that_change_places() -> None:
    def f(n: Any, x: Any, y: Any) -> object:
        return tg.while_loop(lambda i, a, b: i < n, lambda i, a, b: (i + 1, b, a), np.int64(0), x, y)[1:]

    g = judged(f, (tg.spec((), "int64"), X, X), *[(np.array(n), rows(2), rows(2) + 7) for n in range(4)])
    (loop,) = [n for n in g.nodes if isinstance(n, While)]
    assert loop.body.results[-2:] != loop.body.params[1:3] and {*loop.body.results} >= {*loop.body.params[1:3]}


def test_a_choice_in_a_loop_in_a_choice() -> None:
    def f(x: Any, c: Any) -> object:
        def looped(v: Any) -> object:
            return tg.while_loop(
                lambda a: a.sum() < 50,
                lambda a: tg.cond(a.sum() > 10, lambda: a * 2 + x, lambda: a + 1),
                v,
            )

        return tg.cond(c, looped, lambda v: v, x)

    g = judged(f, (X, FLAG), *[(rows(n) + 1, np.array(c)) for n in (1, 3) for c in (True, False)])
    (choice,) = [n for n in g.nodes if isinstance(n, If)]
    (loop,) = [n for n in choice.then_graph.nodes if isinstance(n, While)]
    assert any(isinstance(n, If) for n in loop.body.nodes)


def test_results_in_a_dict() -> None:
    g = tg.trace(lambda x, c: tg.cond(c, lambda: {"a": x, "b": x + 1}, lambda: {"a": x * 2, "b": x})["b"], X, FLAG)
    assert tg.interpret(g, rows(1), np.array(True)).tolist() == (rows(1) + 1).tolist()


def test_states_over_several_calls() -> None:
    total = tg.state("total", (3,), "float32", 1.0)

    def f(x: Any) -> object:
        before = total.load()
        total.store(before + x.sum(axis=0))
        return before, total.load() * 2

    g = tg.trace(f, X)
    tg.verify(g)
    round_trip(g)
    exe = tg.compile(g)
    held: dict[str, Any] = {}
    for n in (2, 0, 5):
        wanted = f(rows(n))
        same(tg.interpret(g, rows(n), state=held), wanted)
        same(exe(rows(n)), wanted)
        same(exe.state["total"], total.load())
    exe.reset()
    assert exe.state["total"].tolist() == [1, 1, 1]
    exe.state["total"][...] = 5
    assert exe(rows(0))[0].tolist() == [5, 5, 5]


def test_what_was_loaded_stays_when_the_state_changes() -> None:
    s = tg.state("s", (2,), "float32", 3.0)

    def f(x: Any) -> object:
        old = s.load()
        s.store(x)
        new = s.load()
        s.store(old + new)
        s.store(s.load())
        return old, new, s.load(), old * new

    g = tg.trace(f, tg.spec((2,), "float32"))
    exe = tg.compile(g)
    for n in range(3):
        given = np.array([n, 2], "float32")
        same(exe(given), f(given))


def test_states_in_choices_and_loops() -> None:
    count = tg.state("count", (), "int64", 0)

    def f(c: Any, n: Any) -> object:
        def bump() -> object:
            count.store(count.load() + 1)
            return count.load()

        i, _ = tg.while_loop(
            lambda i, last: i < n, lambda i, last: (i + 1, tg.cond(c, bump, lambda: last)), np.int64(0), np.int64(-1)
        )
        return i, count.load()

    g = tg.trace(f, FLAG, tg.spec((), "int64"))
    tg.verify(g)
    round_trip(g)
    assert g.writes == g.effects and len(g.writes) == 1
    exe = tg.compile(g)
    for c, n in ((True, 3), (False, 2), (True, 0), (True, 1)):
        same(exe(np.array(c), np.array(n)), f(np.array(c), np.array(n)))


def test_a_graph_called_in_another() -> None:
    @tg.graph
    def inner(x: tg.Tensor(("N", 3), "float32"), y: tg.Tensor((3,), "float32")):  # type: ignore[valid-type]
        return tg.nn.softmax(x + y), y

    def f(x: Any) -> object:
        a, y = inner(x, y=x[0])
        b, _ = inner(np.concatenate([a, x]), y)
        return b

    b = tg.dim("B", 1, 9)
    g = tg.trace(f, tg.spec((b, 3), "float32"))
    tg.verify(g)
    calls = [n for n in g.nodes if isinstance(n, Call)]
    assert [str(c.results[0].shape[0]) for c in calls] == ["B", "B * T.int64(2)"]
    exe = tg.compile(g)
    for n in (1, 4):
        wanted = tg.interpret(g, rows(n))
        np.testing.assert_allclose(exe(rows(n)), wanted, rtol=1e-6)
        np.testing.assert_allclose(f(rows(n)), wanted, rtol=1e-6)


def test_dims_of_a_graph_that_is_called_keep_their_facts() -> None:
    @tg.graph
    def inner(x: tg.Tensor(("N",), "float32")):  # type: ignore[valid-type]
        tg.dims(N=(1, 8))
        return x + 1

    with pytest.raises(GraphError, match="'inner' states 1 <= N <= 8, and is called with N = 9"):
        tg.trace(inner, tg.spec((9,), "float32"))
    with pytest.raises(GraphError, match="is called with N = M"):
        tg.trace(inner, tg.spec((tg.dim("M", 1, 9),), "float32"))
    tg.verify(tg.trace(inner, tg.spec((tg.dim("M", 2, 7),), "float32")))
    with pytest.raises(GraphError, match=r"takes float32\[N\] for 'x', got int8\[4\]"):
        tg.trace(inner, tg.spec((4,), "int8"))


SCALE = """
def scale(A: T.Buffer((n, 3), "float32"), out: T.Buffer((n, 3), "float32"), n: T.int64):
    for i, j in T.grid(n, 3):
        out[i, j] = A[i, j] * 3.0
"""


def test_a_prim_func_as_a_kernel() -> None:
    scale = parse(SCALE)

    def f(x: Any) -> Any:
        y = tg.call(scale, x + 1, out=tg.spec((B, 3), "float32"))
        return y + tg.call(scale, y, out=tg.spec((B, 3), "float32"))

    g = tg.trace(f, X)
    tg.verify(g)
    round_trip(g)
    exe = tg.compile(g)
    assert exe.kernels["scale"].calls == 2
    for n in (0, 1, 4):
        wanted = (rows(n) + 1) * 12
        same(tg.interpret(g, rows(n)), wanted)
        same(exe(rows(n)), wanted)


TAILS = """
def tails(A: T.Buffer((n * 2, m), "float32"), out: T.Buffer((n * 2,), "float32"), n: T.int64, m: T.int32):
    for i in range(n * 2):
        out[i] = A[i, m - 1]
"""


def test_a_kernel_is_given_the_dims_that_stand_only_inside_its_extents() -> None:
    tails = parse(TAILS)
    M = tg.dim("M", 1, 100)

    def f(x: Any) -> Any:
        twice = np.concatenate([x, x])
        return tg.call(tails, twice, out=tg.spec((B * 2,), "float32"), numbers=(B, M))

    g = tg.trace(f, tg.spec((B, M), "float32"))
    tg.verify(g)
    round_trip(g)
    assert 'numbers=("B", "M")' in str(g)
    exe = tg.compile(g)
    for n in (1, 3):
        wanted = np.concatenate([rows(n), rows(n)])[:, -1]
        same(tg.interpret(g, rows(n)), wanted)
        same(exe(rows(n)), wanted)
    outer = tg.trace(lambda x: g(x), tg.spec((2, 3), "float32"))
    same(tg.compile(outer)(rows(2)), np.concatenate([rows(2), rows(2)])[:, -1])
    with pytest.raises(GraphError, match="has its numbers already"):
        tg.trace(lambda x: tg.call(tg.extern("g"), x, out=tg.spec((B,), "float32"), numbers=(B,)), X)


def test_a_kernel_takes_extents_for_equal_that_each_call_compares() -> None:
    added = parse("""
def added(A: T.Buffer((n,), "float32"), C: T.Buffer((n,), "float32"), out: T.Buffer((n,), "float32"), n: T.int64):
    for i in range(n):
        out[i] = A[i] + C[i]
""")
    N = tg.dim("N")
    several = tg.spec((B,), "float32"), tg.spec((N,), "float32")
    g = tg.trace(lambda x, y: tg.call(added, x, y, out=tg.spec((B,), "float32")), *several)
    tg.verify(g)
    round_trip(g)
    with pytest.raises(GraphError, match="the graph does not assume it"):
        tg.verify(g.with_(assumed=()))
    exe, ones = tg.compile(g), np.ones(3, "float32")
    same(exe(ones, ones), ones + ones)
    with pytest.raises(ArgumentValueError, match="needs B and N to be equal, got 3 and 2"):
        exe(ones, ones[:2])


def test_programs_that_do_not_fit() -> None:
    x, c = tg.spec((4,), "float32"), FLAG
    s = tg.state("s", (4,), "float32")
    wrong: list[tuple[str, Callable[..., object], tuple[object, ...]]] = [
        (
            r"of two types: float32\[4\] and float32\[8\]",
            lambda x, c: tg.cond(c, lambda: x, lambda: np.tile(x, 2)),
            (x, c),
        ),
        ("results of two forms: 'one' and 'tuple'", lambda x, c: tg.cond(c, lambda: x, lambda: (x,)), (x, c)),
        (r"is a bool without axes, got float32\[4\]", lambda x: tg.cond(x, np.exp, np.sin, x), (x,)),
        (
            r"changes: float32\[4\] and float32\[8\]",
            lambda x: tg.while_loop(lambda v: v[0] < 1, lambda v: np.tile(v, 2), x),
            (x,),
        ),
        (
            "carries 1 values, and its body gives 2",
            lambda x: tg.while_loop(lambda v: v[0] < 1, lambda v: (v, v), x),
            (x,),
        ),
        ("carries nothing", lambda x: tg.while_loop(lambda: True, lambda: x), (x,)),
        (r"the state 's' is float32\[4\], got float32\[8\]", lambda x: s.store(np.tile(x, 2)), (x,)),
        ("two states are named 's'", lambda x: (s.load(), tg.state("s", (1,), "float32").load()), (x,)),
        ("takes functions, got 3", lambda x, c: tg.cond(c, 3, np.exp, x), (x, c)),
        ("wants the types of its results", lambda x: tg.call(parse(SCALE), x, out=3), (x,)),
        ("takes a prim func, got", lambda x: tg.call(np.exp, x, out=x), (x,)),
        (
            r"'A' of the kernel 'scale' is float32\[n, 3\], got float32\[4\]",
            lambda x: tg.call(parse(SCALE), x, out=x),
            (x,),
        ),
        (
            "takes 2 tensors .A, out., results included, got 3",
            lambda x: tg.call(parse(SCALE), x, x, out=tg.spec((4,), "float32")),
            (x,),
        ),
    ]
    for message, function, specs in wrong:
        with pytest.raises(GraphError, match=message) as caught:
            tg.trace(function, *specs)
        assert "test_control.py:" in str(caught.value), str(caught.value)


def test_a_tensor_of_a_branch_ends_with_it() -> None:
    kept: list[Any] = []

    def f(x: Any, c: Any) -> object:
        tg.cond(c, lambda: kept.append(x + 1) or x, lambda: x)
        return kept[0] * 2

    with pytest.raises(GraphError, match="has ended"):
        tg.trace(f, X, FLAG)


def random_function(seed: int) -> Callable[..., object]:
    """A function of (x, y, flag, trips) made of choices, loops, states and operations, nested three deep."""

    def run(x: Any, y: Any, flag: Any, trips: Any) -> object:
        rng = random.Random(seed)  # the same choices whenever it is run
        states = [STATES[seed % 4], STATES[(seed + 1) % 4]]
        several = [x, y]

        def block(values: list[Any], depth: int, rng: random.Random) -> list[Any]:
            values = list(values)
            for _ in range(rng.randint(1, 4)):
                kind = rng.randrange(7 if depth < 3 else 4)
                a, b = rng.choice(values), rng.choice(values)
                if kind == 0:
                    values.append(a + b)
                elif kind == 1:
                    values.append(np.maximum(a, b) * np.float32(0.5))
                elif kind == 2:
                    values.append(a + rng.choice(states).load())
                elif kind == 3:
                    rng.choice(states).store(a.max(axis=0) if rng.random() < 0.5 else np.ones(3, np.float32))
                elif kind == 4:
                    test = flag if rng.random() < 0.5 else a.sum() > b.sum()
                    first, second = (partial(nested, tuple(values), depth, rng.random()) for _ in range(2))
                    values += list(tg.cond(test, first, second))
                elif kind == 5:
                    step = partial(repeated, tuple(values), depth, rng.random())
                    values += list(tg.while_loop(lambda i, p, q: i < trips, step, np.int64(0), a, b)[1:])
                else:
                    values += [b, a]
            return values

        def nested(values: tuple[Any, ...], depth: int, within: float) -> tuple[Any, ...]:
            return tuple(block(list(values), depth + 1, random.Random(within))[-2:])

        def repeated(values: tuple[Any, ...], depth: int, within: float, i: Any, p: Any, q: Any) -> tuple[Any, ...]:
            return (i + 1, *nested((*values, p, q), depth, within))

        return tuple(block(several, 0, rng)[-3:])

    return run


STATES = [tg.state(f"s{n}", (3,), "float32", float(n)) for n in range(4)]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.by_day
def test_random_programs(seed: int) -> None:
    f = random_function(seed)
    n = tg.dim("N", 1, 5)
    specs = (tg.spec((n, 3), "float32"), tg.spec((n, 3), "float32"), FLAG, tg.spec((), "int64"))
    g = tg.trace(f, *specs)
    tg.verify(g)
    round_trip(g)
    exe = tg.compile(g)
    held: dict[str, Any] = {}
    for state in STATES:
        state._array = None
    for size, flag, trips in ((2, True, 2), (1, False, 0), (3, True, 1), (3, False, 3)):
        given = (rows(size) - 1, rows(size) * 2, np.array(flag), np.array(trips))
        wanted = f(*given)
        same(tg.interpret(g, *given, state=held), wanted)
        same(exe(*given), wanted)


def test_texts_that_are_wrong() -> None:
    head = '@tg.graph\ndef main(x: tg.Tensor((3,), "float32"), c: tg.Tensor((), "bool")):\n'
    inner = '    @tg.graph\n    def f(p: tg.Tensor((3,), "float32")):\n        e = tg.exp(p)\n        return e\n'
    for message, lines in (
        ("this is no graph that stands before this line: g", "    y = tg.cond(c, g, g, x)\n"),
        ("this is no graph that stands before this line: g", "    y = g(x)\n"),
        ("this is no state that stands before this line: s", "    y = s.load()\n"),
        ("this is no state that stands before this line: s", "    s.store(x)\n    y = tg.exp(x)\n"),
        ("'f' is made twice", inner + "    f = tg.exp(x)\n    y = f\n"),
        ("f has 1 results, got 2 names", inner + "    a, y = f(x)\n"),
        ("the results of this line have no names", inner + "    f(x)\n    y = tg.exp(x)\n"),
        ("a bool without axes", inner + "    y = tg.cond(x, f, f, x)\n"),
        ("there is no value 'x' before this line", inner.replace("exp(p)", "exp(x)") + "    y = f(x)\n"),
        ("tg.state is not given what it takes", '    s = tg.state("s", 3, "float32", 0)\n    y = s.load()\n'),
        ("this is no script of a prim func", '    k = tg.prim_func("def")\n    y = tg.exp(x)\n'),
        ("this is no kernel that stands before", '    y = tg.call(k, x, out=tg.spec((3,), "float32"))\n'),
    ):
        with pytest.raises(GraphError, match=message) as caught:
            tg.parse(head + lines + "    return y\n")
        assert "<graph>" in str(caught.value), str(caught.value)


def test_texts_of_kernels_and_results_without_names() -> None:
    s = tg.state("s", (3,), "float32", np.arange(3, dtype="float32"))
    fixed = tg.state("k", (3,), "float32", 2.0, mutable=False)
    n = tg.dim("N", 1, 4)

    def f(x: Any, c: Any) -> object:
        tg.cond(c, lambda: s.store(x[0]), lambda: None)
        a, b = tg.call(tg.extern("two", (n, n * 2), 64), x, out=(tg.spec((n,), "float32"), tg.spec((3,), "int8")))
        tg.call(tg.extern("log"), b, out=(), effect=True)
        d = tg.cond(c, lambda: {"p": a, "q": a + 1}, lambda: {"p": a * 2, "q": a})
        return {"one": s.load() * fixed.load(), "two": d["q"]}

    g = tg.trace(f, tg.spec((n, 3), "float32"), FLAG)
    tg.verify(g)
    round_trip(g)
    with pytest.raises(GraphError, match="the reference knows nothing of 'two'"):
        tg.interpret(g, rows(2), np.array(True))


def test_two_threads_and_one_state() -> None:
    count = tg.state("count", (), "int64", 0)

    def f(x: Any) -> object:
        count.store(count.load() + 1)
        return count.load(), x * 2

    exe = tg.compile(tg.trace(f, tg.spec((50,), "float32")))
    seen: list[int] = []

    def run() -> None:
        for _ in range(200):
            seen.append(int(exe(np.ones(50, "float32"))[0]))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == list(range(1, 401)) and exe.state["count"] == 400
