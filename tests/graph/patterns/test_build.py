"""The functions of ``tg.dpl``: all names of the language are there, and give fresh patterns."""

from __future__ import annotations

import numpy as np

import tirlower.graph as tg
from tirlower.graph.core.effects import Extern, Global
from tirlower.graph.patterns import (
    build,
    is_call_dps_packed,
    is_call_packed,
    is_call_tir,
    is_const,
    is_gv,
    is_var,
)
from tirlower.script import tir as T


def copy(a: T.Buffer((4,), "float32"), out: T.Buffer((4,), "float32")):
    for i in range(4):
        out[i] = a[i]


def test_the_names_of_the_language_are_in_one_place() -> None:
    for name in build.__all__:
        assert getattr(tg.dpl, name) is getattr(build, name)
    for name in ("PatternContext", "DFPattern", "pattern_of", "explain"):
        assert hasattr(tg.dpl, name)


def test_each_call_makes_a_pattern_of_its_own() -> None:
    assert tg.dpl.wildcard() is not tg.dpl.wildcard()
    add = tg.dpl.is_op("add")
    assert add(None) is not add


def test_globals_kernels_and_graphs_are_matched_by_name() -> None:
    state = Global("s", (4,), "float32", tg.ConstantData(np.ones(4, "float32")))
    kernel = T.prim_func(copy)
    inner = tg.trace(lambda x: tg.exp(x), tg.spec((4,), "float32"))
    b = tg.GraphBuilder()
    x = b.param("x", (4,), "float32")
    loaded = b.load(state)
    (called,) = b.call(inner, x)
    (written,) = b.kernel(kernel, [x.type], loaded)
    (foreign,) = b.kernel(Extern("cblas_scopy"), [x.type], called)
    b.finish([written, foreign])
    table = [
        (is_gv(), [loaded, called], [written, x]),
        (is_gv("s"), [loaded], [called]),
        (is_gv("main")(is_var("x")), [called], [loaded]),
        (is_gv("main")(is_const()), [], [called]),
        (is_call_tir(), [written], [foreign]),
        (is_call_tir("copy", [is_gv("s")]), [written], [foreign]),
        (is_call_tir("other"), [], [written]),
        (is_call_tir("copy", [is_var()]), [], [written]),
        (is_call_dps_packed("cblas_scopy", [is_gv()]), [foreign], [written]),
        (is_call_dps_packed(), [foreign], [written]),
        (is_call_packed(), [written, foreign], [called]),
        (is_call_packed("copy"), [written], [foreign]),
    ]
    for pattern, good, bad in table:
        for value in good:
            assert pattern.match(value), pattern.explain(value)
        assert not any(pattern.match(v) for v in bad)
    found = is_call_tir("copy", [is_gv("s")]).match(written)
    assert found is not None and len(found.nodes) == 2 and not found.inputs
