"""Loops of as many lanes as the machine's scalable vectors have, for targets with and without them."""

from __future__ import annotations

import pytest

from tests.checking import check, executes_alike
from tests.transforms.loops.vectorized import loops
from tirlower.diagnostics import TransformError
from tirlower.ir import PrimFunc
from tirlower.machine.target import Target
from tirlower.script import parse
from tirlower.script import tir as T
from tirlower.transforms import PassContext, VectorizeLoop


def test_scalable_vectors_need_a_target_that_has_them() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "float32")):
        for i in T.vectorized(T.vscale() * 4):
            A[i] = A[i] + T.float32(1)
            if i < 3:
                A[i] = T.float32(0)

    with pytest.raises(TransformError, match="not a constant"):
        VectorizeLoop()(before)
    with Target("llvm", mattr="+sve"):
        after = VectorizeLoop(predicate=False)(before)
        masked = VectorizeLoop()(before)
        with PassContext(config={"tir.enable_buffer_level_predication": False}):
            assert VectorizeLoop()(before).script() == after.script()
    assert "A[T.Ramp(0, 1, T.vscale() * 4)]" in after.script() and "for i_s in range(T.vscale() * 4)" in after.script()
    # Such targets have masks: conditions use them unless that is turned off.
    assert "for " not in masked.script() and 'T.get_active_lane_mask("boolxvscalex4", 0, 3)' in masked.script()
    executes_alike(before, after)
    executes_alike(before, masked)


def test_guards_of_scalable_vectors_are_masks_of_active_lanes() -> None:
    @T.prim_func
    def before(A: T.Buffer((70,), "float32"), B: T.Buffer((70,), "float32")):
        for i in range(T.ceildiv(70, 4 * T.vscale())):
            for j in T.vectorized(4 * T.vscale()):
                if i * 4 * T.vscale() + j < 70:
                    A[i * 4 * T.vscale() + j] = B[i * 4 * T.vscale() + j]

    with Target("llvm", mattr="+sve"):
        after = VectorizeLoop()(before)
    assert 'T.get_active_lane_mask("boolxvscalex4", i * 4 * T.vscale(), 70)' in after.script()
    executes_alike(before, after)


def test_lanes_that_are_no_multiple_of_what_scalable_vectors_have() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((64,), "float32")):
    for i in T.vectorized(T.vscale() + 3):
        A[i] = T.float32(1)
""")
    with (
        Target("llvm", mattr="+sve"),
        pytest.raises(TransformError, match=r"its extent T.vscale\(\) \+ 3 is not a constant"),
    ):
        VectorizeLoop()(func)


def test_a_number_of_scalable_lanes_has_one_form() -> None:
    @T.prim_func
    def before(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in T.vectorized(4 * T.vscale()):
            B[i + 8] = A[i] + T.float32(1)

    @T.prim_func
    def expected(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        B[8 : 8 + T.vscale() * 4] = A[T.Ramp(0, 1, 4 * T.vscale())] + T.Broadcast(T.float32(1), T.vscale() * 4)

    with Target("llvm", mattr="+sve"):
        check(VectorizeLoop(), before, expected)


def test_a_target_that_an_attribute_states() -> None:
    def func(target: str, condition: str = "") -> PrimFunc:
        return parse(f"""
@T.prim_func
def f(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "bool"), p: T.bool):
    T.attr(T.target("{target}"), "target", 0)
    for i in T.vectorized(4 * T.vscale()):
        {condition or "A[i] = A[i] + T.float32(1)"}
""")

    sve = "llvm -mtriple=aarch64-linux-gnu -mattr=+sve"
    assert loops(check(VectorizeLoop(), func(sve))) == 0
    with pytest.raises(TransformError, match="is not a constant"):
        VectorizeLoop()(func("llvm"))
    # Conditions are masked there, and operands that are the same for all lanes repeated.
    lanes = "A[i] > T.float32(0)"
    for same in ("p", "T.bool(False)", "T.bool(True)"):
        for condition in (f"T.And({same}, {lanes})", f"T.And({lanes}, {same})", f"T.Or({same}, {lanes})", f"T.Or({lanes}, {same})"):  # fmt: skip
            after = check(VectorizeLoop(), func(sve, f"B[i] = {condition}"))
            assert loops(after) == 0 and after.body.body.value.dtype.scalable
    masked = check(VectorizeLoop(), func(sve, "if T.And(p, A[i] > T.float32(0)): A[i] = T.float32(1)"))
    assert loops(masked) == 0 and "predicate=mask" in masked.script()
