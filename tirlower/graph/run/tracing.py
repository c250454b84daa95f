"""Calls of a compiled graph that are watched: what each kernel was given and made, and how long it took.

The driver is compiled once more, with a mark before and behind each call of a kernel; the kernels are those of the calls
that nobody watches.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TypeAlias

from tirlower.driver.api import build
from tirlower.driver.kernel import Kernel
from tirlower.graph.core.debug import tensor_text
from tirlower.graph.lower.driver import Lowered
from tirlower.graph.run.call import Call
from tirlower.graph.run.sites import Arguments, Site, marked, sites_of
from tirlower.ir.dtype import Array
from tirlower.llvm.profile import Profile
from tirlower.machine.target import Target

__all__ = ["Observer", "Tracing", "Watched"]

Observer: TypeAlias = Callable[[Site, Arguments, int], object]
"""Told of each kernel behind its call: where it was called, what ``main`` was given, the nanoseconds that it took."""

_ONE_AT_A_TIME = threading.RLock()
"""A mark belongs to whoever listens last: of two threads that watch calls, one waits for the other."""


Before: TypeAlias = Callable[[Site, Arguments], object]
"""Told of each kernel before its call."""


class _Listener(Profile):
    def __init__(
        self, sites: Sequence[Site], arguments: Arguments, observer: Observer, before: Before | None = None
    ) -> None:
        super().__init__()
        self.before = before
        self.by_number = {site.number: site for site in sites}
        self.arguments = arguments
        self.observer = observer
        self.thread = threading.get_ident()
        self.failed: BaseException | None = None

    def begin(self, number: int) -> None:
        """Tell the other observer, as :meth:`record` does."""
        if self.before is not None and self.failed is None and threading.get_ident() == self.thread:
            try:
                self.before(self.by_number[number], self.arguments)
            except BaseException as error:
                self.failed = error

    def record(self, number: int, nanoseconds: int) -> None:
        """Tell the observer. What it raises is kept: a callback of machine code cannot raise."""
        if self.failed is None and threading.get_ident() == self.thread:
            try:
                self.observer(self.by_number[number], self.arguments, nanoseconds)
            except BaseException as error:
                self.failed = error


class _Main:
    """``main`` with marks, as a call of the graph calls it."""

    def __init__(self, lowered: Lowered, native: Kernel, observer: Observer, before: Before | None) -> None:
        self.module = lowered.module
        self.native = native
        self.sites = sites_of(lowered.module)
        self.observer = observer
        self.before = before

    def __call__(self, *given: object) -> None:
        with _ONE_AT_A_TIME:
            listener = _Listener(self.sites, Arguments(self.module, given), self.observer, self.before)
            with listener:
                self.native(*given)
        if listener.failed is not None:
            raise listener.failed


class Watched:
    """A graph, compiled so that its kernels can be watched."""

    def __init__(self, lowered: Lowered, target: str | Target) -> None:
        self.lowered = lowered
        self.native = build(marked(lowered.module), target)["main"]

    def call(self, observer: Observer, before: Before | None = None, plain: Call | None = None) -> Call:
        """What calls the graph, and tells an observer of each kernel behind its call, another one before it.

        States are those of the ``plain`` call, or without one, of this call alone.
        """
        main = _Main(self.lowered, self.native, observer, before)
        return (plain or Call(self.lowered, self.native)).through(main)

    def printing(self, plain: Call) -> Call:
        """What calls the graph, and writes to ``sys.stderr`` what each kernel reads, before its call, and what it wrote."""
        return self.call(
            lambda site, given, time: _write(site.kernel, "outputs", given.views(site)[1]),
            lambda site, given: _write(site.kernel, "inputs", given.views(site)[0]),
            plain,
        )


def _write(kernel: str, what: str, arrays: Sequence[Array]) -> None:
    print(f"== {kernel}: {what}", *map(tensor_text, arrays), sep="\n", file=sys.stderr)


class Tracing:
    """A hook at work; as a context manager it ends with the block."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end

    def __enter__(self) -> Tracing:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()
