"""A division by zero is an error natively where it is one in the interpreter, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower as tl
from tirlower.analysis.evaluated import conditions_of, evaluations
from tirlower.diagnostics import InterpreterError
from tirlower.ir import FloorDiv, Var, build
from tirlower.script import parse

SMALL = "T.uint8(8)"
# Conditions in which a rule could make a division conditional, or move it behind another condition.
CONDITIONS = [
    f"T.max(X[0], X[1] % s) < {SMALL}",
    f"T.max(X[0] + X[1], X[2] % s) < {SMALL}",
    f"T.uint8(0) <= T.max(X[0], X[1] // s) < {SMALL}",
    f"T.min(X[0], X[1] % s) > {SMALL}",
    f"T.min(X[1] % s, X[0]) >= {SMALL}",
    f"T.max(X[0], X[1] % s) <= {SMALL} and X[2] < {SMALL}",
    f"X[2] < {SMALL} and T.max(X[0], X[1] % s) <= {SMALL}",
    f"X[2] > {SMALL} or T.min(X[0], X[1] % s) > {SMALL}",
    f"not T.max(X[0], X[1] % s) < {SMALL}",
    f"T.Select(X[0] < {SMALL}, X[1] % s, X[2]) < {SMALL}",
    f"T.if_then_else(X[0] < {SMALL}, T.max(X[1], X[2] % s), X[2]) < {SMALL}",
    f"T.max(T.max(X[0], X[2]), X[1] // s) < {SMALL} or X[2] == {SMALL}",
    f"X[0] < {SMALL} and X[1] % s < {SMALL}",
    f"(X[1] % s < {SMALL} or X[1] % s >= {SMALL}) and X[0] < {SMALL}",
]


@pytest.mark.parametrize("condition", CONDITIONS)
def test_divisions_keep_their_errors_in_conditions(condition: str) -> None:
    func = parse(f"""
@T.prim_func
def main(s: T.uint8, X: T.Buffer((3,), "uint8"), O: T.Buffer((1,), "int32")):
    if {condition}:
        O[0] = 1
""")
    kernel = tl.build(func)
    for s in (0, 3):
        for values in np.ndindex(2, 2, 2):
            x = np.array([(4, 100)[at] for at in values], np.uint8)
            outcomes = []
            for run, error in (
                (lambda *args: tl.interpret(func, *args), InterpreterError),
                (kernel, ZeroDivisionError),
            ):
                out = np.zeros(1, np.int32)
                try:
                    run(s, x, out)
                except error:
                    outcomes.append("division by zero")
                else:
                    outcomes.append(str(out[0]))
            assert outcomes[0] == outcomes[1], (s, x)


def test_conditions_of_what_is_evaluated() -> None:
    a, b, x = Var("a", "bool"), Var("b", "bool"), Var("x", "int32")
    one, two = x // (x + 1), x // (x + 2)
    choice = build.if_then_else(build.logical_and(a, b), one, two)
    root = build.logical_and(build.logical_not(b), build.logical_or(build.gt(choice, 3), build.gt(one, two)))

    def quotient(op: object) -> object:
        return str(op) if isinstance(op, FloorDiv) else None

    def told(conditions: frozenset[tuple[bool, object]]) -> set[str]:
        return {str(part) if holds else f"not {part}" for holds, part in conditions}

    found = {key: sorted(map(len, places)) for key, places in evaluations(root, quotient, lambda op: op).items()}
    assert found == {str(one): [2, 3], str(two): [2, 2]}
    assert told(conditions_of(build.logical_or(a, build.logical_not(b)), False, lambda op: op)) == {"not a", "b"}
    assert told(conditions_of(build.logical_and(a, build.logical_not(b)), True, lambda op: op)) == {"a", "not b"}
