"""Dims of imported models: their names and bindings, what is computed of shapes, inputs that are bound, and functions."""

from __future__ import annotations

import builtins
from collections.abc import Sequence

import numpy as np
import pytest

pytest.importorskip("onnx", reason="models are read by the onnx package (extra `graph`)")

import onnx

import tirlower.graph as tg
from tirlower.graph.ops.interpret import interpret

HEADER = '<ir_version: 10, opset_import: ["" : 20, "own" : 1]>'


def model(text: str, functions: str = "") -> onnx.ModelProto:
    """A model in onnx's own notation."""
    return onnx.parser.parse_model(f"{HEADER}\n{text}\n{functions}")


def array(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def names(graph: tg.Graph) -> list[str]:
    return [n.name for n in graph.ops]


def shapes(graph: tg.Graph) -> list[str]:
    return [str(v.type) for v in (*graph.params, *graph.results)]


ADDED = "agraph (float[N, M] x, float[N, M] z) => (float[N, M] y) { y = Add(x, z) }"


def test_a_name_is_one_dim() -> None:
    graph = tg.from_onnx(model(ADDED))
    assert [d.name for d in graph.dims] == ["N", "M"]
    assert shapes(graph) == ["float32[N, M]"] * 3
    assert not graph.assumed
    np.testing.assert_array_equal(interpret(graph, array(0, 3), array(0, 3)), array(0, 3))


def test_dims_are_bound_to_dims_numbers_and_expressions() -> None:
    B = tg.dim("B", 1, 8)
    assert shapes(tg.from_onnx(model(ADDED), dims={"N": B, "M": 4})) == ["float32[B, 4]"] * 3
    graph = tg.from_onnx(model(ADDED), dims={"N": B, "M": B * 2 + 1})
    assert [d.name for d in graph.dims] == ["B"]
    np.testing.assert_array_equal(interpret(graph, array(2, 5), array(2, 5)), array(2, 5) * 2)
    with pytest.raises(tg.GraphError, match="dim B = 9"):
        interpret(graph, array(9, 19), array(9, 19))
    with pytest.raises(tg.GraphError, match="no dim is 'B' alone"):
        tg.from_onnx(model(ADDED), dims={"M": B * 2})
    with pytest.raises(tg.GraphError, match="has no dim 'K'"):
        tg.from_onnx(model(ADDED), dims={"K": B})
    with pytest.raises(tg.GraphError, match="at least 0"):
        tg.from_onnx(model(ADDED), dims={"N": -1})


def test_names_that_are_none_become_identifiers_and_unnamed_dims_are_named_by_their_place() -> None:
    source = model("agraph (float[a, b, 3] x) => (float[a, b, 3] y) { y = Relu(x) }")
    extents = source.graph.input[0].type.tensor_type.shape.dim
    extents[0].dim_param = "batch size"
    extents[1].ClearField("dim_param")
    del source.graph.output[0].type.tensor_type.shape.dim[:]
    source.graph.output[0].type.tensor_type.ClearField("shape")
    assert [d.name for d in tg.from_onnx(source).dims] == ["batch_size", "x_1"]
    assert shapes(tg.from_onnx(source, dims={"batch size": 2, "x_1": 7})) == ["float32[2, 7, 3]"] * 2


COMPUTED: dict[str, tuple[str, Sequence[str]]] = {
    "rows folded": (
        """s = Shape(x) n = Gather(s, zero) m = Gather(s, one) p = Mul(n, m) q = Unsqueeze(p, zeros)
        t = Concat<axis = 0>(q, minus) y = Reshape(x, t)""",
        ["reshape"],
    ),
    "half of an even axis": (
        """s = Shape(x) m = Slice(s, twos, threes) h = Div(m, twos) o = Constant<value_ints = [0]>()
        y = Slice(x, o, h, twos)""",
        ["slice"],
    ),
    "where a shape is minus one": (
        """s = Shape(x) ones = ConstantOfShape<value = int64[1] {1}>(threes) e = Equal(s, minus)
        t = Where(e, ones, s) y = Expand(x, t)""",
        ["expand"],
    ),
    "as many positions as columns": (
        """s = Shape(x) m = Gather(s, two) r = Range(zero, m, one) f = Cast<to = 1>(r) y = Add(x, f)""",
        ["arange", "cast", "add"],
    ),
    "backwards from before the first": (
        """from = Constant<value_ints = [-2]>() end = Constant<value_ints = [-9]>() y = Slice(x, from, end, zeros, minus)""",
        ["slice"],
    ),
    "a shape backwards from before its first": (
        """s = Shape(x) from = Constant<value_ints = [-4]>() end = Constant<value_ints = [-9]>()
        f = Slice(s, from, end, zeros, minus) r = Concat<axis = 0>(f, minus) y = Reshape(x, r)""",
        ["reshape"],
    ),
    "the size": (
        "n = Size(x) q = Unsqueeze(n, zeros) y = Reshape(x, q)",
        ["reshape"],
    ),
}
CONSTANTS = """zero = Constant<value_int = 0>() one = Constant<value_int = 1>() two = Constant<value_int = 2>()
    zeros = Constant<value_ints = [0]>() twos = Constant<value_ints = [2]>() threes = Constant<value_ints = [3]>()
    minus = Constant<value_ints = [-1]>()"""


@pytest.mark.parametrize("name", COMPUTED)
def test_what_is_computed_of_shapes_is_computed_while_importing(name: str) -> None:
    body, operations = COMPUTED[name]
    source = model(f"agraph (float[N, 3, M] x) => (float[] y) {{ {CONSTANTS} {body} }}")
    source.graph.output[0].type.tensor_type.ClearField("shape")
    graph = tg.from_onnx(source)
    assert names(graph) == list(operations)
    session = pytest.importorskip("onnxruntime").InferenceSession(
        source.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for sizes in ((2, 3, 4), (1, 3, 6)):
        np.testing.assert_array_equal(interpret(graph, array(*sizes)), session.run(None, {"x": array(*sizes)})[0])


def test_a_shape_that_is_a_result_is_a_tensor() -> None:
    graph = tg.from_onnx(model("agraph (float[N, 3] x) => (int64[2] y) { y = Shape(x) }"))
    assert interpret(graph, array(5, 3)).tolist() == [5, 3]


DATA = "agraph (float[2, 6] x, int64[2] shape) => (float[P, Q] y) { y = Reshape(x, shape) }"


def test_an_array_makes_an_input_a_constant() -> None:
    with pytest.raises(tg.GraphError) as caught:
        tg.from_onnx(model(DATA))
    assert "'shape', depends on data, but must be known while importing" in str(caught.value)
    graph = tg.from_onnx(model(DATA), inputs={"shape": np.array([3, 4])})
    assert [p.name for p in graph.params] == ["x"]
    assert graph.results[0].shape == (3, 4)
    with pytest.raises(tg.GraphError, match="of int64, got an array of float32"):
        tg.from_onnx(model(DATA), inputs={"shape": np.array([3, 4], np.float32)})
    with pytest.raises(tg.GraphError, match="has no input 'shapes'"):
        tg.from_onnx(model(DATA), inputs={"shapes": np.array([3, 4])})


def test_an_initializer_that_is_an_input_too_is_what_it_is_bound_to() -> None:
    source = model("agraph (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }")
    x = array(2)
    assert [p.name for p in tg.from_onnx(source).params] == ["x"]
    np.testing.assert_array_equal(interpret(tg.from_onnx(source), x), x + [1, 2])
    bound = tg.from_onnx(source, inputs={"w": np.array([5, 6], np.float32)})
    np.testing.assert_array_equal(interpret(bound, x), x + [5, 6])
    opened = tg.from_onnx(source, inputs={"w": tg.spec((2,), "float32")})
    np.testing.assert_array_equal(interpret(opened, x, x), x + x)


def test_a_spec_says_what_the_model_does_not() -> None:
    source = model("agraph (float[N, M] x) => (float[N, M] y) { y = Relu(x) }")
    source.graph.input[0].type.tensor_type.ClearField("shape")
    source.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(tg.GraphError, match="does not state the shape of its input 'x'"):
        tg.from_onnx(source)
    graph = tg.from_onnx(source, inputs={"x": tg.spec((tg.dim("B", 1, 8), 3), "float32")})
    assert shapes(graph) == ["float32[B, 3]"] * 2
    with pytest.raises(tg.GraphError, match="of float32, got a spec of int64"):
        tg.from_onnx(source, inputs={"x": tg.spec((2,), "int64")})


def test_functions_are_inlined_with_their_attributes() -> None:
    source = model(
        "agraph (float[2] x) => (float[2] y) { t = own.bent<slope = 0.5>(x) y = own.bent(t) }",
        """<opset_import: ["" : 20], domain: "own">
        bent <slope: float = 0.25> (a) => (b) { b = LeakyRelu<alpha: float = @slope>(a) }""",
    )
    graph = tg.from_onnx(source)
    assert names(graph) == ["leaky_relu", "leaky_relu"]
    assert interpret(graph, np.array([-8, 8], np.float32)).tolist() == [-1.0, 8.0]


def test_nodes_remember_where_they_come_from() -> None:
    source = model("agraph (float[2] x) => (float[2] y) { t = Relu(x) y = Neg(t) }")
    source.graph.node[0].name = "first"
    assert [n.origin for n in tg.from_onnx(source).ops] == ["first", "Neg#1"]


def test_without_onnx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: object) -> object:
        if name == "onnx":
            raise ImportError(name)
        return real(name, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(tg.GraphError, match=r"pip install 'tirlower\[graph\]'"):
        tg.from_onnx("model.onnx")


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scale", [2.0, 1.5, 0.5])
def test_images_of_dynamic_extents_are_resized(mode: str, scale: float) -> None:
    scales = f"s = Constant<value_floats = [1.0, 1.0, {scale}, {scale}]>()"
    source = model(
        f'agraph (float[1, 2, H, W] x) => (float[1, 2, P, Q] y) {{ {scales} y = Resize<mode = "{mode}">(x, , s) }}'
    )
    graph = tg.from_onnx(source)
    session = pytest.importorskip("onnxruntime").InferenceSession(
        source.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    for sizes in ((4, 6), (5, 7), (1, 8)):
        x = array(1, 2, *sizes)
        if min(sizes) * scale >= 1:
            np.testing.assert_allclose(interpret(graph, x), session.run(None, {"x": x})[0], rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scale", [1.1, 1.0, 2.0])
def test_a_scale_that_leaves_the_extents_still_moves_what_is_read(mode: str, scale: float) -> None:
    """As ONNX's reference has it; onnxruntime copies where the extents stay."""
    size = int(5 * scale)
    scales = f"s = Constant<value_floats = [1.0, 1.0, {scale}, {scale}]>()"
    source = model(
        f"agraph (float[1, 2, 5, 5] x) => (float[1, 2, {size}, {size}] y) "
        f'{{ {scales} y = Resize<mode = "{mode}">(x, , s) }}'
    )
    reference = pytest.importorskip("onnx.reference").ReferenceEvaluator(source)
    x = array(1, 2, 5, 5)
    found = interpret(tg.from_onnx(source), x)
    np.testing.assert_allclose(found, reference.run(None, {"x": x})[0], rtol=1e-5, atol=1e-4)
    if mode != "nearest":
        assert (found.shape == x.shape and bool((found == x).all())) == (scale == 1.0)
