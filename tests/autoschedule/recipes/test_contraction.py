"""Contractions: every way to write one, odd sizes, no bit changed, and the plans for stated machines."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import tirlower as tl
from tests.autoschedule.scheduled import AVX2, AVX512, planned, replays, same_bits, scheduled
from tirlower.autoschedule.recipes.contraction import CONTRACTION
from tirlower.autoschedule.recipes.fallback import FALLBACK
from tirlower.diagnostics import ScheduleError
from tirlower.ir import PrimFunc
from tirlower.script import parse

BLOCK = """
def f(A: T.Buffer(({a}), "{d}"), B: T.Buffer(({b}), "{d}"), C: T.Buffer(({c}), "{e}")):
    for {over}, k in T.grid({sizes}, {K}):
        with T.block("C"):
            {inner}, vk = T.axis.remap("{kinds}R", [{over}, k])
            with T.init():
                C[{ci}] = T.Cast("{e}", 0)
            C[{ci}] += {x} * {y}
"""
PLAIN = """
def f(A: T.Buffer(({a}), "{d}"), B: T.Buffer(({b}), "{d}"), C: T.Buffer(({c}), "{e}")):
    for {over} in T.grid({sizes}):
        C[{ci}] = T.Cast("{e}", 0)
        for k in range({K}):
            C[{ci}] = C[{ci}] + {x} * {y}
"""
LOCAL = """
def f(A: T.Buffer(({a}), "{d}"), B: T.Buffer(({b}), "{d}"), C: T.Buffer(({c}), "{e}")):
    for {over} in T.grid({sizes}):
        acc = T.Cast("{e}", 0)
        for k in range({K}):
            acc = acc + {x} * {y}
        C[{ci}] = acc
"""
PERFECT = """
def f(A: T.Buffer(({a}), "{d}"), B: T.Buffer(({b}), "{d}"), C: T.Buffer(({c}), "{e}")):
    for {over}, k in T.grid({sizes}, {K}):
        C[{ci}] = C[{ci}] + {x} * {y}
