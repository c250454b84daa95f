"""Each example runs, and finds its results equal to NumPy's (it raises where they are not)."""

from __future__ import annotations

import importlib
import pathlib

import pytest

FOLDER = pathlib.Path(__file__).parent.parent / "examples"
EXAMPLES = sorted(
    ".".join(path.relative_to(FOLDER).with_suffix("").parts)
    for path in (*FOLDER.glob("*.py"), *FOLDER.glob("graph/*.py"))
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
    } <= set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_example(name, capsys):
    importlib.import_module(f"examples.{name}").main()
    assert "agrees with NumPy" in capsys.readouterr().out
