"""Python's cyclic garbage collector around work that makes many objects and no cycles."""

from __future__ import annotations

import gc
import importlib
import sys
from types import ModuleType
from typing import ClassVar

from tirlower.support.shared import Block

__all__ = ["import_for_good", "keep_for_good", "paused_collection"]


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


def import_for_good(name: str) -> ModuleType:
    """A module, imported while the collector rests: what modules hold at first is no garbage, however much of it comes.

    >>> import_for_good("json").dumps([])
    '[]'
    """
    if name in sys.modules:
        return importlib.import_module(name)  # which waits for another thread that is at it
    with paused_collection():
        made = importlib.import_module(name)
        keep_for_good()
    return made
