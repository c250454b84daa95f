"""NumPy's functions on tensors give what they give on arrays."""

import numpy as np
import pytest

import tirlower.graph as tg
from tests.graph.frontend.oracle import check, run, traced
from tirlower.graph import GraphError

pytestmark = pytest.mark.by_day

RNG = np.random.default_rng(3)
X = RNG.uniform(-3, 3, (6, 8)).astype("float32")
Y = RNG.uniform(-3, 3, (6, 8)).astype("float32")
Z = RNG.uniform(-3, 3, (6, 2, 4)).astype("float32")


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, z: np.concatenate((x, y)),
        lambda x, y, z: np.concatenate([x, y, x], axis=-1),
        lambda x, y, z: np.concatenate((x, y), axis=None),
        lambda x, y, z: np.concatenate((x, y), dtype="float64"),
        lambda x, y, z: np.stack([x, y]),
        lambda x, y, z: np.stack((x, y), axis=-1),
        lambda x, y, z: np.stack((x, y), 1),
        lambda x, y, z: np.hstack([x, y]),
        lambda x, y, z: np.hstack([x[0], y[1]]),
        lambda x, y, z: np.vstack([x[0], y]),
        lambda x, y, z: np.split(x, 2, axis=1),
        lambda x, y, z: np.split(x, 1),
        lambda x, y, z: np.split(x, [1, 4, 9], axis=1),
        lambda x, y, z: np.split(x, np.array([2, 3]), 0),
        lambda x, y, z: np.array_split(x, 3, axis=1),
        lambda x, y, z: np.array_split(x, 4),
        lambda x, y, z: np.vsplit(x[:4], 2),
        lambda x, y, z: np.hsplit(x, 4),
        lambda x, y, z: np.reshape(z, (6, -1)),
        lambda x, y, z: np.reshape(z, (-1, 4)),
        lambda x, y, z: np.reshape(x, x.shape + (1,)),
        lambda x, y, z: np.ravel(z),
        lambda x, y, z: np.transpose(z),
        lambda x, y, z: np.transpose(z, (1, 0, 2)),
        lambda x, y, z: np.transpose(z, axes=[-1, 0, 1]),
        lambda x, y, z: np.swapaxes(z, 0, -1),
        lambda x, y, z: np.moveaxis(z, 0, -1),
        lambda x, y, z: np.moveaxis(z, [0, 1], [2, 0]),
        lambda x, y, z: np.expand_dims(x, 0),
        lambda x, y, z: np.expand_dims(x, (0, -1)),
        lambda x, y, z: np.squeeze(x[None, :, None]),
        lambda x, y, z: np.squeeze(x[None, :, None], (0, 2)),
        lambda x, y, z: np.broadcast_to(x, (3, *x.shape)),
        lambda x, y, z: np.broadcast_arrays(x, y[:, :1], 2.0),
        lambda x, y, z: np.atleast_1d(x[0, 0]),
        lambda x, y, z: np.atleast_2d(x[0]),
        lambda x, y, z: np.where(x > 0, x, y),
        lambda x, y, z: np.where(x > 0, x, 0),
        lambda x, y, z: np.where(x > 0, 1.0, -1.0),
        lambda x, y, z: np.where(X[0] > 0, x, y),
        lambda x, y, z: np.clip(x, -1, 1),
        lambda x, y, z: np.clip(x, None, 0.5),
        lambda x, y, z: np.clip(x, y - 1, y + 1),
        lambda x, y, z: np.clip(x, a_min=0, a_max=2),
        lambda x, y, z: np.pad(x, 1),
        lambda x, y, z: np.pad(x, (1, 2)),
        lambda x, y, z: np.pad(x, ((0, 1), (2, 0)), constant_values=7),
        lambda x, y, z: np.pad(x, ((1, 1), (2, 3)), "edge"),
        lambda x, y, z: np.pad(x, ((1, 1), (2, 3)), mode="reflect"),
        lambda x, y, z: np.take(x, [1, -1, 0], axis=1),
        lambda x, y, z: np.take(x, 2, 1),
        lambda x, y, z: np.take(x, [[0, 9], [-1, 3]]),
        lambda x, y, z: np.take(x, np.argmax(x, axis=1), axis=1),
        lambda x, y, z: np.take_along_axis(x, np.argmax(x, axis=1)[:, None], axis=1),
        lambda x, y, z: np.tile(x, (2, 1)),
        lambda x, y, z: np.tile(x, 2),
        lambda x, y, z: np.repeat(x, 3, axis=1),
        lambda x, y, z: np.repeat(x, 2),
        lambda x, y, z: np.roll(x, 1, axis=0),
        lambda x, y, z: np.roll(x, (1, -2), axis=(0, 1)),
        lambda x, y, z: np.flip(x, 0),
        lambda x, y, z: np.flip(x),
        lambda x, y, z: np.fliplr(x) if not isinstance(x, tg.Tensor) else np.flip(x, 1),
        lambda x, y, z: np.tril(x),
        lambda x, y, z: np.triu(x, 1),
        lambda x, y, z: np.diff(x),
        lambda x, y, z: np.diff(x, n=2, axis=0),
        lambda x, y, z: np.zeros_like(x) + x,
        lambda x, y, z: np.ones_like(x, dtype="int32"),
        lambda x, y, z: np.full_like(x, 2.5),
        lambda x, y, z: np.zeros((3, 8), "float32", like=x) + x[0],
        lambda x, y, z: np.copy(x),
        lambda x, y, z: np.degrees(x) + np.deg2rad(y),
        lambda x, y, z: np.round(x),
        lambda x, y, z: np.round(x * 100, 1),
        lambda x, y, z: np.rint(x),
        lambda x, y, z: np.isneginf(x / 0) | np.isposinf(y / 0),
        lambda x, y, z: np.size(z, 1) * x,
        lambda x, y, z: np.ndim(z) * x,
    ],
)
def test_shapes_parts_and_elements(function):
    with np.errstate(all="ignore"):
        check(function, X, Y, Z)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y, z: np.sum(x),
        lambda x, y, z: np.sum(x, 0),
        lambda x, y, z: np.sum(x, axis=(0, -1)),
        lambda x, y, z: np.sum(x, 1, None, None, True),
        lambda x, y, z: np.sum(x, axis=1, dtype=np.float64),
        lambda x, y, z: np.mean(x, 0, np.float64),
        lambda x, y, z: np.mean(x, axis=1, keepdims=True),
        lambda x, y, z: np.max(x, 0, None, True),
        lambda x, y, z: np.amax(x) - np.amin(x),
        lambda x, y, z: np.min(x, axis=-1),
        lambda x, y, z: np.argmax(x, 1),
        lambda x, y, z: np.argmin(x, axis=0, keepdims=True),
        lambda x, y, z: np.prod(x, 1),
        lambda x, y, z: np.any(x > 2, axis=1),
        lambda x, y, z: np.all(x > -2, 0),
        lambda x, y, z: np.var(x, 1, ddof=1),
        lambda x, y, z: np.std(x, axis=(0, 1), keepdims=True),
        lambda x, y, z: np.ptp(x, axis=1),
        lambda x, y, z: np.average(x, axis=1),
        lambda x, y, z: np.average(x, axis=1, weights=np.abs(y)),
        lambda x, y, z: np.count_nonzero(x > 0, axis=0),
        lambda x, y, z: np.linalg.norm(x),
        lambda x, y, z: np.linalg.norm(x, axis=1),
        lambda x, y, z: np.linalg.norm(x, 2, axis=-1, keepdims=True),
        lambda x, y, z: np.add.reduce(x),
        lambda x, y, z: np.maximum.reduce(x, axis=1),
        lambda x, y, z: np.multiply.reduce(x, 1, keepdims=True),
        lambda x, y, z: np.matmul(x, y.T),
        lambda x, y, z: np.dot(x, y.T),
        lambda x, y, z: np.dot(x, y[0]),
        lambda x, y, z: np.dot(x[0], y[0]),
        lambda x, y, z: np.dot(x, 2),
        lambda x, y, z: np.dot(y[:, :4], np.swapaxes(z, 1, 2)),
        lambda x, y, z: np.inner(x, y),
        lambda x, y, z: np.einsum("ij,kj->ik", x, y),
        lambda x, y, z: np.einsum("bij,bk->bik", z, x),
        lambda x, y, z: np.einsum("ij->j", x),
        lambda x, y, z: np.einsum("...i,...i->...", x, y),
        lambda x, y, z: np.outer(x[0], y[1]),
        lambda x, y, z: np.multiply.outer(x[0], z),
        lambda x, y, z: np.vdot(x, y),
        lambda x, y, z: np.tensordot(x, y, ((0, 1), (0, 1))),
        lambda x, y, z: np.tensordot(z, x, axes=([0], [0])),
        lambda x, y, z: np.tensordot(x, y, 0),
        lambda x, y, z: np.linalg.matrix_transpose(z) if hasattr(np.linalg, "matrix_transpose") else z,
    ],
)
def test_reductions_and_products(function):
    check(function, X, Y, Z, tolerance=2e-5)


