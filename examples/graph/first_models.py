"""Two models, each as a NumPy function that is traced and as an ONNX file that is made here: compiled and compared.

    python -m examples.graph.first_models

The traced function also runs on arrays, and says what is right; onnxruntime, where it is installed, says it too.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tirlower.graph as tg

RANDOM = np.random.default_rng(7)
BATCH = 8


def weights(*shape: int) -> Any:
    """Random weights, so that sums of products keep their size."""
    return RANDOM.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(max(np.prod(shape[1:]), 1)))


def mlp(x, w1, b1, w2, b2):
    """A perceptron of two layers."""
    h = np.maximum(x @ w1 + b1, 0)
    return tg.nn.softmax(h @ w2 + b2, axis=-1)


MLP = {"w1": weights(784, 512) * 0.8, "b1": weights(512), "w2": weights(512, 10), "b2": weights(10)}


def cnn(x, k1, scale, bias, mean, var, k2, w, b):
    """Convolution, batch norm, relu, max pool, a residual, the mean of the pixels, a linear layer."""
    h = tg.nn.relu(tg.nn.batch_norm(tg.nn.conv(x, k1, pads=(1, 1, 1, 1)), scale, bias, mean, var))
    h = tg.nn.max_pool(h, kernel=(2, 2), strides=(2, 2))
    h = h + tg.nn.relu(tg.nn.conv(h, k2, pads=(1, 1, 1, 1)))
    return h.mean(axis=(2, 3)) @ w + b


CNN = {
    "k1": weights(8, 3, 3, 3), "scale": weights(8), "bias": weights(8), "mean": weights(8), "var": weights(8) ** 2 + 1,
    "k2": weights(8, 8, 3, 3), "w": weights(8, 10), "b": weights(10),
}  # fmt: skip


def mlp_nodes() -> list[Any]:
    """The perceptron as nodes of ONNX."""
    from onnx import helper

    return [
        helper.make_node("MatMul", ["x", "w1"], ["a"]), helper.make_node("Add", ["a", "b1"], ["c"]),
        helper.make_node("Relu", ["c"], ["d"]), helper.make_node("MatMul", ["d", "w2"], ["e"]),
        helper.make_node("Add", ["e", "b2"], ["f"]), helper.make_node("Softmax", ["f"], ["y"], axis=-1),
    ]  # fmt: skip


def cnn_nodes() -> list[Any]:
    """The convolutional model as nodes of ONNX."""
    from onnx import helper

    node = helper.make_node
    return [
        node("Conv", ["x", "k1"], ["a"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["a", "scale", "bias", "mean", "var"], ["c"]), node("Relu", ["c"], ["d"]),
        node("MaxPool", ["d"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["e", "k2"], ["f"], pads=[1, 1, 1, 1]), node("Relu", ["f"], ["g"]), node("Add", ["e", "g"], ["h"]),
        node("GlobalAveragePool", ["h"], ["i"]), node("Flatten", ["i"], ["j"]),
        node("Gemm", ["j", "w", "b"], ["y"]),
    ]  # fmt: skip


def write(path: Path, nodes: list[Any], constants: dict[str, Any], shape: list[object]) -> None:
    """An ONNX file."""
    import onnx
    from onnx import helper, numpy_helper

    tensor = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info("x", tensor, shape)],
        [helper.make_tensor_value_info("y", tensor, ["B", 10])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), str(path))


def show(name: str, compiled: Callable[[], Any], x: Any, right: Any) -> None:
    """Compile, call, compare, and say how long it took."""
    start = time.perf_counter()
    exe = compiled()
    seconds = time.perf_counter() - start
    for rows in (x, x[:1], x[:3]):
        np.testing.assert_allclose(exe(rows), right(rows), rtol=1e-4, atol=1e-5)
    print(
        f"{name:<14} {len(exe.kernels):>2} kernels, compiled in {seconds * 1e3:>6.0f} ms, agrees with NumPy for batches of 8, 1 and 3"
    )


def main() -> None:
    """Both models, both ways. Raises AssertionError where a result is wrong."""
    batch = tg.dim("B", 1, 64)
    models: list[tuple[Any, dict[str, Any], tuple[int, ...], Callable[[], list[Any]]]] = [
        (mlp, MLP, (784,), mlp_nodes),
        (cnn, CNN, (3, 32, 32), cnn_nodes),
    ]
    with tempfile.TemporaryDirectory() as folder:
        for function, constants, shape, nodes in models:
            x = weights(BATCH, *shape)

            def right(rows: Any, function: Any = function, constants: Any = constants) -> Any:
                return function(rows, *constants.values())

            traced = tg.trace(function, tg.spec((batch, *shape), "float32"), *constants.values())
            show(f"{function.__name__}, traced", lambda traced=traced: tg.compile(traced), x, right)
            if importlib.util.find_spec("onnx") is None:
                print("onnx is not installed: pip install 'tirlower[graph]'")
                continue
            path = Path(folder) / f"{function.__name__}.onnx"
            write(path, nodes(), constants, ["B", *shape])
            imported = tg.from_onnx(path, dims={"B": batch})
            show(f"{function.__name__}, ONNX", lambda imported=imported: tg.compile(imported), x, right)
            if importlib.util.find_spec("onnxruntime") is not None:
                import onnxruntime

                session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
                np.testing.assert_allclose(session.run(None, {"x": x})[0], right(x), rtol=1e-4, atol=1e-5)
                print(f"{'':<14} onnxruntime gives the same")


if __name__ == "__main__":
    main()
