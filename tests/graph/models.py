"""The models of the graph layer's tests and measures, built by code: random weights from a seed, no file, no download.

Each builder takes ``size`` ("full" as measured, or "small" for the gate), extents of its inputs as numbers or as names
of dynamic dimensions, ``opset`` and ``seed``; weights are scaled so that activations keep a variance near one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx

from tests.graph.onnx_models.convolutional import mlp, mobilenet_v2, resnet18, small_cnn
from tests.graph.onnx_models.transformers import LOWEST, bert_layer, gpt2_block, vit_block

__all__ = [
    "MODELS",
    "bert_layer",
    "gpt2_block",
    "inputs",
    "mlp",
    "mobilenet_v2",
    "resnet18",
    "small_cnn",
    "vit_block",
]

MODELS: dict[str, Callable[..., onnx.ModelProto]] = {
    "mlp": mlp,
    "small_cnn": small_cnn,
    "resnet18": resnet18,
    "mobilenet_v2": mobilenet_v2,
    "bert_layer": bert_layer,
    "gpt2_block": gpt2_block,
    "vit_block": vit_block,
}


def inputs(model: onnx.ModelProto, *, batch: int | None = None, seed: int = 0, **dims: int) -> dict[str, np.ndarray]:
    """Random arrays for the inputs of a model, by name; ``batch`` is the extent of each first axis that is dynamic.

    Other dynamic dimensions are given by their names. A mask of attention lets each row see a random number of its
    first tokens, at least one.
    """
    rng = np.random.default_rng(seed)
    arrays: dict[str, np.ndarray] = {}
    for value in model.graph.input:
        shape = []
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.dim_param:
                shape.append(dim.dim_value)
            elif dim.dim_param in dims:
                shape.append(dims[dim.dim_param])
            elif axis == 0 and batch is not None:
                shape.append(batch)
            else:
                raise ValueError(f"{value.name} has a dynamic dimension: give {dim.dim_param}=")
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        if value.name == "attention_mask":
            seen = np.arange(shape[-1]) < rng.integers(1, shape[-1] + 1, (shape[0], 1))
            mask = seen if dtype == np.int64 else np.where(seen, 0.0, LOWEST)[:, None, None, :]
            arrays[value.name] = mask.astype(dtype)
        else:
            arrays[value.name] = rng.standard_normal(shape, dtype=dtype)
            if len(shape) == 4:  # images of which each has its own colour: the means of mere noise are all alike
                colour = rng.standard_normal((*shape[:2], 1, 1), dtype=dtype)
                arrays[value.name] = (arrays[value.name] + colour) * np.sqrt(dtype.type(0.5))
    return arrays
