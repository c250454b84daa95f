"""Wrong programs: each is refused, and the message names the tensor, the dim or the value, where it stands, and the remedy.

A case is a function that must raise, the words that its message has to have (tensor, dim, number, shape, origin), and a word
of the remedy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg

HERE = "test_wrong_programs.py:"
"""Where a traced operation comes from."""


def f32(*shape: object) -> object:
    return tg.spec(shape, "float32")


def i64(*shape: object) -> object:
    return tg.spec(shape, "int64")


def ones(*shape: int, dtype: str = "float32") -> np.ndarray:
    return np.ones(shape, dtype)


class Wrong(NamedTuple):
    """A program, what its message says, and a word of the remedy, which stands behind ``help:`` where none is given here."""

    name: str
    run: Callable[[], object]
    says: tuple[str, ...]
    remedy: str = ""


def traced(function: Callable[..., object], *specs: object) -> Callable[[], object]:
    return lambda: tg.trace(function, *specs)


def _dims() -> object:
    return tg.dim("B", 2, 8, multiple_of=2)


def text(*lines: str, head: str = 'x: tg.Tensor((2, 3), "float32")') -> Callable[[], object]:
    body = "\n".join(f"    {line}" for line in lines)
    return lambda: tg.parse(f"@tg.graph\ndef f({head}):\n{body}")


STATE = tg.state("held", (2,), "float32")
FIXED = tg.state("fixed", (2,), "float32", mutable=False)


def _sum(x):
    return x + 1


def _loop(step: Callable[..., object]) -> Callable[..., object]:
    return lambda x: tg.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, step(a)), 0, x)


def _call(exe: object, *args: object, **named: object) -> Callable[[], object]:
    return lambda: exe()(*args, **named)  # type: ignore[operator]


PLAIN = lambda: tg.compile(tg.trace(_sum, f32(2, 3)))
DYNAMIC = lambda: tg.compile(tg.trace(_sum, f32(_dims(), 3)))


def PAIRS() -> object:
    b = tg.dim("B", 1, 8)
    return tg.compile(tg.trace(lambda x, y: x + y, f32(b, 3), f32(b, 3)))


GROWN = lambda: tg.compile(tg.trace(lambda x: tg.tile(x, repeats=(2**60,)), f32(tg.dim("N"))))


def ASSUMED() -> object:
    b, c = tg.dim("B"), tg.dim("C")
    return tg.compile(tg.trace(lambda x, y: tg.concat(x, y, axis=1), f32(b, 3), f32(c, 3)))


def _frozen(*shape: int) -> np.ndarray:
    made = ones(*shape)
    made.flags.writeable = False
    return made


WRONG = (
    # Shapes
    Wrong("shapes that do not broadcast", traced(lambda x, y: x + y, f32(2, 3), f32(2, 4)), ("3", "4", "x", "y", HERE)),
    Wrong("a product of other lengths", traced(lambda x, y: x @ y, f32(2, 3), f32(4, 5)), ("3", "4", "x", "y", HERE)),
    Wrong("a product of a number", traced(lambda x: x @ x, f32()), ("x", HERE)),
    Wrong("a reshape to another size", traced(lambda x: x.reshape(4, 2), f32(2, 3)), ("6", "8", "x", HERE)),
    Wrong("a transpose with an axis twice", traced(lambda x: x.transpose(0, 0), f32(2, 3)), ("0", "x", HERE)),
    Wrong("a sum over an axis that is not there", traced(lambda x: x.sum(axis=2), f32(2, 3)), ("2", "x", HERE)),
    Wrong("parts of other shapes joined", traced(lambda x, y: tg.concat(x, y, axis=0), f32(2, 3), f32(2, 4)), ("3", "4", "x", HERE)),
    Wrong("an axis that is not 1 squeezed", traced(lambda x: tg.squeeze(x, axis=0), f32(2, 3)), ("2", "x", HERE)),
    Wrong("a split that does not divide", traced(lambda x: tg.split(x, parts=2, axis=1)[0], f32(2, 3)), ("3", "2", "x", HERE)),
    Wrong("a broadcast that shrinks", traced(lambda x: tg.broadcast_to(x, shape=(2, 1)), f32(2, 3)), ("3", "1", "x", HERE)),
    Wrong("an index too many", traced(lambda x: x[0, 0, 0], f32(2, 3)), ("3", "2", HERE)),
    Wrong("an index out of range", traced(lambda x: x[5], f32(2, 3)), ("5", "2", HERE)),
    Wrong("a convolution of other channels", traced(lambda x, w: tg.conv(x, w), f32(1, 3, 8, 8), f32(4, 2, 3, 3)), ("3", "2", "x", "w", HERE)),
    Wrong("a kernel larger than the picture", traced(lambda x, w: tg.conv(x, w), f32(1, 3, 2, 2), f32(4, 3, 3, 3)), ("x", "w", HERE)),
    Wrong("an extent that int64 does not hold", lambda: f32(2**63), ("9223372036854775808",), "smaller"),
    Wrong("repeats that int64 counts as none", traced(lambda x: tg.tile(x, repeats=(2**62,)), f32(4)), ("18446744073709551616", "x", HERE)),
    Wrong("pads that int64 counts as none", traced(lambda x: tg.pad(x, pads=((2**63 - 1, 2**63 - 1),)), f32(2)), ("18446744073709551616", "x", HERE)),
    Wrong("a flat view that int64 counts as none", traced(lambda x: x.reshape(-1), f32(2**32, 2**32)), ("18446744073709551616", HERE)),
    # Dtypes
    Wrong("a dtype that nobody knows", lambda: tg.spec((2,), "float33"), ("float33",), "float32"),
    Wrong("bits of floats", traced(lambda x: x & x, f32(2)), ("float32", "x", HERE)),
    Wrong("integers without a common dtype", traced(lambda x, y: x & y, tg.spec((2,), "uint64"), i64(2)), ("uint64", "int64", "x", "y", HERE), "astype"),
    Wrong("an index of floats", traced(lambda x, i: tg.gather(x, i, axis=0), f32(2, 3), f32(2)), ("float32", "i", HERE)),
    Wrong("a choice by a float", traced(lambda x: tg.cond(x, lambda: x, lambda: x), f32()), ("float32", "bool", HERE)),
    Wrong("a choice by several", traced(lambda x: tg.cond(x > 0, lambda: x, lambda: x), f32(2)), ("bool[2]", HERE), ".all()"),
    # Dims
    Wrong("a dim whose range is empty", lambda: tg.dim("B", 8, 2), ("B", "8", "2")),
    Wrong("a dim of two ranges", traced(lambda x, y: x, f32(tg.dim("B", 1, 4)), f32(tg.dim("B", 1, 8))), ("B", "4", "8"), "one object"),
    Wrong("dims that cannot be equal", traced(lambda x, y: x + y, f32(tg.dim("B", 2, 4)), f32(tg.dim("C", 8, 9))), ("B", "C", "x", HERE)),
    Wrong("a dim that no input has", lambda: tg.compile(tg.trace(lambda x: tg.broadcast_to(x, shape=(tg.dim("K"), 2)), f32(2))), ("K", "broadcast_to"), "input"),
    # Python on tensors
    Wrong("a truth of a tensor", traced(lambda x: 1 if x.sum() > 0 else 2, f32(2)), (HERE,), "tg.cond"),
    Wrong("an iteration over a dim", traced(lambda x: list(x)[0], f32(tg.dim("B"), 2)), ("B",), "tg.while_loop"),
    Wrong("a number of a tensor", traced(lambda x: float(x.sum()), f32(2)), (HERE,)),
    Wrong("an operation that is not there", lambda: tg.GraphBuilder().op("matmull", 1.0), ("matmull",), "matmul"),
    Wrong("an attribute that is not there", traced(lambda x: tg.softmax(x, axes=0), f32(2)), ("axes", HERE), "axis"),
    Wrong("an axis that is a text", traced(lambda x: tg.concat(x, x, axis="rows"), f32(2, 3)), ("concat", "rows", "x", HERE)),
    Wrong("bounds that are no list", traced(lambda x: tg.slice(x, starts=0, ends=1, axes=0), f32(2, 3)), ("slice", "starts=0", "x", HERE)),
    Wrong("pads that are no pairs", traced(lambda x: tg.pad(x, pads=(1, 1)), f32(2, 3)), ("pad", "(1, 1)", "x", HERE)),
    Wrong("a dtype that is a number", traced(lambda x: tg.cast(x, dtype=0.5), f32(2, 3)), ("cast", "0.5", "x", HERE)),
    Wrong("a result that is no tensor", traced(lambda x: "text", f32(2)), ("text",)),
    Wrong("a tensor of another trace", lambda: tg.trace(lambda y: y + _leaked(), f32(2)), (HERE,)),
    # Control flow and states
    Wrong("a loop that changes a shape", traced(_loop(lambda a: tg.concat(a, a, axis=0)), f32(2, 3)), ("2, 3", "4, 3", HERE), "greatest shape"),
    Wrong("a loop that changes a dtype", traced(_loop(lambda a: a.astype("float64")), f32(2)), ("float32", "float64", HERE), "carry"),
    Wrong("a loop by a float", traced(lambda x: tg.while_loop(lambda a: a, lambda a: a, x), f32()), ("float32", "bool", HERE)),
    Wrong("ways of other shapes", traced(lambda c, x: tg.cond(c, lambda: x, lambda: x[:1]), tg.spec((), "bool"), f32(2)), ("float32[2]", "float32[1]", HERE)),
    Wrong("ways of other numbers", traced(lambda c, x: tg.cond(c, lambda: (x, x), lambda: (x,)), tg.spec((), "bool"), f32(2)), ("2", "1", HERE)),
    Wrong("a state of another shape stored", traced(lambda x: STATE.store(x), f32(3)), ("held", "float32[2]", "float32[3]", HERE)),
    Wrong("a state that never changes stored", traced(lambda x: FIXED.store(x), f32(2)), ("fixed", HERE), "mutable"),
    Wrong("a state with a dim", lambda: tg.state("k", (tg.dim("T"),), "float32"), ("k", "T"), "upper bound"),
    # Texts and constants
    Wrong("a value that is not there", text('y: tg.Tensor((2, 3), "float32") = tg.exp(xx)', "return y"), ("xx",), "'x'"),
    Wrong("an operation that is misspelled", text('y: tg.Tensor((2, 3), "float32") = tg.expp(x)', "return y"), ("expp",), "exp"),
    Wrong("a type that is another one", text('y: tg.Tensor((2, 4), "float32") = tg.exp(x)', "return y"), ("y", "2, 4", "2, 3")),
    Wrong("an attribute of another kind", text('y: tg.Tensor((2, 3), "float32") = tg.slice(x, starts=(0,), ends=(1,), axes=2.5)', "return y"), ("slice", "2.5")),
    Wrong("an extent that nests too deeply", text(f'y: tg.Tensor(("{"-" * 20_000}1", 3), "float32") = tg.exp(x)', "return y"), ("-----", "y")),
    Wrong("a number that no float holds", text(f'y: tg.Tensor((2, 3), "float32") = tg.add(x, 1{"0" * 400})', "return y"), ("float32",)),
    Wrong("a constant whose contents are not known", lambda: tg.interpret(tg.parse(UNBOUND), ones(2)), ("5f3ac19e",), "BindConstants"),
    Wrong("a compiled constant whose contents are not known", lambda: tg.compile(tg.parse(UNBOUND))(ones(2)), ("w",), "set_constant"),
    Wrong("a constant of another shape bound", lambda: tg.passes.BindConstants({"w": ones(3)})(tg.parse(UNBOUND)), ("w", "2", "3")),
    Wrong("a constant that is not there bound", lambda: tg.passes.BindConstants({"v": ones(2)})(tg.parse(UNBOUND)), ("v",), "w"),
    # Calls
    Wrong("an input that is missing", _call(PLAIN), ("x",)),
    Wrong("an input too many", _call(PLAIN, ones(2, 3), ones(2, 3)), ("1", "2")),
    Wrong("an input of another name", _call(PLAIN, z=ones(2, 3)), ("z",), "x"),
    Wrong("an input of another shape", _call(PLAIN, ones(2, 4)), ("x", "3", "4")),
    Wrong("an input of another dtype", _call(PLAIN, ones(2, 3, dtype="float64")), ("x", "float32", "float64")),
    Wrong("an input of another rank", _call(PLAIN, ones(6)), ("x", "2", "1")),
    Wrong("a dim below its range", _call(DYNAMIC, ones(0, 3)), ("B", "0", "x", "2")),
    Wrong("a dim above its range", _call(DYNAMIC, ones(10, 3)), ("B", "10", "x", "8")),
    Wrong("a dim that its divisor does not divide", _call(DYNAMIC, ones(5, 3)), ("B", "5", "x", "2")),
    Wrong("an extent that int64 does not hold at a call", _call(GROWN, ones(8)), ("N", "8"), "range"),
    Wrong("one dim of two values", _call(PAIRS, ones(2, 3), ones(4, 3)), ("B", "2", "4", "y")),
    Wrong("dims that are to be equal", _call(ASSUMED, ones(2, 3), ones(4, 3)), ("B", "C", "2", "4", "x", "y")),
    Wrong("a result that cannot be written", lambda: PLAIN()(ones(2, 3), out=_frozen(2, 3)), ("result", "read-only")),
    Wrong("a result of another shape", lambda: PLAIN()(ones(2, 3), out=ones(3, 2)), ("result0", "2", "3")),
    Wrong("interpreted with another dtype", lambda: tg.interpret(tg.trace(_sum, f32(2)), ones(2, dtype="float64")), ("x", "float32", "float64")),
    Wrong("interpreted with too few inputs", lambda: tg.interpret(tg.trace(_sum, f32(2))), ("x", "1", "0")),
    # Options and passes
    Wrong("an option that is none", lambda: tg.Options(numerics="precise"), ("precise",), "exact"),
    Wrong("a backend that is not there", lambda: tg.compile(tg.trace(_sum, f32(2)), backends=["openblass"]), ("openblass",), "openblas"),
    Wrong("a pass on what is no graph", lambda: tg.passes.CSE()(3), ("int",), "tg.trace"),
    Wrong("a pass that is not there", lambda: tg.passes.DEFAULT.run(tg.trace(_sum, f32(2)), until="CSEE"), ("CSEE",), "CSE"),
)  # fmt: skip

UNBOUND = (
    '@tg.graph\ndef f(x: tg.Tensor((2,), "float32")):\n    w = tg.constant("float32", (2,), "5f3ac19e")\n'
    '    y: tg.Tensor((2,), "float32") = tg.add(x, w)\n    return y'
)


def _leaked() -> object:
    kept = []
    tg.trace(lambda x: kept.append(x) or x, f32(2))
    return kept[0]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: wrong.name)
def test_a_wrong_program_is_told_what_is_wrong_where_and_what_to_do(wrong: Wrong) -> None:
    with pytest.raises((tl.TirError, AttributeError)) as caught:
        wrong.run()
    message = str(caught.value)
    missing = [part for part in (*wrong.says, wrong.remedy) if part not in message]
    assert not missing, f"{message}\ndoes not say {missing}"
    assert "help: " in message or wrong.remedy, f"{message}\nsays no remedy"
    assert "Traceback" not in message and "T.int64(" not in message, message


def test_there_are_forty_of_them() -> None:
    assert len({wrong.name for wrong in WRONG}) == len(WRONG) >= 40
