"""Pipelines as values: steps in order, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tirlower.diagnostics import TransformError, nearest_name
from tirlower.ir.func import IRModule
from tirlower.rewrite.base import PassInfo, run_pass
from tirlower.rewrite.context import LOWER_PHASES
from tirlower.rewrite.order import Placed, check_order
from tirlower.rewrite.scalar_overflow import building
from tirlower.transforms import Pass, PassContext

__all__ = ["FUSED", "LOWER_PHASES", "Pipeline", "Step"]


FUSED: Final = "on expressions as they are written; before what rewrites them, so that no pass decides what is rounded"
"""Why FuseMultiplyAdd stands where it does."""


@dataclass(frozen=True)
class Step:
    """A pass in a pipeline, and why it stands where it does.

    ``option``: the configuration key that asks for the pass (without it the step is left out); ``unless``: the key that
    leaves it out. ``level``: the optimization level from which the step runs, unless the context requires the pass.
    ``ends``: the phase of ``tir.add_lower_pass`` that is over after this step.
    """

    pass_: Pass
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
        return ctx.pass_enabled(PassInfo(self.pass_.info.name, max(self.level, self.pass_.info.opt_level)))

    @property
    def certain(self) -> bool:
        """Whether every context runs this step, unless it disables the pass by its name."""
        return self.option is None and self.unless is None and max(self.level, self.pass_.info.opt_level) == 0

    @property
    def name(self) -> str:
        """The pass's name without its prefix."""
        return self.pass_.info.name.removeprefix("tir.")

    def placed(self) -> Iterator[Placed]:
        """The passes that run in this step."""
        for pass_ in self.pass_.steps():
            yield Placed(pass_, self.why, self.certain and not pass_.info.opt_level)

    def __str__(self) -> str:
        return repr(self.pass_)


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
        check_order("Pipeline", [placed for step in self.steps for placed in step.placed()])

    def __iter__(self) -> Iterator[Step]:
        return iter(self.steps)

    def __len__(self) -> int:
        return len(self.steps)

    def names(self) -> list[str]:
        """The names of the passes, in order."""
        return [step.name for step in self.steps]

    def run(self, mod: IRModule, ctx: PassContext, until: str | None = None) -> IRModule:
        """The module after all passes that the context enables, or after the first run of ``until``.

        The passes of ``tir.add_lower_pass`` stand at the ends of their phases, with what they require before them.
        Raises :class:`TransformError` when ``until`` is no pass of the pipeline, and where one added may not stand.
        """
        steps = self._with_added(ctx)
        stop = None
        if until is not None:
            if not isinstance(until, str):
                raise TransformError(f"until= is the name of a pass, got {until!r}", origin="lower")
            stop, names = until.removeprefix("tir."), [step.name for step in steps]
            if stop not in names:
                near = nearest_name(stop, names)
                raise TransformError(
                    f"no pass {until!r} in the pipeline",
                    origin="lower",
                    help=f"did you mean {near!r}?" if near else f"its passes: {', '.join(names)}",
                )
        with building(mod):
            for step in steps:
                if step.enabled(ctx):
                    mod = run_pass(step.pass_, mod, ctx)
                if step.name == stop:
                    break
        return mod

    def _with_added(self, ctx: PassContext) -> tuple[Step, ...]:
        asked = ctx.option("tir.add_lower_pass")
        if not asked or not isinstance(asked, (list, tuple)):
            return self.steps
        added: list[list[Step]] = [[] for _ in range(LOWER_PHASES)]
        for phase, pass_ in asked:
            added[phase] += [Step(each, f"added to phase {phase}") for each in (*pass_.required(), pass_)]
        steps = (*added[0], *(each for step in self.steps for each in (step, *(added[step.ends] if step.ends else ()))))
        # What the context runs must be in order, whatever it leaves out: those may have run by hand.
        run = [Placed(pass_, step.why) for step in steps if step.enabled(ctx) for pass_ in step.pass_.steps()]
        check_order("Pipeline", run, [step.pass_.info.name for step in steps if not step.enabled(ctx)])
        return steps

    def __str__(self) -> str:
        return "\n".join(f"{step!s:<48} # {step.why}" for step in self.steps)
