from __future__ import annotations

import ctypes
import gc
import itertools
import math
import random

import pytest

from tirlower import poly
from tirlower.ir import Var
from tirlower.poly import isl
from tirlower.poly.affine import Space
from tirlower.poly.conditions import any_of, at_least
from tirlower.poly.conflicts import Conflicts
from tirlower.poly.constraint_system import BOTH, EMPTY, Outcome, System
from tirlower.poly.extract import extract
from tirlower.poly.forms import single
from tirlower.poly.isl import EMPTY as EMPTY_ANSWER
from tirlower.poly.isl import Solver
from tirlower.script import parse


@pytest.mark.parametrize("seed", range(40))
def test_solutions_against_enumeration(seed: int):
    rng = random.Random(seed)
    columns = rng.randint(1, 3)
    box = [(4, *(int(c == at) for c in range(columns))) for at in range(columns)]
    box += [(4, *(-int(c == at) for c in range(columns))) for at in range(columns)]
    rows = [tuple(rng.randint(-4, 4) for _ in range(columns + 1)) for _ in range(rng.randint(0, 3))]
    equations = [tuple(rng.randint(-4, 4) for _ in range(columns + 1)) for _ in range(rng.randint(0, 1))]
    answer = Solver().solve(columns, equations, [*box, *rows])

    def value(row, point):
        return row[0] + sum(c * x for c, x in zip(row[1:], point, strict=True))

    def good(point):
        return all(value(r, point) >= 0 for r in [*box, *rows]) and all(value(e, point) == 0 for e in equations)

    every = [p for p in itertools.product(range(-4, 5), repeat=columns) if good(p)]
    assert answer.empty == (not every)
    if every:
        assert answer.point is not None and good(answer.point)
        smallest = Solver().smallest(columns, equations, [*box, *rows], ())
        assert smallest in every


def test_questions_are_remembered_and_the_memo_is_bounded():
    solver = Solver(memo_numbers=8)  # of two questions of one variable and one constraint
    for _ in range(3):
        solver.solve(1, [], [(0, 1)])
    assert (solver.asked, solver.solved) == (3, 1)
    for n in range(5):
        solver.solve(1, [], [(n, 1)])
    assert len(solver._memo) == 2


@pytest.mark.parametrize(
    "value", [0, -1, 2**31, 2**32 - 1, -(2**32), 2**63 - 1, 2**63, -(2**63), 2**64, -(2**64) - 1, 3**90]
)
def test_points_of_all_sizes(value: int):
    assert Solver().solve(2, [(-value, 1, 0), (0, 1, 1)], []).point == (value, -value)


