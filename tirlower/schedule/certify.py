"""A schedule's program against the one that it started from, by running both: what differs, since which step, in a file.

Runs prove nothing; they find what a wrong proof, or a wrong rewrite after a right one, would hide.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np

from tirlower.diagnostics import ScheduleError, TirError, ValidationError
from tirlower.interp import interpret
from tirlower.ir.dtype import Array
from tirlower.ir.expr import FloatImm, IntImm, Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.json_io import load_json, save_json
from tirlower.ir.query import each
from tirlower.schedule.sites import Relaid
from tirlower.schedule.state import Record, State
from tirlower.schedule.trace import Target, Trace
from tirlower.validate.passes import WORK_LIMIT, estimated_work, random_arguments
from tirlower.validate.reproducer import literal, readable

__all__ = ["Difference", "Runner", "Validation", "compared", "validated"]

Runner: TypeAlias = "Callable[[PrimFunc | IRModule], Callable[..., object]]"  # type: ignore[explicit-any]
"""Makes a function of arguments of a program: ``tl.build`` for example."""


class Replayed(Target, Protocol):
    """A schedule on which steps are taken again."""

    def moments(self) -> list[State]:
        """Its moments, the first one first."""


LARGE = 8
"""Numbers from here on are made smaller in a program that is too large to be run."""


@dataclass(frozen=True)
class Difference:
    """What two versions of a function disagree in: the message, and the arguments that show it."""

    message: str
    function: str
    arguments: tuple[object, ...]


@dataclass
class Validation:
    """What was run: ``runs`` comparisons, of smaller programs where ``shrunk``; ``left`` says of which functions none was, and why."""

    runs: int = 0
    shrunk: bool = False
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        said = f"{self.runs} runs agree" + (" (of a smaller program)" if self.shrunk else "")
        return "; ".join([said, *(f"{name} was not run: {why}" for name, why in self.left.items())])


class _NoMeaning(Exception):
    """The program that a schedule started from does not run on some arguments, or there are none."""


def _specials(array: Array, rng: np.random.Generator) -> Array:
    """Floats with zeros of both signs, infinities and NaN among them."""
    flat = array.reshape(-1).copy()
    for value in (0.0, -0.0, math.inf, -math.inf, math.nan):
        if flat.size > 8:
            flat[rng.integers(flat.size)] = value
    return flat.reshape(array.shape)


def _arguments(func: PrimFunc, seed: int, bitwise: bool, special: bool) -> tuple[object, ...]:
    """Arguments of a function. Where the order of sums may differ, floats whose sums are exact."""
    given = random_arguments(func, seed)
    if given is None:
        raise _NoMeaning("no arguments can be made for its parameters")
    rng = np.random.default_rng(seed)
    made: list[object] = []
    for one in given:
        if isinstance(one, np.ndarray) and one.dtype.kind not in "biu":
            if not bitwise:
                one = rng.integers(-4, 5, one.shape).astype(one.dtype)
            elif special:
                one = _specials(one, rng)
        made.append(one)
    return tuple(made)


def _ran(mod: IRModule, name: str, arguments: Sequence[object], run: Runner | None) -> tuple[list[object], object]:
    """The arguments after a run, and what it returned."""
    copies = [one.copy() if isinstance(one, np.ndarray) else one for one in arguments]
    result = interpret(mod, *copies, name=name) if run is None else run(mod[name])(*copies)
    return copies, result


def _padded(array: Array, layout: Relaid) -> Array:
    """An array in another layout, with its padding."""
    made = layout.index_map.map_ndarray(array)
    if layout.padding is not None:
        for at in np.argwhere(np.logical_not(layout.index_map.map_ndarray(np.ones(array.shape, bool)))):
            [value] = layout.padding.map_indices([int(i) for i in at])
            if isinstance(value, (IntImm, FloatImm)):
                made[tuple(at)] = value.value
    return made


def _mapped(func: PrimFunc, arguments: Sequence[object], maps: Mapping[Var, Sequence[Relaid]]) -> list[object]:
    """Arguments of a version whose parameters have other layouts."""
    made: list[object] = []
    for param, one in zip(func.params, arguments, strict=True):
        for layout in maps.get(param, ()):
            assert isinstance(one, np.ndarray)
            one = _padded(one, layout)
        made.append(one)
    return made


def compared(
    before: IRModule,
    after: IRModule,
    name: str,
    seed: int = 0,
    *,
    bitwise: bool = True,
    maps: Mapping[Var, Sequence[Relaid]] | None = None,
    run: Runner | None = None,
) -> Difference | None:
    """What two versions of a function disagree in on some arguments; None where they agree.

    Raises :class:`_NoMeaning` where the first one does not run.
    """
    old, maps = before[name], maps or {}
    was: tuple[list[object], object] | None = None
    why = ""
    for special in (seed % 2 == 1, False):
        given = _arguments(old, seed, bitwise, special)
        try:
            with np.errstate(all="ignore"):
                was = _ran(before, name, given, run)
            break
        except TirError as error:
            why = error.message
    if was is None:
        raise _NoMeaning(f"the program that it started from fails on them: {why}")
    try:
        with np.errstate(all="ignore"):
            now = _ran(after, name, _mapped(after[name], given, maps), run)
    except TirError as error:
        return Difference(f"{name!r} fails where it ran before: {error.message}", name, given)
    for param, a, b in zip(old.params, was[0], now[0], strict=True):
        if not isinstance(a, np.ndarray) or not isinstance(b, np.ndarray):
            continue
        there: Array = np.ones(a.shape, bool)
        for layout in maps.get(param, ()):
            a, there = (layout.index_map.map_ndarray(x) for x in (a, there))
        wrong = np.argwhere(np.logical_and(there, np.logical_not(_same(a, b))))
        if len(wrong):
            at = tuple(int(i) for i in wrong[0])
            buffer = old.buffer_map[param].name
            message = f"{buffer}[{', '.join(map(str, at))}] was {a[at]} and is now {b[at]}; {len(wrong)} of {a.size} elements differ"
            return Difference(f"{name!r} computes something else: {message}", name, given)
    if was[1] != now[1] and not (was[1] != was[1] and now[1] != now[1]):
        return Difference(f"{name!r} returned {was[1]} and returns {now[1]} now", name, given)
    return None


def _same(a: Array, b: Array) -> Array:
    """Elementwise equality to the bit, NaN equal to NaN."""
    if a.dtype.kind in "biu":
        equal: Array = a == b
        return equal
    x, y = a.astype(np.float64), b.astype(np.float64)
    alike: Array = ((x == y) & (np.signbit(x) == np.signbit(y))) | (np.isnan(x) & np.isnan(y))
    return alike


def _claims(records: Sequence[Record]) -> tuple[bool, dict[Var, list[Relaid]]]:
    """Whether results are the same to the bit after steps, and the layouts that parameters got."""
    maps: dict[Var, list[Relaid]] = {}
    for record in [part for one in records for part in (one, *one.parts)]:
        for var, layout in record.interface.items():
            maps.setdefault(var, []).append(layout)
    return all(record.exactness.split("(")[0] in ("bitwise", "interface") for record in records), maps


def validated(
    state: State, seeds: int, run: Runner | None, again: Callable[[IRModule], Replayed], directory: str | None = None
) -> Validation:
    """Compare a schedule's program with the one that it started from, ``seeds`` times each changed function.

    ``again`` makes a schedule of another module with the same options. Raises :class:`ValidationError` for a difference,
    with the first step after which there is one, and the file that shows it.
    """
    states = state.moments()
    found = Validation()
    first, last = states[0].mod, states[-1].mod
    for name in first:
        if name not in last or first[name] is last[name]:
            continue
        moments = states
        work = max(estimated_work(first[name]), estimated_work(last[name]))
        try:
            if run is None and work > WORK_LIMIT:
                moments = _smaller(states, name, again)
                found.shrunk = True
            for seed in range(seeds):
                _validate_one(moments, name, seed, run, directory)
                found.runs += 1
        except _NoMeaning as reason:
            found.left[name] = str(reason)
    return found


def _validate_one(states: Sequence[State], name: str, seed: int, run: Runner | None, directory: str | None) -> None:
    records = states[-1].records()

    def difference(at: int) -> Difference | None:
        bitwise, maps = _claims(states[at].records())
        before, after = states[0].mod, states[at].mod
        return compared(before, after, name, seed, bitwise=bitwise, maps=maps, run=run)

    low, high = 0, len(states) - 1
    shown = difference(high)
    if shown is None:
        return
    while high - low > 1:
        middle = (low + high) // 2
        other = difference(middle)
        if other is None:
            low = middle
        else:
            high, shown = middle, other
    guilty = states[high].record
    assert guilty is not None
    words = Trace.of(records[:high]).as_python(dialect="tirlower")[-1]
    notes = [f"arguments: {', '.join(literal(one) for one in shown.arguments)}"[:2000]]
    try:
        notes.append(f"python {_written(states, high, shown, words, directory)} shows it alone")
    except OSError as error:
        notes.append(f"the file that shows it alone could not be written: {error}")
    found = ValidationError(
        f"step {high}, {words}, is wrong: {shown.message}", origin=guilty.instruction.kind.method, notes=notes
    )
    found.step, found.arguments = high, shown.arguments
    raise found


_FILE = '''"""Step {step}, {words}, changes what the program computes.

