"""Operators that reduce axes, or work along one."""

from __future__ import annotations

import numpy as np

from tests.graph.onnx_cases.case import Case, Const, Draw, Shaped, case, floats, ints, of, specials, uniform

__all__ = ["CASES"]

# The reductions whose axes are operands since opset 18; ReduceSum's are since 13.
REDUCTIONS = (
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceSumSquare",
)


def _operand(op: str, *shape: int, dtype: str = "float32") -> Draw:
    """Of numbers whose logarithm is taken positive ones."""
    return uniform(0.2, 3, *shape, dtype=dtype) if op == "ReduceLogSum" else floats(*shape, dtype=dtype)


def _reduced() -> list[Case]:
    cases = []
    for op in REDUCTIONS:
        new, old = (13, 11) if op == "ReduceSum" else (18, 13)
        x = _operand(op, 3, 4, 5)
        cases += [
            case(op, new, x, [-2, 0], keepdims=0, note="negative axes"),
            case(op, new, x, [1], note="keepdims"),
            case(op, 18, x, [2, 0], keepdims=1, note="axes in any order"),
            case(op, 18, x, keepdims=0, note="all axes to rank 0"),
            case(op, 18, x, [], keepdims=1, note="empty axes are all"),
            case(op, 18, x, Shaped([1]), keepdims=0, note="axes by Shape"),
            case(op, old, x, axes=[-1], keepdims=0, note="axes as an attribute"),
            case(op, 11, x, axes=[0, 2], note="axes as an attribute and keepdims"),
            case(op, 7, x, note="all axes and keepdims"),
            case(op, 18, _operand(op, 2, 1, 3), [1], keepdims=0, note="a unit dim"),
            case(op, 18, _operand(op, 0, 3), [1], keepdims=0, note="no rows"),
            case(op, 18, _operand(op, 2, 3, dtype="float64"), [1], keepdims=0, note="float64"),
            case(op, 18, _operand(op, 2, 300, dtype="float16"), [1], keepdims=0, note="float16"),
            case(op, 18, specials(6, 4), [1], keepdims=0, note="NaN and infinities"),
        ]
        cases += [
            case(op, 18, x, [], noop_with_empty_axes=1, note="empty axes are none"),
            case(op, 18, x, noop_with_empty_axes=1, keepdims=0, note="left out axes are none"),
            case(op, 18, _operand(op), noop_with_empty_axes=1, note="a number and no axes"),
            case(op, 18, x, [0], noop_with_empty_axes=1, note="noop with axes"),
        ]
        if op not in ("ReduceMean", "ReduceLogSum", "ReduceLogSumExp"):
            cases += [
                case(op, 18, ints(3, 4, dtype="int32", low=-3, high=4), [0], keepdims=0, note="int32"),
                case(op, 18, ints(3, 4, low=-3, high=4), [-1], note="int64"),
            ]
        if op not in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceLogSumExp"):
            cases.append(case(op, 18, _operand(op, 2, 0, 3), [1], keepdims=0, note="nothing to reduce"))
    return cases


CORNERS = [
    case("ReduceSum", 13, floats(2, 0, 3), [1], keepdims=1, note="nothing to reduce and keepdims"),
    case("ReduceMax", 20, floats(2, 0, 3), [1], keepdims=0, note="nothing to reduce"),
    case("ReduceMin", 20, floats(2, 0, 3), [1], keepdims=1, note="nothing to reduce"),
    case("ReduceLogSumExp", 18, of([[1e3, 1e3], [-1e3, -1e3], [80.0, -80.0]]), [1], note="no overflow"),
    case("ReduceLogSumExp", 18, of([[-np.inf, -np.inf], [0.0, -np.inf]]), [1], keepdims=0, note="minus infinity"),
    case("ReduceMean", 18, ints(3, 4, dtype="int32", low=0, high=90), [0], keepdims=0, note="int32"),
    case("ReduceMax", 18, ints(3, 4, dtype="int8", low=-128, high=128), [0], keepdims=0, note="int8"),
    case("ReduceMin", 18, ints(3, 4, dtype="uint8", low=0, high=256), [1], keepdims=0, note="uint8"),
    case("ReduceMax", 12, ints(3, 4, dtype="uint8", low=0, high=256), axes=[1], note="uint8"),
    case("ReduceMax", 20, of([[True, False], [False, False]], "bool"), [1], keepdims=0, note="bool"),
    case("ReduceMin", 20, of([[True, False], [True, True]], "bool"), [1], keepdims=0, note="bool"),
    case("ReduceSum", 13, floats(), keepdims=0, note="of rank 0"),
    case("ReduceMax", 18, floats(), keepdims=1, note="of rank 0"),
    case("ReduceSum", 13, floats(2, 3, 4), [1], keepdims=0, dynamic=((0, 0, "N"),), note="dynamic rows"),
    case("ReduceMean", 18, floats(2, 3, 4), [0], keepdims=1, dynamic=((0, 0, "N"),), note="a dynamic extent"),
]


