"""Do the fuzzers notice a check that does not check? Each verb's check is made to say yes where it would show two iterations.

``python -m tests.fuzz.unproved [VERB ...]`` tries each verb, or some, and prints after how many programs it was noticed.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.fuzz import orders, schedules, values
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.kind import Kind
from tirlower.schedule.registry import all_kinds, method_kind
from tirlower.schedule.step import Step

__all__ = ["CHECKED", "blind", "noticed_after"]

MOST = 200
"""So many programs, of four steps each, are tried."""


def _fuzzer(verb: str) -> Callable[[int, Counter[str]], object] | None:
    """What draws steps of a verb; None where nothing does."""
    if verb in orders.VERBS:
        return lambda seed, counts: orders.judge_one(seed, counts, [verb])
    if verb in values.VERBS:
        return lambda seed, counts: values.run_one(seed, counts, [verb])
    if verb in schedules.VERBS:
        return lambda seed, counts: schedules.run_one(seed, counts, [verb])
    return None


CHECKED = tuple(
    kind.method
    for kind in all_kinds()
    if not kind.pure and kind.compose is None and kind.check.__name__ != "_always" and _fuzzer(kind.method) is not None
)
"""The verbs that have a check, and steps of which are drawn."""


@contextmanager
def blind(kind: Kind) -> Iterator[Counter[str]]:
    """A context in which a verb takes what its check refutes by two iterations, or does not know; how often it did."""
    real, overruled = kind.check, Counter[str]()

    def check(step: Step) -> Verdict:
        found = real(step)
        if not found.unknown and found.witness is None:
            return found
        overruled[found.status] += 1
        return PROVED

    kind.__dict__["check"] = check
    try:
        yield overruled
    finally:
        kind.__dict__["check"] = real


def noticed_after(verb: str, most: int = MOST) -> int | None:
    """After how many programs a fuzzer fails that draws only steps of a verb whose check is blind; None where none does, -1
    where the check refuted nothing in any of them."""
    run, counts = _fuzzer(verb), Counter[str]()
    assert run is not None
    with blind(method_kind(verb)) as overruled:
        for seed in range(most):
            try:
                run(seed, counts)
            except Exception:
                return seed + 1
    return None if overruled["refuted"] else -1


if __name__ == "__main__":
    missed = 0
    for name in sys.argv[1:] or CHECKED:
        after = noticed_after(name)
        missed += after is None
        said = "NOT NOTICED" if after is None else "never refutes" if after < 0 else str(after)
        print(f"{name:24} {said}", flush=True)
    raise SystemExit(missed > 0)
