"""``python -m tests.mutation``: wrong variants of the package, which its tests must notice.

Without ``--sample`` the ones written by hand for ten passes, with it so many that are drawn from the syntax trees of
all rooms: ``python -m tests.mutation --sample 800``, which goes on where it was stopped (``fates.jsonl``, or ``--record FILE``).
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tests.mutation.campaign import FATES, Fate, report, run_mutants
from tests.mutation.runner import Broken, Outcome, run_variants
from tests.mutation.sampled import sample
from tests.mutation.variants import TESTS, VARIANTS, Wrong


def main() -> int:
    """Run the variants, print a table, and return the exit status: 1 where one survives, 2 where none can be judged."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument(
        "--pass", dest="passes", action="append", choices=sorted(TESTS), metavar="NAME", help="only of this pass"
    )
    parser.add_argument("--kind", choices=[kind.value for kind in Wrong], help="only variants that are wrong this way")
    parser.add_argument("--workers", type=int, default=1, help="test runs side by side")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one run of tests")
    parser.add_argument("--sample", type=int, default=0, metavar="COUNT", help="mutants drawn from all rooms instead")
    parser.add_argument("--seed", type=int, default=0, help="which are drawn")
    parser.add_argument("--room", action="append", help="of those drawn, the ones of this folder or module alone")
    parser.add_argument("--record", type=Path, default=FATES, help="what became of the drawn ones")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further one after this time")
    parser.add_argument("--again", action="store_true", help="run recorded survivors again")
    args = parser.parse_args()
    os.nice(10)
    try:
        return _sampled(args) if args.sample else _by_hand(args)
    except Broken as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _by_hand(args: argparse.Namespace) -> int:
    chosen = [
        v
        for v in VARIANTS
        if (not args.passes or v.of in args.passes) and (not args.kind or v.wrong.value == args.kind)
    ]
    outcomes = run_variants(chosen, args.workers, args.timeout, _print)
    survived = [o for o in outcomes if o.caught_by is None]
    print(f"{len(outcomes) - len(survived)} of {len(outcomes)} variants caught")
    for outcome in survived:
        print(f"survived: {outcome.variant} ({outcome.variant.file})")
    return 1 if survived else 0


def _sampled(args: argparse.Namespace) -> int:
    drawn = [m for m in sample(args.seed, args.sample) if not args.room or m.room in args.room]

    def log(fate: Fate) -> None:
        print(f"{fate.seconds:5.0f} s  {fate.name}: {(fate.caught_by or '*** SURVIVED ***')[:100]}", flush=True)

    fates = run_mutants(
        drawn,
        args.record,
        workers=args.workers,
        timeout=args.timeout,
        seconds=args.seconds,
        again=args.again,
        log=log,
    )
    text, survivors = report(fates, len(drawn))
    print(text)
    return 1 if survivors else 0


def _print(outcome: Outcome) -> None:
    variant = outcome.variant
    print(
        f"{variant.of:38} {variant.wrong.value:14} {outcome.seconds:5.0f} s  {variant.what:72} "
        f"{outcome.caught_by or '*** SURVIVED ***'}",
        flush=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
