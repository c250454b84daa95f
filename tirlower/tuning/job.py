"""What is sent to be measured: a program, the JSON of some traces, and what the arrays of a call are. All of it can be pickled.

A job is as small as its arrays let it be: numbers, integers and small arrays go as they are; of a large array of floats only
type and shape do, and who measures fills one of its own with normal random numbers. Time depends on what is in integers (they
may be subscripts, and trip counts), and hardly ever on what is in floats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from tirlower.call.dtypes import numpy_dtype
from tirlower.diagnostics import TirError
from tirlower.ir.dtype import Array
from tirlower.ir.func import IRModule
from tirlower.ir.packed import Packed
from tirlower.machine.target import Target
from tirlower.rewrite.context import Choices

__all__ = ["Given", "Input", "Job", "Outcome", "Plan", "inputs_of", "made_from"]

LINE: Final = 64
"""Bytes of a line of the caches."""

LARGE: Final = 1 << 16
"""Bytes from which on an array of floats is sent as its type and shape."""

Number: TypeAlias = "bool | int | float"
Argument: TypeAlias = "Array | Number"


@dataclass(frozen=True)
class Input:
    """An argument: a ``number``, the ``bytes`` of an array, an array of random numbers, or ``same``: the place of an earlier
    argument that is the same array. ``offset`` is where in a line of the caches an array begins, in bytes: stores past the caches
    and loads of whole vectors take their time by that."""

    number: Number | None = None
    dtype: str = ""
    shape: tuple[int, ...] = ()
    data: bytes | None = None
    offset: int = 0
    same: int | None = None


@dataclass(frozen=True)
class Given:
    """The arguments of a call: by position, and by name."""

    args: tuple[Input, ...]
    kwargs: Mapping[str, Input]


class Plan(NamedTuple):
    """The JSON of a trace, and whether its results have each bit of the untuned plan's."""

    trace: str
    exact: bool = True


@dataclass(frozen=True)
class Job:
    """Measure each of some ``plans`` beside ``base``, in turns in one process.

    ``rounds`` are the turns of each, of at least ``least`` seconds; a plan that takes more than ``limit`` seconds in all, its
    compilation included, is given up.
    """

    program: Packed[IRModule]
    target: Target
    choices: Choices
    outputs: tuple[str, ...]
    base: Plan
    plans: tuple[Plan, ...]
    given: Given
    rounds: int = 7
    least: float = 1e-3
    limit: float = 60.0


@dataclass(frozen=True)
class Outcome:
    """The medians of the seconds of a call with a plan and with the base, or what went wrong."""

    seconds: float = 0.0
    base: float = 0.0
    error: str = ""


def inputs_of(args: Sequence[object], kwargs: Mapping[str, object]) -> Given:
    """What is sent of the arguments of a call. Raises :class:`TirError` for what is neither a number nor an array of NumPy's kind."""
    seen: dict[int, int] = {}
    found: list[Input] = []
    for at, value in enumerate([*args, *kwargs.values()]):
        if id(value) in seen:
            found.append(Input(same=seen[id(value)]))
            continue
        found.append(_input(value, at))
        if not isinstance(value, (bool, int, float)):
            seen[id(value)] = at
    return Given(tuple(found[: len(args)]), dict(zip(kwargs, found[len(args) :], strict=True)))


def _input(value: object, at: int) -> Input:
    if isinstance(value, (bool, int, float)):
        return Input(number=value)
    try:
        array = np.asarray(value)
    except Exception as error:
        raise _bad(value, at) from error
    if array.dtype.hasobject or array.dtype.kind in "USMm":
        raise _bad(value, at)
    data = array.tobytes() if array.dtype.kind in "iub" or array.nbytes <= LARGE else None
    return Input(dtype=array.dtype.name, shape=array.shape, data=data, offset=array.ctypes.data % LINE)


def _bad(value: object, at: int) -> TirError:
    return TirError(
        f"args[{at}] is neither a number nor an array that could be sent to be measured: {type(value).__name__}",
        origin="tune",
        help="give NumPy arrays, and numbers, as a call of the kernel takes them",
    )


def made_from(given: Given) -> tuple[list[Argument], dict[str, Argument]]:
    """The arguments of a call, as a job describes them; random numbers are the same each time."""
    made: list[Argument] = []
    for at, one in enumerate([*given.args, *given.kwargs.values()]):
        if one.same is not None:
            made.append(made[one.same])
        elif one.number is not None:
            made.append(one.number)
        else:
            array = _array(one)
            if one.data is not None:
                array[...] = np.frombuffer(one.data, array.dtype).reshape(one.shape)
            else:
                array[...] = np.random.default_rng(at).standard_normal(one.shape, np.float32).astype(array.dtype)
            made.append(array)
    count = len(given.args)
    return made[:count], dict(zip(given.kwargs, made[count:], strict=True))


def _array(one: Input) -> Array:
    """An array that begins where the one that was given does in its line."""
    dtype = numpy_dtype(one.dtype)
    size = math.prod(one.shape) * dtype.itemsize
    room = np.empty(size + 2 * LINE, np.uint8)
    start = -room.ctypes.data % LINE + one.offset
    return room[start : start + size].view(dtype).reshape(one.shape)
