"""verify_well_formed: each rule by a program that breaks it, next to one that does not."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower.script  # noqa: F401  (messages show printed expressions)
from tirlower import ir
from tirlower.diagnostics import Source, Span, TirError, WellFormedError
from tirlower.ir import IRModule, PrimFunc, verify_well_formed
from tirlower.ir.op import GlobalVar, Op

ev = ir.Evaluate
SPAN = Span(Source("A[i] = 1.0\n", "kernel.py"), 1, 0, 1, 4)


def func(body: ir.Stmt, *params: ir.Var, name: str = "main", ret: str = "void", **maps: ir.Buffer) -> PrimFunc:
    handles = {ir.Var(n, "handle"): b for n, b in maps.items()}
    return PrimFunc((*params, *handles), handles, ret, {"global_symbol": name}, body)


def loop(var: ir.Var, body: ir.Stmt, extent: object = 4, tag: str | None = None) -> ir.For:
    return ir.For(var, 0, extent, "thread_binding" if tag else "serial", tag, {}, body)


def block(body: ir.Stmt, *iters: ir.BlockIter, **fields: object) -> ir.Block:
    given = {"predicate": True, "reads": (), "writes": (), "init": None, "match_buffers": (), "annotations": {}}
    return ir.Block("b", iters, *[fields.get(k, v) for k, v in given.items()], body)


def spatial(var: ir.Var, value: object, extent: object = 4) -> ir.BlockIter:
    return ir.BlockIter(var, ir.Range(0, extent), ir.IterKind.SPATIAL, value)


def good(obj: object) -> None:
    assert verify_well_formed(obj) is True


def bad(obj: object, *words: str) -> WellFormedError:
    assert verify_well_formed(obj, assert_mode=False) is False
    with pytest.raises(WellFormedError) as caught:
        verify_well_formed(obj)
    text = str(caught.value)
    for word in words:
        assert word in text, text
    assert caught.value.help
    return caught.value


def test_free_variables_are_parameters_and_symbolic_dimensions():
    x = ir.Var("x")
    good(func(ev(x), x))
    bad(func(ev(x)), "'x'", "nothing defines it", "in function 'main'")
    n, s, o = ir.Var("n"), ir.Var("s"), ir.Var("o")
    A = ir.Buffer("A", (n, ir.Mul(n, 2)), strides=(s, 1), elem_offset=o)
    good(func(ev(ir.Add(n, ir.Add(s, o))), A=A))
    # A dimension that never stands bare must be a scalar parameter.
    m = ir.Var("m")
    B = ir.Buffer("B", (ir.Add(m, 1),))
    bad(func(ev(0), B=B), "'m'")
    good(func(ev(0), m, B=B))
    # It may stand bare in a later parameter.
    good(func(ev(0), B=B, C=ir.Buffer("C", (m,))))


def test_buffer_parameters_may_share_their_data():
    A = ir.Buffer("A", (4,))
    good(func(ev(0), A=A, B=ir.Buffer("B", (2, 2), data=A.data)))
    bad(func(ev(0), A=A, B=A), "'A'", "defined twice")


def test_a_variable_is_defined_once():
    i, j = ir.Var("i"), ir.Var("j")
    good(func(ir.Seq((loop(i, ev(i)), loop(j, ev(j))))))
    error = bad(
        func(ir.Seq((loop(i, ev(i)).with_(span=SPAN), loop(i, ev(i))))), "'i'", "defined twice", "refresh_binders"
    )
    assert any(label.text == "first defined here" for label in error.labels)
    bad(func(loop(i, loop(i, ev(i)))), "'i'", "defined twice")
    bad(func(loop(i, ev(i)), i), "'i'", "defined twice")
    bad(func(ir.Seq((ir.Bind(i, 1), ir.Bind(i, 2)))), "'i'", "defined twice")
    bad(func(ir.Seq((ev(ir.Let(i, 1, i)), ev(ir.Let(i, 1, i))))), "'i'", "defined twice")
    B = ir.Buffer("B", (4,))
    bad(func(ir.Seq((ir.Seq((ir.AllocBuffer(B), ev(0))), ir.Seq((ir.AllocBuffer(B), ev(0)))))), "'B'", "defined twice")


def test_a_shared_let_is_one_definition():
    x = ir.Var("x")
    let = ir.Let(x, 1, ir.Add(x, 1))
    good(func(ev(ir.Add(let, let))))
    bad(func(ev(ir.Add(let, x))), "'x'", "outside its scope")
    bad(func(ev(ir.Add(x, let))), "'x'")
    # A shared operand that is right inside the Let is wrong outside it, in either order.
    part = ir.Mul(x, 2)
    bad(func(ev(ir.Add(ir.Let(x, 1, part), part))), "'x'")
    bad(func(ev(ir.Add(part, ir.Let(x, 1, part)))), "'x'")
    bad(func(ev(ir.Let(x, x, x))), "'x'")


def test_functions_of_a_module_share_no_variables():
    x = ir.Var("x")
    f, g = func(ev(x), x, name="f"), func(ev(x), x, name="g")
    bad(IRModule({"f": f, "g": g}), "'x'", "defined twice", "function 'f' too")
    good(IRModule({"f": f, "g": func(ev(0), name="g")}))
    bad(IRModule({"f": f, "g": func(ev(x), name="g")}), "belongs to function 'f'")


def test_thread_loops_of_a_tag_share_one_variable():
    t, u = ir.Var("t"), ir.Var("u")
    good(func(ir.Seq((loop(t, ev(t), tag="threadIdx.x"), loop(t, ev(t), tag="threadIdx.x")))))
    good(func(loop(t, loop(t, ev(t), tag="threadIdx.x"), tag="threadIdx.x")))
    bad(func(ir.Seq((loop(t, ev(t), tag="threadIdx.x"), loop(u, ev(u), tag="threadIdx.x")))), "different variables")
    bad(
        func(ir.Seq((loop(t, ev(t), tag="threadIdx.x"), loop(t, ev(t), tag="threadIdx.y")))),
        "defined twice",
        "threadIdx.y",
    )
    bad(func(ir.Seq((loop(t, ev(t), tag="threadIdx.x"), loop(t, ev(t))))), "defined twice")
    bad(func(loop(t, ev(t), tag="threadIdx.x"), t), "defined twice")
    # Virtual threads may have variables of their own; other index types must.
    good(func(loop(t, loop(u, ev(u), tag="vthread"), tag="vthread")))
    w = ir.Var("w", "int64")
    good(func(ir.Seq((loop(t, ev(t), tag="threadIdx.x"), loop(w, ev(w), tag="threadIdx.x")))))
    f = func(loop(t, ev(t), tag="threadIdx.x"), name="f")
    bad(IRModule({"f": f, "g": func(loop(t, ev(t), tag="threadIdx.x"), name="g")}), "function 'f' too")


def test_attributes_over_an_iter_var_define_a_thread_axis():
    tx, other, A = ir.Var("tx"), ir.Var("tx"), ir.Buffer("A", (8,), "int32")
    axis, again = (ir.IterVar(ir.Range(0, 8), var, "ThreadIndex", "threadIdx.x") for var in (tx, other))

    def store(var):
        return ir.BufferStore(A, 1, (var,))

    def extent(thread, body, key="thread_extent"):
        return ir.AttrStmt(thread, key, 8, body)

    good(func(extent(axis, store(tx)), A=A))
    good(func(ir.Seq((extent(axis, store(tx)), extent(axis, store(tx)))), A=A))
    good(func(ir.Seq((extent(axis, store(tx)), extent(again, store(other)))), A=A))
    good(func(extent(axis, extent(axis, store(tx))), A=A))
    bad(func(ir.Seq((extent(axis, store(tx)), store(tx))), A=A), "'tx' is used outside its scope")
    bad(func(extent(axis, store(other)), A=A), "'tx' is used, but nothing defines it")
    bad(func(extent(axis, store(tx), "pragma"), A=A), "'tx' is used, but nothing defines it")
    bad(func(ir.Seq((loop(tx, store(tx)), extent(axis, store(tx)))), A=A), "'tx' is defined twice")


def test_a_declaration_is_in_scope_in_the_rest_of_its_seq():
    x, c = ir.Var("x"), ir.Var("c")
    good(func(ir.Seq((ir.Bind(x, 1), ev(x)))))
    bad(func(ir.Seq((ev(x), ir.Bind(x, 1)))), "'x'")
    bad(func(ir.Seq((ir.Bind(x, ir.Add(x, 1)), ev(0)))), "'x'")
    bad(func(ir.Seq((ir.Seq((ir.Bind(x, 1), ev(x))), ev(x)))), "'x'", "outside its scope")
    bad(func(ir.Seq((ir.IfThenElse(ir.LT(c, 1), ir.Bind(x, 1)), ev(x))), c), "'x'", "outside its scope")
    bad(func(ir.Seq((loop(c, ev(c)), ev(c)))), "'c'", "outside its scope")
    bad(func(loop(x, ev(0), extent=x)), "'x'")
    bad(func(ir.While(ir.LT(x, 1), ir.Bind(x, 1))), "'x'")


def test_a_buffer_is_used_inside_its_allocation():
    B = ir.Buffer("B", (4,))
    store = ir.BufferStore(B, 1.0, (0,))
    good(func(ir.Seq((ir.AllocBuffer(B), store))))
    good(func(ir.Seq((ir.AllocConst(B, np.zeros(4, "float32")), ev(ir.BufferLoad(B, (0,)))))))
    bad(func(ir.Seq((ir.Seq((ir.AllocBuffer(B), store)), store))), "'B'", "outside the scope of its allocation")
    bad(func(store), "'B'")
    # The bare data variable and a view count too.
    bad(func(ir.Seq((ir.Seq((ir.AllocBuffer(B), store)), ev(B.data)))), "'B'")
    view = ir.Buffer("V", (2, 2), data=B.data)
    bad(func(ir.Seq((ir.Seq((ir.AllocBuffer(B), store)), ir.BufferStore(view, 1.0, (0, 0))))), "'V'", "allocation")


def test_views_need_no_declaration_but_the_variables_they_mention():
    n, m, B = ir.Var("n"), ir.Var("m"), ir.Buffer("B", (4,))
    view = ir.Buffer("V", (n, 2), data=B.data, elem_offset=m)
    use = ir.BufferStore(view, 1.0, (0, 0))
    good(func(ir.Seq((ir.AllocBuffer(B), use)), n, m))
    bad(func(ir.Seq((ir.AllocBuffer(B), use)), n), "'m' of buffer 'V'")
    bad(func(ir.Seq((ir.AllocBuffer(B), ir.DeclBuffer(view), use)), n), "'m'")
    good(func(ir.Seq((ir.AllocBuffer(B), ir.DeclBuffer(view), use)), n, m))
    inside = ir.Seq((ir.AllocBuffer(B), ir.Seq((ir.DeclBuffer(view), use)), use))
    bad(func(inside, n, m), "'V'", "outside the scope of its declaration")
    bad(func(ir.Seq((ir.AllocBuffer(B), use, ir.DeclBuffer(view))), n, m), "'V'", "before its declaration")


def test_symbolic_strides_of_an_allocation_are_defined_by_it():
    s = ir.Var("s")
    B = ir.Buffer("B", (4, 4), strides=(s, 1))
    good(func(ir.Seq((ir.AllocBuffer(B), ev(s)))))
    n = ir.Var("n")
    bad(func(ir.Seq((ir.AllocBuffer(ir.Buffer("B", (n,))), ev(0)))), "'n'")


@pytest.mark.parametrize("part", ["shape", "strides", "elem_offset"])
@pytest.mark.parametrize("impure", [False, True])
def test_the_layout_of_a_buffer_reads_no_memory(part, impure):
    """What a store changes: an access would be taken for one inside a buffer that the memory is too small for."""
    source = ir.Buffer("A", (4,), "int32")
    value = ir.Call(ir.Op.get("tir.call_extern"), ("next",), "int32") if impure else source[0] + 1
    parts = {"shape": (4,), part: value if part == "elem_offset" else (value,)}
    made = ir.decl_buffer(dtype="int32", name="B", **parts)
    for stmt in (ir.AllocBuffer(made), ir.DeclBuffer(made.with_(data=source.data))):
        text = str(bad(func(ir.Seq((ir.AllocBuffer(source), stmt)))))
        assert "the layout of buffer 'B' reads memory" in text and "bind the value in front" in text
    n = ir.Var("n")
    bound = ir.decl_buffer(dtype="int32", name="B", **(parts | {part: n if part == "elem_offset" else (n,)}))
    good(func(ir.Seq((ir.AllocBuffer(source), ir.Bind(n, value), ir.AllocBuffer(bound)))))


def test_block_iterators():
    i, vi, vj = (ir.Var(n) for n in ("i", "vi", "vj"))
    good(func(loop(i, block(ev(vi), spatial(vi, ir.Add(i, 1))))))
    bad(func(loop(i, block(ev(vi), spatial(vi, vi)))), "'vi'")
    bad(func(loop(i, block(ev(vi), spatial(vi, i), spatial(vj, vi)))), "'vi'")
    bad(func(loop(i, block(ev(vi), spatial(vi, None)))), "no binding")
    bad(func(loop(i, block(ev(vi), spatial(vi, i, vi)))), "'vi'")
    bad(func(loop(i, block(ev(vi), spatial(vi, i), predicate=ir.LT(vi, 3)))), "'vi'")
    good(func(loop(i, block(ev(vi), spatial(vi, i), predicate=ir.LT(i, 3)))))
    bad(func(ir.Seq((loop(i, block(ev(vi), spatial(vi, i))), ev(vi)))), "'vi'", "outside its scope")
    wide = ir.Var("w", "int64")
    bad(func(loop(i, block(ev(wide), ir.BlockIter(wide, ir.Range(0, 4), "spatial", i)))), "int64", "int32")
    bad(func(loop(i, block(ev(0), predicate=ir.Cast("int32", i)))), "predicate")


def test_a_block_with_iterators_does_not_use_the_loops_around_it():
    i, j, vi = ir.Var("i"), ir.Var("j"), ir.Var("vi")
    A = ir.Buffer("A", (4,))
    body = ir.BufferStore(A, 1.0, (i,))
    bad(func(loop(i, block(body, spatial(vi, i))), A=A), "loop variable 'i'", "block 'b'")
    region = ir.BufferRegion(A, (ir.Range(i, 1),))
    bad(func(loop(i, block(ev(vi), spatial(vi, i), reads=(region,))), A=A), "loop variable 'i'")
    good(func(loop(i, block(body)), A=A))  # an opaque block may
    good(func(loop(i, block(loop(j, ir.BufferStore(A, 1.0, (ir.Add(vi, j),))), spatial(vi, i))), A=A))
    inner = block(ev(i))
    bad(func(loop(i, block(inner, spatial(vi, i)))), "loop variable 'i'")
    # The rule ends with the block.
    good(func(loop(i, ir.Seq((block(ev(vi), spatial(vi, i)), ev(i))))))
    t = ir.Var("t")
    good(func(loop(t, block(ev(t), spatial(vi, 0)), tag="threadIdx.x")))


def test_regions_are_stated():
    A = ir.Buffer("A", (4,))
    bad(func(block(ev(0), reads=None)), "reads", "T.reads")
    bad(func(block(ev(0), writes=None)), "writes")
    B = ir.Buffer("B", (4,))
    region = ir.BufferRegion(B, (ir.Range(0, 4),))
    bad(func(block(ir.Seq((ir.AllocBuffer(B), ev(0))), writes=(region,)), A=A), "'B'")


def test_matched_buffers_and_init():
    A, B = ir.Buffer("A", (8,)), ir.Buffer("B", (4,))
    s, vi, i = ir.Var("s"), ir.Var("vi"), ir.Var("i")
    M = ir.Buffer("M", (4,), strides=(s,), elem_offset=ir.Var("off"))
    match = ir.MatchBufferRegion(M, ir.BufferRegion(A, (ir.Range(ir.Mul(vi, 4), 4),)))
    use = ir.BufferStore(M, ir.Cast("float32", s), (0,))
    good(func(loop(i, block(use, spatial(vi, i), match_buffers=(match,))), A=A))
    after = ir.Seq((loop(i, block(use, spatial(vi, i), match_buffers=(match,))), use))
    bad(func(after, A=A), "'M'")
    init = ir.BufferStore(B, 0.0, (0,))
    body = ir.Seq((ir.AllocBuffer(B), ir.BufferStore(B, 1.0, (0,))))
    good(func(block(body, init=init)))
    late = ir.Seq((ev(1), ir.AllocBuffer(B), ir.BufferStore(B, 1.0, (0,))))
    bad(func(block(late, init=init)), "'B'")
    x = ir.Var("x")
    bad(func(block(ev(x), init=ir.Seq((ir.Bind(x, 1), ev(x))))), "'x'")


def test_an_attribute_may_name_what_is_bound_inside_it():
    i, x, B = ir.Var("i"), ir.Var("x"), ir.Buffer("B", (4,))
    good(func(ir.AttrStmt(i, "pragma_unroll", 1, loop(i, ev(i)))))
    bad(func(ir.AttrStmt(x, "pragma_unroll", 1, loop(i, ev(i)))), "'x'")
    bad(func(ir.Seq((loop(i, ev(i)), ir.AttrStmt(i, "pragma_unroll", 1, ev(0))))), "'i'")
    inside = ir.Seq((ir.AllocBuffer(B), ir.BufferStore(B, 1.0, (0,))))
    good(func(ir.AttrStmt(B, "double_buffer_scope", 1, inside)))
    good(func(ir.AttrStmt(B.data, "double_buffer_scope", 1, inside)))
    bad(func(ir.AttrStmt(B, "double_buffer_scope", 1, ev(0))), "'B'")
    good(func(ir.AttrStmt(ir.IterVar(ir.Range(0, 4), x), "pragma_x", 1, ev(0))))
    bad(func(ir.AttrStmt(ir.IterVar(ir.Range(0, x), i), "pragma_x", 1, ev(0))), "'x'")
    reducer = ir.CommReducer((x,), (i,), (ir.Add(x, i),), (0,))
    good(func(ir.AttrStmt(reducer, "reduce_scope", 0, ev(0))))
    bad(func(loop(i, ev(0)).with_(annotations={"limit": ir.Add(x, 1)})), "'x'")
    good(func(loop(i, ir.Seq((ir.Bind(x, 1), ev(x)))).with_(annotations={"limit": ir.Add(x, 1)})))


def test_types():
    f32, f64 = ir.FloatImm("float32", 1.0), ir.FloatImm("float64", 1.0)
    exp = Op.get("tir.exp")
    good(func(ev(ir.Call(exp, (f32,), "float32"))))
    bad(func(ev(ir.Call(exp, (f64,), "float32"))), "tir.exp", "float64")
    bad(func(ir.Seq((ir.AllocConst(ir.Buffer("K", (2,)), np.zeros(2)), ev(0)))), "float64", "astype")
    ret = lambda v: ev(ir.Call(Op.get("tir.ret"), (v,), v.dtype))
    good(func(ret(f32), ret="float32"))
    good(func(ret(f32)))
    bad(func(ret(f64), ret="float32"), "returns float32", "float64")
    bad(func(ir.For(ir.Var("i"), 0, 4, "serial", None, {}, ir.Var("x"))), "body", "statement")


def test_calls_in_a_module():
    x, y, p = ir.Var("x"), ir.Var("y"), ir.Var("p", "handle")
    A = ir.Buffer("A", (4,))
    one = ir.IntImm("int32", 1)
    callee = func(ev(ir.Call(Op.get("tir.ret"), (ir.Add(x, 1),), "int32")), x, p, name="callee", ret="int32")
    call = lambda *args, kind="int32", name="callee": ev(ir.Call(GlobalVar(name), args, kind))

    def module(stmt: ir.Stmt) -> IRModule:
        return IRModule({"main": func(stmt, y, A=A), "callee": callee})

    good(module(call(one, A.data)))
    bad(module(call(one, A.data, name="calee")), "'calee'", "did you mean 'callee'")
    bad(module(call(one)), "2 arguments", "has 1")
    bad(module(call(A.data, one)), "'x'", "int32", "pointer")
    bad(module(call(one, A.data, kind="float32")), "returns int32", "float32")
    # A function by itself cannot know.
    good(func(call(one, A.data, name="anything"), y, A=A))
    # The element types of pointers agree, where both are stated.
    q = ir.Var("q", ir.PointerType("int8"))
    typed = IRModule({"main": func(call(A.data, kind="void"), A=A), "callee": func(ev(0), q, name="callee")})
    bad(typed, "pointer to int8", "pointer to float32")


def test_exported_names_are_unique():
    f, g = func(ev(0), name="same"), func(ev(1), name="same")
    bad(IRModule({"f": f, "g": g}), "'same'", "'f'", "'g'")
    good(IRModule({"f": f, "g": g.without_attr("global_symbol")}))


def test_one_name_may_be_exported_for_several_targets():
    body = ir.Evaluate(ir.const(0))
    host, device, other = (func(body, name="main").with_attr("target", kind) for kind in ("llvm", "cuda", "llvm"))
    good(IRModule({"a": host, "b": device}))
    bad(IRModule({"a": host, "b": other}), "export one name", "main")
    bad(IRModule({"a": host, "b": host.without_attr("target"), "c": func(body, name="main")}), "export one name")


def test_an_error_shows_the_place():
    x = ir.Var("x")
    text = str(bad(func(ev(x, span=SPAN))))
    assert "kernel.py:1:1" in text and "^^^^" in text
    # An expression has its own place; without one, that of its statement is taken.
    load = ir.BufferLoad(ir.Buffer("A", (4,)), (0,), span=SPAN)
    assert "kernel.py:1:1" in str(bad(func(ev(load))))
    assert "at:\n" in str(bad(func(ev(x))))


def test_other_objects_are_refused():
    with pytest.raises(TirError, match="PrimFunc or an IRModule"):
        verify_well_formed(ev(0))


def test_scale():
    x = ir.Var("x")
    chain: ir.Expr = x
    for _ in range(5000):
        chain = ir.Add(chain, x)
    shared: ir.Expr = x
    for _ in range(200):
        shared = ir.Add(shared, shared)
    nest: ir.Stmt = ev(shared)
    for k in range(1000):
        nest = loop(ir.Var(f"i{k}"), nest)
    good(func(ir.Seq((ev(chain), *[ev(ir.Add(x, 1)) for _ in range(100_000)], nest)), x))
    lets: ir.Expr = chain
    for k in range(3000):
        lets = ir.Let(ir.Var(f"y{k}"), 1, ir.Add(lets, x))
    good(func(ev(lets), x))
