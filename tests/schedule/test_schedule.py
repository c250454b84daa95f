"""The main job from end to end: a product of matrices is scheduled, compiled, and its trace is replayed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips, same_function
from tirlower.diagnostics import DeadHandle, IllegalStep, NotFound
from tirlower.ir import IRModule
from tirlower.ir.structural import assert_structural_equal
from tirlower.script import parse
from tirlower.script import tir as T

BLOCKS = """
@T.prim_func
def mm(A: T.Buffer((M, K), "float32"), B: T.Buffer((K, N), "float32"), C: T.Buffer((M, N), "float32")):
    for i, j, k in T.grid(M, N, K):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]
"""
PLAIN = """
@T.prim_func
def mm(A: T.Buffer((M, K), "float32"), B: T.Buffer((K, N), "float32"), C: T.Buffer((M, N), "float32")):
    for i0, j0 in T.grid(M, N):
        C[i0, j0] = T.float32(0)
    for i, j, k in T.grid(M, N, K):
        C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""


def product(text: str, m: int, n: int, k: int) -> Any:
    for name, value in (("M", m), ("N", n), ("K", k)):
        text = (
            text.replace(f"({name},", f"({value},")
            .replace(f", {name})", f", {value})")
            .replace(f", {name},", f", {value},")
        )
    return parse(text)


def tiled(sch: tl.Schedule, loops: list[Any]) -> None:
    i, j, k = loops
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 8])
    k0, k1 = sch.split(k, [None, 5])
    sch.reorder(i0, j0, k0, i1, k1, j1)
    sch.parallel(i0)
    sch.vectorize(j1)


@pytest.mark.parametrize("size", [(16, 16, 10), (13, 9, 7), (1, 8, 5), (4, 24, 1)])
def test_a_tiled_product_of_blocks(size: tuple[int, int, int]) -> None:
    func = product(BLOCKS, *size)
    sch = tl.Schedule(func, debug_mask="all")
    tiled(sch, sch.get_loops(sch.get_block("C")))
    executes_alike(func, sch.mod["main"])
    roundtrips(sch.mod["main"])
    kernel = tl.build(sch, schedule="none")
    rng = np.random.default_rng(0)
    m, n, k = size
    a, b = rng.integers(-4, 5, (m, k)).astype("float32"), rng.integers(-4, 5, (k, n)).astype("float32")
    c = np.empty((m, n), "float32")
    kernel(a, b, c)
    np.testing.assert_array_equal(c, a @ b)
    assert "T.parallel" in str(sch.mod) and "T.vectorized" in str(sch.mod)


def test_it_is_run_as_it_is() -> None:
    func = product(PLAIN, 4, 8, 5)
    sch = tl.Schedule(func)
    sch.parallel("i0")
    a, b = np.ones((4, 5), "float32"), np.ones((5, 8), "float32")
    for run in (tl.interpret, tl.simulate):
        c = np.empty((4, 8), "float32")
        run(sch, a, b, c)
        np.testing.assert_array_equal(c, a @ b)


def test_a_tiled_product_of_loops() -> None:
    func = product(PLAIN, 13, 9, 10)
    # The order of one element's updates is kept: k stays in order for each of them.
    sch = tl.Schedule(func, debug_mask="all", reassociate=False)
    tiled(sch, [sch.loop("i"), sch.loop("j"), sch.loop("k")])
    executes_alike(func, sch.mod["main"])
    assert [record.exactness for record in sch.steps if record.instruction.kind.name == "Reorder"] == ["bitwise"]
    tl.build(sch, schedule="none")


