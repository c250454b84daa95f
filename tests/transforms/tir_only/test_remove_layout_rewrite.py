from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import AllocConst, PrimFunc, assert_structural_equal, pre_order_visit, verify_well_formed
from tirlower.script import parse
from tirlower.transforms import (
    ConvertBlocksToOpaque,
    LowerOpaqueBlock,
    PassContext,
    RemoveNoOp,
    RemoveWeightLayoutRewriteBlock,
)

MARK = 'T.block_attr({"meta_schedule.layout_rewrite_preproc": True})'
Layout = Callable[[np.ndarray], np.ndarray]


def program(
    rewritten: str = "(6, 4)", at: str = "vj, vi", use: str = "W1[vj, vi]", weight: str = 'W: T.Buffer((4, 6), "float32"), ',
    head: str = "", dtype: str = "float32", mark: str = MARK, more: str = "",
) -> PrimFunc:  # fmt: skip
    return parse(f"""
@T.prim_func
def f({weight}B: T.Buffer((4, 6), "{dtype}")):
{head}    W1 = T.alloc_buffer({rewritten}, "{dtype}")
    for i, j in T.grid(4, 6):
        with T.block("rewrite"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.reads(W[vi, vj])
            T.writes(W1[{at}])
            {mark}
            W1[{at}] = W[vi, vj]
    for i, j in T.grid(4, 6):
        with T.block("use"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = {use} + B[vi, vj]
{more}""")


def removed(func: PrimFunc, layout: Layout | None, skip: bool = False) -> PrimFunc:
    """The result: well-formed, computing from the rewritten weight what the input computes from the weight."""
    one = RemoveWeightLayoutRewriteBlock(skip)
    after = one(func)
    verify_well_formed(after)
    assert one(after) is after
    assert_structural_equal(parse(after.script()), after)
    rng = np.random.default_rng(0)
    dtype = func.buffers[0].dtype.numpy
    w = (rng.standard_normal((4, 6)) * 9).astype(dtype)
    b = (rng.standard_normal((4, 6)) * 9).astype(dtype)
    first, second = b.copy(), b.copy()
    if layout is None:
        interpret(func, first)
        interpret(after, second)
    else:
        interpret(func, w, first)
        interpret(after, layout(w), second)
    np.testing.assert_array_equal(first, second)
    return after


def test_a_transposed_weight() -> None:
    after = removed(program(), lambda w: w.T.copy())
    assert [b.shape[0].value for b in after.buffers] == [6, 4] and after.buffers[0].name == "W1"
    assert "alloc_buffer" not in after.script() and "T.evaluate(0)" in after.script()


@pytest.mark.parametrize("dtype", ["int8", "float64", "float16", "int64"])
def test_tiles_and_dtypes(dtype: str) -> None:
    func = program("(2, 3, 2, 2)", "vi // 2, vj // 2, vi % 2, vj % 2", "W1[vi // 2, vj // 2, vi % 2, vj % 2]",
                   f'W: T.Buffer((4, 6), "{dtype}"), ', dtype=dtype)  # fmt: skip
    removed(func, lambda w: w.reshape(2, 2, 3, 2).transpose(0, 2, 1, 3).copy())


def test_a_flat_weight_and_a_shifted_one() -> None:
    removed(program("(24,)", "vi * 6 + vj", "W1[vi * 6 + vj]"), lambda w: w.reshape(24))
    removed(program("(24,)", "23 - vi * 6 - vj", "W1[23 - vi * 6 - vj]"), lambda w: w.reshape(24)[::-1].copy())


def test_the_loops_go_with_the_passes_that_follow() -> None:
    after = RemoveWeightLayoutRewriteBlock()(program())
    for one in (ConvertBlocksToOpaque(), LowerOpaqueBlock(), RemoveNoOp()):
        after = one(after)
    assert after.script().count("T.grid") == 1
    w, b, c = np.arange(24, dtype="float32").reshape(4, 6), np.zeros((4, 6), "float32"), np.zeros((4, 6), "float32")
    tl.build(after, schedule="none")(w.T.copy(), b)
    interpret(program(), w, c)
    np.testing.assert_array_equal(b, c)


