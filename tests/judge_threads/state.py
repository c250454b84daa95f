"""Blocks, threads and memory, and what a run finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

__all__ = [
    "FULL",
    "LIMIT",
    "WARP",
    "Astray",
    "Block",
    "Buf",
    "Memory",
    "NotRead",
    "Outside",
    "Result",
    "Team",
    "Thread",
]

WARP = 32
FULL = 0xFFFFFFFF
LIMIT = 400_000
"""The statements of one thread each, after which a run is given up."""


class NotRead(Exception):
    """The text has a form that is not read here."""


class Outside(Exception):
    """The program accesses what is not there, or what nobody has written."""


class Astray(Exception):
    """A call that threads make together is not reached by all of them."""


@dataclass
class Result:
    """What a run found: races as (buffer, what met), of equal writes at one place apart, and calls that lack threads."""

    races: set[tuple[str, str]] = field(default_factory=set)
    alike: set[str] = field(default_factory=set)
    astray: str = ""


class Memory:
    """Bytes by number, and who touched which four of them last."""

    def __init__(self, name: str, size: int, raw: np.ndarray | None = None) -> None:
        self.name = name
        self.raw = np.zeros(size, np.uint8) if raw is None else raw
        self.known = raw is not None
        self.written: set[int] = set()
        self.cells: dict[int, dict[tuple[Any, str], tuple[Any, ...]]] = {}
        self.private = False
        self.of_blocks = False
        """Whether it is shared memory that stands outside of the loops over blocks: each block has its own."""
        self.copies: dict[Any, Memory] = {}

    def of_a_thread(self) -> Memory:
        """Memory that one thread has to itself: what is in it at first is anything."""
        self.private = self.known = True
        self.raw[:] = 0x55
        return self

    def copy_for(self, who: Any) -> Memory:
        """The memory of a thread, of what stands outside of the loop over threads; the same each time."""
        if who not in self.copies:
            self.copies[who] = Memory(self.name, 0, self.raw.copy())
            self.copies[who].private, self.copies[who].known = self.private, self.private
            self.copies[who].of_blocks = self.of_blocks
        return self.copies[who]


@dataclass
class Buf:
    """Memory seen as elements of a type from an offset on, with a shape."""

    memory: Memory
    dtype: str
    shape: tuple[int, ...]
    offset: int = 0


class Block:
    """A block of threads: its shared memory by the place of the allocation, and how many barriers it has passed."""

    def __init__(self, name: Any) -> None:
        self.name = name
        self.memories: dict[Any, Memory] = {}
        self.epoch = 0
        self.warps: dict[int, int] = {}
        self.all: list[Thread] = []


class Thread:
    """A thread (or what threads fork from): its values, its indices by axis, and why it stopped."""

    def __init__(self, env: dict[str, Any], axes: dict[str, int], extents: dict[str, int], block: Block | None) -> None:
        self.env = env
        self.axes = axes
        self.extents = extents
        self.block = block
        self.signal = ""

    @cached_property
    def lane(self) -> int:
        """The number in the block."""
        x, y, z = (self.axes.get(f"threadIdx.{axis}", 0) for axis in "xyz")
        ex, ey = (self.extents.get(f"threadIdx.{axis}", 1) for axis in "xy")
        return x + ex * (y + ey * z)

    @cached_property
    def name(self) -> Any:
        """What tells it from other threads of the kernel."""
        return tuple(sorted(self.axes.items()))


Team = list[Thread]
