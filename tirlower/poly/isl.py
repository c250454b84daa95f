"""The one wrapper of islpy: loading it, limiting it, and asking whether integer constraints have a solution.

islpy is imported at the first question, not with the package. A system of constraints goes in as rows of a matrix
(measured: 60 us for 15 variables and 26 rows, where isl's own notation takes 1 ms), and one number bounds the work
of a question, so that none can hang. Answers are remembered by the rows themselves: what has the same structure of
accesses and loops is asked once.
"""

from __future__ import annotations

import itertools
import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

__all__ = ["EMPTY", "TOO_MUCH", "Answer", "Row", "Solver", "available", "default_solver", "isl"]

Row = tuple[int, ...]
"""The constant, then the coefficients."""

MAX_OPERATIONS = 200_000
"""isl's operations for one question: some 50 ms (a usual one takes a few hundred)."""

QUESTION_WORK = 7_000_000
"""The work of one question, which is its operations times the numbers in its matrix (:class:`_Cost`): 50 to 150 ms."""

VERDICT_WORK = 12_000_000
"""The same for all questions of one verdict: up to 0.2 s, and half as much again where the machine is shared. A quarter more
decides one question in 2,000 more."""

_SOON = 4
"""The part of a question's work after which an answer that is not needed, but of use, is given up."""

_ASKING = 16_000
"""What each question counts for at least: some 0.3 ms to state it."""

_LEVELS = (256, 64, 16, 4, 1)
"""The parts of a question's work after which it is looked at, for isl does not tell how much it has done."""

_SMALLEST_WORK = 200_000
"""A point is as good as one of small numbers, if those take long to find: this is the work of one search in a box."""

_SHOWN_WORK = 1_000_000
"""The same for a point that is shown: with a size of 2**31 - 1 nobody can try it, and sums of sizes leave their type."""

_SEARCHES = 5
"""How many such searches may be in vain in one verdict: all of them together have so many times the work of one."""

_LEXMIN_SHARE = 8
"""The part of those operations that the least point may take, when one of small numbers is known."""

_GREAT = 16
"""From so many bits on a coefficient of an equation is great: those of numbers that are cut to a type's range are."""

_FIRST_OPERATIONS = 48
"""The operations for which those with great coefficients take what others take; later ones take in proportion longer."""

MEMO_NUMBERS = 2_000_000
"""The numbers in the questions that are remembered, some 30 MB: 20,000 questions of 12 variables and 8 constraints."""


class _Module:
    """islpy, imported when a name of it is first used; ``missing`` says that it is not installed."""

    def __init__(self) -> None:
        self.module: ModuleType | None = None
        self.missing = False

    def load(self) -> bool:
        """Whether it is there."""
        if self.module is None and not self.missing:
            try:
                import islpy
            except ImportError:
                self.missing = True
            else:
                self.module = islpy
        return self.module is not None

    def __getattr__(self, name: str) -> object:
        """A name of islpy, kept: it is found at once from then on."""
        if name.startswith("__"):
            raise AttributeError(name)  # who looks at objects asks for such; not for islpy's
        if not self.load():
            raise ImportError("islpy is not installed: pip install islpy")
        found: object = getattr(self.module, name)
        setattr(self, name, found)
        return found


_MODULE = _Module()

if TYPE_CHECKING:
    import islpy as isl
else:
    isl = _MODULE
    """islpy. A first use of a name of it raises ImportError where it is not installed."""


def available() -> bool:
    """Whether islpy is installed (imports it)."""
    return _MODULE.load()


@dataclass(frozen=True)
class Answer:
    """Whether constraints have an integer solution: ``point`` is one, ``reason`` why there is no answer."""

    empty: bool = False
    point: tuple[int, ...] | None = None
    reason: str = ""


EMPTY = Answer(empty=True)
TOO_MUCH = "gave up after the work of one verdict"
_TOO_MUCH = Answer(reason=TOO_MUCH)


_Question = tuple[int, tuple[Row, ...], tuple[Row, ...], *tuple[object, ...]]
"""The number of columns, the equations, the inequalities, and what else the answer depends on."""


def _numbers(question: _Question) -> int:
    """The numbers in a question's matrix, and one row more, so that none is for nothing."""
    return (question[0] + 1) * (len(question[1]) + len(question[2]) + 1)


