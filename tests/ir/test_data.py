"""What is data and what is an index: the interpreter, machine code and C take the same arithmetic of each form."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import tirlower as tl
from tests.sampling import in_pairs
from tirlower import ir
from tirlower.ir.data import gives_data, may_be_data
from tirlower.script import parse

FORMS = [
    "T.Cast('int32', x < T.float32(1.0))", "T.Cast('int32', i < 3)", "T.Cast('int32', x)",
    "T.Cast('int32', T.Cast('float32', i))", "T.Cast('int32', T.Cast('int8', i))",
    "T.Cast('int32', T.Cast('uint8', i) * T.uint8(100))", "T.Cast('int32', T.Cast('int64', i) * T.int64(3))",
    "T.Cast('int32', T.Cast('int64', i) * T.int64(3000000000))", "T.Cast('int32', T.Cast('int16', i * 10000))",
    "T.Cast('int32', T.Cast('uint32', i) * T.uint32(3000000000))", "T.Cast('int64', T.Cast('int8', i * 100))",
    "T.Cast('int32', b)", "T.Cast('int32', A[i] < T.float32(1.0))", "T.Cast('int32', A[i])", "T.Cast('int32', v)",
    "T.Cast('int32', c)", "T.Cast('int32', w)", "T.Cast('int32', T.isnan(x))", "T.Cast('int32', s8)",
    "T.Cast('int32', A8[i])", "T.Cast('int32', T.exp(T.Cast('float32', i)) < T.float32(3))",
    "T.Cast('int32', not i < 3)", "T.popcount(i)", "T.clz(i)",
    "T.max(T.popcount(i), i)", "T.shift_left(1, i)", "T.shift_left(i, 2)", "T.shift_left(n, i)", "T.shift_right(i - 5, i)",
    "T.bitwise_and(i, n)", "T.bitwise_and(i, i * 3)", "T.bitwise_xor(i, 77777)", "T.bitwise_or(i - 40, 3)", "T.bitwise_not(i)",
    "T.Cast('int32', T.bitwise_not(T.Cast('uint8', i)))", "T.reinterpret('int32', T.Cast('float32', i))", "T.abs(i - 3)",
    "T.likely(i)", "T.if_then_else(x < T.float32(1), i, 7)", "n - n + 1",
]  # fmt: skip
USES = ["{} + 2147483647 > 5", "({} + 2147483600) // 3 > 0", "T.Cast('int64', {} + 2147483647) > T.int64(5)",
        "T.max({} * 2147483647, 3) == 3", "{} + 2147483647 + i > i"]  # fmt: skip


def program(loop: str, forms: list[str]) -> str:
    """A bit of the result for each form, each use of it and each iteration."""
    head = f"""
@T.prim_func
def f(A: T.Buffer((8,), "float32"), A8: T.Buffer((8,), "int8"), x: T.float32, b: T.bool, s8: T.int8, d: T.handle,
      O: T.Buffer(({len(forms)}, {len(USES)}, 8), "int32")):
    n = T.int32()
    D = T.match_buffer(d, (n,), "int8")
    v: T.float32 = A[2]
"""
    lines = []
    for row, form in enumerate(forms):
        lines += [f"    for i in {loop}(8):", "        c: T.bool = A[i] < T.float32(2)", "        w: T.bool = i < 3"]
        for column, use in enumerate(USES):
            lines += [f"        if {use.format(f'({form})')}:", f"            O[{row}, {column}, i] = 1"]
    return head + "\n".join(lines) + "\n"


def results(run: object, rows: int) -> np.ndarray:
    found = np.zeros((rows, len(USES), 8), np.int32)
    x = np.array([0, 1, 2, 0.5, 7, -3, 2.5, 1.5], np.float32)
    run(x, np.arange(8, dtype=np.int8), 0.5, True, -5, np.zeros(9, np.int8), found)  # type: ignore[operator]
    return found


@pytest.mark.parametrize(
    ("loop", "target", "part"), in_pairs(["T.serial", "T.unroll", "T.vectorized"], ["llvm", "c"], [0, 1], each=2)
)
def test_one_arithmetic_wherever_it_runs(loop: str, target: str, part: int) -> None:
    if target == "c" and not (shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")):
        pytest.skip("no C compiler")
    forms = FORMS[part::2]
    func = parse(program(loop, forms))
    wanted = results(lambda *args: tl.interpret(func, *args), len(forms))
    assert 0.2 < wanted.mean() < 0.8  # both outcomes occur
    found = results(tl.build(func, target), len(forms))
    for row, column, _ in np.argwhere(found != wanted):
        pytest.fail(f"{USES[column].format(forms[row])}: {found[row, column]} for {wanted[row, column]}")


def test_exact_lanes_keep_their_name() -> None:
    func = parse("""
@T.prim_func
def f(O: T.Buffer((8,), "int32")):
    for i in T.vectorized(8):
        far: T.int32 = T.bitwise_xor(i, 77777) * 100000
        if far > 0 and far // 7 > 5:
            O[i] = 1
""")
    for run in (lambda out: tl.interpret(func, out), tl.build(func)):
        found = np.zeros(8, np.int32)
        run(found)
        assert found.tolist() == [1] * 8


def test_how_many_lanes_scalable_vectors_have_is_a_size():
    vscale = ir.build.call("tir.vscale")
    assert not gives_data(vscale) and not may_be_data(vscale * 4 + ir.Var("i"), (), ())
