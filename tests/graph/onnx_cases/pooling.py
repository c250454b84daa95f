"""Pooling and normalization."""

from __future__ import annotations

from tests.graph.onnx_cases.case import Case, Const, case, floats, ints, of, specials, uniform

__all__ = ["CASES"]

X = floats(2, 3, 7, 8)
K3 = [3, 3]
# Windows that would start in the pads behind are left out, whatever the opset: onnx infers so from opset 22 on.
LARGEST = [
    case("MaxPool", 12, X, kernel_shape=K3, note="defaults"),
    case("MaxPool", 12, X, kernel_shape=K3, strides=[2, 2], pads=[1, 0, 0, 1], note="uneven pads"),
    case("MaxPool", 10, X, kernel_shape=K3, strides=[2, 2], ceil_mode=1, note="ceil"),
    case("MaxPool", 22, X, kernel_shape=K3, strides=[2, 3], pads=[1, 1, 1, 1], ceil_mode=1, note="ceil and pads"),
    case("MaxPool", 12, X, kernel_shape=[2, 3], dilations=[2, 3], note="dilations"),
    case("MaxPool", 12, X, kernel_shape=K3, strides=[2, 2], auto_pad="SAME_UPPER", note="same upper"),
    case("MaxPool", 12, X, kernel_shape=[2, 4], strides=[2, 3], auto_pad="SAME_LOWER", note="same lower"),
    case("MaxPool", 12, X, kernel_shape=K3, strides=[2, 2], auto_pad="VALID", note="valid"),
    case("MaxPool", 8, X, kernel_shape=[2, 2], strides=[2, 2], outputs=2, note="indices"),
    case("MaxPool", 12, X, kernel_shape=K3, strides=[2, 2], pads=[1, 1, 1, 1], outputs=2, note="indices and pads"),
    case("MaxPool", 12, X, kernel_shape=[2, 2], storage_order=1, outputs=2, note="indices by columns"),
    case("MaxPool", 11, floats(2, 3, 9), kernel_shape=[4], strides=[3], pads=[1, 2], note="one axis"),
    case("MaxPool", 12, floats(1, 2, 4, 5, 6), kernel_shape=[2, 2, 3], strides=[1, 2, 2], note="three axes"),
    case("MaxPool", 12, ints(1, 2, 5, 5, dtype="uint8", low=0, high=256), kernel_shape=[2, 2], note="uint8"),
    case(
        "MaxPool",
        12,
        ints(1, 2, 5, 5, dtype="int8", low=-128, high=0),
        kernel_shape=[2, 2],
        pads=[1, 1, 1, 1],
        note="int8",
    ),
    case("MaxPool", 12, floats(1, 2, 5, 5, dtype="float64"), kernel_shape=[2, 2], note="float64"),
    case("MaxPool", 12, uniform(-4, -1, 1, 1, 4, 4), kernel_shape=K3, pads=[1, 1, 1, 1], note="pads do not win"),
    case("MaxPool", 7, floats(1, 1, 1, 6), kernel_shape=[1, 2], note="a unit dim"),
    case("MaxPool", 12, X, kernel_shape=[2, 2], strides=[2, 2], dynamic=((0, 0, "N"),), note="dynamic batch"),
]

AVERAGES = [
    case("AveragePool", 7, X, kernel_shape=K3, note="defaults"),
    case("AveragePool", 11, X, kernel_shape=K3, strides=[2, 2], pads=[1, 0, 0, 1], note="uneven pads"),
    case("AveragePool", 11, X, kernel_shape=K3, pads=[1, 1, 1, 1], count_include_pad=1, note="pads count"),
    case("AveragePool", 19, X, kernel_shape=K3, strides=[2, 2], ceil_mode=1, note="ceil"),
    case(
        "AveragePool",
        19,
        floats(2, 2, 4, 7),
        kernel_shape=[3, 2],
        strides=[2, 3],
        pads=[0, 0, 0, 1],
        dilations=[2, 2],
        count_include_pad=1,
        ceil_mode=1,
        note="ceil and a window that is larger than the image",
    ),
    case(
        "AveragePool",
        22,
        X,
        kernel_shape=K3,
        strides=[3, 3],
        pads=[1, 1, 1, 1],
        ceil_mode=1,
        count_include_pad=1,
        note="ceil and pads count",
    ),
    case("AveragePool", 19, X, kernel_shape=[2, 3], dilations=[2, 2], note="dilations"),
    case("AveragePool", 11, X, kernel_shape=[2, 2], strides=[2, 3], auto_pad="SAME_UPPER", note="same upper"),
    case("AveragePool", 11, X, kernel_shape=K3, auto_pad="SAME_LOWER", strides=[2, 2], note="same lower"),
    case("AveragePool", 11, floats(2, 3, 9), kernel_shape=[4], strides=[2], pads=[1, 2], note="one axis"),
    case("AveragePool", 22, floats(1, 2, 4, 5, 6), kernel_shape=[2, 2, 3], pads=[1, 0, 1, 0, 1, 1], note="three axes"),
    case("GlobalAveragePool", 22, X, note="two axes"),
    case("GlobalAveragePool", 7, floats(2, 3, 5), note="one axis"),
    case("GlobalAveragePool", 7, floats(2, 3, 2, 3, 4), note="three axes"),
    case("GlobalAveragePool", 7, floats(1, 1, 1, 1), note="unit dims"),
    case("GlobalMaxPool", 22, X, note="two axes"),
    case("GlobalMaxPool", 7, floats(2, 3, 5), note="one axis"),
    case("GlobalMaxPool", 7, uniform(-4, -1, 2, 3, 2, 3, 4), note="negative"),
    case("LpPool", 11, X, kernel_shape=K3, note="of the second order"),
    case(
        "LpPool", 11, X, kernel_shape=[2, 3], strides=[2, 1], p=1, pads=[1, 0, 0, 1], note="first order and uneven pads"
    ),
    case("LpPool", 18, X, kernel_shape=[2, 2], p=3, dilations=[2, 2], note="third order and dilations"),
    case("LpPool", 18, X, kernel_shape=K3, strides=[2, 2], ceil_mode=1, note="ceil"),
    case("LpPool", 11, X, kernel_shape=K3, auto_pad="SAME_UPPER", strides=[2, 2], note="same upper"),
    case("LpPool", 11, floats(2, 3, 9), kernel_shape=[4], strides=[3], note="one axis"),
]


