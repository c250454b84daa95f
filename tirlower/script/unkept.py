"""Sources that Python does not keep: what was typed at a prompt, given to ``-c``, or read from standard input.

Their code says only ``<stdin>`` or ``<string>``, as the code of any ``exec`` does, and what :mod:`linecache` has under
such a name may be another text (Python 3.13 puts that of ``-c`` there). So a text is a candidate only, from the
command line, the file that standard input reads, the prompt's history or linecache; it is the source of a code object
when compiling it gives an equal one, with equal instructions, constants and positions.
"""

from __future__ import annotations
import __future__

import linecache
import os
import stat
import sys
from collections.abc import Iterator
from types import CodeType

__all__ = ["UNKEPT", "lines_of"]

UNKEPT = frozenset({"<string>", "<stdin>", "<console>"})
"""The names of files that say nothing of the text: those of ``-c`` and ``exec``, of the prompt, of :mod:`code`."""

_LONGEST_INPUT = 1 << 24
_HISTORY = 2000
"""How many lines of a prompt's history are looked at."""

_FUTURES = 0
for _name in __future__.all_feature_names:
    _FUTURES |= getattr(__future__, _name).compiler_flag


def lines_of(code: CodeType, name: str, scope: dict[str, object]) -> list[str]:
    """The lines of the text that a code object was compiled from, or none where no candidate compiles to it.

    ``code`` is that of a function, a class's body or a module, and ``name`` one that the text defines. The text is
    the whole one given to ``-c`` or standard input, and one statement of a prompt.
    """
    for text, mode in _candidates(code, name, scope):
        if name in text and _compiles_to(text, mode, code):
            return text.splitlines(keepends=True)
    return []


def _candidates(code: CodeType, name: str, scope: dict[str, object]) -> Iterator[tuple[str, str]]:
    kept = linecache.getlines(code.co_filename, scope)
    if kept:
        yield "".join(kept), "exec"
    if code.co_filename == "<string>":
        yield from ((text, "exec") for text in _of_command_line())
        return
    if code.co_filename == "<stdin>":
        yield from ((text, "exec") for text in _of_standard_input())
    yield from ((text, "single") for text in _typed(name))


def _of_command_line() -> Iterator[str]:
    """What follows ``-c``, also in a cluster of options (``python -ic text``, ``python -ctext``)."""
    words = sys.orig_argv[1:]
    for at, word in enumerate(words):
        if word.startswith("-") and not word.startswith("--") and "c" in word:
            rest = word[word.index("c") + 1 :]
            text = rest or (words[at + 1] if at + 1 < len(words) else "")
            yield text if text.endswith("\n") else text + "\n"


def _of_standard_input() -> Iterator[str]:
    """The file that standard input was redirected from, read without moving where the interpreter reads."""
    try:
        number = sys.stdin.fileno()
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LONGEST_INPUT:
            return
        yield os.pread(number, status.st_size, 0).decode()
    except (AttributeError, OSError, ValueError):  # no standard input, one without a number, or no UTF-8
        return


def _typed(name: str) -> Iterator[str]:
    """The latest statements of the prompt's history that define a name, each from every line where it may begin."""
    readline = sys.modules.get("readline")
    if readline is None:
        return
    last = readline.get_current_history_length()
    first = max(1, last - _HISTORY + 1)
    lines = [readline.get_history_item(number) or "" for number in range(first, last + 1)]
    for at in range(len(lines) - 1, -1, -1):
        if name not in lines[at] or not lines[at].lstrip().startswith(("def ", "class ", "async ")):
            continue
        end = at + 1
        while end < len(lines) and (not lines[end].strip() or lines[end][:1] in (" ", "\t", "#", ")")):
            end += 1
        start = at
        while start >= 0:
            if lines[start][:1] not in (" ", "\t", "", ")", "#"):
                yield "\n".join(lines[start:end]) + "\n"
                if not lines[start].startswith("@") and start != at:
                    break  # the statement before, or the one that the definition is in
            start -= 1


def _compiles_to(text: str, mode: str, code: CodeType) -> bool:
    try:
        made = compile(text, code.co_filename, mode, flags=code.co_flags & _FUTURES, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    pending = [made]
    while pending:
        found = pending.pop()
        if found == code:
            return True
        pending.extend(constant for constant in found.co_consts if isinstance(constant, CodeType))
    return False
