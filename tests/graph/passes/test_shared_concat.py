"""Concatenations of concatenations that others read too: before and after, and what stays."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.passes.checking import check_graph
from tirlower.graph.passes.shared_concat import shared_concats

HEAD = '(a: tg.Tensor(("B", 2), "float32"), b: tg.Tensor(("C", 2), "float32"), d: tg.Tensor((4, 2), "float32")):'
DIMS = "\n    {}tg.dims(B=(0, None), C=(0, None))\n"


def text(body: str, bound: bool = False) -> str:
    lines = "\n".join(f"    {line.strip()}" for line in body.strip().splitlines())
    return f"def f{HEAD}{DIMS.format('B, C = ' if bound else '')}{lines}"


def test_who_reads_the_small_one_reads_a_part_of_the_large_one():
    check_graph(
        shared_concats,
        text(
            """c: tg.Tensor(("B + C", 2), "float32") = tg.concat(a, b)
            z: tg.Tensor(("B + C", 2), "float32") = tg.exp(c)
            w: tg.Tensor(("B + C", 2), "float32") = tg.negative(z)
            e: tg.Tensor((4, 2), "float32") = tg.sqrt(d)
            y: tg.Tensor(("B + C + 8", 2), "float32") = tg.concat(d, c, e)
            return y, z, w, e"""
        ),
        text(
            """e: tg.Tensor((4, 2), "float32") = tg.sqrt(d)
            y: tg.Tensor(("B + C + 8", 2), "float32") = tg.concat(d, a, b, e)
            c: tg.Tensor(("B + C", 2), "float32") = tg.slice(y, starts=(4,), ends=(B + C + 4,), axes=(0,))
            z: tg.Tensor(("B + C", 2), "float32") = tg.exp(c)
            w: tg.Tensor(("B + C", 2), "float32") = tg.negative(z)
            return y, z, w, e""",
            bound=True,
        ),
    )


@pytest.mark.parametrize(
    "body",
    [
        # a reader feeds the large one, by a value
        """c: tg.Tensor(("B + C", 2), "float32") = tg.concat(a, b)
        z: tg.Tensor(("B + C", 2), "float32") = tg.exp(c)
        y: tg.Tensor(("2 * B + 2 * C", 2), "float32") = tg.concat(c, z)
        return y, z""",
        # or by a state
        """s = tg.state("s", (2,), "float32", 0.0)
        c: tg.Tensor(("B + C", 2), "float32") = tg.concat(a, b)
        z: tg.Tensor((2,), "float32") = tg.sum(c, axis=0)
        s.store(z)
        l: tg.Tensor((2,), "float32") = s.load()
        m: tg.Tensor((1, 2), "float32") = tg.expand_dims(l, axis=0)
        y: tg.Tensor(("B + C + 1", 2), "float32") = tg.concat(c, m)
        return y""",
        # it is a result
        """c: tg.Tensor(("B + C", 2), "float32") = tg.concat(a, b)
        z: tg.Tensor(("B + C", 2), "float32") = tg.exp(c)
        y: tg.Tensor(("B + C + 4", 2), "float32") = tg.concat(c, d)
        return y, z, c""",
        # along another axis
        """c: tg.Tensor(("B + C", 2), "float32") = tg.concat(a, b)
        z: tg.Tensor(("B + C", 2), "float32") = tg.exp(c)
        y: tg.Tensor(("B + C", 4), "float32") = tg.concat(c, a_, axis=1)
        return y, z""".replace("a_", "z"),
        # twice in the large one
        """c: tg.Tensor(("B + C", 2), "float32") = tg.concat(a, b)
        z: tg.Tensor(("B + C", 2), "float32") = tg.exp(c)
        y: tg.Tensor(("2 * B + 2 * C", 2), "float32") = tg.concat(c, c)
        return y, z""",
    ],
)
def test_what_stays_as_it_is(body):
    check_graph(shared_concats, text(body), text(body))


def test_parts_of_other_dtypes_stay():
    graph = tg.trace(
        lambda a, b, d: (np.concatenate([c := np.concatenate([a, b]), d]), np.exp(c)),
        *(tg.spec((2,), dtype) for dtype in ("float32", "float16", "float64")),
    )
    check_graph(shared_concats, graph, graph)


def test_where_all_readers_concatenate_each_takes_the_parts():
    check_graph(
        tg.passes.Canonicalize(),
        text(
            """c: tg.Tensor(("B + C", 2), "float32") = tg.concat(a, b)
            y: tg.Tensor(("B + C + 4", 2), "float32") = tg.concat(c, d)
            z: tg.Tensor(("B + C + 4", 2), "float32") = tg.concat(d, c)
            return y, z"""
        ),
        text(
            """y: tg.Tensor(("B + C + 4", 2), "float32") = tg.concat(a, b, d)
            z: tg.Tensor(("B + C + 4", 2), "float32") = tg.concat(d, a, b)
            return y, z"""
        ),
    )


def test_many_of_them_and_what_else_stands_between():
    def f(x):
        y, kept = x, []
        for n in range(150):  # more than the rounds that rules have
            kept.append(np.exp(y))
            y = np.concatenate([y, x * n]) if n else np.concatenate([x, x])
            kept.append(np.sum(y))
        return y, *kept[1:]

    graph = tg.trace(f, tg.spec((1,), "float32"))
    after = check_graph(tg.passes.Canonicalize(), graph)
    concats = [op for op in after.ops if op.name == "concat"]
    assert [len(op.inputs) for op in concats] == [151]
    x = np.array([0.5], "float32")
    for a, b in zip(tg.interpret(graph, x), tg.interpret(after, x), strict=True):
        assert np.array_equal(a, b)
