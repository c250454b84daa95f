"""The reducer: the smallest program on which something still goes wrong, and it stays well-formed."""

from __future__ import annotations

import random
import textwrap
import time
from collections.abc import Callable

import numpy as np
import pytest

from tests.fuzz.oracle import arguments_for
from tests.generate.programs import generate
from tirlower.diagnostics import TirError
from tirlower.interp import interpret
from tirlower.ir import IRModule, PrimFunc, post_order_visit
from tirlower.ir.stmt import BufferStore, For, IfThenElse, Stmt
from tirlower.ir.verify import verify_well_formed
from tirlower.script import parse
from tirlower.validate.shrink import Case, reduce_case


def case_of(text: str, *arguments: object) -> Case:
    return Case(IRModule(parse(textwrap.dedent(text))), "main", arguments)


def nodes(func: PrimFunc, kind: type) -> list[object]:
    found: list[object] = []
    post_order_visit(func.body, lambda op: found.append(op) if isinstance(op, kind) else None)
    return found


def text_has(part: str) -> Callable[[Case], bool]:
    return lambda case: part in case.func.script()


MIXED = """
@T.prim_func
def main(A: T.Buffer((8, 6), "int32"), B: T.Buffer(("n",), "int32"), C: T.Buffer((8,), "float32"), k: T.int32):
    D = T.alloc_buffer((8,), "int32")
    for i in T.parallel(8):
        if i < k:
            x: T.int32 = i * 2 + k
            D[i] = A[i, x % 6] + 3
        else:
            D[i] = 5
    for i in range(n):
        B[i] = B[i] + 1
    for i, j in T.grid(8, 6):
        A[i, j] = D[i] * 77 + T.Select(j < 3, A[i, j], k)
    for i in T.vectorized(8):
        C[i] = C[i] * T.float32(2)
"""


def mixed() -> Case:
    rng = np.random.default_rng(0)
    return case_of(
        MIXED,
        rng.integers(0, 9, (8, 6)).astype("int32"),
        rng.integers(0, 9, 5).astype("int32"),
        rng.standard_normal(8).astype("float32"),
        3,
    )


def test_what_does_not_matter_goes() -> None:
    small = reduce_case(mixed(), text_has("* 77"))
    assert len(nodes(small.func, BufferStore)) == 1
    assert not nodes(small.func, For) and not nodes(small.func, IfThenElse)
    assert [p.name for p in small.func.params] == ["A_handle"]
    (array,) = small.arguments
    assert array.shape == tuple(int(e.value) for e in small.func.buffers[0].shape) == (1, 1)


def test_values_still_decide() -> None:
    # It fails as long as running it makes an element of A larger than 100.
    def fails(case: Case) -> bool:
        arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in case.arguments]
        try:
            interpret(case.mod, *arguments)
        except TirError:
            return False
        return any(isinstance(a, np.ndarray) and a.ndim == 2 and (a > 100).any() for a in arguments)

    small = reduce_case(mixed(), fails)
    assert fails(small)
    assert len(small.func.script().splitlines()) <= 5, small.func.script()


@pytest.mark.parametrize("seed", [3, 11, 29, 34, 50])
def test_candidates_are_well_formed(seed: int) -> None:
    mod = IRModule(parse(generate(seed).text))
    asked = 0
    rng = random.Random(seed)

    def fails(case: Case) -> bool:
        nonlocal asked
        asked += 1
        verify_well_formed(case.mod)
        return rng.random() < 0.3

    case = Case(mod, "main", tuple(arguments_for(mod, seed, empty=False)[0]))
    reduce_case(case, fails, 2.0)
    assert asked > 10


def test_nothing_smaller_is_the_case_itself() -> None:
    case = mixed()
    assert reduce_case(case, lambda _: False) is case


def test_the_time_is_a_bound() -> None:
    begun = time.monotonic()

    def slow(case: Case) -> bool:
        time.sleep(0.05)
        return False

    reduce_case(mixed(), slow, 0.3)
    assert time.monotonic() - begun < 5


def test_bindings_are_put_in_place_of_their_variable() -> None:
    case = case_of(
        """
        @T.prim_func
        def main(A: T.Buffer((4,), "int32"), k: T.int32):
            x: T.int32 = k + 1
            y: T.int32 = x * 3
            A[0] = y
    """,
        np.zeros(4, "int32"),
        1,
    )

    def fails(candidate: Case) -> bool:
        array = candidate.arguments[0].copy()
        try:
            interpret(candidate.mod, array, *candidate.arguments[1:])
        except TirError:
            return False
        return array[0] == 6

    small = reduce_case(case, fails)
    assert fails(small) and "T.int32 =" not in small.func.script(), small.func.script()


def test_other_functions_and_blocks() -> None:
    mod = parse(
        textwrap.dedent("""
        @I.ir_module
        class Module:
            @T.prim_func(private=True)
            def other(x: T.int32) -> T.int32:
                T.ret(x + 1)

            @T.prim_func
            def main(A: T.Buffer((4, 4), "int32")):
                for i, j in T.grid(4, 4):
                    with T.block("b"):
                        vi, vj = T.axis.remap("SR", [i, j])
                        with T.init():
                            A[vi, 0] = 0
                        A[vi, 0] = A[vi, 0] + 9
    """)
    )
    small = reduce_case(Case(mod, "main", (np.zeros((4, 4), "int32"),)), text_has("+ 9"))
    assert list(small.mod) == ["main"]
    assert "T.init" not in small.func.script() and not nodes(small.func, For)


def test_a_long_function_takes_linear_memory_and_bounded_time() -> None:
    lines = "\n".join(f"    A[{i % 8}] = A[{(i + 1) % 8}] + {i}" for i in range(2000))
    case = case_of(f"@T.prim_func\ndef main(A: T.Buffer((8,), 'int32')):\n{lines}\n", np.zeros(8, "int32"))
    small = reduce_case(case, text_has("+ 1234"), 20.0)
    assert len([op for op in nodes(small.func, Stmt) if isinstance(op, BufferStore)]) == 1
