"""Runs the tests of passes against wrong variants of them, in copies of the package."""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.variants import TESTS, Variant

__all__ = ["Broken", "Outcome", "run_variants", "wrong_source"]

ROOT = Path(__file__).resolve().parents[2]
SOURCES = Path("tirlower")
COPIED = ("tirlower", "tests", "pyproject.toml")
FAILED = 1
"""The exit status of pytest where tests ran and some failed; an error in importing them has another."""


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


class _Copy:
    """A copy of the package and its tests, in which one variant at a time takes effect."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.edits = 0
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, root / name)
            else:
                shutil.copy2(ROOT / name, root / name)
        used = self._run("-c", "import tirlower; print(tirlower.__file__)").stdout.strip()
        if not Path(used).resolve().is_relative_to(root.resolve()):
            raise Broken(f"the tests would run against {used}, not against the copy in {root}")

    def _run(self, *args: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        env = dict(os.environ, PYTHONPATH=str(self.root), TIRLOWER_CACHE="off")
        return subprocess.run(
            [sys.executable, *args],
            cwd=self.root,
            env=env,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def failure(self, of: str, timeout: float) -> str | None:
        """The first of a pass's tests that fails; None where all pass. Raises :class:`Broken` where none can run."""
        files = [str(Path("tests", name)) for name in TESTS[of]]
        options = ("-x", "-q", "-rf", "--tb=no", "-p", "no:cacheprovider")
        try:
            done = self._run("-m", "pytest", *options, *files, timeout=timeout)
        except subprocess.TimeoutExpired:
            return f"no end after {timeout:.0f} s"
        if done.returncode not in (0, FAILED):
            raise Broken(f"the tests of {of} do not run:\n{done.stdout}{done.stderr}")
        if done.returncode == 0:
            return None
        named = re.search(r"^FAILED \S*?::(\S+)", done.stdout, re.MULTILINE)
        return named.group(1) if named else "a test that is not named"

    @contextmanager
    def using(self, variant: Variant) -> Iterator[None]:
        """The variant in place of the source, which comes back afterwards."""
        path = self.root / SOURCES / variant.file
        right, wrong = path.read_text(encoding="utf-8"), wrong_source(variant, self.root)
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
    copies: queue.SimpleQueue[_Copy] = queue.SimpleQueue()

    def right(of: str) -> None:
        copy = copies.get()
        try:
            failed = copy.failure(of, timeout)
        finally:
            copies.put(copy)
        if failed is not None:
            raise Broken(f"the tests of {of} fail without a variant: {failed}")

    def one(variant: Variant) -> Outcome:
        copy = copies.get()
        try:
            begin = time.monotonic()
            with copy.using(variant):
                failed = copy.failure(variant.of, timeout)
        finally:
            copies.put(copy)
        outcome = Outcome(variant, failed, time.monotonic() - begin)
        log(outcome)
        return outcome

    with tempfile.TemporaryDirectory(prefix="tirlower-mutation-") as directory:
        for number in range(workers):
            root = Path(directory, str(number))
            root.mkdir()
            copies.put(_Copy(root))
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(right, dict.fromkeys(variant.of for variant in variants)))
            return list(pool.map(one, variants))
