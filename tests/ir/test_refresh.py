"""refresh_binders: a copy is the same program, and shares no definition with the original."""

from __future__ import annotations

from typing import Any

import pytest

from tirlower import ir
from tirlower.ir import structural_equal, verify_well_formed
from tirlower.ir.query import each, nodes
from tirlower.ir.refresh import copy_var, refresh_binders, renew_defs
from tirlower.script import parse


def definitions(root: Any) -> list[Any]:
    found: list[Any] = []

    def look(op: Any) -> None:
        for field in op.fields:
            if field.role is ir.Role.BINDS:
                value = getattr(op, field.name)
                found.append(value)
                if isinstance(value, ir.Buffer):
                    found.append(value.data)

    ir.post_order_visit(root, look)
    return found


def twice(stmt: ir.Stmt, *buffers: ir.Buffer, params: tuple[ir.Var, ...] = ()) -> ir.Stmt:
    """A refreshed copy, checked: equal, nothing defined shared, and both together well-formed."""
    copy = refresh_binders(stmt)
    assert structural_equal(copy, stmt)
    views = [b for b in definitions(stmt) if isinstance(b, ir.Buffer)]
    assert not set(map(id, definitions(copy))) & set(map(id, definitions(stmt))), views
    handles = {ir.Var(b.name, "handle"): b for b in buffers}
    both = ir.Seq((ir.Seq((stmt,)), ir.Seq((copy,))))
    verify_well_formed(ir.PrimFunc((*params, *handles), handles, "void", {}, both))
    return copy


def loop(var: ir.Var, body: ir.Stmt, extent: Any = 4) -> ir.For:
    return ir.For(var, 0, extent, "serial", None, {}, body)


def test_loops_lets_and_binds():
    i, x, y, n = ir.Var("i"), ir.Var("x"), ir.Var("y"), ir.Var("n", nonneg=True)
    stmt = loop(i, ir.Seq((ir.Bind(x, ir.Add(i, n)), ir.Evaluate(ir.Let(y, x, ir.Add(y, ir.Mul(y, n)))))), n)
    copy = twice(stmt, params=(n,))
    assert copy.loop_var.name == "i" and copy.extent is n
    let = copy.body.stmts[1].value
    assert let.body.a is let.var and let.var is not y


def test_allocations_keep_their_buffer():
    i, j, B = ir.Var("i"), ir.Var("j"), ir.Buffer("B", (4,))
    V, W = ir.Buffer("V", (2, 2), data=B.data), ir.Buffer("W", (4,), "int32", data=B.data)
    body = ir.Seq(
        (
            ir.AllocBuffer(B),
            ir.BufferStore(B, 0.0, (0,)),
            ir.DeclBuffer(V),
            loop(i, ir.BufferStore(B, ir.BufferLoad(V, (0, 1)), (i,))),
            loop(j, ir.BufferStore(W, 1, (j,))),
            ir.BufferStore(W, 2, (0,)),
            ir.AttrStmt(B.data, "volatile", 1, ir.Evaluate(ir.BufferLoad(B, (1,)))),
        )
    )
    copy = twice(body)
    new = copy.stmts[0].buffer
    assert copy.stmts[1].buffer is new and copy.stmts[3].body.buffer is new and copy.stmts[6].node is new.data
    assert copy.stmts[3].body.value.buffer is copy.stmts[2].buffer
    assert copy.stmts[4].body.buffer is copy.stmts[5].buffer and copy.stmts[5].buffer.data is new.data


def test_an_attribute_in_front_of_what_it_names():
    i, B = ir.Var("i"), ir.Buffer("B", (4,))
    inside = ir.Seq((ir.AllocBuffer(B), loop(i, ir.BufferStore(B, 0.0, (i,)))))
    copy = twice(ir.AttrStmt(B, "double_buffer", 1, ir.AttrStmt(i, "pragma_x", 1, inside)))
    assert copy.node is copy.body.body.stmts[0].buffer and copy.body.node is copy.body.body.stmts[1].loop_var


