"""Dead code goes, and nothing else."""

import numpy as np

import tirlower as tl
import tirlower.graph as tg
from tests.graph.passes.checking import check_graph


def test_a_chain_that_nothing_needs_goes():
    check_graph(
        tg.passes.DCE(),
        """
        def f(x: tg.Tensor(("B", 4), "float32")):
            tg.dims(B=(0, None))
            c = tg.constant("float32", (4,), 2.0)
            a: tg.Tensor(("B", 4), "float32") = tg.exp(x)
            b: tg.Tensor(("B", 4), "float32") = tg.multiply(a, c)
            d: tg.Tensor(("B", 4), "float32") = tg.sqrt(x)
            return d
        """,
        """
        def f(x: tg.Tensor(("B", 4), "float32")):
            tg.dims(B=(0, None))
            d: tg.Tensor(("B", 4), "float32") = tg.sqrt(x)
            return d
        """,
    )


def test_a_node_with_one_result_in_use_stays():
    text = """
        def f(x: tg.Tensor((4, 2), "float32")):
            a: tg.Tensor((2, 2), "float32")
            b: tg.Tensor((2, 2), "float32")
            a, b = tg.split(x, parts=2)
            return b
        """
    check_graph(tg.passes.DCE(), text, text)


def test_unused_inputs_and_assumptions_stay():
    m, n = tg.dim("M", 1, 8), tg.dim("N", 1, 8)
    graph = tg.trace(lambda a, b: [a, a + b][0], tg.spec((m,), "float32"), tg.spec((n,), "float32"))
    after = check_graph(tg.passes.DCE(), graph)
    assert not after.nodes and len(after.params) == 2 and after.assumed == graph.assumed and len(after.assumed) == 1


def test_a_long_chain_is_no_recursion():
    b = tg.GraphBuilder()
    x = first = b.param("x", (1,), "float32")
    for _ in range(20_000):
        x = b.op("exp", x)
    graph = b.finish([first])
    assert tg.passes.DCE()(graph).nodes == ()
    assert tg.passes.DCE()(kept := b.finish([x])) is kept


def _module() -> tg.Module:
    """An entry that calls a private graph, one that nobody calls, states and kernels of both kinds."""
    x = tg.spec((4,), "float32")
    kept, gone = (tg.state(name, (4,), "float32", public=False) for name in ("kept", "gone"))
    public = tg.state("public", (4,), "float32").held
    inner = tg.trace(lambda x: tg.exp(x), x).with_attr("private", True)
    b = tg.GraphBuilder("main")
    b.store(kept.held, b.param("x", (4,), "float32"))
    entry = b.finish(b.call(inner, b.load(kept.held))[0])
    unused = tg.trace(lambda x: gone.store(x) or x, x).with_attr("private", True)
    other = tg.trace(lambda x: x * 2, x)
    return tg.Module({"main": entry, "inner": inner, "unused": unused, "other": other}, [public])


def test_of_a_module_what_nobody_refers_to_is_dropped() -> None:
    module = _module()
    after = tg.passes.DropUnused()(module)
    assert list(after.graphs) == ["main", "inner", "other"]
    assert sorted(one.name for one in after.globals) == ["kept", "public"]
    assert tg.passes.DropUnused()(after) is after
    x = np.arange(4, dtype="float32")
    np.testing.assert_array_equal(tg.interpret(after.entry, x), tg.interpret(module.entry, x))
    assert tg.passes.DropUnused()(module.entry) is module.entry


def test_kernels_stay_that_are_called_public_or_called_by_such() -> None:
    text = "def {0}(A: T.Buffer((4,), 'float32'), B: T.Buffer((4,), 'float32')):\n    for i in range(4):\n        B[i] = A[i]"
    used, public, unused = (tg.prim_func(text.format(name)) for name in ("used", "public", "unused"))
    public = public.with_(attrs={**public.attrs, "global_symbol": "public"})
    used, unused = (f.with_(attrs={k: v for k, v in f.attrs.items() if k != "global_symbol"}) for f in (used, unused))
    b = tg.GraphBuilder()
    x = b.param("x", (4,), "float32")
    graph = b.finish(b.kernel(used, [x.type], x)[0])
    module = tg.Module({"main": graph}, (), tl.IRModule({"used": used, "public": public, "unused": unused}))
    assert list(tg.passes.DropUnused()(module).kernels.functions) == ["used", "public"]


def test_other_passes_run_on_each_graph_of_a_module() -> None:
    module = _module()
    after = tg.passes.SimplifyGlobals()(module)
    assert len(after.entry.nodes) == 2 and after.graphs["other"] is module.graphs["other"]
    assert tg.passes.DCE()(module) is module
    shared = tg.state("shared", (4,), "float32", public=False)
    x = tg.spec((4,), "float32")
    graphs = {"put": tg.trace(lambda x: shared.store(x) or x, x), "get": tg.trace(lambda x: x + shared.load(), x)}
    several = tg.Module(graphs)
    assert tg.passes.FoldGlobals()(several) is several
    assert not tg.passes.FoldGlobals()(several.entry).nodes
