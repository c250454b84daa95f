"""From a Python function or class to the text and syntax tree of its definition, with the file's own line numbers."""

from __future__ import annotations

import ast
import linecache
import re
from types import CodeType

from tirlower.diagnostics import ScriptError, Source, Span, deep_recursion
from tirlower.script.unkept import UNKEPT, lines_of

__all__ = ["class_at", "definition_at", "parse_text", "source_lines"]


def parse_text(text: str, name: str, first_line: int = 1) -> tuple[ast.Module, Source]:
    """The syntax tree of a text. Raises :class:`ScriptError` where it is not Python, or exceeds CPython's limits."""
    source = Source(text, name, first_line)
    try:
        with deep_recursion(200_000):
            return ast.parse(text), source
    except SyntaxError as err:
        raise _syntax_error(err, source, first_line - 1) from None
    except (RecursionError, MemoryError):
        raise ScriptError(
            "the script nests more deeply than this Python's parser allows (its recursion limit)",
            labels=(),
            notes=[f"in {name}"],
            help="split the expression over several lines with `x = T.meta_var(…)`, or build it through the API",
        ) from None
    except ValueError as err:
        raise ScriptError(f"the script is not Python text: {err}") from None


def _syntax_error(err: SyntaxError, source: Source, shift: int) -> ScriptError:
    message = err.msg or "invalid syntax"
    line = min((err.lineno or 1) + shift, source.first_line + len(source.lines) - 1)
    col = max((err.offset or 1) - 1, 0)
    end = (err.end_offset or 0) - 1 if err.end_lineno in (None, err.lineno) else col + 1
    limits = {
        "too many nested parentheses": "Python's parser allows 200 nested parentheses",
        "too many levels of indentation": "Python's tokenizer allows 100 levels of indentation",
        "too many statically nested blocks": "Python's compiler allows 20 nested blocks",
    }
    limit = next((text for key, text in limits.items() if key in message), None)
    return ScriptError(
        message,
        span=Span(source, line, col, line, max(end, col + 1)),
        notes=[f"the limit is CPython's own: {limit}"] if limit else (),
        help="bind parts with `x = T.meta_var(…)`, or build the program through the API" if limit else None,
    )


def source_lines(code: CodeType, name: str, scope: dict[str, object]) -> list[str]:
    """The lines of the text that a code object comes from, which defines ``name``; none where Python keeps no text."""
    if code.co_filename in UNKEPT:
        return lines_of(code, name, scope)
    return linecache.getlines(code.co_filename, scope)


def _lines(code: CodeType, name: str, scope: dict[str, object]) -> list[str]:
    lines = source_lines(code, name, scope)
    if not lines:
        raise ScriptError(
            f"the source of {name!r} cannot be read (from {code.co_filename})",
            help="Python keeps no text of what exec runs, nor of what is typed without a line editor or piped in: "
            'put it in a file, or give the text itself: tirlower.script.parse("""def f(…): …""")',
        )
    return lines


def definition_at(code: CodeType, scope: dict[str, object], name: str) -> tuple[ast.FunctionDef, Source, int]:
    """The definition of a function from its code object.

    Returns the syntax tree, the source, and what to add to the tree's line numbers. The end of the definition is the
    first less indented line with which the text parses: much faster than tokenizing it in Python.
    """
    lines = _lines(code, name, scope)
    tree, source, shift = _block_at(lines, code.co_firstlineno, code.co_filename, name)
    if not isinstance(tree, ast.FunctionDef):
        raise ScriptError(f"{name!r} is not a plain function (def)", span=Span(source, code.co_firstlineno, 0, 0, 1))
    return tree, source, shift


def class_at(cls: type, first: int, code: CodeType, scope: dict[str, object]) -> tuple[ast.ClassDef, Source, int]:
    """The definition of a class that has a line numbered ``first`` in its body; ``code`` is of the same text."""
    filename = code.co_filename
    lines = _lines(code, cls.__name__, scope)
    pattern = re.compile(rf"\s*class\s+{re.escape(cls.__name__)}\b")
    at = min(first, len(lines))
    while at > 0 and not pattern.match(lines[at - 1]):
        at -= 1
    if at == 0:
        raise ScriptError(f"the source of class {cls.__name__!r} cannot be found in {filename}")
    tree, source, shift = _block_at(lines, at, filename, cls.__name__)
    assert isinstance(tree, ast.ClassDef)
    return tree, source, shift


def _block_at(lines: list[str], first: int, filename: str, name: str) -> tuple[ast.stmt, Source, int]:
    start = first - 1
    if start >= len(lines):
        raise ScriptError(
            f"the source of {name!r} is not where it was: {filename} has {len(lines)} lines, it began on line {first}",
            help="reload the changed file",
        )
    indent = len(lines[start]) - len(lines[start].lstrip())
    header = re.compile(r"\s*(async\s+def|def|class)\b")
    end = start
    while end < len(lines) and not header.match(lines[end]):
        end += 1
    end += 1
    failure: SyntaxError | None = None
    while True:
        while end < len(lines) and not _ends(lines[end], indent):
            end += 1
        block = lines[start:end]
        # An indented definition is put under an `if` instead of being dedented: columns stay the file's.
        text = ("if 1:\n" if indent else "") + "".join(block)
        shift = start - (1 if indent else 0)
        try:
            with deep_recursion(200_000):
                module = ast.parse(text)
            break
        except SyntaxError as err:
            failure = failure or err
            if end >= len(lines):
                source = Source("".join(lines[start:]).rstrip("\n"), filename, first)
                raise _syntax_error(failure, source, shift) from None
            end += 1
        except (RecursionError, MemoryError):
            raise ScriptError(
                f"{name!r} nests more deeply than this Python's parser allows (its recursion limit)",
                help="bind parts of the expression with `x = T.meta_var(…)`",
            ) from None
    source = Source("".join(block).rstrip("\n"), filename, first)
    found = module.body[0]
    return found.body[0] if indent and isinstance(found, ast.If) else found, source, shift


def _ends(line: str, indent: int) -> bool:
    """Whether a line may be the first after a definition: text, no comment, at most as indented."""
    stripped = line.lstrip()
    return bool(stripped) and not stripped.startswith("#") and len(line) - len(stripped) <= indent
