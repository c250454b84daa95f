"""The kernels written for Numba are right at once as prim funcs: native code and the interpreter against plain Python."""

from __future__ import annotations

import ast

import pytest

import tirlower as tl
from bench.from_numba import (
    SIGNATURES,
    agree,
    arguments,
    copies,
    definitions,
    plain_python,
    prim_func,
    prim_func_text,
)
from tirlower.ir import structural_equal
from tirlower.script import parse


def test_there_are_twenty_and_their_bodies_are_the_files_own() -> None:
    assert len(SIGNATURES) == 20 and set(SIGNATURES) == set(definitions())
    for name, (node, _) in definitions().items():
        ours = ast.parse(prim_func_text(name)).body[0]
        assert isinstance(ours, ast.FunctionDef)
        assert [ast.dump(stmt) for stmt in ours.body] == [ast.dump(stmt) for stmt in node.body]


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_kernel_is_what_python_computes(name: str) -> None:
    func = prim_func(name)
    start = arguments(name)
    expected = copies(start)
    returned = plain_python(name)(*expected)
    ours = copies(start)
    found = tl.build(func)(*ours)
    agree(name, ours, expected, found, returned)
    again = parse(func.script())
    assert structural_equal(again, func)
