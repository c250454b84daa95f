"""Products, convolutions, and both on quantized numbers."""

from __future__ import annotations

from typing import Any

from tests.graph.onnx_cases.case import Case, Const, case, floats, ints, of, uniform

__all__ = ["CASES"]

PRODUCTS = [
    case("MatMul", 13, floats(3, 4), floats(4, 5), note="matrices"),
    case("MatMul", 13, floats(2, 1, 3, 4), floats(5, 4, 2), note="both broadcast"),
    case("MatMul", 9, floats(4), floats(4, 5), note="a vector from the left"),
    case("MatMul", 13, floats(2, 3, 4), floats(4), note="a vector from the right"),
    case("MatMul", 13, floats(4), floats(4), note="two vectors to rank 0"),
    case("MatMul", 13, floats(4), floats(2, 4, 3), note="a vector and a batch"),
    case("MatMul", 13, floats(3, 0), floats(0, 2), note="nothing to sum"),
    case("MatMul", 13, floats(0, 3), floats(3, 2), note="no rows"),
    case("MatMul", 13, floats(1, 1), floats(1, 5), note="unit dims"),
    case("MatMul", 13, floats(3, 4, dtype="float64"), floats(4, 5, dtype="float64"), note="float64"),
    case("MatMul", 13, floats(3, 64, dtype="float16"), floats(64, 5, dtype="float16"), note="float16"),
    case("MatMul", 13, ints(3, 4, dtype="int32"), ints(4, 5, dtype="int32"), note="int32"),
    case("MatMul", 13, ints(2, 3, 4), ints(4, 5), note="int64"),
    case("MatMul", 13, floats(3, 4), Const(floats(4, 5)), dynamic=((0, 0, "N"),), note="dynamic rows"),
    case("Gemm", 13, floats(3, 4), floats(4, 5), floats(5), note="a row is added"),
    case("Gemm", 13, floats(4, 3), Const(floats(5, 4)), floats(3, 1), transA=1, transB=1, note="both transposed"),
    case("Gemm", 11, floats(3, 4), floats(5, 4), alpha=0.5, transB=1, note="nothing is added"),
    case("Gemm", 13, floats(3, 4), floats(4, 5), floats(3, 5), alpha=0.25, beta=0.35, note="alpha and beta"),
    case("Gemm", 9, floats(3, 4), floats(4, 5), floats(), beta=2.0, note="a scalar is added"),
    case("Gemm", 7, floats(3, 4), floats(4, 5), floats(1, 5), beta=0.0, note="beta of zero"),
    case("Gemm", 13, floats(3, 4, dtype="float64"), floats(4, 5, dtype="float64"), note="float64"),
    case("Gemm", 13, floats(3, 8, dtype="float16"), floats(8, 5, dtype="float16"), note="float16"),
    case("Gemm", 13, floats(0, 4), floats(4, 5), floats(5), note="no rows"),
    case("Gemm", 13, floats(3, 0), floats(0, 5), floats(5), note="nothing to sum"),
]

A, B = floats(2, 3, 4), floats(2, 4, 5)
EQUATIONS = [
    case("Einsum", 12, A, B, equation="bij,bjk->bik", note="batched product"),
    case("Einsum", 12, floats(3, 4), floats(4, 5), equation="ij,jk", note="implicit results"),
    case("Einsum", 12, floats(3, 4), equation="ij->ji", note="transpose"),
    case("Einsum", 12, floats(3, 3), equation="ii->i", note="diagonal"),
    case("Einsum", 12, floats(3, 3), equation="ii", note="trace"),
    case("Einsum", 12, floats(3, 4), equation="ij->", note="sum of all"),
    case(
        "Einsum", 12, floats(2, 1, 3, 4), floats(1, 5, 4, 2), equation="...ij,...jk->...ik", note="ellipsis broadcast"
    ),
    case("Einsum", 12, floats(3), floats(4), equation="i,j->ij", note="outer product"),
    case("Einsum", 12, floats(2, 3), floats(3, 4), floats(4, 2), equation="ij,jk,kl->il", note="three operands"),
    case("Einsum", 12, A, floats(2, 3, 4), equation=" b i j , b i j -> b ", note="spaces"),
    case("Einsum", 12, floats(2, 4, 6, 3), floats(2, 4, 5, 3), equation="bhqd,bhkd->bhqk", note="scores of attention"),
    case("Einsum", 12, ints(3, 4, dtype="int32"), ints(4, 2, dtype="int32"), equation="ij,jk->ik", note="int32"),
    case("Einsum", 12, floats(3, 4, dtype="float64"), floats(3, dtype="float64"), equation="ij,i->j", note="float64"),
]

