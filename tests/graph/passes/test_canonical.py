"""Rules together, to a fixpoint; and that no extent is left over."""

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tests.graph.passes.checking import check_graph
from tirlower.graph.passes import canonical


def test_views_of_views_become_one():
    B = tg.dim("B", 1, 8)

    def model(x):
        y = x.reshape(-1, 4, 3).transpose(0, 2, 1).transpose(0, 2, 1)
        y = y[:, None].reshape(-1, 2, 6) * 1
        return y[:, 0:2][:, 1:2]

    after = check_graph(tg.passes.Canonicalize(), tg.trace(model, tg.spec((B, 12), "float32")))
    assert [op.name for op in after.ops] in (["reshape", "slice"], ["reshape", "slice", "slice"])


def test_a_state_takes_what_is_proved_to_be_of_its_type():
    graph = tg.parse("""
@tg.graph
def g(x: tg.Tensor(("B", 4), "int32")):
    tg.dims(B=(1, None))
    s = tg.state("s", (1, 2), "int32", 0)
    a: tg.Tensor(("(B + 1) // 2", 2), "int32") = tg.slice(x, starts=(None, 1), ends=(None, None), axes=(0, 1), steps=(2, 2))
    b: tg.Tensor(("(min(4, (B + 1) // 2) + 1) // 2", 2), "int32") = tg.slice(a, starts=(0,), ends=(4,), axes=(0,), steps=(2,))
    c: tg.Tensor((1, 2), "int32") = tg.slice(b, starts=(-1,), ends=(None,), axes=(0,))
    s.store(c)
    return c
""")
    after = check_graph(tg.passes.Canonicalize(), graph)
    assert [op.name for op in after.ops] == ["slice"] and after.results[0].shape[0] != 1, "one, and not written so"
    for one in (after, tg.parse(str(after))):
        exe = tg.compile(one)
        for rows in range(1, 12):
            x = np.arange(rows * 4, dtype="int32").reshape(rows, 4)
            wanted = x[::2, 1::2][:4:2][-1:]
            assert (exe(x) == wanted).all() and (exe.state["s"] == wanted).all(), rows


def test_a_split_that_is_concatenated_again_is_gone():
    def model(x):
        a, b, c = x[:2], x[2:5], x[5:]
        return np.concatenate([np.concatenate([a, b]), c])

    after = check_graph(tg.passes.Canonicalize(), tg.trace(model, tg.spec((7, 3), "float32")))
    assert not after.ops and after.results == after.params


def test_two_thousand_parts():
    b = tg.GraphBuilder()
    x = b.param("x", (2000, 2), "float32")
    parts = [b.op("slice", x, starts=(n,), ends=(n + 1,), axes=(0,)) for n in range(2000)]
    after = tg.passes.Canonicalize()(b.finish(b.op("concat", *parts)))
    assert not after.ops


def test_the_policy_decides():
    graph = tg.trace(lambda x: (x / 10, x**2, x / 4), tg.spec((4,), "float32"))

    def names(numerics):
        with tl.PassContext(config={"graph.numerics": numerics}):
            return [op.name for op in tg.passes.Canonicalize()(graph).ops]

    assert names("exact") == ["divide", "power", "multiply"]
    assert names("default") == ["divide", "multiply", "multiply"]
    assert names("fast") == ["multiply", "multiply", "multiply"]


def test_rounds_that_never_end_are_an_error(monkeypatch):
    monkeypatch.setattr(canonical, "apply_rules", lambda graph, table: graph.with_attr("n", 1))
    with pytest.raises(tg.GraphError, match="rules undo one another in main"):
        tg.passes.Canonicalize()(tg.trace(lambda x: x + 1, tg.spec((2,), "float32")))


def test_inner_graphs_are_rewritten_once_and_composites_left():
    inner, outer = tg.GraphBuilder("inner"), tg.GraphBuilder("outer")
    x = inner.param("x", (4,), "float32")
    f = inner.finish(inner.op("negative", inner.op("negative", inner.op("exp", x))))
    y = outer.param("y", (4,), "float32")
    (a,), (b,) = outer.call(f, y), outer.call(f, y)
    (c,) = outer.call(f.with_attr("Composite", "lib.exp"), b)
    graph = tg.passes.Canonicalize()(outer.finish([a, c]))
    first, second, third = (node.graphs[0] for node in graph.nodes)
    assert first is second and [op.name for op in first.ops] == ["exp"]
    assert [op.name for op in third.ops] == ["exp", "negative", "negative"]
    assert tg.passes.Canonicalize()(graph) is graph


def test_parts_of_a_part_without_a_common_dtype_stay_apart():
    """float16 and bfloat16 meet in float32, and uint8 with that: the three have no dtype in common."""
    x = [tg.spec((2,), kind) for kind in ("float16", "bfloat16", "uint8")]
    graph = tg.trace(lambda a, b, c: tg.concat(tg.concat(a, b), c), *x)
    after = check_graph(tg.passes.Canonicalize(), graph, graph)
    assert [op.name for op in after.ops] == ["concat", "concat"]
