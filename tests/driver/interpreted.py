"""A backend of a few lines: kernels are run by the interpreter. It stands in for a target that somebody adds."""

from __future__ import annotations

from typing import Any

from tirlower.call.slowpath import PackedKernel
from tirlower.driver.kernel import Built
from tirlower.driver.progress import Progress
from tirlower.driver.report import Report, report_of
from tirlower.driver.result import BuildResult
from tirlower.driver.steps import compile_version
from tirlower.emit.compile import CompileOptions
from tirlower.interp.interpreter import Interpreter
from tirlower.machine.target import Target
from tirlower.transforms import PassContext


class InterpretedKernel(Built):
    """A function that the interpreter runs."""

    def __init__(self, result: BuildResult, name: str, run: Interpreter) -> None:
        self.artifact = result
        self.named(result.function(name), name)
        self._run = run

    def __call__(self, /, *args: Any) -> Any:
        """Interpret the lowered function."""
        return self._run.call(self.name, *args)


class InterpretedBackend:
    """The steps of a build, none of which compiles."""

    def resolve(self, target: Target, ctx: PassContext) -> tuple[Target, CompileOptions]:
        """Nothing of this machine counts."""
        return target, CompileOptions()

    def compiled(self, result: BuildResult, ctx: PassContext) -> Interpreter:
        """What runs."""
        run: Interpreter = compile_version(result, ctx)
        return run

    def generate(self, result: BuildResult) -> str:
        """The script."""
        return result.lowered.script()

    def compile(self, result: BuildResult, code: str, progress: Progress) -> Interpreter:
        """An interpreter of the module."""
        return Interpreter(result.lowered)

    def bind(self, result: BuildResult, compiled: Interpreter) -> dict[str, InterpretedKernel]:
        """The kernels."""
        return {name: InterpretedKernel(result, name, compiled) for name in result.spec.outputs}

    def packed(self, result: BuildResult, compiled: Interpreter, name: str) -> PackedKernel:
        """No call asks for it."""
        raise AssertionError(name)

    def text(self, result: BuildResult, kind: str) -> str:
        """The script, told once more."""
        return f"# {kind}\n{result.code}"

    def report(self, result: BuildResult) -> Report:
        """What the build did."""
        return report_of(result)


BACKEND = InterpretedBackend()
