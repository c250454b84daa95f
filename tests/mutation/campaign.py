"""Runs tests, then fuzzers, against sampled mutants, and remembers what became of each."""

from __future__ import annotations

import json
import queue
import subprocess
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutation.runner import Copy
from tests.mutation.sampled import Mutant, tests_of

__all__ = ["EQUIVALENTS", "FATES", "Fate", "report", "run_mutants"]

EQUIVALENTS = Path(__file__).with_name("equivalents.toml")
"""The mutants that change nothing which a test could see, by name, each with the reason."""

FATES = Path(__file__).with_name("fates.jsonl")
"""What became of the mutants that were run so far: names stay as long as the functions do, so that a campaign of hours can be
one of many sittings."""

_PROGRAMS = ("tests.fuzz", "--count", "60", "--native", "all", "--reduce", "0")
_HOSTILE = ("tests.hostile", "--count", "40")
_HOSTILE_C = ("tests.hostile", "--count", "25", "--target", "c")
_JUDGE = ("tests.judge", "--count", "60", "--shrink", "0")
_EXPRESSIONS = ("tests.arith.fuzz", "--count", "1500", "--start", "0")

FUZZERS: dict[str, tuple[tuple[str, ...], ...]] = {
    "analysis": (_PROGRAMS, _JUDGE),
    "arith": (_EXPRESSIONS, _PROGRAMS),
    "c": (_HOSTILE_C,),
    "call": (_HOSTILE,),
    "driver": (_HOSTILE, _HOSTILE_C),
    "emit": (_PROGRAMS, _HOSTILE),
    # No fuzzer has a GPU, and none makes kernels of threads: those of the tests run on the host, beside the interpreter.
    "gpu": (("pytest", "-q", "-x", "-p", "no:cacheprovider", "tests/gpu/codegen/test_on_host.py"),),
    "interp": (_PROGRAMS,),
    "ir": (_PROGRAMS,),
    "legality": (_JUDGE, _HOSTILE),
    "llvm": (_PROGRAMS, _HOSTILE),
    "poly": (_JUDGE,),
    "rewrite": (_PROGRAMS,),
    "script": (_PROGRAMS,),
    "transforms": (_PROGRAMS, _HOSTILE),
}
"""What a mutant meets that a room's tests let pass: modules that are run, and their arguments. What has none
(machines' facts, validation, support, the loose modules) computes no value of a program. C needs its compiler."""


@dataclass(frozen=True)
class Fate:
    """What became of a mutant: the test or the fuzzer that noticed it (None where none did), and the seconds it took."""

    name: str
    caught_by: str | None
    seconds: float


def fate(mutant: Mutant, copy: Copy, timeout: float) -> Fate:
    """Run a mutant. What takes longer than ``timeout`` seconds is noticed too, for the tests end sooner without it."""
    begin = time.monotonic()
    with copy.using(Path(mutant.path), mutant.applied()):
        caught = copy.failure(tests_of(mutant.path), timeout)
        for module, *arguments in FUZZERS.get(mutant.room, ()) if caught is None else ():
            try:
                ended = copy.run("-m", module, *arguments, timeout=timeout).returncode
            except subprocess.TimeoutExpired:
                ended = 124
            if ended:
                caught = f"{module}: status {ended}"
                break
    return Fate(mutant.name, caught, round(time.monotonic() - begin, 1))


def run_mutants(
    mutants: Sequence[Mutant],
    record: Path,
    *,
    workers: int = 1,
    timeout: float = 600.0,
    seconds: float = float("inf"),
    again: bool = False,
    log: Callable[[Fate], None] = lambda fate: None,
) -> list[Fate]:
    """The fates of mutants, each a line of ``record`` as soon as it is known.

    What stands there is not run again, but for the survivors where ``again`` asks for it; a new line of a name takes the
    place of the one before. After ``seconds`` no further one is begun.
    """
    lines = record.read_text(encoding="utf-8").splitlines() if record.exists() else []
    known = {one.name: one for one in (Fate(**json.loads(line)) for line in lines)}
    wanted = [m for m in mutants if m.name not in known or (again and known[m.name].caught_by is None)]
    start = time.monotonic()
    record.parent.mkdir(parents=True, exist_ok=True)
    copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()

    def one(mutant: Mutant) -> None:
        if time.monotonic() - start > seconds:
            return
        copy = copies.get()
        try:
            known[mutant.name] = found = fate(mutant, copy, timeout)
        finally:
            copies.put(copy)
        with record.open("a", encoding="utf-8") as to:
            to.write(json.dumps(asdict(found)) + "\n")
        log(found)

    with tempfile.TemporaryDirectory(prefix="tirlower-mutants-") as directory:
        for number in range(workers):
            root = Path(directory, str(number))
            root.mkdir()
            copies.put(Copy(root))
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(one, wanted))
    return [known[mutant.name] for mutant in mutants if mutant.name in known]


def equivalents() -> dict[str, str]:
    """The listed mutants that change nothing, with their reasons."""
    return tomllib.loads(EQUIVALENTS.read_text(encoding="utf-8"))


def report(fates: Sequence[Fate], asked: int) -> tuple[str, int]:
    """What became of the mutants, and how many survivors have no reason."""
    listed = equivalents()
    survivors = [one.name for one in fates if one.caught_by is None]
    open_ones = [name for name in survivors if name not in listed]
    noticed = Counter("fuzzer" if one.caught_by.startswith("tests.") else "test" for one in fates if one.caught_by)
    lines = [
        f"{len(fates)} of {asked} mutants ran: {noticed['test']} noticed by tests, {noticed['fuzzer']} by fuzzers, "
        f"{len(survivors) - len(open_ones)} change nothing, {len(open_ones)} survive",
        *(f"survives: {name}" for name in sorted(open_ones)),
    ]
    return "\n".join(lines), len(open_ones)
