"""NumPy's functions that are made of others give what NumPy gives: of NaN, infinities, signed zeros, and under dims."""

import warnings

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph import GraphError
from tirlower.graph.frontend import compositions

RNG = np.random.default_rng(11)
X = RNG.normal(size=(5, 4)).astype("float32")
HARD = X.copy()
HARD.reshape(-1)[[0, 3, 5, 6, 9, 12, 15]] = [np.nan, np.inf, -np.inf, 0.0, -0.0, np.nan, np.inf]
HARD[2] = np.nan
N = RNG.integers(-5, 6, (5, 4))
I32 = N.astype("int32")
U8 = RNG.integers(0, 256, (5, 4)).astype("uint8")
SQUARE = RNG.normal(size=(4, 4))
TIES = np.round(HARD)
ROW = np.array([-1.0, 0.0, 0.0, 0.5, np.inf, np.nan])

CASES = {
    "isclose": (lambda x, y: (np.isclose(x, y), np.isclose(x, x + 1e-6), np.isclose(x, x, equal_nan=True)), HARD, X),
    "isclose of integers": (lambda x, y: np.isclose(x, y, atol=1), N, I32),
    "allclose": (lambda x, y: (np.allclose(x, x), np.allclose(x, y)), X, HARD),
    "array_equal": (
        lambda x, y: (np.array_equal(x, x), np.array_equal(x, y), np.array_equal(x, y[0]), np.array_equal(x, y[:1])),
        X,
        HARD,
    ),
    "isin": (lambda x, y: (np.isin(x, [1, 2, -3]), np.isin(x, y, invert=True)), N, I32[0]),
    "signbit": (lambda x, n: (np.signbit(x), np.signbit(n)), HARD, N),
    "heaviside": (lambda x, y: (np.heaviside(x, 0.5), np.heaviside(y, x)), HARD, N),
    "fmax": (lambda x, y: (np.fmax(x, y), np.fmin(x, y), np.fmax(y, x), np.fmin(x, 0.25)), HARD, X),
    "fmax of integers": (lambda x, y: (np.fmax(x, y), np.fmin(x, 2)), N, I32),
    "nan_to_num": (
        lambda x, n: (np.nan_to_num(x), np.nan_to_num(x, nan=3, posinf=1, neginf=-1), np.nan_to_num(n)),
        HARD,
        N,
    ),
    "nansum": (lambda x, n: (np.nansum(x), np.nansum(n, axis=0), np.nanprod(np.clip(x, -2, 2), axis=1)), HARD, N),
    "nansum in another dtype": (lambda x: np.nansum(np.clip(x, -9, 9), axis=-1, dtype="float64"), HARD),
    "nanmax": (
        lambda x, n: (np.nanmax(x), np.nanmax(x, axis=1), np.nanmin(x, axis=0, keepdims=True), np.nanmin(n)),
        HARD,
        N,
    ),
    "nanmean": (lambda x, n: (np.nanmean(np.clip(x, -9, 9), axis=1), np.nanmean(n)), HARD, N),
    "diagonal": (
        lambda x: (
            np.diagonal(x),
            np.diagonal(x, 1),
            np.diagonal(x, -2),
            np.diagonal(x, 9),
            np.diagonal(x, axis1=1, axis2=0),
        ),
        X,
    ),
    "diagonals of a stack": (
        lambda x: (np.diagonal(x), np.diagonal(x, 1, 1, 2), np.trace(x, axis1=-1, axis2=0)),
        RNG.normal(size=(3, 2, 4)),
    ),
    "trace": (lambda x, n: (np.trace(x), np.trace(n, 1), np.trace(n, -9)), SQUARE, I32),
    "diag": (lambda x, v: (np.diag(x), np.diag(v), np.diag(v, 2), np.diag(v, -1), np.diag(x, 1)), SQUARE, I32[0]),
    "turned": (
        lambda x: (
            np.flipud(x),
            np.fliplr(x),
            *[np.rot90(x, k) for k in (-1, 0, 1, 2, 3, 4)],
            np.rot90(x, axes=(1, 0)),
        ),
        X,
    ),
    "roll": (lambda x: (np.roll(x, 1), np.roll(x, -7), np.roll(x, 2, axis=1), np.roll(x, (1, -1), axis=(0, 1))), X),
    "rollaxis": (
        lambda x: (np.rollaxis(x, 2), np.rollaxis(x, 0, 3), np.rollaxis(x, -1, 1)),
        RNG.normal(size=(3, 2, 4)),
    ),
    "dstack": (lambda x, n: (np.dstack([x, n]), np.dstack([x[0], n[0]]), np.dstack([x[..., None], n])), X, N),
    "column_stack": (lambda x, n: (np.column_stack([x, n]), np.column_stack([x[:, 0], n, n[:, 1]])), X, N),
    "append": (lambda x, n: (np.append(x, n), np.append(x, n, axis=1), np.append(x, 3)), X, N),
    "unstack": (lambda x: (*np.unstack(x), *np.unstack(x, axis=-1)), X),
    "meshgrid": (
        lambda x, n: (
            *np.meshgrid(x, n),
            *np.meshgrid(x, n, indexing="ij"),
            *np.meshgrid(x, n, x, sparse=True),
            *np.meshgrid(x),
        ),
        X[0],
        N[:, 0],
    ),
    "select": (lambda x, n: (np.select([x > 1, x > 0], [x, 2 * x], 7.5), np.select([n > 1], [n])), HARD, N),
    "median": (
        lambda x, n: (np.median(x), np.median(x, axis=1), np.median(x, axis=0, keepdims=True), np.median(n)),
        X,
        N,
    ),
    "median of NaN and infinities": (lambda x: (np.median(x), np.median(x, axis=1), np.median(x, axis=0)), HARD),
    "searchsorted": (
        lambda a, v: (np.searchsorted(a, v), np.searchsorted(a, v, side="right"), np.searchsorted(a, 0.0)),
        ROW,
        HARD,
    ),
    "searchsorted of integers": (
        lambda v: (np.searchsorted(np.array([-2, 0, 0, 3]), v), np.searchsorted([1, 2], v, "right")),
        N,
    ),
    "kron": (lambda x, n: (np.kron(x, n), np.kron(x[0], n), np.kron(x, n[0])), X, N),
    "cross": (lambda x, n: np.cross(x[:, :3], n[:, 1:]), X, N),
    "matvec": (lambda x: (np.matvec(x, x[0]), np.vecmat(x[:, 0], x)), X),
    "float_power": (lambda x, n: (np.float_power(x, 2), np.float_power(abs(n) + 1, -1)), X, N),
    "polyval": (lambda x, n: (np.polyval([1.5, -2.0, 3.0], x), np.polyval([1, 2], n)), SQUARE, N),
    "around": (
        lambda x, n: (np.round(x, 1), np.round(x, -1), np.round(n, -1), np.round(n, 2), np.around(n * 10 + 5, -1)),
        HARD * 10,
        I32,
    ),
    "take out of range": (lambda x, n: (np.take(x, n, mode="wrap"), np.take(x, n, axis=1, mode="clip")), X, N),
}


