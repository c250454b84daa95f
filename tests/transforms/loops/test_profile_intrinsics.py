from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check, executes_alike, roundtrips
from tirlower.interp import interpret
from tirlower.ir import Call, Evaluate, IRModule, Op, PrimFunc
from tirlower.ir.verify import verify_well_formed
from tirlower.llvm.profile import Profile
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import InstrumentProfileIntrinsics, PassContext, profile_sites

LOOPS = {"tir.lwp_disable_func_prof": True, "tir.reset_start_id": True}


def marks(func: PrimFunc) -> list[tuple[str, int]]:
    """The marks in textual order."""
    found: list[tuple[str, int]] = []
    names = {Op.get("tir.start_profile_intrinsic"): "start", Op.get("tir.end_profile_intrinsic"): "end"}

    def look(op: Any) -> None:
        if isinstance(op, Evaluate) and isinstance(op.value, Call) and op.value.op in names:
            found.append((names[op.value.op], op.value.args[0].value))

    in_order(func.body, look)
    return found


def in_order(stmt: Any, look: Any) -> None:
    look(stmt)
    for child in stmt.children():
        in_order(child, look)


def run(func: PrimFunc, config: dict[str, Any], expected: PrimFunc | None = None) -> PrimFunc:
    with PassContext(config=config):
        after = InstrumentProfileIntrinsics()(func)
    verify_well_formed(after)
    roundtrips(after)
    executes_alike(func, after)
    if expected is not None:
        check(lambda _: after, func, expected, idempotent=False)
    return after


@T.prim_func
def two_nests(A: T.Buffer((4, 4, 12), "int32"), B: T.Buffer((4, 4, 12), "int32"), C: T.Buffer((4, 4, 12), "int32")):
    for i, j in T.grid(4, 4):
        for k, l in T.grid(4, 3):
            B[i, j, k * 3 + l] = A[i, j, k * 3 + l] * 2
        for k, l in T.grid(4, 3):
            C[i, j, k * 3 + l] = B[i, j, k * 3 + l] * 2


@T.prim_func
def two_nests_siblings(
    A: T.Buffer((4, 4, 12), "int32"), B: T.Buffer((4, 4, 12), "int32"), C: T.Buffer((4, 4, 12), "int32")
):
    for i, j in T.grid(4, 4):
        T.start_profile_intrinsic(3)
        for k, l in T.grid(4, 3):
            B[i, j, k * 3 + l] = A[i, j, k * 3 + l] * 2
        T.end_profile_intrinsic(3)
        T.start_profile_intrinsic(5)
        for k, l in T.grid(4, 3):
            C[i, j, k * 3 + l] = B[i, j, k * 3 + l] * 2
        T.end_profile_intrinsic(5)


def test_loops_with_siblings_are_marked_by_default() -> None:
    run(two_nests, LOOPS, two_nests_siblings)


def test_the_depth_is_for_loops_without_siblings_only() -> None:
    run(two_nests, {**LOOPS, "tir.lwp_max_depth": 3}, two_nests_siblings)


def test_up_to_a_depth_innermost_loops_left_out() -> None:
    after = run(two_nests, {**LOOPS, "tir.lwp_max_depth": 3, "tir.instr_siblings": False})
    assert marks(after) == [("start", 1), ("start", 2), ("start", 3), ("end", 3), ("start", 5), ("end", 5), ("end", 2), ("end", 1)]  # fmt: skip
    only_outer = run(two_nests, {**LOOPS, "tir.instr_siblings": False})
    assert marks(only_outer) == [("start", 1), ("end", 1)]


def test_a_least_height_leaves_out_inner_loops() -> None:
    after = run(two_nests, {**LOOPS, "tir.lwp_max_depth": 3, "tir.instr_siblings": False, "tir.lwp_min_height": 2})
    assert [number for kind, number in marks(after) if kind == "start"] == [1, 2]
    with_inner = run(two_nests, {**LOOPS, "tir.lwp_max_depth": 9, "tir.instr_siblings": False, "tir.lwp_min_height": 0})
    assert [number for kind, number in marks(with_inner) if kind == "start"] == [1, 2, 3, 4, 5, 6]


def test_functions_are_marked_and_numbered_first() -> None:
    after = run(two_nests, {"tir.reset_start_id": True})
    assert marks(after)[0] == ("start", 0)
    assert marks(after)[-1] == ("end", 0)
    assert after.attrs.keys() == two_nests.attrs.keys()
    assert [(s.id, s.loop, s.depth) for s in profile_sites(IRModule({"f": after}))] == [(0, "", 0), (3, "k", 2), (5, "k", 2)]  # fmt: skip


def test_keywords_win_over_the_context() -> None:
    with PassContext(config={"tir.instr_siblings": True}):
        one = InstrumentProfileIntrinsics(instr_siblings=False, disable_func_prof=True)(two_nests)
    with PassContext(config={"tir.InstrumentProfileIntrinsics": {"instr_siblings": False, "disable_func_prof": True}}):
        two = InstrumentProfileIntrinsics()(two_nests)
    assert marks(one) == marks(two) == [("start", 1), ("end", 1)]


