"""A trace that is being recorded: its graph under construction, its place in the user's code, and who may add to it."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType

import numpy as np

import tirlower
from tirlower.graph.core.effects import Global
from tirlower.graph.core.nodes import Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.builder import GraphBuilder

__all__ = ["Recording", "current", "place", "place_of"]

_INSIDE = tuple(os.path.dirname(os.path.abspath(m.__file__ or "")) + os.sep for m in (tirlower, np))


def place() -> str:
    """Where the user's code is: ``model.py:12``, of the nearest frame that is neither tirlower's nor NumPy's."""
    frame = sys._getframe(1)
    while _is_inside(frame) and frame.f_back is not None:
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


def place_of(error: BaseException) -> str:
    """Where in the user's code an exception came up."""
    entry, found = error.__traceback__, "?"
    while entry is not None:
        if not _is_inside(entry.tb_frame):
            found = f"{os.path.basename(entry.tb_frame.f_code.co_filename)}:{entry.tb_lineno}"
        entry = entry.tb_next
    return found


def _is_inside(frame: FrameType) -> bool:
    return _belongs(frame.f_code.co_filename)


@functools.cache
def _belongs(file: str) -> bool:
    """Whether a file belongs to tirlower or NumPy."""
    return os.path.abspath(file).startswith(_INSIDE)


class Recording:
    """What :func:`tirlower.graph.trace` builds while the function runs, in the thread that called it."""

    __slots__ = ("attrs", "builder", "captured", "ended", "outer", "place", "states", "thread")

    def __init__(self, builder: GraphBuilder, outer: Recording | None = None) -> None:
        self.builder = builder
        self.outer = outer
        """The recording in which this one, of a graph inside a node, is made."""
        self.states: dict[str, Global] = {}
        """The states that are read or written, by name; of the outermost recording."""
        self.captured: dict[Value, Value] = {}
        """Values of the outer recording that are read here, and the parameters that stand for them."""
        self.place = place()
        self.thread = threading.get_ident()
        self.ended = False
        self.attrs: dict[str, object] = {}
        """Attributes of the graph."""

    def check(self, what: str) -> None:
        """Something may be added now, from here. Raises :class:`GraphError` with ``what`` was about to be."""
        if self.ended:
            raise GraphError(
                f"{what} at {place()} uses a tensor of the trace of {self.builder.name!r} at {self.place}, which has ended",
                help="return the tensor from the traced function, and call the compiled graph to get its values",
            )
        if threading.get_ident() != self.thread:
            raise GraphError(
                f"{what} at {place()} runs in another thread than the trace of {self.builder.name!r} at {self.place}",
                help="trace in one thread; independent operations of a graph may be run by several when it is called",
            )

    def is_inside(self, other: Recording) -> bool:
        """Whether this is the recording of a graph inside a node of another one's, or inside one that is."""
        around = self.outer
        while around is not None and around is not other:
            around = around.outer
        return around is not None

    def capture(self, value: Value, home: Recording) -> Value:
        """The parameter that stands here for a value of a recording around this one."""
        if self.outer is not None and self.outer is not home:
            value = self.outer.capture(value, home)
        known = self.captured.get(value)
        if known is None:
            known = self.captured[value] = self.builder.param(value.name, value.shape, value.dtype)
        return known

    def adding(self) -> _Adding:
        """A context that gives the builder, with the user's place as the origin of nodes; errors say it."""
        return _Adding(self.builder, place())

    @contextmanager
    def running(self) -> Iterator[None]:
        """While entered, this is the current recording; afterwards it has ended."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            self.ended = True


class _Adding:
    # A class: the frames of a generator's context would stand between the user's code and ours.

    __slots__ = ("builder", "where")

    def __init__(self, builder: GraphBuilder, where: str) -> None:
        self.builder = builder
        self.where = where

    def __enter__(self) -> GraphBuilder:
        self.builder.origin = self.where
        return self.builder

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, GraphError) and self.where not in str(error):
            error.notes.append(f"at {self.where}")


_CURRENT: ContextVar[Recording | None] = ContextVar("the trace that is being recorded", default=None)


def current() -> Recording | None:
    """The trace that is being recorded by this thread, if there is one."""
    return _CURRENT.get()
