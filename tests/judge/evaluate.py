"""Runs a program, translated to Python, on plain integers and lists every element that it touches.

What has no meaning (a division by zero, a shift by a negative amount, a read of memory that nothing wrote, an assumption
that does not hold) makes the run :class:`Meaningless`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from tests.judge.arithmetic import RULES, Meaningless, narrow, wrap
from tests.judge.program import SIZES, Program
from tests.judge.translate import translated

__all__ = ["Event", "Run", "TooLong", "dense", "run_program", "size_of"]

MAX_STEPS = 6000


class TooLong(Exception):
    """The run has too many steps to be enumerated."""


class _Stopped(Exception):
    """An assertion does not hold."""


class Event(NamedTuple):
    """One access of a run.

    ``loops`` has (variable, value, count) of each loop around it; ``path`` alternates places in the text and counts and
    ends with the place of the statement and its phase (0 loads, 1 store); ``low`` and ``size`` are bytes of ``memory``;
    ``update`` names the operation where the access belongs to ``x = x op …``, with "init of " before it where it is what
    the init of such a block sets.
    """

    number: int
    write: bool
    memory: int
    low: int
    size: int
    inside: bool
    loops: Any
    path: Any
    subscripts: tuple[int, ...]
    update: str

    def __repr__(self) -> str:
        at = ", ".join(f"{var}={value}" for var, value, _ in self.loops)
        return f"<#{self.number} {'writes' if self.write else 'reads'} {list(self.subscripts)} at {at or 'once'}>"


@dataclass
class Run:
    """What happened: the accesses in order, the loops that a break left, what was written, a failed assertion.

    ``memory`` has the values written, by words of four bytes where all that is accessed is, else by bytes (``bytewise``).
    """

    events: list[Event] = field(default_factory=list)
    left: set[str] = field(default_factory=set)
    memory: dict[int, dict[int, int]] = field(default_factory=dict)
    params: tuple[int, ...] = ()
    failed: bool = False
    outside: bool = False
    seeds: dict[int, int] = field(default_factory=dict)
    bytewise: frozenset[int] = frozenset()
    shared: dict[Any, Any] = field(default_factory=dict)
    """What was found out of the run and is asked for again."""

    def initial(self, memory: int, size: int) -> Iterator[tuple[int, int]]:
        """The first bytes of a parameter before the run."""
        for at in range(size):
            yield at, first_byte(self.seeds[memory], at)

    def written(self, memory: int) -> Iterator[tuple[int, int]]:
        """The bytes of a parameter that were written, with their last values."""
        for at, value in self.memory[memory].items():
            if memory in self.bytewise:
                yield at, value
            else:
                yield from ((4 * at + byte, value >> 8 * byte & 255) for byte in range(4))

    def result(self) -> Any:
        """What a caller can see; after a failed assertion, that it failed."""
        return "failed" if self.failed else [self.memory[memory] for memory in self.params]


def first_word(seed: int, at: int) -> int:
    """Four bytes of a parameter that nothing wrote: a small integer, sometimes negative."""
    key = (seed * 1000003 + at * 7919 + 12345) % 2147483647
    return key * 48271 % 2147483647 // 7 % 11 - 2


def first_byte(seed: int, at: int) -> int:
    """A byte of a parameter that nothing wrote."""
    return first_word(seed, at // 4) >> 8 * (at % 4) & 255


def dense(shape: list[int]) -> list[int]:
    """The strides of rows one after the other."""
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.insert(0, step)
        step *= extent
    return strides


class _Now:
    """Where a run is: the loops around, the path; what lies in each memory that it has."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.loops: Any = ()
        self.path: Any = ()
        self.iterations = 0
        self.limits: dict[int, int] = {}
        self.contents: dict[int, int | None] = dict(run.seeds)
        self.memories = len(run.seeds)

    def move(self, loops: Any, path: Any) -> None:
        """To another iteration."""
        self.loops, self.path = loops, path
        self.iterations += 1
        self.count()

    def count(self) -> None:
        if self.iterations + len(self.run.events) > MAX_STEPS:
            raise TooLong

    def allocate(self, shape: tuple[int, ...], dtype: str) -> int:
        """The number of new memory."""
        self.memories += 1
        total = SIZES[dtype]
        for extent in shape:
            total *= extent
        self.run.memory[self.memories], self.contents[self.memories], self.limits[self.memories] = {}, None, total
        return self.memories

    def buffer(
        self, bytewise: bool, memory: int, dtype: str, shape: list[int], strides: list[int], offset: int
    ) -> _Buffer:  # fmt: skip
        """How a buffer lies in a memory."""
        kind = _Bytewise if bytewise else _Buffer
        return kind(self, memory, dtype, shape, strides or dense(shape), offset)