def test_a_view_seen_before_what_it_is_made_of():
    """What was mapped before its data, extents, strides or offset were renamed is mapped again."""
    i, n, B = ir.Var("i"), ir.Var("n"), ir.Buffer("B", (8,))
    for V, parts in (
        (ir.Buffer("V", (2, 4), data=B.data), {"data": B.data}),
        (ir.Buffer("V", (n,), data=B.data), {"data": B.data, "extent": n}),
        (ir.Buffer("V", (4,), strides=(n,), data=B.data), {"data": B.data, "stride": n}),
        (ir.Buffer("V", (4,), elem_offset=n, data=B.data), {"data": B.data, "offset": n}),
    ):
        at = (i, 0)[: len(V.shape)]
        store = loop(i, ir.BufferStore(V, 0.0, at))
        inside = ir.Seq((ir.AllocBuffer(B), ir.Bind(n, ir.IntImm("int32", 2)), ir.DeclBuffer(V), store))
        copy = refresh_binders(ir.AttrStmt(V, "double_buffer", 1, inside))
        alloc, bind, declared, stored = copy.body.stmts
        new = declared.buffer
        assert copy.node is new and stored.body.buffer is new and new is not V
        assert new.data is alloc.buffer.data and new.data is not B.data
        found = {"extent": new.shape[0], "stride": new.strides[0] if new.strides else None, "offset": new.elem_offset}
        for part in parts.keys() - {"data"}:
            assert found[part] is bind.var and bind.var is not n, part


def _around(where: str, seen: Any, inside: ir.Stmt) -> Any:
    """A statement that names an element of a buffer in front of a body."""
    element = ir.BufferLoad(seen, (0,) * len(seen.shape))
    if where == "region":
        region = ir.BufferRegion(seen, tuple(ir.Range(0, 1) for _ in seen.shape))
        return ir.Block("b", (), ir.const(True, "bool"), (region,), (), None, (), {}, inside)
    if where == "extent":
        return loop(ir.Var("k"), inside, ir.Cast("int32", element))
    return ir.AttrStmt(None, "pragma_x", element, inside)


@pytest.mark.parametrize("where", ["value", "extent", "region"])
@pytest.mark.parametrize("part", ["data", "extent", "stride", "offset"])
def test_a_buffer_named_in_front_of_what_it_is_made_of(where: str, part: str):
    """It was mapped before its data, extent, stride or offset had a new name: inside it is mapped again."""
    i, n, B = ir.Var("i"), ir.Var("n"), ir.Buffer("B", (8,))
    made: Any = {"data": B.data}
    shape: Any = (4,)
    if part == "extent":
        shape = (n,)
    elif part == "stride":
        made["strides"] = (n,)
    elif part == "offset":
        made["elem_offset"] = n
    V = ir.Buffer("V", shape, **made)
    # Used without a declaration, as what a pass left: nothing defines it anew.
    inside = ir.Seq((ir.AllocBuffer(B), ir.Bind(n, ir.IntImm("int32", 2)), loop(i, ir.BufferStore(V, 0.0, (i,)))))
    copy = refresh_binders(_around(where, V, inside))
    alloc, bind, stored = copy.body.stmts
    new = stored.body.buffer
    assert new is not V and alloc.buffer.data is not B.data and bind.var is not n
    assert new.data is alloc.buffer.data
    found = {"extent": new.shape[0], "stride": new.strides[0] if new.strides else None, "offset": new.elem_offset}
    assert part == "data" or found[part] is bind.var


def test_blocks():
    i, vi, s, o = (ir.Var(n) for n in ("i", "vi", "s", "o"))
    A, B = ir.Buffer("A", (16,)), ir.Buffer("B", (4,))
    M = ir.Buffer("M", (4,), strides=(s,), elem_offset=o)
    region = ir.BufferRegion(A, (ir.Range(ir.Mul(vi, 4), 4),))
    init = ir.Seq((ir.BufferStore(B, 0.0, (0,)), ir.BufferStore(M, ir.Cast("float32", s), (0,))))
    body = ir.Seq((ir.AllocBuffer(B), ir.BufferStore(M, ir.BufferLoad(B, (0,)), (ir.Sub(o, o),))))
    it = ir.BlockIter(vi, ir.Range(0, 4), "spatial", i)
    match = (ir.MatchBufferRegion(M, region),)
    block = ir.Block("b", (it,), ir.LT(i, 3), (region,), (region,), init, match, {"k": vi}, body)
    copy = twice(loop(i, block), A).body
    new = copy.match_buffers[0].buffer
    assert copy.init.stmts[1].buffer is new and copy.body.stmts[1].buffer is new
    assert copy.init.stmts[0].buffer is copy.body.stmts[0].buffer
    assert copy.init.stmts[1].value.value is new.strides[0] is not s
    assert copy.annotations["k"] is copy.iters[0].var and copy.reads[0].region[0].min.a is copy.iters[0].var
    assert copy.reads[0].buffer is A


