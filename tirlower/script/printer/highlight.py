"""Colours for scripts in a terminal."""

from __future__ import annotations

import os
import re
import sys
from typing import TextIO

from tirlower.diagnostics import TirError

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
_STYLES: dict[str, dict[str, str]] = {
    "ansi": {"comment": "90", "string": "32", "decorator": "35", "keyword": "34;1", "form": "36", "number": "33"},
    "light": {
        "comment": "38;5;102", "string": "38;5;28", "decorator": "38;5;90", "keyword": "38;5;19;1", "form": "38;5;24",
        "number": "38;5;94",
    },
    "dark": {
        "comment": "38;5;245", "string": "38;5;114", "decorator": "38;5;176", "keyword": "38;5;111;1",
        "form": "38;5;80", "number": "38;5;215",
    },
}  # fmt: skip


def colored(text: str, style: str = "ansi") -> str:
    """A script with the colours of a style; without them it is the same text.

    Raises :class:`TirError` for a style other than ``"ansi"``, ``"light"``, ``"dark"`` and ``"plain"``.
    """
    if style == "plain":
        return text
    colors = _STYLES.get(style)
    if colors is None:
        raise TirError(f"no style {style!r} of scripts", help=f"there are plain, {', '.join(_STYLES)}")

    def paint(match: re.Match[str]) -> str:
        return f"\x1b[{colors[str(match.lastgroup)]}m{match[0]}\x1b[0m"

    return _TOKEN.sub(paint, text)


def wants_color(stream: TextIO | None = None) -> bool:
    """Whether a stream (standard output by default) shows colours: a terminal, unless ``NO_COLOR`` is set."""
    out = sys.stdout if stream is None else stream
    return bool(getattr(out, "isatty", lambda: False)()) and not os.environ.get("NO_COLOR")
