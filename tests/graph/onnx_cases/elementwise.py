"""Operators that treat each element by itself."""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from tests.graph.onnx_cases.case import Case, Const, bools, case, floats, ints, of, specials, uniform

__all__ = ["CASES"]

# Functions of one number: its range, the newest opset with a change, and one before it.
UNARY: dict[str, tuple[float, float, int, int]] = {
    "Acos": (-1, 1, 22, 7),
    "Acosh": (1, 20, 22, 9),
    "Asin": (-1, 1, 22, 7),
    "Asinh": (-20, 20, 22, 9),
    "Atan": (-20, 20, 22, 7),
    "Atanh": (-0.99, 0.99, 22, 9),
    "Ceil": (-4, 4, 13, 7),
    "Celu": (-4, 4, 12, 12),
    "Cos": (-10, 10, 22, 7),
    "Cosh": (-4, 4, 22, 9),
    "Elu": (-4, 4, 22, 7),
    "Erf": (-3, 3, 13, 9),
    "Exp": (-4, 4, 13, 7),
    "Floor": (-4, 4, 13, 7),
    "HardSigmoid": (-4, 4, 22, 7),
    "HardSwish": (-4, 4, 22, 14),
    "LeakyRelu": (-4, 4, 16, 7),
    "Log": (0.01, 10, 13, 7),
    "Mish": (-4, 4, 22, 18),
    "Reciprocal": (0.1, 4, 13, 7),
    "Round": (-4, 4, 22, 11),
    "Selu": (-4, 4, 22, 7),
    "Sigmoid": (-6, 6, 13, 7),
    "Sin": (-10, 10, 22, 7),
    "Sinh": (-4, 4, 22, 9),
    "Softplus": (-6, 6, 22, 7),
    "Softsign": (-6, 6, 22, 7),
    "Sqrt": (0.01, 10, 13, 7),
    "Tan": (-1.4, 1.4, 22, 7),
    "Tanh": (-4, 4, 13, 7),
    "ThresholdedRelu": (-4, 4, 22, 10),
}
# What NaN, infinities and signed zeros become.
TOTAL = ("Ceil", "Cos", "Erf", "Exp", "Floor", "Log", "Reciprocal", "Round", "Sigmoid", "Sqrt", "Tanh")


def _unary() -> list[Case]:
    cases = []
    for op, (low, high, newest, older) in UNARY.items():
        cases += [
            case(op, newest, uniform(low, high, 2, 1, 5), note="float32"),
            case(op, older, uniform(low, high, 3, 0, 2), note="no elements"),
            case(op, newest, uniform(low, high, dtype="float32"), note="rank 0"),
        ]
        if op != "Celu":  # float32 alone, until opset 28
            cases += [
                case(op, newest, uniform(low, high, 7, dtype="float16"), note="float16"),
                case(op, older, uniform(low, high, 3, 4, dtype="float64"), note="float64"),
            ]
    cases += [case(op, UNARY[op][2], specials(4, 5), note="NaN and infinities") for op in TOTAL]
    return cases


