"""Composites: graphs that are one match of a pattern each, called where it was found."""

from __future__ import annotations

from typing import Final

__all__ = ["CODEGEN", "COMPOSITE", "GLOBAL_SYMBOL", "PARTITIONED", "PRIMITIVE"]

COMPOSITE: Final = "Composite"
"""The attribute of a composite that names its pattern: ``backend.what``."""
PRIMITIVE: Final = "Primitive"
"""The attribute of graphs that passes do not take apart."""
PARTITIONED: Final = "PartitionedFromPattern"
"""The attribute of a composite that names its operations, in order, joined by ``_``."""
CODEGEN: Final = "Codegen"
"""The attribute of a graph that a backend compiles: the backend's name."""
GLOBAL_SYMBOL: Final = "global_symbol"
"""The attribute that is the name of what a backend makes of a graph."""
