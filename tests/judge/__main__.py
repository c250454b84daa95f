"""``python -m tests.judge --count 1000 --seed 0``: random programs, each verdict on them decided by enumeration."""

from __future__ import annotations

import argparse
import functools
import sys
from pathlib import Path

from tests.judge.generate import FEATURES
from tests.judge.runner import run_blocks, run_many


def main() -> int:
    """Run, print a report, and return the exit status: 1 when a verdict was wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.judge", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the first seed; the others follow it")
    parser.add_argument("--count", type=int, default=1000, help="how many programs")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--shrink", type=float, default=10.0, help="seconds for making each failing program small")
    parser.add_argument("--each", type=int, default=3, help="how many programs of a kind of fault to show")
    parser.add_argument("--without", default="", help=f"features to leave out: {', '.join(FEATURES)}")
    parser.add_argument("--table", default="", help="write the report as a page of Markdown to this file too")
    parser.add_argument(
        "--record", default="", help="a file with a line for each block of seeds done: left out next time"
    )
    args = parser.parse_args()
    judged = functools.partial(run_blocks, record=Path(args.record)) if args.record else run_many
    report = judged(
        args.seed, args.count, seconds=args.seconds, workers=args.workers, shrink_s=args.shrink, each=args.each,
        without=[name for name in args.without.split(',') if name],
        log=sys.stdout,
    )  # fmt: skip
    print(report)
    if args.table:
        command = f"python -m tests.judge --seed {args.seed} --count {report.programs} --table {args.table}"
        Path(args.table).write_text(report.table(command))
    return 1 if report.wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
