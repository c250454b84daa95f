"""Products of arrays with axes in any roles against einsum."""

from __future__ import annotations

import numpy as np
import pytest

from tests.graph.ops.checking import integers
from tirlower.graph.ops.products import multiplied

pytestmark = pytest.mark.by_day


@pytest.mark.parametrize("left", ["abcde", "ace", "a", "", "be", "de", "bcd"])
@pytest.mark.parametrize("right", ["abcde", "bde", "c", "ad", "e", ""])
def test_roles_of_axes(left: str, right: str) -> None:
    """Axes a, b, c are kept, d and e are summed; an operand may lack any."""
    sizes = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 6}
    x, y = (integers(*[sizes[k] if k in own else 1 for k in sizes], seed=n) for n, own in enumerate((left, right)))
    full = [np.broadcast_to(v, tuple(sizes.values())) for v in (x, y)]
    np.testing.assert_array_equal(multiplied(x, y, tuple(sizes.values()), 3), np.einsum("abcde,abcde->abc", *full))
