"""Who measures: any executor of ``concurrent.futures``, Dask's clients, and Ray by an executor of ours."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Final, ParamSpec, Protocol, TypeVar, cast, runtime_checkable

from tirlower.diagnostics import TirError

__all__ = ["Here", "RayExecutor", "executor_of"]

IN_FLIGHT: Final = 8
"""Calls that an executor is given at a time which does not say how many it runs."""

P = ParamSpec("P")
R = TypeVar("R")


@runtime_checkable
class _HasExecutor(Protocol):
    """A client of Dask."""

    def get_executor(self) -> Executor:
        """The executor that it is."""
        ...


class _Reference(Protocol):
    def future(self) -> Future[object]:
        """The future of a result of Ray's."""
        ...


class _Remote(Protocol):
    def remote(self, *args: object, **kwargs: object) -> _Reference:
        """Begin to run."""
        ...


class _Ray(Protocol):
    def is_initialized(self) -> bool:
        """Whether this process belongs to a cluster."""
        ...

    def init(self) -> object:
        """Begin a cluster on this machine."""
        ...

    def remote(self, fn: object) -> _Remote:
        """A function that runs there."""
        ...


class Here(Executor):
    """Calls, each done before the next one is begun: no candidate is disturbed by another one, or by the search for it."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Do it now; its future, which is done. An interruption is the caller's."""
        done: Future[R] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


def executor_of(given: object) -> tuple[Executor, int]:
    """The executor that is meant, and how many calls it is given at a time; :class:`Here` where none is given.

    Raises :class:`TirError` for what is none.
    """
    if given is None:
        return Here(), 1
    found = given.get_executor() if isinstance(given, _HasExecutor) else given
    if not isinstance(found, Executor):
        raise TirError(
            f"executor= is one of concurrent.futures, or a client of Dask, got {type(given).__name__}",
            origin="tune",
            help="for Ray, give tirlower.tuning.RayExecutor()",
        )
    workers: object = getattr(found, "_max_workers", None)
    return found, workers if isinstance(workers, int) else IN_FLIGHT


class RayExecutor(Executor):
    """Ray as an executor: each call is a task of its cluster, which is begun on this machine where there is none.

    Raises ImportError where Ray is not installed.
    """

    def __init__(self) -> None:
        self._ray = cast("_Ray", importlib.import_module("ray"))
        if not self._ray.is_initialized():
            self._ray.init()

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Begin a task; its future."""
        return cast("Future[R]", self._ray.remote(fn).remote(*args, **kwargs).future())
