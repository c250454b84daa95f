"""``python -m tests.hostile --count 1000``: random hostile programs, natively on fenced arrays against the interpreter."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter


def main() -> int:
    """Run, print a report, and return the exit status: 1 when anything went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed; the others follow it")
    parser.add_argument("--seeds", default="", help="these alone, each in a process of its own")
    parser.add_argument("--count", type=int, default=300, help="how many programs")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--each", type=int, default=2, help="how many programs of a kind of fault to make small")
    parser.add_argument("--shrink", action="store_true", help="make the first failing program of each kind small")
    parser.add_argument(
        "--target", default="llvm", choices=("llvm", "c"), help="what they are built for (small ones: always llvm)"
    )
    args = parser.parse_args()
    os.environ["TIRLOWER_CACHE"] = "off"
    from tests.hostile.campaign import one, run_many
    from tests.hostile.generate import generate
    from tests.hostile.shrink import kind_of, shrink

    if args.seeds:
        for seed in map(int, args.seeds.split(",")):
            program = generate(seed)
            small = shrink(program) if args.shrink else program
            print(f"seed {seed}: {one(small)}\n{small.text}{small.calls[0]}\n", flush=True)
        return 0
    log = None if args.shrink else sys.stdout
    report = run_many(args.seed, args.count, seconds=args.seconds, log=log, target=args.target)
    kinds: Counter[str] = Counter()
    print(report, flush=True)
    if args.shrink:
        print("seeds:", [fault.seed for fault in report.faults], flush=True)
    for fault in report.faults if args.shrink else ():
        kinds[kind_of([fault.what])] += 1
        if kinds[kind_of([fault.what])] <= args.each:
            small = shrink(generate(fault.seed))
            print(
                f"seed {fault.seed}: {fault.what[:300]}\n{small.text}{small.calls[0]}\n  now {one(small)}\n", flush=True
            )
    print(dict(kinds))
    return 1 if report.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
