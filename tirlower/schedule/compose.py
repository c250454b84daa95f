"""Operations of one's own on schedules: functions whose steps are one transaction and one group; and ways to put them together."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, cast

from tirlower.diagnostics import ScheduleError
from tirlower.schedule.find import FIND
from tirlower.schedule.handles import Handle

if TYPE_CHECKING:
    from tirlower.schedule.schedule import Schedule

__all__ = ["attempt", "everywhere", "first_of", "for_each", "repeat", "schedule_op"]

P = ParamSpec("P")
R = TypeVar("R")


def schedule_op(function: Callable[Concatenate[Schedule, P], R]) -> Callable[Concatenate[Schedule, P], R]:
    """Make a function of a schedule an operation: its steps are all taken or none, and stand as a group in the trace.

    >>> import tirlower as tl
    >>> from tirlower.script import parse
    >>> @schedule_op
    ... def tile(sch, name, size):
    ...     i_0, i_1 = sch.split(name, [None, size])
    ...     sch.unroll(i_1)
    >>> sch = tl.Schedule(parse('''
    ... def f(A: T.Buffer((8,), "int32")):
    ...     for i in range(8):
    ...         A[i] = i
    ... '''))
    >>> tile(sch, "i", 4)
    >>> [record.group for record in sch.steps][-1]
    ("tile('i', 4)",)
    """

    @functools.wraps(function)
    def op(sch: Schedule, /, *args: P.args, **kwargs: P.kwargs) -> R:
        words = [_word(one) for one in args] + [f"{key}={_word(one)}" for key, one in kwargs.items()]
        with sch.grouped(f"{function.__name__}({', '.join(words)})"):
            return function(sch, *args, **kwargs)

    return cast("Callable[Concatenate[Schedule, P], R]", op)


def _word(value: object) -> str:
    if isinstance(value, Handle):
        return value.name
    return f"[{', '.join(map(_word, value))}]" if isinstance(value, (list, tuple)) else repr(value)


def attempt(op: Callable[Concatenate[Schedule, P], R]) -> Callable[Concatenate[Schedule, P], R | None]:
    """An operation that is taken back, and gives None, where a step of it is refused."""

    def tried(sch: Schedule, /, *args: P.args, **kwargs: P.kwargs) -> R | None:
        with sch.attempt():
            return op(sch, *args, **kwargs)
        return None

    return tried


def first_of(*ops: Callable[Concatenate[Schedule, P], R]) -> Callable[Concatenate[Schedule, P], R]:
    """The first one of some operations that is not refused. Raises the last one's error where all are."""

    def one(sch: Schedule, /, *args: P.args, **kwargs: P.kwargs) -> R:
        refused: ScheduleError | None = None
        for op in ops:
            before = sch.branch()
            try:
                return op(sch, *args, **kwargs)
            except ScheduleError as error:
                refused = error
                sch.become(before)
        assert refused is not None, "first_of() takes operations"
        raise refused

    return one


def repeat(op: Callable[Concatenate[Schedule, P], object], most: int = 1000) -> Callable[Concatenate[Schedule, P], int]:
    """An operation taken again and again until it is refused, or changes nothing; gives how often it was taken."""

    def repeated(sch: Schedule, /, *args: P.args, **kwargs: P.kwargs) -> int:
        for count in range(most):
            before = sch.mod
            taken = False
            with sch.attempt():
                op(sch, *args, **kwargs)
                taken = True
            if not taken or sch.mod is before:
                return count
        return most

    return repeated


def for_each(
    refs: Iterable[Handle], op: Callable[Concatenate[Schedule, Handle, P], R]
) -> Callable[Concatenate[Schedule, P], list[R]]:
    """An operation on each of some handles."""

    def all_of(sch: Schedule, /, *args: P.args, **kwargs: P.kwargs) -> list[R]:
        return [op(sch, one, *args, **kwargs) for one in refs]

    return all_of


def everywhere(
    pattern: str, op: Callable[Concatenate[Schedule, Handle, P], R]
) -> Callable[Concatenate[Schedule, P], list[R]]:
    """An operation on each statement that a pattern matches (:meth:`Schedule.find`), of those that there are at the start."""

    def all_of(sch: Schedule, /, *args: P.args, **kwargs: P.kwargs) -> list[R]:
        found = sch.apply_kind(FIND, {"pattern": pattern, "many": True, "within": None})
        return [op(sch, one, *args, **kwargs) for one in found if isinstance(one, Handle)]

    return all_of
