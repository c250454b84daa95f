"""The imperative builder against the same functions made of nodes by hand."""

from __future__ import annotations

import numpy as np
import pytest

from tirlower import ir
from tirlower.diagnostics import TirError
from tirlower.interp import interpret
from tirlower.ir import IRBuilder, assert_structural_equal, verify_well_formed


def test_loops_and_stores():
    ib = IRBuilder()
    with ib.func("scale", attrs={"tir.noalias": True}):
        n = ib.scalar_param("n", "int32")
        A = ib.buffer_param("A", (n, 16), "float32")
        ptr = ib.buffer_ptr(A)
        outer = ib.for_range(1, n, name="i", kind="parallel", annotations={"x": 1})
        with outer as i, ib.for_range(0, 16, name="j", kind="vectorized") as j:
            ptr[i, j] = ptr[i, j] * 2 + n
    made = ib.get()
    assert verify_well_formed(made) and [p.name for p in made.params] == ["n", "A"]
    m, a = ir.Var("n"), ir.Var("a", "handle")
    B = ir.Buffer("A", (m, 16))
    k, c = ir.Var("k"), ir.Var("c")
    value = ir.Add(ir.Mul(ir.BufferLoad(B, (k, c)), ir.FloatImm("float32", 2)), ir.Cast("float32", m))
    body = ir.For(
        k, 1, ir.Sub(m, 1), "parallel", None, {"x": 1},
        ir.For(c, 0, 16, "vectorized", None, {}, ir.BufferStore(B, value, (k, c))),
    )  # fmt: skip
    assert_structural_equal(
        made, ir.PrimFunc((m, a), {a: B}, "void", {"global_symbol": "scale", "tir.noalias": True}, body)
    )


def test_statements():
    ib = IRBuilder()
    x = ir.Var("x")
    with ib.if_(x < 3):
        ib.evaluate(x)
    with ib.else_():
        y = ib.let("y", x + 1)
        with ib.while_(y < 5):
            ib.assert_(y > 0, "positive")
    with ib.scope():
        B = ib.alloc((4,), "int64", scope="local", name="B")
        ib.store(B, x, 0)
        ib.store(B, 7, [slice(0, 4)])
        V = ib.decl(ir.Buffer("V", (8,), "int32", data=B.data))
        ib.store(ib.buffer_ptr(V), 1, (2,))
    with ib.attr(x, "pragma_z", 1), ib.for_range(0, ir.Var("n", "int64")) as i:
        ib.emit(ir.Evaluate(i))
    made = ib.get()
    w = ir.Var("w")
    C = ir.Buffer("C", (4,), "int64", scope="local")
    W = ir.Buffer("W", (8,), "int32", data=C.data)
    loop = made.stmts[2].body
    assert loop.loop_var.dtype == "int64" and made.stmts[2].node is x
    expected = ir.Seq((
        ir.IfThenElse(
            ir.LT(x, 3),
            ir.Evaluate(x),
            ir.Seq((ir.Bind(w, ir.Add(x, 1)), ir.While(ir.LT(w, 5), ir.Assert(ir.GT(w, 0), "positive")))),
        ),
        ir.Seq((
            ir.AllocBuffer(C),
            ir.BufferStore(C, ir.Cast("int64", x), (0,)),
            ir.BufferStore(C, ir.Broadcast(ir.IntImm("int64", 7), 4), (ir.Ramp(0, 1, 4),)),
            ir.DeclBuffer(W),
            ir.BufferStore(W, 1, (2,)),
        )),
        ir.AttrStmt(x, "pragma_z", 1, loop),
    ))  # fmt: skip
    assert_structural_equal(made, expected)


def test_blocks():
    ib = IRBuilder()
    with ib.func("matmul"):
        n = ib.symbol("n")
        A, B, C = (ib.buffer_param(name, (n, n)) for name in "ABC")
        loops = [ib.for_range(0, n, name=name) for name in "ijk"]
        with loops[0] as i, loops[1] as j, loops[2] as k, ib.block("C") as block:
            vi, vj, vk = block.spatial(n, i), block.spatial(n, j), block.reduce(n, k)
            block.where(i < 100)
            block.block_attr("tile", 4)
            with block.init():
                ib.store(C, 0.0, (vi, vj))
            ib.store(C, C[vi, vj] + A[vi, vk] * B[vk, vj], (vi, vj))
    made = ib.get()
    assert verify_well_formed(made)
    root = made.body
    assert isinstance(root, ir.Block) and root.name == "root" and not root.reads and not root.writes
    inner = root.body.body.body.body
    assert [(r.buffer.name, [str(x.min.name) for x in r.region]) for r in inner.reads] == [
        ("A", ["vi", "vk"]),
        ("B", ["vk", "vj"]),
    ]
    assert [r.buffer for r in inner.writes] == [C] and inner.annotations == {"tile": 4}
    assert [it.kind.value for it in inner.iters] == ["spatial", "spatial", "reduce"]
    assert isinstance(inner.init, ir.BufferStore) and isinstance(inner.predicate, ir.LT)


