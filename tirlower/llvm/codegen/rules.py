"""The rules of operations that are the host's own (see ``tirlower/emit/expressions.py``)."""

from __future__ import annotations

from typing import Final

from tirlower.emit.expressions import CallRules, Controls

__all__ = ["HOST_CALLS", "HOST_CONTROLS"]

HOST_CALLS: Final[CallRules] = {}
"""Operation -> function (emitter, call, values of the arguments)."""
HOST_CONTROLS: Final[Controls] = {}
"""Operation -> function (run, call) that schedules the arguments itself."""