"""
FORMS = {"block": BLOCK, "plain": PLAIN, "local": LOCAL, "perfect": PERFECT}
EXTENT = {"m": "M", "n": "N", "k": "K", "b": "Q"}


def product(
    form: str,
    sizes: tuple[int, int, int],
    spec: str = "mk,kn->mn",
    dtype: str = "float32",
    result: str = "",
    batch: int = 3,
) -> PrimFunc:
    """A product in a form; the letters of ``spec`` are the subscripts of A, B and C."""
    (a, b), c = spec.split("->")[0].split(","), spec.split("->")[1]
    extent = dict(zip("mnkb", (*sizes, batch), strict=True))
    v = "v" if form == "block" else ""
    names = {"m": "i", "n": "j", "k": "k", "b": "q"}

    def at(letters: str) -> str:
        return ", ".join(v + names[one] for one in letters)

    def shape(letters: str) -> str:
        return ", ".join(str(extent[one]) for one in letters)

    over = [one for one in "bmn" if one in c]
    result = result or dtype
    loads = [f"{name}[{at(letters)}]" for name, letters in (("A", a), ("B", b))]
    if result != dtype:
        loads = [f'T.Cast("{result}", {load})' for load in loads]
    text = FORMS[form].format(
        a=shape(a), b=shape(b), c=shape(c), d=dtype, e=result, K=extent["k"], ci=at(c), x=loads[0], y=loads[1],
        over=", ".join(names[one] for one in over), sizes=", ".join(str(extent[one]) for one in over),
        inner=", ".join(f"v{names[one]}" for one in over), kinds="S" * len(over),
    )  # fmt: skip
    return parse(text)


ODD = [(13, 17, 5), (1, 40, 13)]
MORE = [(7, 33, 6), (26, 8, 4), (12, 5, 9), (31, 61, 7), (2, 17, 64), (64, 9, 3), (5, 100, 4)]
MANY = [pytest.param(form, sizes, marks=pytest.mark.nightly) for form, sizes in itertools.product(FORMS, MORE)]


@pytest.mark.parametrize(("form", "sizes"), [*itertools.product(FORMS, ODD), *MANY])
def test_odd_sizes_in_every_form(form: str, sizes: tuple[int, int, int]):
    found = scheduled(product(form, sizes))
    assert found.nests[0].recipe == "contraction" and found.nests[0].exactness == "bitwise equal"


@pytest.mark.parametrize("spec", ["km,kn->mn", "mk,nk->mn", "mk,kn->nm", "bmk,bkn->bmn", "bmk,kn->bmn", "mk,bkn->bmn"])
@pytest.mark.by_day
def test_transposed_and_batched(spec: str):
    found = scheduled(product("plain" if "b" in spec else "block", (29, 24, 6), spec, batch=2))
    assert found.nests[0].recipe == "contraction"


@pytest.mark.parametrize(
    ("form", "spec", "batch"),
    [
        *((form, "bmk,bnk->bmn", 3) for form in FORMS),
        ("local", "bkm,bnk->bmn", 3),
        ("plain", "bmk,nk->bmn", 3),
        ("perfect", "mk,bnk->bmn", 9),
    ],
)
@pytest.mark.by_day
def test_batches_of_transposed_matrices_go_to_panels(form: str, spec: str, batch: int):
    found = scheduled(product(form, (40, 67, 33), spec, batch=batch), AVX512, interpreted=False)
    [nest] = found.nests
    assert (nest.recipe, nest.exactness, nest.parameters["packed"]) == ("contraction", "bitwise equal", ("B",))
    # Matrices of a batch are packed by the thread that multiplies them.
    assert nest.parameters["parallel"] == ("q" if batch > 3 else "i")


def test_bytes_of_a_batch_go_in_groups():
    func = product("block", (13, 20, 8), "bmk,bnk->bmn", "int8", "int32", batch=2)
    found = scheduled(func, VNNI)
    assert found.nests[0].parameters["group"] == 4


@pytest.mark.parametrize(
    ("dtype", "result"), [("int32", ""), ("int8", "int32"), ("float64", ""), ("float16", "float32")]
)
def test_types(dtype: str, result: str):
    found = scheduled(product("plain", (13, 18, 5), dtype=dtype, result=result))
    assert found.nests[0].recipe == "contraction"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("sizes", "squares"), [((2, 64, 32), 1), ((3, 40, 37), 1), ((8, 16, 16), 1), ((5, 7, 40), 0)])
@pytest.mark.by_day
def test_few_rows_times_a_transposed_matrix_keep_their_bits(form: str, sizes: tuple[int, int, int], squares: int):
    found = scheduled(product(form, sizes, "mk,nk->mn"))
    [nest] = found.nests
    assert (nest.recipe, nest.exactness, nest.parameters["packed"]) == ("contraction", "bitwise equal", ("B",))
    assert ("Shuffle" in str(tl.lower(found.function, AVX2))) == bool(squares)


VNNI = "llvm -mcpu=cascadelake -mcache=32K,1M,32M -num_threads=2"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("dtype", "group"), [("int8", 4), ("int16", 2)])
@pytest.mark.by_day
def test_short_integers_go_in_groups(form: str, dtype: str, group: int):
    found = scheduled(product(form, (13, 39, 2 * group), dtype=dtype, result="int32"), VNNI)
    [nest] = found.nests
    assert nest.recipe == "contraction" and nest.parameters["group"] == group and nest.parameters["packed"] == ("B",)
    assert "vpdp" in str(tl.lower(found.function, VNNI))


@pytest.mark.parametrize(
    ("sizes", "spec", "target", "group"),
    [
        ((13, 17, 8), "mk,nk->mn", VNNI, 4),
        ((13, 17, 8), "mk,kn->mn", AVX2, 2),
        ((13, 17, 8), "mk,kn->mn", "llvm -mcpu=x86-64 -num_threads=1", 1),
        ((13, 17, 9), "mk,kn->mn", VNNI, 1),  # what is over of a group would need zeros of A
        ((13, 17, 8), "km,kn->mn", VNNI, 1),
        ((2, 40, 16), "mk,kn->mn", VNNI, 1),
        ((70, 40, 2176), "mk,kn->mn", "llvm -mcpu=cascadelake -mcache=1K,8K,64K -num_threads=1", 4),
    ],
)
@pytest.mark.by_day
def test_groups_of_bytes(sizes: tuple[int, int, int], spec: str, target: str, group: int):
    found = planned(product("block", sizes, spec, "int8", "int32"), target)
    assert found.nests[0].parameters["group"] == group
    replays(found)
    same_bits(found, target)


@pytest.mark.parametrize(
    ("form", "sizes"), [("block", (333, 517, 129)), ("local", (7, 100, 300)), ("plain", (64, 200, 77))]
)
def test_machine_code_of_more_than_a_tile(form: str, sizes: tuple[int, int, int]):
    func = product(form, sizes)
    found = planned(func, AVX512)
    assert found.nests[0].recipe == "contraction"
    same_bits(found, AVX512)


@pytest.mark.parametrize("form", FORMS)
def test_without_contraction_machine_code_has_the_interpreters_bits(form: str):
    func = product(form, (13, 17, 5))
    a, b, c = np.random.default_rng(0).standard_normal((3, 17, 17), dtype=np.float32)
    arguments = [np.ascontiguousarray(x) for x in (a[:13, :5], b[:5, :17], c[:13, :17])]
    others = [x.copy() for x in arguments]
    kernel = tl.build(func, "llvm -fast-math-contract=0", schedule="auto")
    assert kernel.report().nests[0].recipe == "contraction"
    kernel(*arguments)
    tl.interpret(func, *others)
    assert arguments[2].tobytes() == others[2].tobytes()


def test_panels_and_their_order():
    found = planned(product("block", (500, 512, 500)), AVX2)  # B is 1M, the second cache 512K
    assert (
        found.nests[0].parameters["packed"] == ("B",)
        and "larger than what stays in the second cache" in found.nests[0].rule
    )
    assert "B_packed" in str(found.function)
    assert planned(product("block", (500, 256, 500)), AVX512).nests[0].parameters["packed"] == ()
    few = planned(product("block", (12, 512, 512)), AVX2)
    assert few.nests[0].parameters["packed"] == () and few.nests[0].parameters["outer"] == "columns"
    more = planned(product("block", (16, 512, 512)), AVX2)
    assert more.nests[0].parameters["packed"] == ("B",) and more.nests[0].parameters["outer"] == "rows"
    stays = planned(product("block", (500, 512, 1500)), AVX512)  # a panel is 384 K: no step of the sum goes by twice
    assert stays.nests[0].parameters["depth"] == 0 and stays.nests[0].parameters["packed"] == ("B",)


LITTLE = "llvm -mcpu=x86-64-v3 -mcache=1K,8K,64K -num_threads=2"


@pytest.mark.parametrize(
    ("form", "sizes", "expected"),
    [
        ("block", (26, 70, 1024), {"packed": ("B", "A"), "block": 16, "depth": 256}),
        ("plain", (25, 50, 1024), {"packed": ("B", "A"), "block": 16, "depth": 256}),
        ("perfect", (33, 37, 530), {"packed": ("B",), "block": 16, "depth": 265}),
        ("local", (26, 70, 1024), {"packed": ("B", "A"), "block": 16, "depth": 0}),
        ("block", (31, 90, 67), {"packed": ("B",), "block": 16, "depth": 0}),
    ],
)
@pytest.mark.by_day
def test_blocks_for_caches_that_are_small(form: str, sizes: tuple[int, int, int], expected: dict[str, object]):
    found = planned(product(form, sizes), LITTLE)
    assert {name: found.nests[0].parameters[name] for name in expected} == expected
    assert found.nests[0].exactness == "bitwise equal" and found.nests[0].parameters["parallel"] == "i"
    replays(found)
    same_bits(found, LITTLE)


@pytest.mark.parametrize("form", ["block", "plain", "local", "perfect"])
@pytest.mark.parametrize(("sizes", "parallel"), [((37, 150, 67), "j"), ((16, 128, 60), "j"), ((19, 127, 64), "i")])
@pytest.mark.by_day
def test_threads_take_whole_blocks_where_there_are_enough(form: str, sizes: tuple[int, int, int], parallel: str):
    found = planned(product(form, sizes), LITTLE)
    parameters = found.nests[0].parameters
    assert (parameters["packed"], parameters["block"], parameters["outer"]) == (("B",), 16, "rows")
    assert parameters["parallel"] == parallel
    first = re.search(r"for (\w+) in T\.parallel", str(found.function))
    assert first is not None and first[1].startswith("j") is (parallel == "j")  # else the copy has threads, too
    same_bits(found, LITTLE)


@pytest.mark.parametrize(
    ("machine", "sizes", "expected"),
    [
        (AVX2, (96, 128, 64), (6, 16, "i")),
        (AVX512, (96, 128, 64), (6, 64, "i")),
        (AVX512, (12, 512, 96), (6, 64, "j")),
        (AVX2.replace("threads=2", "threads=1"), (96, 128, 64), (6, 16, None)),
        (AVX512.replace("threads=2", "threads=8"), (96, 512, 64), (6, 64, "i")),
        (AVX512.replace("threads=2", "threads=1"), (64, 40, 64), (8, 40, None)),  # rows of one tile
        (AVX512.replace("threads=2", "threads=1"), (100, 1000, 64), (9, 48, None)),
        (AVX512, (8, 32, 8), (8, 32, None)),
    ],
)
def test_plans(machine: str, sizes: tuple[int, int, int], expected: tuple[int, int, str | None]):
    func = product("block", sizes)
    found, again = planned(func, machine), planned(func, machine)
    assert str(found.trace) == str(again.trace) and found.nests == again.nests
    [nest] = found.nests
    assert tuple(nest.parameters[name] for name in ("rows", "columns", "parallel")) == expected


REFUSED = {
    "it has not one sum": "A[i, j] = T.float32(1)",
    "it has not two operands": "A[i, j] = A[i, j] + B[i, k]",
    "no operand depends on the columns": "A[i, j] = A[i, j] + B[i, k] * D[k, i]",
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_is_no_contraction(why: str):
    found = planned(f"""
