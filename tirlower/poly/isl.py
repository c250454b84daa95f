"""The one wrapper of islpy: loading it, limiting it, and asking whether integer constraints have a solution.

islpy is imported at the first question, not with the package. A system of constraints goes in as rows of a matrix
(measured: 60 us for 15 variables and 26 rows, where parsing the same text takes 1 ms), and one number bounds the work
of a question, so that none can hang. Answers are remembered by the rows themselves: what has the same structure of
accesses and loops is asked once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["EMPTY", "Answer", "Row", "Solver", "available", "default_solver", "isl_module"]

Row = tuple[int, ...]
"""The constant, then the coefficients."""

MAX_OPERATIONS = 200_000
"""isl's operations for one question: some 50 ms (a usual one takes a few hundred)."""

_SMALLEST_SHARE = 20
"""A point is as good as one of small numbers, if those take long to find: an operation may cost 10 us there."""

MEMO_SIZE = 20_000


class _Module:
    """islpy, loaded once; ``missing`` says that it is not installed."""

    def __init__(self) -> None:
        self.isl: Any = None
        self.missing = False

    def load(self) -> Any:
        if self.isl is None and not self.missing:
            try:
                import islpy
            except ImportError:
                self.missing = True
            else:
                self.isl = islpy
        return self.isl


_MODULE = _Module()


def available() -> bool:
    """Whether islpy is installed (imports it)."""
    return _MODULE.load() is not None


def isl_module() -> Any:
    """islpy. Raises ImportError naming it where it is not installed."""
    found = _MODULE.load()
    if found is None:
        raise ImportError("islpy is not installed: pip install islpy")
    return found


@dataclass(frozen=True)
class Answer:
    """Whether constraints have an integer solution: ``point`` is one, ``reason`` why there is no answer."""

    empty: bool = False
    point: tuple[int, ...] | None = None
    reason: str = ""


EMPTY = Answer(empty=True)


class Solver:
    """Asks isl, within a limit of operations, and remembers.

    Parameters: ``max_operations`` bounds each question; ``memo_size`` the number of answers kept. ``asked`` and
    ``solved`` count the questions and those that isl was called for. Constraints hold integers only, never nodes.

    >>> solver = Solver()
    >>> solver.solve(1, [(-3, 2)], []).empty  # 2 x == 3
    True
    >>> solver.solve(1, [], [(-3, 2), (4, -1)]).point in ((2,), (3,), (4,))
    True
    """

    def __init__(self, max_operations: int = MAX_OPERATIONS, memo_size: int = MEMO_SIZE) -> None:
        self.max_operations = max_operations
        self.memo_size = memo_size
        self.asked = 0
        self.solved = 0
        self._memo: OrderedDict[Any, Any] = OrderedDict()

    def solve(self, columns: int, equations: Sequence[Row], inequalities: Sequence[Row]) -> Answer:
        """An integer point with ``row . (1, x) == 0`` for the equations and ``>= 0`` for the inequalities."""
        self.asked += 1
        key = (columns, tuple(equations), tuple(inequalities))
        found = self._memo.get(key)
        if found is None:
            found = self._ask(columns, equations, inequalities)
            self._remember(key, found)
        return found

    def _remember(self, key: Any, found: Any) -> None:
        self._memo[key] = found
        if len(self._memo) > self.memo_size:
            self._memo.popitem(last=False)

    def _ask(self, columns: int, equations: Sequence[Row], inequalities: Sequence[Row]) -> Answer:
        isl = _MODULE.load()
        if isl is None:
            return Answer(reason="islpy is not installed, and simple arithmetic does not decide it (pip install islpy)")
        self.solved += 1
        with self.limited():
            try:
                found = basic_set(columns, equations, inequalities).sample_point()
                if found.is_void():
                    return EMPTY
                return Answer(point=_coordinates(found, columns))
            except isl.Error as error:
                return Answer(reason=self.why(error))

    def smallest(
        self, columns: int, equations: Sequence[Row], inequalities: Sequence[Row], nonneg: Sequence[int]
    ) -> tuple[int, ...] | None:
        """A point of small numbers, the lexicographically least within a box; None where none is found soon.

        ``nonneg`` lists the columns to look for at 0 and above.
        """
        isl = _MODULE.load()
        if isl is None:
            return None
        key = (columns, tuple(equations), tuple(inequalities), tuple(nonneg))
        if key not in self._memo:
            self._remember(key, self._smallest(isl, columns, equations, inequalities, nonneg))
        return self._memo[key]

    def _smallest(
        self, isl: Any, columns: int, equations: Sequence[Row], inequalities: Sequence[Row], nonneg: Sequence[int]
    ) -> tuple[int, ...] | None:
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
            with self.limited(_SMALLEST_SHARE):
                try:
                    found = basic_set(columns, equations, box).lexmin()
                    if not found.is_empty():
                        return _coordinates(found.sample_point(), columns)
                except isl.Error:
                    return None
        return None

    def why(self, error: Exception) -> str:
        """What an error of isl means to the user."""
        if "maximal number of operations" in str(error):
            return f"gave up after {self.max_operations} operations"
        return f"isl could not decide it: {error}"

    @contextmanager
    def limited(self, share: int = 1) -> Iterator[None]:
        """Bound the operations of isl inside a ``with`` block, to one part in ``share`` of those of a question; the limits in
        force before are restored."""
        context = isl_module().DEFAULT_CONTEXT
        before = context.get_max_operations()
        context.set_max_operations(max(self.max_operations // share, 1))
        context.reset_operations()
        try:
            yield
        finally:
            context.set_max_operations(before)
            context.reset_operations()


class _Values:
    """isl's numbers, made once: a cached one is set in a matrix four times as fast."""

    def __init__(self) -> None:
        self.known: dict[int, Any] = {}

    def of(self, value: int) -> Any:
        found = self.known.get(value)
        if found is None:
            isl = isl_module()
            found = isl.Val(str(value), isl.DEFAULT_CONTEXT) if abs(value) >= 2**31 else _small(isl, value)
            if len(self.known) < 4096:
                self.known[value] = found
        return found


def _small(isl: Any, value: int) -> Any:
    return isl.Val.int_from_si(isl.DEFAULT_CONTEXT, value)


_VALUES = _Values()


def matrix(rows: Sequence[Row], columns: int) -> Any:
    """Rows of a constant and ``columns`` coefficients as an isl matrix."""
    isl = isl_module()
    made = isl.Mat.alloc(isl.DEFAULT_CONTEXT, 0, columns + 1).add_zero_rows(len(rows))
    value = _VALUES.of
    for r, row in enumerate(rows):
        for c, x in enumerate(row):
            if x:
                made = made.set_element_val(r, c, value(x))
    return made


def basic_set(columns: int, equations: Sequence[Row], inequalities: Sequence[Row]) -> Any:
    """The integer points of constraints, as a BasicSet without names."""
    isl = isl_module()
    kind = isl.dim_type
    space = isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, columns)
    return isl.BasicSet.from_constraint_matrices(
        space, matrix(equations, columns), matrix(inequalities, columns), kind.cst, kind.param, kind.set, kind.div
    )


def _coordinates(point: Any, columns: int) -> tuple[int, ...]:
    kind = isl_module().dim_type.set
    return tuple(point.get_coordinate_val(kind, c).to_python() for c in range(columns))


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
