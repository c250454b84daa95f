"""Sums along rows that are kept in order, with a row in each lane: the bits of the loops as written, whatever is left over."""

from __future__ import annotations

import random

import pytest

from bench.rows.naive import softmax
from tests.autoschedule.scheduled import AVX2, AVX512, planned, scheduled
from tests.autoschedule.unknown import of_any_size
from tests.fuzz.automatic import check, scheduled_eagerly
from tests.sampling import by_day, in_pairs
from tirlower.autoschedule.classify import nests_of
from tirlower.autoschedule.recipe import Bid
from tirlower.autoschedule.recipes.row_chain import ROW_CHAIN
from tirlower.ir import PrimFunc
from tirlower.machine.processor import Processor
from tirlower.script import parse

WIDE = AVX512.replace("threads=2", "threads=1")
PRODUCT = """
def f(A: T.Buffer(({0}, {1}), "{2}"), x: T.Buffer(({1},), "{2}"), y: T.Buffer(({0},), "{2}")):
    for i in range({0}):
        y[i] = T.{2}(0)
        for l in range({1}):
            y[i] += A[i, l] * x[l]
"""
MEAN = """
def f(A: T.Buffer(({0}, {1}), "float32"), y: T.Buffer(({0},), "float32")):
    for i in range({0}):
        s = T.float32(0)
        for l in range({1}):
            s += A[i, l] * A[i, l]
        y[i] = s / T.float32(7)
"""
SOFTMAX = """
def f(A: T.Buffer(({0}, {1}), "float32"), B: T.Buffer(({0}, {1}), "float32")):
    for i in range({0}):
        m = T.float32(-1e30)
        for l in range({1}):
            m = T.max(m, A[i, l])
        s = T.float32(0)
        for l in range({1}):
            B[i, l] = T.exp(A[i, l] - m)
            s += B[i, l]
        for l in range({1}):
            B[i, l] = B[i, l] / s
"""
NORM = """
def f(A: T.Buffer(({0}, {1}), "float32"), B: T.Buffer(({0}, {1}), "float32")):
    for i in range({0}):
        s = T.float32(0)
        q = T.float32(0)
        for l in range({1}):
            s += A[i, l]
            q += A[i, l] * A[i, l]
        for l in range({1}):
            B[i, l] = (A[i, l] - s) * q
"""
SHAPES = [(16, 16), (32, 48), (47, 16), (16, 31), (35, 40), (33, 17), (63, 100)]
SMALL = [(15, 40), (40, 15), (1, 64), (64, 1), (7, 7)]


@pytest.mark.parametrize(("shape", "dtype"), in_pairs(SHAPES, ["float32", "int32"]))
def test_products_with_a_vector(shape: tuple[int, int], dtype: str) -> None:
    found = scheduled(PRODUCT.format(*shape, dtype), WIDE, recipes=[ROW_CHAIN])
    [report] = found.nests
    assert report.exactness == "bitwise equal"
    if dtype == "float32":  # sums of integers are free
        assert report.parameters["in_lanes"] and "a row in each lane" in report.rule
        assert "Pack" in {step.instruction.kind.name for step in found.schedule.steps}


@pytest.mark.parametrize(("shape", "text"), in_pairs(SHAPES, [MEAN, SOFTMAX, NORM]))
def test_accumulators_and_stages(shape: tuple[int, int], text: str) -> None:
    first = scheduled(text.format(*shape), WIDE, recipes=[ROW_CHAIN]).nests[0]
    assert first.exactness == "bitwise equal"
    many = shape[0] >= 32 or shape[0] == 16 or text is SOFTMAX
    assert first.parameters["in_lanes"] == many and (not many or first.parameters["together"] == 16)


@pytest.mark.parametrize(("shape", "text"), in_pairs(SMALL, [PRODUCT, MEAN, SOFTMAX, NORM]))
def test_too_few_rows_or_steps_for_a_square(shape: tuple[int, int], text: str) -> None:
    first = scheduled(text.format(*shape, "float32"), WIDE, recipes=[ROW_CHAIN]).nests[0]
    assert not first.parameters.get("in_lanes", False)


def test_any_number_of_rows_and_steps() -> None:
    sizes = [{"m": m, "k": k} for m in (0, 1, 15, 16, 17, 40) for k in (0, 1, 15, 16, 33)]
    found = of_any_size(
        PRODUCT.format('"m"', '"k"', "float32").replace('range("m")', "range(m)").replace('range("k")', "range(k)"),
        sizes,
        WIDE,
    )
    assert found.nests[0].parameters["in_lanes"]
    squares = of_any_size(
        MEAN.format('"m"', '"k"').replace('range("m")', "range(m)").replace('range("k")', "range(k)"), sizes, WIDE
    )
    assert squares.nests[0].exactness == "bitwise equal"


def test_stages_that_are_nests_and_hand_on_arrays() -> None:
    for rows, steps in ((64, 48), (35, 17)):
        first, *rest = scheduled(softmax("plain", rows, steps), WIDE).nests
        assert (first.recipe, first.exactness) == ("row chain", "bitwise equal") and len(rest) == 3
        assert first.parameters["in_lanes"] is (rows == 64)  # rows that are left would want all of what is handed on