Run it: python {file}
"""

import numpy as np

import tirlower as tl
from tirlower.ir import load_json
from tirlower.script import parse

inf, nan = float("inf"), float("nan")

BEFORE = {reader}(r"""
{before}
""".strip())
AFTER = {reader_after}(r"""
{after}
""".strip())
ARGUMENTS = [
{arguments}]


def run(mod):
    """The arguments after a run."""
    arguments = [a.copy() if isinstance(a, np.ndarray) else a for a in ARGUMENTS]
    tl.interpret(mod, *arguments, name={name!r})
    return arguments


print(BEFORE.script())
print("\\nbecomes, by {words}\\n")
print(AFTER.script())
differ = [n for n, (x, y) in enumerate(zip(run(BEFORE), run(AFTER))) if not np.array_equal(x, y, equal_nan=True)]
print("\\nmismatch in the arguments", differ) if differ else print("\\nno difference")
raise SystemExit(1 if differ else 0)
'''


def _written(states: Sequence[State], at: int, shown: Difference, words: str, directory: str | None) -> Path:
    """The file that shows a step alone."""
    reader, before = readable(states[at - 1].mod)
    reader_after, after = readable(states[at].mod)
    folder = Path(directory).expanduser() if directory else Path(tempfile.gettempdir())
    folder.mkdir(parents=True, exist_ok=True)
    kind = states[at].record.instruction.kind.method  # type: ignore[union-attr]
    handle, name = tempfile.mkstemp(".py", f"tirlower_{kind}_", folder)
    path = Path(name)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(
            _FILE.format(
                step=at,
                words=words.replace("\\", "/").replace('"', "'"),
                file=path.name,
                reader=reader,
                before=before,
                reader_after=reader_after,
                after=after,
                arguments="".join(f"    {literal(one)},\n" for one in shown.arguments),
                name=shown.function,
            )
        )
    return path


# A program that is too large


def _smaller(states: Sequence[State], name: str, again: Callable[[IRModule], Replayed]) -> list[State]:
    """The moments of the same steps on a smaller program of the same divisibilities."""
    records = states[-1].records()
    numbers = _factors(records)
    func = states[0].mod[name]
    values = {op.value for op in each(IntImm, func) if op.dtype.is_integral and op.value >= LARGE}
    smaller = {int(value): _small(int(value), numbers) for value in values}
    made = _with_numbers(func, smaller)
    if estimated_work(made) > WORK_LIMIT:
        raise _NoMeaning(
            f"it takes more than {WORK_LIMIT} statement instances, and so does a smaller one of the same factors"
        )
    try:
        sch = again(states[0].mod.with_func(name, made))
        Trace.of(records).apply_to_schedule(sch)
    except (ScheduleError, TirError) as error:
        raise _NoMeaning(f"its steps do not apply to a smaller program: {error.message}") from error
    found = sch.moments()
    if any(estimated_work(state.mod[name]) > WORK_LIMIT for state in (found[0], found[-1])):
        raise _NoMeaning(f"it takes more than {WORK_LIMIT} statement instances")
    return found


def _factors(records: Sequence[Record]) -> set[int]:
    """What sizes are divided by in steps: the factors, and the products of those of one step."""
    found: set[int] = set()
    for record in records:
        given = [
            one for one in record.instruction.inputs if isinstance(one, int) and not isinstance(one, bool) and one > 1
        ]
        for at in range(len(given)):
            found.add(given[at])
            found.add(math.prod(given[at:]))
    return found


def _small(value: int, factors: set[int]) -> int:
    """The smallest number that is divisible by the same factors, and has what they leave."""
    for small in range(2, value):
        if all((value % f == 0) == (small % f == 0) for f in factors if f <= value):
            return small
    return value


def _with_numbers(func: PrimFunc, smaller: Mapping[int, int]) -> PrimFunc:
    """A function with other integer constants, wherever they stand: shapes, bounds, conditions."""
    text = json.loads(save_json(func))
    for kind, fields in text["nodes"]:
        if kind == "IntImm":
            fields["value"] = smaller.get(fields["value"], fields["value"])
    made = load_json(json.dumps(text))
    assert isinstance(made, PrimFunc)
    return made
