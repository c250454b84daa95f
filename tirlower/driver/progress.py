"""What long builds tell: the phases of a build that takes over a second go to the logger ``tirlower``."""

from __future__ import annotations

import importlib
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import logging

    from tirlower.transforms import PassInfo

__all__ = ["LOGGER", "Progress"]

LOGGER: Final = "tirlower"
QUIET: Final = 1.0
"""Seconds after which a build begins to tell what it does."""


class Progress:
    """The phases of one build. A build that is over within a second says nothing.

    Each message (level INFO) names the phase that ended with its seconds, and the one that begins. As an instrument of
    a pass context it tells of each pass.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._start = self._since = time.perf_counter()
        self._phase = ""
        self._silent: list[tuple[str, float]] = []
        self._logger: logging.Logger | None = None

    def begin(self, phase: str) -> None:
        """The phase before is over, and this one begins; ``""`` where nothing follows."""
        now = time.perf_counter()
        last, seconds = self._phase, now - self._since
        self._phase, self._since = phase, now
        if now - self._start < QUIET:
            if last:
                self._silent.append((last, seconds))
            return
        if self._logger is None:
            # Imported by the first build that is slow enough to use it.
            self._logger = logger = importlib.import_module("logging").getLogger(LOGGER)
            for earlier, taken in self._silent:
                logger.info("building %s: %s took %.2f s", self._what, earlier, taken)
        then = f"; {phase} begins" if phase else f"; done after {now - self._start:.2f} s"
        self._logger.info("building %s: %s took %.2f s%s", self._what, last or "preparation", seconds, then)

    def run_before_pass(self, mod: object, info: PassInfo) -> None:
        """A pass begins."""
        self.begin(f"pass {info.name.removeprefix('tir.')}")