@dataclass(frozen=True)
class _Cost:
    """What isl's operations on a matrix count for, with ``numbers`` in it, each of which has the ``weight`` of its bits.

    Where isl solves an equation with great coefficients that are no powers of two, and many columns, its numbers grow
    longer with each cut (``grows``): there the first 64 operations take 4 us each, the first 1,024 take 90. Of 250 questions
    that take over 1 ms half take up to 3 ns times their work, nine in ten up to 8, all of them up to 16 (60 and 255 for the
    last two when all operations counted the same).
    """

    numbers: int
    weight: int
    grows: bool

    @classmethod
    def of(cls, columns: int, equations: Sequence[Row], inequalities: Sequence[Row]) -> _Cost:
        """A number of many bits counts several times: an operation's time was measured to grow with the square of the bits
        of a row's largest number beyond 8. A few great rows are enough, so that the squares have their mean taken, not the
        bits."""
        rows = len(equations) + len(inequalities)
        bits = sum(max(map(abs, row)).bit_length() ** 2 for row in itertools.chain(equations, inequalities))
        grows = columns >= 8 and any(_is_great(c) for row in equations for c in row[1:])
        return cls((columns + 1) * (rows + 1), max(bits // (64 * max(rows, 1)), 1), grows)

    def work(self, operations: int) -> int:
        """What so many operations count for."""
        weight = max(self.weight, operations // _FIRST_OPERATIONS) if self.grows else self.weight
        return self.numbers * weight * operations

    def operations(self, work: int) -> int:
        """How many operations some work is."""
        most = work // (self.numbers * self.weight)
        return min(most, math.isqrt(_FIRST_OPERATIONS * work // self.numbers)) if self.grows else most


def _is_great(coefficient: int) -> bool:
    size = abs(coefficient)
    return size >> _GREAT > 0 and size & (size - 1) != 0


class Solver:
    """Asks isl, within a limit of operations, and remembers.

    Parameters: ``max_operations`` bounds each question; ``memo_numbers`` the numbers in the questions whose answers are kept. ``asked`` and
    ``solved`` count the questions and those that isl was called for. Constraints hold integers only, never nodes.

    >>> solver = Solver()
    >>> solver.solve(1, [(-3, 2)], []).empty  # 2 x == 3
    True
    >>> solver.solve(1, [], [(-3, 2), (4, -1)]).point in ((2,), (3,), (4,))
    True
    """

    def __init__(self, max_operations: int = MAX_OPERATIONS, memo_numbers: int = MEMO_NUMBERS) -> None:
        self.max_operations = max_operations
        self.memo_numbers = memo_numbers
        self.asked = 0
        self.solved = 0
        self._memo: OrderedDict[_Question, tuple[Answer, int]] = OrderedDict()
        self._remembered = 0
        self._left: int | None = None
        self._smallest_work = _SMALLEST_WORK
        self._searches_left: int | None = None

    @contextmanager
    def verdict(self, renew: bool = False) -> Iterator[None]:
        """Bound the work of all questions inside a ``with`` block: those past it have no answer.

        A block inside of another is a part of it, unless ``renew`` gives it work of its own, for what is shown to a user.

        What a question counts for depends on it alone, not on the clock or on what is remembered, so that a verdict
        is the same each time.
        """
        before = self._left, self._smallest_work, self._searches_left
        if renew:
            self._smallest_work = _SHOWN_WORK
        if before[0] is None or renew:
            self._left = VERDICT_WORK
            self._searches_left = _SEARCHES * self._smallest_work
        try:
            yield
        finally:
            if before[0] is None or renew:
                self._left, self._smallest_work, self._searches_left = before

    @property
    def spent(self) -> bool:
        """Whether a verdict's work is used up, so that questions need not be stated."""
        return self._left is not None and self._left < _ASKING

    @contextmanager
    def soon(self) -> Iterator[None]:
        """Questions inside a ``with`` block get little work, which is that of the verdict: they are of use, not needed."""
        whole = self._left
        self._left = little = QUESTION_WORK // _SOON if whole is None else min(QUESTION_WORK // _SOON, whole)
        try:
            yield
        finally:
            self._left = None if whole is None else whole - (little - self._left)

    def solve(self, columns: int, equations: Sequence[Row], inequalities: Sequence[Row]) -> Answer:
        """An integer point with ``row . (1, x) == 0`` for the equations and ``>= 0`` for the inequalities."""
        self.asked += 1
        key = (columns, tuple(equations), tuple(inequalities))
        found = self._memo.get(key)
        if found is None:
            found = self._ask(columns, equations, inequalities)
            if found is None:
                self._spend_in_vain(_Cost.of(columns, equations, inequalities))
                return _TOO_MUCH
            self._remember(key, found)
        answer, work = found
        if self._left is not None:
            if work > self._left:
                self._spend_in_vain(_Cost.of(columns, equations, inequalities))
                return _TOO_MUCH
            self._left -= work
        return answer

    def _levels(self, cost: _Cost) -> Iterator[tuple[int, int]]:
        """The operations after which a question is looked at, and what it counts for there."""
        most = max(min(self.max_operations, cost.operations(QUESTION_WORK)), 1)
        for part in _LEVELS:
            operations = max(most // part, 1)
            yield operations, max(cost.work(operations), _ASKING)

    def _spend_in_vain(self, cost: _Cost) -> None:
        """Count what a question took that needs more than is left: else many such would each take as much again."""
        if self._left is not None:
            self._left -= max((work for _, work in self._levels(cost) if work <= self._left), default=_ASKING)

    def _remember(self, key: _Question, found: tuple[Answer, int]) -> None:
        if self._memo.setdefault(key, found) is not found:
            return  # another thread asked it at the same time, and has counted it
        self._remembered += _numbers(key)
        while self._memo and self._remembered > self.memo_numbers:
            self._remembered -= _numbers(self._memo.popitem(last=False)[0])

    def _ask(self, columns: int, equations: Sequence[Row], inequalities: Sequence[Row]) -> tuple[Answer, int] | None:
        """The answer to a question and what it counts for; None where that is more than a verdict has left."""
        if not available():
            why = "islpy is not installed, and simple arithmetic does not decide it (pip install islpy)"
            return Answer(reason=why), 0
        self.solved += 1
        work = 0
        stated = basic_set(columns, equations, inequalities)
        for operations, work in self._levels(_Cost.of(columns, equations, inequalities)):
            if self._left is not None and work > self._left:
                return None
            with self.limited(operations):
                try:
                    found = stated.sample_point()
                except isl.Error as error:
                    answer = Answer(reason=self.why(error, operations))
                    continue
            return (EMPTY if found.is_void() else Answer(point=_coordinates(found, columns))), work
        return answer, work

    def smallest(
        self, columns: int, equations: Sequence[Row], inequalities: Sequence[Row], nonneg: Sequence[int]
    ) -> tuple[int, ...] | None:
        """A point of small numbers, the lexicographically least within a box; None where none is found soon.

        ``nonneg`` lists the columns to look for at 0 and above. A verdict has work of its own for these searches, so that
        its questions have all of theirs: past it there is none, for any point is as true.
        """
        if not available() or (self._searches_left is not None and self._searches_left < self._smallest_work):
            return None
        key = (columns, tuple(equations), tuple(inequalities), tuple(nonneg), self._smallest_work)
        found = self._memo.get(key)
        if found is None:
            point, work = self._smallest(columns, equations, inequalities, nonneg)
            found = Answer(point=point), work
            self._remember(key, found)
        answer, work = found
        if self._searches_left is not None:
            self._searches_left -= work
        return answer.point

    def _smallest(
        self, columns: int, equations: Sequence[Row], inequalities: Sequence[Row], nonneg: Sequence[int]
    ) -> tuple[tuple[int, ...] | None, int]:
        """The point, and what looking for it counts for."""
        spent = 0
        for size in (4, 16, 256, 65536):
            box = list(inequalities)
            for column in range(columns):
                low = [size] + [0] * columns
                low[column + 1] = 1
                if column in nonneg:
                    low[0] = 0
                high = [size] + [0] * columns
                high[column + 1] = -1
                box += [tuple(low), tuple(high)]
            cost = _Cost.of(columns, equations, box)
            # In the largest box the numbers are no longer small, and take longest to find.
            most = max(cost.operations(self._smallest_work // (1 if size <= 256 else 4)), 1)
            spent += cost.work(most)
            stated = basic_set(columns, equations, box)
            with self.limited(most):
                try:
                    point = stated.sample_point()
                except isl.Error:
                    return None, spent
            if point.is_void():
                continue
            found = _coordinates(point, columns)
            # An operation of lexmin cuts by rows of ever greater numbers: a few thousand have taken a second.
            most = max(most // _LEXMIN_SHARE, 1)
            spent += cost.work(most)
            with self.limited(most):
                try:
                    point = stated.lexmin().sample_point()
                except isl.Error:
                    return found, spent  # small enough
            # Of coefficients near 2**32 isl makes a wrong lexmin, mostly an empty one.
            least = found if point.is_void() else _coordinates(point, columns)
            return (least if _holds(least, equations, box) else found), spent
        return None, spent

    def why(self, error: Exception, operations: int) -> str:
        """What an error of isl means to the user, after at most so many operations."""
        if "maximal number of operations" in str(error):
            return f"gave up after {operations} operations"
        return f"isl could not decide it: {error}"

    @contextmanager
    def limited(self, operations: int | None = None) -> Iterator[None]:
        """Bound the operations of isl inside a ``with`` block, to those of a question or fewer; the limits in force before are
        restored."""
        context = isl.DEFAULT_CONTEXT
        before = context.get_max_operations()
        most = self.max_operations if operations is None else min(operations, self.max_operations)
        context.set_max_operations(max(most, 1))
        context.reset_operations()
        try:
            yield
        finally:
            context.set_max_operations(before)
            context.reset_operations()


def basic_set(columns: int, equations: Sequence[Row], inequalities: Sequence[Row]) -> isl.BasicSet:
    """The integer points of constraints, as a BasicSet without names.

    isl reads them in PolyLib's format: as soon as numbers are set in a matrix one by one, and nothing is left behind, where
    islpy keeps 32 bytes for each object that a function of isl takes over, 6 KB for a question of 15 variables. A limit does
    not cut the reading short: that would be an error of syntax.
    """
    numbers = " %d" * (columns + 1)
    lines = [f"{len(equations) + len(inequalities)} {columns + 2}"]
    lines += ["0" + numbers % (*row[1:], row[0]) for row in equations]
    lines += ["1" + numbers % (*row[1:], row[0]) for row in inequalities]
    context = isl.DEFAULT_CONTEXT
    limit = context.get_max_operations()
    context.set_max_operations(0)
    try:
        return isl.BasicSet("\n".join(lines) + "\n")
    finally:
        context.set_max_operations(limit)


def matrices(columns: int, equations: Sequence[Row], inequalities: Sequence[Row]) -> tuple[isl.Mat, isl.Mat]:
    """Constraints as isl's matrices of equations and inequalities: the constant, then a column for each variable."""
    made, kind = basic_set(columns, equations, inequalities), isl.dim_type
    order = kind.cst, kind.param, kind.set, kind.div
    return made.equalities_matrix(*order), made.inequalities_matrix(*order)


def _coordinates(point: isl.Point, columns: int) -> tuple[int, ...]:
    kind = isl.dim_type.set
    return tuple(_number(point.get_coordinate_val(kind, c)) for c in range(columns))


def _number(value: isl.Val) -> int:
    small = value.n_abs_num_chunks(4) <= 1  # of what does not fit 64 bits, get_num_si says 0
    return value.get_num_si() if small else int(value.to_str())


def _holds(point: Sequence[int], equations: Sequence[Row], inequalities: Sequence[Row]) -> bool:
    def value(row: Row) -> int:
        return row[0] + sum(c * x for c, x in zip(row[1:], point, strict=True))

    return not any(map(value, equations)) and all(value(row) >= 0 for row in inequalities)


class _Default:
    """The solver used where none is given: its memo holds rows of numbers only, and is bounded."""

    def __init__(self) -> None:
        self.solver: Solver | None = None

    def get(self) -> Solver:
        if self.solver is None:
            self.solver = Solver()
        return self.solver


_DEFAULT = _Default()


def default_solver() -> Solver:
    """The solver that questions go to unless they bring their own."""
    return _DEFAULT.get()