ACTIVATIONS = [
    case("Celu", 12, uniform(-4, 4, 3, 5), alpha=0.5, note="alpha"),
    case("Elu", 22, uniform(-4, 4, 3, 5), alpha=2.5, note="alpha"),
    case("Gelu", 20, uniform(-4, 4, 3, 5), note="by erf"),
    case("Gelu", 20, uniform(-4, 4, 3, 5), approximate="tanh", note="by tanh"),
    case("Gelu", 20, uniform(-4, 4, 6, dtype="float16"), note="float16"),
    case("Gelu", 20, of([np.inf, 40.0, -40.0, 0.0, -0.0]), note="far out"),
    case("HardSigmoid", 22, uniform(-4, 4, 3, 5), alpha=0.5, beta=0.6, note="alpha and beta"),
    case("LeakyRelu", 16, specials(3, 5), alpha=0.1, note="NaN and infinities"),
    case("LeakyRelu", 16, uniform(-4, 4, 3, 5), alpha=-0.5, note="negative alpha"),
    case("Relu", 14, specials(4, 5), note="NaN and infinities"),
    case("Relu", 14, ints(3, 4, dtype="int32"), note="int32"),
    case("Relu", 7, floats(2, 0, 3), note="no elements"),
    case("Relu", 13, floats(5, dtype="float64"), note="float64"),
    case("Relu", 14, floats(5, dtype="float16"), note="float16"),
    case("Round", 22, of([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997]), note="halves to even"),
    case("Selu", 22, uniform(-4, 4, 3, 5), alpha=1.0, gamma=2.0, note="alpha and gamma"),
    case("Shrink", 9, uniform(-2, 2, 3, 5), lambd=1.5, bias=1.5, note="soft"),
    case("Shrink", 9, uniform(-2, 2, 3, 5), note="hard"),
    case("Shrink", 9, ints(3, 5, dtype="int32"), lambd=1.0, bias=2.0, note="int32"),
    case("Shrink", 9, uniform(-2, 2, 5, dtype="float64"), lambd=0.7, note="float64"),
    case("Softplus", 22, of([-100.0, 100.0, 0.0, 700.0]), note="far out"),
    case("Swish", 24, uniform(-4, 4, 3, 5), note="float32"),
    case("Swish", 24, uniform(-4, 4, 3, 5), alpha=1.7, note="alpha"),
    case("Swish", 24, uniform(-4, 4, 6, dtype="float16"), note="float16"),
    case("ThresholdedRelu", 22, of([1.0, 2.0, 2.0000002, -3.0]), alpha=2.0, note="at the threshold"),
    case("Mish", 22, of([-100.0, 100.0, 0.0, 20.5]), note="far out"),
    case("PRelu", 16, uniform(-4, 4, 2, 3, 4), Const(uniform(-1, 1, 3, 1)), note="a slope for each channel"),
    case("PRelu", 9, uniform(-4, 4, 2, 3, 4), uniform(-1, 1, 1), note="one slope"),
    case("PRelu", 16, uniform(-4, 4, 2, 3, 4), uniform(-1, 1, 3, 1), dynamic=((0, 1, "C"),), note="a dynamic channel"),
    case("PRelu", 16, ints(2, 3, dtype="int32"), ints(2, 3, dtype="int32"), note="int32"),
    case("PRelu", 7, uniform(-4, 4, 2, 3, 1, 4), uniform(-1, 1, 3, 1, 1), note="a unit dim of both"),
]

SIGNS = [
    case("Abs", 13, specials(4, 5), note="NaN and infinities"),
    case("Abs", 13, of([-128, 127, 0, -1], "int8"), note="int8 wraps"),
    case("Abs", 13, ints(2, 3, dtype="uint8", low=0, high=256), note="uint8"),
    case("Abs", 7, floats(3, dtype="float64"), note="float64"),
    case("Neg", 13, specials(4, 5), note="NaN and infinities"),
    case("Neg", 13, of([-128, 127, 0, -1], "int8"), note="int8 wraps"),
    case("Neg", 7, ints(2, 3, dtype="int32"), note="int32"),
    case("Neg", 13, floats(5, dtype="float16"), note="float16"),
    case("Sign", 13, specials(4, 5), note="NaN and infinities"),
    case("Sign", 13, ints(2, 3), note="int64"),
    case("Sign", 9, of([0, 1, 128, 255], "uint8"), note="uint8"),
    case("IsInf", 20, specials(4, 5), note="both"),
    case("IsInf", 10, specials(4, 5), detect_negative=0, note="positive alone"),
    case("IsInf", 20, specials(4, 5, dtype="float64"), detect_positive=0, note="negative alone"),
    case("IsInf", 10, specials(4, 5), detect_positive=0, detect_negative=0, note="none"),
    case("IsNaN", 20, specials(4, 5), note="float32"),
    case("IsNaN", 13, specials(4, 5, dtype="float16"), note="float16"),
    case("IsNaN", 9, specials(4, 5, dtype="float64"), note="float64"),
    case("Not", 7, bools(2, 3), note="matrix"),
    case("Not", 13, bools(), note="rank 0"),
    case("Not", 13, bools(0, 3), note="no elements"),
    case("Identity", 16, specials(4, 5), note="float32"),
    case("Identity", 7, ints(2, 0, 3, dtype="int8"), note="no elements"),
    case("Identity", 14, bools(2, 1), note="bool"),
    case("Identity", 13, Const(floats(3)), note="of a constant"),
]


