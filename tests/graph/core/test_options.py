"""Options: what they take, and that none is ignored."""

import dataclasses

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"numerics": "sloppy"}, "numerics is one of 'exact', 'default', 'fast', got 'sloppy'"),
        ({"num_threads": 0}, "num_threads is an integer of at least 1 or None, got 0"),
        ({"num_threads": True}, "num_threads is an integer of at least 1"),
        ({"constant_growth": -1}, "constant_growth is a number of at least 0, got -1"),
        ({"constant_growth": float("nan")}, "constant_growth is a number of at least 0, got nan"),
        ({"optimize": 1}, "optimize is True or False, got 1"),
        ({"schedule": "auto"}, "schedule='auto' has no effect: kernels are not scheduled yet"),
        ({"fusion": "none"}, "fusion='none' has no effect"),
        ({"memory": "naive"}, "has no effect"),
        ({"specialize": (1, 8)}, "has no effect"),
        ({"tuned": 5}, "tuned is the path of a database of plans or None, got 5"),
        ({"trace": 1}, "trace is True or False, got 1"),
    ],
)
def test_what_is_refused(given, said):
    with pytest.raises(tg.GraphError, match=said.replace("(", r"\(")):
        tg.Options(**given)


def test_an_option_is_a_value():
    assert tg.Options(numerics="fast") == tg.Options(numerics="fast") != tg.Options()
    assert hash(tg.Options(backends=[])) == hash(tg.Options())
    with pytest.raises(dataclasses.FrozenInstanceError):
        tg.Options().optimize = False


def test_exact_contracts_nothing():
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(512).astype("float32") for _ in range(3))
    spec = tg.spec((512,), "float32")
    fused = tg.trace(lambda a, b, c: tg.nn.relu(a * b - c), spec, spec, spec)
    exact = tg.compile(fused, options=tg.Options(numerics="exact"))
    np.testing.assert_array_equal(exact(a, b, c), np.maximum(a * b - c, 0))
    assert "fast-math-contract=0" in str(exact.native["main"].target).replace(" ", "")


def test_threads_and_the_context_reach_the_build():
    graph = tg.trace(lambda x: x + 1, tg.spec((4,), "float32"))
    exe = tg.compile(graph, options=tg.Options(num_threads=3))
    assert exe.native["main"].target.num_threads == 3
    with tl.PassContext(disabled_pass=["graph.DCE"], trace=True):
        assert exe(np.zeros(4, "float32")).tolist() == [1, 1, 1, 1]
