"""Compiling a module for the host, unit by unit: those that the disk cache has not."""

from __future__ import annotations

from dataclasses import replace

from tirlower.driver.cpu_cache import Stored, key_of, load, store, store_units, take
from tirlower.driver.cpu_compile import HostCode
from tirlower.driver.processes import compile_together
from tirlower.driver.progress import Progress
from tirlower.driver.result import BuildResult
from tirlower.driver.steps import compile_version
from tirlower.driver.units import units_of
from tirlower.ir.annotations import ELSEWHERE
from tirlower.ir.json_io import save_json
from tirlower.ir.verify import verify_well_formed
from tirlower.llvm.cache import CacheEntry, default_cache
from tirlower.transforms import PassContext

__all__ = ["codes_in", "compile_alone", "compile_units", "units_in"]


def units_in(result: BuildResult) -> tuple[BuildResult, ...]:
    """The units of a module as builds of their own; the build itself where it is one."""
    if result.units:
        return result.units
    spec = result.spec
    # A version for arrays that overlap has what it calls with it, and marks of profiles are numbered in the module.
    whole = len(spec.module) == 1 or spec.overlap is not None or spec.choices["config"].get("tir.enable_profiling")
    units = [] if whole else units_of(spec.module)
    if len(units) < 2:
        return (result,)
    made = []
    for unit in units:
        exported = {
            func.attrs.get("global_symbol") for func in unit.module.functions.values() if ELSEWHERE not in func.attrs
        }
        outputs = {name: chosen for name, chosen in spec.outputs.items() if name in exported}
        own = replace(spec, module=unit.module, outputs=outputs)
        made.append(BuildResult(own, result.backend, home=unit.home, in_place=result.in_place))
    result.units = tuple(made)
    return result.units


def codes_in(result: BuildResult) -> list[HostCode]:
    """The code of each unit."""
    return [_code(unit) for unit in units_in(result)]


def _code(unit: BuildResult) -> HostCode:
    assert isinstance(unit.code, HostCode)
    return unit.code


def compile_alone(result: BuildResult, ctx: PassContext) -> CacheEntry:
    """The machine code of a build as one unit."""
    result.units = (result,)
    entry = compile_version(result, ctx)
    assert isinstance(entry, CacheEntry)
    result.code_bytes = len(entry.object)
    return entry


def compile_units(result: BuildResult, ctx: PassContext) -> list[CacheEntry]:
    """The machine code of each unit of a build, from the disk cache or compiled and kept there; callees before callers."""
    spec = result.spec
    if len(spec.module) > 1:
        verify_well_formed(spec.module)  # what holds between functions, which no unit shows
    units = units_in(result)
    assert result.key is not None
    if len(units) == 1:
        entry = compile_alone(result, ctx)
        store(result.key, entry)
        return [entry]
    entries: list[CacheEntry | None] = []
    size = 0
    for unit in units:
        program = save_json(unit.spec.module)
        unit.key = key_of(unit.spec, program)
        entries.append(load(unit.key, unit.spec.module))
        size += len(program) if entries[-1] is None else 0
    cold = [unit for unit, entry in zip(units, entries, strict=True) if entry is None]
    result.reused = frozenset(spec.module).difference(*[unit.home for unit in cold])
    made = iter(_compiled(cold, size, Progress(", ".join(spec.module)), ctx))
    found = [entry or next(made) for entry in entries]
    store_units(result.key, units)
    for unit in cold:
        for total, part in ((result.timings, unit.timings), (result.passes, unit.passes)):
            total.update({name: total.get(name, 0.0) + ms for name, ms in part.items()})
    take(result, [Stored(entry, unit.home) for entry, unit in zip(found, units, strict=True)])
    result.cached = not cold
    if cold:
        result.miss = lambda: _why(cold, len(units))
    return found


def _compiled(units: list[BuildResult], size: int, progress: Progress, ctx: PassContext) -> list[CacheEntry]:
    """Compile units, whose JSON has so many bytes, and keep what is made."""

    def compile_here(number: int) -> CacheEntry:
        progress.begin(f"{', '.join(units[number].home)} ({number + 1} of {len(units)})")
        return compile_alone(units[number], ctx)

    def keep(number: int, entry: CacheEntry) -> None:
        key = units[number].key
        assert key is not None
        store(key, entry)

    made = compile_together(units, size, compile_here, keep)
    progress.begin("")
    return made


def _why(cold: list[BuildResult], count: int) -> str:
    first = cold[0]
    assert first.key is not None
    miss = default_cache().explain_miss(first.key)
    return f"{len(cold)} of {count} parts of the module were compiled; the one with {', '.join(first.home)}: {miss}"
