"""The classes of what may happen to numbers."""

import pytest

from tirlower.graph.core.numerics import Numerics


def test_each_class_admits_those_before_it():
    assert [Numerics.of(word) for word in ("exact", "default", "fast")] == sorted(Numerics)
    assert [one.word for one in Numerics] == ["exact", "default", "fast"]
    with pytest.raises(KeyError):
        Numerics.of("sloppy")