def _arithmetic() -> list[Case]:
    """Broadcasting, types and opsets of the four operations."""
    cases = []
    for op in ("Add", "Sub", "Mul", "Div"):
        cases += [
            case(op, 14, floats(3, 1, 5), floats(4, 1), note="both broadcast"),
            case(op, 7, floats(2, 3), floats(), note="a scalar"),
            case(op, 13, floats(2, 0, 3), floats(1, 1, 3), note="no elements"),
            case(op, 14, floats(0, 1), floats(1, 4), note="no rows and a unit dim"),
            case(op, 14, floats(2, 3, dtype="float64"), Const(floats(3, dtype="float64")), note="float64"),
            case(op, 14, floats(2, 3, dtype="float16"), floats(2, 1, dtype="float16"), note="float16"),
            case(op, 13, ints(4, 3, dtype="int32"), ints(3, dtype="int32", low=1), note="int32"),
            case(op, 7, ints(4, 3), ints(4, 1, low=-7, high=0), note="int64"),
            case(
                op, 14, ints(9, dtype="uint8", low=0, high=256), ints(9, dtype="uint8", low=1, high=256), note="uint8"
            ),
            case(op, 14, ints(9, dtype="int8", low=-120, high=120), ints(9, dtype="int8", low=1, high=99), note="int8"),
            case(op, 14, specials(5, 1), specials(1, 5), note="NaN and infinities"),
        ]
    return cases


POWERS = [
    case("Pow", 15, uniform(0.1, 3, 3, 1, 4), uniform(-2, 2, 2, 1), note="both broadcast"),
    case("Pow", 7, uniform(0.1, 3, 3, 4), Const(of(2.0)), note="square"),
    case("Pow", 13, ints(2, 3, dtype="int32", low=1), ints(3, dtype="int32", low=0, high=4), note="int32"),
    case("Pow", 15, uniform(0.1, 3, 2, 3), ints(3, low=-2, high=3), note="float32 to int64"),
    case("Pow", 12, ints(2, 3, low=0), uniform(0, 2, 3), note="int64 to float32"),
    case("Pow", 15, of([-2.0, -2.0, 0.0, 0.0, np.nan, 1.0]), of([2.0, 0.5, 0.0, -1.0, 0.0, np.nan]), note="corners"),
    case("Pow", 15, uniform(0.1, 3, 5, dtype="float64"), uniform(-2, 2, 5, dtype="float64"), note="float64"),
    case("Mod", 13, ints(3, 1, 4, low=-9, high=9), of([[-4], [3]], "int64"), note="sign of the divisor"),
    case("Mod", 10, ints(9, dtype="int32", low=-9, high=9), of(4, "int32"), fmod=1, note="int32 as C has it"),
    case("Mod", 13, uniform(-9, 9, 3, 4), uniform(1, 3, 4), fmod=1, note="float32"),
    case("Mod", 13, uniform(-9, 9, 7, dtype="float64"), of([-2.5], "float64"), fmod=1, note="float64"),
    case("Mod", 13, uniform(-9, 9, 7, dtype="float16"), of([2.5], "float16"), fmod=1, note="float16"),
    case("Mod", 13, ints(9, dtype="uint8", low=0, high=256), of([7], "uint8"), note="uint8"),
    case("Mod", 13, ints(9, dtype="int8", low=-128, high=128), of([-7], "int8"), note="int8"),
    case("Mod", 13, of([np.inf, 5.0, np.nan, -0.0]), of([2.0, np.inf, 1.0, 3.0]), fmod=1, note="corners"),
]


def _variadic() -> list[Case]:
    cases = []
    for op in ("Max", "Min", "Mean", "Sum"):
        cases += [
            case(op, 13, floats(3, 1), floats(1, 4), floats(2, 1, 1), note="three broadcast"),
            case(op, 8, floats(2, 3), note="one operand"),
            case(op, 13, specials(5, 1), specials(1, 5), note="NaN and infinities"),
            case(op, 13, floats(0, 3), floats(1, 3), note="no elements"),
            case(op, 7 if op in ("Mean", "Sum") else 8, floats(4), floats(4), note="two alike"),
            case(op, 13, floats(9, dtype="float64"), of(0.1, "float64"), note="float64"),
            case(op, 13, floats(3, dtype="float16"), floats(2, 1, dtype="float16"), note="float16"),
        ]
    for op in ("Max", "Min"):
        cases += [
            case(op, 13, ints(3, 1, dtype="int32"), ints(4, dtype="int32"), note="int32"),
            case(op, 12, ints(3), ints(2, 1), ints(), note="int64"),
            case(op, 13, ints(6, dtype="uint8", low=0, high=256), of([128], "uint8"), note="uint8"),
            case(op, 13, ints(6, dtype="int8"), of([0], "int8"), note="int8"),
            case(op, 13, of([0.0, -0.0, np.nan, 1.0]), of([-0.0, 0.0, 1.0, np.nan]), note="zeros and NaN"),
        ]
    return cases


