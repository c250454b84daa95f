"""Kernels with one seeded mistake each: it is found and named; without it nothing is, and the result is NumPy's."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tests.gpu.faults.case import Case
from tests.gpu.faults.kernels import CASES
from tirlower.diagnostics import TirError

SEEDS = range(3)
IDS = [case.name for case in CASES]


def test_enough_kernels_with_names_of_their_own() -> None:
    assert len({case.source for case in CASES}) >= 30
    assert len(set(IDS)) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_fault_is_found(case: Case) -> None:
    arrays = case.arguments(np.random.default_rng(1))
    with pytest.raises(TirError, match=case.found) as caught:
        tl.simulate(case.wrong(), *arrays, seed=case.seed)
    assert caught.value.labels, "an error names a line"
    assert "threadIdx.x" in str(caught.value) or "threads" in str(caught.value)


# The right version of a kernel is the same for several faults.
RIGHT = {case.source: case for case in CASES}


@pytest.mark.parametrize("case", RIGHT.values(), ids=[case.name.partition(":")[0] for case in RIGHT.values()])
@pytest.mark.by_day
def test_the_right_kernel_is_clean(case: Case) -> None:
    arrays = case.arguments(np.random.default_rng(2))
    expected = case.expect(*[array.copy() for array in arrays])
    tl.simulate(case.right(), *arrays, races=True, seeds=SEEDS, rtol=case.rtol)
    if case.rtol:
        np.testing.assert_allclose(arrays[-1].astype(np.float64), expected, rtol=case.rtol)
    else:
        np.testing.assert_array_equal(arrays[-1], expected)


@pytest.mark.parametrize("case", RIGHT.values(), ids=[case.name.partition(":")[0] for case in RIGHT.values()])
def test_the_right_kernel_as_host_code_that_launches_it(case: Case) -> None:
    arrays = case.arguments(np.random.default_rng(3))
    expected = case.expect(*[array.copy() for array in arrays])
    # The check of loops does not know the intrinsics by which these kernels order their threads.
    with tl.PassContext(config={"tir.legality": "off"}):
        lowered = tl.lower(case.right(), target="nvptx -arch=sm_90a")
    tl.simulate(lowered, *arrays, rtol=case.rtol)
    np.testing.assert_array_equal(arrays[-1], expected)