def test_the_whole_result_on_blocks_is_as_in_tvm() -> None:
    sch = tl.Schedule(product(BLOCKS, 16, 16, 10))
    tiled(sch, sch.get_loops("C"))
    same_function(
        sch.mod["main"],
        parse("""
@T.prim_func
def mm(A: T.Buffer((16, 10), "float32"), B: T.Buffer((10, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for i_0 in T.parallel(4):
        for j_0, k_0, i_1, k_1 in T.grid(2, 2, 4, 5):
            for j_1 in T.vectorized(8):
                with T.block("C"):
                    vi = T.axis.spatial(16, i_0 * 4 + i_1)
                    vj = T.axis.spatial(16, j_0 * 8 + j_1)
                    vk = T.axis.reduce(10, k_0 * 5 + k_1)
                    T.reads(A[vi, vk], B[vk, vj])
                    T.writes(C[vi, vj])
                    with T.init():
                        C[vi, vj] = T.float32(0)
                    C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""),
    )


@pytest.mark.parametrize("text", [BLOCKS, PLAIN])
def test_a_trace_is_replayed_in_every_form(text: str) -> None:
    func = product(text, 13, 9, 10)
    sch = tl.Schedule(func)
    blocks = text is BLOCKS
    tiled(sch, sch.get_loops("C") if blocks else [sch.loop("i"), sch.loop("j"), sch.loop("k")])
    again = tl.Schedule(func)
    scope: dict[str, Any] = {}
    exec(str(sch.trace), scope)
    scope["schedule"](again)
    assert_structural_equal(again.mod, sch.mod)
    assert str(again.trace) == str(sch.trace)
    for dialect in ("tvm", "tirlower") if blocks else ("tirlower",):
        again = tl.Schedule(func)
        sch.trace.apply_json_to_schedule(sch.trace.as_json(dialect=dialect), again)
        assert_structural_equal(again.mod, sch.mod)
        assert again.trace.as_json(dialect=dialect) == sch.trace.as_json(dialect=dialect)
    if blocks:
        again = tl.Schedule(func)
        exec("\n".join(sch.trace.as_python()), {}, {"sch": again})
        assert_structural_equal(again.mod, sch.mod)
        assert again.trace.as_python() == sch.trace.as_python()


def test_an_illegal_step_shows_two_iterations_and_changes_nothing() -> None:
    func = parse("""
@T.prim_func
def stencil(A: T.Buffer((9, 9), "int32")):
    for i, j in T.grid(8, 8):
        A[i + 1, j] = A[i, j + 1]
""")
    sch = tl.Schedule(func)
    i, j = sch.loops("A")
    before, trace, seed = sch.mod, str(sch.trace), sch.copy().fork_seed()
    with pytest.raises(IllegalStep) as raised:
        sch.reorder(j, i)
    witness = raised.value.witness
    assert [point.loops for point in witness.points] == [(("i", 0), ("j", 1)), (("i", 1), ("j", 0))]
    assert [point.indices for point in witness.points] == [(1, 1), (1, 1)]
    assert "at i = 0, j = 1 writes A[1, 1]" in str(raised.value)
    assert sch.mod is before and str(sch.trace) == trace and sch.fork_seed() == seed
    assert sch.mod["main"] is func


def test_what_was_split_is_dead_and_says_what_it_became() -> None:
    sch = tl.Schedule(product(BLOCKS, 16, 16, 10))
    i, _, _ = sch.get_loops("C")
    sch.split(i, [None, 4])
    with pytest.raises(DeadHandle, match=r"split ended it in step 3; it became `i_0`, `i_1`"):
        sch.get(i)
    assert isinstance(DeadHandle("x"), IndexError) and isinstance(DeadHandle("x"), ValueError)


def test_handles_of_before_live_in_a_copy_and_later_ones_do_not() -> None:
    sch = tl.Schedule(product(BLOCKS, 16, 16, 10))
    i, j, _ = sch.get_loops("C")
    other = sch.copy()
    i0, _ = sch.split(i, [None, 4])
    other.parallel(i)
    with pytest.raises(IndexError, match="of another schedule"):
        other.get(i0)
    assert str(other.get(j).loop_var) == "j"
    sch.undo(1)
    assert sch.get(i) is other.copy()._state.before.stmt(i)


def test_an_attempt_that_fails_is_taken_back() -> None:
    sch = tl.Schedule(product(PLAIN, 8, 8, 8))
    k = sch.loop("k")
    before = sch.mod
    with sch.attempt():
        sch.unroll(sch.loop("i"))
        sch.parallel(k)
        raise AssertionError("k carries the sum")
    assert sch.mod is before and len(sch.steps) == 1


def test_a_misspelt_name_says_which_one_is_near() -> None:
    sch = tl.Schedule(product(BLOCKS, 8, 8, 8))
    with pytest.raises(NotFound, match="Cannot find a block with the specified name 'c'"):
        sch.get_block("c")
    with pytest.raises(AttributeError):
        sch.splitt()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("step", "in_place"),
    [
        (lambda sch: sch.vectorize("i"), True),  # a lane loads what it alone stores
        (lambda sch: sch.vectorize("i", 4), True),
        (lambda sch: sch.vectorize("i", 5, tail="shift"), False),
        (
            lambda sch: sch.peel("i", beyond=5, tail="shift"),
            False,
        ),  # iterations that run again would read what they stored
        (lambda sch: sch.peel("i", beyond=5), True),
        (lambda sch: sch.parallel("i"), True),
    ],
)
def test_lanes_and_repeated_iterations_meet_no_arrays_that_overlap(step: Any, in_place: bool):
    @T.prim_func
    def double(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        for i in range(8):
            C[i] = A[i] * 2

    sch = tl.Schedule(double)
    step(sch)
    kernel = tl.build(sch, schedule="none")
    one = np.arange(8, dtype="int32")
    if in_place:
        kernel(one, one)
        assert one.tolist() == [2 * i for i in range(8)]
    else:
        with pytest.raises(ValueError, match="memory"):
            kernel(one, one)
    shifted = np.arange(9, dtype="int32")
    try:
        kernel(shifted[:8], shifted[1:])
    except ValueError as error:
        assert "memory" in str(error)
        assert shifted.tolist() == list(range(9))
    else:
        assert shifted.tolist() == [0] * 9, "the order of the program"


def test_arrays_that_overlap_meet_no_new_order():
    @T.prim_func
    def copies(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
        for i in range(8):
            B[i] = A[i]
        for j in range(8):
            C[7 - j] = A[j]

    @T.prim_func
    def other(A: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = i

    def run(program: Any) -> list[int]:
        a, b = np.arange(8, dtype="int32"), np.zeros(8, "int32")
        tl.build(program, schedule="none")(a, b, a)
        return [int(x) for x in b]

    sch = tl.Schedule(copies)
    sch.split("i", [2, None])
    sch.parallel("i_0")
    assert run(copies) == run(sch) == list(range(8)), "in the order of the program"
    sch = tl.Schedule(IRModule({"copies": copies, "other": other}))
    sch.work_on("copies")
    sch.merge("i", "j")
    program = sch.program
    assert isinstance(program, IRModule)
    assert program["copies"].attrs["tir.noalias"] and "tir.noalias" not in program["other"].attrs
    assert "tir.noalias" not in sch.mod["copies"].attrs
    sch = tl.Schedule(copies)
    sch.merge("i", "j")
    with pytest.raises(ValueError, match="memory"):
        run(sch)
    a, b, c = np.arange(8, dtype="int32"), np.zeros(8, "int32"), np.zeros(8, "int32")
    tl.build(sch, schedule="none")(a, b, c)
    assert list(b) == list(a) == list(c[::-1])


DOT = """
@T.prim_func
def f(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32"), S: T.Buffer((1,), "float32")):
    for i in range(1024):
        S[0] = S[0] + A[i] * B[i]
"""
THREE = """
@T.prim_func
def f(A: T.Buffer((1024,), "float32"), B: T.Buffer((1024,), "float32"), S: T.Buffer((3,), "float32")):
    for i in range(1024):
        S[0] = S[0] + A[i] * B[i]
        S[1] = S[1] + A[i] * A[i]
        S[2] = S[2] + B[i] * B[i]
"""


@pytest.mark.parametrize(
    "text, steps",
    [
        (DOT, lambda sch: sch.stage_mem(sch.split("i", [None, 64])[1], "S")),
        (THREE, lambda sch: sch.fission("i")),
    ],
)
def test_sums_are_rounded_as_the_program_says_whatever_nests_they_are_in_now(text: str, steps: Any) -> None:
    rng, found = np.random.default_rng(0), []
    a, b = rng.random(1024, np.float32), rng.random(1024, np.float32)
    sch = tl.Schedule(parse(text))
    steps(sch)
    for program in (parse(text), sch, sch.mod["main"]):
        s = np.zeros(1 if text is DOT else 3, np.float32)
        tl.build(program, schedule="none")(a, b, s)
        found.append(list(s))
    assert found[0] == found[1]
    assert found[0] != found[2], "else nothing is shown"


def test_a_module_of_one_function_is_worked_on_whatever_its_name() -> None:
    func, other = (
        parse(f"def {name}(A: T.Buffer((8,), 'int32')):\n    for i in range(8):\n        A[i] = i\n") for name in "gh"
    )
    sch = tl.Schedule(IRModule({"g": func}))
    sch.split(sch.loop("i"), [None, 4])
    assert "i_0" in str(sch.mod["g"])
    for several in ({"g": func, "h": other}, {"g": func, "main": other}):
        sch = tl.Schedule(IRModule(several))
        if "main" in several:
            sch.split(sch.loop("i"), [None, 4])
            assert "i_0" in str(sch.mod["main"]) and "i_0" not in str(sch.mod["g"])
        else:
            with pytest.raises(ValueError, match="which function to be working on"):
                sch.loop("i")
