"""Pipelines as values: steps in order, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tirlower.diagnostics import TransformError, nearest_name
from tirlower.ir.func import IRModule
from tirlower.rewrite.base import Fact, PassInfo, Stage, run_pass
from tirlower.rewrite.context import LOWER_PHASES
from tirlower.rewrite.scalar_overflow import building
from tirlower.transforms import Pass, PassContext

__all__ = ["LOWER_PHASES", "Pipeline", "Step"]


@dataclass(frozen=True)
class Step:
    """A pass in a pipeline, and why it stands where it does.

    ``option``: the configuration key that asks for the pass (without it the step is left out); ``unless``: the key that
    leaves it out. ``level``: the optimization level from which the step runs, unless the context requires the pass.
    ``ends``: the phase of ``tir.add_lower_pass`` that is over after this step.
    """

    one: Pass
    why: str
    option: str | None = None
    unless: str | None = None
    level: int = 0
    ends: int | None = None

    def enabled(self, ctx: PassContext) -> bool:
        """Whether a context runs this step."""
        if self.option is not None and not ctx.option(self.option):
            return False
        if self.unless is not None and ctx.option(self.unless):
            return False
        return ctx.pass_enabled(PassInfo(self.one.info.name, max(self.level, self.one.info.opt_level)))

    @property
    def certain(self) -> bool:
        """Whether every context runs this step, unless it disables the pass by its name."""
        return self.option is None and self.unless is None and max(self.level, self.one.info.opt_level) == 0

    @property
    def name(self) -> str:
        """The pass's name without its prefix."""
        return self.one.info.name.removeprefix("tir.")

    def __str__(self) -> str:
        return repr(self.one)


_STAGE_NEEDS: dict[Stage, tuple[str | Fact, ...]] = {
    Stage.BLOCK: (Fact.BLOCKS,),
    Stage.OPAQUE: (Fact.BLOCKS,),
    Stage.FLAT: ("tir.LowerOpaqueBlock",),
    Stage.FLAT_1D: ("tir.LowerOpaqueBlock", "tir.FlattenBuffer"),
}


def _order_error(step: Step, needed: str | Fact, breaker: Step | None) -> TransformError:
    if isinstance(needed, str) and breaker is None:
        return TransformError(f"{step.name} needs {needed} to run before it", origin="Pipeline")
    what = needed.value if isinstance(needed, Fact) else f"{needed} has run"
    after = breaker.name if breaker is not None else "nothing"
    return TransformError(
        f"{step.name} stands behind {after}, which ends what it needs: {what}",
        origin="Pipeline",
        notes=[f"{one.name}: {one.why}" for one in (step, breaker) if one is not None and one.why],
        help=f"put {step.name} before {after}",
    )


@dataclass(frozen=True)
class Pipeline:
    """Steps in order.

    Raises :class:`TransformError` at construction where a pass stands behind one that breaks what it needs, or without
    one that gives it. What a pass's stage says of its input is needed too. A step that a context may leave out breaks
    what it breaks, and gives nothing.
    """

    steps: tuple[Step, ...] = field(default=())

    def __post_init__(self) -> None:
        """Check the order."""
        holds: set[str | Fact] = set(Fact)
        broken: dict[str | Fact, Step] = {}
        for step in self.steps:
            for needed in (*_STAGE_NEEDS.get(step.one.stage, ()), *step.one.needs):
                if needed not in holds:
                    raise _order_error(step, needed, broken.get(needed))
            for fact in step.one.breaks:
                holds.discard(fact)
                broken[fact] = step
            if step.certain:
                holds.update((step.one.info.name, *step.one.gives))

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
            if not isinstance(until, str):
                raise TransformError(f"until= is the name of a pass, got {until!r}", origin="lower")
            stop = until.removeprefix("tir.")
            if stop not in self.names():
                near = nearest_name(stop, self.names())
                raise TransformError(
                    f"no pass {until!r} in the pipeline",
                    origin="lower",
                    help=f"did you mean {near!r}?" if near else f"its passes: {', '.join(self.names())}",
                )
        with building(mod):
            return self._run(mod, ctx, stop)

    def _run(self, mod: IRModule, ctx: PassContext, stop: str | None) -> IRModule:
        added = _added_passes(ctx)
        mod = _run_all(added[0], mod, ctx)
        for step in self.steps:
            if step.enabled(ctx):
                mod = run_pass(step.one, mod, ctx)
            if step.name == stop:
                return mod
            if step.ends is not None:
                mod = _run_all(added[step.ends], mod, ctx)
        return mod

    def __str__(self) -> str:
        return "\n".join(f"{step!s:<48} # {step.why}" for step in self.steps)


def _added_passes(ctx: PassContext) -> list[list[Pass]]:
    """The passes of ``tir.add_lower_pass``, by phase."""
    added: list[list[Pass]] = [[] for _ in range(LOWER_PHASES)]
    for phase, one in ctx.option("tir.add_lower_pass") or ():
        added[phase].append(one)
    return added


def _run_all(passes: list[Pass], mod: IRModule, ctx: PassContext) -> IRModule:
    for one in passes:
        mod = run_pass(one, mod, ctx)
    return mod
