"""Bounds of the input program: proved, refused with the iteration, guarded, trusted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import BoundsError, LegalityError, TransformError
from tirlower.ir import Assert, pre_order_visit
from tirlower.legality.check import check_legality
from tirlower.poly import isl
from tirlower.script import parse
from tirlower.script import tir as T


def asserts(program: Any) -> int:
    """The assertions in the lowered form of a program."""
    found: list[Any] = []
    for func in tl.lower(program).functions.values():
        pre_order_visit(func.body, lambda op: found.append(op) if isinstance(op, Assert) else None)
    return len(found)


@T.prim_func
def copy(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32")):
    for i in range(n):
        B[i] = A[i]


@T.prim_func
def unrelated(A: T.Buffer(("n",), "float32"), B: T.Buffer(("m",), "float32")):
    for i in range(n):
        B[i] = A[i] + T.float32(1)


@T.prim_func
def shift(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32")):
    for i in range(8):
        B[i] = A[i + 1]


@T.prim_func
def gather(A: T.Buffer(("m",), "float32"), X: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "float32")):
    for i in range(n):
        B[i] = A[X[i]]


def test_what_is_proved_costs_nothing():
    report = tl.build(copy).report()
    assert report.proved == {"copy": 2} and not report.guarded and not report.trusted
    assert asserts(copy) == 0


def test_proved_kernels_enter_as_without_checks():
    with tl.PassContext(config={"tir.legality": "off"}):
        off = tl.build(copy)
    assert tl.build(copy).source("llvm") == off.source("llvm")


@pytest.mark.parametrize("use", [tl.build, tl.lower, lambda func: tl.jit(func)(np.zeros(8, "f4"), np.zeros(8, "f4"))])
def test_a_refuted_access_shows_its_iteration(use):
    with pytest.raises(LegalityError, match=r"the access A\[i \+ 1\] of 'shift' goes outside its buffer") as info:
        use(shift)
    text = str(info.value)
    assert "0 <= index < 8" in text
    assert "at i = 7 reads A[8]" in text
    assert "B[i] = A[i + 1]" in text and "^^^^^^^^ at i = 7" in text
    with pytest.raises(BoundsError, match="index 8"):
        tl.interpret(shift, np.zeros(8, "float32"), np.zeros(8, "float32"))


def test_a_refuted_access_with_symbolic_sizes():
    with pytest.raises(LegalityError, match="goes outside") as info:
        tl.build(
            parse("""
def f(A: T.Buffer(("n",), "int32")):
    for i in range(n):
        A[i + 1] = 0
