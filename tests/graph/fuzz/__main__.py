"""``python -m tests.graph.fuzz --count 20000 --workers 2``: random graphs through random passes."""

from __future__ import annotations

import argparse

from tests.graph.fuzz.runner import run_many


def main() -> int:
    """Run, print a report, and return the exit status: 1 when anything failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.graph.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed; the others follow it")
    parser.add_argument("--count", type=int, default=1000, help="how many graphs")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--native", type=int, default=50, help="compile each so-manieth graph; 0: none")
    parser.add_argument("--reduce", type=float, default=10.0, help="seconds given to making a failing graph small")
    args = parser.parse_args()
    print(f"seeds from {args.seed}", flush=True)
    report = run_many(
        args.seed, args.count, workers=args.workers, native=args.native, seconds=args.seconds, reduce=args.reduce
    )
    print(report)
    return 1 if report.failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
