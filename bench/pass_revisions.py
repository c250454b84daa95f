"""``python -m bench.pass_revisions CHECKOUT``: what each pass costs on 10,000 statements, here and in another checkout.

Both run in turns, in processor time, which other work on the machine changes little; the fastest of some turns counts.
Printed are parsing, printing and the passes of 20 ms and more, with the ratio: above 1 is slower here. The other checkout is a
worktree of an older commit, as for ``bench.revisions``; its passes are those that it has.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

_HERE = Path(__file__).resolve().parents[1]
_SMALL = 0.02
"""Seconds below which a difference says nothing."""


def measured(size: int) -> dict[str, float]:
    """Seconds of processor time by pass, of the tirlower that this process imports."""
    from bench import passes

    passes.time.perf_counter = time.process_time  # type: ignore[assignment]
    return passes.costs(passes.straight_line(size), codegen=False)


def _of(checkout: Path, size: int) -> dict[str, float]:
    environment = {**os.environ, "PYTHONPATH": str(checkout), "TIRLOWER_CACHE": "off"}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve()), "--worker", str(size)],
        cwd=checkout,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def compare(other: Path, size: int = 10_000, turns: int = 3) -> dict[str, tuple[float, float]]:
    """The fastest of some turns of each pass that both checkouts have: seconds there, and here."""
    best: dict[str, tuple[float, float]] = {}
    for _ in range(turns):
        there, here = _of(other, size), _of(_HERE, size)
        for name in there.keys() & here.keys():
            old = best.get(name, (float("inf"), float("inf")))
            best[name] = (min(old[0], there[name]), min(old[1], here[name]))
    return {name: best[name] for name in here if name in best}


def table(found: dict[str, tuple[float, float]], least: float = _SMALL) -> str:
    """Rows of milliseconds there and here, and their ratio."""
    lines = [f"{'':<44}{'before':>10}{'here':>10}{'ratio':>8}   (ms of processor time)"]
    for name, (before, here) in found.items():
        if before >= least:
            lines.append(f"{name:<44}{before * 1e3:>10.1f}{here * 1e3:>10.1f}{here / before:>8.2f}")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkout", type=Path, nargs="?", help="a worktree of another commit")
    parser.add_argument("--size", type=int, default=10_000, help="statements (default %(default)s)")
    parser.add_argument("--turns", type=int, default=5, help="how often each runs (default %(default)s)")
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker is not None:
        print(json.dumps(measured(args.worker)))
    elif args.checkout is None:
        parser.error("name a checkout: git worktree add --detach ../before HEAD~20")
    else:
        print(table(compare(args.checkout.resolve(), args.size, args.turns)))


if __name__ == "__main__":
    main()
