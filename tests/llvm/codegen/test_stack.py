"""Functions whose calls nest deep: what a call costs, and that results, errors and tasks find their way."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tirlower as tl
from tirlower.script import parse

FIBONACCI = """
@I.ir_module
class M:
    @T.prim_func
    def fibonacci(n: T.int32) -> T.int64:
        if n < 2:
            T.ret(T.Cast("int64", n))
        T.ret(M.fibonacci(n - 1) + M.fibonacci(n - 2))
"""


def test_a_call_in_a_recursion_costs_one_comparison() -> None:
    kernel = tl.build(parse(FIBONACCI), schedule="none")["fibonacci"]
    assert kernel(20) == 6765
    text = kernel.source("llvm")
    (deep,) = re.findall(r"^define internal .*?\.deep\(.*?^}", text, re.DOTALL | re.MULTILINE)
    called = re.findall(r"call [^@\n]*@(\S+?)\(", deep)
    assert called.count("llvm.stacksave.p0") == 1
    assert [name for name in called if name != "llvm.stacksave.p0"] == [
        "tirlower.fail.0", "fibonacci.kernel.deep", "fibonacci.kernel.deep"
    ]  # fmt: skip
    with pytest.raises(RecursionError, match="no stack is left for `fibonacci`"):
        kernel(2**31 - 1)


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint8", "int16", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64"],
)
def test_results_of_every_type(dtype: str) -> None:
    """The two parameters change places n times."""
    module = tl.build(
        parse(f"""
@I.ir_module
class M:
    @T.prim_func
    def turn(n: T.int32, a: T.{dtype}, b: T.{dtype}) -> T.{dtype}:
        if n == 0:
            T.ret(a)
        T.ret(M.turn(n - 1, b, a))

    @T.prim_func
    def store(n: T.int32, A: T.Buffer((2,), "{dtype}"), B: T.Buffer((1,), "{dtype}")):
        B[0] = M.turn(n, A[0], A[1])
"""),
        schedule="none",
    )
    values = np.array([1, 0] if dtype == "bool" else [-7.5, 100] if dtype.startswith(("f", "b")) else [93, 100])
    arrays = values.astype(tl.ir.DataType(dtype).numpy), np.zeros(1, tl.ir.DataType(dtype).numpy)
    for n in (0, 1, 40, 41):
        module["store"](n, *arrays)
        assert arrays[1][0] == arrays[0][n % 2], n


def test_errors_and_endings_without_a_result() -> None:
    """The error of a call at depth is the call's, with its values; a function that ends without a return gives 0."""
    module = tl.build(
        parse("""
@I.ir_module
class M:
    @T.prim_func
    def sink(n: T.int32, k: T.int32) -> T.int32:
        if n > 0:
            T.ret(M.sink(n - 1, k) + 1)
        if k == 7:
            T.ret(T.int32(100) // (k - 7))

    @T.prim_func
    def walk(n: T.int32, A: T.Buffer((8,), "int32")):
        if n > 0:
            A[n % 8] = A[n % 8] + 1
            T.evaluate(M.walk(n - 1, A.data))
"""),
        schedule="none",
    )
    assert module["sink"](30, 3) == 30
    with pytest.raises(ZeroDivisionError):
        module["sink"](30, 7)
    assert module["sink"](5, 3) == 5
    a = np.zeros(8, "int32")
    module["walk"](80, a)
    assert a.tolist() == [10] * 8
    with pytest.raises(RecursionError):
        module["walk"](10**8 * 20, a)


def test_tasks_of_a_recursion_look_at_their_own_stack() -> None:
    """A parallel loop inside a recursion calls it again, in threads whose stacks are others."""
    module = tl.build(
        parse("""
@I.ir_module
class M:
    @T.prim_func
    def tree(n: T.int32, at: T.int32, A: T.Buffer((64,), "int32")):
        if n == 0:
            A[at] = A[at] + at
        else:
            for i in T.parallel(2, annotations={"tir.num_threads": 2, "tir.unchecked": "each path has its own element"}):
                T.evaluate(M.tree(n - 1, at * 2 + i, A.data))

    @T.prim_func
    def endless(n: T.int32, A: T.Buffer((64,), "int32")):
        for i in T.parallel(2, annotations={"tir.num_threads": 2, "tir.unchecked": "nothing is written"}):
            T.evaluate(M.endless(n + i, A.data))
"""),
        schedule="none",
    )
    a = np.zeros(64, "int32")
    for _ in range(20):
        module["tree"](6, 0, a)
    assert (a == 20 * np.arange(64)).all()
    with pytest.raises(RecursionError):
        module["endless"](0, a)


def test_a_long_body_in_parts_hands_on_where_the_stack_ends() -> None:
    lines = "\n".join(f"        A[{i % 64}] = A[{(i * 7) % 64}] + {i}" for i in range(1500))
    module = tl.build(
        parse(f"""
@I.ir_module
class M:
    @T.prim_func
    def long(n: T.int32, A: T.Buffer((64,), "int32")):
{lines}
        T.evaluate(M.next(n, A.data))

    @T.prim_func
    def next(n: T.int32, A: T.Buffer((64,), "int32")):
        if n > 0:
            T.evaluate(M.long(n - 1, A.data))
"""),
        schedule="none",
    )
    got, want = np.arange(64, dtype="int32"), np.arange(64, dtype="int32")
    module["long"](20, got)
    with np.errstate(over="ignore"):
        for _ in range(21):
            for i in range(1500):
                want[i % 64] = want[(i * 7) % 64] + np.int32(i)
    assert (got == want).all()
    with pytest.raises(RecursionError):
        module["long"](10**8, got)
