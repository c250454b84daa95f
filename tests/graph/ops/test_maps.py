"""Kinds of operations by their index maps, where the names of operations do not tell."""

from __future__ import annotations

from tirlower.graph.ops.compute import compute, formal, max_over, sum_over
from tirlower.graph.ops.maps import is_sum_of_products, kind_of

a, b = formal("a", (4, 8), "float16"), formal("b", (8, 4), "float16")


def test_sums_of_products() -> None:
    wide = compute((4, 4), lambda i, j: sum_over(8, lambda k: a[i, k].astype("float32") * b[k, j].astype("float32")))
    assert is_sum_of_products(wide)
    assert not is_sum_of_products(compute((4,), lambda i: sum_over(8, lambda k: a[i, k] + b[k, i])))
    assert not is_sum_of_products(compute((4,), lambda i: max_over(8, lambda k: a[i, k] * b[k, i])))
    assert not is_sum_of_products(compute((4, 8), lambda i, k: a[i, k] * b[k, i]))


def test_kinds() -> None:
    assert kind_of(compute((4, 8), lambda i, j: a[i, j] * b[j, i])) == "injective"
    assert kind_of(compute((4, 8, 3), lambda i, j, k: a[i, j])) == "broadcast"
    assert kind_of(compute((4,), lambda i: a[i, i])) == "injective"
    assert kind_of(compute((4,), lambda i: a[i, 0])) == "broadcast"
    assert kind_of(compute((3,), lambda i: i.astype("float32"))) == "elementwise"
