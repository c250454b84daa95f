"""Asks the library of a program and decides each answer by enumeration."""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests.judge.arithmetic import Meaningless, has_wide_numbers
from tests.judge.evaluate import Run, TooLong, run_program, size_of
from tests.judge.oracle import forgotten, happened, keeps_order, parallel_conflict, vector_conflict
from tests.judge.program import Program, Text, print_program, statements
from tests.judge.rewrite import Question, questions
from tests.judge.sizes import accessed, environments, is_static
from tests.judge.translate import INIT
from tirlower import poly
from tirlower.diagnostics import LegalityError, TirError
from tirlower.ir import IRModule
from tirlower.legality.check import check_legality
from tirlower.poly.isl import default_solver
from tirlower.script import parse
from tirlower.transforms import PassContext

__all__ = ["SLOW_S", "Finding", "BoundVerdicts", "judge", "serial"]

SLOW_S = 0.25


@dataclass(frozen=True)
class Finding:
    """A wrong answer: what kind ("unsound", "false witness", "crash", …), to which question, and what happened."""

    kind: str
    question: str
    what: str

    @property
    def key(self) -> tuple[str, str]:
        """What a smaller program must still show: the kind and the question without names of loops."""
        name = self.question.partition("(")[0] + (" with reductions" if "reductions" in self.question else "")
        return self.kind, name + (f": {self.sort}" if self.sort else "")

    @property
    def sort(self) -> str:
        """What sort of fault, in a word or two."""
        for word in (
            "names are shared",
            "the results differ",
            "nothing wrote",
            "a break leaves",
            "an iteration meets",
            "an init forgets",
        ):
            if word in self.what:
                return word
        return ""


@dataclass
class BoundVerdicts:
    """All about one program. ``refused`` are legal static questions that were refused, with their reasons."""

    findings: list[Finding] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[str, str]] = field(default_factory=list)
    slow: list[tuple[str, float]] = field(default_factory=list)
    slowest: float = 0.0
    built: str = ""


def judge(program: Program, seed: int, only: tuple[str, str] | None = None) -> BoundVerdicts:
    """Ask everything about a program. ``only`` leaves out the questions of other kinds (to make a program smaller)."""
    return _Judge(program, seed, only).judged


