"""A third opinion in plain NumPy, element by element, on the cases about which onnxruntime and the reference differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np

from tests.graph.onnx_cases.case import Case

__all__ = ["BY_HAND"]

Array = np.ndarray
Hand = Callable[[Case], list[Array]]


def lrn(given: Case) -> list[Array]:
    x = _x(given)
    attributes = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0} | given.attributes
    size: int = attributes["size"]
    alpha, beta, bias = (attributes[name] for name in ("alpha", "beta", "bias"))
    result = np.empty(x.shape)
    for n, c, h, w in np.ndindex(*x.shape):
        near = x[n, max(0, c - (size - 1) // 2) : c + size // 2 + 1, h, w]
        result[n, c, h, w] = x[n, c, h, w] / (bias + alpha / size * (near**2).sum()) ** beta
    return [result]


def global_max(given: Case) -> list[Array]:
    x = _x(given)
    return [x.max(axis=tuple(range(2, x.ndim)), keepdims=True)]


def lp_normalization(given: Case) -> list[Array]:
    x = _x(given)
    return [x / np.abs(x).sum(axis=given.attributes["axis"], keepdims=True)]


def batch_norm(given: Case) -> list[Array]:
    x, *rest = (np.asarray(operand, np.float64) for operand in given.inputs)
    scale, bias, mean, variance = (operand[:, None, None] for operand in rest)
    return [(x - mean) / np.sqrt(variance + given.attributes["epsilon"]) * scale + bias]


def _windows(given: Case, x: Array) -> Iterator[tuple[tuple[int, ...], tuple[slice, slice]]]:
    """The place of each result in an image, and the part of the image that it sees, cut at the image's ends."""
    kernel, strides = given.attributes["kernel_shape"], given.attributes.get("strides", [1, 1])
    counts, before = [], []
    for extent, size, stride in zip(x.shape[2:], kernel, strides, strict=True):
        if given.attributes.get("auto_pad") == "SAME_LOWER":
            count = -(-extent // stride)
            pad = max((count - 1) * stride + size - extent, 0)
            before.append(pad - pad // 2)
        else:
            count = (
                -(-(extent - size) // stride) if given.attributes.get("ceil_mode") else (extent - size) // stride
            ) + 1
            before.append(0)
        counts.append(count)
    for place in np.ndindex(*counts):
        starts = [i * stride - pad for i, stride, pad in zip(place, strides, before, strict=True)]
        ends = [start + size for start, size in zip(starts, kernel, strict=True)]
        first, second = (slice(max(start, 0), end) for start, end in zip(starts, ends, strict=True))
        yield place, (first, second)


def _pooled(given: Case, reduce: Callable[[Array, Array], float]) -> Array:
    """``reduce`` of what each window sees, and of the indices of that in the whole operand, column after column."""
    x = _x(given)
    images, (rows, columns) = x.shape[0] * x.shape[1], x.shape[2:]
    number = np.arange(x.size).reshape(images, columns, rows).transpose(0, 2, 1).reshape(x.shape)
    places = list(_windows(given, x))
    result = np.empty((*x.shape[:2], *(extent + 1 for extent in places[-1][0])))
    for n, c in np.ndindex(*x.shape[:2]):
        for place, part in places:
            result[(n, c, *place)] = reduce(x[n, c][part], number[n, c][part])
    return result


def lp_pool(given: Case) -> list[Array]:
    return [_pooled(given, lambda seen, _: np.sqrt((seen**2).sum()))]


def max_pool(given: Case) -> list[Array]:
    largest = _pooled(given, lambda seen, _: seen.max())
    return [largest, _pooled(given, lambda seen, number: number.flat[seen.argmax()])][: given.outputs]


def soft(given: Case) -> list[Array]:
    """Of a matrix: the axes before the given one, and the axes from it on."""
    x = _x(given)
    axis = given.attributes.get("axis", 1) % x.ndim
    flat = x.reshape(int(np.prod(x.shape[:axis])), -1)
    if given.op == "Hardmax":
        result = (np.arange(flat.shape[1]) == flat.argmax(axis=1)[:, None]).astype(np.float64)
    else:
        risen = np.exp(flat - flat.max(axis=1, keepdims=True))
        result = risen / risen.sum(axis=1, keepdims=True)
        if given.op == "LogSoftmax":
            result = np.log(result)
    return [result.reshape(x.shape)]


def sum_of_squares(given: Case) -> list[Array]:
    return [(_x(given) ** 2).sum(axis=0)]


def log_sum_exp(given: Case) -> list[Array]:
    with np.errstate(divide="ignore"):
        return [np.log(np.exp(_x(given)).sum(axis=1))]


def counted(given: Case) -> list[Array]:
    trips, start = given.inputs[0], given.inputs[2]
    return [np.asarray(start, np.float64) + sum(range(int(np.asarray(trips))))]


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1),
    "Tanh": np.tanh,
    "Relu": lambda x: np.maximum(x, 0),
}
DEFAULTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}