def _of_channels(count: int, dtype: str = "float32") -> list[Const]:
    """Scale, bias, mean, variance."""
    return [
        Const(uniform(0.5, 2, count, dtype=dtype)),
        Const(floats(count, dtype=dtype)),
        Const(floats(count, dtype=dtype)),
        Const(uniform(0.5, 2, count, dtype=dtype)),
    ]


C3 = _of_channels(3)
BATCHES = [
    case("BatchNormalization", 15, X, *C3, note="images"),
    case("BatchNormalization", 9, X, *C3, epsilon=0.01, note="epsilon"),
    case("BatchNormalization", 7, floats(4, 3), *C3, note="matrix"),
    case("BatchNormalization", 14, floats(2, 3, 5), *C3, note="one axis"),
    case("BatchNormalization", 15, floats(1, 3, 2, 2, 2), *C3, note="three axes"),
    case("BatchNormalization", 15, X, *C3, training_mode=1, momentum=0.7, outputs=3, note="training"),
    case("BatchNormalization", 15, floats(1, 3, 4, 4, dtype="float64"), *_of_channels(3, "float64"), note="float64"),
    case("BatchNormalization", 15, floats(1, 3, 4, 4, dtype="float16"), *_of_channels(3, "float16"), note="float16"),
    case("BatchNormalization", 15, floats(0, 3, 4, 4), *C3, note="no images"),
]