def f(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32"), D: T.Buffer((16, 16), "float32")):
    for i, j, k in T.grid(16, 16, 16):
        {REFUSED[why]}
""")
    assert f"no contraction: {why}" in found.nests[0].notes


def test_a_product_with_what_it_writes_is_none():
    # C is an operand too: another order would read other values.
    text = """
def f(A: T.Buffer((16, 16), "float32"), C: T.Buffer((16, 16), "float32")):
    for i, j, k in T.grid(16, 16, 16):
        C[i, j] = C[i, j] + A[i, k] * C[k, j]
"""
    found = scheduled(text)
    assert found.nests[0].recipe != "contraction"


def test_two_products_of_one_function():
    text = """
def f(A: T.Buffer((21, 9), "float32"), B: T.Buffer((9, 18), "float32"), C: T.Buffer((21, 18), "float32"), D: T.Buffer((21, 18), "float32")):
    for i, j, k in T.grid(21, 18, 9):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] += A[vi, vk] * B[vk, vj]
    for i, j in T.grid(21, 18):
        acc = T.float32(0)
        for k in range(9):
            acc = acc + A[i, k] * B[k, j]
        D[i, j] = acc + C[i, j]
"""
    assert [nest.recipe for nest in scheduled(text, recipes=[CONTRACTION, FALLBACK]).nests] == [
        "contraction",
        "contraction",
    ]


def test_a_refused_step_takes_all_back(monkeypatch: pytest.MonkeyPatch):
    def refuse(*_: object) -> None:
        raise ScheduleError("a test refuses it")

    monkeypatch.setattr(type(CONTRACTION), "apply", refuse)
    [nest] = planned(product("block", (64, 64, 64)), recipes=[CONTRACTION, FALLBACK]).nests
    assert nest.recipe == "loops" and "no contraction: a test refuses it" in nest.notes


SEVERAL = """
def f(A: T.Buffer(({m}, {k}), "float32"), B: T.Buffer(({k}, {n}), "float32"), D: T.Buffer(({m}, {k}), "float32"), E: T.Buffer(({k}, {n}), "float32"),
      C: T.Buffer(({m}, {n}), "float32")):
    for i, j in T.grid({m}, {n}):
        C[i, j] = T.float32(0)
        for k in range({k}):
            C[i, j] = C[i, j] + ({terms})
