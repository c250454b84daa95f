"""Loops split, fused and bound: before and after run alike, on extents that are 0, 1, prime, not divided, and symbolic."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.interp import interpret
from tirlower.ir import Block, For, ForKind, PrimFunc, Seq, Stmt, Var, build, const
from tirlower.ir.path import places, replace_at
from tirlower.ir.verify import verify_well_formed
from tirlower.rewrite.loop_nests import bind, fuse, guarded, nest, nested, split, strips
from tirlower.script import parse

EXTENTS = (0, 1, 2, 7, 8, 12, 13)
FACTORS: list[tuple[int | None, ...]] = [
    (None,), (None, 1), (None, 4), (4, None), (None, 8), (1, None, 1), (None, 2, 3), (2, None, 3), (None, 16),
]  # fmt: skip


def loop_of(func: PrimFunc, name: str = "i") -> For:
    return next(op for _, op in places(func) if isinstance(op, For) and op.loop_var.name == name)


def rewritten(func: PrimFunc, rewrite: Callable[[For], Stmt], name: str = "i") -> PrimFunc:
    """The function with what a rewrite makes of a loop in its place."""
    path = next(path for path, op in places(func) if isinstance(op, For) and op.loop_var.name == name)
    made = replace_at(func, path, rewrite(loop_of(func, name)))
    verify_well_formed(made)
    return made


def runs_alike(before: PrimFunc, after: PrimFunc, *scalars: int, size: int = 64) -> None:
    """Both note the order of their iterations: a different one, or one more or fewer, shows."""
    results = []
    for func in (before, after):
        log, count = np.full(size, -1, "int64"), np.zeros(1, "int32")
        interpret(func, log, count, *scalars)
        results.append((log, count))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


def noting(header: str, number: str, params: str = "") -> PrimFunc:
    """A function that notes a number in each iteration, in their order."""
    return parse(f"""
@T.prim_func
def f(log: T.Buffer((64,), "int64"), count: T.Buffer((1,), "int32"){params}):
    {header}
            log[count[0]] = T.int64({number})
            count[0] = count[0] + 1
