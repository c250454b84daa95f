"""Loops, branches and what steers them."""

from __future__ import annotations

import pytest

from tirlower.diagnostics import ScriptError
from tirlower.ir import Assert, For, ForKind, IfThenElse, IntImm, Seq, While
from tirlower.script import parse
from tirlower.script import tir as T


def body(text, head="A: T.Buffer((16,), 'int32'), n: T.int32, m: T.int64"):
    lines = "\n".join("    " + line for line in text.strip("\n").split("\n"))
    return parse(f"def f({head}):\n{lines}\n").body


@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("range(4)", ForKind.SERIAL),
        ("T.serial(4)", ForKind.SERIAL),
        ("T.grid(4)", ForKind.SERIAL),
        ("T.parallel(4)", ForKind.PARALLEL),
        ("T.vectorized(4)", ForKind.VECTORIZED),
        ("T.unroll(4)", ForKind.UNROLLED),
        ("T.thread_binding(4, thread='threadIdx.x')", ForKind.THREAD_BINDING),
        ("T.thread_binding(4, 'threadIdx.x')", ForKind.THREAD_BINDING),
    ],
)
def test_kinds(form, kind):
    loop = body(f"for i in {form}:\n    A[i] = 0")
    assert isinstance(loop, For) and loop.kind is kind
    assert (loop.min.value, loop.extent.value) == (0, 4)
    assert loop.thread_tag == ("threadIdx.x" if kind is ForKind.THREAD_BINDING else None)


def test_start_stop_and_annotations():
    loop = body("for i in T.parallel(2, 6, annotations={'pragma_x': 1, 'y': ['a', 2.5]}):\n    A[i] = 0")
    assert (loop.min.value, loop.extent.value) == (2, 4)
    assert loop.annotations == {"pragma_x": 1, "y": ("a", 2.5)}


def test_the_extent_of_a_window_cancels_the_start():
    loop = body("for i in T.serial(n * 2, n * 2 + 4):\n    A[i] = 0")
    assert isinstance(loop.extent, IntImm) and loop.extent.value == 4
    loop = body("for i in T.serial(n, m):\n    A[i] = 0")
    assert loop.loop_var.dtype == "int64" and loop.min.dtype == "int64"


@pytest.mark.parametrize(
    ("bounds", "dtype"),
    [("4", "int32"), ("T.int64(4)", "int64"), ("m", "int64"), ("n", "int32"), ("0, m", "int64"), ("n, m", "int64"),
     ("2**31", "int64")],
)  # fmt: skip
def test_the_variable_has_the_wider_dtype(bounds, dtype):
    loop = body(f"for i in T.serial({bounds}):\n    T.evaluate(i)")
    assert loop.loop_var.dtype == dtype == loop.extent.dtype == loop.min.dtype


def test_a_stepped_loop_has_unit_steps():
    loop = body("for i in T.serial(1, 14, step=4):\n    A[i] = i")
    assert (loop.min.value, loop.extent.value) == (0, 4)
    index = loop.body.indices[0]
    assert [1 + k * 4 for k in range(4)] == [1, 5, 9, 13]
    assert index.a.value == 1 and index.b.a is loop.loop_var and index.b.b.value == 4
    down = body("for i in range(9, 0, -3):\n    A[i] = 0")
    assert down.extent.value == len(range(9, 0, -3))


def test_a_stepped_loop_between_data_counts_in_int64():
    size = "p: T.int32, B: T.Buffer((p,), 'float32')"
    assert (
        str(parse(f"def f({size}):\n    for i in range(0, p, 4):\n        B[i] = 0\n").body.extent)
        == "(p + 4 - 1) // 4"
    )
    data = body("for i in range(0, n, 4):\n    A[i] = 0")
    assert str(data.extent) == 'T.Cast("int32", (T.Cast("int64", n) + T.int64(4) - T.int64(1)) // T.int64(4))'
    bound = body("k: T.int32 = n + 1\nfor i in range(5, k, 3):\n    A[i] = 0").stmts[1]
    assert isinstance(bound, For) and bound.loop_var.dtype == "int32" and "T.int64" in str(bound.extent)
    checked, loop = body("for i in range(n, -2, -1):\n    A[i] = 0").stmts
    assert isinstance(checked, Assert) and "more iterations than int32 counts" in str(checked.message)
    assert "T.max" in str(loop.extent)


def test_grid_nests_and_unpacks():
    nest = body("for i, j, k in T.grid(2, n, T.int64(4)):\n    T.evaluate(k)")
    variables = []
    while isinstance(nest, For):
        variables.append((nest.loop_var.name, nest.loop_var.dtype))
        nest = nest.body
    assert variables == [("i", "int32"), ("j", "int32"), ("k", "int64")]
    assert nest.value.name == "k"
    one = body("for ijk in T.grid(2, 3):\n    A[ijk[0] * 3 + ijk[1]] = 0")
    assert one.loop_var.name == "ijk_0" and one.body.loop_var.name == "ijk_1"
    star = body("for *ij, k in T.grid(2, 2, 2):\n    A[ij[0] + ij[1] + k] = 0")
    assert [star.loop_var.name, star.body.loop_var.name, star.body.body.loop_var.name] == ["ij_0", "ij_1", "k"]


