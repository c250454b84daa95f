"""Names of packages that are imported at their first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tirlower.support.lazy import imported_when_asked

PROGRAM = """
import sys
import tirlower.arith as arith
late = [m for m in ("deduce", "iter_detect", "linear", "narrow", "solve", "subspace") if f"tirlower.arith.{m}" in sys.modules]
assert not late, late
assert arith.solve_linear_equations is arith.__dict__["solve_linear_equations"], "kept"
from tirlower.arith import *
assert {*arith.__all__} <= {*globals()} and {*arith.__all__} <= {*dir(arith)}
"""


def test_what_solves_and_inverts_is_imported_when_it_is_asked_for():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", ["tirlower.arith", "tirlower.graph.passes", "tirlower.llvm.codegen"])
def test_other_names_are_no_attributes(package: str):
    module = __import__(package, fromlist=["*"])
    with pytest.raises(AttributeError, match=rf"module '{package}' has no attribute 'deduce_bounds'"):
        module.deduce_bounds
    for name in module.__all__:
        assert getattr(module, name) is module.__dict__[name]


def test_a_module_that_lacks_the_name_says_so():
    with pytest.raises(AttributeError, match="nothing"):
        imported_when_asked("json", {"nothing": "decoder"})("nothing")
