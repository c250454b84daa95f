"""The models themselves: of the sizes that the measures name, valid, and no degenerate computation.

Nodes at full size, with the convolutions' batch norm folded:

=============  =====
mlp                6
resnet18          49
mobilenet_v2      99
bert_layer        30
gpt2_block        27
vit_block         29
=============  =====
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="the models are built by the onnx package (extra `graph`)")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime runs the models, as an independent judge")

import onnx  # noqa: E402

from tests.graph.models import MODELS, inputs  # noqa: E402

NODES = {
    "mlp": 6,
    "small_cnn": 11,
    "resnet18": 49,
    "mobilenet_v2": 99,
    "bert_layer": 30,
    "gpt2_block": 27,
    "vit_block": 29,
}
NEWEST = onnx.defs.onnx_opset_version()
ORT_OPSET = 26
"""The newest that the judge is asked for; above, a model is only checked."""
TRANSFORMERS = ["bert_layer", "gpt2_block", "vit_block"]


def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


def alive(name: str, y: np.ndarray, other: np.ndarray) -> None:
    """Finite, of a variance near one (probabilities, of a row that adds up to one), and dependent on what came in."""
    assert np.isfinite(y).all()
    if name == "mlp":
        np.testing.assert_allclose(y.sum(-1), 1.0, rtol=1e-5)
        assert 0.02 < y.std() < 0.4
    else:
        assert 0.3 < y.std() < 3.0
    assert np.abs(y - other).mean() > 0.05 * y.std()


@pytest.mark.parametrize("name", MODELS)
def test_a_small_model_is_valid_and_computes_something(name: str) -> None:
    model = MODELS[name]("small")
    onnx.checker.check_model(model, full_check=True)
    alive(name, run(model, inputs(model, seed=1)), run(model, inputs(model, seed=2)))


@pytest.mark.nightly
@pytest.mark.parametrize("name", MODELS)
def test_a_full_model_is_valid_and_computes_something(name: str) -> None:
    model = MODELS[name]("full")
    onnx.checker.check_model(model, full_check=True)
    alive(name, run(model, inputs(model, seed=1)), run(model, inputs(model, seed=2)))


@pytest.mark.parametrize("name", MODELS)
def test_full_models_have_the_nodes_of_the_table(name: str) -> None:
    model = MODELS[name]("full")
    assert len(model.graph.node) == NODES[name], [node.op_type for node in model.graph.node]


@pytest.mark.parametrize(
    ("name", "shape", "parameters"),
    [("resnet18", (1, 3, 224, 224), 11_684_712), ("mobilenet_v2", (1, 3, 224, 224), 3_487_816)],
)
def test_full_networks_have_the_parameters_of_the_true_ones(name: str, shape: tuple[int, ...], parameters: int) -> None:
    """Published: 11,689,512 and 3,504,872, with two numbers a channel of batch norm where a bias stands here."""
    model = MODELS[name]("full")
    (x,) = inputs(model).values()
    assert x.shape == shape
    sizes = {tensor.name: int(np.prod(tensor.dims)) for tensor in model.graph.initializer}
    assert sum(size for name, size in sizes.items() if name.endswith((".weight", ".bias"))) == parameters


def test_channels_are_rounded_by_the_networks_own_rule() -> None:
    """To multiples of eight, but never by more than a tenth downwards: 11.2 becomes 16."""
    model = MODELS["mobilenet_v2"]("small", width=0.35)
    shapes = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    assert shapes["features.0.0.weight"] == (16, 3, 3, 3)
    assert shapes["features.2.conv.2.weight"][0] == 8


@pytest.mark.parametrize("name", MODELS)
def test_the_same_seed_gives_the_same_bytes_and_another_one_others(name: str) -> None:
    first = MODELS[name]("small").SerializeToString(deterministic=True)
    assert MODELS[name]("small").SerializeToString(deterministic=True) == first
    assert MODELS[name]("small", seed=1).SerializeToString(deterministic=True) != first


@pytest.mark.parametrize("batch", [1, 3, 8])
@pytest.mark.parametrize("name", MODELS)
def test_a_dynamic_batch_computes_row_by_row_what_a_static_one_does(name: str, batch: int) -> None:
    dynamic, static = MODELS[name]("small", batch="B"), MODELS[name]("small", batch=1)
    assert {dim.dim_param for value in dynamic.graph.input for dim in value.type.tensor_type.shape.dim} - {""} == {"B"}
    feeds = inputs(dynamic, batch=batch)
    together = run(dynamic, feeds)
    assert together.shape[0] == batch
    for row in range(batch):
        alone = run(static, {key: array[row : row + 1] for key, array in feeds.items()})
        np.testing.assert_allclose(together[row], alone[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [1, 5, 16])
@pytest.mark.parametrize("shapes", ["literal", "computed"])
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_a_dynamic_sequence_computes_what_a_static_one_does(name: str, shapes: str, length: int) -> None:
    dynamic = MODELS[name]("small", batch="B", sequence="S", shapes=shapes)
    feeds = inputs(dynamic, batch=2, S=length)
    expected = run(MODELS[name]("small", batch=2, sequence=length), feeds)
    np.testing.assert_allclose(run(dynamic, feeds), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["small_cnn", "resnet18", "mobilenet_v2"])
def test_a_dynamic_image_computes_what_a_static_one_does(name: str) -> None:
    dynamic = MODELS[name]("small", batch="B", image=("H", "W"))
    feeds = inputs(dynamic, batch=2, H=64, W=96)
    expected = run(MODELS[name]("small", batch=2, image=(64, 96)), feeds)
    np.testing.assert_allclose(run(dynamic, feeds), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [9, 10, 11, 13, 15, 17, 18, NEWEST])
@pytest.mark.parametrize("name", MODELS)
def test_every_opset_writes_the_same_computation(name: str, opset: int) -> None:
    model = MODELS[name]("small")
    feeds = inputs(model)
    older = MODELS[name]("small", opset=opset)
    if opset <= ORT_OPSET:
        np.testing.assert_allclose(run(older, feeds), run(model, feeds), rtol=1e-4, atol=1e-5)


def test_the_masks_hide_what_they_should() -> None:
    """Tokens behind a row's last one change nothing before it; under the causal mask no later token does."""
    for kind in ("added", "ones"):
        model = MODELS["bert_layer"]("small", batch=4, mask=kind)
        feeds = inputs(model, seed=3)
        seen = inputs(MODELS["bert_layer"]("small", batch=4, mask="ones"), seed=3)["attention_mask"] == 1
        assert 0 < seen.sum() < seen.size
        first = run(model, feeds)
        feeds["x"] = np.where(seen[:, :, None], feeds["x"], np.float32(7.0))
        np.testing.assert_allclose(run(model, feeds)[seen], first[seen], rtol=1e-4, atol=1e-5)
    model = MODELS["gpt2_block"]("small")
    feeds = inputs(model)
    first = run(model, feeds)
    feeds["x"][:, 9:] = 7.0
    second = run(model, feeds)
    np.testing.assert_allclose(second[:, :9], first[:, :9], rtol=1e-4, atol=1e-5)
    assert np.abs(second[:, 9:] - first[:, 9:]).max() > 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MODELS["mlp"]("small", opset=8), "opsets 9 to"),
        (lambda: inputs(MODELS["mlp"]("small", batch="B")), "give B="),
        (lambda: MODELS["gpt2_block"]("small", sequence="S", opset=9), "needs opset 10"),
    ],
)
def test_what_cannot_be_written_is_said(call: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()
