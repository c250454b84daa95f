"""Colours for scripts in a terminal."""

from __future__ import annotations

import os
import re
import sys
from typing import TextIO

__all__ = ["colored", "wants_color"]

_TOKEN = re.compile(
    r"""(?P<comment>\#[^\n]*)
    |(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<decorator>@[\w.]+)
    |(?P<keyword>\b(?:def|class|for|in|while|if|elif|else|with|as|assert|and|or|not|lambda|pass|True|False|None)\b)
    |(?P<form>\b[TI]\.\w+(?:\.\w+)*)
    |(?P<number>\b\d+(?:\.\d*)?(?:e[+-]?\d+)?\b)""",
    re.VERBOSE,
)
_COLORS = {
    "comment": "90", "string": "32", "decorator": "35", "keyword": "34;1", "form": "36", "number": "33",
}  # fmt: skip


def colored(text: str) -> str:
    """A script with ANSI colours; without them it is the same text."""

    def paint(match: re.Match[str]) -> str:
        return f"\x1b[{_COLORS[str(match.lastgroup)]}m{match[0]}\x1b[0m"

    return _TOKEN.sub(paint, text)


def wants_color(stream: TextIO | None = None) -> bool:
    """Whether a stream (standard output by default) shows colours: a terminal, unless ``NO_COLOR`` is set."""
    out = sys.stdout if stream is None else stream
    return bool(getattr(out, "isatty", lambda: False)()) and not os.environ.get("NO_COLOR")
