"""Sources, spans, the error classes, and the one renderer of messages.

Every error that a user can see is a :class:`TirError`. It carries the fact once (a message), where it is
(labels: spans of a script or of printed IR, each with a word), and what to do (help); :func:`render` lays it out:

    error[reorder]: cannot move `j` outside `i`: the swap reverses a dependence
     --> stencil.py:3:13
    3 |         for j in range(7):
      |             ^ loop being hoisted
      = help: skew `j` by `i` first
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar

# Where they were before they had a room of their own.
from tirlower.support import deep_recursion, keep_for_good, paused_collection

__all__ = [
    "AllocationError",
    "Ambiguous",
    "ArgumentError",
    "ArgumentTypeError",
    "ArgumentValueError",
    "BadArgument",
    "BoundsError",
    "CodegenError",
    "DeadHandle",
    "DeviceError",
    "DivisionByZeroError",
    "IllegalStep",
    "InterpreterError",
    "Label",
    "LegalityError",
    "LoweringError",
    "NotApplicable",
    "NotFound",
    "RuntimeAssertError",
    "ScheduleError",
    "ScriptError",
    "Source",
    "Span",
    "StricterThanLegal",
    "TirError",
    "TraceError",
    "TransformError",
    "UnboundError",
    "UnprovedStep",
    "ValidationError",
    "WellFormedError",
    "deep_recursion",
    "keep_for_good",
    "nearest_name",
    "paused_collection",
    "render",
    "user_frames",
]


class Source:
    """A text that spans point into: a script file, a string, or printed IR.

    ``first_line`` is the line number of the text's first line in its file, so that a decorated function in the
    middle of a file is reported with the file's own numbers.
    """

    __slots__ = ("first_line", "lines", "name")

    def __init__(self, text: str, name: str = "<script>", first_line: int = 1) -> None:
        self.name = name
        self.first_line = first_line
        self.lines = text.split("\n")

    def line(self, number: int) -> str:
        """The text of a line by its number in the file; empty where the source does not reach."""
        index = number - self.first_line
        return self.lines[index] if 0 <= index < len(self.lines) else ""

    def __repr__(self) -> str:
        return f"Source({self.name!r}, {len(self.lines)} lines)"


class Span:
    """A place in a source: lines count from 1, columns from 0; the end column is exclusive."""

    __slots__ = ("col", "end_col", "end_line", "line", "source")

    def __init__(self, source: Source, line: int, col: int, end_line: int, end_col: int) -> None:
        self.source = source
        self.line = line
        self.col = col
        self.end_line = end_line
        self.end_col = end_col

    @property
    def text(self) -> str:
        """The spanned text of the first line (for messages)."""
        line = self.source.line(self.line)
        return line[self.col : self.end_col] if self.end_line == self.line else line[self.col :]

    def __repr__(self) -> str:
        return f"Span({self.source.name}:{self.line}:{self.col + 1})"

    def __str__(self) -> str:
        return f"{self.source.name}:{self.line}:{self.col + 1}"


@dataclass(frozen=True)
class Label:
    """A span with a word about it. The primary label is underlined with ``^``, others with ``~``."""

    span: Span | None
    text: str = ""
    primary: bool = True


class TirError(Exception):
    """Base of all errors of tirlower.

    Parameters: ``message`` says what is wrong, with the values concerned; ``origin`` names the pass or part that
    found it; ``labels`` point at the places; ``notes`` add facts; ``help`` says what to do.

    >>> print(TirError("the extent is negative", origin="For", help="use an extent of at least 0"))
    error[For]: the extent is negative
      = help: use an extent of at least 0
    """

    default_help: ClassVar[str | None] = None
    """What to do when the place that raises says nothing: for errors whose remedy is always the same."""

    def __init__(
        self,
        message: str,
        *,
        origin: str | None = None,
        span: Span | None = None,
        labels: Iterable[Label] = (),
        notes: Iterable[str] = (),
        help: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.origin = origin
        self.labels: list[Label] = ([Label(span)] if span is not None else []) + list(labels)
        self.notes = list(notes)
        self.help = help or self.default_help

    def __str__(self) -> str:
        return render(self)


class ScriptError(TirError, SyntaxError):
    """A mistake in a script: syntax outside the dialect, an unknown name, a wrong type."""

    def __init__(
        self,
        message: str,
        *,
        origin: str | None = None,
        span: Span | None = None,
        labels: Iterable[Label] = (),
        notes: Iterable[str] = (),
        help: str | None = None,
    ) -> None:
        TirError.__init__(self, message, origin=origin, span=span, labels=labels, notes=notes, help=help)
        where = next((label.span for label in self.labels if label.span is not None), None)
        # A traceback shows a syntax error by its own place and `msg`, without `str`: what is to be read goes there.
        self.msg = message + "".join("\n" + line for line in _details(self, placed=where is not None))
        if where is not None:
            self.filename = where.source.name
            self.lineno = where.line
            self.offset = where.col + 1
            self.end_lineno = where.end_line
            self.end_offset = where.end_col + 1
            self.text = where.source.line(where.line)


class WellFormedError(TirError, ValueError):
    """A function or module that breaks a rule of the IR (``verify_well_formed`` lists the rules)."""


class TransformError(TirError):
    """A pass that cannot be applied to its input: a broken precondition, an illegal annotation, a bad option."""


class LegalityError(TransformError):
    """A loop kind or a reordering that changes what the program computes, or cannot be proved not to."""


class ScheduleError(TransformError):
    """A step of a schedule that is not taken; the schedule is as it was before. Base of what schedules raise."""


class IllegalStep(ScheduleError, LegalityError):
    """A step that would change what the program computes: ``verdict`` says why, ``witness`` shows two iterations."""

    verdict: object = None
    witness: object = None


class UnprovedStep(ScheduleError, LegalityError):
    """A step of which it is not known whether it keeps what the program computes; ``verdict`` says what is missing."""

    verdict: object = None


class NotApplicable(ScheduleError):
    """The program has not the form that a step transforms."""


class StricterThanLegal(ScheduleError):
    """A condition of TVM's that a step does not meet, asked for with ``accept="tvm"``."""


