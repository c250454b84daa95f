"""Dead code goes, and nothing else."""

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
