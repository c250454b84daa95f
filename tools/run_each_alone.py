"""Run every test file and every page of the docs in a process of its own, and print those that fail.

Files that pass together may rest on what another has imported or left behind; alone they show it.
``python tools/run_each_alone.py tests/ir docs`` runs some folders or files; without arguments, all of ``tests`` and
``docs``. ``--modules`` adds the modules of the package that have examples. Ends with 1 where a file failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

NOTHING_COLLECTED = 5
"""pytest's exit status for a file whose tests are all left for the night."""


@dataclass(frozen=True)
class Outcome:
    """How a file ended, by pytest's exit status (124: out of time), after how many seconds, with which output."""

    path: str
    status: int
    seconds: float
    output: str

    @property
    def failed(self) -> bool:
        """Whether the file does not pass alone."""
        return self.status not in (0, NOTHING_COLLECTED)


def collected(paths: Sequence[str], modules: bool = False) -> list[str]:
    """The files with tests under some paths, relative to the checkout, each once.

    Raises SystemExit for a path that does not exist.
    """
    found: dict[str, None] = {}
    for path in [*(paths or ("tests", "docs")), *(["tirlower"] if modules else [])]:
        place = (ROOT / path).resolve()
        if not place.exists():
            raise SystemExit(f"run_each_alone: there is no {path}")
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if not place.is_dir() or _has_tests(file):
                found[str(file.relative_to(ROOT))] = None
    return list(found)


def _has_tests(file: Path) -> bool:
    if file.suffix == ".md" or (file.suffix == ".py" and ROOT / "tirlower" in file.parents):
        return ">>> " in file.read_text(encoding="utf-8")
    return file.suffix == ".py" and file.name.startswith("test_")


def run(path: str, limit: float, more: Sequence[str] = ()) -> Outcome:
    """Run one file alone."""
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", *more, path]
    start = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit, check=False
        )
    except subprocess.TimeoutExpired as error:
        output = error.stdout if isinstance(error.stdout, str) else (error.stdout or b"").decode(errors="replace")
        return Outcome(path, 124, time.monotonic() - start, f"{output}\nstill running after {limit:.0f} s")
    return Outcome(path, done.returncode, time.monotonic() - start, done.stdout)


def outcomes(paths: Sequence[str], workers: int, limit: float, more: Sequence[str] = ()) -> Iterator[Outcome]:
    """Run files alone, some at a time, in order."""
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(lambda path: run(path, limit, more), paths)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("paths", nargs="*", help="folders and files; all of tests and docs where left out")
    parser.add_argument("--modules", action="store_true", help="modules of the package with examples too")
    parser.add_argument("--workers", type=int, default=1, help="files that run at once")
    parser.add_argument("--seconds", type=float, default=1800, help="the limit of one file")
    parser.add_argument("--lines", type=int, default=40, help="lines shown of a failed file's output")
    chosen = parser.parse_args(arguments)
    files = collected(chosen.paths, chosen.modules)
    failed: list[Outcome] = []
    start = time.monotonic()
    for number, one in enumerate(outcomes(files, chosen.workers, chosen.seconds), 1):
        word = "FAILED" if one.failed else "ok" if one.status == 0 else "no test by day"
        print(f"[{number}/{len(files)}] {one.seconds:6.1f} s  {one.path}  {word}", flush=True)
        if one.failed:
            failed.append(one)
            print("\n".join(one.output.splitlines()[-chosen.lines :]), flush=True)
    print(f"{len(files) - len(failed)} of {len(files)} files pass alone, {time.monotonic() - start:.0f} s")
    for one in failed:
        print(f"  {one.path}: pytest ended with {one.status}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
