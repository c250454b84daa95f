"""``stage_mem``: copies in and out where they are needed, and only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike
from tests.poly.second_opinion import no_flow
from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, IllegalStep, NotApplicable, NotFound
from tirlower.script import parse

UPDATE = """
@T.prim_func
def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4,), "int32")):
    for i in range(4):
        for k in range(8):
            C[i] = C[i] + A[i, k]
"""


def test_an_update_is_copied_in_and_out() -> None:
    sch = taken(UPDATE, lambda sch: sch.stage_mem("k", "C"))
    text = str(sch.mod["main"])
    assert text.count("C_local[ax0] = C[i + ax0]") == 1
    assert text.count("C[i + ax0] = C_local[ax0]") == 1


def test_what_is_read_alone_is_copied_in_alone_and_what_nobody_reads_not_at_all() -> None:
    sch = taken(UPDATE, lambda sch: sch.stage_mem("i", "A", scope="shared", name="tile"))
    assert str(sch.mod["main"]).count("A[") == 1
    sch = taken(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        B[i] = A[i]
        C[i] = B[i] + 1
""",
        lambda sch: sch.stage_mem("i", "B"),
    )
    assert "= B[" not in str(sch.mod["main"])
    assert "] = B_local" not in str(sch.mod["main"]).replace("C[i] = B_local", "")


def test_a_window_is_taken_where_it_covers() -> None:
    taken(UPDATE, lambda sch: sch.stage_mem("k", "C[i:+1]"))
    error = refused(UPDATE, lambda sch: sch.stage_mem("k", "C[i+1:+1]"))
    assert error.witness.source.buffer == "C"
    refused(UPDATE, lambda sch: sch.stage_mem("k", "C[j:+1]"), BadArgument, "no expression")
    own = """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        B[i] = A[i]
        C[i] = B[i]
"""
    refused(own, lambda sch: sch.stage_mem("i", "B[0:+7]"), NotApplicable)
    refused(UPDATE, lambda sch: sch.stage_mem("k", "X"), NotFound)


def test_what_is_said_to_be_needless_is_refused_where_it_is_not() -> None:
    refused(UPDATE, lambda sch: sch.stage_mem("k", "C", load=False))
    refused(UPDATE, lambda sch: sch.stage_mem("k", "C", store=False))


def test_blocks_triangles_and_symbolic_sizes() -> None:
    taken(
        """
@T.prim_func
def f(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n, n), "int32")
    C = T.match_buffer(c, (n,), "int32")
    for i in range(n):
        for k in range(i + 1):
            with T.block("C"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    C[vi] = 7
                C[vi] += A[vi, vk]
""",
        lambda sch: (sch.stage_mem("k", "A"), sch.stage_mem("i", "C")),
    )


def test_a_parallel_loop_keeps_its_memory_to_itself() -> None:
    def steps(sch: Any) -> None:
        sch.parallel("i")
        sch.stage_mem("k", "C")

    taken(UPDATE, steps)


@pytest.mark.parametrize(
    ("window", "outside"), [("A[i*4:+8]", ""), ("A[i*4:+12]", "A[20]"), ("A[i*4-1:+6]", "A[-1]"), ("A[0:+21]", "A[20]")]
)
def test_a_window_that_is_stated_lies_in_the_buffer(window: str, outside: str) -> None:
    before = parse("""
@T.prim_func
def f(A: T.Buffer((20,), "int32"), X: T.Buffer((16,), "int32")):
    for i, j in T.grid(4, 4):
        X[i * 4 + j] = A[i * 4 + j] + 1
""")
    sch: Any = tl.Schedule(before)
    if not outside:
        sch.stage_mem("j", window)
        assert "T.alloc_buffer((8,)" in sch.mod["main"].script()
        executes_alike(before, sch.mod["main"])
        return
    with pytest.raises(IllegalStep) as caught:
        sch.stage_mem("j", window)
    assert str(caught.value.witness).endswith(f"reads {outside}")


PARTED = """
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), C: T.Buffer((8, 8), "int32")):
    for r in range(TIMES):
        for i, j in T.grid(8, 5):
            C[i, j] = 0
            for k in range(8):
                C[i, j] = C[i, j] + A[i, k]
        for u in range(8):
            for v in range(START, 8):
                C[u, v] = 1
"""


