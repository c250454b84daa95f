"""Contractions of sizes that the caller alone knows: tiles, rests of rows and columns, and the bits of the loops as written."""

from __future__ import annotations

import itertools

import pytest

from tests.autoschedule.recipes.test_contraction import FORMS
from tests.autoschedule.scheduled import AVX2, AVX512, planned, scheduled
from tests.autoschedule.unknown import of_any_size
from tests.sampling import by_day
from tirlower.autoschedule.classify import nests_of
from tirlower.autoschedule.recipe import Bid
from tirlower.autoschedule.recipes.unknown_contraction import UNKNOWN_CONTRACTION
from tirlower.machine.processor import Processor
from tirlower.script import parse

ROWS = [{"M": m} for m in (0, 1, 2, 3, 4, 5, 11, 12, 13, 47, 48, 61)]
SIZES = [
    dict(zip("MNK", sizes, strict=True))
    for sizes in [
        (0, 5, 3), (5, 0, 3), (5, 3, 0), (1, 1, 1), (1, 1000, 3), (1000, 1, 3), (7, 100, 30), (8, 128, 32),
        (12, 32, 1), (13, 33, 2), (11, 31, 7), (48, 64, 16), (61, 71, 19), (127, 131, 5),
    ]
]  # fmt: skip


def unknown(form: str, spec: str = "mk,kn->mn", dtype: str = "float32", **known: int) -> str:
    """A product whose sizes are names, but for those that are given."""
    (a, b), c = spec.split("->")[0].split(","), spec.split("->")[1]
    v = "v" if form == "block" else ""
    names = {"m": "i", "n": "j", "k": "k", "b": "q"}

    def at(letters: str) -> str:
        return ", ".join(v + names[one] for one in letters)

    def sizes(letters: str, quoted: bool) -> str:
        found = [str(known.get(one.upper(), one.upper())) for one in letters.replace("b", "q")]
        return ", ".join(repr(one) if quoted and one.isalpha() else one for one in found)

    over = [one for one in "bmn" if one in c]
    return FORMS[form].format(
        a=sizes(a, True), b=sizes(b, True), c=sizes(c, True), d=dtype, e=dtype, K=sizes("k", False), ci=at(c),
        x=f"A[{at(a)}]", y=f"B[{at(b)}]", over=", ".join(names[one] for one in over), sizes=sizes("".join(over), False),
        inner=", ".join(f"v{names[one]}" for one in over), kinds="S" * len(over),
    )  # fmt: skip


SLOW = [
    pytest.param(form, dtype, marks=pytest.mark.nightly)
    for form, dtype in itertools.product(FORMS, ("float32", "float64", "int32", "int8"))
]


@pytest.mark.parametrize(("form", "dtype"), [("plain", "float32"), *SLOW])
def test_no_size_is_known(form: str, dtype: str):
    found = of_any_size(unknown(form, dtype=dtype), SIZES)
    assert found.nests[0].recipe == "contraction of any size" and found.nests[0].exactness == "bitwise equal"
    assert "parallel where M * N * K >= " in found.nests[0].rule


@pytest.mark.parametrize(
    ("form", "target"),
    [
        ("block", "llvm -num_threads=1"),
        *(pytest.param(one, AVX2, marks=pytest.mark.nightly) for one in ("plain", "block")),
    ],
)
def test_one_size_is_that_of_rows_columns_and_sums(form: str, target: str):
    text = unknown(form).replace("M", "N").replace("K", "N")
    found = of_any_size(text, [{"N": n} for n in (0, 1, 2, 3, 7, 13, 24, 65, 131)], target)
    assert found.nests[0].recipe == "contraction of any size" and found.nests[0].exactness == "bitwise equal"


@pytest.mark.parametrize(
    "form", ["block", *(pytest.param(form, marks=pytest.mark.nightly) for form in ("local", "perfect"))]
)
def test_rows_are_not_known(form: str):
    found = of_any_size(unknown(form, N=70, K=9), ROWS)
    assert found.nests[0].recipe == "contraction of any size"


