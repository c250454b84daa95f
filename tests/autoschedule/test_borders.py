"""Padding and rims: what conditions decide at the ends of loops stands apart, and the rest asks nothing."""

from __future__ import annotations

import itertools
from typing import cast

import pytest

import tirlower as tl
from tests.autoschedule.scheduled import AVX512, planned, scheduled
from tests.autoschedule.unknown import of_any_size
from tests.checking import executes_alike
from tirlower.autoschedule.borders import borders_of, without_rims_of_sums
from tirlower.autoschedule.classify import nests_of
from tirlower.autoschedule.verbs import Verbs
from tirlower.script import parse

ONE = AVX512.replace("threads=2", "threads=1")

PADDED = {
    "if": """
        Y[i, j] = 0
        for u, v in T.grid(R, R):
            if 0 <= i + u - P and i + u - P < H and 0 <= j + v - P and j + v - P < W:
                Y[i, j] = Y[i, j] + X[i + u - P, j + v - P] * K[u, v]
""",
    "choice": """
        Y[i, j] = 0
        for u, v in T.grid(R, R):
            Y[i, j] = Y[i, j] + T.if_then_else(
                0 <= i + u - P and i + u - P < H and 0 <= j + v - P and j + v - P < W,
                X[i + u - P, j + v - P], T.float32(0)) * K[u, v]
""",
    "accumulator": """
        acc: T.float32 = 0
        for u, v in T.grid(R, R):
            if 0 <= i + u - P and i + u - P < H and 0 <= j + v - P and j + v - P < W:
                acc = acc + X[i + u - P, j + v - P] * K[u, v]
        Y[i, j] = acc
""",
}


def padded(form: str, window: int, h: object, w: object) -> str:
    text = f"""
def f(X: T.Buffer((H, W), "float32"), K: T.Buffer((R, R), "float32"), Y: T.Buffer((H, W), "float32")):
    for i, j in T.grid(H, W):{PADDED[form]}"""
    head, body = text.split("):\n", 1)
    for name, size in (("H", h), ("W", w)):
        quoted = f'"{size}"' if isinstance(size, str) else str(size)
        head = head.replace(f"({name},", f"({quoted},").replace(f" {name})", f" {quoted})")
        body = (
            body.replace(f"< {name}", f"< {size}").replace(f"({name},", f"({size},").replace(f" {name})", f" {size})")
        )
    both = f"{head}):\n{body}"
    return both.replace("(R, R)", f"({window}, {window})").replace("- P", f"- {window // 2}")


@pytest.mark.parametrize(
    ("form", "window"),
    [("if", 5), ("choice", 3), ("accumulator", 3), pytest.param("choice", 5, marks=pytest.mark.nightly)],
)
def test_padded_windows(form: str, window: int) -> None:
    found = planned(padded(form, window, 96, 128), ONE)
    assert any(report.recipe == "window" for report in found.nests), found.nests
    for sizes in ((11, 37), (2, 19)):
        scheduled(padded(form, window, *sizes), ONE, interpreted=sizes[0] < 5)


@pytest.mark.parametrize(
    "form", [name if name == "if" else pytest.param(name, marks=pytest.mark.nightly) for name in PADDED]
)
def test_padded_windows_of_any_size(form: str) -> None:
    sizes = [{"H": h, "W": w} for h, w in itertools.product((0, 1, 2, 3, 9), (0, 1, 2, 21, 40))]
    found = of_any_size(padded(form, 3, "H", "W"), sizes, "llvm -num_threads=1")
    assert any(report.recipe == "window of any size" for report in found.nests), found.nests


CONVOLUTION = """
def f(X: T.Buffer((3, {h}, {w}), "float32"), W: T.Buffer((9, 3, 3, 3), "float32"), Y: T.Buffer((9, {h}, {w}), "float32")):
    for m, i, j in T.grid(9, {m}, {n}):
        Y[m, i, j] = 0
        for k, u, v in T.grid(3, 3, 3):
            if 0 <= i + u - 1 < {m} and 0 <= j + v - 1 < {n}:
                Y[m, i, j] += X[k, i + u - 1, j + v - 1] * W[m, k, u, v]
"""


