"""What a build takes from the database of plans that were found by measuring (:func:`tirlower.tune`).

Where nobody names one it is looked for in the folder of the disk cache, and not read if somebody else could have written it.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tirlower.diagnostics import TirError
from tirlower.ir.annotations import ELSEWHERE
from tirlower.ir.expr import Call
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.op import GlobalVar
from tirlower.ir.query import each
from tirlower.llvm.cache import default_cache
from tirlower.machine.target import Target
from tirlower.rewrite.context import Choices
from tirlower.support.private_files import refuse_unsafe, refuse_unsafe_file

__all__ = ["TUNED", "default_path", "with_tuned_plans"]

NAME: Final = "tuned.sqlite"
TUNED: Final = '{"tuned"'
"""How what a build keeps of its schedule begins, where plans of the database are in it."""

_log: Final = logging.getLogger("tirlower.tuned")


def default_path() -> Path | None:
    """Where the database is that nobody names: in the disk cache's folder. None where there is no such place, or the cache is off."""
    cache = default_cache()
    return cache.directory.parent / NAME if cache.enabled else None


def with_tuned_plans(mod: IRModule, schedule: str, target: Target, choices: Choices) -> str:
    """What a build keeps of ``schedule=``: of an automatic one the plans that were found for functions of the module, as JSON.

    A database that cannot be read is told to the log ``tirlower.tuned``, and the build goes without it.
    """
    if schedule != "auto" or target.kind != "llvm" or not choices["opt_level"]:
        return schedule
    try:
        path = _asked(choices["config"])
        if path is None:
            return schedule
        from tirlower.driver.plan_database import Database, PlanKey

        alone = {key: func for key, func in mod.items() if ELSEWHERE not in func.attrs and not _calls_others(func)}
        keys = {key: PlanKey.of(func, target, choices["config"]) for key, func in alone.items()}
        found = {key: Database(path).plan(one) for key, one in keys.items()}
        traces = {key: json.loads(plan.trace) for key, plan in found.items() if plan is not None and plan.trace}
    except (OSError, ValueError, RecursionError, TirError) as error:
        _log.warning("no tuned plans: %s", error)
        return schedule
    return json.dumps({"tuned": traces}) if traces else schedule


def _calls_others(func: PrimFunc) -> bool:
    """Whether a function calls others of its module: no schedule is made of such."""
    return any(isinstance(call.op, GlobalVar) for call in each(Call, func.body))


def _asked(config: Mapping[str, object]) -> Path | None:
    """The database that builds of a configuration look into; None where it is not there, or they do not."""
    asked = config.get("tir.auto.tuned", True)
    if not isinstance(asked, bool):
        assert isinstance(asked, (str, os.PathLike))  # as its declaration says
        path = Path(asked).expanduser()
        return path if path.exists() else None
    default = default_path() if asked else None
    if default is None or not default.exists():
        return None
    refuse_unsafe(default.parent.resolve())
    refuse_unsafe_file(default)
    return default