""")


def one_loop(start: int | str, extent: int | str, kind: str = "serial") -> PrimFunc:
    params = "".join(f", {name}: T.int32" for name in (start, extent) if isinstance(name, str))
    return noting(f"if True:\n        for i in T.{kind}({start}, {start} + {extent}):", "i", params)


@pytest.mark.parametrize("start", [0, 3, -5])
@pytest.mark.parametrize("extent", EXTENTS)
def test_a_split_loop_runs_the_same_iterations_in_order(extent: int, start: int) -> None:
    before = one_loop(start, extent)
    for factors in FACTORS:
        runs_alike(before, rewritten(before, lambda loop, f=factors: split(loop, f, Analyzer())))


@pytest.mark.parametrize("factors", FACTORS)
def test_a_split_of_a_symbolic_extent(factors: tuple[int | None, ...]) -> None:
    for start in (0, "s"):
        before = one_loop(start, "n")
        after = rewritten(before, lambda loop: split(loop, factors, Analyzer()))
        for n in (-9, -1, *EXTENTS):
            runs_alike(before, after, *([] if start == 0 else [2]), n)


def test_factors_that_are_symbolic_or_more_than_the_extent() -> None:
    before = noting("if True:\n        for i in range(n):", "i", ", n: T.int32, m: T.int32")
    factor = before.params[3]
    after = rewritten(before, lambda loop: split(loop, (None, factor), Analyzer()))
    more = rewritten(before, lambda loop: split(loop, (5, 4), Analyzer()))
    for n in (-3, *EXTENTS):
        for m in (1, 3, 7, 20):
            runs_alike(before, after, n, m)
        runs_alike(before, more, n, 1)


def test_what_is_proved_needs_no_guard() -> None:
    def conditions(extent: int | str, factors: tuple[int | None, ...], analyzer: Analyzer | None = None) -> str:
        made = split(loop_of(one_loop(0, extent)), factors, analyzer or Analyzer())
        return str(made)

    assert "if" not in conditions(12, (None, 4)) and "if" not in conditions(12, (3, 2, 2))
    assert "if i_0 * 4 + i_1 < 13" in conditions(13, (None, 4))
    assert "if" not in conditions("n", (None,)) and "if i_0 * 4 + i_1 < n" in conditions("n", (None, 4))


def test_what_the_loop_was_stays_with_one_of_the_parts() -> None:
    def kinds(kind: str) -> list[str]:
        loop = loop_of(one_loop(0, 12, kind)).with_(annotations={"mark": 1})
        loops, _ = nested(split(loop, (None, 2, 2), Analyzer()))
        assert [bool(part.annotations) for part in loops] == [True, False, False]
        return [part.kind.name for part in loops]

    assert kinds("serial") == ["SERIAL"] * 3
    assert kinds("parallel") == ["PARALLEL", "SERIAL", "SERIAL"]
    assert kinds("vectorized") == ["SERIAL", "SERIAL", "VECTORIZED"]
    assert kinds("unroll") == ["SERIAL", "SERIAL", "UNROLLED"]
    with pytest.raises(TransformError, match=r"cannot split loop 'i', which is bound to threadIdx\.x") as caught:
        split(bind(loop_of(one_loop(0, 12)), "threadIdx.x"), (None, 2), Analyzer())
    assert "split the loop first" in str(caught.value)


def test_variables_and_their_names_may_be_given() -> None:
    own = Var("own", "int32")
    loops, _ = nested(split(loop_of(one_loop(0, 12)), (None, 4), Analyzer(), ("outer", own)))
    assert loops[0].loop_var.name == "outer" and loops[1].loop_var is own
    with pytest.raises(ValueError):
        split(loop_of(one_loop(0, 12)), (None, 4), Analyzer(), ("outer",))


@pytest.mark.parametrize("start", [0, 3])
@pytest.mark.parametrize("extent", [*EXTENTS, -4])
def test_strips_and_what_is_left_are_the_loop(extent: int, start: int) -> None:
    fixed, symbolic = one_loop(start, extent), one_loop(start, "n")
    for width in (1, 2, 4, 5, 16):

        def cut(loop: For, width: int = width, **options: bool) -> Seq:
            whole, strip, rest = strips(loop, width, ("o", "l", "t"), **options)
            assert whole.body is strip and strip.kind is loop.kind
            return Seq((whole, rest))

        runs_alike(fixed, rewritten(fixed, cut))
        runs_alike(symbolic, rewritten(symbolic, cut), extent)
        if extent >= 0:
            runs_alike(symbolic, rewritten(symbolic, lambda loop: cut(loop, nonneg=True)), extent)


NESTS = [
    [(0, 3), (0, 4)], [(1, 1), (0, 5)], [(0, 5), (2, 1)], [(0, 0), (0, 4)], [(0, 4), (0, 0)], [(-2, 7)],
    [(0, 2), (3, 3), (-1, 2)], [(0, 1), (0, 1), (0, 1)], [(0, 2), (0, 1), (0, 7)],
]  # fmt: skip


def loops_noting(bounds: list[tuple[int, int | str]]) -> PrimFunc:
    names = "ijk"[: len(bounds)]
    lines = ["if True:"]
    for depth, (name, (start, extent)) in enumerate(zip(names, bounds, strict=True)):
        lines.append("    " * (depth + 2) + f"for {name} in range({start}, {start} + {extent}):")
    number = " + ".join(f"{name} * {100**at}" for at, name in enumerate(names))
    params = "".join(f", {extent}: T.int32" for _, extent in bounds if isinstance(extent, str))
    inside = "    " * (len(bounds) + 2)
    return parse(
        f'@T.prim_func\ndef f(log: T.Buffer((64,), "int64"), count: T.Buffer((1,), "int32"){params}):\n    '
        + "\n".join(lines)
        + f"\n{inside}log[count[0]] = T.int64({number})\n{inside}count[0] = count[0] + 1\n"
    )


def fused(outer: For) -> For:
    loops, body = nested(outer)
    return fuse(loops, body, Analyzer())


@pytest.mark.parametrize("bounds", NESTS)
def test_a_fused_loop_runs_the_same_iterations_in_order(bounds: list[tuple[int, int]]) -> None:
    before = loops_noting(list(bounds))
    after = rewritten(before, fused)
    assert len([op for _, op in places(after) if isinstance(op, For)]) == 1
    runs_alike(before, after)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_fused_loops_of_symbolic_extents(depth: int) -> None:
    starts = (0, 2, -1)[:depth]
    before = loops_noting([(start, name) for start, name in zip(starts, "nmo", strict=False)])
    after = rewritten(before, fused)
    assert loop_of(after, "_".join("ijk"[:depth]) + "_fused").loop_var.dtype.bits == (32 if depth == 1 else 64)
    rng = random.Random(3)
    cases = [[-2] * depth, [0] * depth, [1] * depth] + [[rng.randrange(-1, 4) for _ in starts] for _ in range(12)]
    for sizes in cases:
        runs_alike(before, after, *sizes)


def test_the_fused_variable_has_as_many_bits_as_it_needs() -> None:
    def bits(a: int, b: int) -> int:
        return fused(loop_of(loops_noting([(0, a), (0, b)]))).loop_var.dtype.bits

    assert bits(1 << 15, 1 << 15) == 32 and bits(1 << 16, 1 << 15) == 64
    assert bits((1 << 31) - 1, 1) == 32


def test_loops_whose_bounds_depend_on_each_other_are_not_fused() -> None:
    before = noting("for i in range(4):\n        for j in range(i, i + 2):", "i * 10 + j")
    with pytest.raises(TransformError, match=r"cannot fuse loop 'j': its bounds .* depend on another one") as caught:
        fused(loop_of(before))
    assert "whose bounds are the same in all iterations" in str(caught.value)


def test_split_and_fused_again() -> None:
    for extent in EXTENTS:
        before = one_loop(0, extent)

        def there_and_back(loop: For) -> Stmt:
            loops, body = nested(split(loop, (None, 3), Analyzer()))
            return fuse(loops, body, Analyzer())

        runs_alike(before, rewritten(before, there_and_back))


def test_a_loop_bound_to_threads_runs_each_of_its_iterations() -> None:
    text = """