def _argued() -> list[Case]:
    cases = []
    for op in ("ArgMax", "ArgMin"):
        ties = of([[1, 3, 3, 0, 0], [2, 2, 2, 2, 2], [5, 4, 0, 0, 5]])
        cases += [
            case(op, 13, floats(3, 4, 5), axis=1, keepdims=0, note="axis 1"),
            case(op, 13, floats(3, 4, 5), axis=-1, keepdims=1, note="negative axis"),
            case(op, 13, floats(3, 4), note="defaults"),
            case(op, 13, ties, axis=1, keepdims=0, note="ties take the first"),
            case(op, 12, ties, axis=1, keepdims=0, select_last_index=1, note="ties take the last"),
            case(op, 11, ties, axis=0, keepdims=0, note="opset 11"),
            case(op, 7, floats(2, 6), axis=1, note="opset 7"),
            case(op, 13, ints(3, 4, dtype="int32"), axis=0, keepdims=0, note="int32"),
            case(op, 13, ints(3, 4, dtype="uint8", low=0, high=256), axis=1, keepdims=0, note="uint8"),
            case(op, 13, floats(3, 4, dtype="float64"), axis=1, keepdims=0, note="float64"),
            case(op, 13, floats(3, 4, dtype="float16"), axis=1, keepdims=0, note="float16"),
            case(op, 13, specials(4, 6, nan=False), axis=1, keepdims=0, note="infinities"),
            case(op, 13, floats(2, 1, 3), axis=1, keepdims=0, note="a unit dim"),
            case(op, 13, floats(0, 3), axis=1, keepdims=0, note="no rows"),
            case(op, 13, floats(2, 3), axis=1, keepdims=0, dynamic=((0, 0, "N"),), note="dynamic rows"),
        ]
    return cases


CUMULATED = [
    case("CumSum", 14, floats(3, 5), Const(of(1, "int64")), note="axis 1"),
    case("CumSum", 14, floats(3, 5), Const(of(-2, "int32")), note="negative axis of int32"),
    case("CumSum", 14, floats(3, 5), Const(of(1, "int64")), exclusive=1, note="exclusive"),
    case("CumSum", 14, floats(3, 5), Const(of(0, "int64")), reverse=1, note="reverse"),
    case("CumSum", 11, floats(2, 3, 4), Const(of(2, "int64")), exclusive=1, reverse=1, note="both"),
    case("CumSum", 11, ints(3, 5), Const(of(1, "int64")), note="int64"),
    case("CumSum", 14, ints(3, 5, dtype="int32"), Const(of(0, "int64")), exclusive=1, note="int32"),
    case("CumSum", 14, floats(7, dtype="float64"), Const(of(0, "int64")), note="float64"),
    case("CumSum", 14, floats(2, 0), Const(of(1, "int64")), note="no elements"),
    case("CumSum", 14, floats(2, 1, 3), Const(of(1, "int64")), exclusive=1, note="a unit dim"),
    case("CumSum", 14, specials(3, 8), Const(of(1, "int64")), note="NaN and infinities"),
]

FEW = of([[3, 1, 3, 2, 1], [0, 0, 0, 0, 0], [-1, 5, -1, 5, 2]])
TOP = [
    case("TopK", 7, floats(3, 6), k=2, outputs=2, note="k as an attribute"),
    case("TopK", 10, floats(3, 6), [3], axis=0, outputs=2, note="k as an operand"),
    case("TopK", 11, floats(3, 6), [2], largest=0, outputs=2, note="smallest"),
    case("TopK", 11, floats(2, 3, 4), [2], axis=-2, outputs=2, note="negative axis"),
    case("TopK", 11, FEW, [4], outputs=2, note="ties take the first"),
    case("TopK", 11, FEW, [3], largest=0, outputs=2, note="ties of the smallest"),
    case("TopK", 11, ints(3, 6, low=-99, high=99), [6], outputs=2, note="all of int64"),
    case("TopK", 11, floats(3, 6, dtype="float64"), [1], axis=1, outputs=2, note="float64"),
    case("TopK", 11, floats(4, 1), [1], axis=1, outputs=2, note="a unit dim"),
    case("TopK", 11, floats(3, 6), [0], outputs=2, note="none"),
    case("TopK", 11, floats(3, 6), Shaped([3]), outputs=2, note="k by Shape"),
    case("TopK", 11, floats(3, 6), [2], outputs=2, skipped=(0,), note="indices alone"),
    case("TopK", 24, floats(3, 6, dtype="float16"), [2], outputs=2, note="float16"),
]

CASES: list[Case] = [*_reduced(), *CORNERS, *_argued(), *CUMULATED, *TOP]