class _Buffer:
    """A buffer of words, in memory that is accessed by words only."""

    __slots__ = ("add", "cells", "content", "dtype", "limit", "memory", "now", "offset", "shape", "size", "strides")

    def __init__(
        self, now: _Now, memory: int, dtype: str, shape: list[int], strides: list[int], offset: int
    ) -> None:  # fmt: skip
        self.now, self.memory, self.dtype, self.size = now, memory, dtype, SIZES[dtype]
        self.shape, self.strides, self.offset = shape, strides, offset
        self.cells, self.content, self.limit = now.run.memory[memory], now.contents[memory], now.limits[memory]
        self.add = now.run.events.append

    def at(self, number: int, write: bool, place: int, update: str, subscripts: tuple[int, ...]) -> int | None:
        """Record an access: the first byte, None where it is outside."""
        element, inside = self.offset, True
        for i, extent, stride in zip(subscripts, self.shape, self.strides, strict=True):
            element += i * stride
            if not 0 <= i < extent:
                inside = False
        now, size = self.now, self.size
        low = element * size
        if low < 0 or low + size > self.limit:
            inside = False
        event = number, write, self.memory, low, size, inside, now.loops, (*now.path, place, write), subscripts, update
        self.add(_new(Event, event))
        if inside:
            return low
        now.run.outside = True
        return None

    def load(self, number: int, place: int, update: str, *subscripts: int) -> int:
        low = self.at(number, False, place, update, subscripts)
        if low is None:
            return 0
        value = self.cells.get(low >> 2)
        if value is None:
            if self.content is None:
                raise Meaningless("a read of memory that nothing wrote")
            return first_word(self.content, low >> 2)
        return value

    def store(self, number: int, place: int, update: str, subscripts: tuple[int, ...], value: int) -> None:
        low = self.at(number, True, place, update, subscripts)
        if low is not None:
            self.cells[low >> 2] = value


class _Bytewise(_Buffer):
    """A buffer in memory that is accessed by elements of several sizes."""

    __slots__ = ()

    def load(self, number: int, place: int, update: str, *subscripts: int) -> int:
        low = self.at(number, False, place, update, subscripts)
        if low is None:
            return 0
        value = 0
        for at in range(low, low + self.size):
            byte = self.cells.get(at)
            if byte is None:
                if self.content is None:
                    raise Meaningless("a read of memory that nothing wrote")
                byte = first_byte(self.content, at)
            value |= byte << 8 * (at - low)
        return narrow(value, self.dtype)

    def store(self, number: int, place: int, update: str, subscripts: tuple[int, ...], value: int) -> None:
        low = self.at(number, True, place, update, subscripts)
        if low is not None:
            for at in range(self.size):
                self.cells[low + at] = value >> 8 * at & 255


_new = tuple.__new__

_NAMES = {"Meaningless": Meaningless, "Stopped": _Stopped, "wrap": wrap, "narrow": narrow, **RULES}
"""What a translated program calls."""


@lru_cache(maxsize=64)
def _compiled(program: Program) -> tuple[Any, frozenset[str]]:
    """The function that runs a program, and the parameters that are kept by bytes."""
    text, bytewise = translated(program)
    names = dict(_NAMES)
    exec(compile(text, "<program>", "exec", dont_inherit=True), names)
    return names["run"], bytewise


def run_program(program: Program, sizes: Mapping[str, int], seed: int = 0) -> Run:
    """Run with given sizes and scalars, and random contents of the parameters."""
    function, bytewise = _compiled(program)
    count = len(program.params)
    run = Run(memory={at: {} for at in range(count)}, seeds={at: seed * 31 + at for at in range(count)})
    run.params = tuple(range(count))
    run.bytewise = frozenset(at for at, buf in enumerate(program.params) if buf.name in bytewise)
    now = _Now(run)
    buffers = []
    for at, buf in enumerate(program.params):
        shape = [size_of(part, sizes) for part in buf.shape]
        strides = [size_of(part, sizes) for part in buf.strides] or dense(shape)
        offset = size_of(buf.offset, sizes)
        empty = any(extent <= 0 for extent in shape)
        reach = 0 if empty else offset + 1 + sum((e - 1) * s for e, s in zip(shape, strides, strict=True))
        now.limits[at] = reach * SIZES[buf.dtype]
        buffers.append(now.buffer(at in run.bytewise, at, buf.dtype, shape, strides, offset))
    try:
        function(now, sizes, buffers)
        now.count()
    except _Stopped:
        run.failed = True
    except NameError as error:
        if re.search("'[vbm]_", str(error)) is None:
            raise
        raise KeyError(str(error)) from error  # a name of the program that is not bound on this way
    return run


def size_of(part: Any, sizes: Mapping[str, int]) -> int:
    """An extent, stride or offset of a parameter."""
    if isinstance(part, int):
        return part
    if part in sizes:
        return sizes[part]
    return int(eval(part, {"__builtins__": {}}, dict(sizes)))
