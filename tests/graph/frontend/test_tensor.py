"""Tensors: operators, methods and Python's ordinary idioms give what NumPy's arrays give; what needs values is refused."""

import math
import operator

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.frontend.oracle import check, run, traced
from tirlower.graph import GraphError, Tensor

pytestmark = pytest.mark.by_day

RNG = np.random.default_rng(7)
X = RNG.uniform(0.5, 4, (6, 8)).astype("float32")
Y = RNG.uniform(0.5, 4, (6, 8)).astype("float32")
I = RNG.integers(1, 9, (6, 8)).astype("int32")
J = RNG.integers(1, 5, (8,)).astype("int32")
TRUTH = RNG.integers(0, 2, (6, 8)).astype(bool)

BINARY = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
]
BITS = [operator.and_, operator.or_, operator.xor]


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("other", [Y, Y[0], 2, 2.5, I, np.float32(2), np.float64(2), J], ids=str)
def test_operators_with_tensors_arrays_and_numbers(op, other):
    def both(x):
        return op(x, other), op(other, x)

    check(both, X)
    if isinstance(other, np.ndarray) and other.ndim == 2:
        check(op, X, other)


@pytest.mark.parametrize("op", [*BINARY, *BITS, operator.lshift, operator.rshift])
def test_operators_of_integers(op):
    check(lambda i: (op(i, J), op(J, i), op(i, 3)), I)


@pytest.mark.parametrize("op", BITS)
def test_operators_of_truth(op):
    check(lambda t: (op(t, TRUTH[0]), op(True, t), ~t), TRUTH)


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "float16", "float32", "float64"]
)
@pytest.mark.parametrize("number", [1, 1.5, True, np.int8(1), np.float64(1.5), np.array([1, 2], "int16")], ids=repr)
def test_python_numbers_are_weak_and_others_are_not(dtype, number):
    x = np.array([[1, 0], [1, 1]], dtype)
    check(lambda x: x + number, x, dynamic=(False,))
    check(lambda x: number * x, x, dynamic=(False,))


def test_unary_operators():
    check(lambda x, i: (-x, +x, abs(x - 2), ~i, divmod(x, 2), divmod(7, x))[:4], X, I)
    check(lambda x: [*divmod(x, 2), *divmod(7.0, x)], X)


def test_products():
    check(lambda x, y: (x @ y.T, x.T @ y, x @ y[0], x.dot(y.T)), X, Y, tolerance=1e-5)
    check(lambda x: (x @ np.ones((8, 3), "float32"), np.ones((3, 6)) @ x), X, tolerance=1e-5, dynamic=(False,))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.T,
        lambda x: x[None].mT,
        lambda x: x.reshape(8, 6),
        lambda x: x.reshape((2, -1)),
        lambda x: x.reshape(-1),
        lambda x: x.reshape([-1, 2, 2]),
        lambda x: x.transpose(),
        lambda x: x.transpose(1, 0),
        lambda x: x[None].transpose((2, 0, 1)),
        lambda x: x.swapaxes(0, 1),
        lambda x: x.flatten(),
        lambda x: x.ravel(),
        lambda x: x[:, None].squeeze(1),
        lambda x: x[:, None].squeeze(),
        lambda x: x.astype("float64"),
        lambda x: x.astype(np.int32),
        lambda x: x.astype(bool),
        lambda x: x.copy(),
        lambda x: x.sum(),
        lambda x: x.sum(0),
        lambda x: x.sum(axis=-1, keepdims=True),
        lambda x: x.sum(axis=(0, 1)),
        lambda x: x.sum(1, dtype="float64"),
        lambda x: x.astype("int8").sum(0),
        lambda x: (x > 2).sum(1),
        lambda x: x.prod(1),
        lambda x: x.mean(),
        lambda x: x.mean(0),
        lambda x: x.mean(axis=1, keepdims=True),
        lambda x: x.astype("int32").mean(1),
        lambda x: x.max(),
        lambda x: x.min(axis=1),
        lambda x: x.argmax(1),
        lambda x: x.argmin(axis=0),
        lambda x: x.argmax(),
        lambda x: (x > 1).any(),
        lambda x: (x > 1).all(axis=0),
        lambda x: x.var(1),
        lambda x: x.std(axis=0, ddof=1),
        lambda x: x.clip(1, 2),
        lambda x: x.clip(max=2),
        lambda x: x.round(),
        lambda x: x.repeat(2, axis=1),
        lambda x: x.repeat(2),
        lambda x: x.take([1, 0, -1], axis=1),
        lambda x: x.take(3),
    ],
)
def test_methods(function):
    check(function, X, tolerance=1e-5)