X, W = floats(2, 3, 7, 8), Const(floats(4, 3, 3, 3))
CONVOLUTIONS = [
    case("Conv", 11, X, W, note="defaults"),
    case("Conv", 22, X, W, Const(floats(4)), pads=[1, 0, 2, 3], note="bias and uneven pads"),
    case("Conv", 11, X, W, strides=[2, 3], dilations=[1, 2], pads=[1, 1, 1, 1], note="strides and dilations"),
    case("Conv", 11, X, W, auto_pad="SAME_UPPER", strides=[2, 2], note="same upper"),
    case("Conv", 11, X, W, auto_pad="SAME_LOWER", strides=[2, 3], note="same lower"),
    case("Conv", 11, X, W, auto_pad="VALID", kernel_shape=[3, 3], note="valid"),
    case("Conv", 11, X, Const(floats(4, 3, 2, 2)), auto_pad="SAME_UPPER", note="same upper of an even kernel"),
    case("Conv", 11, floats(1, 4, 5, 5), Const(floats(6, 2, 3, 3)), Const(floats(6)), group=2, note="groups"),
    case("Conv", 11, floats(1, 4, 5, 5), floats(4, 1, 3, 3), group=4, pads=[1, 1, 1, 1], note="depthwise"),
    case("Conv", 11, floats(1, 2, 5, 5), floats(6, 1, 3, 3), group=2, note="three of each channel"),
    case(
        "Conv", 7, floats(2, 3, 9), Const(floats(4, 3, 3)), Const(floats(4)), pads=[2, 0], strides=[2], note="one axis"
    ),
    case("Conv", 11, floats(1, 2, 4, 5, 6), floats(3, 2, 2, 3, 2), pads=[0, 1, 1, 1, 0, 0], note="three axes"),
    case("Conv", 11, X, Const(floats(5, 3, 1, 1)), strides=[2, 2], note="pointwise with strides"),
    case("Conv", 11, floats(1, 1, 1, 1), floats(1, 1, 3, 3), pads=[1, 1, 1, 1], note="unit dims"),
    case("Conv", 11, floats(0, 3, 7, 8), W, note="no images"),
    case("Conv", 22, floats(1, 2, 5, 5, dtype="float64"), floats(2, 2, 3, 3, dtype="float64"), note="float64"),
    case("Conv", 22, floats(1, 2, 5, 5, dtype="float16"), floats(2, 2, 3, 3, dtype="float16"), note="float16"),
    case("Conv", 11, X, W, pads=[1, 1, 1, 1], dynamic=((0, 0, "N"), (0, 2, "H")), note="dynamic batch and rows"),
]

T = Const(floats(3, 4, 3, 3))
TRANSPOSED = [
    case("ConvTranspose", 11, X, T, note="defaults"),
    case(
        "ConvTranspose", 22, X, T, Const(floats(4)), strides=[2, 3], pads=[1, 0, 0, 2], note="bias strides uneven pads"
    ),
    case("ConvTranspose", 11, X, T, strides=[3, 2], output_padding=[2, 1], note="output padding"),
    case("ConvTranspose", 11, X, T, strides=[2, 2], output_shape=[15, 16], note="output shape"),
    case("ConvTranspose", 11, X, T, strides=[2, 2], output_shape=[16, 18], note="an output shape beyond the output"),
    case("ConvTranspose", 11, X, T, dilations=[2, 2], note="dilations"),
    case("ConvTranspose", 11, X, T, strides=[2, 2], auto_pad="SAME_UPPER", note="same upper"),
    case("ConvTranspose", 11, X, T, strides=[2, 2], auto_pad="SAME_LOWER", note="same lower"),
    case("ConvTranspose", 11, floats(1, 4, 5, 5), Const(floats(4, 3, 3, 3)), group=2, note="groups"),
    case("ConvTranspose", 11, floats(2, 3, 6), Const(floats(3, 2, 4)), strides=[2], pads=[1, 1], note="one axis"),
    case("ConvTranspose", 11, floats(1, 2, 3, 3, 3), floats(2, 2, 2, 2, 2), strides=[1, 2, 2], note="three axes"),
    case("ConvTranspose", 11, floats(1, 4, 5, 5), floats(4, 1, 2, 2), group=4, strides=[2, 2], note="depthwise"),
]

