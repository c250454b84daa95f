"""Makes a failing hostile program small: deletes statements and calls, opens blocks, shortens expressions."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace

from tests.hostile.campaign import one
from tests.hostile.generate import Hostile

__all__ = ["kind_of", "shrink"]


def kind_of(found: list[str]) -> str:
    """What kind of fault a program shows, without values."""
    if not found:
        return ""
    text = re.sub(r"^call \d+( \(aliased\))?: ", "", found[0])
    if text.startswith("memory"):
        return "values"
    return re.sub(r"\d+", "#", text)[:60]


def shrink(program: Hostile, seconds: float = 60.0) -> Hostile:
    """A small program with the same kind of fault, each candidate run in a process of its own."""
    until = time.monotonic() + seconds
    kind = kind_of(one(program))
    if not kind:
        return program
    for number in range(len(program.calls)):
        alone = replace(program, calls=(program.calls[number],))
        if kind_of(one(alone)) == kind:
            program = alone
            break
    better = True
    while better and time.monotonic() < until:
        better = False
        for text in _smaller(program.text):
            if time.monotonic() > until:
                break
            candidate = replace(program, text=text)
            if len(text) < len(program.text) and kind_of(one(candidate)) == kind:
                program, better = candidate, True
                break
    return program


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _smaller(text: str) -> Iterator[str]:
    lines = text.rstrip("\n").split("\n")
    first = next(n for n, line in enumerate(lines) if "def main(" in line) + 1
    for n in range(first, len(lines)):
        end = n + 1
        while end < len(lines) and _indent(lines[end]) > _indent(lines[n]):
            end += 1
        rest = [*lines[:n], *lines[end:]]
        if len(rest) > first:
            yield "\n".join(rest) + "\n"
        if end > n + 1:
            yield "\n".join([*lines[:n], *(line[4:] for line in lines[n + 1 : end]), *lines[end:]]) + "\n"
    for n in range(first, len(lines)):
        for shorter in _shorter(lines[n]):
            yield "\n".join([*lines[:n], shorter, *lines[n + 1 :]]) + "\n"


def _shorter(line: str) -> Iterator[str]:
    """The line with a part in parentheses replaced by one of its operands, or with one condition of several."""
    for found in re.finditer(r" (and|or) ", line):
        start = re.match(r"\s*if ", line)
        if start is not None:
            yield line[: start.end()] + line[found.end() :]
            yield line[: found.start()] + ":"
    for start, end in _parens(line):
        inner = line[start + 1 : end]
        head = re.search(r"[\w.]*$", line[:start])
        assert head is not None
        parts = _split(inner)
        if head[0]:
            for part in parts:
                yield line[: head.start()] + part + line[end + 1 :]
        else:
            for part in re.split(r" [-+*/%<>=!]+ ", inner):
                yield line[:start] + part + line[end + 1 :]


def _parens(line: str) -> Iterator[tuple[int, int]]:
    stack = []
    for n, char in enumerate(line):
        if char == "(":
            stack.append(n)
        elif char == ")" and stack:
            yield stack.pop(), n


def _split(text: str) -> list[str]:
    depth, parts = 0, [""]
    for char in text:
        depth += (char in "([") - (char in ")]")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.strip() for part in parts if '"' not in part]
