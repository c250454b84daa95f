"""Each example runs, and finds its results equal to NumPy's (it raises where they are not)."""

from __future__ import annotations

import importlib
import inspect
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(
    ".".join(path.relative_to(FOLDER).with_suffix("").parts)
    for path in (*FOLDER.glob("*.py"), *FOLDER.glob("graph/*.py"), *FOLDER.glob("schedules/*.py"))
    if not path.stem.startswith("_")
)


def test_the_examples_are_found():
    assert {
        "vector_add",
        "matmul",
        "softmax",
        "layer_norm",
        "conv2d",
        "jacobi",
        "prefix_sum",
        "graph.first_models",
        "schedules.matmul",
        "schedules.conv2d",
        "schedules.softmax",
    } <= set(EXAMPLES)


@pytest.mark.parametrize(("name", "most"), [("matmul", 12), ("conv2d", 25), ("softmax", 25)])
def test_a_schedule_is_short(name, most):
    source = inspect.getsource(importlib.import_module(f"examples.schedules.{name}").scheduled)
    body = source.split('"""')[2].strip().splitlines()
    assert len(body) - 1 <= most  # but for the return


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, capsys):
    importlib.import_module(f"examples.{name}").main()
    assert "agrees with NumPy" in capsys.readouterr().out
