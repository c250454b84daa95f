"""The shipped coefficients are those that the fitting tool finds."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from tirlower.emit.vmath import coefficients

pytestmark = pytest.mark.by_day

TOOL = Path(__file__).resolve().parents[3] / "tools" / "fit_vmath.py"


@pytest.fixture(scope="module")
def tool():
    pytest.importorskip("mpmath")
    return runpy.run_path(str(TOOL))


@pytest.mark.parametrize(
    "name", ["SIN_F32", *(pytest.param(n, marks=pytest.mark.nightly) for n in ("COS_F32", "POW_LOG2_F32"))]
)
def test_fit_again(tool, name):
    found, _ = tool["solve"](tool["FITS"][name])
    assert tuple(found) == getattr(coefficients, name)


def test_tables_of_pow(tool):
    for name, _, table in tool["pow_tables"]():
        assert tuple(table) == getattr(coefficients, name)


def test_nothing_is_missing_or_left_over(tool):
    names = {n for n in vars(coefficients) if n.isupper()}
    assert names == set(tool["FITS"]) | {name for name, _, _ in tool["pow_tables"]()}