SCALE_8, BIAS_8 = Const(uniform(0.5, 2, 8)), Const(floats(8))
LAYERS = [
    case("LayerNormalization", 17, X, SCALE_8, BIAS_8, note="last axis"),
    case("LayerNormalization", 17, X, Const(floats(7, 8)), axis=2, note="two axes without a bias"),
    case(
        "LayerNormalization",
        17,
        X,
        Const(floats(3, 7, 8)),
        Const(floats(3, 7, 8)),
        axis=-3,
        epsilon=0.1,
        note="three axes",
    ),
    case("LayerNormalization", 17, X, SCALE_8, BIAS_8, outputs=3, note="mean and deviation"),
    case("LayerNormalization", 17, X, SCALE_8, outputs=3, skipped=(1,), note="deviation alone"),
    case("LayerNormalization", 17, floats(2, 8, dtype="float16"), Const(floats(8, dtype="float16")), note="float16"),
    case("LayerNormalization", 17, floats(2, 8, dtype="float64"), Const(floats(8, dtype="float64")), note="float64"),
    case("LayerNormalization", 17, uniform(1000, 1001, 3, 8), SCALE_8, BIAS_8, note="far from zero"),
    case("LayerNormalization", 17, floats(4, 1), Const(floats(1)), Const(floats(1)), note="a unit dim"),
    case("LayerNormalization", 17, floats(0, 8), SCALE_8, BIAS_8, note="no rows"),
    case("InstanceNormalization", 22, X, Const(floats(3)), Const(floats(3)), note="images"),
    case(
        "InstanceNormalization", 7, floats(2, 3, 5), Const(floats(3)), Const(floats(3)), epsilon=0.01, note="one axis"
    ),
    case("InstanceNormalization", 7, floats(1, 2, 3, 2, 2), Const(floats(2)), Const(floats(2)), note="three axes"),
    case(
        "GroupNormalization",
        18,
        floats(2, 4, 3, 3),
        Const(floats(2)),
        Const(floats(2)),
        num_groups=2,
        note="scales of groups",
    ),
    case(
        "GroupNormalization",
        21,
        floats(2, 4, 3, 3),
        Const(floats(4)),
        Const(floats(4)),
        num_groups=2,
        note="scales of channels",
    ),
    case(
        "GroupNormalization",
        21,
        floats(2, 6, 5),
        Const(floats(6)),
        Const(floats(6)),
        num_groups=6,
        epsilon=0.01,
        note="a group each",
    ),
    case(
        "GroupNormalization",
        21,
        floats(2, 4),
        Const(floats(4)),
        Const(floats(4)),
        num_groups=1,
        note="one group of a matrix",
    ),
    case("RMSNormalization", 23, X, SCALE_8, note="last axis"),
    case("RMSNormalization", 23, X, Const(floats(7, 8)), axis=2, epsilon=0.01, note="two axes"),
    case("RMSNormalization", 23, floats(2, 8, dtype="float16"), Const(floats(8, dtype="float16")), note="float16"),
    case("RMSNormalization", 23, X, Const(floats(3, 7, 8)), axis=-3, note="negative axis"),
    case("MeanVarianceNormalization", 13, X, axes=[0, 2, 3], note="three axes"),
    case("MeanVarianceNormalization", 9, X, axes=[1, 3], note="two axes"),
    case("MeanVarianceNormalization", 13, floats(2, 3, 4), axes=[-1], note="negative axis"),
    case("LpNormalization", 22, floats(3, 4), note="second order of the last axis"),
    case("LpNormalization", 7, floats(2, 3, 4), p=1, axis=1, note="first order"),
    case("LpNormalization", 7, floats(2, 3, 4, dtype="float64"), axis=0, note="float64"),
    case("LRN", 13, floats(2, 7, 3, 3), size=3, note="defaults"),
    case("LRN", 7, floats(1, 6, 2, 2), size=5, alpha=0.5, beta=0.6, bias=2.0, note="alpha beta and bias"),
    case("LRN", 13, floats(1, 2, 3, 3), size=9, note="more than the channels"),
]


def _soft() -> list[Case]:
    """Up to opset 12 the axes from ``axis`` on are one, and it is 1 by default; from 13 on the last axis is."""
    cases = []
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        cases += [
            case(op, 13, floats(2, 3, 4), note="last axis"),
            case(op, 13, floats(2, 3, 4), axis=1, note="one axis"),
            case(op, 13, floats(2, 3, 4), axis=-3, note="negative axis"),
            case(op, 11, floats(2, 3, 4), note="all from the default on"),
            case(op, 11, floats(2, 3, 4), axis=-2, note="all from a negative axis on"),
            case(op, 7, floats(2, 3, 4), axis=0, note="all"),
            case(op, 13, floats(2, 1, 4), axis=1, note="a unit dim"),
            case(op, 13, floats(0, 4), note="no rows"),
            case(op, 13, floats(3, 4, dtype="float64"), axis=0, note="float64"),
        ]
    return [
        *cases,
        *(case(op, 13, floats(3, 4, dtype="float16"), note="float16") for op in ("Softmax", "LogSoftmax")),
        case("Softmax", 13, of([[1000.0, 1001.0], [-1000.0, -1001.0], [3e38, -3e38]]), note="no overflow"),
        case("LogSoftmax", 13, of([[1000.0, 1001.0], [-1000.0, -1001.0]]), note="no overflow"),
        case("Softmax", 13, of([[0.0, -float("inf"), 1.0], [-float("inf"), 0.0, -float("inf")]]), note="masked"),
        case("Softmax", 13, specials(4, 6), note="NaN and infinities"),
        case("Hardmax", 13, of([[1, 3, 3, 0], [2, 2, 2, 2]]), note="ties take the first"),
        case("Hardmax", 13, floats(2, 0), note="nothing"),
        case("Softmax", 13, floats(2, 3, 4), dynamic=((0, 0, "N"), (0, 2, "S")), note="dynamic axes"),
    ]


DROPPED = [
    case("Dropout", 7, floats(3, 4), ratio=0.3, note="ratio as an attribute"),
    case("Dropout", 10, floats(3, 4), ratio=0.3, note="opset 10"),
    case("Dropout", 12, floats(3, 4), Const(of(0.3)), note="ratio as an operand"),
    case("Dropout", 13, floats(3, 4), outputs=2, note="nothing given"),
    case("Dropout", 13, floats(3, 4), Const(of(0.3)), Const(of(False, "bool")), outputs=2, note="not training"),
    case("Dropout", 22, floats(3, 4), Const(of(0.0)), Const(of(True, "bool")), outputs=2, note="training without loss"),
    case("Dropout", 13, floats(2, 0, dtype="float64"), note="no elements of float64"),
]

CASES: list[Case] = [*LARGEST, *AVERAGES, *BATCHES, *LAYERS, *_soft(), *DROPPED]
