"""What ``schedule=`` of a build means: as written, scheduled automatically, or the steps of a trace."""

from __future__ import annotations

import json
import os
import pathlib
from typing import TypeAlias

from tirlower.autoschedule.choose import Scheduled, autoschedule, replayed
from tirlower.diagnostics import TirError
from tirlower.ir.func import IRModule
from tirlower.machine.processor import Processor
from tirlower.machine.target import Target
from tirlower.schedule.trace import Trace
from tirlower.schedule.trace_json import load_trace

__all__ = ["ScheduleLike", "key_of_schedule", "schedule_text", "scheduled"]

ScheduleLike: TypeAlias = "str | os.PathLike[str] | Trace"
"""What a build takes: "none", "auto", a trace, or the path of a file with one as JSON."""


def schedule_text(given: ScheduleLike) -> str:
    """What a build keeps of it: "none", "auto", or the JSON of a trace. Raises :class:`TirError` for what is none of these."""
    if isinstance(given, Trace):
        return json.dumps(given.as_json(dialect="tirlower"))
    if given in ("none", "auto"):
        return str(given)
    if isinstance(given, (str, os.PathLike)):
        path = pathlib.Path(given)
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            load_trace(text)  # what is wrong with it is said now
            return text
    raise TirError(
        f"schedule= is 'none', 'auto', a trace or the path of one, got {given!r}",
        help="a file has a trace as JSON: json.dump(trace.as_json(dialect='tirlower'), file)",
    )


def key_of_schedule(text: str, target: Target) -> str:
    """What of a schedule determines the machine code: of an automatic one, the processor that it is planned for."""
    return f"auto for {Processor.of(target)}" if text == "auto" else text


def scheduled(mod: IRModule, text: str, target: Target) -> Scheduled:
    """A module with what is chosen for it done. Raises :class:`~tirlower.diagnostics.ScheduleError` for steps of a trace that are
    refused."""
    if text == "auto":
        return autoschedule(mod, Processor.of(target))
    if text == "none":
        return Scheduled(mod, {})
    insts, decisions = load_trace(text)
    return replayed(mod, Trace(insts, decisions))
