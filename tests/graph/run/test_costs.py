"""What kernels cost, beside numbers counted by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

import tirlower.graph as tg
from tirlower.graph.run.costs import Cost, cost_of


def only(function: Any, *specs: Any) -> Any:
    exe = tg.compile(tg.trace(function, *specs))
    (kernel,) = exe.kernels.values()
    return kernel.func


def test_a_product_costs_two_operations_a_step() -> None:
    func = only(lambda a, b: a @ b, tg.spec((5, 7), "float32"), tg.spec((7, 3), "float32"))
    assert cost_of(func, {}) == Cost(2 * 5 * 7 * 3, (35 + 21) * 4, 15 * 4, 0)


def test_dims_have_the_values_that_are_given() -> None:
    n = tg.dim("N", 0, 99)
    func = only(lambda a: a * 3.0, tg.spec((n, 2), "float64"))
    assert [cost_of(func, {"N": size}) for size in (0, 1, 7)] == [
        Cost(2 * size, 16 * size, 16 * size, 0) for size in (0, 1, 7)
    ]


def test_an_accumulator_is_scratch_and_no_traffic() -> None:
    func = only(lambda a: a.argmax(axis=1), tg.spec((4, 6), "float32"))
    cost = cost_of(func, {})
    assert (cost.read, cost.written) == (4 * 6 * 4, 4 * 8 + 4 * 4) and cost.scratch > 0


def test_images_read_their_constants_too() -> None:
    w = np.ones((2, 1, 3, 3), "float32")
    func = only(lambda x: tg.conv(x, w, pads=(1, 1, 1, 1)), tg.spec((1, 1, 8, 8), "float32"))
    assert cost_of(func, {}).read == (64 + 18) * 4
