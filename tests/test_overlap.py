"""Calls with arrays that share memory: each computes what the interpreter does on the same memory, or is refused."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.overlaps import run_one
from tirlower.call.slowpath import FallbackEntry
from tirlower.diagnostics import ArgumentError
from tirlower.driver.cpu import CpuBackend
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.legality.versions import apart
from tirlower.script import ir as I
from tirlower.script import parse
from tirlower.script import tir as T


def both_roads(kernel: Any) -> list[Callable[..., Any]]:
    """The kernel as Python calls it, and through Python and ctypes alone."""
    return [kernel, FallbackEntry(*kernel._parts)]


def agree(func: PrimFunc, memory: np.ndarray, take: Callable[[np.ndarray], list[Any]], kernel: Any = None) -> Any:
    """Call on parts of copies of one memory by each road, beside the interpreter; returns the kernel."""
    kernel = tl.build(func) if kernel is None else kernel
    expected = memory.copy()
    tl.interpret(func, *take(expected))
    for run in both_roads(kernel):
        got = memory.copy()
        run(*take(got))
        np.testing.assert_array_equal(got, expected)
    return kernel


@T.prim_func
def scan(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32")):
    for i in T.parallel(n):
        B[i] = A[i] * 3 + i


@T.prim_func
def lanes(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32"), C: T.Buffer(("n",), "int32")):
    for i in T.vectorized(n):
        B[i] = A[i] + 1
        C[i] = B[i] * A[i]


@T.prim_func
def add(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")):
    for i in T.vectorized(64):
        C[i] = A[i] + B[i]


@T.prim_func
def gather(P: T.Buffer((8,), "int32"), Q: T.Buffer((8,), "int32"), A: T.Buffer((8,), "int32")):
    for i in range(8):
        if 0 <= P[i] and P[i] < 8:
            Q[i] = 10**9
            A[P[i]] = 1


# Which version runs


SHIFTS = (-3, -1, 1, 2, 7)


@pytest.mark.parametrize("shift", SHIFTS)
@pytest.mark.parametrize("func", [scan, lanes], ids=lambda f: f.name)
def test_shifted_arrays_run_in_the_order_of_the_script(func: PrimFunc, shift: int) -> None:
    memory = np.arange(5, 60, dtype="int32")
    count = len(func.params)
    kernel = agree(func, memory, lambda m: [m[10 + shift * at : 40 + shift * at] for at in range(count)])
    assert list(kernel.artifact.overlap) == [func.name]


def test_all_of_two_hundred_calls_agree() -> None:
    kernel = tl.build(scan)
    memory = np.arange(20_001, dtype="int32")
    expected = memory.copy()
    tl.interpret(scan, expected[:-1], expected[1:])
    for _ in range(200):
        got = memory.copy()
        kernel(got[:-1], got[1:])
        assert np.array_equal(got, expected)


def test_one_array_in_place_runs_the_fast_version() -> None:
    kernel = tl.build(add)
    for run in both_roads(kernel):
        a, b = (np.random.default_rng(seed).random(64, dtype="float32") for seed in (1, 2))
        total, double = a + b, b + b
        run(a, b, a)
        np.testing.assert_array_equal(a, total)
        run(b, b, b)
        np.testing.assert_array_equal(b, double)
    assert not kernel.artifact.overlap


def test_one_array_where_it_is_read_elsewhere_runs_the_other_version() -> None:
    memory = np.arange(3, 43, dtype="int32")
    kernel = agree(lanes, memory, lambda m: [m, m, m])
    assert kernel.artifact.overlap


def test_a_guard_on_a_value_ends_with_a_store_that_may_reach_it() -> None:
    kernel = tl.build(gather)
    for run in both_roads(kernel):
        p, a = np.arange(8, dtype="int32"), np.zeros(8, "int32")
        with pytest.raises(IndexError, match=r"A\[1000000000\]"):
            run(p, p, a)
        assert p[0] == 10**9 and not a.any()
    p, q, a = np.arange(8, dtype="int32"), np.zeros(8, "int32"), np.zeros(8, "int32")
    kernel(p, q, a)
    assert a.all() and not kernel.report().guarded


def test_interleaved_and_empty_and_touching_arrays_are_apart() -> None:
    kernel = tl.build(scan)
    memory = np.arange(12, dtype="int32")
    kernel(memory[:6], memory[6:])
    kernel(memory[3:3], memory[3:3])
    kernel(memory[2:2], memory[5:5])
    assert not kernel.artifact.overlap

    @T.prim_func
    def strided(A: T.Buffer(("n",), "int32", strides=("s",)), B: T.Buffer(("n",), "int32", strides=("t",))):
        for i in T.parallel(n):
            B[i] = A[i] + 1

    kernel = tl.build(strided)
    agree(strided, memory, lambda m: [m[::2], m[1::2]], kernel)
    agree(strided, memory, lambda m: [m[0:6:3], m[1::6]], kernel)
    assert not kernel.artifact.overlap
    agree(strided, memory, lambda m: [m[::2], m[::-2]], kernel)
    assert not kernel.artifact.overlap
    agree(strided, memory, lambda m: [m[:6], m[::2]], kernel)
    agree(strided, memory, lambda m: [m[::-1], m], kernel)
    assert kernel.artifact.overlap


def test_one_memory_as_two_types() -> None:
    @T.prim_func
    def bytes_of(A: T.Buffer((4,), "int32"), B: T.Buffer((16,), "uint8")):
        for i in T.parallel(16):
            B[i] = T.Cast("uint8", A[i // 4] % 256) + T.uint8(1)

    memory = np.arange(1, 17, dtype="uint8")
    kernel = agree(bytes_of, memory, lambda m: [m.view("int32"), m])
    assert kernel.artifact.overlap


def test_arrays_that_are_only_read_may_be_one() -> None:
    @T.prim_func
    def dot(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32"), C: T.Buffer((1,), "int32")):
        C[0] = 0
        for i in range(n):
            C[0] = C[0] + A[i] * B[i]

    kernel = tl.build(dot)
    a, c = np.arange(100, dtype="int32"), np.zeros(1, "int32")
    kernel(a, a, c)
    assert c[0] == (a * a).sum()
    kernel(a[1:], a[:-1], c)
    assert c[0] == (a[1:] * a[:-1]).sum() and not kernel.artifact.overlap
    kernel(a, a, a[:1])
    assert kernel.artifact.overlap


def test_arrays_that_the_call_allocates_share_nothing() -> None:
    kernel = tl.build(lanes, outputs=["B", "C"])
    a = np.arange(9, dtype="int32")
    b, c = kernel(a)
    assert np.array_equal(b, a + 1) and np.array_equal(c, (a + 1) * a)
    assert not kernel.signature.alias_pairs()


def test_a_function_that_declares_its_arrays_apart_refuses_others() -> None:
    kernel = tl.build(scan.with_attr("tir.noalias", True))
    a = np.arange(9, dtype="int32")
    for run in both_roads(kernel):
        for arrays in ((a, a), (a[1:], a[:-1])):
            with pytest.raises(ArgumentError, match="does not overlap `A`"):
                run(*arrays)
    assert np.array_equal(a, np.arange(9)) and not kernel.artifact.overlap


def test_a_function_that_declares_nothing_of_them_is_like_one_without_the_attribute() -> None:
    func = scan.with_attr("tir.noalias", False)
    kernel = agree(func, np.arange(20, dtype="int32"), lambda m: [m[:9], m[1:10]])
    assert kernel.source("tir").count('"tir.noalias": True') == 1


# What a call does besides


def test_the_values_of_a_call_are_its_own() -> None:
    @T.prim_func
    def last(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32"), k: T.int32) -> T.int32:
        for i in range(n - 1):
            B[i + 1] = A[i] + k
        return B[n - 1]

    kernel = tl.build(last)
    memory = np.arange(8, dtype="int32")
    assert kernel(memory, memory, k=5) == 35 and memory[3] == 15


def test_threads_that_need_the_version_at_once_compile_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE", "0")
    kernel = tl.build(scan)
    made: list[str] = []
    build = CpuBackend.compiled
    monkeypatch.setattr(CpuBackend, "compiled", lambda *args: made.append("") or build(*args))
    gate = threading.Barrier(6)
    results: list[np.ndarray] = []

    def call() -> None:
        memory = np.arange(101, dtype="int32")
        gate.wait()
        kernel(memory[:-1], memory[1:])
        results.append(memory)

    threads = [threading.Thread(target=call) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1 and len(results) == 6 and all(np.array_equal(r, results[0]) for r in results)


def test_the_disk_cache_has_both_versions(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("TIRLOWER_CACHE", "on")
    for expected in (False, True):
        kernel = tl.build(scan)
        memory = np.arange(30, dtype="int32")
        kernel(memory[:-1], memory[1:])
        assert kernel.report().cached is expected
        assert kernel.artifact.overlap["scan"].cached is expected
    assert "T.parallel" in kernel.source("tir")
    assert "T.parallel" not in kernel.artifact.overlap["scan"].source("tir")


def test_the_options_of_the_build_are_those_of_its_second_version() -> None:
    with tl.PassContext(config={"tir.unproved_bounds": "refuse"}):
        kernel = tl.build(gather)
    p, a = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    with pytest.raises(ArgumentError, match=r"its arrays overlap, and there is no version of it for such.*A\[P\[i\]\]"):
        kernel(p, p, a)
    assert np.array_equal(p, np.arange(8)) and not a.any()


def test_a_failing_access_of_the_second_version_names_its_line() -> None:
    kernel = tl.build(gather)
    p, a = np.arange(8, dtype="int32"), np.zeros(8, "int32")
    with pytest.raises(IndexError, match=r"test_overlap\.py"):
        kernel(p, p, a)


def test_objects_that_only_python_reads_overlap_too() -> None:
    kernel = tl.build(scan)
    memory = (ctypes.c_int32 * 12)(*range(12))
    views = [memoryview(memory).cast("B")[a : a + 40].cast("i") for a in (0, 4)]
    kernel(*views)
    expected = np.arange(12, dtype="int32")
    tl.interpret(scan, expected[:10], expected[1:11])
    assert list(memory) == list(expected)


# Functions that call functions


@I.ir_module
class Shifts:
    @T.prim_func(private=True)
    def shift(a: T.handle, b: T.handle):
        A = T.match_buffer(a, (16,), "int32")
        B = T.match_buffer(b, (16,), "int32")
        for i in T.parallel(15):
            B[i + 1] = A[i] + 1

    @T.prim_func
    def same(A: T.Buffer((32,), "int32"), C: T.Buffer((16,), "int32")):
        T.func_attr({"global_symbol": "same"})
        Shifts.shift(T.address_of(A[0]), T.address_of(A[0]))

    @T.prim_func
    def across(A: T.Buffer((32,), "int32"), C: T.Buffer((16,), "int32")):
        T.func_attr({"global_symbol": "across"})
        Shifts.shift(T.address_of(A[0]), T.address_of(A[7]))

    @T.prim_func
    def parts(A: T.Buffer((32,), "int32"), C: T.Buffer((16,), "int32")):
        T.func_attr({"global_symbol": "parts"})
        Shifts.shift(T.address_of(A[0]), T.address_of(A[16]))

    @T.prim_func
    def regions(A: T.Buffer((32,), "int32"), C: T.Buffer((16,), "int32")):
        T.func_attr({"global_symbol": "regions"})
        Shifts.shift(A.access_ptr("r", offset=0), A.access_ptr("w", offset=16))

    @T.prim_func
    def crossing(A: T.Buffer((32,), "int32"), C: T.Buffer((16,), "int32")):
        T.func_attr({"global_symbol": "crossing"})
        Shifts.shift(A.access_ptr("r", offset=0), A.access_ptr("w", offset=15))

    @T.prim_func
    def arrays(A: T.Buffer((32,), "int32"), C: T.Buffer((16,), "int32")):
        T.func_attr({"global_symbol": "arrays"})
        Shifts.shift(A.data, C.data)

    @T.prim_func
    def own(A: T.Buffer((32,), "int32"), C: T.Buffer((16,), "int32")):
        T.func_attr({"global_symbol": "own"})
        L = T.alloc_buffer((16,), "int32")
        for i in range(16):
            L[i] = C[i]
        Shifts.shift(L.data, A.data)

    @T.prim_func
    def bound(A: T.Buffer((32,), "int32"), C: T.Buffer((16,), "int32")):
        T.func_attr({"global_symbol": "bound"})
        p = T.bind(A.data)
        Shifts.shift(p, A.data)


FITS = {
    "same": False, "across": False, "parts": True, "regions": True, "crossing": False, "arrays": True, "own": True,
    "bound": False,
}  # fmt: skip


@pytest.mark.parametrize("name", FITS)
def test_a_callee_runs_the_version_that_its_arguments_fit(name: str) -> None:
    lowered = tl.lower(Shifts)
    assert ("shift_overlap" in lowered[name].script()) is not FITS[name]
    kernel = tl.build(Shifts)[name]
    for overlap in (None, 0, 3):
        results = []
        for run in (kernel, lambda *args: tl.interpret(Shifts, *args, name=name)):
            a = np.arange(32, dtype="int32")
            c = np.arange(40, 56, dtype="int32") if overlap is None else a[overlap : overlap + 16]
            run(a, c)
            results.append((a, c.copy()))
        np.testing.assert_array_equal(results[0][0], results[1][0])
        np.testing.assert_array_equal(results[0][1], results[1][1])


def test_a_function_without_two_arrays_has_one_version() -> None:
    func = parse("@T.prim_func\ndef f(A: T.Buffer((8,), 'int32'), n: T.int32):\n    A[0] = n\n")
    assert tl.lower(func)["f"].attrs.get("tir.noalias") is None
    mod = IRModule({"f": func})
    assert apart(mod) is mod


# At random


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_on_overlapping_arrays(seed: int) -> None:
    program, outcome = run_one(seed, calls=2)
    assert outcome in ("agrees", "faults", "refused"), f"{outcome}\n{program.text}"
