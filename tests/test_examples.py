"""Each example runs, and finds its results equal to NumPy's (it raises where they are not)."""

from __future__ import annotations

import importlib
import pathlib

import pytest

EXAMPLES = sorted(
    path.stem
    for path in (pathlib.Path(__file__).parent.parent / "examples").glob("*.py")
    if not path.stem.startswith("_")
)


def test_the_examples_are_found():
    assert {"vector_add", "matmul", "softmax", "layer_norm", "conv2d", "jacobi", "prefix_sum"} <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, capsys):
    importlib.import_module(f"examples.{name}").main()
    assert "agrees with NumPy" in capsys.readouterr().out
