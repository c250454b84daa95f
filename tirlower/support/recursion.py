"""Python's recursion limit, raised for as long as any thread needs it raised."""

from __future__ import annotations

import sys
from typing import ClassVar

from tirlower.support.shared import Block

__all__ = ["deep_recursion"]


class deep_recursion(Block):
    """Raise Python's recursion limit for the length of a ``with`` block.

    Statements recurse with their nesting, which is bounded by the program; the default limit of 1000 frames is
    met by some two hundred nested statements. Pure Python frames use no C stack from CPython 3.11 on.

    The limit is the process's, not the thread's: it goes back when the last of all blocks ends, to what it was before
    the first, unless somebody else has set it meanwhile.

    >>> import sys
    >>> before = sys.getrecursionlimit()
    >>> with deep_recursion(60_000), deep_recursion(50_000):
    ...     sys.getrecursionlimit()
    60000
    >>> sys.getrecursionlimit() == before
    True
    """

    __slots__ = ("_limit",)

    _before: ClassVar[int] = 0
    _set_to: ClassVar[int] = 0
    """The limit that we have set; 0 where none of ours stands."""

    def __init__(self, limit: int = 50_000) -> None:
        self._limit = limit

    def covered(self, outer: deep_recursion) -> bool:
        """Whether the limit is as high already."""
        return self._limit <= outer._limit

    def begin(self) -> None:
        """Raise the limit where it is lower."""
        cls = deep_recursion
        now = sys.getrecursionlimit()
        if now < self._limit:
            if now != cls._set_to:
                cls._before = now
            sys.setrecursionlimit(self._limit)
            cls._set_to = self._limit

    @classmethod
    def end(cls) -> None:
        """Put it back, where what stands there is ours."""
        if cls._set_to and sys.getrecursionlimit() == cls._set_to:
            try:
                sys.setrecursionlimit(cls._before)
            except RecursionError:
                # This thread stands deeper than that, as it could while others needed the limit: the next block to
                # end puts it back.
                return
        cls._set_to = 0
