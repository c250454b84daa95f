"""What a traced function may ask of extents that are known only when the graph runs, and what it is told."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.frontend.symbolic import SymbolicExtent, plain, symbolic
from tirlower.graph.ops.interpret import interpret

B = tg.dim("B", 2, 8, multiple_of=2)


def asked(function: Callable[[object], object], *dims: object) -> object:
    """What a function finds out while it is traced on (B, 6)."""
    found: list[object] = []

    def traced(x: object) -> object:
        found.append(function(x))
        return x

    tg.trace(traced, tg.spec(dims or (B, 6), "float32"))
    return found[0]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (lambda x: x.shape[0] == 9, False),
        (lambda x: x.shape[0] == 3, False),  # it is even
        (lambda x: x.shape[0] != 9, True),
        (lambda x: 9 == x.shape[0], False),
        (lambda x: x.shape[0] == B, True),
        (lambda x: B == x.shape[0], True),
        (lambda x: x.shape[0] == x.shape[0], True),
        (lambda x: x.shape[0] * 2 == x.shape[0] + x.shape[0], True),
        (lambda x: x.shape[0] + 1 == x.shape[0], False),
        (lambda x: x.shape == x.shape, True),
        (lambda x: x.shape == (9, 6), False),
        (lambda x: x.shape == (9,), False),
        (lambda x: x.shape[1] == 6, True),
        (lambda x: x.shape[0] == np.int64(1), False),
        (lambda x: x.shape[0] == "B", False),
        (lambda x: x.shape[0] == None, False),  # noqa: E711
        (lambda x: x.shape[0] in (1, 9), False),
        (lambda x: x.shape[0] > 1, True),
        (lambda x: x.shape[0] <= 1, False),
        (lambda x: 9 > x.shape[0], True),
        (lambda x: x.shape[0] >= 2, True),
        (lambda x: x.shape[0] < 2, False),
        (lambda x: max(x.shape[0], 9), 9),
        (lambda x: bool(x.shape[0]), True),
        (lambda x: x.shape[0] % 2 == 0, True),
        (lambda x: x.shape[0] - x.shape[0], 0),
        (lambda x: -x.shape[0] + x.shape[0], 0),
        (lambda x: x.size == x.shape[0] * 6, True),
        (lambda x: np.shape(x)[0] == 9, False),
        (lambda x: np.size(x, 0) == 9, False),
        (lambda x: str(x.shape[0] // 2 * 3 - 1), "B // 2 * 3 - 1"),
        (lambda x: len({x.shape[0], x.T.shape[1], x.reshape(-1, 3).T.shape[1]}), 2),
    ],
)
def test_what_the_facts_decide_is_answered(question: Callable[[object], object], answer: object) -> None:
    found = asked(question)
    assert found == answer
    assert type(found) is type(answer)


@pytest.mark.parametrize(
    "question",
    [
        lambda x: x.shape[0] == 6,
        lambda x: x.shape[0] != 6,
        lambda x: 6 == x.shape[0],
        lambda x: x.shape == (6, 6),
        lambda x: x.shape[0] in (1, 6),
        lambda x: x.shape[0] == x.shape[1],
        lambda x: B == 6,
        lambda x: x.shape[0] > 4,
        lambda x: x.shape[0] * 2 <= 8,
        lambda x: max(x.shape[0], 4),
        lambda x: bool(x.shape[0] - 2),
        lambda x: np.shape(x)[0] == 6,
        lambda x: x.T.shape[-1] == 6,
    ],
)
def test_what_is_not_decided_is_refused_with_the_dim_and_a_remedy(question: Callable[[object], object]) -> None:
    with pytest.raises(tg.GraphError, match="known only when the graph runs") as caught:
        asked(question)
    assert "2 <= B <= 8, a multiple of 2" in str(caught.value)
    assert "state" in str(caught.value)


def test_two_dims_are_the_same_where_the_call_checks_it() -> None:
    M, N = tg.dim("M"), tg.dim("N")

    def traced(x: object, y: object) -> object:
        with pytest.raises(tg.GraphError, match=r"whether M == N at test_symbolic"):
            assert x.shape[0] == y.shape[0]
        z = x + y
        assert x.shape[0] == y.shape[0]
        return z

    graph = tg.trace(traced, tg.spec((M,), "float32"), tg.spec((N,), "float32"))
    assert len(graph.assumed) == 1


def test_extents_are_arguments_as_numbers_are() -> None:
    def traced(x: object) -> object:
        n = x.shape[0]
        return (
            x.reshape(n * 3, -1),
            np.reshape(x, (3, n, 2)),
            np.broadcast_to(x[0], (n, 6)),
            x[: n // 2],
            x[n - 1],
            n * x,
            x / n,
            np.float32(2) * (x - n),
            tg.xp.arange(n),
            tg.xp.zeros((n, 2), dtype="int8"),
            np.pad(x, ((0, 0), (0, 2)))[:, : x.shape[1]],
            tg.nonzero(x, size=n * 6)[0],
            np.array_split(x, 2)[0],
            tg.while_loop(lambda i: i < n, lambda i: i + 2, 0 * x.sum().astype("int64")),
        )

    graph = tg.trace(traced, tg.spec((B, 6), "float32"))
    for batch in (2, 8):
        x = np.arange(batch * 6, dtype="float32").reshape(batch, 6)
        got = interpret(graph, x)
        want = [
            x.reshape(batch * 3, -1),
            x.reshape(3, batch, 2),
            np.broadcast_to(x[0], (batch, 6)),
            x[: batch // 2],
            x[-1],
            batch * x,
            x / np.float32(batch),
            np.float32(2) * (x - batch),
            np.arange(batch),
            np.zeros((batch, 2), "int8"),
            x,
        ]
        for a, b in zip(got, want, strict=False):
            assert a.shape == b.shape
            np.testing.assert_array_equal(a, b)
        assert got[-1] == batch


def test_a_wrong_use_is_refused() -> None:
    with pytest.raises(tg.GraphError, match=r"extent B at test_symbolic.* wanted as a number"):
        asked(lambda x: int(x.shape[0]))
    with pytest.raises(tg.GraphError, match="wanted as a number"):
        asked(lambda x: list(range(x.shape[0])))
    with pytest.raises(TypeError):
        asked(lambda x: x.shape[0] + "a")


def test_dims_are_found_by_identity_and_compared_with_numbers_by_their_facts() -> None:
    one, other = tg.dim("N", 1, 4), tg.dim("N", 1, 4)
    assert one == one
    assert one != other
    assert {one: 1, other: 2}[other] == 2
    assert [other, one].index(one) == 1
    assert one != 5
    assert tg.dim("K", 3, 3) == 3
    assert tg.dim("K", 3, 3) != None  # noqa: E711
    with pytest.raises(tg.GraphError, match="whether N == 2 is known only when the graph runs: stated is 1 <= N <= 4"):
        assert one == 2


def test_wrapping_and_unwrapping() -> None:
    env = DimEnv([B])
    seen = symbolic(B.var, env)
    assert isinstance(seen, SymbolicExtent)
    assert symbolic(4, env) == 4
    assert plain(seen) is B.var
    assert plain((seen, [1, {"a": seen}], slice(seen, None))) == (B.var, [1, {"a": B.var}], slice(B.var, None))
    assert hash(symbolic(B.var + 1, env)) == hash(symbolic(B.var + 1, env))