""")
        )
    assert "n = 1" in str(info.value)


def test_unrelated_sizes_are_guarded():
    kernel = tl.build(unrelated)
    a, b = np.arange(5, dtype="float32"), np.zeros(9, "float32")
    kernel(a, b)
    np.testing.assert_array_equal(b[:5], a + 1)
    (note,) = kernel.report().guarded
    assert note.access == "B[i]" and "test_bounds.py" in note.place and "for some sizes" in note.reason
    short = np.zeros(3, "float32")
    with pytest.raises(
        IndexError, match=r"B\[3\] is out of bounds: index 3 of dimension 0 is outside 0 <= index < 3, at i = 3"
    ):
        kernel(a, short)
    np.testing.assert_array_equal(short, a[:3] + 1)  # what came before has happened
    with pytest.raises(IndexError, match=r"B\[3\] is out of bounds: index 3 of dimension 0"):
        tl.interpret(unrelated, a, short)


def test_gathers_are_guarded_natively_and_in_the_lowered_program():
    kernel, low = tl.build(gather), tl.lower(gather)
    a, b = np.arange(6, dtype="float32"), np.zeros(4, "float32")
    for run in (kernel, lambda *args: tl.interpret(low, *args)):
        b[:] = 0
        run(a, np.array([5, 0, 3, 3], "int32"), b)
        np.testing.assert_array_equal(b, [5, 0, 3, 3])
        for wrong in (6, -1):
            b[:] = 0
            with pytest.raises(IndexError, match=rf"A\[{wrong}\] is out of bounds.* 0 <= index < 6, at i = 2"):
                run(a, np.array([5, 4, wrong, 3], "int32"), b)
            np.testing.assert_array_equal(b, [5, 4, 0, 0])


def test_the_error_names_the_line():
    with pytest.raises(IndexError) as info:
        tl.build(gather)(np.zeros(1, "float32"), np.ones(1, "int32"), np.zeros(1, "float32"))
    assert isinstance(info.value, BoundsError)
    assert "B[i] = A[X[i]]" in str(info.value) and "test_bounds.py" in str(info.value)


def test_only_the_open_subscripts_are_looked_at():
    @T.prim_func
    def f(A: T.Buffer((4, 5), "int32"), X: T.Buffer((4,), "int32")):
        for i in range(4):
            A[i, X[i]] = i

    assert asserts(f) == 1
    with pytest.raises(
        IndexError, match=r"A\[1, 9\] is out of bounds: index 9 of dimension 1 is outside 0 <= index < 5, at i = 1"
    ):
        tl.build(f)(np.zeros((4, 5), "int32"), np.array([0, 9, 0, 0], "int32"))


def test_trust_and_refuse():
    with tl.PassContext(config={"tir.unproved_bounds": "trust"}):
        assert asserts(gather) == 0
        report = tl.build(gather).report()
        assert [note.access for note in report.trusted] == ["A[X[i]]"] and not report.guarded
        assert "trusted: gather: A[X[i]]" in str(report)
        with pytest.raises(LegalityError):
            tl.build(shift)
    with tl.PassContext(config={"tir.unproved_bounds": "refuse"}):
        tl.build(copy)
        with pytest.raises(LegalityError, match=r"A\[X\[i\]\] of 'gather' cannot be proved inside") as info:
            tl.build(gather)
        assert "A[X[i]]" in str(info.value) and "^^^^" in str(info.value)
    with pytest.raises(TransformError, match=r"'guard'.*'trust'"):
        tl.PassContext(config={"tir.unproved_bounds": "ignore"})


def test_what_was_taken_in_another_form_is_guarded_where_it_is_certain_now():
    mod = tl.IRModule({"shift": shift})
    for given in ({"in_order": True}, {"written": mod}):
        checked = check_legality(mod, tl.PassContext(), **given)
        assert checked.checks.guarded and asserts(checked.module)
        for config in ("trust", "refuse"):
            with pytest.raises(LegalityError):
                check_legality(mod, tl.PassContext(config={"tir.unproved_bounds": config}), **given)


def test_off_says_so_in_the_report():
    with tl.PassContext(config={"tir.legality": "off"}):
        assert asserts(gather) == 0
        tl.lower(shift)
        report = tl.build(gather).report()
    assert not report.checks.on
    assert "checks: off" in str(report)


def test_a_repeated_row_may_be_indexed_past_its_one_element():
    @T.prim_func
    def f(a: T.handle, B: T.Buffer((3,), "float32")):
        n = T.int32()
        A = T.match_buffer(a, (n,), "float32", buffer_type="auto_broadcast")
        for i in range(3):
            B[i] = A[i]

    kernel, b = tl.build(f), np.zeros(3, "float32")
    kernel(np.ones(1, "float32"), b)
    kernel(np.ones(3, "float32"), b)
    with pytest.raises(IndexError, match=r"A\[2\] is out of bounds"):
        kernel(np.ones(2, "float32"), b)


def test_a_repeated_row_of_one_element_may_be_indexed_past_it():
    @T.prim_func
    def f(a: T.handle, B: T.Buffer((3, 4), "float32")):
        A = T.match_buffer(a, (1, 4), "float32", buffer_type="auto_broadcast")
        for i, j in T.grid(3, 4):
            B[i, j] = A[i, j]

    kernel, b, row = tl.build(f), np.zeros((3, 4), "float32"), np.arange(1, 5, dtype="float32")
    kernel(row.reshape(1, 4), b)
    np.testing.assert_array_equal(b, [row] * 3)

    @T.prim_func
    def outside(a: T.handle, B: T.Buffer((3, 4), "float32")):
        A = T.match_buffer(a, (1, 4), "float32")
        for i, j in T.grid(3, 4):
            B[i, j] = A[i, j]

    with pytest.raises(LegalityError, match="goes outside its buffer"):
        tl.build(outside)


def test_the_cache_keeps_what_was_found(tmp_path, monkeypatch):
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path))
    first, again = tl.build(gather), tl.build(gather)
    assert again.report().cached and not first.report().cached
    assert again.report().checks == first.report().checks
    assert len(again.report().guarded) == 1
    with pytest.raises(IndexError, match="at i = 0"):
        again(np.zeros(1, "float32"), np.ones(1, "int32"), np.zeros(1, "float32"))
    assert "T.Assert" in again.source("tir")


def test_functions_of_a_module_are_checked_alike():
    module = parse("""
