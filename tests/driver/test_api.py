"""lower, build and jit: from a prim func to a callable, with the disk cache between."""

from __future__ import annotations

import dataclasses
import multiprocessing
import pathlib
import pickle
import random
import threading

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import ArgumentError, LoweringError, TirError, TransformError, WellFormedError
from tirlower.ir import For, IRModule, PrimFunc, pre_order_visit
from tirlower.ir.expr import Var
from tirlower.machine import cpu as host
from tirlower.script import ir as I
from tirlower.script import parse
from tirlower.script import tir as T


@pytest.fixture
def cache_dir(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path))
    return tmp_path


def scale(n: int, factor: float) -> PrimFunc:
    @T.prim_func
    def scale(A: T.Buffer((n,), "float32"), B: T.Buffer((n,), "float32")):
        for i in range(n):
            B[i] = A[i] * T.float32(factor)

    return scale


@I.ir_module
class Pair:
    @T.prim_func
    def twice(A: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = A[i] * 2

    @T.prim_func
    def once_more(A: T.Buffer((8,), "int32")):
        for i in range(8):
            A[i] = A[i] + 1


def test_build_runs_in_place(cache_dir):
    a, b = np.arange(5, dtype="float32"), np.zeros(5, "float32")
    assert tl.build(scale(5, 3.0))(a, b) is None
    np.testing.assert_array_equal(b, a * 3)


def test_outputs_are_allocated_and_returned(cache_dir):
    a = np.arange(5, dtype="float32")
    np.testing.assert_array_equal(tl.build(scale(5, 2.0), outputs=["B"])(a), a * 2)


def test_the_attribute_says_the_same_as_outputs(cache_dir):
    a = np.arange(5, dtype="float32")
    func = scale(5, 2.0).with_attr("tir.outputs", ["B"])
    np.testing.assert_array_equal(tl.build(func)(a), a * 2)


def test_an_unknown_output_names_the_nearest(cache_dir):
    with pytest.raises(LoweringError, match="`BB`"):
        tl.build(scale(5, 2.0), outputs=["BB"])


def test_a_module_gives_an_executable(cache_dir):
    exe = tl.build(Pair)
    a = np.arange(8, dtype="int32")
    exe["twice"](a)
    exe.once_more(a)
    np.testing.assert_array_equal(a, np.arange(8) * 2 + 1)
    assert sorted(exe) == ["once_more", "twice"]
    with pytest.raises(TirError, match="twice"):
        exe["twise"]
    with pytest.raises(AttributeError, match="exports no function"):
        exe.nothing


def test_lower_stops_where_it_is_told():
    @T.prim_func
    def f(A: T.Buffer((4, 4), "float32")):
        for i, j in T.grid(4, 4):
            with T.block("A"):
                vi, vj = T.axis.remap("SS", [i, j])
                A[vi, vj] = T.float32(1)

    early = tl.lower(f, until="ConvertBlocksToOpaque")
    assert isinstance(early, IRModule)
    assert "T.block" in early.script()
    assert "T.block" not in tl.lower(f, until="LowerOpaqueBlock").script()
    with pytest.raises(TransformError, match="FlattenBuffer"):
        tl.lower(f, until="FlatenBuffer")


def test_lower_and_build_refuse_ill_formed_functions():
    @T.prim_func
    def f(A: T.Buffer((4,), "float32")):
        for i in range(4):
            A[i] = T.float32(1)

    loop = f.body
    assert isinstance(loop, For)
    broken = f.with_body(loop.with_(loop_var=Var("other", "int32")))
    for use in (tl.lower, tl.build):
        with pytest.raises(WellFormedError, match="i"):
            use(broken)


def test_unknown_targets_are_named():
    with pytest.raises(TirError, match="llvm"):
        tl.build(scale(4, 1.0), target="lvm")
    with pytest.raises(TirError, match="rocm"):
        tl.build(scale(4, 1.0), target="rocm")


def test_what_is_no_program_is_refused():
    with pytest.raises(TirError, match="PrimFunc"):
        tl.build(lambda a: a)  # type: ignore[call-overload]
    with pytest.raises(TirError, match="prim func"):
        tl.jit(lambda a: a)  # type: ignore[call-overload]


def test_jit_compiles_once_and_becomes_a_kernel(cache_dir):
    @tl.jit
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = A[i] + 1

    assert "not compiled" in repr(f)
    a = np.zeros(4, "int32")
    f(a)
    kind = type(f)
    f(a)
    assert type(f) is kind
    assert isinstance(f, tl.Kernel)
    np.testing.assert_array_equal(a, 2)
    assert "A[i]" in f.func.script()
    with pytest.raises(ArgumentError):
        f(np.zeros(4, "int64"))


def test_jit_answers_questions_before_its_first_call(cache_dir):
    @tl.jit(outputs=["B"])
    @T.prim_func
    def f(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        for i in range(4):
            B[i] = A[i] + 1

    assert [p.name for p in f.signature.inputs] == ["A"]
    np.testing.assert_array_equal(f(np.zeros(4, "int32")), 1)


def test_concurrent_first_calls(cache_dir):
    @tl.jit
    @T.prim_func
    def f(A: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i] = A[i] + 1

    arrays = [np.zeros(4, "int32") for _ in range(8)]
    threads = [threading.Thread(target=f, args=(a,)) for a in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for a in arrays:
        np.testing.assert_array_equal(a, 1)


def test_sources_and_traces(cache_dir):
    kernel = tl.build(scale(16, 2.0))
    assert "@T.prim_func" in kernel.source("tir")
    assert "define" in kernel.source("llvm")
    assert "define" in kernel.source("llvm-opt")
    assert "ret" in kernel.source("asm")
    with pytest.raises(TirError, match="asm"):
        kernel.source("asmm")
    with pytest.raises(TirError, match="no source of kind 'ptx' for the target llvm"):
        kernel.source("ptx")
    assert "LowerInitBlock" in kernel.ir_after
    with tl.PassContext(trace=True):
        traced = tl.build(scale(16, 2.0))
    assert "FlattenBuffer" in traced.ir_after
    assert traced.report().code_bytes == kernel.report().code_bytes > 0


def test_the_second_build_comes_from_disk(cache_dir):
    first = tl.build(scale(7, 2.0))
    again = tl.build(scale(7, 2.0))
    assert not first.report().cached
    assert again.report().cached
    assert "disk cache" in again.explain_miss()
    a, b = np.arange(7, dtype="float32"), np.zeros(7, "float32")
    again(a, b)
    np.testing.assert_array_equal(b, a * 2)


def test_a_changed_constant_or_option_misses_and_says_why(cache_dir):
    tl.build(scale(7, 2.0))
    other = tl.build(scale(7, 3.0))
    assert not other.report().cached
    assert "program" in other.explain_miss()
    with tl.PassContext(config={"tir.disable_vectorize": True}):
        configured = tl.build(scale(7, 2.0))
    assert not configured.report().cached
    assert "config" in configured.explain_miss()


def test_names_belong_to_the_content(cache_dir):
    """Two programs that differ in a parameter's name alone have different messages."""

    @T.prim_func
    def main(A: T.Buffer((4,), "int32")):
        A[0] = 1

    @T.prim_func
    def other(B: T.Buffer((4,), "int32")):
        B[0] = 1

    tl.build(main)
    kernel = tl.build(other.with_attr("global_symbol", "main"))
    with pytest.raises(ArgumentError, match="`B`"):
        kernel(np.zeros(4, "int64"))


def test_errors_name_the_lines_of_this_program(cache_dir):
    """The same program from two files: the second must not report the first's lines from the cache."""
    text = """
@T.prim_func
def f(A: T.Buffer((4,), "int32")):
    assert A[0] == 0, "not zero"
    A[1] = 1
"""
    for name in ("first.py", "second.py"):
        kernel = tl.build(parse(text, name=name))
        with pytest.raises(tl.RuntimeAssertError, match=name):
            kernel(np.ones(4, "int32"))


def test_damaged_entries_are_rebuilt(cache_dir):
    rng = random.Random(0)
    a, b = np.arange(9, dtype="float32"), np.zeros(9, "float32")
    tl.build(scale(9, 2.0))
    (path,) = list(cache_dir.rglob("*.tlo"))
    good = path.read_bytes()
    rebuilt = 0
    for _ in range(60):
        bad = bytearray(good)
        bad[rng.randrange(len(bad))] ^= 1 << rng.randrange(8)
        path.write_bytes(bytes(bad))
        b[:] = 0
        kernel = tl.build(scale(9, 2.0))
        rebuilt += not kernel.report().cached
        kernel(a, b)
        np.testing.assert_array_equal(b, a * 2)
        if kernel.report().cached:
            pytest.fail("a damaged entry was used")
    assert rebuilt == 60


def _compile_in_child(directory: str, results) -> None:
    import os

    os.environ["TIRLOWER_CACHE_DIR"] = directory
    a, b = np.arange(33, dtype="float32"), np.zeros(33, "float32")
    tl.build(scale(33, 5.0))(a, b)
    results.put(bool(np.array_equal(b, a * 5)))


def test_eight_processes_compile_the_same_kernel_at_once(cache_dir):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    workers = [context.Process(target=_compile_in_child, args=(str(cache_dir), results)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    assert [worker.exitcode for worker in workers] == [0] * 8
    assert all(results.get(timeout=10) for _ in workers)


def test_opt_level_0_gives_right_code(cache_dir):
    @T.prim_func
    def f(A: T.Buffer((4, 8), "float32"), B: T.Buffer((8,), "float32")):
        for j in range(8):
            for i in range(4):
                with T.block("B"):
                    vj, vi = T.axis.remap("SR", [j, i])
                    with T.init():
                        B[vj] = T.float32(0)
                    B[vj] += A[vi, vj]

    a, b = np.arange(32, dtype="float32").reshape(4, 8), np.zeros(8, "float32")
    with tl.PassContext(opt_level=0):
        tl.build(f)(a, b)
    np.testing.assert_array_equal(b, a.sum(axis=0))


def test_the_current_target_is_used(cache_dir):
    with tl.Target("llvm", num_threads=1):
        assert tl.build(scale(4, 2.0)).target.num_threads == 1


def test_a_kernel_survives_its_module(cache_dir):
    import gc

    kernels = [tl.build(scale(n, 2.0)) for n in range(1, 6)]
    gc.collect()
    for n, kernel in enumerate(kernels, 1):
        a, b = np.ones(n, "float32"), np.zeros(n, "float32")
        kernel(a, b)
        np.testing.assert_array_equal(b, 2)


def test_the_report_lists_the_loops(cache_dir):
    @T.prim_func
    def f(A: T.Buffer((8, 16), "float32")):
        for i in T.parallel(8):
            for j in T.vectorized(16):
                A[i, j] = T.float32(1)

    kinds = [note.kind for note in tl.build(f).report().loops]
    assert kinds == ["parallel", "vectorized"]
    found = []
    pre_order_visit(f.body, lambda op: found.append(op) if isinstance(op, For) else None)
    assert len(found) == 2


def test_an_auto_broadcast_buffer_repeats_its_one_row(cache_dir):
    @T.prim_func
    def f(a: T.handle, B: T.Buffer((3, 4), "float32")):
        n = T.int32()
        A = T.match_buffer(a, (n, 4), "float32", buffer_type="auto_broadcast")
        for i, j in T.grid(3, 4):
            B[i, j] = A[i, j]

    kernel = tl.build(f)
    rng = np.random.default_rng(0)
    for rows in (1, 3):
        a, b, c = rng.random((rows, 4), dtype="float32"), np.zeros((3, 4), "float32"), np.zeros((3, 4), "float32")
        kernel(a, b)
        np.testing.assert_array_equal(b, np.broadcast_to(a, (3, 4)))
        kernel.slow_path(a, c)
        np.testing.assert_array_equal(c, b)


@pytest.mark.skipif(not host.triple().startswith("x86_64"), reason="the features are of x86")
@pytest.mark.parametrize("again", [False, True])
def test_code_that_the_processor_cannot_run_is_not_called(
    again: bool, cache_dir: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    """Whatever machine this is, it is taken for one without AVX."""
    here = host.host_cpu()
    if again:
        tl.build(scale(16, 2.0), "llvm -mcpu=x86-64-v3")
    old = dataclasses.replace(here, name="old", enabled=here.enabled - {"avx", "avx2", "fma"})
    monkeypatch.setattr(host, "host_cpu", lambda: old)
    a, b = np.ones(16, "float32"), np.zeros(16, "float32")
    for kernel in (
        tl.build(scale(16, 2.0), "llvm -mcpu=x86-64-v3"),
        tl.jit(scale(16, 2.0), target="llvm -mcpu=haswell"),
    ):
        with pytest.raises(tl.CodegenError, match="this machine has no avx, avx2, fma"):
            kernel(a, b)
        assert (b == 0).all() and "ret" in kernel.source("asm")
    tl.build(scale(16, 2.0), "llvm -mcpu=x86-64-v2")(a, b)
    assert (b == 2).all()


def test_passes_left_out_are_part_of_what_determines_a_build(cache_dir: pathlib.Path):
    @T.prim_func
    def f(A: T.Buffer((64,), "float32")):
        for i in T.unroll(4):
            A[i * 16] = T.float32(1)

    unrolled = tl.build(f)
    with tl.PassContext(disabled_pass=["tir.UnrollLoop"]):
        looped = tl.build(f)
        again = tl.build(f)
    assert looped.explain_miss() != again.explain_miss() and again.report().cached
    for kernel in (looped, again, pickle.loads(pickle.dumps(looped))):
        assert "T.unroll" in kernel.source("tir") and "UnrollLoop" not in kernel.ir_after
    assert "T.unroll" not in unrolled.source("tir")
    with tl.PassContext(required_pass=["tir.HoistIfThenElse"]):
        assert "HoistIfThenElse" in tl.build(f).ir_after
    assert "HoistIfThenElse" not in tl.build(f).ir_after
