"""The registry of operations."""

from __future__ import annotations

import copy
import pickle

import pytest

from tirlower import ir
from tirlower.diagnostics import TirError
from tirlower.ir.op import GlobalVar, Op, Purity


def test_registry(monkeypatch):
    monkeypatch.setattr(Op, "_registry", dict(Op._registry))
    made = Op.register("tir.test_op", (1, None), Purity.READS)
    assert Op.get("tir.test_op") is made is Op.find("tir.test_op") and "tir.test_op" in Op.names()
    assert made.short == "test_op" and made.dtype_first and made.arity == (1, None)
    with pytest.raises(ValueError, match="registered already"):
        Op.register("tir.test_op", 1)
    assert Op.find("tir.nope") is None
    with pytest.raises(TirError, match=r"did you mean 'tir\.sqrt'"):
        Op.get("tir.sqrtt")


def test_purity_is_ordered():
    assert Purity.PURE < Purity.READS < Purity.WRITES < Purity.OPAQUE


def test_type_rules():
    f, v = ir.Var("f", "float32"), ir.Var("v", "float16xvscalex4")
    assert Op.get("tir.exp").infer((f,)) == "float32" and Op.get("tir.isnan").infer((v,)) == "boolxvscalex4"
    assert Op.get("tir.if_then_else").infer((f, v, v)) == v.dtype and Op.get("tir.ret").infer(()) == "void"
    assert Op.get("tir.call_extern").infer is None and Op.get("tir.address_of").infer((f,)) == "handle"


def test_jumps_take_no_operands():
    value = ir.Var("x")
    for name in ("thread_return", "break_loop", "continue_loop"):
        op = Op.get(f"tir.{name}")
        assert op.infer(()) == "void" and op.purity is Purity.OPAQUE
        ir.Call(op, ())
        with pytest.raises(TirError, match=name):
            ir.Call(op, (value,))


def test_elementwise_operations_infer_from_lanes():
    for name in Op.names():
        op = Op.get(name)
        if op.elementwise and op.infer is not None:
            least = op.arity[0]
            for lanes in (1, 4):
                args = tuple(ir.Var("x", ir.DataType("int32").with_lanes(lanes)) for _ in range(least))
                assert op.infer(args).lanes == lanes, name
            assert op.purity is Purity.PURE, name


def test_copies():
    exp = Op.get("tir.exp")
    assert pickle.loads(pickle.dumps(exp)) is exp and copy.deepcopy(exp) is exp
    assert GlobalVar("f") == GlobalVar("f") != GlobalVar("g") and len({GlobalVar("f"), GlobalVar("f")}) == 1
    assert GlobalVar("f") != "f"