POINT_X, POINT_W = Const(of(130, "uint8")), Const(of(120, "uint8"))
QX, QW = ints(1, 2, 5, 6, dtype="uint8", low=0, high=256), Const(ints(3, 2, 3, 3, dtype="uint8", low=0, high=256))


def scale(*values: float) -> Const:
    return Const(of(values if len(values) > 1 else values[0]))


def point(*values: int, dtype: str = "uint8") -> Const:
    return Const(of(values if len(values) > 1 else values[0], dtype))


U8: dict[str, Any] = {"dtype": "uint8", "low": 0, "high": 256}
I8: dict[str, Any] = {"dtype": "int8", "low": -60, "high": 60}
"""Not all of int8: beside uint8, onnxruntime sums pairs of products in int16, and saturates, on CPUs without VNNI."""
INTEGERS = [
    case("MatMulInteger", 10, ints(3, 4, **U8), ints(4, 5, **U8), note="no zero points"),
    case(
        "MatMulInteger", 10, ints(3, 4, **U8), ints(4, 5, **I8), point(128), point(3, dtype="int8"), note="both points"
    ),
    case("MatMulInteger", 10, ints(2, 3, 4, **U8), ints(4, 5, **U8), point(12), note="a batch and one point"),
    case(
        "MatMulInteger", 10, ints(3, 4, **U8), Const(ints(4, 3, **U8)), None, point(1, 9, 250), note="points of columns"
    ),
    case("MatMulInteger", 10, ints(3, 4, **I8), ints(4, 5, **I8), point(-5, dtype="int8"), note="both int8"),
    case("ConvInteger", 10, QX, QW, note="no zero points"),
    case("ConvInteger", 10, QX, QW, POINT_X, POINT_W, pads=[1, 1, 1, 1], note="pads are the zero point"),
    case("ConvInteger", 10, QX, QW, POINT_X, strides=[2, 1], pads=[0, 1, 2, 0], note="strides and uneven pads"),
    case("ConvInteger", 10, ints(1, 4, 5, 5, **U8), ints(4, 1, 3, 3, **U8), POINT_X, group=4, note="depthwise"),
]

# The scales are no round numbers, so that nothing lies halfway between two results.
QUANTIZED = [
    case(
        "QLinearMatMul", 10, ints(3, 4, **U8), scale(0.0213), point(120), Const(ints(4, 5, **U8)), scale(0.0107),
        point(99), scale(0.0531), point(128), note="uint8",
    ),
    case(
        "QLinearMatMul", 10, ints(2, 3, 4, **U8), scale(0.0213), point(120), ints(4, 5, **I8), scale(0.0107),
        point(1, dtype="int8"), scale(0.0107), point(9), note="uint8 by int8 of a batch",
    ),
    case(
        "QLinearMatMul", 21, ints(3, 4, **I8), scale(0.0213), point(-3, dtype="int8"), ints(4, 5, **I8), scale(0.0107),
        point(0, dtype="int8"), scale(0.0213), point(10, dtype="int8"), note="int8",
    ),
    case(
        "QLinearMatMul", 10, ints(3, 4, **U8), scale(0.0213), point(120), Const(ints(4, 2, **U8)),
        scale(0.0107, 0.0307), point(99, 140), scale(0.0531), point(128), note="scales of columns",
    ),
    case(
        "QLinearConv", 10, QX, scale(0.0213), point(120), QW, scale(0.0107), point(128), scale(0.1031), point(100),
        note="uint8",
    ),
    case(
        "QLinearConv", 10, QX, scale(0.0213), point(120), Const(ints(3, 2, 3, 3, **I8)),
        scale(0.0107, 0.0213, 0.0053), point(0, 0, 0, dtype="int8"),
        scale(0.1031), point(100), Const(ints(3, dtype="int32", low=-900, high=900)), pads=[1, 1, 1, 1],
        note="scales of channels bias and pads",
    ),
    case(
        "QLinearConv", 10, QX, scale(0.0213), point(120), QW, scale(0.0107), point(128), scale(0.307), point(7),
        strides=[2, 2], auto_pad="SAME_UPPER", note="strides and same upper",
    ),
    case(
        "QLinearConv", 10, ints(1, 4, 5, 5, **U8), scale(0.0213), point(0), Const(ints(4, 1, 3, 3, **U8)),
        scale(0.0107), point(130), scale(0.0419), point(128), group=4, note="depthwise",
    ),
]  # fmt: skip

