"""``python -m tests.judge_threads --seed 0 --count 1000``: random kernels, each answer decided by running their texts in step."""

from __future__ import annotations

import argparse
import multiprocessing as mp
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.judge_threads.generate import FEATURES, generate
from tests.judge_threads.judge import WRONG, Verdict, judge, shrink


def _judged(seed: int, without: tuple[str, ...]) -> tuple[int, Verdict]:
    return seed, judge(generate(seed, without))


def _all(seeds: range, workers: int, without: tuple[str, ...]) -> Iterator[tuple[int, Verdict]]:
    one = partial(_judged, without=without)
    if workers == 1:
        yield from map(one, seeds)
        return
    with ProcessPoolExecutor(workers, mp_context=mp.get_context("fork")) as pool:
        yield from pool.map(one, seeds, chunksize=8)


def main() -> int:
    """Run, print a report, and return the exit status: 1 where an answer was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.judge_threads", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed; the others follow it")
    parser.add_argument("--count", type=int, default=1000, help="how many kernels")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--each", type=int, default=2, help="how many small kernels of a kind of fault to show")
    parser.add_argument("--without", default="", help=f"features to leave out: {', '.join(FEATURES)}")
    args = parser.parse_args()
    without = tuple(name for name in args.without.split(",") if name)
    counts: Counter[str] = Counter()
    found: Counter[str] = Counter()
    kernels, start = 0, time.monotonic()
    for seed, verdict in _all(range(args.seed, args.seed + args.count), args.workers, without):
        kernels += 1
        counts.update(verdict.counts)
        for finding in verdict.findings:
            found[finding.kind] += 1
            if found[finding.kind] <= args.each:
                small = shrink(generate(seed, without), finding.kind)
                print(f"seed {seed}: {finding.kind}: {finding.what}\n{small.text}", flush=True)
            else:
                print(f"seed {seed}: {finding.kind}: {finding.what}", flush=True)
        if time.monotonic() - start > args.seconds:
            break
    wrong = sum(found[kind] for kind in WRONG)
    print(f"{kernels} kernels in {time.monotonic() - start:.0f} s: {wrong} wrong answers")
    for kind, count in (*found.most_common(), *counts.most_common()):
        print(f"  {count} × {kind}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
