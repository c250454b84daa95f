"""Extents as text."""

import itertools

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph import GraphError
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.extents import extent_text, parsed_extent
from tirlower.graph.ops.evaluate import extent_value
from tirlower.ir import build
from tirlower.ir.constants import const

B, N = tg.dim("B", 1), tg.dim("N", 1)
ENV = DimEnv([B, N])


@pytest.mark.parametrize(
    ("extent", "text"),
    [
        (7, "7"),
        (B.var, "B"),
        (B * 4 + N, "B * 4 + N"),
        (B - (N - 1), "B - (N - 1)"),
        ((B + 1) // 2 * 4 % N, "(B + 1) // 2 * 4 % N"),
        (B // (N * 2), "B // (N * 2)"),
        (build.min_(B.var, 4) - build.max_(N.var, B.var), "min(B, 4) - max(N, B)"),
        (7 // N + 9 % B, "7 // N + 9 % B"),
        (1 - B, "1 - B"),
        (build.select(build.lt(B.var, 3), B - 1, N + B) * 2, "(B - 1 if B < 3 else N + B) * 2"),
        (
            build.select(build.logical_or(build.ne(B.var, N), build.logical_not(build.ge(B - 1, 4))), N.var, 1),
            "N if (B != N) or (not (B - 1 >= 4)) else 1",
        ),
        (
            build.select(build.lt(B.var, 3), build.select(build.eq(N.var, 1), const(2, "int64"), B.var), N.var),
            "(2 if N == 1 else B) if B < 3 else N",
        ),
    ],
)
def test_text(extent, text):
    assert extent_text(extent) == text
    assert extent_text(parsed_extent(text, ENV, "x")) == text


def chosen(a, b):
    return build.select(build.le(a, b), a, b * 2)


def test_text_means_the_same_as_the_expression():
    leaves = [B.var, N.var, 3]
    forms = [build.add, build.sub, build.mul, build.floordiv, build.floormod, build.min_, build.max_, chosen]
    for f, g in itertools.product(forms, forms):
        for a, b, c in itertools.product(leaves, leaves[:2], leaves):
            for extent in (f(g(a, b), c), f(c, g(a, b))):
                back = parsed_extent(extent_text(extent), ENV, "x")
                assert extent_text(back) == extent_text(extent)
                for values in ({B.var: 5, N.var: 2}, {B.var: 1, N.var: 7}):
                    with np.errstate(divide="ignore"):
                        assert extent_value(back, values) == extent_value(extent, values), extent_text(extent)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("B +", "which is no expression of dims"),
        ("B / 2", "which is no expression of dims"),
        ("f(B)", "which is no expression of dims"),
        ("__import__('os')", "which is no expression of dims"),
        ("B.var", "which is no expression of dims"),
        ("2.5", "which is no expression of dims"),
        ("True", "which is no expression of dims"),
        ("B // 0", "divides by 0"),
        ("B if N else 2", "no condition on dims"),
        ("B if 1 < B < 3 else 2", "no condition on dims"),
        ("1 - 2", "an extent is at least 0"),
        ("Bee", "no dim is named 'Bee'"),
    ],
)
def test_what_is_no_extent(text, message):
    with pytest.raises(GraphError, match=message):
        parsed_extent(text, ENV, "the shape of 'x'", new=False)


def test_new_names_become_dims():
    env = DimEnv()
    assert extent_text(parsed_extent("M * 2", env, "x")) == "M * 2"
    assert [d.name for d in env] == ["M"]


def test_deep_texts_are_refused_or_read():
    with pytest.raises(GraphError):
        parsed_extent("(" * 500 + "B" + ")" * 500, ENV, "x")
