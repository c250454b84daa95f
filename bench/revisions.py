"""``python -m bench.revisions CHECKOUT``: this checkout's kernels beside those of another one, in the same run.

The corpus of ``tests/kernels`` is built in both. Printed are: how many accesses each proves and guards, the kernels
whose text differs, the innermost loops that take more compares and branches here, and the interleaved ratio of the
times of a call (above 1: slower here). The other checkout is a worktree of an older commit, for example::

    git worktree add --detach ../before HEAD~20 && python -m bench.revisions ../before
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parents[1]


class Checkout:
    """A worker process in a checkout."""

    def __init__(self, root: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(root), "TIRLOWER_CACHE": "off"}
        self.process = subprocess.Popen(
            [sys.executable, str(_HERE / "bench" / "revision_worker.py")],
            cwd=root,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.names: list[str] = self._answer()

    def ask(self, **what: Any) -> Any:
        """The worker's answer."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker ended with status {self.process.wait()}")
        return json.loads(line)


def _ratio(here: Checkout, there: Checkout, name: str, rounds: int, turn: float) -> float:
    """The median over the rounds of the two turns' ratio: what disturbs a round meets both of its turns."""
    once = min(here.ask(time=name, calls=3), there.ask(time=name, calls=3)) / 3
    calls = max(1, min(100_000, int(turn / max(once, 1e-8))))
    ratios = []
    for at in range(rounds):
        first, second = (here, there) if at % 2 else (there, here)
        a, b = first.ask(time=name, calls=calls), second.ask(time=name, calls=calls)
        ratios.append(a / b if first is here else b / a)
    return statistics.median(ratios)


def compare(other: Path, *, only: str = "", rounds: int = 7, turn: float = 0.02, time: bool = True) -> str:
    """The report."""
    here, there = Checkout(_HERE), Checkout(other.resolve())
    names = [name for name in here.names if name in there.names and only in name]
    totals = {"proved": [0, 0], "guarded": [0, 0], "assumed": [0, 0], "trusted": [0, 0]}
    build_ratios, lines, ratios = [], [], {}
    for name in names:
        new, old = here.ask(build=name), there.ask(build=name)
        if "error" in new or "error" in old:
            lines.append(f"{name}: here {new.get('error', 'built')}; there {old.get('error', 'built')}")
            continue
        for key, (a, b) in {k: (new[k], old[k]) for k in totals}.items():
            totals[key][0] += a if isinstance(a, int) else len(a)
            totals[key][1] += b if isinstance(b, int) else len(b)
        build_ratios.append(new["seconds"] / old["seconds"])
        if new["text"] != old["text"]:
            lines.append(f"{name}: its text differs")
        if len(new["guarded"]) > len(old["guarded"]):
            lines.append(f"{name}: guarded here {new['guarded']}, there {old['guarded']}")
        decisions = [sum(d for _, d in one["loops"]) for one in (new, old)]
        if decisions[0] > decisions[1]:
            lines.append(f"{name}: innermost loops {new['loops']} here, {old['loops']} there [instructions, decisions]")
        if time:
            ratios[name] = _ratio(here, there, name, rounds, turn)
            if not 0.95 <= ratios[name] <= 1.05:  # a second look, longer, at what stands out
                ratios[name] = _ratio(here, there, name, 3 * rounds, turn)
    lines.append(f"{len(names)} kernels: " + ", ".join(f"{k} {a} (there {b})" for k, (a, b) in totals.items()))
    lines.append(f"time of a build, here / there: median {statistics.median(build_ratios):.3f}")
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios.values())))
        lines.append(
            f"time of a call, here / there: geometric mean {mean:.3f}, median {statistics.median(ratios.values()):.3f}"
        )
        worst = sorted(ratios.items(), key=lambda item: -item[1])
        lines += [f"  {ratio:.3f} {name}" for name, ratio in worst[:20] if ratio > 1.05]
        lines.append(f"{sum(r > 1.05 for r in ratios.values())} kernels more than 5 percent slower here")
    return "\n".join(lines)


def main() -> int:
    """Print the report."""
    parser = argparse.ArgumentParser(prog="python -m bench.revisions", description=__doc__)
    parser.add_argument("checkout", type=Path, help="the root of the other checkout")
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--no-times", action="store_true", help="proofs and assembly alone")
    args = parser.parse_args()
    print(compare(args.checkout, only=args.only, rounds=args.rounds, time=not args.no_times))
    return 0


if __name__ == "__main__":
    sys.exit(main())
