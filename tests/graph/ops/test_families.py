"""Every module that defines operations is listed, once."""

from __future__ import annotations

from pathlib import Path

from tirlower.graph.ops import families


def test_every_family_is_listed() -> None:
    here = Path(families.__file__).parent
    words = ("\n@op(", "\n@macro(", "\n@opaque(")
    defining = {p.stem for p in here.glob("*.py") if any(word in p.read_text() for word in words)}
    assert defining == set(families.FAMILIES)
    assert len(set(families.FAMILIES)) == len(families.FAMILIES)
