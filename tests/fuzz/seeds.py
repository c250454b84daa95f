"""``FIRST COUNT`` on the command line: a fuzzer run for so many seeds, with how its attempts ended."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from unittest import mock

from tirlower.diagnostics import ScheduleError

__all__ = ["is_a_refusal", "patched", "run_seeds"]


def is_a_refusal(error: ScheduleError) -> None:
    """Raise AssertionError where a step failed by a mistake of ours, not by what it was asked to do."""
    assert type(error) is not ScheduleError, error
    assert not any(word in error.message for word in ("internal error", "nothing defines it")), error


@contextlib.contextmanager
def patched(numbers: Mapping[ModuleType, Mapping[str, object]]) -> Iterator[None]:
    """A context in which names of modules stand for other values: limits below which nothing is tried, say."""
    with contextlib.ExitStack() as stack:
        for module, names in numbers.items():
            stack.enter_context(mock.patch.multiple(module, **names))
        yield


def run_seeds(run_one: Callable[[int, Counter[str]], object]) -> int:
    """Run each seed, print the failures as they come and then the counts; 1 where a seed failed."""
    first, count = (int(word) for word in sys.argv[1:3])
    counts: Counter[str] = Counter()
    failed = []
    for seed in range(first, first + count):
        try:
            run_one(seed, counts)
        except Exception as error:
            failed.append(seed)
            print(f"seed {seed}: {type(error).__name__}: {str(error)[:3000]}", flush=True)
    for what, number in counts.most_common():
        print(f"{number:6} {what}")
    print("failed:", failed)
    return int(bool(failed))
