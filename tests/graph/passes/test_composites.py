"""Composites: what their attributes are called."""

from __future__ import annotations

from tirlower.graph.passes import composites


def test_the_attributes_have_the_names_of_the_field() -> None:
    values = {name: getattr(composites, name) for name in composites.__all__ if name.isupper()}
    assert values == {
        "CODEGEN": "Codegen",
        "COMPOSITE": "Composite",
        "GLOBAL_SYMBOL": "global_symbol",
        "PARTITIONED": "PartitionedFromPattern",
        "PRIMITIVE": "Primitive",
    }
