"""Runs programs through passes and says what went wrong with which seed."""

from __future__ import annotations

import multiprocessing as mp
import re
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any, TextIO

from tests.fuzz.oracle import Expected, Mismatch, arguments_for, run_native
from tests.fuzz.sequences import names_of, passes_for
from tests.generate.programs import generate
from tirlower.diagnostics import TransformError
from tirlower.ir import Block, IntImm, IRModule, post_order_visit
from tirlower.ir.verify import verify_well_formed
from tirlower.script import parse
from tirlower.validate.shrink import Case, reduce_case

__all__ = ["Failure", "Report", "has_native", "run_many", "run_one"]

STUCK_S = 120.0
"""Seconds after which a program that has not ended counts as a failure."""

REFUSALS = {
    "tir.ForceNarrowIndexToInt32": "int64|uint32|wider|more than",
}
"""What passes may refuse by name: a pattern of the message."""


@dataclass
class Failure(Exception):
    """A program that went wrong: where, how, and what reproduces it."""

    seed: int
    where: str
    what: str
    program: str
    passes: str = ""
    before: str = ""
    after: str = ""

    def __post_init__(self) -> None:
        super().__init__(self.where)

    def __reduce__(self) -> Any:
        return Failure, (self.seed, self.where, self.what, self.program, self.passes, self.before, self.after)

    def __str__(self) -> str:
        parts = [f"seed {self.seed}: {self.where}: {self.what}", f"passes: {self.passes}", self.program]
        if self.before:
            parts += ["--- before the pass", self.before, "--- after it", self.after]
        parts.append(f"again: python -m tests.fuzz --seed {self.seed} --count 1 --native all")
        return "\n".join(parts)


@dataclass
class Report:
    """What was run."""

    programs: int = 0
    steps: int = 0
    native: int = 0
    unproved: int = 0
    refused: int = 0
    seconds: float = 0.0
    shapes: Counter[str] = field(default_factory=Counter)
    passes: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        rate = self.programs / self.seconds if self.seconds else 0.0
        return (
            f"{self.programs} programs, {self.steps} passes executed, {self.native} with native code, "
            f"{self.unproved} with loops not proved legal, {self.refused} passes refused, "
            f"{len(self.failures)} failures, {self.seconds:.0f} s ({rate:.1f} programs/s)"
        )