def _compared() -> list[Case]:
    cases = []
    for op, newest, older in (
        ("Equal", 19, 11),
        ("Greater", 13, 9),
        ("GreaterOrEqual", 16, 12),
        ("Less", 13, 9),
        ("LessOrEqual", 16, 12),
    ):
        cases += [
            case(op, newest, specials(5, 1), specials(1, 5), note="NaN and infinities"),
            case(op, older, ints(3, 1, 4), ints(2, 1), note="int64 both broadcast"),
            case(op, newest, ints(6, dtype="int32", high=0), ints(6, dtype="int32", high=0), note="int32"),
            case(op, newest, of([0, 127, 128, 255], "uint8"), of([128], "uint8"), note="uint8"),
            case(op, newest, floats(0, 3), floats(3), note="no elements"),
            case(op, newest, ints(4, 3, dtype="float16", low=-2, high=3), of(1.0, "float16"), note="float16"),
            case(op, older, of([0, 1, 2, 2], "float64"), of([1, 1, 1, 2 + 1e-15], "float64"), note="float64"),
        ]
    cases.append(case("Equal", 13, bools(3, 1), bools(4), note="bool"))
    for op in ("And", "Or", "Xor"):
        cases += [
            case(op, 7, bools(2, 3), bools(2, 3), note="alike"),
            case(op, 13, bools(3, 1, 2), bools(4, 1), note="both broadcast"),
            case(op, 7, bools(2, 0), bools(), note="no elements"),
        ]
    return cases


def _bits() -> list[Case]:
    cases = []
    for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor"):
        cases += [
            case(op, 18, ints(3, 1, dtype="int32", low=-99, high=99), ints(4, dtype="int32"), note="int32 broadcast"),
            case(op, 18, ints(6, dtype="uint8", low=0, high=256), of([170], "uint8"), note="uint8"),
            case(op, 18, ints(2, 3, low=-(2**40), high=2**40), ints(2, 3), note="int64"),
            case(op, 18, ints(6, dtype="int8", low=-128, high=128), ints(6, dtype="int8"), note="int8"),
        ]
    for direction in ("LEFT", "RIGHT"):
        for dtype in ("uint8", "uint32", "uint64"):
            x = ints(3, 1, dtype=dtype, low=0, high=256)
            cases.append(
                case(
                    "BitShift",
                    11,
                    x,
                    ints(4, dtype=dtype, low=0, high=8),
                    direction=direction,
                    note=f"{dtype} {direction}",
                )
            )
    return [
        *cases,
        case("BitwiseNot", 18, ints(6, dtype="int32", low=-99, high=99), note="int32"),
        case("BitwiseNot", 18, ints(2, 3, dtype="uint8", low=0, high=256), note="uint8"),
        case("BitwiseNot", 18, ints(2, 0), note="no elements"),
        case("BitwiseNot", 18, of(-1, "int8"), note="int8 rank 0"),
    ]


