"""What a printed script shows besides its text: underlined and annotated objects, line numbers, what is around them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from tirlower.diagnostics import Span, TirError
from tirlower.ir.path import Path
from tirlower.script.printer.document import PrintedScript

__all__ = ["marked", "with_prefixes"]

Places = Sequence[Span]


def marked(
    printed: PrintedScript,
    *,
    obj_to_underline: Iterable[object] = (),
    obj_to_annotate: Mapping[object, str] | None = None,
    path_to_underline: Iterable[Path] = (),
    path_to_annotate: Mapping[Path, str] | None = None,
    print_line_numbers: bool = False,
    num_context_lines: int | None = None,
) -> str:
    """The text of a printed script with objects underlined (``^^^`` in a line below) and annotated (a comment behind).

    Objects are marked wherever they stand, paths in the one place that they lead to. With ``num_context_lines`` only so
    many lines around what is underlined are shown. Raises :class:`TirError` for what the text does not show.
    """
    under: dict[int, list[Span]] = {}
    for span in _spans(printed, obj_to_underline, path_to_underline):
        under.setdefault(span.line - 1, []).append(span)
    notes: dict[int, list[str]] = {}
    for obj, note in (obj_to_annotate or {}).items():
        span = _of_object(printed, obj)[0]
        notes.setdefault(span.line - 1, []).append(note)
    for path, note in (path_to_annotate or {}).items():
        notes.setdefault(_of_path(printed, path).line - 1, []).append(note)
    lines = printed.text.split("\n")
    shown = set(range(len(lines)))
    if num_context_lines is not None and num_context_lines >= 0 and under:
        shown = {n for at in under for n in range(at - num_context_lines, at + num_context_lines + 1)}
    width = len(str(len(lines))) + 1 if print_line_numbers else 0
    result: list[str] = []
    skipped = 0
    for number, line in enumerate(lines):
        if number not in shown:
            skipped += 1
            continue
        if skipped:
            result.append(_skipped(skipped))
            skipped = 0
        prefix = f"{number + 1:<{width}}" if width else ""
        note = "".join(f"  # {text}" for text in notes.get(number, ()))
        result.append(prefix + line + note)
        if number in under:
            row = [" "] * len(line)
            for span in under[number]:
                end = span.end_col if span.end_line == span.line else len(line)
                row[span.col : end] = "^" * (end - span.col)
            result.append(" " * width + "".join(row).rstrip())
    if skipped:
        result.append(_skipped(skipped))
    return "\n".join(result)


def _skipped(count: int) -> str:
    return f"(... {count} line{'' if count == 1 else 's'} skipped ...)"


def _spans(printed: PrintedScript, objects: Iterable[object], paths: Iterable[Path]) -> list[Span]:
    found = [span for obj in objects for span in _of_object(printed, obj)]
    return found + [_of_path(printed, path) for path in paths]


def _of_object(printed: PrintedScript, obj: object) -> Places:
    found = printed.spans.every(obj)
    if not found:
        raise TirError(f"the script does not show the {type(obj).__name__} that is to be marked")
    return found


def _of_path(printed: PrintedScript, path: Path) -> Span:
    found = printed.spans.locate(path.chain(printed.root))
    if found is None:
        raise TirError(f"the script does not show what stands at `{path}`")
    return found


_STRING_OR_NAME = re.compile(r"""("(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\#[^\n]*)|\b([TI])\.(?=\w)""")


def with_prefixes(text: str, tir_prefix: str, ir_prefix: str) -> str:
    """A script with other names of the namespaces ``T`` and ``I``."""
    if tir_prefix == "T" and ir_prefix == "I":
        return text

    def renamed(match: re.Match[str]) -> str:
        if match[1] is not None:
            return match[1]
        return (tir_prefix if match[2] == "T" else ir_prefix) + "."

    return _STRING_OR_NAME.sub(renamed, text)
