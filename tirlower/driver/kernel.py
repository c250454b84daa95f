"""What a build gives: a callable kernel, or the kernels of a module."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NoReturn

from tirlower.diagnostics import CodegenError, TirError, nearest_name
from tirlower.ir.citizens import FunctionLike
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.packed import Packed
from tirlower.llvm.entry import EntryBase

if TYPE_CHECKING:
    from tirlower.call.gil import GilChoice
    from tirlower.call.signature import Signature
    from tirlower.call.slowpath import SlowPath
    from tirlower.call.views import Result
    from tirlower.driver.report import Report
    from tirlower.driver.result import BuildResult
    from tirlower.llvm.entry import EntryParts
    from tirlower.machine.target import Target
    from tirlower.rewrite.context import Choices
    from tirlower.schedule.trace import Trace

__all__ = ["Built", "BuiltKernel", "Executable", "ForeignKernel", "Kernel", "rebuilding"]


class Built(FunctionLike):
    """What every compiled function knows of its build, for whatever target."""

    artifact: BuildResult

    def source(self, kind: str = "tir") -> str:
        """The program at a stage: ``"scheduled"`` (what the schedule made of it; as written without one), ``"tir"`` (after the
        passes), and what the target has of the
        :data:`~tirlower.driver.backend.SOURCE_KINDS`.

        Raises :class:`TirError` for another kind.
        """
        return self.artifact.source(kind)

    def show(self, kind: str = "tir") -> None:
        """Print :meth:`source`, the script coloured where the terminal shows colours."""
        self.artifact.show(kind)

    @property
    def ir_after(self) -> Mapping[str, IRModule]:
        """The module after each pass, by the pass's name (run again with a trace where the build had none)."""
        return self.artifact.ir_after

    @property
    def schedule(self) -> Trace:
        """The steps that were taken on the function as written, before it was compiled: they run as they stand on
        ``tl.Schedule(func)``. None where it was compiled as written."""
        return self.artifact.trace(self.name)

    def explain_miss(self) -> str:
        """Why the machine code was not in the disk cache; says so when it was."""
        return self.artifact.explain_miss()

    def report(self) -> Result:
        """What the build did: passes and their times, loops, cache, machine code."""
        return self.artifact.report()

    def __reduce__(self) -> tuple[object, ...]:
        # Machine code stays in its process: another one builds the function again, or finds it in the disk cache.
        return self.artifact.rebuilding(self.name)


class BuiltKernel(Built):
    """What every compiled function of this machine knows, however calls reach it."""

    if TYPE_CHECKING:

        @property
        def slow_path(self) -> SlowPath:
            """The call in Python."""

    @property
    def func(self) -> PrimFunc:
        """The function as it was given to the build."""
        return self.artifact.function(self.name)

    @property
    def target(self) -> Target:
        """The target it was compiled for."""
        return self.artifact.target

    @property
    def signature(self) -> Signature:
        """What a call takes."""
        return self.slow_path.signature

    def __repr__(self) -> str:
        return f"<tirlower.Kernel {self.call_text} for {self.artifact.target}>"


class Kernel(BuiltKernel, EntryBase):
    """A compiled function: call it with arrays and scalars.

    Arguments are NumPy arrays, DLPack or buffer-protocol objects, and Python or NumPy scalars, in the order of the
    parameters or by name; each is checked before anything runs, and outputs are written in place. With ``outputs``
    the named arrays are allocated and returned.
    """

    # The state of the entry is in slots of the base; what follows is plain Python.
    _parts: EntryParts

    @classmethod
    def made(cls, artifact: BuildResult, name: str, parts: EntryParts) -> Kernel:
        """A kernel from the parts of its entry (:func:`tirlower.llvm.entry.entry_parts`)."""
        kernel = cls(*parts)
        kernel._parts = parts
        kernel.artifact = artifact
        kernel.named(kernel.artifact.function(name), name)
        return kernel

    def report(self, measure: Sequence[object] | None = None) -> Report:
        """What the build did; with arguments of a call to ``measure``, what calls with them take, beside what was predicted.

        They are called some times, for 20 ms or so, and the fastest of some series counts; what they write is written.

        >>> import numpy as np
        >>> import tirlower as tl
        >>> from tirlower.script import tir as T
        >>> @T.prim_func
        ... def f(A: T.Buffer((64,), "float32")):
        ...     for i in range(64):
        ...         A[i] = A[i] * T.float32(2)
        >>> report = tl.build(f).report(measure=[np.zeros(64, "float32")])
        >>> 0 < report.measured < 1
        True
        """
        made: Report = self.artifact.report()
        return made if measure is None else replace(made, measured=_seconds(self, measure))

    def move_into(self, other: Kernel) -> None:
        """Make another (not yet callable) kernel object this one."""
        EntryBase.__init__(other, *self._parts)
        other._parts = self._parts


