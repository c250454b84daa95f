from __future__ import annotations

from tests.checking import check, executes_alike
from tirlower.analysis import verify_ssa
from tirlower.ir import (
    AllocBuffer,
    AttrStmt,
    Bind,
    Block,
    Buffer,
    BufferLoad,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IRModule,
    Let,
    PrimFunc,
    Seq,
    Stmt,
    Var,
    const,
    post_order_visit,
    verify_well_formed,
)
from tirlower.ir.buffer import decl_buffer
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import ConvertSSA


def twice(func: PrimFunc) -> PrimFunc:
    return func.with_body(Seq((Seq((func.body,)), Seq((func.body,)))))


def converted(before: PrimFunc) -> PrimFunc:
    """The result, after the checks that an ill-formed input allows."""
    assert not verify_well_formed(before, assert_mode=False)
    return check(ConvertSSA(), before, well_formed=False)


def loops(stmt: Stmt) -> list[For]:
    found: list[For] = []
    post_order_visit(stmt, lambda op: found.append(op) if isinstance(op, For) else None)
    return found


@T.prim_func
def everything(A: T.Buffer((4, 4), "int32"), n: T.int32):
    x: T.int32 = n + 1
    B = T.alloc_buffer((x,), "int32")
    V = T.decl_buffer((1, x), "int32", data=B.data)
    y = T.int32()
    for i in range(4):
        for j in T.serial(4, annotations={"limit": x}):
            V[0, j % x] = i + j
            A[i, j] = B[j % x] + T.Let(y * y, where={y: A[i, j]})


def test_unique_definitions_come_back_as_they_are() -> None:
    check(ConvertSSA(), everything, everything)


def test_a_copied_body_gets_its_own_definitions() -> None:
    after = converted(twice(everything))
    verify_well_formed(after)
    assert verify_ssa(after)


def test_the_first_definition_keeps_its_variable() -> None:
    i, buffer = Var("i"), decl_buffer((4,), "int32", "A")
    param = Var("A", "handle")
    loop = For(i, 0, 4, "serial", None, {}, BufferStore(buffer, i, (i,)))
    before = PrimFunc((param,), {param: buffer}, None, {}, Seq((loop, loop, loop)))
    after = converted(before)
    assert after.body.stmts[0] is loop
    assert len({one.loop_var for one in loops(after.body)}) == 3


def test_an_inner_definition_hides_the_outer_until_its_scope_ends() -> None:
    i, x, buffer = Var("i"), Var("x"), decl_buffer((8,), "int32", "A")
    param = Var("A", "handle")
    inner = For(i, 0, 2, "serial", None, {}, Seq((Bind(x, i + 5), BufferStore(buffer, x + i, (i,)))))
    outer = For(i, 2, 2, "serial", None, {}, Seq((inner, BufferStore(buffer, x * i, (i + 2,)))))
    before = PrimFunc((param,), {param: buffer}, None, {}, Seq((Bind(x, const(7)), outer)))
    after = converted(before)
    verify_well_formed(after)


def test_lets_of_one_variable() -> None:
    x, buffer, param = Var("x"), decl_buffer((2,), "int32", "A"), Var("A", "handle")
    value = Let(x, const(4), x + Let(x, x + 1, x * 10 + Let(x, x * 2, x - 3)))
    before = PrimFunc((param,), {param: buffer}, None, {}, BufferStore(buffer, value, (const(0),)))
    after = converted(before)
    assert verify_ssa(after)


def test_an_allocation_made_twice_is_two_buffers() -> None:
    buffer, out, param = decl_buffer((2,), "int32", "B"), decl_buffer((2,), "int32", "A"), Var("A", "handle")
    view = Buffer("V", (2, 1), "int32", buffer.data)
    part = Seq(
        (
            AllocBuffer(buffer),
            BufferStore(buffer, BufferLoad(out, (const(0),)) + 1, (const(1),)),
            DeclBuffer(view),
            BufferStore(out, BufferLoad(view, (const(1), const(0))), (const(0),)),
        )
    )
    after = converted(PrimFunc((param,), {param: out}, None, {}, Seq((part, part))))
    made: list[Buffer] = []
    post_order_visit(
        after.body, lambda op: made.append(op.buffer) if isinstance(op, (AllocBuffer, DeclBuffer)) else None
    )
    assert len(set(made)) == 4 and len({one.data for one in made}) == 2


