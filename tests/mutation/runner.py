"""Runs tests against wrong variants of the package, in copies of it."""

from __future__ import annotations

import os
import queue
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.variants import TESTS, Variant

__all__ = ["NOTHING_RAN", "Broken", "Copy", "Outcome", "run_variants", "wrong_source"]

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path("tirlower")
COPIED = ("tirlower", "tests", "bench", "docs", "examples", "tools", "pyproject.toml", "README.md")
FAILED = 1
"""The exit status of pytest where tests ran and some failed; an error in importing them has another."""
NOTHING_RAN = "the tests do not run"
MEMORY = 12 << 30
"""Bytes of addresses for a process: a wrong variant may take all that there is."""


class Broken(Exception):
    """The check itself is wrong: a variant no longer fits the source, or the tests fail without one."""


@dataclass(frozen=True)
class Outcome:
    """What became of a variant: the test that failed (None where all passed), and the seconds it took."""

    variant: Variant
    caught_by: str | None
    seconds: float


def wrong_source(variant: Variant, root: Path = ROOT) -> str:
    """The source of a variant's file with its text replaced; raises :class:`Broken` unless that stands there once."""
    path = root / SOURCES / variant.file
    if not path.is_file():
        raise Broken(f"{variant}: there is no file {variant.file}")
    source = path.read_text(encoding="utf-8")
    count = source.count(variant.text)
    if count != 1:
        raise Broken(f"{variant}: its text is found {count} times in {variant.file}, not once:\n{variant.text}")
    return source.replace(variant.text, variant.instead)


class Copy:
    """A copy of the package and its tests, in which one edit at a time takes effect."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.edits = 0
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif (ROOT / name).is_file():
                shutil.copy2(ROOT / name, root / name)
        used = self.run("-c", "import tirlower; print(tirlower.__file__)").stdout.strip()
        if not Path(used).resolve().is_relative_to(root.resolve()):
            raise Broken(f"the tests would run against {used}, not against the copy in {root}")

    def run(self, *args: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        """Python with some arguments; raises subprocess.TimeoutExpired after so many seconds, all its processes ended."""
        env = dict(os.environ, PYTHONPATH=str(self.root), TIRLOWER_CACHE="off")
        with subprocess.Popen(
            [sys.executable, *args],
            cwd=self.root,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=_limit_memory,
        ) as process:
            try:
                output, _ = process.communicate(timeout=timeout)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        return subprocess.CompletedProcess(args, process.returncode, output)

    def failure(self, files: Sequence[str], timeout: float) -> str | None:
        """The first test of some files that fails, :data:`NOTHING_RAN` where none can run; None where all pass."""
        options = ("-x", "-q", "-rf", "--tb=no", "-p", "no:cacheprovider")
        try:
            done = self.run("-m", "pytest", *options, *files, timeout=timeout)
        except subprocess.TimeoutExpired:
            return f"no end after {timeout:.0f} s"
        if done.returncode == 0:
            return None
        if done.returncode != FAILED:
            return f"{NOTHING_RAN}: {done.stdout[-2000:]}"
        named = re.search(r"^FAILED \S*?::(\S+)", done.stdout, re.MULTILINE)
        return named.group(1) if named else "a test that is not named"

    @contextmanager
    def using(self, file: Path, wrong: str) -> Iterator[None]:
        """A text in place of a file's, which comes back afterwards."""
        path = self.root / file
        right = path.read_text(encoding="utf-8")
        stamp = path.stat().st_mtime
        self._write(path, wrong, stamp)
        try:
            yield
        finally:
            self._write(path, right, stamp)

    def _write(self, path: Path, source: str, stamp: float) -> None:
        # Compiled files are known by size and whole seconds, so no two edits may have one time.
        self.edits += 1
        path.write_text(source, encoding="utf-8")
        os.utime(path, (stamp + self.edits, stamp + self.edits))


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def _files(of: str) -> list[str]:
    return [str(Path("tests", name)) for name in TESTS[of]]


def run_variants(
    variants: Sequence[Variant],
    workers: int = 1,
    timeout: float = 600.0,
    log: Callable[[Outcome], None] = lambda outcome: None,
) -> list[Outcome]:
    """Run each variant against the tests of its pass, which have to pass without one; ``log`` is told of each.

    ``timeout`` is in seconds for one run of tests; a variant that takes longer is caught. Raises :class:`Broken` for
    a variant whose text is not found, or which cannot be imported, and for tests that fail without a variant.
    """
    for variant in variants:
        wrong_source(variant)
    copies: queue.SimpleQueue[Copy] = queue.SimpleQueue()

    def right(of: str) -> None:
        copy = copies.get()
        try:
            failed = copy.failure(_files(of), timeout)
        finally:
            copies.put(copy)
        if failed is not None:
            raise Broken(f"the tests of {of} fail without a variant: {failed}")

    def one(variant: Variant) -> Outcome:
        copy = copies.get()
        try:
            begin = time.monotonic()
            with copy.using(SOURCES / variant.file, wrong_source(variant)):
                failed = copy.failure(_files(variant.of), timeout)
        finally:
            copies.put(copy)
        if failed is not None and failed.startswith(NOTHING_RAN):
            raise Broken(f"{variant}: {failed}")
        outcome = Outcome(variant, failed, time.monotonic() - begin)
        log(outcome)
        return outcome

    with tempfile.TemporaryDirectory(prefix="tirlower-mutation-") as directory:
        for number in range(workers):
            root = Path(directory, str(number))
            root.mkdir()
            copies.put(Copy(root))
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(right, dict.fromkeys(variant.of for variant in variants)))
            return list(pool.map(one, variants))