class NotFound(ScheduleError):
    """Nothing that a name or a pattern means."""


class Ambiguous(ScheduleError):
    """Several things that a name or a pattern means, where one is wanted."""


class DeadHandle(ScheduleError, IndexError, ValueError):
    """A handle of what a step ended, or of another schedule."""


class BadArgument(ScheduleError, ValueError):
    """An argument of a step out of its range: factors, axes, orders, keys."""


class TraceError(ScheduleError, ValueError):
    """A trace that cannot be read, or does not apply to a schedule."""


class ValidationError(TransformError):
    """Two versions of a program that compute something else: after ``step`` (its number), on ``arguments``."""

    step: int = 0
    arguments: tuple[object, ...] = ()


class LoweringError(TirError):
    """The pipeline left something that the code generator does not take."""


class CodegenError(TirError):
    """Code generation for a target failed: an unknown intrinsic, a type the target lacks, invalid LLVM IR."""


class ArgumentError(TirError):
    """A wrong argument in a call of a compiled function; raised before anything runs."""


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument of a wrong kind: missing, unknown, of a wrong dtype."""


class ArgumentValueError(ArgumentError, ValueError):
    """An argument of a wrong value: rank, extent, stride, alignment, read-only, overlap."""


class DeviceError(TirError, RuntimeError):
    """The device or its driver refused, or is missing."""


class InterpreterError(TirError, RuntimeError):
    """The reference interpreter met something with no meaning: an unknown external, a division by zero."""


class UnboundError(InterpreterError):
    """A read of memory that was never written."""


class BoundsError(TirError, IndexError):
    """An access outside its buffer."""


class RuntimeAssertError(TirError, AssertionError):
    """A ``T.Assert`` (or a checked ``T.assume``) of the program failed at run time."""


class DivisionByZeroError(TirError, ZeroDivisionError):
    """An integer division by zero in a running kernel."""

    default_help = "guard the division: T.if_then_else(d != 0, x // d, …)"


class AllocationError(TirError, MemoryError):
    """A running kernel asked for more memory than there is, or for a negative amount."""

    default_help = "check the extents that the allocation's size is computed from"


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to a misspelt one, or None when nothing is close.

    >>> nearest_name("vectorised", ["serial", "vectorized", "unroll"])
    'vectorized'
    """
    if not isinstance(name, str):
        return None  # a value of another kind, given where a name is wanted
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def _underline(span: Span, mark: str, text: str, gutter: str) -> list[str]:
    line = span.source.line(span.line)
    end = span.end_col if span.end_line == span.line else len(line)
    width = max(1, min(end, max(len(line), span.col + 1)) - span.col)
    # Tabs are kept in the padding so that the mark stands under its text in any terminal.
    padding = "".join("\t" if ch == "\t" else " " for ch in line[: span.col]).ljust(span.col)
    return [f"{gutter} | {padding}{mark * width}{' ' + text if text else ''}".rstrip()]