def alike(got: object, want: object) -> None:
    several = [list(v) if isinstance(v, (tuple, list)) else [v] for v in (got, want)]
    assert len(several[0]) == len(several[1])
    for a, b in zip(*several, strict=True):
        b = np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        if b.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(a[b == 0]), np.signbit(b[b == 0]))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CASES)
def test_a_function_gives_what_numpys_gives(name: str) -> None:
    function, *arrays = CASES[name]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        want = function(*arrays)
        graph = tg.trace(function, *[tg.spec(a.shape, a.dtype.name) for a in arrays])
        tg.verify(graph)
        alike(tg.interpret(graph, *arrays), want)


def test_every_function_has_a_case() -> None:
    shown = " ".join(str(function.__code__.co_names) for function, *_ in CASES.values())
    assert [name for name in compositions.__all__ if f"'{name}'" not in shown] == []


DYNAMIC = {
    "diag": lambda x: np.diag(x[:, 0], 1),
    "trace": lambda x: np.trace(x @ x.T),
    "median": lambda x: (np.median(x, axis=0), np.median(x)),
    "roll": lambda x: np.roll(x, 1),
    "meshgrid": lambda x: np.meshgrid(x[:, 0], x[0]),
    "nanmean": lambda x: (np.nanmean(x, axis=0), np.nanmax(x)),
    "searchsorted": lambda x: np.searchsorted(np.array([-1.0, 0.0, 1.0], "float32"), x, "right"),
    "kron": lambda x: np.kron(x, x),
    "take": lambda x: np.take(x, np.array([-9, 1, 7]), axis=0, mode="clip"),
}


@pytest.mark.parametrize("name", DYNAMIC)
def test_dims(name: str) -> None:
    B = tg.dim("B", 1, 64)
    graph = tg.trace(DYNAMIC[name], tg.spec((B, 4), "float32"))
    tg.verify(graph)
    for rows in (1, 2, 5):
        alike(tg.interpret(graph, X[:rows]), DYNAMIC[name](X[:rows]))


def test_they_are_compiled() -> None:
    def f(x, n):
        return np.select([x > 1], [np.nan_to_num(x)], -1.0), np.median(x, axis=0), np.isclose(x, n), np.diag(x[0])

    exe = tg.compile(tg.trace(f, tg.spec((5, 4), "float32"), tg.spec((5, 4), "int64")))
    with np.errstate(all="ignore"):
        alike(exe(HARD, N), f(HARD, N))


@pytest.mark.parametrize(
    ("message", "function"),
    [
        ("vectors of three elements", lambda x: np.cross(x, x)),
        ("1 conditions and 2 choices", lambda x: tg.xp.select([x > 0], [x, x])),
        ("axis 3 of median", lambda x: np.median(x, axis=3)),
        ("by 'xy' or 'ij'", lambda x: tg.xp.meshgrid(x, indexing="yx")),
        ("the sides 'left' and 'right'", lambda x: tg.xp.searchsorted(x[0], x, side="middle")),
        ("the modes 'raise', 'wrap' and 'clip'", lambda x: tg.xp.take(x, [0], mode="no")),
    ],
)
def test_what_is_refused(message: str, function) -> None:
    with pytest.raises(GraphError, match=message):
        tg.trace(function, tg.spec((5, 4), "float32"))


def test_parts_of_an_unknown_number_are_refused() -> None:
    with pytest.raises(GraphError, match=r"unstack at .* along an axis of B"):
        tg.trace(lambda x: np.unstack(x)[0], tg.spec((tg.dim("B"), 4), "float32"))
