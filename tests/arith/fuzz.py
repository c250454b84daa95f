"""Random expressions: simplification keeps the value, is idempotent, and makes no node without a change.

``python -m tests.arith.fuzz --count 1000000 --workers 2`` is the nightly run; ``--what maps``, ``sets``, ``regions`` and ``lets`` are
the same for iteration maps, interval sets, regions and lets. Each expression has a seed of its own, and
a failure prints it: ``python -m tests.arith.fuzz --seed 17 --dtype int32`` repeats one, and
``test_fuzz.py`` keeps those that once failed.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from evaluate import NoValue, evaluate, show
from iter_map_fuzz import check_map
from let_fuzz import check_lets
from set_fuzz import check_region, check_set

import tirlower.script  # noqa: F401  (installs the printer of expressions)
from tests.generate.nodes import Nodes
from tirlower import ir
from tirlower.arith import Analyzer
from tirlower.ir import Range, Var
from tirlower.ir.structural import structural_equal

DTYPES = ("int32", "int64", "uint8", "int8", "uint32")
CHUNK = 1000


def ranges_of(rng: random.Random, variables: list[Var]) -> dict[Var, tuple[int, int]]:
    """A small range for each variable; of one value now and then, and below zero."""
    ranges = {}
    for var in variables:
        low = rng.choice((0, 0, 0, 1, -4)) if not var.dtype.is_uint else 0
        ranges[var] = (low, low + rng.choice((2, 4, 4, 8, 16, 6, 10)) - 1)
    return ranges


def analyzer_of(ranges: dict[Var, tuple[int, int]], fact: ir.Expr | None) -> Analyzer:
    analyzer = Analyzer()
    for var, (low, high) in ranges.items():
        analyzer.bind(var, Range(low, high - low + 1))
    if fact is not None:
        analyzer.enter_constraint(fact)
    return analyzer


def check_one(seed: int, dtype: str = "int32") -> None:
    """Make the expression of a seed, simplify it in three ways, and compare at 24 points."""
    rng = random.Random(seed)
    variables = [Var(name, dtype) for name in "ijkn"]
    generator = Nodes(rng, variables)
    ranges = ranges_of(rng, variables)
    fact = None
    if rng.random() < 0.3:
        fact = generator.condition(2)
    is_condition = rng.random() < 0.35
    expr = generator.condition(3) if is_condition else generator.integer(rng.choice((2, 3, 4)))
    analyzer = analyzer_of(ranges, fact)
    methods = {
        "simplify": analyzer.simplify,
        "rewrite": analyzer.rewrite_simplify,
        "canonical": analyzer.canonical_simplify,
    }
    results = {name: method(expr) for name, method in methods.items()}
    bound = analyzer.const_int_bound(expr) if not is_condition else None
    modular = analyzer.modular_set(expr) if not is_condition else None
    for _ in range(24):
        env = {var: rng.randint(*ranges[var]) for var in variables}
        if fact is not None and evaluate(fact, env) is not True:
            continue
        before = evaluate(expr, env)
        if isinstance(before, NoValue):
            continue
        for name, result in results.items():
            after = evaluate(result, env)
            assert before == after and not isinstance(after, NoValue), (
                f"seed {seed} {dtype}: {name} of {show(expr)} under {show(fact) if fact is not None else None} is "
                f"{show(result)}; at { ({v.name: x for v, x in env.items()}) } {before} becomes {after!r}"
            )
        if bound is not None and modular is not None:
            assert bound.min_value <= before <= bound.max_value, f"seed {seed}: {show(expr)} = {before} outside {bound}"
            if modular.coeff:
                assert (before - modular.base) % modular.coeff == 0, f"seed {seed}: {show(expr)} = {before}: {modular}"
            else:
                assert before == modular.base, f"seed {seed}: {show(expr)} = {before}: {modular}"
    if any(known.min_value > known.max_value for known in map(analyzer.const_int_bound, variables)):
        return  # the fact holds nowhere, so that each answer is right: nothing says which of them to stay with
    canonical = results["canonical"]
    fixed = analyzer_of(ranges, fact).canonical_simplify(canonical)
    assert structural_equal(fixed, canonical), f"seed {seed} {dtype}: {show(canonical)} -> {show(fixed)}"
    simple = results["simplify"]
    assert analyzer.simplify(expr) is simple, f"seed {seed} {dtype}: not the same object again: {show(expr)}"
    again = analyzer_of(ranges, fact).simplify(simple)
    assert again is simple, f"seed {seed} {dtype}: {show(expr)} -> {show(simple)} -> {show(again)}"


CHECKS = {
    "expressions": check_one,
    "maps": lambda seed, _: check_map(seed),
    "sets": lambda seed, _: check_set(seed),
    "regions": lambda seed, _: check_region(seed),
    "lets": lambda seed, _: check_lets(seed),
}
"""What is made of a seed: expressions that are simplified (in three ways), bounded and known modulo numbers; iteration
maps at each level; interval sets, with bounds of lets and choices; regions; lets of variables that take several values."""


def check_chunk(work: tuple[str, int, int, str]) -> list[tuple[int, str, str]]:
    """The failures of a chunk of seeds: seed, dtype and what went wrong."""
    what, start, count, dtype = work
    failures = []
    for seed in range(start, start + count):
        try:
            CHECKS[what](seed, dtype)
        except AssertionError as error:
            failures.append((seed, dtype, str(error)))
        except Exception:  # any other error of the simplifier is a finding too, and the run goes on
            failures.append((seed, dtype, traceback.format_exc(limit=-2)))
    return failures


def chunks(start: int, count: int, dtype: str) -> Iterator[tuple[int, int, str]]:
    """The seeds from ``start`` on, in chunks; without a dtype one of five expressions is of another type than int32."""
    for number, first in enumerate(range(start, start + count, CHUNK)):
        own = dtype or (DTYPES[1 + number // 5 % 4] if number % 5 == 4 else "int32")
        yield first, min(CHUNK, start + count - first), own


def main(argv: list[str] | None = None) -> int:
    """Run the seeds asked for and print each failure; 1 when there was one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=20_000, help="how many expressions (default %(default)s)")
    parser.add_argument("--start", type=int, default=None, help="the first seed (default: from the clock, and printed)")
    parser.add_argument("--dtype", default="", choices=("", *DTYPES), help="only this type (default: a mixture)")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--what", default="expressions", choices=tuple(CHECKS), help="what is checked (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=None, help="only this one")
    args = parser.parse_args(argv)
    if args.seed is not None:
        CHECKS[args.what](args.seed, args.dtype or "int32")
        print(f"seed {args.seed} passes")
        return 0
    start = args.start if args.start is not None else time.time_ns() // 1_000_000 * 1_000_000
    print(f"seeds {start} to {start + args.count - 1}, {args.workers} worker(s)", flush=True)
    failed = done = 0
    began = time.perf_counter()
    with ProcessPoolExecutor(args.workers) as pool:
        work = [(args.what, *chunk) for chunk in chunks(start, args.count, args.dtype)]
        for (_, _, size, _), failures in zip(work, pool.map(check_chunk, work), strict=True):
            done += size
            failed += len(failures)
            for seed, dtype, message in failures:
                print(f"FAILED --what {args.what} --seed {seed} --dtype {dtype}\n  {message}", flush=True)
            if done % 50_000 == 0:
                print(f"{done} {args.what}, {failed} failures, {time.perf_counter() - began:.0f} s", flush=True)
    print(f"{done} {args.what}, {failed} failures, {time.perf_counter() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
