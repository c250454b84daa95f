"""Runs one hostile program natively on fenced arrays and in the interpreter, and says how they differ."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np

import tirlower as tl
from tests.hostile.generate import Call, Hostile
from tests.hostile.memory import Fenced
from tirlower.diagnostics import LegalityError, TirError
from tirlower.script import parse

__all__ = ["KINDS", "compare"]

_REFUSAL = re.compile(r"`[^`]*`|[A-Z][0-9]*\[.*\]|[0-9]+")

KINDS = (IndexError, ZeroDivisionError, AssertionError)
"""Errors of a run that native code and the interpreter must share."""


def compare(program: Hostile, counts: Counter[str], target: str = "llvm") -> list[str]:
    """The differences between native code and the interpreter, one line each; ``counts`` is told what was run."""
    try:
        parsed = parse(program.text, name="h.py")
    except TirError as error:
        counts["not a program"] += 1
        counts[f"parse: {str(error.message)[:60]}"] += 1
        return []
    try:
        built = tl.build(parsed, target)
    except LegalityError as error:
        counts["refused"] += 1
        counts[f"refused: {_REFUSAL.sub('…', str(error.message))[:90]}"] += 1
        return []
    except TirError as error:
        return [f"build: {type(error).__name__}: {str(error.message)[:200]}"]
    except Exception as error:
        return [f"build: crash: {type(error).__name__}: {str(error)[:200]}"]
    kernel = built.main if hasattr(built, "main") else built
    counts["built"] += 1
    found = []
    parallel = "T.parallel(" in program.text
    for number, call in enumerate(program.calls):
        difference = _call(parsed, kernel, call, counts, parallel)
        if difference:
            found.append(f"call {number}{' (aliased)' if call.aliased else ''}: {difference}")
    return found


def _call(parsed: Any, kernel: Any, call: Call, counts: Counter[str], parallel: bool) -> str:
    plain = [np.array(base.values, base.dtype) for base in call.bases]
    wanted, reason = _outcome(lambda args: tl.interpret(parsed, *args), call, plain)
    if wanted == "meaningless":
        counts["meaningless"] += 1
        return ""
    fenced = [
        Fenced(np.array(base.values, base.dtype), at_end) for base, at_end in zip(call.bases, call.at_end, strict=True)
    ]
    try:
        got, message = _outcome(lambda args: kernel(*args), call, [one.array for one in fenced])
        counts[f"{'aliased, ' if call.aliased else ''}{wanted}"] += 1
        if not all(one.intact() for one in fenced):
            return "it wrote beside an array"
        if parallel and got != wanted and {got, wanted} <= {kind.__name__ for kind in KINDS}:
            counts["another iteration's error"] += 1
            return ""
        if got != wanted:
            return f"native: {got} {message}; interpreter: {wanted} {reason}"
        if wanted == "values":
            for at, (ours, theirs) in enumerate(zip(fenced, plain, strict=True)):
                if not np.array_equal(ours.array, theirs):
                    return f"memory {at}: native {ours.array.tolist()}, interpreter {theirs.tolist()}"
        return ""
    finally:
        for one in fenced:
            one.free()


def _outcome(run: Any, call: Call, memory: list[Any]) -> tuple[str, str]:
    arguments: list[Any] = []
    for argument in call.arguments:
        if argument.base < 0:
            arguments.append(argument.scalar)
        else:
            arguments.append(memory[argument.base][argument.start : argument.start + argument.length])
    try:
        run(arguments)
        return "values", ""
    except Exception as error:
        text = str(error).split("\n")[0][:150]
        for kind in KINDS:
            if isinstance(error, kind):
                return kind.__name__, text
        if "division by zero" in text:
            return "ZeroDivisionError", text
        if isinstance(error, tl.InterpreterError):
            return "meaningless", text
        return type(error).__name__, text