def test_parallel_loops_are_marked_from_outside_only() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 8, 3), "int32")):
        for i in range(4):
            for j in T.parallel(8):
                for k, l in T.grid(3, 1):
                    A[i, j, k] = l
                for k, l in T.grid(3, 1):
                    A[i, j, k] = A[i, j, k] + 1
            for j in T.parallel(8):
                for k in range(3):
                    A[i, j, k] = A[i, j, k] * 2

    after = run(before, LOOPS)
    assert [number for kind, number in marks(after) if kind == "start"] == [2, 7]


def test_a_return_ends_what_is_open() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32")) -> T.int32:
        for i, j in T.grid(4, 4):
            if A[i, j] < 0:
                T.ret(i)
        for i, j in T.grid(4, 4):
            A[i, j] = 0
        T.ret(-1)

    after = run(before, {"tir.reset_start_id": True})
    assert marks(after) == [
        ("start", 0), ("start", 1), ("end", 1), ("end", 0), ("end", 1), ("start", 3), ("end", 3), ("end", 0), ("end", 0),
    ]  # fmt: skip


def test_ids_go_on_under_one_context() -> None:
    @T.prim_func
    def other(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = 0

    mod = IRModule({"a": two_nests, "b": other.with_attr("global_symbol", "b")})
    with PassContext():
        first = InstrumentProfileIntrinsics()(mod)
        second = InstrumentProfileIntrinsics()(other)
    assert [s.id for s in profile_sites(first)] == [0, 3, 5, 7]
    assert marks(second)[0] == ("start", 9)
    with PassContext():
        assert marks(InstrumentProfileIntrinsics()(other))[0] == ("start", 0)


def test_branches_whiles_views_and_empty_loops() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32"), n: T.int32):
        V = T.decl_buffer((16,), "int32", data=A.data)
        k = T.alloc_buffer((1,), "int32")
        k[0] = 0
        while k[0] < n:
            k[0] = k[0] + 1
            for i, j in T.grid(4, 0):
                A[i, j] = 1
            for i, j in T.grid(1, 4):
                V[i * 4 + j] = V[i * 4 + j] + n
        if n > 2:
            for i, j in T.grid(4, 4):
                A[i, j] = A[i, j] + 1
        T.evaluate(T.call_extern("int32", "abs", A[0, 0]))

    after = run(before, LOOPS)
    assert [number for kind, number in marks(after) if kind == "start"] == [1, 3]


def test_native_code_runs_with_marks() -> None:
    with PassContext():
        after = InstrumentProfileIntrinsics()(two_nests)
    a = np.arange(192, dtype="int32").reshape(4, 4, 12)
    outs = [np.zeros_like(a) for _ in range(4)]
    fn = tl.build(after, schedule="none")
    with Profile(after) as profile:
        fn(a, outs[0], outs[1])
        fn(a, outs[0], outs[1])
    fn(a, outs[0], outs[1])
    interpret(two_nests, a, outs[2], outs[3])
    np.testing.assert_array_equal(outs[1], outs[3])
    assert [(row.site.loop, row.calls) for row in profile.rows] == [("", 2), ("k", 32), ("k", 32)]
    whole, first, second = (row.nanoseconds for row in profile.rows)
    assert whole >= first + second > 0
    lines = str(profile).splitlines()
    assert lines[1].endswith("two_nests") and lines[2].endswith("two_nests: loop k")


def test_failures_and_returns_leave_no_mark_open() -> None:
    @T.prim_func
    def before(A: T.Buffer((4, 4), "int32"), n: T.int32) -> T.int32:
        for i, j in T.grid(4, 4):
            if A[i, j] < 0:
                T.ret(i)
        for i, j in T.grid(4, 4):
            assert n > 0, "n"
        T.ret(-1)

    with PassContext():
        after = InstrumentProfileIntrinsics()(before)
    fn = tl.build(after, schedule="none")
    negative = np.zeros((4, 4), "int32")
    negative[2, 1] = -1
    with Profile() as profile:
        assert fn(negative, 1) == 2
        with pytest.raises(AssertionError):
            fn(np.zeros((4, 4), "int32"), 0)
        assert fn(np.zeros((4, 4), "int32"), 1) == -1
    assert {row.site.id: row.calls for row in profile.rows} == {0: 2, 1: 3, 3: 1}


def test_nothing_to_mark_leaves_the_function() -> None:
    @T.prim_func
    def before(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = 0

    with PassContext(config=LOOPS):
        assert InstrumentProfileIntrinsics()(before) is before


def test_marked_functions_are_not_marked_again() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((4, 4), "int32")):
    for i, j in T.grid(4, 4):
        A[i, j] = 1
    for i, j in T.grid(4, 4):
        A[i, j] = 2
""")
    for options in ({}, {"disable_func_prof": True}, {"instr_siblings": False}):
        once = InstrumentProfileIntrinsics(**options)(func)
        assert once is not func and InstrumentProfileIntrinsics(**options)(once) is once