class _HeapUse(ctypes.Structure):
    """``struct mallinfo2`` of glibc."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "used", "free", "keepcost")
    ]


def test_questions_give_their_memory_back():
    heap_use = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if heap_use is None:
        pytest.skip("needs mallinfo2 of glibc 2.33")
    heap_use.restype = _HeapUse
    solver = Solver(memo_numbers=0)
    box = [(9, *(int(c == at) for c in range(12))) for at in range(12)]

    def ask() -> int:
        for n in range(200):
            assert solver.solve(12, [], [(n, *[1] * 12), *box]).point is not None
        gc.collect()
        return int(heap_use().used)

    ask()
    before = ask()
    assert ask() - before < 200 * 100  # a matrix that is set number by number keeps 5 KB a question
    assert not solver._memo and solver._remembered == 0


def test_what_two_threads_ask_at_once_is_counted_once():
    solver = Solver(memo_numbers=8)
    for _ in range(9):  # each as a thread that found nothing, and answers now
        solver._remember((1, (), ((0, 1),)), (EMPTY_ANSWER, 1))
    assert (len(solver._memo), solver._remembered) == (1, 4)
    assert solver.solve(1, [], [(0, 1)]).empty  # what was remembered, wrong as it is


def test_a_limit_is_an_answer_and_is_lifted_again():
    solver = Solver(max_operations=10)
    rows = [tuple(random.Random(n).randint(-9, 9) for _ in range(9)) for n in range(20)]
    answer = solver.solve(8, [], rows)
    assert not answer.empty and answer.point is None and "gave up after 10 operations" in answer.reason
    assert isl.isl.DEFAULT_CONTEXT.get_max_operations() == 0


def test_large_numbers():
    big = 2**40
    assert Solver().solve(1, [(-big, 1)], []).point == (big,)


def test_a_smallest_point_where_isl_finds_none():
    """isl says of this that it has points, and that it has no least one."""
    word, half = 2**32, 2**31
    rows = [
        (-1, -half, 0, 1, word, 0),
        (-1, 1 - half, -word, 0, 0, 0),
        (0, -1, 0, 0, 2, 0),
        (0, -1, 0, 1, 0, 0),
        (0, 0, 0, 1, 0, 0),
        (0, half, 0, 0, -word, 0),
        (half - 1, -1, 0, 0, 0, 0),
        (half - 1, 0, 0, -1, 0, 0),
        (half - 1, half - 1, word, 0, 0, 0),
        (half, 1 - half, -word, 0, 0, 0),
        (half, 1, 0, 0, 0, 0),
        (half + 6, 1, 0, 0, 0, -word),
        (5 * half, half, 0, 0, 0, -(2**63)),
    ]
    solver = Solver()
    with solver.verdict(renew=True):  # great numbers: with the work of what is shown
        found = solver.smallest(5, [], rows, [0, 2])
    assert found is not None
    assert all(row[0] + sum(c * x for c, x in zip(row[1:], found, strict=True)) >= 0 for row in rows)


def test_whether_there_is_a_point_asks_for_no_small_one():
    """Programs whose extraction asks hundreds of such questions took twice as long."""

    class Known(Solver):
        def smallest(self, *args):
            raise AssertionError

    n, i = Var("n", "int32"), Var("i", "int32")
    space = Space()
    space.ranges[n] = space.ranges[i] = (0, math.inf)
    for limit, empty in ((3, False), (-1, True)):
        system = System(space, frozenset())
        system.add(
            any_of([at_least(single(i).scaled(-1).shifted(limit)), at_least((single(i) - single(n)).shifted(limit))]),
            BOTH,
        )
        system.add(at_least((single(n) - single(i)).shifted(-1)), BOTH)
        assert system.copy().is_empty(Known()) is empty
        assert (system.copy().solve(Solver()).status == "empty") is empty


# The work of a question and of a verdict


def hard(seed: int) -> tuple[int, list[tuple[int, ...]], list[tuple[int, ...]]]:
    """A question that isl does not answer soon."""
    rng = random.Random(seed)
    return 8, [], [tuple(rng.randint(-9, 9) for _ in range(9)) for _ in range(20)]


def easy(seed: int) -> tuple[int, list[tuple[int, ...]], list[tuple[int, ...]]]:
    return 2, [], [(-seed, 1, 0), (100, -1, -1), (0, 0, 1)]


class Counting(Solver):
    """Adds up the operations that isl was given, times the numbers in a matrix of ``hard``."""

    given = 0

    def limited(self, operations=None):
        self.given += operations * 9 * 21
        return super().limited(operations)


def test_a_question_has_the_work_of_its_size(monkeypatch):
    cells = 9 * 21
    monkeypatch.setattr(isl, "QUESTION_WORK", 10 * cells)
    answer = Solver().solve(*hard(0))
    assert answer.point is None and answer.reason == "gave up after 10 operations"
    small = Solver()
    assert small.solve(1, [], [(-3, 1)]).point is not None


def test_a_verdict_has_the_work_of_its_questions(monkeypatch):
    solver = Solver()
    each = 16_000
    monkeypatch.setattr(isl, "QUESTION_WORK", each)
    monkeypatch.setattr(isl, "VERDICT_WORK", 3 * each)
    with solver.verdict():
        assert [solver.solve(*easy(n)).point is not None for n in range(5)] == [True] * 3 + [False] * 2
        assert "work of one verdict" in solver.solve(*easy(9)).reason
        with solver.verdict():
            assert solver.solve(*easy(7)).point is None  # a part of it
        with solver.verdict(renew=True):
            assert solver.solve(*easy(8)).point is not None
        assert solver.solve(*easy(9)).point is None
    assert solver.solve(*easy(9)).point is not None


def test_what_is_remembered_counts_as_what_is_asked(monkeypatch):
    monkeypatch.setattr(isl, "QUESTION_WORK", 400_000)
    monkeypatch.setattr(isl, "VERDICT_WORK", 1_000_000)
    asked = [easy(1), hard(1), hard(2), easy(2), hard(3), hard(4), easy(3), hard(5)] + [easy(n) for n in range(4, 60)]
    known = Solver()
    alone = [known.solve(*question) for question in asked]
    with known.verdict():
        remembered = [known.solve(*question) for question in asked]
    fresh = Solver()
    with fresh.verdict():
        assert [fresh.solve(*question) for question in asked] == remembered
    assert remembered != alone and remembered[:2] == alone[:2]


def test_questions_that_find_too_little_work_left_use_it_up(monkeypatch):
    monkeypatch.setattr(isl, "VERDICT_WORK", 300_000)
    solver = Counting()
    with solver.verdict():
        for seed in range(40):
            assert solver.solve(*hard(seed)).point is None
    assert 0 < solver.given <= 2 * 300_000


def test_what_is_of_use_but_not_needed_gets_little_of_the_work(monkeypatch):
    monkeypatch.setattr(isl, "QUESTION_WORK", 400_000)
    monkeypatch.setattr(isl, "_SOON", 16)
    solver = Counting()
    with solver.verdict():
        with solver.soon():
            assert "work of one verdict" in solver.solve(*hard(3)).reason
        assert 0 < solver.given <= 400_000 // 8
        solver.given = 0
        solver.solve(*hard(3))
        assert solver.given > 400_000 // 8


def great(seed: int) -> tuple[int, list[tuple[int, ...]], list[tuple[int, ...]]]:
    """A question of a random program: a subscript that is cut to 16 bits. 1,700 operations on it took 0.12 s."""
    equations = [
        (0, 0, -1, 0, -1, 0, 0, 0, 0, 0, 1),
        (130840, 0, 196261, 65421, -65420, -130842, 130842, 130840, -261680, 261680, -1),
    ]
    return 10, equations, [
        (-2 - seed, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0),
        (-1, 0, 0, -1, 1, 0, 0, 0, 0, 0, 0),
        (-1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0),
        (-1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0),
        (-1, 1, -1, 0, 0, 0, 0, 0, 0, 0, 0),
        (-1, 1, 0, -1, 0, 0, 0, 0, 0, 0, 0),
        (-1, 1, 0, 0, -1, 0, 0, 0, 0, 0, 0),
        (0, 0, 0, 0, 0, 0, 1, 1, -2, 0, 0),
        (0, 0, 0, 1, 0, 0, -2, 0, 0, 0, 0),
        (0, 0, 0, 1, 0, 0, 0, 0, 0, -4, 0),
        (0, 0, 1, 0, 0, 0, 0, -2, 0, 0, 0),
        (0, 0, 1, 1, 0, -2, 0, 0, 0, 0, 0),
        (1, 0, -1, -1, 0, 2, 0, 0, 0, 0, 0),
        (1, 0, -1, 0, 0, 0, 0, 2, 0, 0, 0),
        (1, 0, 0, -1, 0, 0, 2, 0, 0, 0, 0),
        (1, 0, 0, 0, 0, 0, -1, -1, 2, 0, 0),
        (2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0),
        (3, 0, 0, -1, 0, 0, 0, 0, 0, 4, 0),
        (3, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0),
        (3, 0, 1, 1, 0, -2, 2, 0, 0, 0, 0),
        (265, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (2147483647, -1, 0, 0, 0, 0, 0, 0, 0, 0, 0),
        (2147483648, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    ]  # fmt: skip


class Limits(Solver):
    """Notes the operations that isl was given, each time it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.limits: list[int] = []

    def limited(self, operations=None):
        self.limits.append(operations)
        return super().limited(operations)


