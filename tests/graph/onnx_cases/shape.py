"""Operators that move, choose and make elements."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto, numpy_helper

from tests.graph.onnx_cases.case import Case, Const, Shaped, bools, case, floats, ints, of, specials

__all__ = ["CASES"]

X = floats(2, 3, 4)
RESHAPED = [
    case("Reshape", 14, X, [4, 6], note="numbers"),
    case("Reshape", 13, X, [2, -1], note="one is computed"),
    case("Reshape", 7, X, [0, 0, 2, 2], note="zeros copy"),
    case("Reshape", 14, X, [0, -1], note="zero and minus one"),
    case("Reshape", 14, X, Shaped([6, 4]), note="by Shape"),
    case("Reshape", 14, X, Shaped([2, -1]), dynamic=((0, 0, "N"),), note="by Shape of dynamic rows"),
    case("Reshape", 14, X, [-1, 12], dynamic=((0, 0, "N"),), note="dynamic rows"),
    case("Reshape", 14, X, [0, 2, 6], dynamic=((0, 0, "N"),), note="dynamic rows are copied"),
    case("Reshape", 14, floats(2, 0, 3), [0, 6], allowzero=1, note="zero means zero"),
    case("Reshape", 14, floats(0, 3), [3, 0, 2], allowzero=1, note="no elements"),
    case("Reshape", 14, floats(1, 1), [], note="to rank 0"),
    case("Reshape", 21, ints(2, 6, dtype="uint8", low=0), [3, 4], note="uint8"),
    case("Flatten", 13, X, note="defaults"),
    case("Flatten", 11, X, axis=-1, note="negative axis"),
    case("Flatten", 9, X, axis=0, note="one row"),
    case("Flatten", 13, X, axis=3, note="one column"),
    case("Flatten", 7, floats(2, 3, 1, 2), axis=2, note="unit dim"),
    case("Flatten", 13, floats(2, 0, 3), note="no elements"),
    case("Flatten", 13, X, dynamic=((0, 0, "N"),), note="dynamic rows"),
    case("Transpose", 13, X, note="reverses"),
    case("Transpose", 7, X, perm=[1, 2, 0], note="rotates"),
    case("Transpose", 13, floats(2, 1, 3, 1), perm=[0, 3, 1, 2], note="unit dims"),
    case("Transpose", 13, floats(), note="rank 0"),
    case("Transpose", 21, bools(2, 0, 3), perm=[2, 0, 1], note="no elements"),
    case("Squeeze", 11, floats(1, 3, 1, 2), axes=[0, -2], note="axes as an attribute"),
    case("Squeeze", 7, floats(1, 3, 1, 2), axes=[2], note="one axis"),
    case("Squeeze", 13, floats(1, 3, 1, 2), [-2], note="axes as an operand"),
    case("Squeeze", 13, floats(1, 3, 1, 2), note="all"),
    case("Squeeze", 11, floats(1, 1), note="all to rank 0"),
    case("Unsqueeze", 11, floats(3, 2), axes=[0, 3], note="axes as an attribute"),
    case("Unsqueeze", 11, floats(3, 2), axes=[-1, 1], note="axes in any order"),
    case("Unsqueeze", 13, floats(3, 2), [-1, -4], note="axes as an operand"),
    case("Unsqueeze", 13, floats(), [0], note="of rank 0"),
    case("Unsqueeze", 7, ints(0, 3), axes=[1], note="no elements"),
]

JOINED = [
    case("Concat", 13, floats(2, 3), floats(2, 1), floats(2, 4), axis=1, note="three"),
    case("Concat", 11, floats(2, 3), floats(1, 3), axis=-2, note="negative axis"),
    case("Concat", 13, floats(2, 3), axis=0, note="one"),
    case("Concat", 13, floats(2, 0), floats(2, 3), floats(2, 0), axis=1, note="empty ones"),
    case("Concat", 7, ints(3), ints(2), axis=0, note="int64"),
    case("Concat", 13, floats(2, 3), Const(floats(2, 2)), axis=1, dynamic=((0, 1, "N"),), note="a dynamic axis"),
    case("Split", 7, floats(6, 2), split=[1, 2, 3], axis=0, outputs=3, note="sizes as an attribute"),
    case("Split", 11, floats(2, 6), axis=-1, outputs=3, note="equal parts"),
    case("Split", 13, floats(2, 6), [1, 0, 5], axis=1, outputs=3, note="sizes as an operand"),
    case("Split", 13, floats(6, 2), outputs=2, note="equal parts of the default axis"),
    case("Split", 18, floats(2, 7), axis=1, num_outputs=3, outputs=3, note="a smaller last part"),
    case(
        "Split",
        18,
        floats(2, 6),
        [2, 4],
        axis=-1,
        outputs=2,
        skipped=(0,),
        note="the second part alone",
        trust_reference="onnxruntime 1.32 dies of a segmentation fault when a part is not asked for",
    ),
    case("Split", 13, ints(4), [4], axis=0, note="one part"),
    case("Split", 13, floats(2, 6), [2, 4], axis=1, outputs=2, dynamic=((0, 0, "N"),), note="dynamic rows"),
]

LAST = 2**63 - 1
CUT = [
    case("Slice", 7, X, starts=[0, 1], ends=[2, 3], axes=[0, 2], note="limits as attributes"),
    case("Slice", 9, X, starts=[1, -3], ends=[2, LAST], note="no axes"),
    case("Slice", 10, X, [1], [3], [2], note="limits as operands"),
    case("Slice", 13, X, [-1, 3], [-100, 0], [1, 2], [-1, -2], note="backwards"),
    case("Slice", 13, X, [0], [LAST], [-1], [3], note="steps of a negative axis"),
    case("Slice", 11, X, [2], [1], [1], note="nothing"),
    case("Slice", 13, X, [5], [9], [1], note="beyond the end"),
    case("Slice", 13, X, [-100], [100], [0], note="all"),
    case(
        "Slice",
        13,
        X,
        Const(of([1, 0], "int32")),
        Const(of([3, 4], "int32")),
        Const(of([1, 2], "int32")),
        note="limits of int32",
    ),
    case("Slice", 13, X, [0, 1], Shaped([1, 2]), [1, 2], note="ends by Shape"),
    case("Slice", 13, floats(5, 4), [1], [3], [1], dynamic=((0, 0, "N"),), note="dynamic rows"),
    case("Slice", 13, floats(5, 4), [0], [-1], [0], dynamic=((0, 0, "N"),), note="a dynamic axis"),
    case(
        "Slice", 13, floats(5, 4), [-1], [-(2**63)], [0], [-1], dynamic=((0, 0, "N"),), note="a dynamic axis backwards"
    ),
    case("Slice", 13, ints(8, dtype="uint8", low=0), [6], [0], [0], [-3], note="uint8"),
    case("Slice", 13, floats(5, 4), [-6], [-(2**63)], [0], [-2], note="backwards from before the first"),
    case("Gather", 13, X, of([[2, 0], [-1, 1]], "int64"), axis=1, note="negative indices"),
    case("Gather", 11, X, of(1, "int32"), axis=-1, note="one index"),
    case("Gather", 7, floats(5, 3), ints(2, 2, low=0, high=5), note="rows"),
    case("Gather", 13, floats(5, 3), ints(0), note="none"),
    case("Gather", 13, Const(floats(9, 4)), ints(2, 3, low=0, high=9), dynamic=((1, 0, "N"),), note="rows of a table"),
    case("Gather", 13, bools(4), [3, 0], note="bool"),
    case("GatherElements", 13, X, ints(2, 3, 2, low=-4, high=4), axis=2, note="last axis"),
    case("GatherElements", 11, X, ints(1, 5, 3, low=0, high=3), axis=1, note="longer than the operand"),
    case("GatherElements", 13, X, ints(2, 2, 4, dtype="int32", low=0, high=2), axis=-3, note="negative axis"),
    case("GatherND", 13, X, ints(5, 2, low=-2, high=2), note="rows"),
    case("GatherND", 11, X, of([[1, 2, 3], [0, -1, 0]], "int64"), note="elements"),
    case("GatherND", 12, X, of([[[2], [0]], [[1], [1]]], "int64"), batch_dims=1, note="a batch axis"),
    case("GatherND", 13, X, of([[1]], "int64"), note="one block"),
    case("Compress", 11, X, of([False, True, True], "bool"), axis=1, note="axis 1"),
    case("Compress", 11, X, Const(of([True, False, False, True], "bool")), axis=-1, note="a constant condition"),
    case("Compress", 9, X, Const(of([False, True, False, True, True], "bool")), note="of the flattened"),
    case("Compress", 11, X, Const(of([False, False], "bool")), axis=0, note="none"),
    case("NonZero", 13, of([[1, 0, 2], [0, 3, 0]], "int64"), note="int64"),
    case("NonZero", 9, specials(3, 4), note="NaN and zeros"),
    case("NonZero", 13, bools(2, 3, 2), note="bool"),
    case("NonZero", 13, Const(of([0.0, 1.0, 0.0, -2.0])), note="of a constant"),
    case("NonZero", 13, of([0.0, 0.0]), note="none"),
]


def _scattered() -> list[Case]:
    rows = of([[1, 0, 2], [0, 2, 1]], "int64")
    again = of([[1, 1, 1], [0, -1, 0]], "int64")
    cases = [
        case("ScatterElements", 11, floats(3, 3), rows, floats(2, 3), note="rows"),
        case(
            "ScatterElements",
            13,
            X,
            ints(1, 2, 4, low=0, high=1),
            floats(1, 2, 4),
            axis=1,
            note="less than the operand",
        ),
        case("ScatterElements", 18, floats(1, 5), of([[1, -2]], "int64"), floats(1, 2), axis=-1, note="negative axis"),
        case("ScatterElements", 18, floats(3, 4), ints(0, 4), floats(0, 4), note="none"),
        case("ScatterND", 11, floats(8), of([[4], [3], [1], [7]], "int64"), floats(4), note="elements"),
        case("ScatterND", 13, floats(4, 3, 2), of([[0], [-2]], "int64"), floats(2, 3, 2), note="blocks"),
        case("ScatterND", 18, X, of([[[0, 1]], [[1, -1]]], "int64"), floats(2, 1, 4), note="rows"),
        case("ScatterND", 16, floats(2, 2), of([[1, 1]], "int64"), floats(1), reduction="add", note="adds one"),
    ]
    for reduction in ("add", "mul", "max", "min"):
        opset = 16 if reduction in ("add", "mul") else 18
        cases += [
            case(
                "ScatterElements", opset, floats(3, 3), again, floats(2, 3), axis=1, reduction=reduction, note=reduction
            ),
            case(
                "ScatterND",
                opset,
                floats(4, 2),
                of([[1], [1], [3]], "int64"),
                floats(3, 2),
                reduction=reduction,
                note=reduction,
            ),
        ]
    cases.append(
        case("ScatterElements", 18, ints(3, 3), again, ints(2, 3), axis=0, reduction="add", note="add of int64")
    )
    return cases


PADDED = [
    case("Pad", 7, X, pads=[0, 1, 2, 1, 0, 0], value=1.5, note="pads as an attribute"),
    case("Pad", 7, X, pads=[0, 1, 1, 0, 2, 0], mode="reflect", note="reflect as an attribute"),
    case("Pad", 11, X, [0, 1, 2, 1, 0, 0], Const(of(1.5)), note="pads as operands"),
    case("Pad", 13, X, [0, 0, 1, 0, 0, 2], note="with zeros"),
    case("Pad", 13, X, [0, -1, 1, 0, 0, -2], Const(of(-1.0)), note="negative pads cut"),
    case("Pad", 13, X, [0, 1, 3, 0, 2, 1], mode="reflect", note="reflect"),
    case("Pad", 13, X, [1, 0, 5, 2, 3, 0], mode="edge", note="edge"),
    case("Pad", 19, X, [0, 1, 3, 0, 2, 1], mode="wrap", note="wrap"),
    case("Pad", 18, X, [1, 2, 0, 3], Const(of(2.5)), [2, -2], note="some axes"),
    case("Pad", 18, X, [1, 1], None, [0], mode="edge", note="edge of one axis"),
    case("Pad", 13, X, Shaped([0, 1, 1, 1, 0, 0]), Const(of(1.5)), note="pads by Shape"),
    case("Pad", 13, ints(2, 3, dtype="int32"), [1, 0, 0, 1], Const(of(7, "int32")), note="int32"),
    case("Pad", 13, bools(2, 3), [1, 0, 0, 1], Const(of(True, "bool")), note="bool"),
    case("Pad", 13, floats(2, 0), [1, 1, 0, 1], Const(of(1.5)), note="no elements"),
    case("Pad", 13, X, [0, 1, 2, 0, 0, 0], dynamic=((0, 0, "N"),), note="dynamic rows"),
]

REPEATED = [
    case("Expand", 13, floats(3, 1), [2, 1, 4], note="both broadcast"),
    case("Expand", 8, floats(3, 1), [1, 4], note="unit dims of the shape"),
    case("Expand", 13, floats(3, 1), [1], note="less than the operand"),
    case("Expand", 13, floats(3, 1), Shaped([3, 5]), note="by Shape"),
    case("Expand", 13, floats(1, 3), [0, 3], note="no elements"),
    case("Expand", 13, floats(), [2, 3], note="of rank 0"),
    case("Expand", 13, floats(3, 1), [1, 4], dynamic=((0, 0, "N"),), note="dynamic rows"),
    case("Tile", 13, floats(2, 3), [2, 2], note="both axes"),
    case("Tile", 7, floats(2, 1, 3), [1, 4, 1], note="a unit dim"),
    case("Tile", 13, floats(2, 3), [0, 2], note="none"),
    case("Tile", 13, floats(2, 3), Shaped([1, 2]), note="by Shape"),
    case("Tile", 13, ints(3), [2], note="int64"),
    case("Tile", 13, floats(2, 3), [1, 3], dynamic=((0, 0, "N"),), note="dynamic rows"),
]

MADE = [
    case("Shape", 13, X, note="all"),
    case("Shape", 15, X, start=-2, note="from the last but one on"),
    case("Shape", 15, X, start=0, end=-1, note="without the last"),
    case("Shape", 19, X, start=-9, end=9, note="limits beyond"),
    case("Shape", 15, X, start=2, end=1, note="nothing"),
    case("Shape", 7, floats(), note="of rank 0"),
    case("Shape", 13, floats(2, 0, 3), dynamic=((0, 0, "N"),), note="a dynamic extent"),
    case("Size", 13, X, note="all"),
    case("Size", 7, floats(2, 0), note="no elements"),
    case("Size", 19, bools(), note="of rank 0"),
    case("Constant", 13, value=numpy_helper.from_array(np.arange(6, dtype=np.int32).reshape(2, 3)), note="tensor"),
    case("Constant", 12, value_float=1.5, note="a float"),
    case("Constant", 13, value_ints=[3, -1, 2], note="ints"),
    case("Constant", 7, value=numpy_helper.from_array(np.zeros((0, 2), np.float32)), note="no elements"),
    case("ConstantOfShape", 9, [2, 3], note="zeros of float32"),
    case("ConstantOfShape", 20, [2, 0], value=numpy_helper.from_array(np.array([7], np.int64)), note="no elements"),
    case("ConstantOfShape", 9, [], value=numpy_helper.from_array(np.array([True])), note="rank 0 of bool"),
    case("EyeLike", 9, floats(3, 4), k=1, note="upper"),
    case("EyeLike", 22, ints(4, 3, dtype="int32"), k=-2, note="lower of int32"),
    case("EyeLike", 9, bools(2, 3), dtype=TensorProto.DOUBLE, note="another type"),
    case("EyeLike", 9, floats(2, 3), k=5, note="outside"),
    case("Trilu", 14, floats(3, 4), note="upper"),
    case("Trilu", 14, floats(2, 4, 3), Const(of(-1, "int64")), note="upper from below the diagonal"),
    case("Trilu", 14, ints(3, 4), Const(of(1, "int64")), upper=0, note="lower"),
    case("Trilu", 14, floats(2, 0, 3), upper=0, note="no elements"),
    case("Trilu", 14, bools(4, 4), Const(of(9, "int64")), upper=0, note="all of bool"),
    case("Range", 11, *(Const(of(v, "int64")) for v in (2, 11, 3)), note="int64"),
    case("Range", 11, *(Const(of(v, "int32")) for v in (5, -4, -2)), note="backwards"),
    case("Range", 11, *(Const(of(v)) for v in (0.5, 2.0, 0.25)), note="float32"),
    case("Range", 11, *(Const(of(v, "int64")) for v in (5, 5, 1)), note="nothing"),
    case("OneHot", 11, of([1, 0, 3, -1], "int64"), Const(of(4, "int64")), Const(of([0.0, 1.0])), note="last axis"),
    case(
        "OneHot",
        9,
        ints(2, 3, low=0, high=5),
        Const(of([5], "int64")),
        Const(of([2, 9], "int64")),
        axis=0,
        note="first axis",
    ),
    case(
        "OneHot",
        11,
        ints(2, 3, low=0, high=5),
        Const(of(5, "int64")),
        Const(of([0.5, -0.5])),
        axis=-2,
        note="negative axis",
    ),
    case("OneHot", 11, of([7, -8, 2], "int64"), Const(of(3, "int64")), Const(of([0.0, 1.0])), note="outside is off"),
]

BLOCKS = [
    case("DepthToSpace", 13, floats(2, 8, 2, 3), blocksize=2, note="depth first"),
    case("DepthToSpace", 11, floats(1, 8, 2, 3), blocksize=2, mode="CRD", note="columns first"),
    case("DepthToSpace", 7, floats(1, 9, 1, 1), blocksize=3, note="unit dims"),
    case("SpaceToDepth", 13, floats(2, 2, 4, 6), blocksize=2, note="blocks of two"),
    case("SpaceToDepth", 7, floats(1, 1, 3, 6), blocksize=3, note="blocks of three"),
    case("SpaceToDepth", 13, floats(1, 3, 2, 2), blocksize=1, note="blocks of one"),
    case("ReverseSequence", 10, floats(4, 3), of([1, 4, 2], "int64"), note="time first"),
    case("ReverseSequence", 10, floats(3, 4, 2), of([4, 1, 3], "int64"), batch_axis=0, time_axis=1, note="batch first"),
    case("ReverseSequence", 10, floats(2, 2), of([2, 2], "int64"), batch_axis=1, time_axis=0, note="all"),
]

CASES: list[Case] = [*RESHAPED, *JOINED, *CUT, *_scattered(), *PADDED, *REPEATED, *MADE, *BLOCKS]
