"""``python -m bench.revisions CHECKOUT``: this checkout's kernels beside those of another one, in the same run.

The corpus of ``tests/kernels`` is built in both. Printed are: how many accesses each proves and guards, the kernels
whose text differs, those that execute more compares and branches in a call here (and their innermost loops), and the
interleaved ratio of the times of a call (above 1: slower here). What a loop's text holds says less than what runs: LLVM
unrolls a loop eight times in one checkout and not in the other, and adds one for the rest. The other checkout is a
worktree of an older commit, for example::

    git worktree add --detach ../before HEAD~20 && python -m bench.revisions ../before
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parents[1]

#: the turns of each checkout in a round, of which the fastest counts: many short ones on a machine that others use too
_TURNS = 10

#: the counters of what a call executes are put into x86's assembly
_COUNTS = platform.machine() in ("x86_64", "AMD64")


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
    """The median over the rounds of the ratio of the fastest turns: what disturbs a round meets turns of both."""
    once = min(here.ask(time=name, calls=3), there.ask(time=name, calls=3)) / 3
    calls = max(1, min(100_000, int(turn / _TURNS / max(once, 1e-8))))
    ratios = []
    for _ in range(rounds):
        turns = [(here.ask(time=name, calls=calls), there.ask(time=name, calls=calls)) for _ in range(_TURNS)]
        ratios.append(min(a for a, _ in turns) / min(b for _, b in turns))
    return statistics.median(ratios)


def _decisions(name: str, new: Any, old: Any, loops: Any, loops_there: Any) -> list[str]:
    """A line where a call executes more compares and branches here."""
    if isinstance(new, dict) or isinstance(old, dict):
        return [f"{name}: not counted here {new}, there {old}"]
    if new[1] <= old[1]:
        return []
    return [
        f"{name}: executes {new[1]} compares and branches of {new[0]} instructions, there {old[1]} of {old[0]}; "
        f"innermost loops {loops} here, {loops_there} there [instructions, decisions]"
    ]


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
        if _COUNTS:
            lines += _decisions(name, here.ask(count=name), there.ask(count=name), new["loops"], old["loops"])
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
        lines += [f"  {ratio:.3f} {name}" for name, ratio in worst[:40] if ratio > 1.05]
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
