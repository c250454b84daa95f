"""All cases, by family: the operators that the importer knows, each with at least three."""

from __future__ import annotations

from tests.graph.onnx_cases import elementwise, linear, pooling, reductions, resize, sequences, shape
from tests.graph.onnx_cases.case import Case

__all__ = ["CASES", "FAMILIES"]

FAMILIES: dict[str, list[Case]] = {
    "elementwise": elementwise.CASES,
    "reductions": reductions.CASES,
    "linear": linear.CASES,
    "pooling, normalization": pooling.CASES,
    "shape": [*shape.CASES, *resize.CASES],
    "sequences, attention, control": sequences.CASES,
}
CASES: dict[str, Case] = {case.name: case for cases in FAMILIES.values() for case in cases}