@I.ir_module
class Module:
    @T.prim_func
    def one(A: T.Buffer((4,), "int32"), k: T.int32):
        T.func_attr({"global_symbol": "one"})
        A[k] = 1

    @T.prim_func
    def two(A: T.Buffer((4,), "int32")):
        T.func_attr({"global_symbol": "two"})
        A[3] = 2
""")
    exe = tl.build(module)
    a = np.zeros(4, "int32")
    exe.two(a)
    exe.one(a, 2)
    np.testing.assert_array_equal(a, [0, 0, 1, 2])
    with pytest.raises(IndexError, match=r"A\[-1\] is out of bounds"):
        exe.one(a, -1)
    report = exe.report()
    assert report.proved == {"one": 0, "two": 1}
    assert [note.function for note in report.guarded] == ["one"]


def test_a_guard_never_repeats_a_call_with_effects():
    func = parse("""
def f(A: T.Buffer((4,), "int32"), count: T.Buffer((1,), "int32")):
    for i in range(4):
        A[T.atomic_add(T.address_of(count[0]), 1)] = i
""")
    with pytest.raises(LegalityError, match="a second time") as info:
        tl.build(func)
    assert "bind the value" in str(info.value)
    bound = parse("""
def f(A: T.Buffer((4,), "int32"), count: T.Buffer((1,), "int32")):
    for i in range(4):
        at: T.int32 = T.atomic_add(T.address_of(count[0]), 1)
        A[at] = i
""")
    a = np.zeros(4, "int32")
    kernel = tl.build(bound)
    kernel(a, np.zeros(1, "int32"))
    np.testing.assert_array_equal(a, range(4))
    with pytest.raises(IndexError, match=r"A\[4\] is out of bounds.* at i = 3"):
        kernel(a, np.ones(1, "int32"))


def test_atomic_updates_are_guarded():
    func = parse("""
def f(A: T.Buffer((4,), "int32"), X: T.Buffer((3,), "int32")):
    for i in range(3):
        T.evaluate(T.atomic_add(T.address_of(A[X[i]]), 1))
""")
    kernel, a = tl.build(func), np.zeros(4, "int32")
    kernel(a, np.array([1, 1, 3], "int32"))
    np.testing.assert_array_equal(a, [0, 2, 0, 1])
    with pytest.raises(IndexError, match=r"A\[7\] is out of bounds"):
        kernel(a, np.array([1, 7, 3], "int32"))


def test_addresses_are_not_accesses():
    func = parse("""
def f(A: T.Buffer((4,), "float32"), n: T.int32):
    T.call_extern("int32", "use", T.address_of(A[n]))
""")
    low = tl.lower(func)
    assert "Assert" not in low.script()


def test_without_islpy_what_only_isl_can_prove_gets_a_guard(monkeypatch):
    def program(most: int) -> Any:  # other numbers each time: answers are remembered
        return parse(f"""
def f(A: T.Buffer(("n",), "int32"), B: T.Buffer(("n",), "int32")):
    for i in range({most}):
        if 2 * i < n:
            A[i] = 1
    for i in range(n):
        B[i] = A[i]
""")

    assert tl.build(program(41)).report().proved == {"f": 3}
    monkeypatch.setattr(isl._MODULE, "__dict__", {"module": None, "missing": True})
    kernel = tl.build(program(43))
    report = kernel.report()
    assert report.proved == {"f": 2} and "islpy is not installed" in report.guarded[0].reason
    a, b = np.zeros(7, "int32"), np.zeros(7, "int32")
    kernel(a, b)
    np.testing.assert_array_equal(b, [1, 1, 1, 1, 0, 0, 0])
