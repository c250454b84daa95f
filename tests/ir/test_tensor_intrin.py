"""The registry of tensor intrinsics."""

from __future__ import annotations

import pytest

from tirlower import ir
from tirlower.diagnostics import TirError
from tirlower.ir import PrimFunc, TensorIntrin


def func(*buffers: ir.Buffer, value: int = 0) -> PrimFunc:
    handles = {ir.Var(b.name, "handle"): b for b in buffers}
    return PrimFunc(tuple(handles), handles, "void", {}, ir.Evaluate(value))


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(TensorIntrin, "_registry", {})


def test_register_and_get(registry):
    desc, impl = func(ir.Buffer("A", (16, 16))), func(ir.Buffer("B", (16, 16)))
    made = TensorIntrin.register("dot", desc, impl)
    assert TensorIntrin.get("dot") is made and made.desc is desc and made.impl is impl
    with pytest.raises(TirError, match="registered already"):
        TensorIntrin.register("dot", desc, impl)
    other = TensorIntrin.register("dot", desc, impl, override=True)
    assert TensorIntrin.get("dot") is other and TensorIntrin.names() == ["dot"]
    assert TensorIntrin.get("dott", allow_missing=True) is None
    with pytest.raises(TirError, match="did you mean 'dot'"):
        TensorIntrin.get("dott")


def test_both_have_the_same_parameters():
    n, m = ir.Var("n"), ir.Var("m")
    A = ir.Buffer("A", (16, 4))
    with pytest.raises(TirError, match="1 parameters, the implementation 2"):
        TensorIntrin(func(A), func(A, ir.Buffer("B", (4,))))
    with pytest.raises(TirError, match="dtype"):
        TensorIntrin(func(A), func(ir.Buffer("A", (16, 4), "int8")))
    with pytest.raises(TirError, match="dimensions"):
        TensorIntrin(func(A), func(ir.Buffer("A", (64,))))
    with pytest.raises(TirError, match="dimension 1"):
        TensorIntrin(func(A), func(ir.Buffer("A", (16, 5))))
    with pytest.raises(TirError, match="buffers"):
        TensorIntrin(PrimFunc((n,), {}, "void", {}, ir.Evaluate(n)), func(A))
    with pytest.raises(TirError, match="PrimFunc"):
        TensorIntrin(A, func(A))
    # Symbolic dimensions correspond.
    TensorIntrin(func(ir.Buffer("A", (n, n))), func(ir.Buffer("A", (m, m))))
    with pytest.raises(TirError, match="dimension 1"):
        TensorIntrin(func(ir.Buffer("A", (n, n))), func(ir.Buffer("A", (m, ir.Var("k")))))