def test_thread_loops_of_a_tag_share_one_variable():
    made = body(
        """
for bx in T.thread_binding(2, thread="blockIdx.x"):
    for tx in T.thread_binding(4, thread="threadIdx.x"):
        A[tx] = bx
    for ty in T.thread_binding(4, thread="threadIdx.x"):
        A[ty] = bx
"""
    )
    first, second = made.body.stmts
    assert first.loop_var is second.loop_var and second.body.indices[0] is first.loop_var
    nested = body(
        """
for a in T.thread_binding(2, thread="vthread.x"):
    for b in T.thread_binding(2, thread="vthread.x"):
        A[a] = b
"""
    )
    assert nested.loop_var is not nested.body.loop_var


def test_while_and_branches():
    made = body(
        """
while A[0] < n:
    if A[0] == 1:
        A[0] = 2
    elif n:
        A[0] = 3
    else:
        A[0] = 4
"""
    )
    assert isinstance(made, While) and type(made.condition).__name__ == "LT"
    branch = made.body
    assert isinstance(branch, IfThenElse) and type(branch.else_case.condition).__name__ == "NE"
    assert branch.else_case.else_case.value.value == 4
    assert body("while True:\n    break").condition.value == 1


def test_python_conditions_choose_at_parse_time():
    made = body("if 1 < 2:\n    A[0] = 1\nelse:\n    A[0] = 2")
    assert made.value.value == 1
    made = body("if n > 1:\n    A[0] = 1\nelif 1 > 2:\n    A[0] = 2\nelse:\n    A[0] = 3")
    assert isinstance(made, IfThenElse) and made.else_case.value.value == 3
    made = body("if n > 1:\n    A[0] = 1\nelif False:\n    A[0] = 2")
    assert made.else_case is None


def test_if_forms_by_name():
    made = body(
        """
with T.If(n > 1):
    with T.Then():
        A[0] = 1
    with T.Else():
        A[0] = 2
"""
    )
    assert made.then_case.value.value == 1 and made.else_case.value.value == 2


def test_break_and_continue():
    loop = body("for i in range(4):\n    if i == 2:\n        break\n    continue")
    branch, last = loop.body.stmts
    assert branch.then_case.value.op.name == "tir.break_loop"
    assert last.value.op.name == "tir.continue_loop"


def test_a_loop_variable_read_after_its_loop_has_its_last_value():
    made = body("for i in range(4):\n    A[i] = 0\nA[i] = 1")
    variable = made.stmts[0].buffer
    assert isinstance(made, Seq) and made.stmts[2].indices[0].buffer is variable
    made = body("i = n\nfor i in range(4):\n    A[i] = 0\nA[i] = 1")
    assert made.stmts[-1].indices[0].buffer.name == "i", "not the one bound before the loop"
    with pytest.raises(ScriptError, match="where this loop runs 0 times"):
        body("for i in range(n):\n    A[i] = 0\nA[i] = 1")


def test_closure_loops_take_expressions_of_the_scope():
    sizes = [2, 3]

    @T.prim_func
    def f(A: T.Buffer((2, 3), "int32")):
        for i, j in T.grid(*sizes):
            A[i, j] = min(i, j) + max(i, 1, j) + abs(i - j)

    assert f.body.body.extent.value == 3
    value = f.body.body.body.value
    assert (
        type(value.a.a).__name__ == "Min" and type(value.a.b).__name__ == "Max" and type(value.b).__name__ == "Select"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("for i in 3:\n    A[i] = 0", "a loop runs over range, T.serial"),
        ("for i in T.serial(1.5):\n    A[i] = 0", "the bounds of a loop are integers"),
        ("for i in T.thread_binding(4):\n    A[i] = 0", "needs the thread axis"),
        ("for i, j in T.grid(1, 2, 3):\n    A[i] = 0", "2 loop variables for 3 loops"),
        ("for i in range(0, 4, 0):\n    A[i] = 0", "the step of a loop is not 0"),
        ("for i in range(4):\n    A[i] = 0\nelse:\n    A[0] = 0", "`else` of a loop"),
        ("T.serial(4)", "a loop needs a body"),
        ("if A:\n    A[0] = 1", "a condition is an expression or a Python value, got the buffer 'A'"),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(ScriptError, match=message):
        body(text)


def test_range_takes_annotations():
    func = parse("""
def f(A: T.Buffer((8,), "int32")):
    for i in range(2, 8, annotations={"pragma_unroll_explicit": 1}):
        A[i] = i
""")
    assert func.body.annotations == {"pragma_unroll_explicit": 1} and func.body.extent.value == 6
    with pytest.raises(SyntaxError, match="range has no argument 'thread'"):
        parse('def f(A: T.Buffer((8,), "int32")):\n    for i in range(8, thread="x"):\n        A[i] = i')