def recurrence(given: Case) -> list[Array]:
    """With bias, from states of zero; each row of the batch by itself, and each direction."""
    x, w, r, b, *rest = (None if operand is None else np.asarray(operand, np.float64) for operand in given.inputs)
    assert x is not None and w is not None and r is not None and b is not None
    steps, rows, _ = x.shape
    count, hidden = len(w), r.shape[-1]
    lengths = np.full(rows, steps) if not rest or rest[0] is None else rest[0].astype(int)
    states, last = np.zeros((steps, count, rows, hidden)), np.zeros((2, count, rows, hidden))
    way = given.attributes.get("direction", "forward")
    for number, backwards in enumerate({"forward": [False], "reverse": [True], "bidirectional": [False, True]}[way]):
        bias, recurrent_bias = np.split(b[number], 2)
        for row in range(rows):
            h = c = np.zeros(hidden)
            times = range(lengths[row])
            for t in reversed(times) if backwards else times:
                h, c = _step(given, x[t, row] @ w[number].T + bias, r[number], recurrent_bias, h, c)
                states[t, number, row] = h
            last[:, number, row] = h, c
    return [states, *last][: given.outputs]


def _step(given: Case, came: Array, r: Array, bias: Array, h: Array, c: Array) -> tuple[Array, Array]:
    limit = given.attributes.get("clip", np.inf)
    names = given.attributes.get("activations", DEFAULTS[given.op])

    def activated(name: str) -> Callable[[Array], Array]:
        return lambda x: ACTIVATIONS[name](np.clip(x, -limit, limit))

    f, *others = map(activated, names)
    if given.op == "RNN":
        return f(came + h @ r.T + bias), c
    if given.op == "LSTM":
        i, o, forget, cell = np.split(came + h @ r.T + bias, 4)
        opened = f(i)
        kept = 1 - opened if given.attributes.get("input_forget") else f(forget)
        c = kept * c + opened * others[0](cell)
        return f(o) * ACTIVATIONS[names[2]](c), c
    (xz, xr, xh), (rz, rr, rh), (bz, br, bh) = (np.split(part, 3) for part in (came, r, bias))
    update, reset = f(xz + h @ rz.T + bz), f(xr + h @ rr.T + br)
    return (1 - update) * others[0](xh + (reset * h) @ rh.T + bh) + update * h, c


def backwards(given: Case) -> list[Array]:
    """Rows from the start, at least the first one, to before the end, one by one."""
    x, start, end, _, step = (np.asarray(one).tolist() for one in given.inputs)
    at, last = (max(n[0] + len(x) if n[0] < 0 else n[0], least) for n, least in ((start, 0), (end, -1)))
    rows = []
    while at > last:
        rows.append(x[at])
        at += step[0]
    return [np.array(rows)]


def _x(given: Case) -> Array:
    x = np.asarray(given.inputs[0])
    return x if x.dtype.kind == "i" else x.astype(np.float64)


BY_HAND: dict[str, Hand] = {
    "LRN-13-defaults": lrn,
    "LRN-7-alpha_beta_and_bias": lrn,
    "GlobalMaxPool-7-one_axis": global_max,
    "GlobalMaxPool-7-negative": global_max,
    "LpPool-18-ceil": lp_pool,
    "LpNormalization-7-first_order": lp_normalization,
    "BatchNormalization-9-epsilon": batch_norm,
    "MaxPool-12-same_lower": max_pool,
    "MaxPool-12-indices_by_columns": max_pool,
    "ReduceSumSquare-18-int32": sum_of_squares,
    "ReduceLogSumExp-18-minus_infinity": log_sum_exp,
    "Loop-13-trips_alone": counted,
    "Slice-13-backwards_from_before_the_first": backwards,
    "LSTM-14-joint_input_and_forget": recurrence,
    "LSTM-14-other_activations": recurrence,
    "GRU-14-other_activations": recurrence,
}
for _op, _form in product(
    ("Softmax", "LogSoftmax", "Hardmax"), ("11-all_from_the_default_on", "11-all_from_a_negative_axis_on", "7-all")
):
    BY_HAND[f"{_op}-{_form}"] = soft
for _op, _form in product(
    ("LSTM", "GRU", "RNN"), ("lengths", "lengths_in_reverse", "clipped", "many_steps_with_lengths")
):
    BY_HAND[f"{_op}-14-{_form}"] = recurrence
