"""``python -m tests.fuzz --seconds 60 --seed 0 --workers 2``: random programs through random passes."""

from __future__ import annotations

import argparse
import os
import sys

from tests.fuzz.runner import run_many


def main() -> int:
    """Run, print a report, and return the exit status: 1 when anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed; the others follow it")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--count", type=int, help="stop after this many programs")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument(
        "--native", choices=("tenth", "all", "none"), default="tenth", help="which also run native code"
    )
    parser.add_argument("--skip", action="append", default=[], help="a pass that is not drawn")
    parser.add_argument("--stop-after", type=int, default=20, help="stop after this many failures")
    parser.add_argument("--reduce", type=float, default=0.0, help="seconds given to making each failing program small")
    args = parser.parse_args()
    if args.count is None and args.seconds == float("inf"):
        args.seconds = 60.0
    os.environ["TIRLOWER_CACHE"] = "off"
    print(f"seeds from {args.seed}", flush=True)
    report = run_many(
        args.seed,
        seconds=args.seconds,
        count=args.count,
        workers=args.workers,
        native=args.native,
        skip=args.skip,
        log=sys.stdout,
        stop_after=args.stop_after,
        reduce=args.reduce,
    )
    print(f"seeds from {args.seed}: {report}")
    print("shapes:", ", ".join(f"{name} {n}" for name, n in report.shapes.most_common()))
    print("passes:", ", ".join(f"{name} {n}" for name, n in report.passes.most_common()))
    return 1 if report.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
