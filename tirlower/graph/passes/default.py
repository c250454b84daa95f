"""The passes that compiling a graph runs, in order, with a reason for each position."""

from __future__ import annotations

from tirlower.graph.passes.expand import Expand
from tirlower.graph.passes.pipeline import Pipeline, Step

__all__ = ["DEFAULT", "PLAIN"]

DEFAULT = Pipeline((Step(Expand(), "kernels are made of operations, not of macros"),))
"""What ``tg.compile`` runs."""

PLAIN = Pipeline((Step(Expand(), "kernels are made of operations, not of macros"),))
"""What ``Options(optimize=False)`` runs: the baseline."""
