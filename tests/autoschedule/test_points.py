"""Elements that one iteration writes and all of them read."""

from __future__ import annotations

import pytest

from tirlower.autoschedule.classify import nests_of
from tirlower.autoschedule.points import point_of
from tirlower.script import parse


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("D[i, j] = D[i, j] + D[i, k]", "k"),
        ("D[i, j + 2] = D[i, k]", "k - 2"),
        ("D[i, j] = D[i, k] + D[k, k]", "k"),
        ("D[i, j] = D[i, k] + D[i, k + 1]", "None"),  # two of them
        ("D[i, j] = D[i, j + 1]", "None"),
        ("D[i, j] = E[i, k]", "None"),
        ("D[j, i] = D[j, i] + D[k, i]", "k"),  # whichever dimension it is
        ("D[i, 2 * j] = D[i, k]", "None"),
        ("D[i, j] = D[i, E[0, j]]", "None"),
        ("D[k, j] = D[i, 3]", "3"),
        ("D[i, j % 4] = D[i, k]", "None"),
    ],
)
def test_the_iteration_is_where_the_subscripts_meet(body: str, want: str):
    [nest] = nests_of(
        parse(f"""
def f(D: T.Buffer((40, 40), "int32"), E: T.Buffer((40, 40), "int32"), k: T.int32):
    for i, j in T.grid(16, 16):
        {body}
""")
    )
    assert str(point_of(nest.statements, nest.loops[-1])) == want


def test_several_statements_meet_in_one_iteration():
    [nest] = nests_of(
        parse("""
def f(D: T.Buffer((16, 16), "int32"), E: T.Buffer((16, 16), "int32"), k: T.int32):
    for i, j in T.grid(16, 16):
        D[i, j] = E[i, k]
        E[i, j] = D[i, j]
""")
    )
    assert str(point_of(nest.statements, nest.loops[-1])) == "k"
    assert point_of(nest.statements[:1], nest.loops[-1]) is None