def test_operations_on_great_coefficients_are_few_for_each_takes_longer_than_the_last(monkeypatch):
    columns, equations, inequalities = great(0)
    small = [equations[0], tuple(c % 5 for c in equations[1])]
    monkeypatch.setattr(isl, "_LEVELS", (1,))  # all of a question's operations at once
    solver = Limits()
    for given in (equations, small):
        solver.solve(columns, given, inequalities)
    assert 500 < solver.limits[0] < 1_300 and solver.limits[1] > 20_000, solver.limits


@pytest.mark.parametrize("work", [1, 1_000, 200_000, isl.QUESTION_WORK])
@pytest.mark.parametrize("question", [great(0), hard(0), easy(1)])
def test_the_operations_of_some_work_are_as_many_as_fit(work, question):
    cost = isl._Cost.of(*question)
    most = cost.operations(work)
    assert cost.work(most) <= work
    # A growing cost goes up in steps.
    assert cost.work(most + most // 8 + isl._FIRST_OPERATIONS + 1) > work


def test_searches_for_small_points_have_the_work_of_a_few_in_one_verdict():
    """They were not counted: three of them took half of a verdict's second."""
    solver = Limits()
    boxes = 9 * 37  # the numbers of a question and its box
    with solver.verdict():
        for seed in range(60):
            solver.smallest(*hard(seed), ())
        inside = sum(solver.limits) * boxes
        assert 0 < inside <= 9 * isl._SMALLEST_WORK
        before = len(solver.limits)
        with solver.verdict(renew=True):  # what is shown has searches of its own
            solver.smallest(*hard(0), ())
        assert len(solver.limits) > before
        assert solver.solve(*easy(1)).point is not None  # questions have all of their work
    before = len(solver.limits)
    solver.smallest(*hard(70), ())
    assert len(solver.limits) > before  # no verdict, no bound of several


def test_small_points_that_are_remembered_count_as_those_that_are_looked_for():
    questions = [question(n) for n in range(30) for question in (easy, hard)]
    known = Solver()
    for question in questions:
        known.smallest(*question, ())
    found = []
    for solver in (known, Solver()):
        with solver.verdict():
            found.append([solver.smallest(*question, ()) for question in questions])
    assert found[0] == found[1] and found[0][0] is not None and found[0][-2] is None


def test_a_verdict_past_its_work_is_unknown(monkeypatch):
    source = """
@T.prim_func
def f(A: T.Buffer(("n * 2",), "int32"), n: T.int32):
    for i in T.parallel(n):
        A[i + T.min(i, 3)] = 1
"""
    func = parse(source)
    assert poly.is_parallel(func, "i", solver=Solver()).proved
    monkeypatch.setattr(isl, "VERDICT_WORK", 1)
    verdict = poly.is_parallel(func, "i", solver=Solver())
    assert verdict.unknown and "gave up after the work of one verdict" in verdict.reason


def test_without_islpy_its_names_say_how_to_get_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(isl._MODULE, "__dict__", {"module": None, "missing": True})
    assert not isl.available()
    with pytest.raises(ImportError, match="islpy is not installed: pip install islpy"):
        isl.isl.Set.empty(1)
    assert not hasattr(isl.isl, "__wrapped__")  # which inspection asks of any object


def test_of_two_directions_a_certain_meeting_is_told_else_the_first_that_is_not_ruled_out():
    func = parse("""
def f(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    for i in range(8):
        A[B[i]] = 1
        A[C[i]] = 2
""")
    scop = extract(func)
    first, second = (access for access in scop.accesses if access.is_write)
    (loop,) = scop.loops
    told: dict[str, Outcome] = {}

    class Told(Conflicts):
        def solved(self, a, b, forms, signs, relations):
            return told[signs[loop]]

    certain, maybe = Outcome("found"), Outcome("found", False, reason="what C holds")
    for ahead, behind in itertools.product((certain, maybe, EMPTY, Outcome("unknown", reason="too long")), repeat=2):
        told.update({"<": ahead, ">": behind})
        ways = [way for way in (ahead, behind) if way is certain] + [way for way in (ahead, behind) if way is not EMPTY]
        assert Told(scop).ask(first, second, {loop: "!"}) == (ways or [EMPTY])[0]
