"""``enter_postproc``: a mark in the trace."""

from __future__ import annotations

from tirlower.schedule.kind import Kind
from tirlower.schedule.sites import Change

__all__ = ["ENTER_POSTPROC"]

ENTER_POSTPROC = Kind(
    "EnterPostproc",
    "enter_postproc",
    (),
    lambda step: Change(),
    "Mark where the steps end that a search tries, and those begin that it always takes afterwards.",
)