@pytest.mark.nightly
@pytest.mark.parametrize("spec", ["mk,nk->mn", "km,kn->mn"])
def test_transposed_operands(spec: str):
    found = of_any_size(unknown("plain", spec, N=40, K=11), ROWS)
    assert found.nests[0].recipe == "contraction of any size"
    assert found.nests[0].parameters["packed"] == (("B",) if spec.startswith("mk") else ())


@pytest.mark.nightly
@pytest.mark.parametrize("spec", ["mk,nk->mn", "km,kn->mn", "km,nk->mn"])
def test_transposed_operands_of_no_known_size(spec: str):
    assert of_any_size(unknown("plain", spec), SIZES).nests[0].recipe == "contraction of any size"


def test_panels_of_a_transposed_operand_of_no_known_size():
    """How many squares it has, which could turn in registers, is known to the caller alone."""
    found = planned(unknown("plain", "mk,nk->mn"), "llvm -mcpu=x86-64-v3 -mcache=1K,2K,4K -num_threads=4")
    assert found.nests[0].recipe == "contraction of any size" and found.nests[0].parameters["packed"] == ("B",)


SMALL = "llvm -mcpu=x86-64-v3 -mcache=1K,2K,4K -num_threads=2"
"""A machine on which B is large from 128 elements on; for 64 rows, from 16 on. Tiles have 6 rows and 16 columns."""

LARGE = [
    dict(zip("MNK", sizes, strict=True))
    for sizes in [
        (96, 11, 11), (95, 12, 12), (96, 12, 12), (97, 16, 11), (191, 17, 12), (192, 31, 13), (193, 64, 40), (300, 47, 20),
        (24, 12, 11), (25, 47, 12), (41, 33, 13), (23, 40, 12),
        (5, 16, 11), (4, 16, 11), (63, 16, 11), (63, 17, 10), (64, 16, 4), (64, 15, 4), (64, 33, 3), (70, 31, 4),
        (96, 0, 50), (96, 50, 0), (101, 11, 50), (101, 50, 11), (13, 100, 100), (0, 20, 20),
    ]
]  # fmt: skip


@pytest.mark.parametrize(
    ("form", "dtype"),
    [("plain", "float32"), *SLOW],
)
def test_a_large_operand_goes_in_panels_strip_by_strip(form: str, dtype: str):
    found = of_any_size(unknown(form, dtype=dtype), LARGE, SMALL)
    [nest] = [nest for nest in found.nests if nest.recipe]
    assert nest.recipe == "contraction of any size" and nest.exactness == "bitwise equal"
    asked = "N >= 4 and K >= 4 and M >= 5 and (N >= 11 and K >= 11 or M >= 64)"
    assert nest.parameters["strips"] == asked if dtype == "float32" else "M >= 64" in nest.parameters["strips"]
    assert "B_packed" in str(found.function) and "`B` in panels, strip by strip, where " in nest.rule


def test_a_turned_operand_goes_in_panels_beside_a_large_one():
    found = of_any_size(unknown("plain", "km,kn->mn"), LARGE, SMALL)
    assert found.nests[0].parameters["strips"] and "A_packed" in str(found.function)


def test_both_of_two_products_go_in_panels():
    found = of_any_size(TWO.format(m="'M'", n="'N'", k="'K'", M="M", N="N", K="K"), LARGE, SMALL)
    text = str(found.function)
    assert found.nests[0].parameters["strips"] and "B_packed" in text and "E_packed" in text
    known = scheduled(TWO.format(m=97, n=33, k=41, M=97, N=33, K=41), SMALL, interpreted=False)
    assert "E_packed" in str(known.function)
    shared = TWO.format(m=97, n=33, k=41, M=97, N=33, K=41).replace("E[", "B[")  # one panel would be asked for twice
    assert "packed" not in str(scheduled(shared, SMALL, interpreted=False).function)


