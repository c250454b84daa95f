"""Passes over graphs, one a file: ``tg.passes.CSE()(graph)``; ``tg.passes.catalog()`` lists them.

>>> import tirlower.graph as tg
>>> "graph.Expand" in {entry.name for entry in tg.passes.catalog()}
True
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tirlower.rewrite.registry import GRAPH_PASSES
from tirlower.support.lazy import imported_when_asked

if TYPE_CHECKING:
    from tirlower.graph.passes.base import GraphPass
    from tirlower.graph.passes.canonical import Canonicalize, CheckNoShapeQueries
    from tirlower.graph.passes.composites import MergeCompositeFunctions
    from tirlower.graph.passes.constants import BindConstants, FoldConstants
    from tirlower.graph.passes.control import CanonicalizeControl
    from tirlower.graph.passes.cse import CSE
    from tirlower.graph.passes.dce import DCE, DropUnused
    from tirlower.graph.passes.debug import StripDebug
    from tirlower.graph.passes.default import DEFAULT, PLAIN
    from tirlower.graph.passes.expand import Expand
    from tirlower.graph.passes.globals import FoldGlobals, SimplifyGlobals
    from tirlower.graph.passes.listing import CatalogEntry, catalog
    from tirlower.graph.passes.partition import ConvertToDataflow, FuseOpsByPattern, MergeComposite
    from tirlower.graph.passes.pipeline import Fixpoint, Pipeline, Step

# What stands where: each is imported at its first use.
_WHERE = {
    **GRAPH_PASSES,
    "CatalogEntry": "listing",
    "DEFAULT": "default",
    "Fixpoint": "pipeline",
    "GraphPass": "base",
    "PLAIN": "default",
    "Pipeline": "pipeline",
    "Step": "pipeline",
    "catalog": "listing",
}

__all__ = list(_WHERE)

__getattr__ = imported_when_asked(__name__, _WHERE)
__dir__ = partial(sorted, __all__)