def test_undeclared_views_follow_their_data() -> None:
    buffer, out, param = decl_buffer((4,), "int32", "B"), decl_buffer((4,), "int32", "A"), Var("A", "handle")
    view = Buffer("V", (2, 2), "int32", buffer.data)
    part = Seq(
        (
            AllocBuffer(buffer),
            BufferStore(view, BufferLoad(out, (const(0),)) + 1, (const(1), const(0))),
            BufferStore(out, BufferLoad(buffer, (const(2),)), (const(0),)),
        )
    )
    converted(PrimFunc((param,), {param: out}, None, {}, Seq((part, part))))


def test_attributes_and_annotations_follow_what_they_name() -> None:
    i, buffer, param = Var("i"), decl_buffer((4,), "int32", "A"), Var("A", "handle")
    loop = For(i, 0, 4, "serial", None, {"note": (i, buffer)}, BufferStore(buffer, i, (i,)))
    region = AttrStmt(i, "pragma_about", const(1), loop)
    after = converted(PrimFunc((param,), {param: buffer}, None, {}, Seq((region, region))))
    for attr in after.body.stmts:
        assert attr.node is attr.body.loop_var and attr.body.annotations["note"][0] is attr.body.loop_var


def test_loops_over_one_thread_axis_share_a_variable() -> None:
    a, b, buffer, param = Var("a"), Var("b"), decl_buffer((8,), "int32", "A"), Var("A", "handle")
    one = For(a, 0, 4, "thread_binding", "threadIdx.x", {}, BufferStore(buffer, a, (a,)))
    two = For(b, 0, 4, "thread_binding", "threadIdx.x", {}, BufferStore(buffer, b * b, (b + 4,)))
    other = For(b, 0, 2, "thread_binding", "threadIdx.y", {}, BufferStore(buffer, b + 9, (b,)))
    after = converted(PrimFunc((param,), {param: buffer}, None, {}, Seq((one, two, other))))
    x, y, z = (loop.loop_var for loop in after.body.stmts)
    assert x is y is a and z is b


def test_functions_of_a_module_share_nothing() -> None:
    mod = IRModule({"f": everything, "g": everything.with_attr("global_symbol", "g")})
    assert not verify_well_formed(mod, assert_mode=False)
    after = ConvertSSA()(mod)
    verify_well_formed(after)
    assert after["f"] is everything
    executes_alike(mod["g"], after["g"])
    assert ConvertSSA()(after) is after


def test_symbolic_shapes_strides_and_offsets_of_a_second_function() -> None:
    first = parse("""
@T.prim_func
def f(a: T.handle, b: T.handle):
    n, s = T.int32(), T.int32()
    A = T.match_buffer(a, (n, n), "int32", strides=(s, 1))
    B = T.match_buffer(b, (n,), "int32")
    for i in range(n):
        A[i, n - 1 - i] = B[i] + n
""")
    after = ConvertSSA()(IRModule({"f": first, "g": first.with_attr("global_symbol", "g")}))
    verify_well_formed(after)
    executes_alike(first, after["g"])


def test_blocks_with_init_and_matched_buffers() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8), "int32"), B: T.Buffer((4,), "int32")):
        for i, k in T.grid(4, 8):
            with T.block("sum"):
                vi, vk = T.axis.remap("SR", [i, k])
                M = T.match_buffer(A[vi, 0:8], (1, 8), "int32")
                C = T.alloc_buffer((1,), "int32")
                with T.init():
                    C[0] = 0
                    B[vi] = C[0]
                B[vi] = B[vi] + M[0, vk]

    check(ConvertSSA(), before, before)
    root: Block = before.body
    after = converted(before.with_body(root.with_(body=Seq((root.body, root.body)))))
    verify_well_formed(after)


def test_many_copies_cost_in_proportion() -> None:
    i, buffer, param = Var("i"), decl_buffer((4,), "int32", "A"), Var("A", "handle")
    loop = For(i, 0, 4, "serial", None, {}, BufferStore(buffer, i, (i,)))
    after = ConvertSSA()(PrimFunc((param,), {param: buffer}, None, {}, Seq((loop,) * 5000 + (Evaluate(const(0)),))))
    assert len({one.loop_var for one in loops(after.body)}) == 5000
