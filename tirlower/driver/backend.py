"""What a kind of target adds to the road from a module to kernels, and where each kind's stands.

A new target is a room with its code generator, a module of the driver whose ``BACKEND`` is a value of :class:`Backend`, one
of :mod:`tirlower.driver.pipelines`, and a row in :data:`KINDS`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Final, Protocol

from tirlower.diagnostics import TransformError
from tirlower.machine.target import Target

if TYPE_CHECKING:
    from tirlower.call.slowpath import PackedKernel
    from tirlower.driver.kernel import Kernel
    from tirlower.driver.pipelines import Pipeline
    from tirlower.driver.progress import Progress
    from tirlower.driver.result import BuildResult
    from tirlower.emit.compile import CompileOptions
    from tirlower.transforms import PassContext

__all__ = ["KINDS", "MODULES", "SOURCE_KINDS", "Backend", "Kind", "backend_of", "kind_of", "pipeline_for"]


class Backend(Protocol):
    """How modules become kernels of a target. A value that keeps nothing: what it makes is the result's.

    The order of a build: :meth:`resolve`; :meth:`compiled`, which is the steps that
    :func:`tirlower.driver.steps.compile_version` takes (the passes, :meth:`generate`, :meth:`compile`) or what a cache has
    of them; :meth:`bind`. Versions for arrays that overlap are compiled when a call asks for them, and :meth:`packed`.
    """

    def resolve(self, target: Target, ctx: PassContext) -> tuple[Target, CompileOptions]:
        """A target with what the machine here adds, and the options of its compiler."""

    def compiled(self, result: BuildResult, ctx: PassContext) -> object:
        """The compiled code of a version."""

    def generate(self, result: BuildResult) -> object:
        """The code of the lowered module: text."""

    def compile(self, result: BuildResult, code: object, progress: Progress) -> object:
        """What the compiler makes of that."""

    def bind(self, result: BuildResult, compiled: object) -> Mapping[str, Kernel]:
        """Load the code, and make what Python calls, by symbol: to a type checker a kernel, whatever the target."""

    def packed(self, result: BuildResult, compiled: object, name: str) -> PackedKernel:
        """Load the version of a function for arrays that overlap."""

    def text(self, result: BuildResult, kind: str) -> str:
        """A stage of the target's own."""

    def report(self, result: BuildResult) -> object:
        """What the build did."""


@dataclass(frozen=True)
class Kind:
    """A kind of target: the modules of its passes and of its backend, and the stages beside ``tir`` that it shows."""

    pipeline: str
    backend: str
    sources: tuple[str, ...]
    example: str
    """How a build names it."""


_GPU = Kind(
    "tirlower.driver.pipelines.gpu", "tirlower.driver.gpu", ("llvm", "llvm-opt", "ptx", "host"), "nvptx -arch=sm_90"
)
KINDS: Final[Mapping[str, Kind]] = {
    "llvm": Kind("tirlower.driver.pipelines.cpu", "tirlower.driver.cpu", ("llvm", "llvm-opt", "asm"), "llvm"),
    "nvptx": _GPU,
    "cuda": _GPU,
    "c": Kind("tirlower.driver.pipelines.c", "tirlower.driver.c", ("c",), "c"),
}
"""What stands behind each kind of target; its modules are imported when it is asked for."""

MODULES: Final = ("scheduled", "tir")
"""The stages that are modules, whatever the target: what a schedule made of the program, and that after the passes."""

SOURCE_KINDS: Final = tuple(dict.fromkeys((*MODULES, *(source for kind in KINDS.values() for source in kind.sources))))
"""All stages that kernels show."""


def kind_of(target: Target) -> Kind:
    """The kind of a target. Raises :class:`TransformError` for one without code generator."""
    found = KINDS.get(target.kind)
    if found is None:
        raise TransformError(
            f"no pipeline for target {target.kind!r}",
            origin="lower",
            help="use the target 'llvm' or 'nvptx -arch=sm_80'",
        )
    return found


@functools.cache
def _imported(module: str) -> ModuleType:
    return importlib.import_module(module)


def backend_of(target: Target) -> Backend:
    """The backend of a target. Raises as :func:`kind_of`."""
    found: Backend = _imported(kind_of(target).backend).BACKEND
    return found


def pipeline_for(target: Target, overlap: bool = False) -> Pipeline:
    """The default pipeline of a target, with ``overlap`` that of the version for arrays that may overlap.

    Raises as :func:`kind_of`.
    """
    made: Pipeline = _imported(kind_of(target).pipeline).pipeline(target, overlap)
    return made
