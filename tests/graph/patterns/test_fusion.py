"""Patterns with names: a tuple says what the class says."""

from __future__ import annotations

import pytest

from tirlower.graph.patterns import FusionPattern, is_op, wildcard
from tirlower.graph.patterns.fusion import fusion_pattern


def test_tuples_say_what_the_class_says() -> None:
    p, w = is_op("exp"), wildcard()

    def check(context: object) -> bool:
        return True

    def attrs(annotated: object) -> dict[str, object]:
        return {}

    for given, want in [
        (("a", p), FusionPattern("a", p)),
        (("a", p, {"w": w}), FusionPattern("a", p, {"w": w})),
        (("a", p, check), FusionPattern("a", p, {}, check)),
        (("a", p, None, check), FusionPattern("a", p, {}, check)),
        (("a", p, {"w": w}, check), FusionPattern("a", p, {"w": w}, check)),
        (("a", p, {"w": w}, None, attrs), FusionPattern("a", p, {"w": w}, None, attrs)),
        (("a", p, {}, check, attrs), FusionPattern("a", p, {}, check, attrs)),
    ]:
        assert fusion_pattern(given) == want
    with pytest.raises(ValueError, match="Invalid pattern"):
        fusion_pattern(["a", p])
