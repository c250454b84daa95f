"""Conditions under which accesses are inside their buffers, and how far from the end of a loop something holds, by enumeration."""

from __future__ import annotations

import itertools
import random

import pytest

from tirlower.arith import Analyzer
from tirlower.ir import Expr, IntImm, Var, const
from tirlower.ir.functor import substitute
from tirlower.poly import check_bounds, extract
from tirlower.poly.conditions import AtLeast, conjuncts, negate
from tirlower.poly.inside import reach, where_inside
from tirlower.script import parse

SIZES = (0, 1, 2, 4, 7)


def holds(condition: Expr, sizes: dict[str, int], names: dict[str, Var]) -> bool:
    found = Analyzer().simplify(
        substitute(condition, {names[name]: const(value, names[name].dtype) for name, value in sizes.items()})
    )
    assert isinstance(found, IntImm), found
    return bool(found.value)


def condition_of(text: str) -> tuple[Expr | None, dict[str, Var]]:
    func = parse(text)
    scop = extract(func)
    return where_inside(scop, [one for one in check_bounds(scop) if not one.verdict.proved]), {
        param.name: param for param in func.params if not param.dtype.is_handle
    }


@pytest.mark.parametrize("seed", range(30))
def test_conditions_hold_where_all_accesses_are_inside(seed: int) -> None:
    rng = random.Random(seed)
    first, second = (rng.choice((-1, 0, 1, 2)) for _ in range(2))
    a, b = rng.choice(((1, 0), (1, 1), (2, 0), (1, -1), (2, 1))), rng.choice(((0, 1), (1, 0), (0, 2)))
    at = [f"i * {a[0]} + j * {a[1]} + {first}", f"i * {b[0]} + j * {b[1]} + {second}"]
    inner = rng.choice(("q", "q", "i + 1", "3"))
    condition, names = condition_of(f"""
def f(m: T.int32, n: T.int32, p: T.int32, q: T.int32, A: T.Buffer((m, n), "int32"), B: T.Buffer((1,), "int32")):
    for i in range(p):
        for j in range({inner}):
            B[0] = B[0] + A[{at[0]}, {at[1]}]
""")
    met = 0
    for m, n, p, q in itertools.product(SIZES, repeat=4):
        width = {"q": q, "3": 3}.get(inner)
        points = [(i, j) for i in range(p) for j in range(i + 1 if width is None else width)]
        inside = all(0 <= i * a[0] + j * a[1] + first < m and 0 <= i * b[0] + j * b[1] + second < n for i, j in points)
        if not points:
            continue  # whatever it says then
        if condition is None:
            assert not inside
            continue
        assert holds(condition, {"m": m, "n": n, "p": p, "q": q}, names) == inside, (m, n, p, q, str(condition))
        met += inside
    assert met or condition is None


def test_no_sizes_help_what_depends_on_data() -> None:
    condition, _ = condition_of("""
def f(n: T.int32, A: T.Buffer((n,), "int32"), B: T.Buffer((n,), "int32")):
    for i in range(n):
        B[i] = A[B[i]]
""")
    assert condition is None


def test_sizes_near_the_end_of_their_type_do_not_wrap() -> None:
    condition, names = condition_of("""
def f(m: T.int32, n: T.int32, A: T.Buffer((m,), "int32"), B: T.Buffer((n,), "int32")):
    for i in range(n):
        B[i] = A[i + 5]
""")
    assert condition is not None
    most = 2**31 - 1
    assert not holds(condition, {"m": 7, "n": most}, names) and holds(condition, {"m": most, "n": most - 5}, names)


@pytest.mark.parametrize("seed", range(20))
def test_reach_is_the_farthest_iteration_of_any_size(seed: int) -> None:
    rng = random.Random(seed)
    low, back, start = rng.randrange(-2, 4), rng.randrange(-2, 4), rng.choice((0, 0, 1, 3))
    scop = extract(
        parse(f"""
def f(n: T.int32, A: T.Buffer((n + 20,), "int32")):
    for i in range({start}, n + {start}):
        for j in range(3):
            if i + j >= {low} and i - j < n - {back}:
                A[i] = A[i] + j
""")
    )
    access = next(one for one in scop.accesses if one.is_write)
    loop = scop.loop("i")
    for condition in conjuncts(access.guards):
        assert isinstance(condition, AtLeast)
        form = condition.lin
        for from_end in (False, True):
            found = reach(scop, access.loops, loop, negate(condition), from_end=from_end)
            counts = [0]
            for n in range(12):
                for i, j in itertools.product(range(start, n + start), range(3)):
                    value = {"i": i, "j": j, "n": n}
                    if form.const + sum(value[str(dim)] * c for dim, c in form.terms.items()) < 0:
                        counts.append(n + start - i if from_end else i - start + 1)
            # A condition of the begin fails at any distance from the end, unless it never does.
            if from_end == (form.terms[loop.var] < 0) or max(counts) == 0:
                assert found == max(counts), (low, back, start, str(condition), from_end)
            else:
                assert found is None