def test_a_matched_buffer_of_the_shape_around_it():
    n, m = ir.Var("n"), ir.Var("m")
    A = ir.Buffer("A", (n, 8))
    M = ir.Buffer("M", (n, m))
    match = ir.MatchBufferRegion(M, A.region())
    block = ir.Block("b", (), True, (), (), None, (match,), {}, ir.BufferStore(M, 1.0, (0, m)))
    copy = twice(block, A)
    made = copy.match_buffers[0].buffer
    assert made.shape[0] is n and made.shape[1] is not m and copy.body.indices[1] is made.shape[1]


def test_thread_loops_share_their_variable():
    t, v = ir.Var("t"), ir.Var("v")
    threads = ir.For(t, 0, 4, "thread_binding", "threadIdx.x", {}, ir.Evaluate(t))
    assert refresh_binders(threads).loop_var is t
    virtual = ir.For(v, 0, 4, "thread_binding", "vthread", {}, ir.Evaluate(v))
    assert refresh_binders(virtual).loop_var is not v


def test_nothing_defined_is_the_same_object():
    stmt = ir.Evaluate(ir.Var("x"))
    assert refresh_binders(stmt) is stmt


def test_cost_is_near_linear():
    B = ir.Buffer("B", (4,))
    loops = []
    for k in range(20_000):
        i = ir.Var(f"i{k}")
        loops.append(loop(i, ir.BufferStore(B, 0.0, (i,))))
    copy = refresh_binders(ir.Seq((ir.AllocBuffer(B), *loops)))
    assert all(s.body.buffer is copy.stmts[0].buffer for s in copy.stmts[1:])


def test_copy_var():
    x = ir.Var("x", ir.PointerType("int8", "shared"))
    y = copy_var(x)
    assert y is not x and y.name == "x" and y.type == x.type and copy_var(x, "z").name == "z"
    assert copy_var(ir.Var("n", nonneg=True)).nonneg


def test_a_function_with_definitions_of_its_own():
    func = parse(
        """
@T.prim_func
def f(a: T.handle, B: T.Buffer((8, 4), "float32"), x: T.int32, p: T.handle):
    T.func_attr({"k": [x, "text"], "tir.noalias": True})
    n, m = T.int64(), T.int32()
    A = T.match_buffer(a, (n, 4), "float32", strides=(m, 1), elem_offset=T.int32(), offset_factor=4)
    C = T.alloc_buffer((n,), "float32")
    for i, j in T.grid(n, 4):
        with T.block("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            y: T.float32 = A[vi, vj] * T.Cast("float32", x)
            B[vi % 8, vj] = y + T.Let(z, where={z: y})
            C[vi] = y
    T.evaluate(T.call_extern("int32", "g", p, B.data, A.data))
""".replace("    n, m", "    z = T.float32()\n    n, m")
    )
    assert isinstance(func, ir.PrimFunc)
    copy = renew_defs(func)
    assert structural_equal(copy, func) and copy.script() == func.script()
    mine, others = (
        {id(op) for node in (one.body, *one.buffer_map.values()) for op in nodes(node) if isinstance(op, ir.Var)}
        | {id(param) for param in one.params}
        | {id(buffer) for buffer in one.buffers}
        for one in (func, copy)
    )
    assert not mine & others
    assert copy.attrs["k"][0] is copy.params[2]
    verify_well_formed(ir.IRModule({"f": func, "g": copy.with_attr("global_symbol", "g")}))
    assert [p.name for p in copy.params] == [p.name for p in func.params]


def test_free_variables_get_values_as_they_would_before() -> None:
    func = parse("""
def f(A: T.Buffer((8, 8), "int32"), n: T.int32):
    for i in range(8):
        B = T.alloc_buffer((n + i,), "int32")
        for j in range(i + 2):
            B[j] = A[i, j] + i * 4
        with T.block("C"):
            v = T.axis.spatial(8, i)
            A[v, 0] = 3
        x = T.bind(n * i)
        A[i, 1] = B[x] + i
""")
    loop = next(each(ir.For, func.body))
    for value in (ir.const(3, "int32"), ir.Var("k"), ir.Var("k") * 2):
        values = {loop.loop_var: value}
        made = refresh_binders(loop.body, values)
        assert structural_equal(made, refresh_binders(ir.substitute(loop.body, values)), map_free_vars=False)
        assert not set(map(id, definitions(made))) & set(map(id, definitions(loop.body)))