HALVES = of([0.5, 1.5, 2.5, -0.5, -1.5, 3.5, 1000.0, -1000.0])
SCALES = [
    case("QuantizeLinear", 10, floats(3, 4), scale(0.02), point(128), note="uint8"),
    case("QuantizeLinear", 13, HALVES, scale(1.0), point(0, dtype="int8"), note="halves to even and saturation"),
    case("QuantizeLinear", 13, HALVES, scale(1.0), note="no zero point"),
    case("QuantizeLinear", 13, floats(2, 3, 4), scale(0.02, 0.1, 0.5), point(1, 128, 255), axis=1, note="axis 1"),
    case(
        "QuantizeLinear",
        13,
        floats(2, 4, 3),
        scale(0.02, 0.1, 0.5),
        point(0, 9, -9, dtype="int8"),
        axis=-1,
        note="last axis",
    ),
    case(
        "QuantizeLinear",
        21,
        floats(4, 6),
        Const(uniform(0.1, 1, 2, 6)),
        Const(ints(2, 6, **U8)),
        axis=0,
        block_size=2,
        note="blocks",
    ),
    case("QuantizeLinear", 21, floats(3, 4), scale(0.01), point(7, dtype="int16"), note="int16"),
    case("QuantizeLinear", 21, floats(3, 4, dtype="float16"), Const(of(0.02, "float16")), point(128), note="float16"),
    case("QuantizeLinear", 13, ints(3, 4, dtype="int32", low=-99, high=99), scale(0.5), point(128), note="of int32"),
    case("DequantizeLinear", 10, ints(3, 4, **U8), scale(0.02), point(128), note="uint8"),
    case("DequantizeLinear", 13, ints(3, 4, **I8), scale(0.02), note="int8 without a zero point"),
    case("DequantizeLinear", 13, ints(2, 3, 4, **U8), scale(0.02, 0.1, 0.5), point(1, 128, 255), axis=1, note="axis 1"),
    case(
        "DequantizeLinear",
        13,
        ints(2, 3, **I8),
        scale(0.02, 0.1),
        point(4, -4, dtype="int8"),
        axis=-2,
        note="negative axis",
    ),
    case("DequantizeLinear", 13, ints(3, 4, dtype="int32", low=-9999, high=9999), scale(0.001), note="int32"),
    case(
        "DequantizeLinear",
        21,
        ints(4, 6, **U8),
        Const(uniform(0.1, 1, 4, 2)),
        Const(ints(4, 2, **U8)),
        axis=1,
        block_size=3,
        note="blocks",
    ),
    case("DequantizeLinear", 19, ints(3, 4, **U8), Const(of(0.02, "float16")), point(128), note="to float16"),
    case("DynamicQuantizeLinear", 11, floats(3, 4), outputs=3, note="both signs"),
    case("DynamicQuantizeLinear", 11, uniform(0.5, 4, 3, 4), outputs=3, note="positive"),
    case("DynamicQuantizeLinear", 11, uniform(-4, -0.5, 6), outputs=3, note="negative"),
    case("DynamicQuantizeLinear", 11, of([-1.0, 0.0, 0.25, 0.75, 3.0]), outputs=3, note="few"),
]

CASES: list[Case] = [*PRODUCTS, *EQUATIONS, *CONVOLUTIONS, *TRANSPOSED, *INTEGERS, *QUANTIZED, *SCALES]