def test_what_is_known_of_a_tensor():
    n = tg.dim("N", 1)
    seen = {}

    def model(x):
        seen.update(shape=x.shape, ndim=x.ndim, size=x.size, dtype=x.dtype, text=repr(x), item=x.itemsize)
        assert x.dtype == np.float32
        assert x.dtype == "float32"
        assert np.zeros(3, x.dtype).dtype == np.float32
        return x

    tg.trace(model, tg.spec((n, 8), "float32"))
    assert seen["shape"] == (n.var, 8)
    assert (seen["ndim"], str(seen["size"]), seen["item"]) == (2, "N * 8", 4)
    assert seen["text"] == "<Tensor x: float32[N, 8]>"


def test_extents_are_numbers_to_compute_with():
    def model(x):
        b, c = x.shape
        flat = x.reshape(x.shape[0], -1)
        halves = x.reshape(b, 2, c // 2)
        again = halves.reshape(*halves.shape[:-2], c)
        return flat, again, x.sum(0) / x.shape[0], x * (x.shape[0] + 1), x.sum() / x.size, x[: b - 1]

    check(model, X, tolerance=1e-5)


def test_python_idioms():
    weights = [RNG.random((8, 8)).astype("float32") for _ in range(3)]
    bias = np.ones(8, "float32")

    def dense(v, w, b=bias, *, act=np.tanh):
        return act(v @ w + b)

    def model(x):
        start = x
        for w in weights:
            x = dense(x, w)
        x += start
        x -= 1
        x *= 2
        x /= 3
        outs = [dense(x, w, act=lambda v: np.maximum(v, 0)) for w in weights]
        total = sum(outs)
        best = outs[0]
        for o in outs[1:]:
            best = np.maximum(best, o)
        return {"total": total, "best": best, "joined": np.concatenate(outs, axis=-1)}

    check(model, X, tolerance=1e-4)


IN_PLACE = {
    "under another name": lambda x, n: _both(x, x.__iadd__(1)),
    "of a list": lambda x, n: (lambda parts: (parts[0].__iadd__(parts[1]), parts[0]))([x * 1, x * 2]),
    "a wider dtype": lambda x, n: (x.__iadd__(np.ones(X.shape)), x),
    "spread": lambda x, n: (x.__isub__(x[0]), x),
    "products": lambda x, n: (x.__imul__(2).__itruediv__(3).__ifloordiv__(0.5).__imod__(2).__ipow__(2), x),
    "bits": lambda x, n: (n.__iand__(6).__ior__(1).__ixor__(3).__ilshift__(2).__irshift__(1), n),
    "matrices": lambda x, n: (x.__imatmul__(np.eye(X.shape[1], dtype="float32")), x),
    "a number": lambda x, n: (
        lambda first: (first.__iadd__(n.sum()) if hasattr(first, "__iadd__") else first + n.sum(), first)
    )(x.sum()),
}


def _both(x, y):
    return x, y


@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place_operators_change_the_tensor_as_numpy_does(name):
    n = np.arange(12).reshape(4, 3)
    graph = tg.trace(IN_PLACE[name], tg.spec(X.shape, "float32"), tg.spec(n.shape, "int64"))
    for got, want in zip(run(graph, X, n), IN_PLACE[name](X.copy(), n.copy()), strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("message", "function"),
    [
        ("gives <Tensor add.*>, of another shape", lambda x: x[0].__iadd__(x)),
        (r"\+= at .* gives another shape: 1 and \d", lambda x: x[:1].__iadd__(x)),
        ("gives float64, which int64 does not take", lambda x: x.astype("int64").__itruediv__(2)),
        (
            "from inside of a choice or a loop",
            lambda x: tg.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v + x.__iadd__(1)), 0, x * 1)[1],
        ),
    ],
)
def test_what_is_not_changed_in_place(message, function):
    with pytest.raises(GraphError, match=message):
        traced(function, X)