def constant_program() -> PrimFunc:
    values = np.arange(24).tolist()
    head = f"""    W_data = T.allocate_const({values}, "int32", [4, 6])
    W = T.Buffer((4, 6), "int32", data=W_data)
"""
    return program(head=head, weight="", dtype="int32")


def constants(func: PrimFunc) -> list[np.ndarray]:
    found: list[np.ndarray] = []
    pre_order_visit(func.body, lambda op: found.append(op.data) if isinstance(op, AllocConst) else None)
    return found


def test_a_constant_is_rewritten() -> None:
    after = removed(constant_program(), None)
    np.testing.assert_array_equal(constants(after)[0], np.arange(24).reshape(4, 6).T)


def test_a_constant_only_gets_its_shape() -> None:
    for one in (RemoveWeightLayoutRewriteBlock(True), RemoveWeightLayoutRewriteBlock(skip_ndarray_rewrite=True)):
        after = one(constant_program())
        verify_well_formed(after)
        assert constants(after)[0].shape == (6, 4) and not constants(after)[0].any()
    with PassContext(config={"tir.RemoveWeightLayoutRewriteBlock": {"skip_ndarray_rewrite": True}}):
        assert not constants(RemoveWeightLayoutRewriteBlock()(constant_program()))[0].any()


def test_unmarked_blocks_stay() -> None:
    for mark in ("T.block_attr({})", 'T.block_attr({"meta_schedule.layout_rewrite_preproc": False})'):
        func = program(mark=mark)
        assert RemoveWeightLayoutRewriteBlock()(func) is func


def test_a_predicated_split_and_an_enclosing_block() -> None:
    func = parse(f"""
@T.prim_func
def f(W: T.Buffer((4, 6), "float32"), B: T.Buffer((4, 6), "float32")):
    W1 = T.alloc_buffer((6, 4), "float32")
    for o in range(1):
        with T.block("outer"):
            vo = T.axis.spatial(1, o)
            T.reads(W[0:4, 0:6])
            T.writes(W1[0:6, 0:4])
            for i, j, k in T.grid(4, 2, 4):
                with T.block("rewrite"):
                    vi = T.axis.spatial(4, i)
                    vj = T.axis.spatial(6, j * 4 + k)
                    T.where(j * 4 + k < 6)
                    {MARK}
                    W1[vj, vi] = W[vi, vj]
    for i, j in T.grid(4, 6):
        with T.block("use"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = W1[vj, vi]
""")
    after = removed(func, lambda w: w.T.copy())
    assert after.script().count("T.reads()") == 2


def refused(func: PrimFunc, match: str) -> None:
    with pytest.raises(TransformError, match=match):
        RemoveWeightLayoutRewriteBlock()(func)


def test_what_is_no_rewriting_is_refused() -> None:
    refused(parse(program().script().replace("= W[vi, vj]", "= W[vi, vj] * T.float32(2)")), "no copy")
    refused(parse(program().script().replace("W[vi, vj]", "W[vi, 5 - vj]")), "at its iterators")
    weight = 'W: T.Buffer((4, 6), "float32"), k: T.int32, '
    refused(parse(program(weight=weight).script().replace("W[vi, vj]", "W[k, vj]")), "at its iterators")
    refused(program(use="W[vi, vj] + W1[vj, vi]"), "used outside")
    text = re.sub(r" *W1 = T.alloc_buffer.*\n", "", program().script())
    text = text.replace("W: T.Buffer", 'W1: T.Buffer((6, 4), "float32"), W: T.Buffer', 1)
    refused(parse(text), "does not allocate")
    symbolic: Any = parse(program().script().replace('W: T.Buffer((4, 6), "float32")', 'W: T.Buffer(("n", 6), "float32")')
                          .replace("alloc_buffer((6, 4)", "alloc_buffer((6, n + 4)"))  # fmt: skip
    refused(symbolic, "nothing defines n")