def _snippets(labels: Sequence[Label]) -> list[str]:
    placed = [label for label in labels if label.span is not None]
    lines: list[str] = []
    by_source: dict[int, list[Label]] = {}
    for label in placed:
        assert label.span is not None
        by_source.setdefault(id(label.span.source), []).append(label)
    for group in by_source.values():
        first = group[0].span
        assert first is not None
        lines.append(f" --> {first}")
        width = max(len(str(label.span.line)) for label in group if label.span)
        shown = -1
        for label in sorted(group, key=lambda one: (one.span.line, one.span.col) if one.span else (0, 0)):
            span = label.span
            assert span is not None
            if span.line != shown:
                lines.append(f"{str(span.line).rjust(width)} | {span.source.line(span.line)}")
                shown = span.line
            lines += _underline(span, "^" if label.primary else "~", label.text, " " * width)
    return lines


def render(error: TirError) -> str:
    """The text of an error: headline, underlined places, notes and help."""
    head = f"error[{error.origin}]: " if error.origin else "error: "
    return "\n".join([head + error.message, *_details(error)])


def _details(error: TirError, placed: bool = False) -> list[str]:
    """The lines below the headline; ``placed``: the only place of an error is shown by other means."""
    places = [label for label in error.labels if label.span is not None]
    lines = [] if placed and len(places) == 1 and not places[0].text else _snippets(error.labels)
    lines += [f"  = note: {label.text}" for label in error.labels if label.span is None and label.text]
    lines += [f"  = note: {note}" for note in error.notes]
    if error.help:
        lines.append(f"  = help: {error.help}")
    return lines


class user_frames:
    """A context at the public functions: an error of tirlower leaves it with the frames of the caller's code alone.

    What a message is about stands in the script, and the error points there; how tirlower came to it is of no use to
    who wrote the script. Frames of files outside the package (callbacks, passes of one's own) stay, and so do causes
    and notes. Other exceptions keep all frames, as everything does where ``TIRLOWER_TRACEBACK=full`` is set.

    >>> try:
    ...     with user_frames():
    ...         raise TirError("the extent is negative")
    ... except TirError as error:
    ...     print(error)
    error: the extent is negative
    """

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, where: TracebackType | None) -> None:
        if isinstance(error, TirError) and os.environ.get("TIRLOWER_TRACEBACK") != "full":
            error.__traceback__ = _outside(where)
            error.__suppress_context__ = True


_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def _outside(where: TracebackType | None) -> TracebackType | None:
    """The entries of a traceback that are of code outside this package."""
    entries = []
    while where is not None:
        if not os.path.abspath(where.tb_frame.f_code.co_filename).startswith(_PACKAGE):
            entries.append(where)
        where = where.tb_next
    kept: TracebackType | None = None
    for entry in reversed(entries):
        kept = TracebackType(kept, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return kept
