"""Analyses of functions refuse what is none."""

from __future__ import annotations

import pytest

from tirlower import analysis, ir
from tirlower.diagnostics import ArgumentTypeError

func = ir.PrimFunc([], body=ir.Evaluate(0))
ASKED = {
    "verify_ssa": lambda f: analysis.verify_ssa(f),
    "verify_memory": lambda f: analysis.verify_memory(f),
    "verify_gpu_code": lambda f: analysis.verify_gpu_code(f, {}),
    "detect_buffer_access_lca": lambda f: analysis.detect_buffer_access_lca(f),
    "calculate_allocated_bytes": lambda f: analysis.calculate_allocated_bytes(f),
    "calculate_workspace_bytes": lambda f: analysis.calculate_workspace_bytes(f, 16),
    "calculate_constant_bytes": lambda f: analysis.calculate_constant_bytes(f, 16),
    "is_pure_function": lambda f: analysis.is_pure_function(f),
}


@pytest.mark.parametrize("name", ASKED)
def test_what_is_no_function(name: str):
    ASKED[name](func)
    for value in (3, None, func.body):
        with pytest.raises(ArgumentTypeError, match=f"{name} takes a PrimFunc, got {type(value).__name__}"):
            ASKED[name](value)
    if name != "calculate_allocated_bytes":
        with pytest.raises(ArgumentTypeError, match=r"got IRModule\n.*module\['main'\]"):
            ASKED[name](ir.IRModule({"main": func}))


def test_what_is_no_node():
    with pytest.raises(ArgumentTypeError, match="undefined_vars takes a node, got int"):
        analysis.undefined_vars(3)