def has_native(seed: int) -> bool:
    """Whether native code runs too: every tenth program, of every kind."""
    return (seed + seed // 10) % 10 == 0


def _has_blocks(mod: IRModule) -> bool:
    found = []
    for _, func in mod.items():
        post_order_visit(func.body, lambda op: found.append(op) if isinstance(op, Block) else None)
    return bool(found)


def _refused(error: TransformError, name: str) -> bool:
    pattern = REFUSALS.get(name)
    return pattern is not None and re.search(pattern, str(error)) is not None


class _Stop(Exception):
    """Where a program went wrong; the error is the cause."""

    def __init__(self, where: str, before: str = "", after: str = "") -> None:
        super().__init__(where)
        self.where, self.before, self.after = where, before, after


def _examine(
    mod: IRModule, arguments: Sequence[Sequence[Any]], steps: Sequence[Any], native: bool, inexact: bool, report: Report
) -> None:
    """The program through its passes, each step executed. Raises :class:`_Stop`."""
    where, before, after = "the program itself", "", ""
    try:
        verify_well_formed(mod)
        expected = Expected(mod, arguments)
        if native:
            where = "native code of the program"
            report.native = 1
            report.unproved += run_native(mod, expected, legality=True, lowered=False, inexact=inexact)
        for number, one in enumerate(steps):
            where = f"pass {number + 1} of {len(steps)}, {one!r}"
            before, after = "", ""
            try:
                made = one(mod)
            except TransformError as error:
                if not _refused(error, one.info.name):
                    before = mod.script()
                    raise
                report.refused += 1
                continue
            report.passes[one.info.name.removeprefix("tir.")] += 1
            if made is mod:
                continue
            report.steps += 1
            try:
                verify_well_formed(made)
                expected.check(made)
            except Exception:
                before, after = mod.script(), made.script()
                raise
            mod = made
        if native:
            where, before, after = "native code after the passes", "", mod.script()
            run_native(mod, expected, legality=False, lowered=len(steps) > 12, inexact=inexact)
            where = "the script of the result"
            parse(after)
    except Exception as error:
        raise _Stop(where, before, after) from error


def run_one(seed: int, *, native: bool = False, skip: Sequence[str] = (), reduce: float = 0.0) -> Report:
    """Run the program of a seed. Raises :class:`Failure`, its program reduced in so many seconds."""
    program = generate(seed)
    report = Report(programs=1, shapes=Counter(program.shape.split("+")))
    try:
        mod = IRModule(parse(program.text))
        # What has no sizes and scalars to vary is run once.
        varied = any(not isinstance(e, IntImm) for b in mod["main"].buffers for e in b.shape) or seed % 4 == 0
        varied = varied or len(mod["main"].params) > len(mod["main"].buffers)
        arguments = arguments_for(mod, seed, empty=program.empty, samples=2 if varied else 1)
    except Exception as error:
        raise Failure(seed, "the generator", _told(error), program.text) from error
    steps = passes_for(seed, _has_blocks(mod), skip)
    try:
        _examine(mod, arguments, steps, native, program.inexact, report)
    except _Stop as stop:
        text, what = program.text, _told(stop.__cause__)
        if reduce:
            smaller = _reduced(mod, arguments, steps, native, stop, program.inexact, reduce)
            text += f"\n--- reduced\n{smaller.mod.script()}\narguments: {smaller.arguments}\n"
        raise Failure(seed, stop.where, what, text, names_of(steps), stop.before, stop.after) from stop
    return report


def _too_long(*_: object) -> None:
    raise TimeoutError("the candidate does not end")


def _told(error: BaseException | None) -> str:
    what = f"{type(error).__name__}: {error}"
    return what if isinstance(error, Mismatch) else what + "\n" + "".join(traceback.format_exception(error)[-4:])


def _reduced(
    mod: IRModule,
    arguments: Sequence[Sequence[Any]],
    steps: Sequence[Any],
    native: bool,
    stop: _Stop,
    inexact: bool,
    seconds: float,
) -> Case:
    """The smallest program that goes wrong at the same place with the same kind of error."""

    def fails(case: Case) -> bool:
        # Without its counter a while loop never ends: an alarm ends the attempt.
        signal.setitimer(signal.ITIMER_REAL, 3.0)
        try:
            _examine(case.mod, [case.arguments], steps, native, inexact, Report())
        except _Stop as other:
            return other.where == stop.where and type(other.__cause__) is type(stop.__cause__)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return False

    signal.signal(signal.SIGALRM, _too_long)
    name = next(iter(mod))
    cases = [Case(mod, name, tuple(args)) for args in arguments]
    case = next((one for one in cases if fails(one)), None)
    return reduce_case(case, fails, seconds) if case is not None else cases[0]


def _add(total: Report, one: Report) -> None:
    total.programs += one.programs
    total.steps += one.steps
    total.native += one.native
    total.unproved += one.unproved
    total.refused += one.refused
    total.shapes += one.shapes
    total.passes += one.passes


def _work(
    pipe: Connection, first: int, stride: int, end: float, limit: int, native: str, skip: Sequence[str], reduce: float
) -> None:
    """A worker: seeds first, first + stride, … until the time or the count is reached."""
    warnings.simplefilter("ignore")
    for number in range(limit):
        if time.monotonic() > end:
            break
        seed = first + number * stride
        pipe.send(("start", seed))
        try:
            done: Report | Failure = run_one(
                seed, native=native == "all" or (native == "tenth" and has_native(seed)), skip=skip, reduce=reduce
            )
        except Failure as failure:
            done = failure
        pipe.send(("done", done))
    pipe.send(("end", None))
    pipe.close()


def run_many(
    seed: int,
    *,
    seconds: float = float("inf"),
    count: int | None = None,
    workers: int = 1,
    native: str = "tenth",
    skip: Sequence[str] = (),
    log: TextIO | None = None,
    stop_after: int = 20,
    reduce: float = 0.0,
) -> Report:
    """Run programs from a seed on, in processes of their own: one that crashes or hangs is a failure too."""
    begun = time.monotonic()
    end = begun + seconds
    total = Report()
    left = [((count or 10**9) + workers - 1 - i) // workers for i in range(workers)]
    following = [seed + i for i in range(workers)]
    context = mp.get_context("fork")
    running: dict[Connection, list[Any]] = {}

    def start(worker: int) -> None:
        ours, theirs = context.Pipe(False)
        arguments = (theirs, following[worker], workers, end, left[worker], native, skip, reduce)
        process = context.Process(target=_work, args=arguments)
        process.start()
        theirs.close()
        running[ours] = [worker, process, None, time.monotonic()]

    def fail(failure: Failure) -> None:
        total.failures.append(failure)
        if log is not None:
            print(f"{'=' * 100}\n{failure}", file=log, flush=True)

    def gone(pipe: Connection, what: str) -> None:
        worker, process, current, _ = running.pop(pipe)
        process.kill()
        process.join()
        if current is not None:
            fail(Failure(current, "the process", f"{what} ({process.exitcode})", generate(current).text))
            total.programs += 1
            following[worker] = current + workers
            left[worker] -= 1
            start(worker)

    for worker in range(workers):
        start(worker)
    shown = begun
    while running and len(total.failures) < stop_after:
        for ready in wait(list(running), timeout=1.0):
            pipe = ready
            state = running[pipe]  # type: ignore[index]
            try:
                kind, value = pipe.recv()  # type: ignore[union-attr]
            except EOFError:
                gone(pipe, "died")  # type: ignore[arg-type]
                continue
            state[3] = time.monotonic()
            if kind == "start":
                state[2] = value
            elif kind == "done":
                worker = state[0]
                following[worker], left[worker] = state[2] + workers, left[worker] - 1
                state[2] = None
                if isinstance(value, Failure):
                    fail(value)
                    total.programs += 1
                else:
                    _add(total, value)
            else:
                state[1].join()
                del running[pipe]  # type: ignore[arg-type]
        now = time.monotonic()
        for pipe, state in list(running.items()):
            if state[2] is not None and now - state[3] > STUCK_S:
                gone(pipe, f"did not end in {STUCK_S:.0f} s")
        total.seconds = now - begun
        if log is not None and now - shown > 60:
            shown = now
            print(f"[{now - begun:.0f} s, next seed {min(following)}] {total}", file=log, flush=True)
    for state in running.values():
        state[1].kill()
        state[1].join()
    total.seconds = time.monotonic() - begun
    return total
