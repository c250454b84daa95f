"""Sums over small windows: depthwise convolutions in every form and layout, pooling, odd sizes, and the bits of the loops."""

from __future__ import annotations

import pytest

from tests.autoschedule.scheduled import AVX2, planned, scheduled

HEAD = """
def f(X: T.Buffer(({c}, {h} + 2, {w} + 2), "{d}"), W: T.Buffer(({c}, 3, 3), "{d}"), Y: T.Buffer(({c}, {h}, {w}), "{d}")):
"""
FORMS = {
    "plain": """
    for c, h, w in T.grid({c}, {h}, {w}):
        Y[c, h, w] = T.Cast("{d}", 0)
        for r, s in T.grid(3, 3):
            Y[c, h, w] = Y[c, h, w] + X[c, h + r, w + s] * W[c, r, s]
""",
    "local": """
    for c, h, w in T.grid({c}, {h}, {w}):
        acc = T.Cast("{d}", 0)
        for r, s in T.grid(3, 3):
            acc = acc + X[c, h + r, w + s] * W[c, r, s]
        Y[c, h, w] = acc
""",
    "block": """
    for c, h, w, r, s in T.grid({c}, {h}, {w}, 3, 3):
        with T.block("Y"):
            vc, vh, vw, vr, vs = T.axis.remap("SSSRR", [c, h, w, r, s])
            with T.init():
                Y[vc, vh, vw] = T.Cast("{d}", 0)
            Y[vc, vh, vw] = Y[vc, vh, vw] + X[vc, vh + vr, vw + vs] * W[vc, vr, vs]
""",
    "perfect": """
    for c, h, w, r, s in T.grid({c}, {h}, {w}, 3, 3):
        Y[c, h, w] = Y[c, h, w] + X[c, h + r, w + s] * W[c, r, s]
""",
}
MORE = [
    pytest.param(form, sizes, dtype, marks=pytest.mark.nightly)
    for form in FORMS
    for sizes in [(1, 1, 8), (2, 5, 9), (3, 8, 16), (1, 13, 41)]
    for dtype in ("float32", "float64", "int16")
]


def depthwise(form: str, sizes: tuple[int, int, int], dtype: str = "float32") -> str:
    c, h, w = sizes
    return (HEAD + FORMS[form]).format(c=c, h=h, w=w, d=dtype).replace("\n\n", "\n")


@pytest.mark.parametrize(
    ("form", "sizes", "dtype"),
    [("plain", (2, 9, 21), "float32"), ("local", (3, 4, 19), "int32"), ("block", (2, 6, 11), "float32"), *MORE],
)
def test_depthwise_convolutions(form: str, sizes: tuple[int, int, int], dtype: str):
    found = scheduled(depthwise(form, sizes, dtype))
    assert found.nests[0].recipe in ("window", "") and found.nests[0].exactness == "bitwise equal"
    assert min(sizes) == 1 or dtype == "int16" or found.nests[0].recipe == "window"


def test_channels_last():
    found = scheduled("""
def f(X: T.Buffer((9, 8, 19), "float32"), W: T.Buffer((3, 3, 19), "float32"), Y: T.Buffer((7, 6, 19), "float32")):
    for h, w, c in T.grid(7, 6, 19):
        Y[h, w, c] = T.float32(0)
        for r, s in T.grid(3, 3):
            Y[h, w, c] = Y[h, w, c] + X[h + r, w + s, c] * W[r, s, c]
""")
    assert found.nests[0].recipe == "window"


def test_pooling():
    found = scheduled("""
def f(X: T.Buffer((14, 12, 16), "float32"), Y: T.Buffer((7, 6, 16), "float32")):
    for h, w, c in T.grid(7, 6, 16):
        Y[h, w, c] = T.min_value("float32")
        for r, s in T.grid(2, 2):
            Y[h, w, c] = T.max(Y[h, w, c], X[h * 2 + r, w * 2 + s, c])
""")
    assert found.nests[0].recipe == "window"


def test_a_filter_of_a_row():
    found = scheduled("""
def f(X: T.Buffer((1003,), "float32"), W: T.Buffer((4,), "float32"), Y: T.Buffer((1000,), "float32")):
    for i in range(1000):
        Y[i] = T.float32(0)
        for k in range(4):
            Y[i] = Y[i] + X[i + k] * W[k]
""")
    assert found.nests[0].recipe in ("window", "contraction") and found.nests[0].exactness == "bitwise equal"


def test_plans_of_machines():
    [report] = planned(depthwise("plain", (64, 56, 56)), AVX2).nests
    assert (report.parameters["rows"], report.parameters["columns"], report.parameters["parallel"]) == (4, 8, "c")
    [small] = planned(depthwise("plain", (2, 4, 8)), AVX2).nests
    assert small.parameters["parallel"] is None and "not parallel" in small.rule


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (depthwise("plain", (2, 9, 5)), "rows of 5 elements are no vector"),
        (depthwise("plain", (2, 9, 16)).replace("w + s]", "w * 1 + s]").replace("16 + 2", "40").replace("w * 1", "w * 2"), "not contiguous along the rows"),
        ("""
def f(A: T.Buffer((81, 64), "float32"), Y: T.Buffer((64,), "float32")):
    for j, k in T.grid(64, 81):
        Y[j] = Y[j] + A[k, j]
""", "no loop of the sum moves what is read as one over the result does"),
    ],
)  # fmt: skip
def test_what_is_not_taken(text: str, reason: str):
    found = planned(text)
    assert found.nests[0].recipe != "window"
    assert any(reason in note for note in found.nests[0].notes), found.nests[0].notes


@pytest.mark.parametrize(
    ("form", "window"), [("plain", (9, 9)), ("local", (1, 40)), ("block", (3, 11)), ("perfect", (1, 40))]
)
@pytest.mark.by_day
def test_large_windows(form: str, window: tuple[int, int]):
    rows, columns = window
    text = (
        depthwise(form, (2, 6, 37)).replace(", 3, 3", f", {rows}, {columns}").replace("(3, 3)", f"({rows}, {columns})")
    )
    text = text.replace("6 + 2", f"6 + {rows - 1}").replace("37 + 2", f"37 + {columns - 1}")
    found = scheduled(text)
    assert found.nests[0].recipe == "window" and found.nests[0].exactness == "bitwise equal"
