"""Textbook algorithms are right at once as prim funcs, as written and scheduled: against plain Python, for sizes 1 and odd ones."""

from __future__ import annotations

import ast

import pytest

import tirlower as tl
from bench.from_numba import copies, definitions, differing
from bench.textbook import ALGORITHMS, KERNELS, arguments, in_python, of_any_size
from tests.checking import roundtrips

MACHINES = ("llvm -num_threads=1", "llvm -num_threads=2 -mcpu=x86-64-v3")


def test_each_has_a_signature_and_its_body_is_the_files_own() -> None:
    assert list(ALGORITHMS) == list(definitions(KERNELS))
    assert all(ast.get_docstring(node) is None for node, _ in definitions(KERNELS).values())


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.by_day
def test_an_algorithm_is_what_python_computes(name: str) -> None:
    func = of_any_size(name)
    roundtrips(func)
    target = MACHINES[list(ALGORITHMS).index(name) % 2]
    with tl.PassContext(config={"tir.auto.least": 0}):
        built = [tl.build(func, target, schedule="none"), tl.build(func, target)]
    for side in (1, 2, 9, ALGORITHMS[name].small, 33):
        start = arguments(name, side)
        expected = copies(start)
        in_python(name)(*expected)
        for kernel in built:
            ours = copies(start)
            kernel(*ours)
            assert not differing(ours, expected, None, None), (name, side)


def test_a_fault_is_seen() -> None:
    start = arguments("gram", 5)
    ours, expected = copies(start), copies(start)
    in_python("gram")(*ours)
    in_python("gram")(*expected)
    ours[1][3, 2] += 1e-6
    assert differing(ours, expected, None, None) == 1