"""


@pytest.mark.parametrize(
    ("terms", "taken"),
    [
        ("A[i, k] * B[k, j] - D[i, k] * E[k, j]", True),
        ("A[i, k] * B[k, j] + A[i, k] * E[k, j]", True),
        ("(A[i, k] + D[i, k]) * B[k, j]", True),
        ("A[i, k] * B[k, j] * B[k, j]", True),
        ("A[i, k] * B[k, j] + D[j, k] * E[k, i]", False),
    ],
)
def test_several_products_at_once(terms: str, taken: bool):
    large = planned(SEVERAL.format(m=96, n=96, k=96, terms=terms), AVX512, recipes=[CONTRACTION])
    assert (large.nests[0].recipe == "contraction") is taken
    if taken:
        scheduled(SEVERAL.format(m=13, n=33, k=9, terms=terms), AVX512, recipes=[CONTRACTION])


SQUARE = """
def f(A: T.Buffer((24, 24), "float32"), C: T.Buffer((24, 24), "float32")):
    for i, j in T.grid(24, 24):
        C[i, j] = T.float32(0)
        for k in range(24):
            C[i, j] = C[i, j] + {} * {}
"""


@pytest.mark.parametrize("operands", [("A[i, k]", "A[k, j]"), ("A[k, i]", "A[k, j]"), ("A[i, k]", "A[j, k]")])
def test_a_matrix_times_itself(operands: tuple[str, str]):
    found = scheduled(SQUARE.format(*operands), recipes=[CONTRACTION])
    assert found.nests[0].recipe == "contraction"


RAGGED = [(20, 63, 9, 32), (7, 31, 12, 16), (13, 127, 5, 32), (6, 33, 8, None), (12, 64, 8, None), (5, 15, 30, None)]
"""Sizes, and the columns of a tile of which the last one begins earlier on AVX-512; None where none does."""


@pytest.mark.parametrize("form", ["block", "plain", "local", "perfect"])
@pytest.mark.parametrize(("m", "n", "k", "columns"), RAGGED)
def test_the_last_tile_of_a_row_begins_earlier(form: str, m: int, n: int, k: int, columns: int | None):
    found = planned(product(form, (m, n, k)), AVX512)
    parameters = found.nests[0].parameters
    shifts = columns is not None and form != "perfect"  # that goes on with what is in C
    assert parameters["shifts"] is shifts
    if shifts:
        assert parameters["columns"] == columns and n - columns > 0
        assert f"range({n - columns}, {n})" in str(found.function) or f"{n - columns} + " in str(found.function)
    same_bits(found, AVX512)


def test_a_result_that_is_read_elsewhere_is_computed_once():
    text = """
def f(A: T.Buffer((40, 40), "float32"), C: T.Buffer((40, 63), "float32")):
    for i, j in T.grid(40, 63):
        C[i, j] = T.float32(0)
        for k in range(40):
            C[i, j] = C[i, j] + A[i, k] * C[k, j]
"""
    found = scheduled(text, AVX512, interpreted=False)
    assert not any(nest.parameters.get("shifts") for nest in found.nests)
