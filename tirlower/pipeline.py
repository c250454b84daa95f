"""The default sequence of passes of each target, as a value, with the reason for each position.

>>> from tirlower.pipeline import pipeline_for
>>> from tirlower.ir.target import Target
>>> [str(step) for step in pipeline_for(Target("llvm"))][:2]
['LowerInitBlock()', 'PlanAndUpdateBufferAllocationLocation()']
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tirlower.diagnostics import TransformError, nearest_name
from tirlower.ir.func import IRModule
from tirlower.ir.target import Target
from tirlower.transforms import (
    ConvertBlocksToOpaque,
    FlattenBuffer,
    LowerInitBlock,
    LowerIntrin,
    LowerMatchBuffer,
    LowerOpaqueBlock,
    Pass,
    PassContext,
    PlanAndUpdateBufferAllocationLocation,
    RemoveNoOp,
    Simplify,
    UnrollLoop,
    VectorizeLoop,
)
from tirlower.transforms.base import run_pass

__all__ = ["Pipeline", "Step", "cpu_pipeline", "pipeline_for"]


@dataclass(frozen=True)
class Step:
    """A pass in a pipeline, and why it stands where it does."""

    one: Pass
    why: str

    @property
    def name(self) -> str:
        """The pass's name without its prefix."""
        return self.one.info.name.removeprefix("tir.")

    def __str__(self) -> str:
        return repr(self.one)


@dataclass(frozen=True)
class Pipeline:
    """Steps in order. Raises :class:`TransformError` at construction when a pass's needs do not run before it."""

    steps: tuple[Step, ...] = field(default=())

    def __post_init__(self) -> None:
        """Check the order."""
        seen: set[str] = set()
        for step in self.steps:
            for needed in step.one.needs:
                if needed not in seen:
                    raise TransformError(f"{step.name} needs {needed} to run before it", origin="Pipeline")
            seen.add(step.one.info.name)

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def names(self) -> list[str]:
        """The names of the passes, in order."""
        return [step.name for step in self.steps]

    def run(self, mod: IRModule, ctx: PassContext, until: str | None = None) -> IRModule:
        """The module after all passes that the context enables, or after the first run of ``until``.

        Raises :class:`TransformError` when ``until`` is no pass of the pipeline.
        """
        stop = None
        if until is not None:
            stop = until.removeprefix("tir.")
            if stop not in self.names():
                near = nearest_name(stop, self.names())
                raise TransformError(
                    f"no pass {until!r} in the pipeline",
                    origin="lower",
                    help=f"did you mean {near!r}?" if near else f"its passes: {', '.join(self.names())}",
                )
        for step in self.steps:
            if ctx.pass_enabled(step.one.info):
                mod = run_pass(step.one, mod, ctx)
            if step.name == stop:
                break
        return mod

    def __str__(self) -> str:
        return "\n".join(f"{step!s:<48} # {step.why}" for step in self.steps)


def _steps(*pairs: tuple[Pass, str]) -> tuple[Step, ...]:
    return tuple(Step(one, why) for one, why in pairs)


def cpu_pipeline() -> Pipeline:
    """The passes of the CPU targets."""
    return Pipeline(
        _steps(
            (LowerInitBlock(), "first: what follows sees one body for each block"),
            (
                PlanAndUpdateBufferAllocationLocation(),
                "on blocks: their regions and iterator kinds say what loops carry",
            ),
            (ConvertBlocksToOpaque(), "iterators are no longer needed once allocations stand"),
            (LowerMatchBuffer(), "before blocks go: the matched regions stand on them"),
            (Simplify(), "bindings substituted into indices leave sums to fold"),
            (LowerOpaqueBlock(), "all that blocks said is now in loops, conditions and allocations"),
            (FlattenBuffer(), "after blocks: accesses alone name buffers"),
            (Simplify(), "flat offsets of nested loops fold"),
            (VectorizeLoop(), "on flat buffers: the last index alone carries the lanes"),
            (UnrollLoop(), "after vectorizing: unrolled copies hold vectors, not lanes"),
            (Simplify(), "copies with constant indices fold, decided branches go"),
            (RemoveNoOp(), "what folding emptied"),
            (LowerIntrin(), "last: shifts and masks hide the divisions that other passes reason about"),
        )
    )


def pipeline_for(target: Target) -> Pipeline:
    """The default pipeline of a target. Raises :class:`TransformError` for one without code generator."""
    if target.kind in ("llvm", "c"):
        return cpu_pipeline()
    raise TransformError(f"no pipeline for target {target.kind!r}", origin="lower", help="use the target 'llvm'")
