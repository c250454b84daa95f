"""Who measures: any executor of ``concurrent.futures``, Dask's clients, and Ray by an executor of ours."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ParamSpec, Protocol, TypeVar, cast, runtime_checkable

from tirlower.diagnostics import TirError

__all__ = ["RayExecutor", "executor_of"]

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


def executor_of(given: object) -> tuple[Executor, bool]:
    """The executor that is meant, and whether it is to be shut down: the one that is made where none is given, of a single
    thread, so that no two candidates run at the same time; each is measured in a process of its own all the same.

    Raises :class:`TirError` for what is none.
    """
    if given is None:
        return ThreadPoolExecutor(1, thread_name_prefix="tirlower-tune"), True
    if isinstance(given, Executor):
        return given, False
    if isinstance(given, _HasExecutor):
        return given.get_executor(), False
    raise TirError(
        f"executor= is one of concurrent.futures, or a client of Dask, got {type(given).__name__}",
        origin="tune",
        help="for Ray, give tirlower.tuning.RayExecutor()",
    )


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
