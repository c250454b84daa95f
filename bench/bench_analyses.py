"""The analyses under pytest-benchmark: ``pytest bench/bench_analyses.py --benchmark-enable``."""

from __future__ import annotations

import pytest

import tirlower as tl
from bench import analyses
from tests.arith.index_expressions import CASES, Problem
from tirlower import poly
from tirlower.ir import IRModule
from tirlower.legality.check import check_legality
from tirlower.script import parse

PROGRAMS = analyses.programs()


@pytest.mark.parametrize("loop", analyses.TILED_ANSWERS)
@pytest.mark.parametrize("form", analyses.TILED_FORMS)
@pytest.mark.parametrize("question", ["is_parallel", "is_vectorizable"])
def test_verdict(benchmark, question, form, loop):
    benchmark.group = f"{question} on a six-loop matmul, {form}"
    func = parse(analyses.TILED_FORMS[form])
    ask = getattr(poly, question)
    verdict = benchmark.pedantic(ask, args=(func, loop), setup=analyses._fresh_solver, rounds=20)
    assert verdict.proved == analyses.TILED_ANSWERS[loop]


@pytest.mark.parametrize("name", PROGRAMS)
def test_checks(benchmark, name):
    benchmark.group = "checks of the kernels of the benchmarks"
    func = PROGRAMS[name]
    mod = IRModule({func.name: func})
    benchmark.pedantic(check_legality, args=(mod, tl.PassContext()), setup=analyses._fresh_solver, rounds=20)


@pytest.mark.parametrize("what", ["original", "simple"])
def test_simplify(benchmark, what):
    benchmark.group = f"simplify the {len(CASES)} index expressions, new analyzers"

    def fresh():
        problems = [Problem(case) for case in CASES]
        return ([(p.analyzer, p.expr if what == "original" else p.expected) for p in problems],), {}

    def simplify(pairs):
        for analyzer, expr in pairs:
            analyzer.simplify(expr)

    benchmark.pedantic(simplify, setup=fresh, rounds=20)


@pytest.mark.parametrize("size", [128, 256, 512])
@pytest.mark.parametrize("shape", analyses.SHAPES)
def test_growth(benchmark, shape, size):
    benchmark.group = f"checks: {shape}"
    mod = IRModule({"main": parse(analyses.SHAPES[shape](size))})
    benchmark.pedantic(check_legality, args=(mod, tl.PassContext()), setup=analyses._fresh_solver, rounds=3)