def test_rows_at_the_border_sum_up_what_is_inside_alone() -> None:
    """Of the first row the window's first row is outside: its loop begins behind it, and the row is a product as all others are."""
    found = planned(CONVOLUTION.format(h=32, w=32, m=32, n=32), ONE)
    assert sum(report.recipe == "contraction" for report in found.nests) >= 3
    scheduled(CONVOLUTION.format(h=5, w=19, m=5, n=19), ONE, interpreted=False)


@pytest.mark.parametrize(
    ("condition", "taken"),
    [
        ("u >= 1", True),
        ("u < 2 and v > 0", True),
        ("2 * u >= 3", True),
        ("u >= 1 and u < 2", True),
        ("u + v >= 1", False),  # of two loops
        ("u >= 3", False),  # of no iteration
        ("v < 0 and u < 1", False),
        ("u != 1", False),  # of the middle
        ("u >= j", False),
    ],
)
def test_conditions_on_the_loops_of_a_sum(condition: str, taken: bool) -> None:
    func = parse(f"""
def f(X: T.Buffer((11, 37), "float32"), Y: T.Buffer((9, 35), "float32")):
    for i, j in T.grid(9, 35):
        Y[i, j] = 0
        for u, v in T.grid(3, 3):
            if {condition}:
                Y[i, j] += X[i + u, j + v]
""")
    sch = tl.Schedule(func)
    assert without_rims_of_sums(cast("Verbs", sch), func, nests_of(func)) is taken
    made = sch.mod["main"]
    assert ("if " in str(made)) is not taken
    executes_alike(func, made)


def test_a_rim_that_is_set_otherwise() -> None:
    found = scheduled(
        """
def f(A: T.Buffer((24, 40), "float32"), B: T.Buffer((24, 40), "float32")):
    for i, j in T.grid(24, 40):
        if i > 0 and i < 23 and j >= 1 and j < 39:
            B[i, j] = A[i - 1, j] + A[i + 1, j] + A[i, j - 1] + A[i, j + 1]
        else:
            B[i, j] = A[i, j]
""",
        ONE,
    )
    assert "peel" in str(found.trace) or not any(report.recipe for report in found.nests)


@pytest.mark.parametrize(
    "condition",
    [
        "i < j",  # of two loops
        "i % 2 == 0",  # of every second iteration
        "A[i, j] > 0",  # of data
        "i < 2000",  # of all iterations, as no number of them at one end
        "i >= n - 1 - j",
    ],
)
def test_what_is_no_border(condition: str) -> None:
    func = parse(f"""
def f(n: T.int32, A: T.Buffer((n, n), "int32"), B: T.Buffer((n, n), "int32")):
    for i, j in T.grid(n, n):
        if {condition}:
            B[i, j] = A[i, j]
""")
    [nest] = nests_of(func)
    assert borders_of(nest) == []


def test_loops_that_are_all_border_stay() -> None:
    func = parse("""
def f(A: T.Buffer((4, 9), "int32"), B: T.Buffer((4, 9), "int32")):
    for i, j in T.grid(4, 9):
        if i >= 2 and i < 2 and j < 9:
            B[i, j] = A[i, j]
""")
    [nest] = nests_of(func)
    assert borders_of(nest) == []


def test_a_nest_whose_order_would_change_stays_whole() -> None:
    text = """
def f(A: T.Buffer((40, 64), "float32")):
    for i, j in T.grid(40, 64):
        if i >= 1 and j >= 1:
            A[i, j] = A[i - 1, j] + A[i, j - 1]
"""
    func = parse(text)
    [nest] = nests_of(func)
    assert [(one.front, one.back) for one in borders_of(nest)] == [(1, 0), (1, 0)]
    scheduled(text, ONE)