TWO = """
def f(A: T.Buffer(({m}, {k}), "float32"), B: T.Buffer(({k}, {n}), "float32"), D: T.Buffer(({m}, {k}), "float32"),
      E: T.Buffer(({k}, {n}), "float32"), C: T.Buffer(({m}, {n}), "float32")):
    for i, j in T.grid({M}, {N}):
        C[i, j] = T.float32(0)
        for k in range({K}):
            C[i, j] = C[i, j] + (A[i, k] * B[k, j] - D[i, k] * E[k, j])
"""


COLUMNS = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 23, 31, 32, 33, 48, 63)


@pytest.mark.parametrize("target", ["llvm -mcpu=x86-64-v3 -num_threads=1", "llvm -num_threads=1"], ids=["v3", "native"])
@pytest.mark.parametrize("form", by_day(["plain", "block", "perfect", "local"], each=4))
def test_columns_beyond_whole_tiles_go_under_a_mask(form: str, target: str):
    """No lane beyond the last column is computed with, whatever stands behind: the arrays end there."""
    sizes = [{"M": m, "N": n, "K": 5} for m in (1, 7, 13) for n in COLUMNS]
    found = of_any_size(unknown(form), sizes, target)
    lanes, columns = Processor.of(target).lanes("float32"), found.nests[0].parameters["columns"]
    assert columns == 2 * lanes and f"< N % {columns}" in str(found.function)
    assert str(found.function).count("T.vectorized") < (70 if form == "plain" else 50)  # six tiles, once or in strips


def test_a_result_that_is_an_operand_is_computed_once():
    text = """
def f(A: T.Buffer(("M", "K"), "float32"), B: T.Buffer(("K", "N"), "float32"), C: T.Buffer(("M", "N"), "float32")):
    for i, j in T.grid(M, N):
        C[i, j] = C[i, j] * T.float32(2)
        for k in range(K):
            C[i, j] += A[i, k] * B[k, j]
"""
    found = of_any_size(text, SIZES, "llvm -mcpu=x86-64-v3 -num_threads=1")
    assert any(nest.recipe.startswith("contraction") for nest in found.nests)


@pytest.mark.parametrize(
    ("known", "condition"),
    [
        ({"N": 32, "K": 40}, "M >= 5"),  # B is large: rows decide
        ({"N": 8, "K": 5}, "M >= 64"),  # it pays from more rows on
        ({"M": 200, "N": 32}, "K >= "),
        ({"M": 23}, "N >= 11 and K >= 11"),
        ({"M": 4}, ""),  # too few rows
        ({"N": 3, "K": 5}, ""),  # never large
    ],
)
@pytest.mark.by_day
def test_what_is_known_of_a_large_operand_is_not_asked(known: dict[str, int], condition: str):
    found = of_any_size(
        unknown("plain", **known), [sizes for sizes in LARGE if sizes["M"] < 200 or "M" in known], SMALL
    )
    [nest] = found.nests
    assert bool(nest.parameters["strips"]) is bool(condition)
    text = str(found.function)
    assert ("B_packed" in text) is bool(condition) and condition in text


def test_what_is_no_matrix_or_changes_is_not_large():
    changes = """
def f(A: T.Buffer(("M", 16), "float32"), X: T.Buffer(("M", 16), "float32")):
    for i, j in T.grid(M - 16, 16):
        acc = T.alloc_buffer((1,), "float32", scope="local")
        acc[0] = T.float32(0)
        for k in range(16):
            acc[0] += X[i, k] * A[k, j]
        A[i + 16, j] = acc[0]
"""
    found = planned(changes, SMALL).nests[0]
    assert found.recipe == "contraction of any size" and found.parameters["strips"] == ""
    assert planned(unknown("plain", "bmk,bkn->bmn", M=100, N=33, K=40), SMALL).nests[0].parameters["strips"] == ""