class _Judge:
    def __init__(self, program: Program, seed: int, only: tuple[str, str] | None) -> None:
        self.program = program
        self.judged = BoundVerdicts()
        self.only = only
        self.text: Text = print_program(program)
        self.static = is_static(program)
        self.environments = environments(program, seed)
        self.runs: list[Run] = []
        self.ran: list[tuple[dict[str, int], int, Run]] = []
        if has_wide_numbers(program.body):
            self.judged.asked["discarded"] += 1
            return
        self.by_sizes: dict[tuple[tuple[str, int], ...], list[Run]] = {}
        for sizes, data in self.environments:
            try:
                run = run_program(program, sizes, data)
            except Meaningless:
                continue
            except (TooLong, KeyError):
                self.judged.asked["discarded"] += 1
                return
            self.runs.append(run)
            self.ran.append((sizes, data, run))
        if not self.runs:
            self.judged.asked["meaningless"] += 1
            return
        self.whole = len(self.runs) == len(self.environments)
        self.outside = any(run.outside or run.failed for run in self.runs)
        try:
            parsed = parse(self.text.text, name="p.py")
        except TirError as error:
            self.judged.asked["not a program"] += 1
            self.judged.refused.append(("parse", _plain(str(error.message))))
            return
        self.module = parsed if isinstance(parsed, IRModule) else IRModule({"main": parsed})
        self.func: Any = self.module["main"]
        try:
            self.scop = self.timed("extract", lambda: poly.extract(self.func, self.module))
        except _Crashed:
            return
        self.loops()
        self.bounds()
        self.orders()
        self.build()

    # Asking

    def wants(self, question: str) -> bool:
        return self.only is None or self.only[1].partition(":")[0].partition(" ")[0] == question

    def timed(self, question: str, ask: Callable[[], Any]) -> Any:
        start = time.process_time()  # of this process: others run beside it
        try:
            return ask()
        except TirError:
            raise
        except Exception as error:  # whatever it is, a user would see it
            self.find("crash", question, f"{type(error).__name__}: {str(error)[:200]}")
            raise _Crashed from error
        finally:
            took = time.process_time() - start
            if took > SLOW_S:
                took = min(took, self.asked_anew(ask), self.asked_anew(ask))
            self.judged.slowest = max(self.judged.slowest, took)
            if took > SLOW_S:
                self.judged.slow.append((question, took))

    def asked_anew(self, ask: Callable[[], Any]) -> float:
        """The time of a question of which nothing is remembered: what else runs on the machine slows one down by half."""
        default_solver()._memo.clear()
        self.scop = poly.extract(self.func, self.module)
        start = time.process_time()
        with contextlib.suppress(Exception):  # the first answer was looked at
            ask()
        return time.process_time() - start

    def find(self, kind: str, question: str, what: str) -> None:
        self.judged.findings.append(Finding(kind, question, what))

    # Loops

    def loops(self) -> None:
        for stmt in statements(self.program.body):
            if stmt[0] != "for":
                continue
            var = stmt[1]
            for reductions in (False, True):
                self.loop("is_parallel", var, reductions, poly.is_parallel, parallel_conflict)
                self.loop("is_vectorizable", var, reductions, poly.is_vectorizable, vector_conflict)
            bind = lambda func, loop, reductions: poly.can_bind(func, loop, "blockIdx.x", reductions=reductions)
            self.loop("can_bind", var, False, bind, parallel_conflict)

    def loop(self, name: str, var: str, reductions: bool, ask: Any, conflict_of: Any) -> None:
        if not self.wants(name):
            return
        question = f"{name}({var}{', reductions' if reductions else ''})"
        try:
            verdict = self.timed(question, lambda: ask(self.scop, var, reductions=reductions))
        except _Crashed:
            return
        except TirError:
            self.judged.asked["loops that the script dropped"] += 1  # what never runs
            return
        self.judged.asked[f"{name} {verdict.status}"] += 1
        truth = self.loop_truth(var, reductions, conflict_of)
        if verdict.proved and truth not in ("legal", "open"):
            self.find("unsound", question, f"proved, but {truth}")
        if verdict.refuted:
            self.witness(question, verdict)
        if self.static and truth == "legal" and not self.outside:
            self.judged.asked[f"{name} legal"] += 1
            if not verdict.proved:
                self.judged.refused.append((name, _plain(verdict.reason)))

    def loop_truth(self, var: str, reductions: bool, conflict_of: Any) -> str:
        """ "legal", "open" (a break at the very end, or too few runs to say so), or what is wrong."""
        for run in self.runs:
            if var in run.left:
                return f"a break leaves {var} early"
            conflict = conflict_of(run, var, reductions)
            if conflict is not None:
                return f"an iteration meets another: {conflict[0]} and {conflict[1]}"
            if reductions and conflict_of(run, var, False) is not None:
                if not _plain_reduction(run, var):
                    return "open"
                lost = forgotten(run, var)
                if lost is not None:
                    return f"an init forgets an update: {lost[0]} and {lost[1]}"
        if any(f"{var} at its end" in run.left for run in self.runs):
            return "open"
        return "legal"

    def witness(self, question: str, verdict: Any) -> None:
        """A refutation with a witness: the two iterations meet; without: there is a conflict, if it is of dependences."""
        witness = verdict.witness
        if witness is None:
            return
        runs = self.runs
        if witness.parameters:
            sizes = {str(name): int(value) for name, value in witness.parameters.items()}
            try:
                runs = self.with_sizes(self.filled(sizes))
            except (TooLong, Meaningless, KeyError):
                return
        if any(run.failed for run in runs):
            return
        points = []
        for point in witness.points:
            number = self.number_of(point)
            if number is None:
                return
            points.append((number, point.loops, point.indices))
        if not happened(runs, points):
            self.find("false witness", question, f"{verdict.reason}: {witness}")

    def with_sizes(self, sizes: dict[str, int]) -> list[Run]:
        key = tuple(sizes.items())
        if key not in self.by_sizes:
            self.by_sizes[key] = [run_program(self.program, sizes, data) for data in (0, 1, 2)]
        return self.by_sizes[key]

    def filled(self, sizes: dict[str, int]) -> dict[str, int]:
        return {name: sizes.get(name, 3) for name in (*self.program.symbols, *self.program.scalars)}

    def number_of(self, point: Any) -> int | None:
        """The number of the access that a point is, by its place in the text."""
        span = point.span
        if span is None:
            return None
        found = re.search(r":(\d+):(\d+)", str(span))
        if found is None:
            return None
        line, column = int(found[1]), int(found[2])
        for number, place in enumerate(self.text.places):
            if place.line == line and place.is_write == point.is_write:
                if place.is_write or place.column == column:
                    return number
        return None

    # Bounds

    def bounds(self) -> None:
        if not self.wants("bounds"):
            return
        text = print_program(serial(self.program))
        parsed: Any = parse(text.text, name="p.py")
        module = parsed if isinstance(parsed, IRModule) else IRModule({"main": parsed})
        out = {event.number for run in self.runs for event in run.events if not event.inside}
        try:
            checks = self.timed("bounds", lambda: check_legality(module, PassContext()).checks)
        except _Crashed:
            return
        except LegalityError as error:
            self.judged.asked["bounds refuted"] += 1
            if not out and self.whole and self.static:
                self.find("false refusal", "bounds", _plain(str(error.message)))
            return
        open_ = {(note.access, *_line_column(note.place)) for note in checks.guarded}
        trusted = {note.access for note in checks.trusted}
        named = accessed(self.program)
        lines = text.text.split("\n")
        for number, place in enumerate(text.places):
            own = _bound_at(lines[place.line - 1], place.column)
            guarded = any(
                line == place.line
                and (place.is_write or column == place.column or (own and own == _bound_at(lines[line - 1], column)))
                for _, line, column in open_
            )
            self.judged.asked[f"access {'guarded' if guarded else 'proved'}"] += 1
            if not guarded and number in out:
                kind = "trusted" if named[number] in trusted else "unsound"
                self.find(kind, "bounds", f"{named[number]} at {place.line}:{place.column} is unguarded, goes outside")
            if guarded and number not in out and self.static:
                self.judged.asked["access guarded for nothing"] += 1

    # Order of loops

    def orders(self) -> None:
        for question in questions(self.program):
            if self.wants(question.kind):
                self.order(question)

    def order(self, question: Question) -> None:
        try:
            verdict = self.timed(question.text, lambda: self.ask_order(question))
        except (_Crashed, TirError):
            return
        self.judged.asked[f"{question.kind} {verdict.status}"] += 1
        if verdict.refuted:
            self.witness(question.text, verdict)
        truth = self.order_truth(question)
        if verdict.proved and truth not in ("legal", "equal", "open"):
            self.find("unsound", question.text, f"proved, but {truth}")
        cannot = question.structural or "cannot be cut at" in verdict.reason
        if self.static and truth == "legal" and not cannot and not self.outside:
            self.judged.asked[f"{question.kind} legal"] += 1
            if not verdict.proved:
                self.judged.refused.append((question.kind, _plain(verdict.reason)))

    def ask_order(self, question: Question) -> Any:
        if question.kind == "reorder":
            return poly.can_reorder(self.scop, list(question.loops))
        if question.kind == "fuse":
            return poly.can_fuse(self.scop, *question.loops)
        # Several statements of the script may be one in the IR, or none: cut where the judge does, by its text.
        at = question.at
        return poly.can_distribute(self.scop, question.loops[0], at)

    def order_truth(self, question: Question) -> str:
        if question.open:
            return "open"
        if question.after is None:
            return "the loops cannot change: names are shared"
        runs = []
        for sizes, data, before in self.ran:
            try:
                after = run_program(question.after, sizes, data)
            except Meaningless as error:
                return f"after it: {error}, with {sizes}"
            except (TooLong, KeyError):
                return "open"
            if before.outside or after.outside:
                return "open"
            if before.result() != after.result():
                return f"the results differ with {sizes}, data {data}"
            runs.append((before, after))
        if not self.static:
            return "equal"  # of legal questions only static ones are counted
        return "legal" if all(keeps_order(before, after, question.renamed) for before, after in runs) else "equal"

    # Building

    def is_refused(self, sizes: Mapping[str, int]) -> bool:
        """Whether a call with loops at once is refused: strides that the script states let two subscripts of an array name one
        element, in extents that the call brings."""
        for buf in self.program.params:
            if buf.strides and not all(isinstance(extent, int) for extent in buf.shape):
                strides = [int(stride) for stride in buf.strides]
                # Of places that meet there are two that are at most so far apart along each dimension, however long it is: the
                # shortest sums of multiples of some numbers that are 0 have less than twice the greatest of them as terms
                # (Sturmfels, Gröbner Bases and Convex Polytopes, theorem 4.7).
                far = 2 * max(1, *map(abs, strides)) + 1
                elements = np.zeros(1, np.int64)
                for extent, stride in zip(buf.shape, strides, strict=True):
                    along = np.arange(min(size_of(extent, sizes), far), dtype=np.int64) * stride
                    elements = np.add.outer(elements, along).reshape(-1)
                if len(np.unique(elements)) < len(elements):
                    return True
        return False

    def build(self) -> None:
        """The whole check with the kinds that the loops have."""
        if not self.wants("build"):
            return
        special = [stmt for stmt in statements(self.program.body) if stmt[0] == "for" and stmt[2] != "serial"]
        if not special:
            return
        # What a call refuses does not run.
        all_runs, self.runs = self.runs, [run for sizes, _, run in self.ran if not self.is_refused(sizes)]
        truths = []
        for stmt in special:
            if stmt[2] == "unroll":
                constant = stmt[3][0] == stmt[4][0] == "c"
                left = any(stmt[1] in run.left or f"{stmt[1]} at its end" in run.left for run in self.runs)
                truths.append("legal" if constant and not left else "open")
            else:
                of = parallel_conflict if stmt[2] == "parallel" else vector_conflict
                truths.append(self.loop_truth(stmt[1], stmt[5], of))
        self.runs = all_runs
        wrong = [truth for truth in truths if truth not in ("legal", "open")]
        try:
            self.timed("build", lambda: check_legality(self.module, PassContext()))
            self.judged.built = "accepted"
            if wrong:
                self.find("unsound", "build", f"accepted, but {wrong[0]}")
        except _Crashed:
            return
        except LegalityError as error:
            self.judged.built = "refused"
            if self.static and self.whole and not self.outside and all(truth == "legal" for truth in truths):
                self.judged.refused.append(("build", _plain(str(error.message))))
        except TirError as error:
            self.find("error", "build", f"{type(error).__name__}: {str(error.message)[:200]}")
        if self.static and self.whole and not self.outside and all(truth == "legal" for truth in truths):
            self.judged.asked["build legal"] += 1
        self.judged.asked[f"build {self.judged.built}"] += 1


