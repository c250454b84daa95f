"""Compiled graphs beside the reference: what a result may differ by."""

from __future__ import annotations

from typing import Any

import numpy as np

import tirlower.graph as tg


def as_list(results: Any) -> list[Any]:
    if isinstance(results, dict):
        return list(results.values())
    return list(results) if isinstance(results, tuple) else [results]


def assert_as_reference(graph: Any, *arrays: Any, exe: Any = None) -> Any:
    """Compiled, the graph gives what the reference gives: integers alike, floats as near to the result in float64 as 4 times
    the reference's own error, and 4 units in the last place of the largest number."""
    exe = exe or tg.compile(graph)
    got = as_list(exe(*arrays))
    reference = as_list(tg.interpret(graph, *arrays))
    precise = as_list(tg.interpret(graph, *arrays, precise=True))
    assert len(got) == len(reference) == len(graph.results)
    for value, mine, theirs, exact in zip(graph.results, got, reference, precise, strict=True):
        what = f"{value.name} of {value.node!r}"
        assert mine.dtype == theirs.dtype and mine.shape == theirs.shape, what
        if mine.dtype.kind in "biu":
            np.testing.assert_array_equal(mine, theirs, err_msg=what)
            continue
        wide, theirs, exact = mine.astype(np.float64), theirs.astype(np.float64), exact.astype(np.float64)
        finite = np.isfinite(exact) & np.isfinite(theirs)
        np.testing.assert_array_equal(wide[~finite], theirs[~finite], err_msg=what)
        if finite.any():
            scale = np.abs(exact[finite]).max()
            allowed = 4 * np.abs(theirs - exact)[finite].max() + 4 * float(np.finfo(np.float32).eps) * scale
            if mine.dtype.itemsize == 2:
                allowed += 2.0**-7 * scale
            assert np.abs(wide - exact)[finite].max() <= allowed, what
    return exe
