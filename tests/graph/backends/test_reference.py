"""The reference as a backend: every operation by NumPy, called from machine code."""

from __future__ import annotations

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph.backends.registry import offload
from tirlower.graph.core.effects import KernelCall
from tirlower.graph.core.nodes import Const


def test_each_operation_is_a_call_back() -> None:
    b = tg.dim("B", 0, 16)

    def layer(x: tg.Tensor, w: tg.Tensor) -> tuple[tg.Tensor, ...]:
        h = tg.nn.softmax(x @ w + 1)
        low, high = tg.split(h, parts=(1, 3), axis=1)
        return tg.concat(high, low, axis=1), tg.sum(h, axis=0)

    g = tg.trace(layer, tg.spec((b, 3), "float32"), tg.spec((3, 4), "float32"))
    made = offload(g, ["numpy"])
    assert all(isinstance(n, (Const, KernelCall)) for n in made.nodes) and "split" in str([n.name for n in g.ops])
    exe, plain = tg.compile(g, backends=["numpy"]), tg.compile(g)
    for rows in (0, 1, 7):
        rng = np.random.default_rng(rows)
        given = [rng.standard_normal(s).astype("float32") for s in ((rows, 3), (3, 4))]
        for a, c, d in zip(exe(*given), tg.interpret(g, *given), plain(*given), strict=True):
            np.testing.assert_array_equal(a, c)
            np.testing.assert_allclose(a, d, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float16", "bfloat16", "float64"])
def test_tensors_of_every_dtype_are_seen_as_they_are(dtype: str) -> None:
    g = tg.trace(lambda x: tg.flip(x, axis=0), tg.spec((3, 2), dtype))
    x = (np.arange(6).reshape(3, 2) % 5).astype(g.params[0].dtype.numpy)
    np.testing.assert_array_equal(tg.compile(g, backends=["numpy"])(x), x[::-1])
