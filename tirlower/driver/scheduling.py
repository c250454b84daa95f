"""What ``schedule=`` of a build means: as written, scheduled automatically, or the steps of a trace."""

from __future__ import annotations

import json
import logging
import os
import pathlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, TypeAlias

from tirlower.autoschedule.choose import Preference, Scheduled, autoschedule, replayed
from tirlower.autoschedule.recipes import RECIPES
from tirlower.diagnostics import TirError, TransformError, nearest_name
from tirlower.driver.tuned import TUNED
from tirlower.ir.annotations import ELSEWHERE
from tirlower.ir.func import IRModule
from tirlower.machine.processor import Processor
from tirlower.machine.target import Target
from tirlower.rewrite.context import CONFIG_KEYS
from tirlower.schedule.state import Record
from tirlower.schedule.trace import Trace
from tirlower.schedule.trace_json import load_trace

__all__ = ["ScheduleLike", "automatic", "schedule_text", "scheduled"]

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


def scheduled(mod: IRModule, text: str, target: Target, config: Mapping[str, object] | None = None) -> Scheduled:
    """A module with what is chosen for it done; ``config`` is that of the passes, whose ``tir.auto`` keys say what an automatic
    schedule may do.

    Raises :class:`~tirlower.diagnostics.ScheduleError` for steps of a trace that are refused, :class:`TirError` for a class
    that there is not.
    """
    if text == "auto":
        return automatic(mod, target, config or {})
    if text == "none":
        return Scheduled(mod, {})
    if text.startswith(TUNED):
        return _tuned(mod, json.loads(text)["tuned"], target, config or {})
    insts, decisions = load_trace(text)
    return replayed(mod, Trace(insts, decisions))


def _tuned(mod: IRModule, traces: Mapping[str, object], target: Target, config: Mapping[str, object]) -> Scheduled:
    """Plans that were found by measuring, for the functions that have one; the automatic schedule for the others."""
    made: dict[str, Scheduled] = {}
    for key in [key for key in traces if key in mod and ELSEWHERE not in mod[key].attrs]:
        try:
            insts, decisions = load_trace(traces[key])
            found = replayed(IRModule({key: mod[key]}), Trace(insts, decisions), "tuned")
            loose = [step for step in found.functions[key].schedule.steps if not _keeps_promises(step)]
            if loose:
                _log.warning(
                    "the tuned plan of %s is not taken: %s is not proved", key, loose[0].instruction.kind.method
                )
            else:
                made[key] = found
        except Exception as error:  # whatever stands in the file, there is an automatic schedule
            _log.warning("the tuned plan of %s is not taken: %s: %s", key, type(error).__name__, error)
    rest = automatic(mod.with_functions({key: f for key, f in mod.items() if key not in made}), target, config)
    functions = rest.functions | {key: one.functions[key] for key, one in made.items()}
    changed = {key: made[key].module[key] if key in made else rest.module[key] for key in mod}
    return Scheduled(mod.with_functions(changed), {key: functions[key] for key in mod if key in functions})


_NO_CACHE_IS_SO_LARGE: Final = 1 << 60
_log: Final = logging.getLogger("tirlower.tuned")


def _keeps_promises(step: Record) -> bool:
    """Whether a step is proved, and leaves results and parameters as they are: no plan that was found by measuring says more."""
    return step.verdict == "proved" and step.exactness.partition("(")[0] in ("bitwise", "reassociated")


def automatic(
    mod: IRModule, target: Target, config: Mapping[str, object], prefer: Preference | None = None
) -> Scheduled:
    """The automatic schedule, as the target and the configuration permit; ``prefer`` chooses between recipes in place of the model.

    Raises :class:`TirError` for a class in the configuration that there is not, and :class:`TransformError` for a fault of ours.
    """
    processor = Processor.of(target)
    if not config.get("tir.auto.parallel", True):
        processor = replace(processor, threads=1)
    if not config.get("tir.auto.nontemporal", True):  # then no output is too large for the last one
        processor = replace(processor, l3=_NO_CACHE_IS_SO_LARGE)
    recipes, wanted = RECIPES, config.get("tir.auto.classes")
    if isinstance(wanted, (list, tuple)):
        names = [recipe.name for recipe in RECIPES]
        for name in wanted:
            if name not in names:
                near = nearest_name(str(name), names)
                raise TirError(
                    f"tir.auto.classes: {name!r} is no class of nests",
                    help=f"did you mean {near!r}?" if near else f"the classes are: {', '.join(names)}",
                )
        recipes = tuple(recipe for recipe in RECIPES if recipe.name in wanted)
    any_order = bool(target.get("fast-math") or target.get("fast-math-reassoc"))
    least = config.get("tir.auto.least", CONFIG_KEYS["tir.auto.least"].default)
    assert isinstance(least, int)  # as its declaration says
    try:
        return autoschedule(mod, processor, recipes, any_order=any_order, least=least, prefer=prefer)
    except TirError:
        raise
    except Exception as error:
        raise TransformError(
            f"the automatic schedule of {', '.join(mod)} failed: {type(error).__name__}: {error}",
            origin="schedule",
            help='build with schedule="none", and report it with the program: it is a fault of tirlower',
        ) from error
