"""Where instructions go: the position of a builder, fresh names, and the floating-point flags."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Final

from tirlower.emit.llvm_text.constants import Value, const
from tirlower.emit.llvm_text.module import Block, Function, Module
from tirlower.emit.llvm_text.types import I32, I64, Type

__all__ = ["Cursor", "FastMath", "mismatch"]


class FastMath(enum.Flag):
    """What LLVM may assume or relax in floating-point arithmetic (LLVM's fast-math flags)."""

    NONE = 0
    CONTRACT = enum.auto()
    REASSOC = enum.auto()
    NNAN = enum.auto()
    NINF = enum.auto()
    NSZ = enum.auto()
    ARCP = enum.auto()
    AFN = enum.auto()
    FAST = CONTRACT | REASSOC | NNAN | NINF | NSZ | ARCP | AFN

    @property
    def words(self) -> str:
        """The flags as they stand behind an opcode, each followed by a blank."""
        if self is FastMath.FAST:
            return "fast "
        return "".join([f"{flag.name.lower()} " for flag in FastMath if flag & self and flag.name])


def mismatch(op: str, a: Value, b: Value) -> TypeError:
    """The error for two operands that should be of one type."""
    return TypeError(f"{op} needs operands of one type, got `{a}` and `{b}`")


def _terminated(line: str) -> None:
    raise RuntimeError(f"the block has its terminator already, and cannot take `{line.strip()}`")


def _nowhere(line: str) -> None:
    raise RuntimeError(f"the builder stands in no block; position it before `{line.strip()}`")


class Cursor:
    """A position in a block of a function; the base of :class:`~tirlower.emit.llvm_text.builder.Builder`."""

    def __init__(self, function: Function, block: Block | None = None, *, fast_math: FastMath = FastMath.NONE) -> None:
        self.function: Final = function
        self.module: Final[Module] = function.module
        self._name: Final = function.name_value
        self._emit: Callable[[str], None] = _nowhere
        self._block: Block | None = None
        self.fast_math = fast_math
        if block is not None:
            self.position_at_end(block)

    # -- position ----------------------------------------------------------------------------------------------------

    @property
    def fast_math(self) -> FastMath:
        """The flags of floating-point instructions from here on."""
        return self._fast_math

    @fast_math.setter
    def fast_math(self, flags: FastMath) -> None:
        self._fast_math = flags
        self._fm = flags.words

    @property
    def block(self) -> Block:
        """The block that instructions go to.

        Raises:
            RuntimeError: the builder has not been positioned.
        """
        if self._block is None:
            raise RuntimeError("the builder stands in no block; call position_at_end first")
        return self._block

    @property
    def terminated(self) -> bool:
        """True when the current block has its terminator."""
        return self._block is not None and self._block.terminated

    def position_at_end(self, block: Block) -> None:
        """Append to ``block`` from here on."""
        self._block = block
        self._emit = _terminated if block.terminated else block.lines.append

    def _close(self) -> None:
        self.block.terminated = True
        self._emit = _terminated

    def comment(self, text: str) -> None:
        """A line of comment in the text of the module."""
        if self._block is not None:
            self._block.lines.extend([f"  ; {line}" for line in text.splitlines()])

    # -- constants, for short ----------------------------------------------------------------------------------------

    def i32(self, value: int) -> Value:
        """The constant ``i32 value``."""
        return Value(I32, str(value)) if -(1 << 31) <= value < 1 << 31 else const(I32, value)

    def i64(self, value: int) -> Value:
        """The constant ``i64 value``."""
        return Value(I64, str(value)) if -(1 << 63) <= value < 1 << 63 else const(I64, value)

    def const(self, type: Type, value: int | float) -> Value:
        """See :func:`tirlower.emit.llvm_text.constants.const`."""
        return const(type, value)
