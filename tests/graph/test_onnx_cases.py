"""The cases of ONNX's operators are whole, valid, and have a judge; where both judges know a case, they agree."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the cases are models of the onnx package (extra `graph`)")
pytest.importorskip("onnxruntime", reason="onnxruntime judges the cases")

import onnx

from tests.graph.onnx_cases.by_hand import BY_HAND
from tests.graph.onnx_cases.case import by_onnxruntime, by_reference, case, floats, judge, judged
from tests.graph.onnx_cases.table import CASES, FAMILIES

pytestmark = pytest.mark.by_day

# The operator table, family by family.
TABLE: dict[str, str] = {
    "elementwise": """
        Abs Acos Acosh Add And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseOr BitwiseXor BitwiseNot Cast CastLike
        Ceil Celu Clip Cos Cosh Div Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish Identity
        IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu Pow Reciprocal Relu Round
        Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Sub Sum Swish Tan Tanh ThresholdedRelu Where Xor""",
    "reductions": """
        ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp
        ReduceSumSquare ArgMax ArgMin CumSum TopK""",
    "linear": """
        MatMul Gemm Einsum Conv ConvTranspose MatMulInteger ConvInteger QLinearMatMul QLinearConv QuantizeLinear
        DequantizeLinear DynamicQuantizeLinear""",
    "pooling, normalization": """
        MaxPool AveragePool GlobalAveragePool GlobalMaxPool LpPool BatchNormalization LayerNormalization
        InstanceNormalization GroupNormalization RMSNormalization MeanVarianceNormalization LpNormalization LRN Softmax
        LogSoftmax Hardmax Dropout""",
    "shape": """
        Reshape Flatten Transpose Squeeze Unsqueeze Concat Split Slice Pad Expand Tile Shape Size Gather GatherElements
        GatherND ScatterElements ScatterND OneHot Range Constant ConstantOfShape EyeLike Trilu Resize Upsample
        DepthToSpace SpaceToDepth ReverseSequence Compress NonZero""",
    "sequences, attention, control": "LSTM GRU RNN Attention RotaryEmbedding If Loop",
}

# Where both judges answer and onnxruntime is believed: what the reference of onnx 1.23 does instead of the standard.
# `BY_HAND` says of each what it should be.
REFERENCE_IS_WRONG = {
    "pools and channels": (
        "LRN-13-defaults",  # sums as many channels as there are images
        "LRN-7-alpha_beta_and_bias",
        "GlobalMaxPool-7-one_axis",  # reduces two axes, however many there are
        "GlobalMaxPool-7-negative",
        "LpPool-18-ceil",  # scales the windows that end outside
        "LpNormalization-7-first_order",  # sums the numbers, not their sizes
        "BatchNormalization-9-epsilon",  # takes the operands of opset 9 in another order
        "MaxPool-12-same_lower",  # rounds the extents down
        "MaxPool-12-indices_by_columns",  # gives indices within the window
    ),
    "up to opset 12 the axes from the given one on are one": tuple(
        f"{op}-{form}"
        for op in ("Softmax", "LogSoftmax", "Hardmax")
        for form in ("11-all_from_the_default_on", "11-all_from_a_negative_axis_on", "7-all")
    ),
    "recurrences leave out lengths, clip, other activations and the joint gate": (
        *(
            f"{op}-14-{note}"
            for op in ("LSTM", "GRU", "RNN")
            for note in ("lengths", "lengths_in_reverse", "clipped", "many_steps_with_lengths")
        ),
        "LSTM-14-joint_input_and_forget",
        "LSTM-14-other_activations",
        "GRU-14-other_activations",
    ),
    "others": (
        "ReduceSumSquare-18-int32",  # gives int64
        "ReduceLogSumExp-18-minus_infinity",  # gives NaN for a row of minus infinity
        "Loop-13-trips_alone",  # takes a condition that is left out for one that does not hold
        "Slice-13-backwards_from_before_the_first",  # starts nowhere, as Python does, and not at the first element
    ),
}
WRONG = {name for names in REFERENCE_IS_WRONG.values() for name in names}


def test_the_table_is_whole() -> None:
    assert {family: set(text.split()) for family, text in TABLE.items()} == {
        family: {case.op for case in cases} for family, cases in FAMILIES.items()
    }
    counts = Counter(case.op for case in CASES.values())
    assert {op: count for op, count in counts.items() if count < 3} == {}


def test_names_are_unique_and_notes_are_given() -> None:
    assert len(CASES) == sum(map(len, FAMILIES.values()))
    assert all(case.note for case in CASES.values())
    assert WRONG <= CASES.keys()
    assert WRONG == BY_HAND.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_judge_answers_what_inference_says(name: str) -> None:
    """As many results as asked for, of the types that onnx infers, and of its shapes where it knows them."""
    given = CASES[name]
    outputs = given.model().graph.output
    results = judge(given)
    assert len(results) == len(outputs) == given.outputs - len(given.skipped)
    bound: dict[str, int] = {}
    for operand, axis, dim in given.dynamic:
        x = given.inputs[operand]
        assert x is not None
        bound[dim] = x.shape[axis]
    for result, output in zip(results, outputs, strict=True):
        tensor = output.type.tensor_type
        assert result.dtype == onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
        if tensor.HasField("shape"):
            assert len(tensor.shape.dim) == result.ndim
            for extent, dim in zip(result.shape, tensor.shape.dim, strict=True):
                if dim.HasField("dim_value"):
                    assert extent == dim.dim_value, (result.shape, tensor.shape)
                elif dim.dim_param in bound:
                    assert extent == bound[dim.dim_param], (result.shape, tensor.shape)


@pytest.mark.parametrize("name", [name for name, given in CASES.items() if given.trust == "onnxruntime"])
def test_judges_agree(name: str) -> None:
    """Where the reference answers too; where it is wrong, it still is, or the case leaves the list."""
    given = CASES[name]
    first = by_onnxruntime(given)
    try:
        second = by_reference(given)
    except Exception:
        return  # the reference lacks some forms of many operators, and says so in many ways
    if first is not None:
        assert alike(first, second) == (name not in WRONG)


@pytest.mark.parametrize("name", sorted(WRONG))
def test_where_judges_differ_a_third_one_decides(name: str) -> None:
    given = CASES[name]
    for result, hand in zip(judge(given), BY_HAND[name](given), strict=True):
        assert result.shape == hand.shape
        np.testing.assert_allclose(result, hand, rtol=1e-5, atol=1e-6)


def alike(first: list[np.ndarray], second: list[np.ndarray]) -> bool:
    for x, y in zip(first, second, strict=True):
        if x.dtype != y.dtype or x.shape != y.shape:
            return False
        if x.dtype.kind in "biu":
            if not np.array_equal(x, y):
                return False
        else:  # attributes are float32, whatever the operands are
            close = {"float16": 1e-2, "float32": 1e-4, "float64": 1e-6}[x.dtype.name]
            if not np.allclose(x.astype(np.float64), y.astype(np.float64), rtol=close, atol=close, equal_nan=True):
                return False
    return True


def test_a_case_is_drawn_by_its_name_alone() -> None:
    first = case("Add", 14, floats(2, 3), floats(3), note="one")
    again = case("Add", 14, floats(2, 3), floats(3), note="one")
    other = case("Add", 14, floats(2, 3), floats(3), note="two")
    for key, x in first.feeds().items():
        np.testing.assert_array_equal(x, again.feeds()[key])
        assert not np.array_equal(x, other.feeds()[key])


def test_shapes_are_initializers_computed_and_dynamic() -> None:
    """Each operator whose result's shape an operand says has a case with an initializer and one that computes it."""
    roles: dict[str, set[str]] = {}
    for given in CASES.values():
        roles.setdefault(given.op, set()).update(given.roles[1:])
    for op in ("Reshape", "Slice", "Expand", "Tile", "Pad", "TopK", "ReduceSum"):
        assert roles[op] >= {"initializer", "computed"}, op
    assert sum(bool(given.dynamic) for given in CASES.values()) > 20


def test_the_first_judge_is_asked_where_it_can_answer() -> None:
    by = Counter(judged(given).by for given in CASES.values())
    assert by["onnxruntime"] > 0.9 * len(CASES), by