def test_stated_regions_and_matches():
    ib = IRBuilder()
    with ib.func("f"):
        A = ib.buffer_param("A", (16, 16))
        with ib.block("b") as block:
            vi = block.axis("opaque", (2, 6), ir.as_expr(3), name="vi")
            block.reads()
            block.writes(A[vi, 0:8], A)
            M = block.match(A[vi, 0:8], "M", (8,), strides=[ir.Var("s")], offset_factor=1)
            ib.store(M, 1.0, 0)
    block = ib.get().body.body
    assert verify_well_formed(ib.get())
    assert block.reads == () and [[r.extent.value for r in w.region] for w in block.writes] == [[1, 8], [16, 16]]
    assert block.iters[0].domain.min.value == 2 and block.iters[0].domain.extent.value == 4
    assert block.match_buffers[0].buffer is M


def test_an_opaque_access_needs_regions():
    ib = IRBuilder()
    call = lambda B: ir.Call(ir.Op.get("tir.call_extern"), ("f", B.data), "int32")
    with pytest.raises(TirError, match=r"reads\(...\)"), ib.func("f"):
        A = ib.buffer_param("A", (4,))
        with ib.block("b") as block:
            block.match(A, "M", (4,))
            ib.evaluate(call(block._matches[0].buffer))


def test_threads_of_an_axis_share_their_variable():
    ib = IRBuilder()
    with ib.func("f"):
        for _ in range(2):
            with ib.thread("threadIdx.x", 32) as tx:
                ib.evaluate(tx)
    made = ib.get()
    first, second = made.body.stmts
    assert first.loop_var is second.loop_var and first.thread_tag == "threadIdx.x" and first.extent.value == 32
    assert verify_well_formed(made)


def test_functions_and_modules():
    ib = IRBuilder()
    with ib.func("f", ret_type="int32", private=True):
        x = ib.scalar_param("x")
        ib.ret(x + 1)
    with ib.func("g"):
        ib.func_attr({"k": 2})
        ib.evaluate(ir.Call(ir.GlobalVar("f"), (1,), "int32"))
    module = ib.module()
    assert verify_well_formed(module)
    assert "global_symbol" not in module["f"].attrs and module["g"].attrs == {"global_symbol": "g", "k": 2}
    with pytest.raises(TirError, match="f, g"):
        ib.get()
    with pytest.raises(TirError, match="built already"), ib.func("f"):
        pass


def test_misuse_is_named():
    ib = IRBuilder()
    with pytest.raises(TirError, match="inside a function"):
        ib.scalar_param("x")
    with pytest.raises(TirError, match="follows an if_"), ib.else_():
        pass
    with pytest.raises(TirError, match="takes a statement"):
        ib.emit("text")
    with pytest.raises(TirError, match=r"float 1\.5"):
        ib.store(ir.Buffer("A", (4,), "int32"), 1.5, 0)
    with pytest.raises(TirError, match="float32"):
        ib.store(ir.Buffer("A", (4,), "int32"), ir.FloatImm("float32", 1.0), 0)
    with pytest.raises(TirError, match="one element"):
        ib.store(ir.Buffer("A", (4, 4), "int32"), 1, 0)
    with pytest.raises(TirError, match="with"), ib.if_(ir.Var("c") < 1):
        ib.get()
    with pytest.raises(TirError, match="another function"), ib.func("f"), ib.func("g"):
        pass
    # A scope that raised leaves the builder as it was.
    assert ir.is_no_op(ib.get())


def test_statements_outside_the_function():
    ib = IRBuilder()
    ib.evaluate(ir.Var("x"))
    with ib.func("f"):
        pass
    with pytest.raises(TirError, match="outside the function"):
        ib.get()


def test_the_words_of_tirs_builder():
    """A histogram of the parts of a block, as programs for ``tvm.tir.ir_builder`` write it, against the interpreter."""
    ib = IRBuilder()
    with ib.func("count"):
        A = ib.buffer_ptr(ib.buffer_param("A", (32,), "int32"))
        C = ib.buffer_ptr(ib.buffer_param("C", (4,), "int32"))
        bx = ir.IterVar((0, 4), "bx", ir.IterVar.ThreadIndex, "blockIdx.x")
        ib.scope_attr(bx, "thread_extent", 4)
        total = ib.allocate("int32", 1, name="total", scope="local")
        ib.scope_attr(total.buffer.data, "storage_alignment", 64)
        total[0] = 0
        with ib.for_range(0, 8, name="i") as i:
            with ib.if_scope(ib.likely(A[bx.var * 8 + i] > 3)):
                total[0] = total[0] + 1
            with ib.else_scope():
                ib.emit(total[0])
        with ib.while_loop(total[0] > 5):
            total[0] = total[0] - 1
        with ib.new_scope():
            C[bx.var] = total[0]
    func = ib.get()
    assert verify_well_formed(func) and isinstance(func.body, ir.For) and func.body.thread_tag == "blockIdx.x"
    a, c = np.arange(32, dtype="int32") % 7, np.zeros(4, "int32")
    interpret(func, a, c)
    assert list(c) == [min(5, int((part > 3).sum())) for part in a.reshape(4, 8)]


def test_an_attribute_at_the_end_of_a_scope_is_around_nothing():
    ib = IRBuilder()
    with ib.for_range(0, 4):
        ib.scope_attr(0, "pragma_note", 1)
    made = ib.get()
    assert isinstance(made.body, ir.AttrStmt) and ir.is_no_op(made.body.body)
