"""``python tools/nightly.py``: everything that takes longer than the gate may, job after job.

``--list`` shows the jobs, ``--only NAME`` (again and again) runs some of them. Each is one command that ends with 0
where all is well; what it prints goes to the terminal and to ``--logs FOLDER``. Ends with 1 where a job failed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Job:
    """A job: its name, what it shows, its command (``python`` stands for this one), and its limit in hours."""

    name: str
    shows: str
    command: str
    hours: float = 2.0

    def arguments(self) -> list[str]:
        """The command's words."""
        words = shlex.split(self.command)
        return [sys.executable, *words[1:]] if words[0] == "python" else words


JOBS = (
    Job(
        "long-tests",
        "long random runs, every access of the kernels",
        "python -m pytest -m nightly -n 2",
        4.0,
    ),
    Job(
        "every-float32",
        "elementary functions keep their bounds at every float32 argument, and those that rise never fall",
        "python -m tests.emit.vmath.exhaust",
        6.0,
    ),
    Job(
        "each-alone",
        "every test file and page passes in a process of its own",
        "python tools/run_each_alone.py --modules",
        4.0,
    ),
    Job("judge", "no verdict of legality is wrong", "python -m tests.judge --count 100000 --workers 2", 6.0),
    Job(
        "judge-threads",
        "no proof about threads is wrong, no barrier missing, no race unseen",
        "python -m tests.judge_threads --count 20000 --workers 2",
        6.0,
    ),
    Job(
        "gpu-programs",
        "random programs compute on a GPU, or in the simulator of one, what they should",
        "python -m tests.gpu.on_device.campaign --simulated --count 5000 --workers 2",
        2.0,
    ),
    Job("fuzz", "random programs keep their meaning", "python -m tests.fuzz --count 50000 --workers 2", 6.0),
    Job("fuzz-everywhere", "steps that move values, each at all places", "python -m tests.fuzz.everywhere 0 1000", 1.0),
    Job("fuzz-nests", "naive loops as builds schedule them", "python -m tests.autoschedule.nests 0 3000", 0.5),
    Job(
        "fuzz-graphs",
        "random graphs keep their meaning, bit by bit",
        "python -m tests.graph.fuzz --count 20000 --workers 2",
        6.0,
    ),
    Job("full-size-models", "the six models at full size compute what they should", "python -m tests.graph.full_size"),
    Job("fuzz-expressions", "expressions keep their value", "python -m tests.arith.fuzz --count 1000000 --workers 2"),
    Job("fuzz-sets", "values lie in their sets", "python -m tests.arith.fuzz --what sets --count 200000 --workers 2"),
    Job("fuzz-regions", "regions hold", "python -m tests.arith.fuzz --what regions --count 200000 --workers 2"),
    Job("fuzz-maps", "iteration maps hold", "python -m tests.arith.fuzz --what maps --count 40000 --workers 2"),
    Job("fuzz-lets", "lets keep their values", "python -m tests.arith.fuzz --what lets --count 100000 --workers 2"),
    Job("mutants", "wrong variants of passes are noticed by their tests", "python -m tests.mutation --workers 2", 6.0),
    Job(
        "sampled-mutants",
        "small wrong edits of every room are noticed by its tests and the fuzzers",
        "python -m tests.mutation --sample 800 --workers 2",
        12.0,
    ),
    Job(
        "streams",
        "launches, copies and frees in streams of several devices and threads stay in order",
        "python -m tests.gpu.launch.random_streams --count 10000",
    ),
    Job(
        "tuning",
        "searches through threads, processes, Dask and Ray (extra `executors`) find the same",
        "python -m pytest tests/tuning -rs",
        0.5,
    ),
    Job("hostile", "hostile programs end as they announce", "python -m pytest tests/hostile -n 2"),
    Job(
        "precision", "no more legal steps are refused than the page says", "python tools/make_precision_page.py --check"
    ),
    Job("index-page", "index expressions reach their form", "python tools/make_index_page.py --check"),
    Job("schedule-page", "the verbs of a schedule are listed", "python tools/make_schedule_page.py --check"),
    Job("pass-page", "the catalog shows what passes do", "python tools/make_pass_page.py --check"),
)


def chosen(names: Sequence[str]) -> list[Job]:
    """The jobs of some names, in the list's order; all where none is named. Raises SystemExit for an unknown name."""
    known = {job.name for job in JOBS}
    for name in names:
        if name not in known:
            raise SystemExit(f"nightly: no job is named {name!r}; the jobs are {', '.join(job.name for job in JOBS)}")
    return [job for job in JOBS if not names or job.name in names]


def run(job: Job, logs: Path) -> int:
    """Run a job, its output in the terminal and in a file of its name; its status, 124 where it was out of time."""
    logs.mkdir(parents=True, exist_ok=True)
    late = threading.Event()
    words = ["nice", "-n", "10", *job.arguments()] if os.name == "posix" else job.arguments()
    with (
        (logs / f"{job.name}.log").open("w", encoding="utf-8") as log,
        subprocess.Popen(
            words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        ) as process,
    ):

        def end() -> None:
            late.set()
            os.killpg(process.pid, signal.SIGKILL)  # what it has started too

        timer = threading.Timer(job.hours * 3600, end)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                log.write(line)
                print(line, end="", flush=True)
            status = process.wait()
        except KeyboardInterrupt:
            os.killpg(process.pid, signal.SIGINT)
            raise
        finally:
            timer.cancel()
    return 124 if late.is_set() else status


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--list", action="store_true", help="show the jobs, and run none")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="only this job; may be repeated")
    parser.add_argument("--logs", type=Path, default=ROOT / "build" / "nightly", help="where the output is kept")
    options = parser.parse_args(arguments)
    jobs = chosen(options.only)
    if options.list:
        for job in jobs:
            print(f"{job.name:<18}{job.shows}\n{'':<18}{job.command}")
        return 0
    ended: list[tuple[Job, int, float]] = []
    for job in jobs:
        print(f"== {job.name}: {job.command}", flush=True)
        start = time.monotonic()
        ended.append((job, run(job, options.logs), time.monotonic() - start))
    print()
    for job, status, seconds in ended:
        print(f"{'ok' if status == 0 else f'FAILED ({status})':<14}{seconds:8.0f} s  {job.name}")
    return 1 if any(status for _, status, _ in ended) else 0


if __name__ == "__main__":
    raise SystemExit(main())
