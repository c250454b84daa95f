"""The fixed set of index expressions: each reaches exactly its expected form, which has the same values."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from evaluate import evaluate, show
from index_expressions import CASES, CASES_WANTED, Problem

from tirlower.ir.structural import structural_equal

pytestmark = pytest.mark.by_day

IDS = [f"{case.group}: {case.text}" for case in CASES]


def test_the_set_is_whole():
    assert len(CASES) == CASES_WANTED
    assert len(set(CASES)) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_expected_form_is_reached(case):
    problem = Problem(case)
    found = problem.analyzer.simplify(problem.expr)
    assert structural_equal(found, problem.expected), f"{case.text} is {show(found)}, not {case.expected}"
    assert problem.analyzer.simplify(problem.expected) is problem.expected, "the expected form is not final"


@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.by_day
def test_the_expected_form_has_the_same_values(case):
    problem = Problem(case)
    looked = 0
    for env in problem.points():
        if problem.fact is None or evaluate(problem.fact, env):
            looked += 1
            assert evaluate(problem.expr, env) == evaluate(problem.expected, env), env
    assert looked


def test_the_page_is_current():
    root = Path(__file__).resolve().parents[2]
    tool = root / "tools" / "make_index_page.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
