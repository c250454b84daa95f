"""Common subexpressions: the largest that occur often enough, counted as often as they are written."""

from __future__ import annotations

from tirlower.arith import detect_common_subexpr
from tirlower.ir import Buffer, Ramp, Var, build

x, y, z = Var("x"), Var("y"), Var("z")


def counted(expr, threshold):
    return {str(part): times for part, times in detect_common_subexpr(expr, threshold).items()}


def test_the_largest_are_found():
    twice = (x + y) * z
    assert counted(twice + twice // 2, 2) == {"(x + y) * z": 2}
    # beside the larger one the smaller occurs too seldom
    assert counted(twice + twice // 2 + (x + y), 2) == {"(x + y) * z": 2}
    assert counted(twice + twice // 2 + (x + y) % 3 + (x + y), 2) == {"(x + y) * z": 2, "x + y": 2}


def test_the_threshold_counts_occurrences():
    expr = (x + y) * (x + y) + (x + y)
    assert counted(expr, 3) == {"x + y": 3}
    assert counted(expr, 4) == {}
    assert counted(x, 1) == {}
    assert counted(x + y, 1) == {"x + y": 1}


def test_equal_nodes_are_one_and_shared_nodes_count_as_often_as_they_stand():
    shared = x + y
    for _ in range(20):
        shared = shared * 3 + shared
    found = detect_common_subexpr(shared, 2**20)
    assert list(found.values()) == [2**20]


def test_what_reads_memory_or_has_no_value_of_its_own_is_not_counted():
    A = Buffer("A", (8,), "int32")
    load = A[x + y]
    assert counted(load + load, 2) == {"x + y": 2}
    lanes = Ramp(x * 4, build.int32(1), 4)
    assert counted(lanes + lanes, 2) == {"x * 4": 2}
