"""The error class of graphs."""

from __future__ import annotations

from tirlower.diagnostics import TirError

__all__ = ["GraphError"]


class GraphError(TirError):
    """A graph that cannot be built, imported or compiled: what is wrong, where it came from, and what to do."""
