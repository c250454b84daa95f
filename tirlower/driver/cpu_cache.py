"""What the disk cache keeps of builds for the host: an entry for each unit, and which units a module has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from tirlower.ir.annotations import ELSEWHERE
from tirlower.ir.func import IRModule
from tirlower.legality.notes import CheckReport
from tirlower.llvm.cache import CacheEntry, CacheKey, default_cache
from tirlower.llvm.entry import entry_cache_key

if TYPE_CHECKING:
    from tirlower.driver.result import BuildResult, BuildSpec
    from tirlower.legality.notes import SavedReport

__all__ = ["Stored", "key_of", "load", "load_all", "origin_of", "store", "store_units", "take"]


class Stored(NamedTuple):
    """The machine code of a unit, and the functions whose place it is (:class:`~tirlower.driver.units.Unit`)."""

    entry: CacheEntry
    home: tuple[str, ...]


def key_of(spec: BuildSpec, program: str) -> CacheKey:
    """What determines the machine code of a unit, or of a module; ``program`` is its JSON."""
    return default_cache().key(
        {
            "program": program,
            "target": f"{spec.target!r}",
            "opt_level": str(spec.choices["opt_level"]),
            "required_pass": repr(sorted(spec.choices["required_pass"])),
            "disabled_pass": repr(sorted(spec.choices["disabled_pass"])),
            "config": repr(sorted(spec.choices["config"].items(), key=lambda item: item[0])),
            "outputs": repr(spec.outputs),
            "gil": str(spec.gil),
            "overlap": str(spec.overlap),
            "schedule": spec.schedule_key,
            "entry": entry_cache_key(),
            **spec.options.key(),
        }
    )


def load(key: CacheKey, mod: IRModule) -> CacheEntry | None:
    """The entry of a key, unless it is of the same program from another place: its errors and its report would name the
    old lines.
    """
    entry = default_cache().load(key)
    if entry is None or "units" in entry.metadata or not _names_places(entry):
        return entry
    named = entry.part("origin", dict)
    return entry if all(name not in mod or str(mod[name].span) == place for name, place in named.items()) else None


def load_all(key: CacheKey, mod: IRModule) -> list[Stored] | None:
    """The entries of a module's units, callees before callers; None where one is missing."""
    entry = load(key, mod)
    if entry is None:
        return None
    if "units" not in entry.metadata:
        return [Stored(entry, tuple(mod))]
    found = []
    for digest, home in entry.part("units", list):
        unit = load(CacheKey(digest, {}), mod)
        if unit is None:
            return None
        found.append(Stored(unit, tuple(home)))
    return found


def store(key: CacheKey, entry: CacheEntry) -> None:
    """Keep the machine code of a unit."""
    default_cache().store(key, entry.object, entry.metadata)


def store_units(key: CacheKey, units: Iterable[BuildResult]) -> None:
    """Keep which units a module has, that is well-formed."""
    default_cache().store(key, b"", {"units": [[unit.key.digest, unit.home] for unit in units if unit.key is not None]})


def take(result: BuildResult, units: Sequence[Stored]) -> None:
    """Note in a result what the entries of its units say, in the order of the module."""
    functions = list(result.spec.module)
    checks = []
    for entry, home in sorted(units, key=lambda unit: functions.index(unit.home[0])):
        others = set(functions).difference(home)
        checks.append(CheckReport.from_json(_checks(entry)).without(others))
    result.checks = checks[0]
    for said in checks[1:]:
        result.checks = result.checks.merged(said)
    kernels = [item for entry, _ in units for item in entry.part("kernels", dict).items()]
    result.in_place = {name: one["in_place"] for name, one in kernels}
    result.code_bytes = sum(len(entry.object) for entry, _ in units)


def origin_of(mod: IRModule) -> dict[str, str]:
    """Where the functions stand in their files: the places that error messages name depend on it."""
    return {name: str(func.span) for name, func in mod.items() if ELSEWHERE not in func.attrs}


def _names_places(entry: CacheEntry) -> bool:
    checks = _checks(entry)
    return bool(checks["guarded"] or checks["trusted"] or checks["assumed"] or entry.metadata["errors"])


def _checks(entry: CacheEntry) -> SavedReport:
    return cast("SavedReport", entry.part("checks", dict))
