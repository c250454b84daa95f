from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.driver.backend import KINDS, SOURCE_KINDS, Kind, backend_of, kind_of, pipeline_for
from tirlower.script import tir as T


@T.prim_func
def double(A: T.Buffer(("n",), "int32")):
    for i in range(n):
        A[i] = A[i] * 2


def test_every_kind_has_what_a_build_needs() -> None:
    for name, kind in KINDS.items():
        target = tl.Target(kind.example)
        assert target.kind == {"cuda": "nvptx"}.get(name, name)
        backend = backend_of(target)
        steps = ("resolve", "compiled", "generate", "compile", "bind", "packed", "text", "report")
        assert all(callable(getattr(backend, step)) for step in steps)
        assert all(step.why for step in pipeline_for(target))
    assert SOURCE_KINDS == ("scheduled", "tir", "llvm", "llvm-opt", "asm", "ptx", "host", "c")
    for kind in KINDS.values():
        shown = tl.build(scaled_for(kind), kind.example)
        assert all(shown.source(stage) for stage in ("tir", *kind.sources))


def scaled_for(kind: Kind) -> tl.PrimFunc:
    """A function that every kind builds: blocks are bound to threads where there are some."""

    @T.prim_func
    def add(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(64):
            with T.block("B"):
                vi = T.axis.spatial(64, i)
                B[vi] = A[vi] + T.float32(1)

    return add


def test_a_target_without_backend_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(KINDS, "c")  # type: ignore[arg-type]
    for build in (tl.build, tl.lower):
        with pytest.raises(tl.TirError, match="no pipeline for target 'c'"):
            build(double, "c")


def test_a_new_backend_changes_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that the driver is told of it is a row in the table."""
    row = Kind("tirlower.driver.pipelines.c", "tests.driver.interpreted", ("told",), "c")
    monkeypatch.setitem(KINDS, "c", row)  # type: ignore[call-overload]
    assert kind_of(tl.Target("c")) is row
    a = np.arange(5, dtype="int32")
    kernel = tl.build(double, "c")
    kernel(a)
    lazy = tl.jit(target="c")(double)
    lazy(a)
    assert a.tolist() == [0, 4, 8, 12, 16]
    assert kernel.source("told").startswith("# told\n") and "FlattenBuffer" in "".join(kernel.ir_after)
    assert {"verify", "legality", "passes", "generate", "whole"} <= set(lazy.report().timings)
    with pytest.raises(tl.TirError, match="no source of kind 'asm' for the target c") as caught:
        kernel.source("asm")
    assert "target='llvm'" in str(caught.value.help)