CHOSEN = [
    case("Where", 16, bools(3, 1), floats(1, 4), floats(2, 1, 1), note="three broadcast"),
    case("Where", 9, bools(2, 3), ints(2, 3), ints(2, 3), note="int64"),
    case("Where", 16, bools(4), specials(3, 4), Const(of(0.0)), note="NaN that is not chosen"),
    case("Where", 16, bools(), floats(2, 3), floats(2, 3), note="one condition"),
    case("Where", 16, bools(0, 1), floats(3), floats(1, 1), note="no elements"),
    case("Where", 9, bools(4), ints(4, dtype="uint8", low=0), ints(4, dtype="uint8", low=0), note="uint8"),
    case("Where", 16, bools(4), bools(4), bools(4), note="bool"),
    case("Clip", 6, uniform(-4, 4, 3, 4), min=-1.0, max=2.0, note="limits as attributes"),
    case("Clip", 7, uniform(-4, 4, 3, 4), max=0.5, note="one attribute"),
    case("Clip", 11, uniform(-4, 4, 3, 4), Const(of(-1.0)), Const(of(2.0)), note="limits as operands"),
    case("Clip", 13, uniform(-4, 4, 3, 4), None, of(0.5), note="no lower limit"),
    case("Clip", 13, uniform(-4, 4, 3, 4), of(0.5), note="no upper limit"),
    case("Clip", 12, ints(3, 4), of(-2, "int64"), of(3, "int64"), note="int64"),
    case("Clip", 13, ints(9, dtype="uint8", low=0, high=256), of(10, "uint8"), of(99, "uint8"), note="uint8"),
    case("Clip", 13, ints(9, dtype="int8", low=-99, high=99), of(-10, "int8"), of(9, "int8"), note="int8"),
    case("Clip", 13, uniform(-4, 4, 5), of(2.0), of(-1.0), note="the lower limit above the upper one"),
    case("Clip", 13, specials(3, 4), of(-1.0), of(1.0), note="NaN and infinities"),
    case("Clip", 13, uniform(-4, 4, 5, dtype="float64"), of(-1, "float64"), of(1, "float64"), note="float64"),
    case("Clip", 13, uniform(-4, 4, 5, dtype="float16"), of(-1, "float16"), of(1, "float16"), note="float16"),
    case("Clip", 13, floats(2, 0), of(-1.0), of(1.0), note="no elements"),
]


def _casts() -> list[Case]:
    wide = uniform(-99, 99, 3, 4)
    cases = [
        case("Cast", 13, wide, to=TensorProto.INT32, note="float32 to int32 truncates"),
        case("Cast", 9, wide, to=TensorProto.INT64, note="float32 to int64"),
        case("Cast", 13, wide, to=TensorProto.INT8, note="float32 to int8"),
        case("Cast", 13, uniform(0, 200, 6), to=TensorProto.UINT8, note="float32 to uint8"),
        case("Cast", 13, specials(3, 4), to=TensorProto.BOOL, note="float32 to bool"),
        case("Cast", 13, specials(3, 4), to=TensorProto.DOUBLE, note="float32 to float64"),
        case("Cast", 13, of([1e-9, 65504.0, 65520.0, 1e9, -0.0]), to=TensorProto.FLOAT16, note="float32 to float16"),
        case("Cast", 13, uniform(-9, 9, 5, dtype="float64"), to=TensorProto.FLOAT, note="float64 to float32"),
        case("Cast", 13, uniform(-9, 9, 5, dtype="float16"), to=TensorProto.FLOAT, note="float16 to float32"),
        case("Cast", 13, bools(5), to=TensorProto.FLOAT, note="bool to float32"),
        case("Cast", 13, bools(5), to=TensorProto.INT64, note="bool to int64"),
        case("Cast", 13, ints(9, low=-999, high=999), to=TensorProto.INT8, note="int64 to int8 wraps"),
        case("Cast", 13, ints(9, dtype="int32", low=-999, high=999), to=TensorProto.UINT8, note="int32 to uint8 wraps"),
        case("Cast", 13, ints(9), to=TensorProto.BOOL, note="int64 to bool"),
        case("Cast", 7, of([2**24 + 1, 2**53 + 1, -(2**62)], "int64"), to=TensorProto.FLOAT, note="int64 to float32"),
        case("Cast", 19, floats(0, 3), to=TensorProto.INT32, note="no elements"),
        case("Cast", 13, of([1.0, 1.00390625, 1.01171875, -3e38]), to=TensorProto.BFLOAT16, note="float32 to bfloat16"),
        case("Cast", 13, floats(5, dtype="bfloat16"), to=TensorProto.FLOAT, note="bfloat16 to float32"),
    ]
    cases += [
        case("CastLike", 15, wide, of([0], "int32"), note="int32"),
        case("CastLike", 19, ints(2, 3), Const(floats(1, dtype="float64")), note="float64"),
        case("CastLike", 15, floats(2, 3), bools(0), note="bool"),
        case("CastLike", 15, bools(2, 3), floats(dtype="float16"), note="float16"),
    ]
    return cases


CASES: list[Case] = [
    *_unary(),
    *ACTIVATIONS,
    *SIGNS,
    *_arithmetic(),
    *POWERS,
    *_variadic(),
    *_compared(),
    *_bits(),
    *CHOSEN,
    *_casts(),
]
