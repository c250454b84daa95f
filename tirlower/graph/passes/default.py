"""The passes that compiling a graph runs, in order, with a reason for each position."""

from __future__ import annotations

from tirlower.graph.passes.canonical import Canonicalize, CheckNoShapeQueries
from tirlower.graph.passes.constants import FoldConstants
from tirlower.graph.passes.control import CanonicalizeControl
from tirlower.graph.passes.cse import CSE
from tirlower.graph.passes.dce import DCE
from tirlower.graph.passes.debug import StripDebug
from tirlower.graph.passes.expand import Expand
from tirlower.graph.passes.globals import FoldGlobals, SimplifyGlobals
from tirlower.graph.passes.pipeline import Fixpoint, Pipeline, Step

__all__ = ["DEFAULT", "PLAIN"]

_SIMPLE = (
    Step(Canonicalize(), "rules bring equal computations into one form, in which CSE sees that they are equal"),
    Step(CSE(), "what is computed twice is computed once, which lets rules see one user where there were two"),
    Step(DCE(), "what rules left over would be counted as a user"),
)

_STATES = (
    Step(SimplifyGlobals(), "values take the place of accesses, which nothing else looks through"),
    Step(FoldGlobals(), "states of which no access is left, or that are constants, stand in the way of nothing"),
    Step(CanonicalizeControl(), "what leaves a choice or a loop meets what stands around it"),
)

DEFAULT = Pipeline(
    (
        Step(StripDebug(), "what only watches is not paid for, and nothing has to keep its place for it"),
        Fixpoint((*_STATES, *_SIMPLE), "before anything else: all that follows sees fewer operations"),
        Step(FoldConstants(), "what depends on no input is computed now, while macros on constants are one node each"),
        Step(Expand(), "kernels are made of operations, not of macros"),
        Fixpoint(_SIMPLE, "the parts of macros meet what stands around them"),
        Step(FoldConstants(), "parts of macros that are on constants alone, and what rules have brought together"),
        Step(DCE(), "constants whose users were folded"),
        Step(CheckNoShapeQueries(), "every extent is one of a dim, which the entry binds and checks"),
    )
)
"""What ``tg.compile`` runs."""

PLAIN = Pipeline((Step(Expand(), "kernels are made of operations, not of macros"),))
"""What ``Options(optimize=False)`` runs: the baseline."""