def test_iteration_and_unpacking_of_known_extents():
    def model(x):
        a, b, *rest = x
        return [a + b, *[r * 2 for r in rest], x[len(x) - 1]]

    check(model, X, dynamic=(False,))


def test_numpys_arrays_and_scalars_on_the_left():
    check(lambda x: (Y + x, Y - x, Y @ x.T, Y == x, np.float32(2) * x, np.float64(2) - x), X, tolerance=1e-5)


def caught(function, *arrays, dynamic=True):
    with pytest.raises(GraphError) as found:
        traced(function, *arrays, dynamic=dynamic)
    return str(found.value)


@pytest.mark.parametrize(
    ("function", "wanted", "remedy"),
    [
        (lambda x: x if x.sum() > 0 else -x, "truth value", "tg.where"),
        (lambda x: x and x, "truth value", "tg.cond"),
        (lambda x: max(x, 0), "truth value", "np.maximum"),
        (lambda x: float(x.sum()), "Python float", "astype"),
        (lambda x: math.sqrt(x.sum()), "Python float", "np.sqrt"),
        (lambda x: int(x[0, 0]), "Python int", "astype"),
        (lambda x: range(x.sum()), "Python int", "tg.while_loop"),
        (lambda x: complex(x), "complex number", "no complex"),
        (lambda x: np.asarray(x), "NumPy array", "np.stack"),
        (lambda x: np.array([x, x]), "NumPy array", "np.stack"),
        (lambda x: x.sum().item(), "Python number", "stay with tensors"),
        (lambda x: x.tolist(), "Python list", "whole tensor"),
    ],
)
def test_what_needs_the_values_is_refused(function, wanted, remedy):
    text = caught(function, X)
    assert f"is wanted as a {wanted} at test_tensor.py:{function.__code__.co_firstlineno}" in text
    assert remedy in text


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: list(x), "iteration at .* whose first extent N6 is known only when the graph runs"),
        (lambda x: len(x), r"len\(\) at .* whose first extent N6"),
        (lambda x: len(x.sum()), "which has no axes"),
        (lambda x: x + "a", "got str: 'a'"),
        (lambda x: x + None, "add lacks its operand 'b'"),
        (lambda x: x + 1j, "got complex"),
        (lambda x: x & 1, "bitwise_and"),
        (lambda x: x[0].mT, "has no matrices"),
        (lambda x: x + np.array(["a"]), "tensors hold numbers and bools, got an array of <U1"),
        (lambda x: x.sum(axis=5), "axis 5"),
        (lambda x: x.astype("float33"), "'float33' is no dtype of a tensor"),
        (lambda x: np.zeros(x.shape), "an extent that is known only when the graph runs is wanted as a number"),
        (lambda x: [x for _ in range(x.shape[0])], "wanted as a number in .* at test_tensor.py"),
        (
            lambda x: x if x.shape[0] > 2 else -x,
            "whether N6 > 2 at test_tensor.py:.* is known only when the graph runs",
        ),
    ],
)
def test_errors(function, message):
    with pytest.raises(GraphError, match=message) as found:
        traced(function, X, dynamic=True)
    assert "test_tensor.py:" in str(found.value)


def test_assignment_to_a_part_is_refused():
    def model(x):
        x[0] = 1
        return x

    text = caught(model, X)
    assert "the assignment to a part of <Tensor x" in text
    assert "np.where(mask, value, x)" in text


def test_unknown_methods_are_attribute_errors():
    def model(x):
        assert not hasattr(x, "sort")
        with pytest.raises(AttributeError, match="a tensor has no 'reshap': did you mean 'reshape'"):
            x.reshap
        with pytest.raises(AttributeError, match="tensors of a graph have no 'tobytes'"):
            x.tobytes
        return x

    traced(model, X)


def test_other_errors_of_the_function_pass():
    class Own(Exception):
        pass

    def model(x):
        raise Own

    with pytest.raises(Own):
        traced(model, X)
    with pytest.raises(TypeError, match="unsupported operand"):
        traced(lambda x: "a" - 1, X)


def test_tensors_are_not_hashed():
    def model(x):
        with pytest.raises(TypeError, match="unhashable"):
            {x}
        return x

    assert run(traced(model, X), X)[0] is X
    assert issubclass(Tensor, object)