UFUNCS = [
    "absolute",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "conjugate",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "divmod",
    "equal",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "floor",
    "floor_divide",
    "fmod",
    "greater",
    "greater_equal",
    "hypot",
    "invert",
    "isfinite",
    "isinf",
    "isnan",
    "left_shift",
    "less",
    "less_equal",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "maximum",
    "minimum",
    "mod",
    "modf",
    "multiply",
    "negative",
    "not_equal",
    "positive",
    "power",
    "rad2deg",
    "radians",
    "reciprocal",
    "remainder",
    "right_shift",
    "rint",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
]


@pytest.mark.parametrize("name", UFUNCS)
def test_universal_functions(name):
    ufunc = getattr(np, name)
    integral = "bitwise" in name or "shift" in name or name == "invert"
    x = RNG.uniform(0.1, 0.9, (4, 4)).astype("float32") + (1 if name == "arccosh" else 0)
    y = RNG.uniform(0.1, 0.9, (4, 4)).astype("float32")
    if integral:
        x, y = RNG.integers(0, 8, (4, 4)), RNG.integers(0, 8, (4, 4))
    given = (x, y)[: ufunc.nin]
    check(ufunc, *given, tolerance=1e-5)


def caught(function):
    with pytest.raises(GraphError) as found:
        traced(function, X, dynamic=True)
    return str(found.value)


