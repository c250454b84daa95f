"""Sums of byte counts: the same numbers as the simplifier's, at every value of the dims."""

from __future__ import annotations

import itertools
import math

import tirlower.graph as tg
from tirlower.arith.affine import Affine
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.core.nodes import TensorType, Value
from tirlower.graph.lower.sums import Sums
from tirlower.graph.ops.evaluate import extent_value
from tirlower.ir.dtype import DataType


def test_sums_and_differences_are_those_of_the_numbers() -> None:
    n, m = tg.dim("N", 0, 50), tg.dim("M", 1, 50)
    env = DimEnv([n, m])
    sums = Sums(env)
    shapes = [(n, 3), (m,), (n, m), (5,), (), (n + m, 2), (0, n)]
    values = [Value.of(TensorType(tuple(s), DataType(k)), "v") for s in shapes for k in ("bool", "float32", "float64")]
    for a, b in itertools.product(values, repeat=2):
        total = sums.size(a).scaled(2) + sums.size(b)
        apart = sums.size(a) - sums.size(b)
        proved = sums.is_positive(apart)
        for x, y in ((0, 1), (1, 1), (7, 50), (50, 3), (13, 13)):
            at = {n.var: x, m.var: y}
            one, other = (
                -(-((v.dtype.bits + 7) // 8 * math.prod([extent_value(e, at) for e in v.extents])) // 64) * 64
                for v in (a, b)
            )
            assert extent_value(sums.expr(total), at) == 2 * one + other
            assert not proved or one >= other


def test_equal_sums_are_one_expression() -> None:
    n = tg.dim("N", 0)
    sums = Sums(DimEnv([n]))
    a, b = sums.of(n.var * 64 + 128), sums.of(n.var * 32)
    assert sums.expr(a - b) is sums.expr(b.shifted(128)) and sums.expr(Affine({})) is sums.expr(a - a)
