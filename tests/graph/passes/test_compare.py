"""Graphs held against each other: what counts as a difference, and on which inputs."""

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.passes.compare import bindings, compare, estimated_work, random_inputs

SPEC = tg.spec((8,), "float32")


def traced(fn, spec=SPEC):
    return tg.trace(fn, spec)


def test_bindings_are_the_least_odd_and_large():
    a, b, c = tg.dim("A", 0), tg.dim("B", 2, 9, multiple_of=2), tg.dim("C", 40, 50)
    graph = tg.trace(lambda x: x + 1, tg.spec((a, b, c), "float32"))
    assert [tuple(values.values()) for values in bindings(graph)] == [(0, 2, 40), (5, 6, 40), (16, 8, 40)]
    assert bindings(traced(np.exp)) == [{}]


def test_inputs_are_the_same_again_and_special_where_asked():
    graph = traced(np.exp)
    (plain,), (again,) = random_inputs(graph, {}), random_inputs(graph, {})
    assert np.array_equal(plain, again) and np.isfinite(plain).all()
    many = np.concatenate([random_inputs(graph, {}, seed, special=True)[0] for seed in range(30)])
    assert np.isnan(many).any() and np.isinf(many).any() and (np.signbit(many) & (many == 0)).any()


@pytest.mark.parametrize(
    ("first", "second", "policy", "kind"),
    [
        (lambda x: x, lambda x: x + 0, Numerics.EXACT, "differs"),  # -0.0 becomes 0.0
        (lambda x: x, lambda x: x - 0, Numerics.EXACT, None),
        (lambda x: (x + 0.1) * 3, lambda x: x * 3 + 0.3, Numerics.EXACT, "differs"),
        (lambda x: (x + 0.1) * 3, lambda x: x * 3 + 0.3, Numerics.DEFAULT, None),
        (lambda x: x * 0, lambda x: x - x + 1e-3, Numerics.DEFAULT, "differs"),
        (lambda x: np.sqrt(x * x), lambda x: np.where(x == x, abs(x), 0), Numerics.DEFAULT, "differs"),
        (lambda x: np.sqrt(x * x), lambda x: np.where(x == x, abs(x), 0), Numerics.FAST, None),
        (lambda x: x, lambda x: x.astype("float64"), Numerics.FAST, "types"),
        (lambda x: x, lambda x: x[::-1][:4], Numerics.FAST, "types"),
        (lambda x: x > 1, lambda x: x >= 1.001, Numerics.DEFAULT, None),
    ],
)
def test_what_differs(first, second, policy, kind):
    found = []
    for special in (False, True):
        inputs = [
            np.concatenate(
                [
                    random_inputs(traced(first), {}, 3)[0][:4],
                    [-0.0, 2, np.inf, np.nan][: 4 if special else 2],
                    [0.5] * (0 if special else 2),
                ]
            ).astype("float32")
        ]
        found.append(compare(traced(first), traced(second), policy, inputs))
    kinds = {one.kind for one in found if one is not None}
    assert kinds == ({kind} if kind else set())


def test_what_fails_before_says_nothing_and_what_fails_after_does():
    good = traced(lambda x: tg.gather(x, np.array([1]), axis=0))
    bad = traced(lambda x: tg.gather(x, np.array([9]), axis=0))
    inputs = random_inputs(good, {})
    assert compare(bad, good, Numerics.EXACT, inputs) is None
    found = compare(good, bad, Numerics.EXACT, inputs)
    assert found is not None and found.kind.startswith("fails") and "index 9" in found.message


def test_work_grows_with_extents():
    a = tg.dim("A", 1)
    graph = tg.trace(lambda x: x @ x, tg.spec((a, a), "float32"))
    (var,) = (one.var for one in graph.dims)
    assert estimated_work(graph, {var: 100}) >= 100**3 > estimated_work(graph, {var: 10}) >= 10**3
