"""LSTM, GRU and RNN: a step behind the other where the sequence is short, else a loop that carries the states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tirlower.graph.core.dims import Extent
from tirlower.graph.core.nodes import Graph, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_ops.control import with_row
from tirlower.graph.frontend.onnx_ops.table import Call, row
from tirlower.graph.ops.builder import GraphBuilder

__all__ = []

_MOST_UNROLLED = 16
"""A sequence of more steps, or of a dynamic length, is a loop."""
_COMMON = (
    "activation_alpha activation_beta activations clip direction hidden_size layout output_sequence input_forget "
    "linear_before_reset"
)
Activation = Callable[[Call, Value], Value]

_PLAIN = {
    "relu": "relu",
    "sigmoid": "sigmoid",
    "softplus": "softplus",
    "softsign": "softsign",
    "tanh": "tanh",
}
# The function, and what alpha and beta are where they are not given.
_WITH_ALPHA = {"elu": ("elu", 1.0), "leakyrelu": ("leaky_relu", 0.01), "thresholdedrelu": ("thresholded_relu", 1.0)}


@dataclass(frozen=True)
class _Direction:
    """What the steps of a direction need: activations, the recurrent weights turned, their bias; ``inner`` and its bias are those
    of a gate that takes the state only once others have seen it."""

    c: Call
    act: tuple[Activation, ...]
    r: Value
    bias_r: Value | None
    inner: Value | None
    bias_inner: Value | None
    hidden: int
    peepholes: Value | None

    def gates(self, x: Value, count: int) -> list[Value]:
        """Parts of the last axis, one for each gate."""
        return [self.part(x, n) for n in range(count)]

    def part(self, x: Value, n: int) -> Value:
        """The part of the last axis that belongs to a gate."""
        axis = len(x.shape) - 1
        return self.c.op("slice", x, starts=(n * self.hidden,), ends=((n + 1) * self.hidden,), axes=(axis,))

    def recurrent(self, h: Value) -> Value:
        """What the last state adds to all gates."""
        return _linear(self.c, h, self.r, self.bias_r)


def _linear(c: Call, x: Value, w: Value, bias: Value | None) -> Value:
    """A product, and what is added."""
    found = c.op("matmul", x, w)
    return found if bias is None else c.op("add", found, bias)


def _activation(c: Call, name: str, alpha: float | None, beta: float | None, clip: float) -> Activation:
    low = name.lower()

    def limited(b: Call, x: Value) -> Value:
        return b.op("clip", x, -clip, clip) if clip else x

    if low in _PLAIN:
        return lambda b, x: b.op(_PLAIN[low], limited(b, x))
    if low in _WITH_ALPHA:
        function, default = _WITH_ALPHA[low]
        return lambda b, x: b.op(function, limited(b, x), alpha=default if alpha is None else alpha)
    if low == "hardsigmoid":
        slope, offset = 0.2 if alpha is None else alpha, 0.5 if beta is None else beta
        return lambda b, x: b.op("hard_sigmoid", limited(b, x), alpha=slope, beta=offset)
    if low == "affine":
        slope, offset = 1.0 if alpha is None else alpha, 0.0 if beta is None else beta
        return lambda b, x: b.op("add", b.op("multiply", limited(b, x), slope), offset)
    raise c.unsupported(f"with the activation {name!r}")


_NUMBERED = {"hardsigmoid": 2, "affine": 2, "elu": 1, "leakyrelu": 1, "thresholdedrelu": 1}
"""How many of alpha and beta an activation takes from the lists of the node."""


def _activations(c: Call, default: tuple[str, ...], directions: int) -> list[Activation]:
    names = c.texts("activations") or default * directions
    if len(names) != len(default) * directions:
        raise GraphError(f"{c.node.op} has {len(default) * directions} activations, got {len(names)}")
    alphas, betas = list(c.floats("activation_alpha") or ()), list(c.floats("activation_beta") or ())
    made: list[Activation] = []
    for n, name in enumerate(names):
        takes = _NUMBERED.get(name.lower(), 0)
        alpha = alphas.pop(0) if takes and alphas else None
        beta = betas.pop(0) if takes > 1 and betas else None
        clip = c.number("clip", 0.0) if n % len(default) < 2 else 0.0  # a cell's state is not limited
        made.append(_activation(c, name, alpha, beta, clip))
    return made


State = tuple[Value, ...]
Step = Callable[[_Direction, Value, State], State]
"""One step: from what the input adds to all gates and the states to the new states, the first of which is given out."""


def _lstm(d: _Direction, came: Value, state: State) -> State:
    c, (h, cell) = d.c, state
    i, o, f, g = d.gates(c.op("add", came, d.recurrent(h)), 4)
    if d.peepholes is not None:
        pi, _, pf = d.gates(d.peepholes, 3)
        i = c.op("add", i, c.op("multiply", pi, cell))
        f = c.op("add", f, c.op("multiply", pf, cell))
    enter = d.act[0](d.c, i)
    keep = c.op("subtract", 1.0, enter) if c.flag("input_forget") else d.act[0](d.c, f)
    new = c.op("add", c.op("multiply", keep, cell), c.op("multiply", enter, d.act[1](d.c, g)))
    if d.peepholes is not None:
        o = c.op("add", o, c.op("multiply", d.part(d.peepholes, 1), new))
    return c.op("multiply", d.act[0](d.c, o), d.act[2](d.c, new)), new


def _gru(d: _Direction, came: Value, state: State) -> State:
    c, (h,) = d.c, state
    left, right = d.gates(came, 3), d.gates(d.recurrent(h), 3 if d.inner is None else 2)
    z, r = (d.act[0](d.c, c.op("add", left[n], right[n])) for n in range(2))
    if d.inner is None:
        inner = c.op("multiply", r, right[2])
    else:
        inner = _linear(c, c.op("multiply", r, h), d.inner, d.bias_inner)
    new = d.act[1](d.c, c.op("add", left[2], inner))
    return (c.op("add", c.op("multiply", c.op("subtract", 1.0, z), new), c.op("multiply", z, h)),)


def _rnn(d: _Direction, came: Value, state: State) -> State:
    return (d.act[0](d.c, d.c.op("add", came, d.recurrent(state[0]))),)


def _at(c: Call, x: Value, n: int, axis: int = 0) -> Value:
    """One place of an axis, which goes."""
    return c.op("squeeze", c.op("slice", x, starts=(n,), ends=(n + 1,), axes=(axis,)), axis=axis)


def _cut(c: Call, x: Value, at: int) -> tuple[Value, Value]:
    """The two parts of the last axis, in front of a place and behind it."""
    axis = len(x.shape) - 1
    return (
        c.op("slice", x, starts=(0,), ends=(at,), axes=(axis,)),
        c.op("slice", x, starts=(at,), ends=(None,), axes=(axis,)),
    )


def _directions(c: Call) -> list[bool]:
    """For each direction whether it goes backwards."""
    name = c.text("direction", "forward")
    found = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(name)
    if found is None:
        raise c.unsupported(f"in the direction {name!r}")
    return found


def _run(c: Call, gates: int, states: int, step: Step, default: tuple[str, ...]) -> list[Value]:
    batch_first = c.flag("layout")
    x = c.op("transpose", c.value(0), axes=(1, 0, 2)) if batch_first else c.value(0)
    length, batch = x.shape[0], x.shape[1]
    hidden = c.integer("hidden_size", 0) or _number(c, c.shape(2)[2])
    directions = _directions(c)
    acts = _activations(c, default, len(directions))
    each = len(default)
    lengths = c.value(4) if c.has(4) else None
    outs: list[Value] = []
    lasts: list[State] = []
    for n, backwards in enumerate(directions):
        weights = [c.op("transpose", _at(c, c.value(k), n), axes=(1, 0)) for k in (1, 2)]
        bias: tuple[Value | None, Value | None] = (None, None)
        if c.has(3):
            bias = _cut(c, _at(c, c.value(3), n), gates * hidden)
        peepholes = _at(c, c.value(7), n) if states == 2 and c.has(7) else None
        own = tuple(acts[n * each : (n + 1) * each])
        r, bias_r, inner, bias_inner = weights[1], bias[1], None, None
        if step is _gru and not c.flag("linear_before_reset"):
            r, inner = _cut(c, weights[1], 2 * hidden)
            if bias[1] is not None:
                bias_r, bias_inner = _cut(c, bias[1], 2 * hidden)
        d = _Direction(c, own, r, bias_r, inner, bias_inner, hidden, peepholes)
        came = _linear(c, x, weights[0], bias[0])  # of all steps at once: (length, batch, gates * hidden)
        state = tuple(_start(c, 5 + k, n, batch_first, (batch, hidden), x) for k in range(states))
        short = isinstance(length, int) and 0 < length <= _MOST_UNROLLED
        out, state = (_unrolled if short else _looped)(d, step, came, state, lengths, backwards)
        outs.append(out)
        lasts.append(state)
    y = c.op("stack", *outs, axis=1)  # (length, directions, batch, hidden)
    ends = [c.op("stack", *[last[k] for last in lasts], axis=0) for k in range(states)]
    if batch_first:
        y = c.op("transpose", y, axes=(2, 0, 1, 3))
        ends = [c.op("transpose", end, axes=(1, 0, 2)) for end in ends]
    return [y, *ends]


def _stepped(
    d: _Direction, step: Step, came: Value, at: object, state: State, lengths: Value | None
) -> tuple[Value, State]:
    """What a step gives out, and the states behind it: rows whose sequence has ended keep theirs, and give out zeros."""
    new = step(d, came, state)
    if lengths is None:
        return new[0], new
    going = d.c.op("expand_dims", d.c.op("greater", lengths, at), axis=1)
    kept = tuple(d.c.op("where", going, a, b) for a, b in zip(new, state, strict=True))
    return d.c.op("where", going, new[0], 0.0), kept


def _unrolled(
    d: _Direction, step: Step, came: Value, state: State, lengths: Value | None, backwards: bool
) -> tuple[Value, State]:
    """What all steps give out, on top of each other, and the last states."""
    made: list[Value] = []
    count = _number(d.c, came.shape[0])
    for t in reversed(range(count)) if backwards else range(count):
        out, state = _stepped(d, step, _at(d.c, came, t), t, state, lengths)
        made.append(out)
    return d.c.op("stack", *(made[::-1] if backwards else made), axis=0), state


def _looped(
    d: _Direction, step: Step, came: Value, state: State, lengths: Value | None, backwards: bool
) -> tuple[Value, State]:
    """The same as a loop: it carries the number of the step, the states, what all steps give out, and what it only reads."""
    c, b, length = d.c, d.c.b, came.shape[0]
    read = [v for v in (came, d.r, d.bias_r, d.inner, d.bias_inner, d.peepholes, lengths) if v is not None]
    rows = c.op("full", shape=(length, *state[0].shape), value=0.0, dtype=str(came.dtype))
    first = [b.const(np.array(0, np.int64), "step"), *state, rows, *read]
    inner = GraphBuilder("step", env=b.env)
    inner.origin = b.origin
    trip, *held = [inner.param(v.name or "carried", v.shape, v.dtype) for v in first]
    states, held_rows, reads = tuple(held[: len(state)]), held[len(state)], held[len(state) + 1 :]
    inside = dict(zip(read, reads, strict=True))
    within = replace(
        d,
        c=Call(inner, c.node, c.opset, c.items),
        r=inside[d.r],
        bias_r=None if d.bias_r is None else inside[d.bias_r],
        inner=None if d.inner is None else inside[d.inner],
        bias_inner=None if d.bias_inner is None else inside[d.bias_inner],
        peepholes=None if d.peepholes is None else inside[d.peepholes],
    )
    at = trip
    if backwards:
        at = inner.op("subtract", inner.op("dim_value", value=length - 1, dtype="int64"), trip)
    out, new = _stepped(
        within,
        step,
        inner.op("gather", inside[came], at, axis=0),
        inner.op("cast", at, dtype=str(lengths.dtype)) if lengths is not None else at,
        states,
        None if lengths is None else inside[lengths],
    )
    body = [inner.op("add", trip, 1), *new, with_row(inner, held_rows, length, at, out), *reads]
    last = b.while_(_steps_left(b, first, length), inner.finish(body), *first)
    return last[1 + len(state)], tuple(last[1 : 1 + len(state)])


def _steps_left(b: GraphBuilder, carried: Sequence[Value], length: Extent) -> Graph:
    """The condition of a loop over ``length`` steps, whose number is the first of what it carries."""
    inner = GraphBuilder("again", env=b.env)
    inner.origin = b.origin
    trip, *_ = [inner.param(v.name or "carried", v.shape, v.dtype) for v in carried]
    return inner.finish(inner.op("less", trip, inner.op("dim_value", value=length, dtype="int64")))


def _number(c: Call, extent: object) -> int:
    if not isinstance(extent, int):
        raise c.unsupported(f"of a dynamic hidden_size {extent}")
    return extent


def _start(c: Call, at: int, n: int, batch_first: bool, shape: tuple[object, ...], x: Value) -> Value:
    if not c.has(at):
        return c.op("full", shape=shape, value=0.0, dtype=str(x.dtype))
    return _at(c, c.value(at), n, 1 if batch_first else 0)


@row("LSTM", _COMMON)
def _long_short(c: Call) -> list[Value]:
    return _run(c, 4, 2, _lstm, ("Sigmoid", "Tanh", "Tanh"))


@row("GRU", _COMMON)
def _gated(c: Call) -> list[Value]:
    return _run(c, 3, 1, _gru, ("Sigmoid", "Tanh"))


@row("RNN", _COMMON)
def _plain(c: Call) -> list[Value]:
    return _run(c, 1, 1, _rnn, ("Tanh",))