def test_where_it_is_not_done() -> None:
    def in_lanes(text: str, target: str = WIDE) -> bool:
        found = planned(text, target, recipes=[ROW_CHAIN]).nests
        return any(one.parameters.get("in_lanes", False) for one in found if one.parameters)

    plain = PRODUCT.format(64, 64, "float32")
    assert in_lanes(plain)
    assert not in_lanes(plain, AVX2)  # registers of eight
    assert not in_lanes(PRODUCT.format(64, 64, "float64"), WIDE)
    assert not in_lanes(plain.replace("A[i, l] * x[l]", "A[i, l] * A[l, i]"), WIDE)
    assert not in_lanes(plain.replace("A[i, l] * x[l]", "A[i, 63 - l] * x[l]"), WIDE)
    assert not in_lanes(plain.replace("range(64):\n            y", "range(i + 1):\n            y"), WIDE)
    assert not in_lanes(plain.replace("            y[i] +=", "            if x[l] > 0:\n                y[i] +="), WIDE)
    long = SOFTMAX.format(64, 100_000)  # 16 rows do not stay in the second cache
    assert not in_lanes(long)


def _random(seed: int) -> str:
    """A chain along rows: sums of products of what lies along them, across them and for all of them, and what else rows do."""
    rng = random.Random(seed)
    rows, steps = rng.randint(1, 9), rng.randint(1, 9)
    batch = rng.choice([0, 0, 2])
    i, shape = ("b, i", f"2, {rows}") if batch else ("i", str(rows))
    along = [f"A[{i}, l]", f"A[{i}, l]", f"B[{i}, l]"]
    terms = [
        rng.choice(along),
        *rng.sample(["x[l]", f"w[{i}]", f"B[{i}, l]", f"(A[{i}, l] - w[{i}])", "T.float32(3)"], rng.randint(0, 2)),
    ]
    sums = rng.choice([1, 1, 2])
    local = rng.random() < 0.5
    names = [f"s{n}" if local else f"y{n}[{i}]" for n in range(sums)]
    head = ", ".join([f'{name}: T.Buffer(({shape}, {steps}), "float32")' for name in "ABD"]
                     + [f'x: T.Buffer(({steps},), "float32")']
                     + [f'{name}: T.Buffer(({shape},), "float32")' for name in ("w", "y0", "y1")])  # fmt: skip
    lines = [f"def f({head}):"] + (["    for b in range(2):"] if batch else [])
    depth = "        " if batch else "    "
    lines.append(f"{depth}for i in range({rows}):")
    lines += [f"{depth}    {name} = {rng.choice(['T.float32(0)', f'w[{i}]'])}" for name in names]
    lines.append(f"{depth}    for l in range({steps}):")
    if rng.random() < 0.4:
        lines.append(f"{depth}        D[{i}, l] = A[{i}, l] * x[l]")
        terms[0] = f"D[{i}, l]"
    lines += [
        f"{depth}        {name} += {' * '.join(terms[: len(terms) - n] or terms)}" for n, name in enumerate(names)
    ]
    if local:
        lines += [f"{depth}    y{n}[{i}] = {name} * T.float32(0.5)" for n, name in enumerate(names)]
    if rng.random() < 0.4:
        lines += [f"{depth}    for l in range({steps}):", f"{depth}        D[{i}, l] = B[{i}, l] * {names[0]}"]
    return "\n".join(lines) + "\n"


def _run(seeds: range) -> int:
    """Schedule programs with squares of two, and compare: how many had rows in lanes."""
    taken = 0
    for seed in seeds:
        func = parse(_random(seed))
        assert isinstance(func, PrimFunc)
        found = scheduled_eagerly(func, [ROW_CHAIN], in_lanes=True)
        taken += any(one.parameters.get("in_lanes", False) for one in found.nests)
        try:
            check(found, seed)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {found.written}\nto\n{found.function}\n{error}") from error
    return taken


@pytest.mark.parametrize("first", by_day(range(0, 80, 10), 4))
def test_random_chains(first: int) -> None:
    assert _run(range(first, first + 10)) > 1


@pytest.mark.parametrize("text", [PRODUCT, MEAN, SOFTMAX, NORM])
def test_plans_near_one_that_has_rows_in_lanes_and_one_that_has_not(text: str) -> None:
    """Whoever measures them gets plans whose steps can be taken, or are refused: none asks for lanes where there are none."""
    func = parse(text.format(64, 48, "float32"))
    assert isinstance(func, PrimFunc)
    nests = nests_of(func)
    taken = [
        bid
        for bid in (ROW_CHAIN.bid(nests[at:], Processor.of(WIDE)) for at in range(len(nests)))
        if isinstance(bid, Bid)
    ]
    for bid in taken:
        in_lanes = bid.plan.parameters["in_lanes"]
        assert any(not plan.parameters["in_lanes"] for plan in bid.neighbours(bid.plan))
        for plan in bid.neighbours(bid.plan):
            assert not plan.parameters["in_lanes"] or (in_lanes and plan.parameters["together"] == 16)
