"""The steps of a build, whatever the target: verification, legality, passes, code generation, compilation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from tirlower.diagnostics import TirError
from tirlower.driver.progress import Progress
from tirlower.driver.result import BuildResult, BuildSpec
from tirlower.ir.verify import verify_well_formed
from tirlower.transforms import PassContext, PassTimingInstrument

__all__ = ["compile_version"]


def compile_version(result: BuildResult, ctx: PassContext) -> object:
    """Take the steps for a version; gives what the backend's compiler made, and notes the rest in the result."""
    spec, backend = result.spec, result.backend
    progress = Progress(", ".join(result.home or spec.module))
    times = [time.perf_counter()]

    def done() -> None:
        times.append(time.perf_counter())

    progress.begin("verification")
    verify_well_formed(spec.module)
    done()
    progress.begin("legality")
    written = spec.check_written(ctx)
    done()
    progress.begin("schedule")
    with _told_apart(spec):
        legal = spec.check_scheduled(written, ctx)
        result.checks, result.in_place = legal.checks, legal.in_place
        done()
        timing = PassTimingInstrument()
        ctx = ctx.child(timing, progress)
        result.lowered = spec.run_passes(legal.module, ctx)
        result.passes = {name.removeprefix("tir."): seconds * 1e3 for name, seconds in timing.times.items()}
        if ctx.trace:
            result.traced = dict(ctx.ir_after)
        done()
        progress.begin("code generation")
        code = backend.generate(result)
        done()
    steps = zip(("verify", "legality", "schedule", "passes", "generate"), times, times[1:], strict=False)
    result.timings.update({step: (after - before) * 1e3 for step, before, after in steps})
    made = backend.compile(result, code, progress)
    progress.begin("")
    return made


@contextmanager
def _told_apart(spec: BuildSpec) -> Iterator[None]:
    """Errors in what an automatic schedule made of a program say so: nobody wrote those loops."""
    try:
        yield
    except TirError as error:
        made = vars(spec).get("scheduled")
        if spec.is_automatic and made is not None and made.module is not spec.module:
            error.notes.append('the loops are those of the automatic schedule; schedule="none" builds what is written')
        raise