def _plain_reduction(run: Run, var: str) -> bool:
    """Whether a loop only updates what it updates, in one way, in its own type: nothing else is asked to be known."""
    inside = [event for event in run.events if any(name == var for name, _, _ in event.loops)]
    updated = {event.memory for event in inside if event.update}
    ways = {(event.memory, event.update.removeprefix(INIT), event.size) for event in inside if event.memory in updated}
    return len(ways) == len(updated) and all(size == 4 for _, _, size in ways)


class _Crashed(Exception):
    """The library raised what is no error of its own."""


def serial(program: Program) -> Program:
    """The program with serial loops."""
    return replace(program, body=_serial(program.body))


def _serial(body: tuple[Any, ...]) -> Any:
    if not isinstance(body, tuple):
        return body
    if body and body[0] == "for":
        return (body[0], body[1], "serial", body[3], body[4], False, _serial(body[6]))
    return tuple(_serial(part) for part in body)


def _line_column(place: str) -> tuple[int, int]:
    found = re.search(r":(\d+):(\d+)", place)
    return (int(found[1]), int(found[2])) if found else (0, 0)


_CAUSES = {
    "break or continue": "leave|leaves|how often a loop runs|how long the loop",
    "private call": "GlobalVar|call with effects",
    "narrow cast": "Cast",
    "shift": "shift_",
    "bits": "bitwise_",
    "product of variables": r"\*",
}


def _bound_at(line: str, column: int) -> str:
    """The load at a column of a loop's head: where start and stop have the same one, their difference has none."""
    depth = 0
    if line.lstrip().startswith("for "):
        for at in range(column - 1, len(line)):
            depth += (line[at] == "[") - (line[at] == "]")
            if line[at] == "]" and not depth:
                return line[column - 1 : at]
    return ""


def _plain(reason: str) -> str:
    """The cause of a refusal, in words without names and numbers."""
    unknown = reason.split("is not known:")
    for cause, pattern in _CAUSES.items():
        if re.search(
            pattern, unknown[-1] if len(unknown) > 1 or cause in ("break or continue", "private call") else ""
        ):
            return cause
    reason = re.sub(r"'[^']*'|`[^`]*`", "…", reason.split("\n")[0])
    return re.sub(r"\b[A-Z]\w*\[.*\]|\b[A-Zqtxi]\d*\b|-?\b\d+\b", "…", reason)[:120]
