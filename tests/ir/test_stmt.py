"""Statement nodes: normal forms, declarations and scopes, and what the constructors refuse."""

from __future__ import annotations

import numpy as np
import pytest

from tirlower import ir
from tirlower.diagnostics import WellFormedError
from tirlower.ir import declares, is_no_op, normalize_attr, normalize_attrs, seq, stmt_list, stmt_seq
from tirlower.ir.buffer import iter_type_of
from tirlower.ir.query import each
from tirlower.ir.stmt import true_condition
from tirlower.script import parse
from tirlower.script import tir as T

ev = ir.Evaluate


def test_a_seq_flattens_what_declares_nothing():
    a, b, c = (ev(ir.Var(n)) for n in "abc")
    bind = ir.Bind(ir.Var("x"), 1)
    assert ir.Seq((a, ir.Seq((b, ir.Seq((c,)))))).stmts == (a, b, c)
    scope = ir.Seq((bind, b))
    kept = ir.Seq((a, scope, c))
    assert kept.stmts == (a, scope, c) and declares(scope) and not declares(kept) and not declares(bind)
    assert ir.Seq((ir.Seq((a, scope)), c)).stmts == (a, scope, c)
    for declaration in (bind, ir.AllocBuffer(ir.Buffer("B", (4,))), ir.DeclBuffer(ir.Buffer("C", (4,)))):
        assert declares(ir.Seq((declaration,)))


def test_seq_drops_what_does_nothing():
    a, b = ev(ir.Var("a")), ev(ir.Var("b"))
    nothing = ev(0)
    assert seq(a, None, nothing, [b, ir.Seq(())]).stmts == (a, b)
    assert seq(a, nothing) is a and is_no_op(seq()) and seq().value.value == 0
    assert is_no_op(None) and is_no_op(ir.Seq((nothing, ir.Seq(())))) and not is_no_op(a)
    bind = ir.Bind(ir.Var("x"), 1)
    assert seq(a, bind).stmts == (a, bind)


def test_loops():
    i = ir.Var("i", "int64")
    made = ir.For(i, 0, 4, "unrolled", "", None, ev(i))
    assert (
        made.min.dtype == made.extent.dtype == "int64" and made.kind is ir.ForKind.UNROLLED and made.thread_tag is None
    )
    assert made.annotations == {}
    for args, words in (
        ((i, ir.Var("n"), 4, "serial", None), "min of loop 'i'"),
        ((i, 0, ir.Var("n"), "serial", None), "extent of loop 'i'"),
        ((ir.Var("f", "float32"), 0, 4, "serial", None), "integer"),
        ((i, 0, 4, "serial", "threadIdx.x"), "thread tag"),
        ((i, 0, 4, "thread_binding", None), "thread tag"),
    ):
        with pytest.raises(WellFormedError, match=words):
            ir.For(*args, {}, ev(0))
    with pytest.raises(ValueError, match="sideways"):
        ir.For(i, 0, 4, "sideways", None, {}, ev(0))


def test_stores():
    A = ir.Buffer("A", (4,))
    ramp = ir.Ramp(0, 1, 4)
    wide = ir.BufferStore(A, 1.0, (ramp,))
    assert isinstance(wide.value, ir.Broadcast) and wide.value.dtype == "float32x4"
    for value, indices, words in ((1, (0,), "takes float32, got int32"), (1.0, (0, 0), "1 dimensions")):
        with pytest.raises(WellFormedError, match=words):
            ir.BufferStore(A, value, indices)
    with pytest.raises(WellFormedError, match="bool lanes"):
        ir.BufferStore(A, 1.0, (ramp,), ir.LT(ir.Var("x"), 1))


def test_conditions_and_bindings():
    x = ir.Var("x")
    for make in (
        lambda: ir.While(x, ev(0)),
        lambda: ir.IfThenElse(ir.Broadcast(ir.LT(x, 1), 4), ev(0)),
        lambda: ir.Assert(x, "m"),
    ):
        with pytest.raises(WellFormedError, match="scalar bool"):
            make()
    with pytest.raises(WellFormedError, match="'x' has dtype int32"):
        ir.Bind(x, 1.0)


def test_constants():
    K = ir.Buffer("K", (2, 3))
    made = ir.AllocConst(K, [[1, 2, 3], [4, 5, 6]])
    assert isinstance(made.data, np.ndarray)
    with pytest.raises(WellFormedError, match="shape"):
        ir.AllocConst(K, np.zeros(5, "float32"))
    with pytest.raises(WellFormedError, match="shape"):
        ir.AllocConst(ir.Buffer("K", (ir.Var("n"),)), np.zeros(5, "float32"))


def test_attribute_values_have_one_form():
    x = ir.Var("x")
    wide = ir.IntImm("int64", 3)
    assert normalize_attr(ir.IntImm("int32", 3)) == 3 and type(normalize_attr(ir.as_expr(True))) is bool
    assert normalize_attr(ir.as_expr(1.5)) == 1.5 and normalize_attr(ir.as_expr("s")) == "s"
    assert normalize_attr(wide) is wide and normalize_attr(x) is x and normalize_attr(None) is None
    assert normalize_attr([1, [x, ir.as_expr(2)]]) == (1, (x, 2))
    assert normalize_attr(np.int64(3)) == 3 and type(normalize_attr(np.float32(0.5))) is float
    assert normalize_attrs({"k": {"n": [1]}}) == {"k": {"n": (1,)}} and normalize_attrs(None) == {}
    given = {"k": [1]}
    loop = ir.For(x, 0, 4, "serial", None, given, ev(0))
    given["other"] = 1
    assert loop.annotations == {"k": (1,)}


