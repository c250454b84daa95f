"""Running a pass under a context, over whatever kind of program it rewrites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from tirlower.diagnostics import TirError, deep_recursion, paused_collection
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.registry import short_name

__all__ = ["PassInfo", "Runnable", "run_pass"]

Program = TypeVar("Program")


@dataclass(frozen=True)
class PassInfo:
    """What the machinery knows of a pass: its name, the optimisation level from which it runs, what must run first."""

    name: str
    opt_level: int = 0
    required: tuple[str, ...] = ()
    traceable: bool = False


class Runnable(Protocol[Program]):
    """What :func:`run_pass` runs: a pass over modules, or over another kind of program."""

    @property
    def is_list(self) -> bool:
        """Whether it runs other passes, which are traced and certified by themselves."""

    @property
    def info(self) -> PassInfo:
        """Name, level and requirements."""

    def under(self, ctx: PassContext) -> Self:
        """The pass with the options that a context gives."""

    def rewritten(self, program: Program, ctx: PassContext) -> Program:
        """The rewriting itself; the same object where nothing changes."""

    def certify(self, before: Program, after: Program, ctx: PassContext) -> None:
        """Check a result anew."""


def run_pass(pass_: Runnable[Program], program: Program, ctx: PassContext) -> Program:
    """Run a pass on a program (a module, or a graph) under a context: instruments, trace, validation.

    Its errors carry its name. The program is returned as it is if an instrument says that the pass should not run, and the
    context does not require it.
    """
    info = pass_.info
    if not ctx.is_required(info):
        # All are asked, also after one has said no.
        asked = [getattr(instrument, "should_run", None) for instrument in ctx.instruments]
        answers = [should is None or bool(should(program, info)) for should in asked]
        if not all(answers):
            return program
    pass_ = pass_.under(ctx)
    ctx.notify("run_before_pass", program, info)
    try:
        with deep_recursion(), paused_collection():
            after = pass_.rewritten(program, ctx)
    except TirError as error:
        if error.origin is None:
            error.origin = info.name
        raise
    if ctx.validate and after is not program:
        pass_.certify(program, after, ctx)
    if ctx.trace and not pass_.is_list:
        ctx.traced(short_name(info.name), after)
    ctx.notify("run_after_pass", after, info)
    return after
