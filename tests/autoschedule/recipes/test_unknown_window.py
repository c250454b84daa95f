"""Windows of sizes that the call brings, over arrays of sizes of their own: the bits of the loops, for any sizes."""

from __future__ import annotations

import pytest

from tests.autoschedule.recipes.test_window import FORMS
from tests.autoschedule.scheduled import AVX2, planned
from tests.autoschedule.unknown import of_any_size


@pytest.mark.parametrize(
    ("form", "window"),
    [("plain", ""), ("local", "3, 3")]
    + [
        pytest.param(form, window, marks=pytest.mark.nightly)
        for form, window in (
            ("plain", "3, 3"),
            ("block", ""),
            ("block", "3, 3"),
            ("local", ""),
            ("perfect", ""),
            ("perfect", "3, 3"),
        )
    ],
)
def test_windows_of_any_size(form: str, window: str):
    """The array that they move over has sizes of its own: the nest stands once more for calls with other ones."""
    sizes = 'T.Buffer(("c", "r", "s"), "float32")' if not window else f'T.Buffer(("c", {window}), "float32")'
    taps = window or "r, s"
    body = FORMS[form].format(c="c", h="h", w="w", d="float32").replace("for r, s in", "for a, b in")
    body = body.replace("h + r, w + s", "h + a, w + b").replace("c, r, s]", "c, a, b]").replace("(3, 3)", f"({taps})")
    body = body.replace("for c, h, w in T.grid(c, h, w)", "for c_, h_, w_ in T.grid(c, h, w)")
    body = body.replace(
        "for c, h, w, r, s in T.grid(c, h, w, 3, 3)", f"for c_, h_, w_, a, b in T.grid(c, h, w, {taps})"
    )
    body = body.replace("[c, h, w, r, s]", "[c_, h_, w_, a, b]").replace("[c, h, w]", "[c_, h_, w_]")
    body = body.replace("[c, h + a, w + b]", "[c_, h_ + a, w_ + b]").replace("[c, a, b]", "[c_, a, b]")
    text = f"""
def f(X: T.Buffer(("c", "p", "q"), "float32"), W: {sizes}, Y: T.Buffer(("c", "h", "w"), "float32")):{body}"""
    calls = [
        {"c": c, "h": h, "w": w, "r": r, "s": s, "p": h + r - 1 + more, "q": w + s - 1 + more}
        for c, h, w in ((1, 1, 1), (2, 5, 37), (1, 9, 62), (0, 3, 3), (2, 4, 15))
        for r, s in (((3, 3),) if window else ((1, 1), (3, 3), (2, 9)))
        for more in (0, 2)
    ]
    found = of_any_size(text, calls)
    assert any(report.recipe == "window of any size" for report in found.nests), found.nests


def test_sums_over_nothing_leave_what_a_block_leaves():
    """The init of a block is its sum's first step: of a window of no elements there is none."""
    text = """
def f(X: T.Buffer(("n",), "float32"), K: T.Buffer(("k",), "float32"), Y: T.Buffer(("m",), "float32")):
    for i, t in T.grid(m, k):
        with T.block("Y"):
            vi, vt = T.axis.remap("SR", [i, t])
            with T.init():
                Y[vi] = T.float32(0)
            Y[vi] = Y[vi] + X[vi + vt] * K[vt]
"""
    calls = [{"m": m, "k": k, "n": m + k} for m in (0, 1, 40) for k in (0, 1, 5)]
    found = of_any_size(text, calls)
    assert any(report.recipe == "window of any size" for report in found.nests), found.nests


@pytest.mark.parametrize(
    ("rows", "columns", "window", "tile"),
    [
        ('"h"', '"w"', '("r", "s")', (4, 16)),  # not written out: two vectors of eight
        ('"h"', '"w"', "(3, 3)", (4, 8)),
        ("3", '"w"', '("r", "s")', (3, 16)),
        ('"h"', "12", '("r", "s")', (4, 8)),
        ('"h"', "5", '("r", "s")', None),  # no vector
    ],
)
@pytest.mark.by_day
def test_plans(rows: str, columns: str, window: str, tile: tuple[int, int] | None) -> None:
    h, w = rows.strip('"'), columns.strip('"')
    r, s = ("r", "s") if "r" in window else ("3", "3")
    found = planned(
        f"""
def f(X: T.Buffer(("p", "q"), "float32"), W: T.Buffer({window}, "float32"), Y: T.Buffer(({rows}, {columns}), "float32")):
    for i, j, a, b in T.grid({h}, {w}, {r}, {s}):
        Y[i, j] = Y[i, j] + X[i + a, j + b] * W[a, b]
""",
        AVX2,
    )
    plans = [nest.parameters for nest in found.nests if nest.recipe == "window of any size"]
    assert [(one["rows"], one["columns"]) for one in plans] == ([] if tile is None else [tile])
