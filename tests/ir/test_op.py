"""The registry of operations."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tirlower as tl
from tirlower import ir
from tirlower.diagnostics import TirError
from tirlower.ir.op import GlobalVar, Op, Purity
from tirlower.script import parse


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


def test_attributes_that_follow_from_the_registration():
    kinds = {"tir.exp": 1, "tir.address_of": 1, "tir.atomic_add": 3, "tir.call_extern": 3, "tir.tvm_access_ptr": 1}
    for name in Op.list_op_names():
        op = Op.get(name)
        kind = op.get_attr("TCallEffectKind")
        assert kind == {0: 1, 1: 2, 2: 3, 3: 3}[op.purity] and kinds.get(name, kind) == kind, name
        assert op.get_attr("TScriptPrinterName") == op.short and op.get_attr("TVectorizable") is op.elementwise
        assert op.has_attr("TCallEffectKind")
        with pytest.raises(TirError, match="follows from its registration"):
            op.set_attr("TCallEffectKind", 1)


def test_attributes_that_are_set():
    exp, sin = Op.get("tir.exp"), Op.get("tir.sin")
    assert exp.get_attr("cost") is None and not exp.has_attr("cost")
    try:
        exp.set_attr("cost", 20)
        assert exp.get_attr("cost") == 20 and exp.has_attr("cost") and not sin.has_attr("cost")
        with pytest.raises(TirError, match=r"same plevel 10.*\n.*reset_attr"):
            exp.set_attr("cost", 30)
        exp.set_attr("cost", 30, plevel=9)
        assert exp.get_attr("cost") == 20
        exp.set_attr("cost", None, plevel=11)
        assert exp.get_attr("cost") is None and exp.has_attr("cost")
    finally:
        exp.reset_attr("cost")
    assert not exp.has_attr("cost")
    exp.reset_attr("cost")


def test_copies():
    exp = Op.get("tir.exp")
    assert pickle.loads(pickle.dumps(exp)) is exp and copy.deepcopy(exp) is exp
    assert GlobalVar("f") == GlobalVar("f") != GlobalVar("g") and len({GlobalVar("f"), GlobalVar("f")}) == 1
    assert GlobalVar("f") != "f"


def test_a_name_is_called():
    n, f = ir.Var("n"), GlobalVar("f")
    call = f(n, 2, ir.Buffer("A", (4,)).data, dtype="int32")
    assert call.op is f and call.args[0] is n and call.args[1].value == 2 and call.dtype == "int32"
    assert f().dtype == "void" and f().args == ()
    module = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def half(n: T.int32) -> T.int32:
        return n // 2

    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        A[0] = 0
""")
    main = module["main"]
    body = ir.BufferStore(main.buffers[0], module.get_global_var("half")(14, dtype="int32"), (0,))
    built = tl.build(module.with_func("main", main.with_body(body)))
    values = np.zeros(4, "int32")
    built["main"](values)
    assert values.tolist() == [7, 0, 0, 0]