_SERIES: Final = 5
_SERIES_SECONDS: Final = 0.004


def _seconds(kernel: Kernel, args: Sequence[object]) -> float:
    """The seconds of a call: in the fastest of some series, each of as many calls as take some milliseconds."""
    kernel(*args)
    count, best = 1, float("inf")
    for _ in range(_SERIES):
        start = time.perf_counter()
        for _ in range(count):
            kernel(*args)
        best = min(best, (time.perf_counter() - start) / count)
        count = max(1, int(_SERIES_SECONDS / best))
    return best


def rebuilding(
    module: IRModule,
    name: str | None,
    target: Target,
    outputs: Sequence[str] | None,
    gil: GilChoice,
    choices: Choices,
    schedule: str,
) -> tuple[object, ...]:
    """What pickle keeps of a kernel, or of all those of a module (without a name): how it was built."""
    return _rebuilt, (Packed(module), name, target, outputs, gil, choices, schedule)


def _rebuilt(
    module: Packed[PrimFunc | IRModule],
    name: str | None,
    target: Target,
    outputs: Sequence[str] | None,
    gil: GilChoice,
    choices: Choices,
    schedule: str,
) -> object:
    """A kernel, or all those of a module (without a name), from what determined it: what unpickling calls."""
    driver = importlib.import_module("tirlower.driver.api")
    with driver.PassContext(**choices):
        made = driver.build_as(module.unpacked(), target, outputs, gil, schedule)
    return made if name is None else made[name]


class ForeignKernel(Kernel):  # noqa: D101
    # A kernel for a processor with features that this machine lacks: it can be looked at, and not called. A docstring
    # would hide the kernel's own.
    __doc__ = Kernel.__dict__["__doc__"]

    lacking: tuple[str, ...] = ()

    def __call__(self, /, *args: object, **kwargs: object) -> NoReturn:
        """Refuse the call, which would end the process with an illegal instruction."""
        raise CodegenError(
            f"`{self.name}` is code for {self.artifact.target}, and this machine has no {', '.join(self.lacking)}",
            origin="call",
            help="build it for this machine (leave out mcpu and mattr), or for a level that it has, such as x86-64-v3",
        )


class Executable:
    """The kernels of a module: ``exe["name"]`` or ``exe.name``."""

    def __init__(self, artifact: BuildResult, kernels: Mapping[str, Kernel]) -> None:
        self._artifact = artifact
        self._kernels = dict(kernels)

    def __getitem__(self, name: str) -> Kernel:
        found = self._kernels.get(name)
        if found is None:
            near = nearest_name(name, self._kernels)
            raise TirError(
                f"the module exports no function {name!r}",
                help=f"did you mean {near!r}?" if near else f"it exports {', '.join(self._kernels) or 'none'}",
            )
        return found

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except TirError as error:
            raise AttributeError(str(error)) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __contains__(self, name: object) -> bool:
        return name in self._kernels

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._kernels})

    def source(self, kind: str = "tir") -> str:
        """The whole module at a stage (see :meth:`Kernel.source`)."""
        return self._artifact.source(kind)

    def show(self, kind: str = "tir") -> None:
        """Print :meth:`source`."""
        self._artifact.show(kind)

    @property
    def ir_after(self) -> Mapping[str, IRModule]:
        """The module after each pass, by the pass's name."""
        return self._artifact.ir_after

    def report(self) -> Report:
        """What the build did."""
        made: Report = self._artifact.report()
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return self._artifact.rebuilding(None)

    def __repr__(self) -> str:
        return f"<tirlower.Executable of {', '.join(self._kernels) or 'nothing'} for {self._artifact.target}>"
