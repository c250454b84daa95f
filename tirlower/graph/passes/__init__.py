"""Passes over graphs, one a file: ``tg.passes.CSE()(graph)``; ``tg.passes.catalog()`` lists them.

>>> import tirlower.graph as tg
>>> "graph.Expand" in {entry.name for entry in tg.passes.catalog()}
True
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from tirlower.rewrite.registry import GRAPH_PASSES

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


def __getattr__(name: str) -> object:
    where = _WHERE.get(name)
    if where is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{where}"), name)
    setattr(sys.modules[__name__], name, value)  # `globals` is one of our modules
    return value


def __dir__() -> list[str]:
    return sorted(_WHERE)
