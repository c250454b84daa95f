"""A process that compiles units for another one: what it is asked comes through its standard input.

Nothing of the program that asks is in it: not its modules, not its ``__main__``, no locks. A message is a length and a
pickle. The first answer tells the versions; the others are the machine code of a unit, or None where the unit must be
compiled by the one who asked: it fails, or warns, or needs what only that process has.
"""

from __future__ import annotations

import os
import pickle
import struct
import sys
import warnings
from typing import IO, Final, NamedTuple

from tirlower.call.gil import GilChoice
from tirlower.diagnostics import paused_collection
from tirlower.driver.backend import backend_of
from tirlower.driver.result import BuildResult, BuildSpec
from tirlower.driver.steps import compile_version
from tirlower.emit.compile import CompileOptions
from tirlower.ir.func import IRModule
from tirlower.ir.packed import Packed
from tirlower.llvm.cache import CacheEntry, versions
from tirlower.llvm.codegen.symbols import register_symbol, registered_symbols
from tirlower.machine.target import Target
from tirlower.rewrite.context import Choices

__all__ = ["Answer", "Question", "receive", "send", "serve"]

_LENGTH: Final = struct.Struct("<Q")
LARGEST: Final = 1 << 32
"""The bytes of no message: another program's words are not taken for a length."""


class Question(NamedTuple):
    """A unit to compile, and the names of external functions that are registered."""

    program: Packed[IRModule]
    target: Target
    choices: Choices
    options: CompileOptions
    outputs: dict[str, tuple[str, ...]]
    gil: GilChoice
    home: tuple[str, ...]
    symbols: tuple[str, ...]
    schedule: str

    @classmethod
    def of(cls, unit: BuildResult) -> Question:
        """How a unit is asked for."""
        spec = unit.spec
        choices, outputs = spec.choices.copy(), dict(spec.outputs)
        symbols = registered_symbols()
        program = Packed(spec.module)
        return cls(program, spec.target, choices, spec.options, outputs, spec.gil, unit.home, symbols, spec.schedule)

    def answer(self) -> Answer:
        """Compile it."""
        for name in self.symbols:
            register_symbol(name, 1)  # that it is there decides what is generated; its address, what is linked
        module = self.program.unpacked()
        spec = BuildSpec(
            module, self.target, self.choices, self.options, self.outputs, self.gil, schedule=self.schedule
        )
        unit = BuildResult(spec, backend_of(self.target), home=self.home)
        with paused_collection():
            entry = compile_version(unit, spec.context())
        assert isinstance(entry, CacheEntry)
        return Answer(entry, unit.timings, unit.passes)


class Answer(NamedTuple):
    """The machine code of a unit, and the milliseconds that its steps and passes took."""

    entry: CacheEntry
    timings: dict[str, float]
    passes: dict[str, float]


def send(stream: IO[bytes], message: object) -> None:
    """Write a message."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)))
    stream.write(data)
    stream.flush()


def receive(stream: IO[bytes]) -> object:
    """Read a message. Raises EOFError where there is none any more."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    (size,) = _LENGTH.unpack(head)
    if size > LARGEST:
        raise ValueError("this is no message")
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return pickle.loads(data)


def serve() -> None:
    """Answer until there are no more questions."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no answer
    questions = sys.stdin.buffer
    send(answers, dict(versions()))
    while True:
        try:
            question = receive(questions)
        except EOFError:
            return
        try:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                answer = question.answer() if isinstance(question, Question) else None
            send(answers, None if told else answer)
        except Exception:
            send(answers, None)