@T.prim_func
def f(A: T.Buffer((64,), "int32"), n: T.int32):
    for i in range(3, 3 + n):
        A[i] = A[i] + i
"""
    before = parse(text)
    axis = Var("tx", "int64")
    for var in (None, axis):
        after = rewritten(before, lambda loop, var=var: bind(loop, "threadIdx.x", var))
        made = next(op for _, op in places(after) if isinstance(op, For))
        assert made.kind is ForKind.THREAD_BINDING and made.thread_tag == "threadIdx.x"
        assert made.min.value == 0 and (made.loop_var is axis) is (var is axis)  # type: ignore[attr-defined]
        for n in (1, 7, 32):
            a, b = np.zeros(64, "int32"), np.zeros(64, "int32")
            interpret(before, a, n)
            interpret(after, b, n)
            np.testing.assert_array_equal(a, b)


def test_a_guard_goes_into_the_predicate_of_a_block_that_is_all() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((13,), "int32"), B: T.Buffer((13, 4), "int32"), R: T.Buffer((13,), "int32")):
    for i in range(13):
        for j in range(4):
            with T.block("b"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = A[vi]
    for k in range(13):
        for l in range(R[k]):
            with T.block("c"):
                vi, vj = T.axis.remap("SS", [k, l])
                B[vi, vj] = A[vi]
""")
    loops, body = nested(split(loop_of(func), (None, 4), Analyzer()))
    assert [loop.loop_var.name for loop in loops] == ["i_0", "i_1", "j"]
    assert isinstance(body, Block) and str(body.predicate) == "i_0 * 4 + i_1 < 13"
    # The bounds of the inner loop read memory where only the guard lets them.
    made = split(loop_of(func, "k"), (None, 4), Analyzer())
    loops, body = nested(made)
    assert [loop.loop_var.name for loop in loops] == ["k_0", "k_1"] and type(body).__name__ == "IfThenElse"


def test_a_guarded_declaration_keeps_its_scope() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        x = T.alloc_buffer((1,), "int32")
        x[0] = i
        A[i] = x[0]
""")
    after = rewritten(func, lambda loop: split(loop, (None, 3), Analyzer()))
    a = np.zeros(8, "int32")
    interpret(after, a)
    np.testing.assert_array_equal(a, np.arange(8))
    made = guarded(build_declaration(), build.lt(Var("n"), const(3)))
    assert type(made).__name__ == "IfThenElse" and isinstance(made.then_case, Seq)  # type: ignore[attr-defined]


def build_declaration() -> Stmt:
    func = parse('@T.prim_func\ndef f(n: T.int32):\n    x = T.alloc_buffer((1,), "int32")\n    x[0] = n\n')
    return func.body.stmts[0] if isinstance(func.body, Seq) else func.body


def test_nests_are_taken_apart_and_put_together() -> None:
    func = loops_noting([(0, 2), (3, 3), (-1, 2)])
    outer = loop_of(func)
    loops, body = nested(outer)
    assert [loop.loop_var.name for loop in loops] == ["i", "j", "k"]
    assert nest(loops, body) is outer and nest([], body) is body
    assert nested(outer, lambda loop: loop.loop_var.name != "j")[1] is loops[1]
    assert nested(body) == ([], body)


def test_the_analyzer_knows_the_new_variables() -> None:
    analyzer = Analyzer()
    loops, _ = nested(split(loop_of(one_loop(0, 13)), (None, 4), analyzer))
    assert analyzer.can_prove(build.lt(loops[0].loop_var, const(4)))
    assert analyzer.can_prove(build.lt(loops[1].loop_var, const(4)))
    assert not analyzer.can_prove(build.lt(loops[0].loop_var, const(3)))
