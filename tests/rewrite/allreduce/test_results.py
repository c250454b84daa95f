from __future__ import annotations

import pytest

from tirlower.ir import BufferLoad, Call, pre_order_visit
from tirlower.ir.op import Op
from tirlower.rewrite.allreduce.results import ResultUses
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((4, 64), "int32"), B: T.Buffer((4, 64), "int32")):
    for ty in T.thread_binding(4, thread="threadIdx.y"):
        for tx in T.thread_binding(64, thread="threadIdx.x"):
            r = T.alloc_buffer((1,), "int32", scope="local")
            with T.attr(T.comm_reducer(lambda x, y: x + y, [0]), "reduce_scope", 0):
                T.tvm_thread_allreduce(T.uint32(1), A[ty, tx], True, r[0], tx)
            B[ty, tx] = r[0]
"""


@pytest.mark.parametrize(
    ("old", "new", "movable"),
    [
        ("", "", True),
        ("B[ty, tx] = r[0]", "B[ty, tx] = r[0] + r[0] * 2", True),
        ("B[ty, tx] = r[0]", "r[0] = r[0] + tx", False),
        ("B[ty, tx] = r[0]", 'T.call_extern("int32", "g", T.address_of(r[0]))', False),
        ("B[ty, tx] = r[0]", 'T.call_extern("int32", "g", r.data)', False),
        ("B[ty, tx] = r[0]", 'v = T.decl_buffer((1,), "float32", data=r.data, scope="local")', False),
        ("B[ty, tx] = r[0]", 'T.attr(r.data, "some_scope", 1)\n            B[ty, tx] = r[0]', False),
        ("(1,)", "(2,)", False),
        ('scope="local"', 'scope="shared"', False),
        ("T.uint32(1), A[ty, tx], True, r[0]", "T.uint32(2), A[ty, tx], 1, True, r[0], r[0]", False),
        (
            "            B[ty",
            "            T.tvm_thread_allreduce(T.uint32(1), 1, True, r[0], tx)\n            B[ty",
            False,
        ),
    ],
)
def test_which_results_may_be_in_memory_of_all(old: str, new: str, movable: bool) -> None:
    func = parse(TEXT.replace(old, new) if old else TEXT)
    targets: list[BufferLoad] = []

    def look(op):
        if isinstance(op, Call) and op.op is Op.get("tir.tvm_thread_allreduce") and not targets:
            count = op.args[0].value
            targets.extend(op.args[2 + count : 2 + 2 * count])

    pre_order_visit(func.body, look)
    assert ResultUses(func.body).movable(targets, func.body.loop_var) is movable


def test_an_index_has_to_be_known_where_the_result_is_read() -> None:
    func = parse(TEXT.replace("            B[ty, tx] = r[0]", "").replace(
        "    for ty", '    r = T.alloc_buffer((1,), "int32", scope="local")\n    for ty').replace(
        '            r = T.alloc_buffer((1,), "int32", scope="local")\n', "") + "    B[0, 0] = r[0]\n")  # fmt: skip
    found: list[Call] = []
    pre_order_visit(
        func.body, lambda op: found.append(op) if isinstance(op, Call) and "allreduce" in op.op.name else None
    )
    target, loop = found[0].args[3], func.body.stmts[1]
    uses = ResultUses(func.body)
    assert not uses.movable([target], loop.loop_var)
    assert uses.movable([target], loop.min)