@pytest.mark.parametrize(
    ("times", "start", "stored"),
    [("1", "5", True), ("3", "5", True), ("1", "4", True), ("1", "0", False), ("3", "0", False)],
)
def test_what_is_written_elsewhere_is_stored_unless_all_of_it_is_written_later(
    times: str, start: str, stored: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if start == "5":  # bounds say that the stores are apart
        no_flow(monkeypatch)
    text = PARTED.replace("TIMES", times).replace("START", start)
    sch = taken(text, lambda sch: sch.stage_mem("j", "C", inside=True))
    assert ("] = C_local[ax0, ax1]" in str(sch.mod["main"])) is stored


OWN = """
@T.prim_func
def f(A: T.Buffer((8, 8), "int32"), D: T.Buffer((8, 8), "int32")):
    C = T.alloc_buffer((8, 8), "int32")
    for i, j in T.grid(8, 5):
        C[i, j] = A[i, j]
        C[i, j] = C[i, j] + 1
    for u in range(8):
        for v in range(5, 8):
            C[u, v] = 1
    for x in range(8):
        for y in range(READ):
            D[x, y] = C[x, y]
"""


@pytest.mark.parametrize(("read", "stored"), [("0, 8", True), ("4, 8", True), ("5, 8", False)])
def test_memory_of_the_functions_own_is_stored_where_this_part_is_read(read: str, stored: bool) -> None:
    sch = taken(OWN.replace("READ", read), lambda sch: sch.stage_mem("j", "C", inside=True))
    assert ("] = C_local[ax0, ax1]" in str(sch.mod["main"])) is stored


SYMBOLIC = """
@T.prim_func
def f(A: T.Buffer(("n", "m"), "float32"), C: T.Buffer(("n",), "float32"), n: T.int32, m: T.int32):
    for i in range(n // 8 * 8):
        C[i] = 1.0
    for j_0 in range(n % 8 // 2):
        for j_1 in range(2):
            INIT
        for k in range(m):
            for j_1 in range(2):
                C[n // 8 * 8 + j_0 * 2 + j_1] = C[n // 8 * 8 + j_0 * 2 + j_1] + A[n // 8 * 8 + j_0 * 2 + j_1, k]
    for u in range(LATER, n):
        C[u] = 2.0
"""


@pytest.mark.parametrize(
    ("init", "later", "stored", "guarded"),
    [
        ("C[n // 8 * 8 + j_0 * 2 + j_1] = 0.0", "n // 2 * 2", True, False),
        ("C[n // 8 * 8 + j_0 * 2 + j_1] = 0.0", "n // 8 * 8", False, False),
        ("T.evaluate(0)", "n // 2 * 2", True, True),  # where m is 0 nothing is touched
    ],
)
def test_of_sizes_that_the_caller_knows_a_tile_is_copied_without_conditions_where_it_is_always_touched(
    init: str, later: str, stored: bool, guarded: bool
) -> None:
    text = SYMBOLIC.replace("INIT", init).replace("LATER", later)
    sch = taken(text, lambda sch: sch.stage_mem("j_0", "C", inside=True))
    made = str(sch.mod["main"])
    assert ("] = C_local[ax0]" in made) is stored
    assert ("if " in made) is guarded


UNDER = """
@T.prim_func
def f(A: T.Buffer(("n", "m"), "float32"), C: T.Buffer(("n",), "float32"), n: T.int32, m: T.int32, w: T.float32):
    if CONDITION:
        for j_0 in range(n // 2):
            for j_1 in range(2):
                C[j_0 * 2 + j_1] = 0.0
            for k in range(m):
                for j_1 in range(2):
                    C[j_0 * 2 + j_1] = C[j_0 * 2 + j_1] + A[j_0 * 2 + j_1, k]
    else:
        C[0] = 1.0
"""


@pytest.mark.parametrize(
    "condition",
    [
        'T.Cast("float64", n) * T.Cast("float64", m) >= T.float64(6)',
        "w > T.float32(0.0)",
        "T.likely(n > 2) and w > T.float32(0.0)",
        "n > 2 or m > 1 or w > T.float32(0.0)",
        "not (n < 3 or m < 2)",
        "not (n < 3 and m < 2)",
        "A[0, 0] > T.float32(0.0)",
    ],
)
def test_a_tile_is_staged_in_one_case_of_any_condition(condition: str) -> None:
    inputs = [
        [np.arange(1, n * m + 1, dtype="float32").reshape(n, m) * sign, np.zeros(n, "float32"), n, m, sign]
        for n, m, sign in ((2, 1, 1.0), (5, 3, -1.0), (6, 4, 1.0), (3, 1, 1.0))
    ]
    sch = taken(
        UNDER.replace("CONDITION", condition),
        lambda sch: sch.stage_mem("j_0", "C", inside=True, store=True),
        inputs=inputs,
    )
    assert "] = C_local[ax0]" in str(sch.mod["main"])


def test_an_index_of_elements_and_of_their_sum_leaves_the_init_where_it_is() -> None:
    """The index of the copy moves with both: as an iterator of the sum it kept the init from running, and the step was refused."""
    text = """
@T.prim_func
def f(A: T.Buffer((20,), "int32"), C: T.Buffer((12,), "int32")):
    for i, k in T.grid(12, 8):
        with T.block("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = 5
            C[vi] = C[vi] + A[vi + vk]
"""
    func = parse(text)
    sch = tl.Schedule(func, debug_mask="all")
    i, k = sch.get_loops("C")
    (i_0, i_1), (k_0, _) = sch.split(i, [None, 4]), sch.split(k, [None, 4])
    sch.reorder(i_0, k_0, i_1)
    sch.stage_mem(k_0, "A")
    executes_alike(func, sch.mod["main"])
    a, c = np.arange(20, dtype="int32") ** 2, np.zeros(12, "int32")
    tl.build(sch)(a, c)
    assert c.tolist() == [5 + int(a[at : at + 8].sum()) for at in range(12)]
