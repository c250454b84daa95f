"""``python -m tests.mutation [--pass NAME] [--workers 2]``: wrong variants of passes, which their tests must notice."""

from __future__ import annotations

import argparse
import os
import sys

from tests.mutation.runner import Broken, Outcome, run_variants
from tests.mutation.variants import TESTS, VARIANTS, Wrong


def main() -> int:
    """Run the variants, print a table, and return the exit status: 1 where one survives, 2 where none can be judged."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument(
        "--pass", dest="passes", action="append", choices=sorted(TESTS), metavar="NAME", help="only of this pass"
    )
    parser.add_argument("--kind", choices=[kind.value for kind in Wrong], help="only variants that are wrong this way")
    parser.add_argument("--workers", type=int, default=1, help="test runs side by side")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for one run of a pass's tests")
    args = parser.parse_args()
    os.nice(10)
    chosen = [
        v
        for v in VARIANTS
        if (not args.passes or v.of in args.passes) and (not args.kind or v.wrong.value == args.kind)
    ]
    try:
        outcomes = run_variants(chosen, args.workers, args.timeout, _print)
    except Broken as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    survived = [o for o in outcomes if o.caught_by is None]
    print(f"{len(outcomes) - len(survived)} of {len(outcomes)} variants caught")
    for outcome in survived:
        print(f"survived: {outcome.variant} ({outcome.variant.file})")
    return 1 if survived else 0


def _print(outcome: Outcome) -> None:
    variant = outcome.variant
    print(
        f"{variant.of:38} {variant.wrong.value:14} {outcome.seconds:5.0f} s  {variant.what:72} "
        f"{outcome.caught_by or '*** SURVIVED ***'}",
        flush=True,
    )


if __name__ == "__main__":
    raise SystemExit(main())