@pytest.mark.parametrize(
    ("function", "message", "remedy"),
    [
        (lambda x: np.add(x, 1, out=np.zeros((6, 8))), "np.add at test_functions.py", "take the result"),
        (lambda x: np.sum(x, axis=0, out=np.zeros(8)), "np.sum at test_functions.py", "take the result"),
        (lambda x: np.add(x, 1, where=x > 0), "takes no where=", "np.where(mask, np.add(x, y), x)"),
        (lambda x: np.sum(x, where=x > 0), "takes no where=", "np.sum(np.where(mask, x, 0))"),
        (lambda x: np.sum(x, initial=3), "np.sum at .* takes no initial=", "it is sum"),
        (lambda x: np.partition(x, 1), "np.partition at .* is not known", ""),
        (lambda x: np.frexp(x), "np.frexp at .* is not known", ""),
        (lambda x: np.add.at(x, 0, 1), "np.add.at at .* is not known", "np.sum"),
        (lambda x: np.where(x > 0), "how many elements hold", "tg.where(condition, x, y)"),
        (lambda x: np.reshape(x, (6, 8), order="F"), "knows the order 'C' alone, got 'F'", "transpose"),
        (lambda x: np.reshape(x, (-1, -1)), "one extent at most is -1", ""),
        (lambda x: np.reshape(x[0], (-1, 7)), "7 does not divide 8", ""),
        (lambda x: np.split(x, 3, axis=1), "split", ""),
        (lambda x: np.concatenate([x, x[:, 1:]]), "concat", ""),
        (lambda x: np.stack([x, x[0]]), "stack", ""),
        (lambda x: np.linalg.norm(x, 1, axis=0), "by squares alone, got ord=1", ""),
        (lambda x: np.expand_dims(x, 5), "axis 5 of expand_dims at test_functions.py", ""),
    ],
)
def test_what_is_refused(function, message, remedy):
    import re

    text = caught(function)
    assert re.search(message, text), text
    assert remedy in text
    assert "test_functions.py:" in text


def test_the_array_apis_names():
    def model(x):
        xp = x.__array_namespace__()
        assert xp is tg.xp
        y = xp.concat([x, xp.astype(x, xp.float32)], axis=0)
        y = xp.permute_dims(y, (1, 0))
        return (
            xp.pow(xp.abs(y), 2),
            xp.matrix_transpose(y),
            xp.vecdot(x, x),
            xp.result_type(x, xp.float64) == np.float64,
        )

    got = run(traced(lambda x: model(x)[:3], X), X)
    y = np.concatenate([X, X]).T
    for a, b in zip(got, (np.abs(y) ** 2, y.T, (X * X).sum(-1)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
