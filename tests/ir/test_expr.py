"""Expression nodes: constants, dtypes of results, and what the constructors refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tirlower import ir
from tirlower.diagnostics import TirError, WellFormedError
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import as_expr, const, const_like, is_const_int, vscale
from tirlower.ir.op import Op


def test_as_expr():
    assert as_expr(1).dtype == "int32" and as_expr(-(2**31)).dtype == "int32" and as_expr(2**31).dtype == "int64"
    assert as_expr(2**63).dtype == "uint64"
    assert as_expr(1.0).dtype == "float32" and as_expr(True).dtype == "bool" and as_expr("s").dtype == "handle"
    assert as_expr(np.int8(3)).dtype == "int8" and as_expr(np.float64(0.1)).value == 0.1
    x = ir.Var("x")
    assert as_expr(x) is x and as_expr(ir.IterVar(None, x)) is x
    for bad in (None, object(), [1]):
        with pytest.raises((TirError, TypeError)):
            as_expr(bad)


def test_const():
    assert const(300, DataType("int8")).value == 44 and const(2, DataType("bool")).value == 1
    assert const(1, DataType("float16")).value == 1.0 and isinstance(const(1, DataType("int32x4")), ir.Broadcast)
    assert const_like(3, ir.Var("x", "int64")).dtype == "int64"
    scalable = const(1, DataType("int32xvscalex4"))
    assert scalable.dtype == "int32xvscalex4" and vscale(4).dtype == "int32"
    assert (
        is_const_int(const(3, DataType("int32x4")), 3)
        and not is_const_int(ir.Var("x"))
        and not is_const_int(as_expr(3), 4)
    )


def test_constants_refuse_what_does_not_fit():
    for dtype, value in (("int8", 128), ("int8", -129), ("uint8", -1), ("uint8", 256), ("bool", 2), ("float32", 1)):
        with pytest.raises(WellFormedError, match=dtype):
            ir.IntImm(dtype, value)
    for dtype in ("int32", "float32x4", "handle"):
        with pytest.raises(WellFormedError):
            ir.FloatImm(dtype, 1.0)
    assert ir.FloatImm("float16", 0.1).value == float(np.float16(0.1)) and math.isinf(ir.FloatImm("float16", 1e9).value)


def test_variables():
    x = ir.Var("x")
    assert x.dtype == "int32" and x.type == "int32" and not x.nonneg
    p = ir.Var("p", ir.PointerType("float32", "shared"))
    assert p.dtype == "handle" and p.type.scope == "shared"


def test_result_types():
    x, f, v = ir.Var("x"), ir.Var("f", "float32"), ir.Var("v", "int32x4")
    assert ir.Add(x, 1).dtype == "int32" and ir.LT(x, 1).dtype == "bool" and ir.LT(v, v).dtype == "boolx4"
    assert ir.Cast("int8x4", v).dtype == "int8x4"
    assert ir.Select(ir.LT(x, 1), f, f).dtype == "float32" and ir.Select(ir.LT(v, v), v, v).dtype == "int32x4"
    assert ir.Ramp(x, 2, 8).dtype == "int32x8" and ir.Broadcast(v, 2).dtype == "int32x8"
    assert ir.Ramp(x, 1, vscale(4)).dtype == "int32xvscalex4" and ir.Broadcast(f, vscale(1)).dtype == "float32xvscalex1"
    assert ir.Shuffle((v, v), (0, 7)).dtype == "int32x2" and ir.Shuffle((v,), (3,)).dtype == "int32"
    assert ir.Let(x, 1, f).dtype == "float32" and ir.Call(Op.get("tir.exp"), (f,)).dtype == "void"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda x, f, v: ir.Add(x, f), "one dtype"),
        (lambda x, f, v: ir.EQ(x, v), "one dtype"),
        (lambda x, f, v: ir.And(x, x), "bool"),
        (lambda x, f, v: ir.Not(f), "bool"),
        (lambda x, f, v: ir.Select(x, f, f), "bool condition"),
        (lambda x, f, v: ir.Select(ir.LT(v, v), f, f), "1 lanes"),
        (lambda x, f, v: ir.Select(ir.LT(x, 1), f, x), "one dtype"),
        (lambda x, f, v: ir.Cast("float32x4", x), "lanes"),
        (lambda x, f, v: ir.Ramp(v, v, 4), "scalar"),
        (lambda x, f, v: ir.Ramp(x, f, 4), "one dtype"),
        (lambda x, f, v: ir.Ramp(x, 1, 0), "at least one lane"),
        (lambda x, f, v: ir.Broadcast(x, x), "vscale"),
        (lambda x, f, v: ir.Shuffle((v, f), (0,)), "one element type"),
        (lambda x, f, v: ir.Shuffle((v,), (4,)), "4 lanes"),
        (lambda x, f, v: ir.Shuffle((), (0,)), "at least one"),
        (lambda x, f, v: ir.Let(x, f, x), "float32"),
        (lambda x, f, v: ir.Call(Op.get("tir.exp"), (f, f)), "takes 1 arguments, got 2"),
        (lambda x, f, v: ir.Call(Op.get("tir.call_extern"), ()), "at least 1"),
        (lambda x, f, v: ir.Call(Op.get("tir.ret"), (x, x)), "0 to 1"),
    ],
)
def test_constructors_refuse(make, words):
    with pytest.raises(WellFormedError, match=words):
        make(ir.Var("x"), ir.Var("f", "float32"), ir.Var("v", "int32x4"))


def test_loads():
    x, v = ir.Var("x"), ir.Var("v", "int32x4")
    A, W = ir.Buffer("A", (4, 4)), ir.Buffer("W", (4,), "float32x2")
    assert ir.BufferLoad(A, (x, x)).dtype == "float32" and ir.BufferLoad(A, (x, v)).dtype == "float32x4"
    assert ir.BufferLoad(W, (x,)).dtype == "float32x2" and ir.BufferLoad(W, (v,)).dtype == "float32x8"
    assert ir.BufferLoad(ir.Buffer("S", ()), ()).dtype == "float32"
    mask = ir.LT(v, v)
    assert ir.BufferLoad(A, (x, v), mask).dtype == "float32x4"
    for indices, predicate, words in (
        ((x,), None, "2 dimensions"),
        ((v, x), None, "last index"),
        ((x, ir.Var("f", "float32")), None, "integer"),
        ((x, v), ir.LT(x, 1), "4 bool lanes"),
        ((x, x), v, "1 bool lanes"),
    ):
        with pytest.raises(WellFormedError, match=words):
            ir.BufferLoad(A, indices, predicate)


def test_identity_and_truth():
    a, b = ir.as_expr(1), ir.as_expr(1)
    assert a != b and len({a, b}) == 2
    with pytest.raises(TirError, match="truth"):
        assert ir.LT(ir.Var("x"), 3)
    assert a.same_as(a) and not a.same_as(b)
    x = ir.Var("x")
    assert str(x.equal(3)) == "x == 3" and x.equal(3).dtype == "bool" and isinstance(x.equal(3), ir.EQ)


def test_constants_are_numbers_of_python():
    three, big = ir.IntImm("int8", 3), ir.IntImm("int64", 2**40)
    assert three == 3 and 3 == three and three != 4 and three != ir.IntImm("int8", 3)
    assert not three.__ne__(3)
    assert three != 3.5 and three != "3" and big == 2**40
    assert int(three) == 3 and list(range(three)) == [0, 1, 2] and "abcd"[three] == "d" and hex(big) == hex(2**40)
    assert bool(three) and not ir.IntImm("int32", 0) and not ir.IntImm("bool", 0)
    assert float(ir.FloatImm("float32", 0.1)) == float(np.float32(0.1))
    A = ir.Buffer("A", (4, 8), "float32")
    assert A.shape == (4, 8) and A.shape[1] == 8 and A.shape != (4, 9) and np.zeros(A.shape).shape == (4, 8)
    # Where they are keys they are themselves.
    assert len({three, ir.IntImm("int8", 3), 3}) == 3 and hash(three) == object.__hash__(three)
    assert repr(ir.IntImm("int8", 3)) == "IntImm(T.int8(3))"


def test_a_call_takes_the_name_of_an_operation_and_says_its_order():
    x = ir.Var("x", "float32")
    assert ir.Call("tir.exp", [x], "float32").op is Op.get("tir.exp")
    with pytest.raises(TirError, match=r"'float32' is no operation\n.*Call\(op, args, dtype\)"):
        ir.Call("float32", "tir.exp", [x])
    with pytest.raises(TirError, match=r"unknown operation 'tir.expp'\n.*'tir.exp'"):
        ir.Call("tir.expp", [x], "float32")
    with pytest.raises(TirError, match="not int 3"):
        ir.Call(3, [x])
