"""The anchor block of programs with none, one and several reductions."""

from __future__ import annotations

import pytest

from tirlower.analysis import find_anchor_block
from tirlower.diagnostics import ArgumentTypeError
from tirlower.ir import IRModule
from tirlower.script import parse

SUM = """
    for i, k in T.grid({n}, {m}):
        with T.block("{name}"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + {value}
"""
COPY = """
    for i in range(64):
        with T.block("copy"):
            vi = T.axis.spatial(64, i)
            C[vi] = A[vi] * T.float32(3) + A[vi] * A[vi] * A[vi] + A[vi]
"""


def function(*nests: str, params: str = "") -> object:
    head = f'def f(A: T.Buffer((4096,), "float32"), C: T.Buffer((4096,), "float32"){params}):'
    return parse("@T.prim_func\n" + head + "".join(nests))


def reduction(name: str, n: object, m: object, value: str = "A[vi]") -> str:
    return SUM.format(name=name, n=n, m=m, value=value)


def test_without_a_reduction_there_is_none() -> None:
    assert find_anchor_block(function(COPY)) is None
    assert find_anchor_block(IRModule({})) is None


def test_a_reduction_is_found_before_or_behind_heavier_copies() -> None:
    for nests in ((COPY, reduction("sum", 2, 2)), (reduction("sum", 2, 2), COPY)):
        func = function(*nests)
        found = find_anchor_block(func)
        assert found.name == "sum" and found.init is not None
        assert find_anchor_block(IRModule({"main": func})) is found


def test_of_several_the_one_with_the_most_operations() -> None:
    small, wide = reduction("small", 4, 8), reduction("wide", 8, 16)
    assert find_anchor_block(function(small, wide)).name == "wide"
    assert find_anchor_block(function(wide, small)).name == "wide"
    # Fewer points, more work in each.
    heavy = reduction("heavy", 8, 15, "A[vi] * A[vi] * A[vi]")
    assert find_anchor_block(function(wide, heavy)).name == "heavy"
    assert find_anchor_block(function(reduction("first", 4, 4), reduction("second", 4, 4))).name == "first"


def test_an_extent_that_is_not_known_counts_once() -> None:
    func = function(reduction("dynamic", 2, "n"), reduction("fixed", 2, 2), params=", n: T.int32")
    assert find_anchor_block(func).name == "fixed"


def test_of_several_functions() -> None:
    light, heavy = function(reduction("light", 2, 2)), function(reduction("heavy", 4, 4))
    assert find_anchor_block(IRModule({"a": light, "b": heavy})).name == "heavy"


def test_anything_else_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="function or a module"):
        find_anchor_block("main")
