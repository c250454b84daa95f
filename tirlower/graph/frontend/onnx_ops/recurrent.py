"""LSTM, GRU and RNN, unrolled: as many steps as the sequence is long, which must be a number."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.onnx_ops.table import Call, row

__all__ = []

_MOST_STEPS = 1024
_COMMON = (
    "activation_alpha activation_beta activations clip direction hidden_size layout output_sequence input_forget "
    "linear_before_reset"
)
Activation = Callable[[Value], Value]

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
    """What the steps of a direction need: activations, weights turned, biases."""

    c: Call
    act: tuple[Activation, ...]
    w: Value
    r: Value
    bias: Value | None
    bias_r: Value | None
    hidden: int
    peepholes: Value | None

    def gates(self, x: Value, count: int) -> list[Value]:
        """Parts of the last axis, one for each gate."""
        return [self.part(x, n) for n in range(count)]

    def part(self, x: Value, n: int) -> Value:
        """The part of the last axis that belongs to a gate."""
        axis = len(x.shape) - 1
        return self.c.op("slice", x, starts=(n * self.hidden,), ends=((n + 1) * self.hidden,), axes=(axis,))

    def linear(self, x: Value, w: Value, bias: Value | None) -> Value:
        """A product, and what is added."""
        found = self.c.op("matmul", x, w)
        return found if bias is None else self.c.op("add", found, bias)


def _activation(c: Call, name: str, alpha: float | None, beta: float | None, clip: float) -> Activation:
    low = name.lower()

    def limited(x: Value) -> Value:
        return c.op("clip", x, -clip, clip) if clip else x

    if low in _PLAIN:
        return lambda x: c.op(_PLAIN[low], limited(x))
    if low in _WITH_ALPHA:
        function, default = _WITH_ALPHA[low]
        return lambda x: c.op(function, limited(x), alpha=default if alpha is None else alpha)
    if low == "hardsigmoid":
        a, b = 0.2 if alpha is None else alpha, 0.5 if beta is None else beta
        return lambda x: c.op("hard_sigmoid", limited(x), alpha=a, beta=b)
    if low == "affine":
        a, b = 1.0 if alpha is None else alpha, 0.0 if beta is None else beta
        return lambda x: c.op("add", c.op("multiply", limited(x), a), b)
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
"""One step: from the input and the states to the new states, the first of which is what is given out."""


def _lstm(d: _Direction, x: Value, state: State) -> State:
    c, (h, cell) = d.c, state
    i, o, f, g = d.gates(c.op("add", d.linear(x, d.w, d.bias), d.linear(h, d.r, d.bias_r)), 4)
    if d.peepholes is not None:
        pi, _, pf = d.gates(d.peepholes, 3)
        i = c.op("add", i, c.op("multiply", pi, cell))
        f = c.op("add", f, c.op("multiply", pf, cell))
    enter = d.act[0](i)
    keep = c.op("subtract", 1.0, enter) if c.flag("input_forget") else d.act[0](f)
    new = c.op("add", c.op("multiply", keep, cell), c.op("multiply", enter, d.act[1](g)))
    if d.peepholes is not None:
        o = c.op("add", o, c.op("multiply", d.part(d.peepholes, 1), new))
    return c.op("multiply", d.act[0](o), d.act[2](new)), new


def _gru(d: _Direction, x: Value, state: State) -> State:
    c, (h,) = d.c, state
    left = d.gates(d.linear(x, d.w, d.bias), 3)
    right = d.gates(d.linear(h, d.r, d.bias_r), 3)
    z, r = (d.act[0](c.op("add", left[n], right[n])) for n in range(2))
    if c.flag("linear_before_reset"):
        inner = c.op("multiply", r, right[2])
    else:
        inner = c.op("matmul", c.op("multiply", r, h), d.part(d.r, 2))
        if d.bias_r is not None:
            inner = c.op("add", inner, d.part(d.bias_r, 2))
    new = d.act[1](c.op("add", left[2], inner))
    return (c.op("add", c.op("multiply", c.op("subtract", 1.0, z), new), c.op("multiply", z, h)),)


def _rnn(d: _Direction, x: Value, state: State) -> State:
    return (d.act[0](d.c.op("add", d.linear(x, d.w, d.bias), d.linear(state[0], d.r, d.bias_r))),)


def _at(c: Call, x: Value, n: int, axis: int = 0) -> Value:
    """One place of an axis, which goes."""
    return c.op("squeeze", c.op("slice", x, starts=(n,), ends=(n + 1,), axes=(axis,)), axis=axis)


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
    if not isinstance(length, int) or length > _MOST_STEPS:
        raise c.unsupported(
            f"over {length} steps", f'it is unrolled: at most {_MOST_STEPS} steps, a number: dims={{"sequence": 64}}'
        )
    hidden = c.integer("hidden_size", 0) or _number(c, c.shape(2)[2])
    directions = _directions(c)
    acts = _activations(c, default, len(directions))
    each = len(default)
    outs: list[list[Value]] = []
    lasts: list[State] = []
    for n, backwards in enumerate(directions):
        weights = [c.op("transpose", _at(c, c.value(k), n), axes=(1, 0)) for k in (1, 2)]
        bias: tuple[Value | None, Value | None] = (None, None)
        if c.has(3):
            both, size = _at(c, c.value(3), n), gates * hidden
            cut = [c.op("slice", both, starts=(k * size,), ends=((k + 1) * size,), axes=(0,)) for k in range(2)]
            bias = (cut[0], cut[1])
        peepholes = _at(c, c.value(7), n) if states == 2 and c.has(7) else None
        own = tuple(acts[n * each : (n + 1) * each])
        d = _Direction(c, own, weights[0], weights[1], *bias, hidden, peepholes)
        state = tuple(_start(c, 5 + k, n, batch_first, (batch, hidden), x) for k in range(states))
        made: list[Value] = []
        for t in reversed(range(length)) if backwards else range(length):
            new = step(d, _at(c, x, t), state)
            out = new[0]
            if c.has(4):
                going = c.op("expand_dims", c.op("greater", c.value(4), t), axis=1)
                new = tuple(c.op("where", going, a, b) for a, b in zip(new, state, strict=True))
                out = c.op("where", going, out, 0.0)
            state = new
            made.append(out)
        outs.append(made[::-1] if backwards else made)
        lasts.append(state)
    several = [c.op("stack", *steps, axis=0) for steps in outs]
    y = c.op("stack", *several, axis=1)  # (length, directions, batch, hidden)
    ends = [c.op("stack", *[last[k] for last in lasts], axis=0) for k in range(states)]
    if batch_first:
        y = c.op("transpose", y, axes=(2, 0, 1, 3))
        ends = [c.op("transpose", end, axes=(1, 0, 2)) for end in ends]
    return [y, *ends]


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