def test_blocks():
    B, C = ir.Buffer("B", (4,)), ir.Buffer("C", (4,))
    body = ir.Seq((ir.AllocBuffer(B), ir.AllocBuffer(C), ev(1), ir.AllocBuffer(ir.Buffer("D", (4,)))))
    block = ir.Block("b", [], None, None, (), None, None, None, body)
    assert block.alloc_buffers == (B, C) and true_condition(block.predicate) and block.reads is None
    assert block.match_buffers == () and block.annotations == {}
    assert ir.Block("b", (), True, (), (), None, (), {}, ir.AllocBuffer(B)).alloc_buffers == (B,)
    assert ir.BlockIter(ir.Var("v"), ir.Range(0, 4), "reduce").kind is ir.IterKind.REDUCE


def test_what_is_made_of_what_it_is_not_made_of():
    x, A = ir.Var("x"), ir.Buffer("A", (4, 4), "float32")
    for make, message in (
        (lambda: ir.For(x, 0, 4, "paralel", body=ir.Evaluate(0)), r"no kind 'paralel' of a loop\n.*serial, parallel"),
        (lambda: ir.BufferStore(x, 1, (0,)), "an access is of a Buffer, got Var"),
        (lambda: ir.BufferLoad(3, (0,)), "an access is of a Buffer, got 3"),
        (lambda: A.offset_of([x]), "buffer 'A' has 2 dimensions, got 1 indices"),
        (lambda: A.vload([0, 0], "int8x4"), "buffer 'A' holds float32, and no int8x4 is loaded from it"),
        (lambda: ir.Buffer("B", (4,), buffer_type="auto"), r"buffer 'B' has the type 'auto'\n.*auto_broadcast"),
    ):
        with pytest.raises(WellFormedError, match=message):
            make()
    assert A.vload([0, 0], "float32x4").dtype == "float32x4"


def test_a_stmt_seq_keeps_everything_and_its_list_is_flat():
    x = ir.Var("x")
    a, b, nothing = ir.Evaluate(x), ir.Evaluate(x + 1), ir.Evaluate(0)
    inner = stmt_seq(b, nothing)
    both = stmt_seq(a, x, inner)
    assert both.stmts[0] is a and both.stmts[1].value is x and isinstance(both.stmts[1], ir.Evaluate)
    flat = stmt_list(both)
    assert flat[0] is a and flat[2] is b and len(flat) == 4 and is_no_op(flat[3])
    assert stmt_seq(a) is a and stmt_list(a) == [a]


def test_fields_are_read_in_tirs_words():
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16, 8), "float32"), B: T.Buffer((16,), "float32")):
    for tx in T.thread_binding(2, 16, thread="threadIdx.x"):
        for k in range(8):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [tx, k])
                C = T.alloc_buffer((4,), "int32")
                with T.init():
                    B[vi] = T.float32(0)
                B[vi] = B[vi] + A[vi, vk]
""")
    outer, inner = each(ir.For, func.body)
    axis = outer.thread_binding
    assert (axis.thread_tag, axis.iter_type, axis.var) == ("threadIdx.x", ir.IterVar.ThreadIndex, outer.loop_var)
    assert (axis.dom.min.value, axis.dom.extent.value) == (2, 14) and inner.thread_binding is None
    block = next(b for b in each(ir.Block, func.body) if b.iters)
    assert block.name_hint == "sum" and block.iter_vars is block.iters
    spatial, reduce = block.iter_vars
    assert (spatial.iter_type, reduce.iter_type) == (ir.IterVar.DataPar, ir.IterVar.CommReduce) == (0, 2)
    assert reduce.dom is reduce.domain and reduce.thread_tag == "" and reduce.var.name_hint == "vk"
    allocation = next(each(ir.AllocBuffer, func.body))
    buffer = allocation.buffer
    assert (allocation.buffer_var, allocation.extents, allocation.dtype) == (buffer.data, buffer.shape, "int32")
    assert buffer.data.type_annotation is buffer.data.type and buffer.data_alignment == buffer.align
    assert block.body.seq is block.body.stmts
    assert block.block is block and block.iter_values == (outer.loop_var, inner.loop_var)
    pointer = buffer.data.type
    assert (pointer.element_type, pointer.storage_scope) == ("int32", "global")
    assert ir.AttrStmt(outer.loop_var, "note", 1, block).attr_key == "note"
    assert buffer.access_ptr(ir.Buffer.READ | ir.Buffer.WRITE).args[-1].value == 3
    reducer = T.comm_reducer(lambda x, y: x + y, [T.float32(0)])
    assert reducer.identity_element is reducer.identity and ir.DataType("float16x4").itemsize == 8
    assert ir.Op.get("tir.exp").num_inputs == 1 and ir.Op.get("tir.call_extern").num_inputs == -1


def test_every_kind_of_iteration_variable_has_tirs_number():
    names = [
        "DataPar",
        "ThreadIndex",
        "CommReduce",
        "Ordered",
        "Opaque",
        "Unrolled",
        "Vectorized",
        "Parallelized",
        "Tensorized",
    ]
    for number, name in enumerate(names):
        assert getattr(ir.IterVar, name) == number == ir.IterVar((0, 4), "i", number).iter_type
        assert ir.IterVar((0, 4), "i", name).iter_type == number
    kinds = {kind.value: iter_type_of(kind.value) for kind in ir.IterKind}
    assert kinds == {"spatial": 0, "reduce": 2, "scan": 3, "opaque": 4}