@pytest.mark.parametrize(("form", "columns"), [("plain", 2), ("block", 3), ("local", 5), ("plain", 7), ("perfect", 10)])
def test_few_columns(form: str, columns: int):
    found = of_any_size(unknown(form, N=columns, K=21), ROWS)
    [nest] = [nest for nest in found.nests if nest.recipe]
    assert nest.recipe == "contraction of any size" and nest.parameters["columns"] == columns


@pytest.mark.parametrize("rows", ["M", "40"])
def test_tiles_that_the_program_cuts_are_no_few_columns(rows: str):
    """A predicate of both cuts had isl at work for half a minute."""
    size = repr(rows) if rows.isalpha() else rows
    tiles = f"""
def f(A: T.Buffer(({size}, 8), "float32"), B: T.Buffer((8, 40), "float32"), C: T.Buffer(({size}, 40), "float32")):
    for i_0, j_0, k, i_1, j_1 in T.grid({rows} // 4, 20, 8, 4, 2):
        C[i_0 * 4 + i_1, j_0 * 2 + j_1] = C[i_0 * 4 + i_1, j_0 * 2 + j_1] + A[i_0 * 4 + i_1, k] * B[k, j_0 * 2 + j_1]
"""
    notes = str(planned(tiles, SMALL).nests)
    assert ("2 columns are no vector" if rows == "M" else "x 2 x 8 is too little for a tile") in notes


def test_a_batch_that_is_not_known():
    found = of_any_size(unknown("plain", "bmk,bkn->bmn", M=13, N=33, K=4), [{"Q": batch} for batch in (0, 1, 2, 7)])
    assert found.nests[0].recipe == "contraction of any size"


def test_plans_of_machines():
    def tile(target: str, **known: int) -> tuple[object, ...]:
        bid = UNKNOWN_CONTRACTION.bid(nests_of(parse(unknown("plain", **known))), Processor.of(target))
        assert isinstance(bid, Bid)
        return bid.plan.parameters["rows"], bid.plan.parameters["columns"], bid.plan.parameters["parallel"]

    assert tile(AVX2) == (6, 16, "i")
    assert tile(AVX512) == (12, 32, "i")
    assert tile(AVX512, N=16, K=2) == (12, 16, None)


def test_what_is_left_to_others():
    triangle = """
def f(A: T.Buffer(("M", 8), "float32"), B: T.Buffer((8, 32), "float32"), C: T.Buffer(("M", 32), "float32")):
    for i, j in T.grid(M, 32):
        for k in range(T.min(i, 8)):
            C[i, j] = C[i, j] + A[i, k] * B[k, j]
"""
    assert "its extents move with other loops" in str(planned(triangle).nests[0].notes)
    narrow = triangle.replace("T.grid(M, 32)", "T.grid(M, 1)").replace("T.min(i, 8)", "8")
    assert planned(narrow).nests[0].recipe == "row chain"


def test_one_column_is_a_matrix_by_a_vector() -> None:
    text = """
def f(A: T.Buffer(("m", "k"), "float32"), B: T.Buffer(("k", "n"), "float32"), C: T.Buffer(("m", "n"), "float32")):
    for i in range(m):
        for j in range(n):
            C[i, j] = T.float32(0)
            for l in range(k):
                C[i, j] += A[i, l] * B[l, j]
"""
    wide = AVX512.replace("threads=2", "threads=1")
    sizes = [{"m": m, "k": k, "n": n} for m in (0, 1, 16, 33) for k in (0, 1, 16, 35) for n in (0, 1, 2)]
    [report] = of_any_size(text, sizes, wide).nests
    assert report.parameters["single"] and "n != 1" in str(planned(text, wide).trace)
    assert not planned(text, AVX2).nests[0].parameters["single"]
    assert (
        not planned(text.replace("A[i, l]", "A[l, i]").replace('("m", "k")', '("k", "m")'), wide)
        .nests[0]
        .parameters["single"]
    )
