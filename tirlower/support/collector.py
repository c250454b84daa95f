"""Python's cyclic garbage collector around work that makes many objects and no cycles."""

from __future__ import annotations

import gc
from typing import ClassVar

from tirlower.support.shared import Block

__all__ = ["keep_for_good", "paused_collection"]


class paused_collection(Block):
    """Pause Python's cyclic garbage collector for the length of a ``with`` block.

    Trees of nodes hold no cycles, but each full collection walks all of them: parsing, passes and code generation of
    10,000 statements would cost 11 to 22 times those of 1,000 instead of 10 times. The collector is the process's: it
    goes on when the last of all threads' blocks has ended.
    """

    __slots__ = ()

    _ran: ClassVar[bool] = False

    def begin(self) -> None:
        """Stop it."""
        if gc.isenabled():
            paused_collection._ran = True
            gc.disable()

    @classmethod
    def end(cls) -> None:
        """Let it go on, where it ran."""
        if cls._ran:
            cls._ran = False
            gc.enable()


def keep_for_good() -> None:
    """Tell Python's garbage collector that what is there will stay: modules that have just been imported.

    It goes to the oldest generation unwalked. Otherwise the first collection behind an import of two hundred modules
    walks all of them to find nothing, 12 ms in the middle of somebody's first kernels. Where the process has frozen
    objects of its own, nothing happens: they would be thawed.
    """
    if not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
