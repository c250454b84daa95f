"""The database of plans that were found by measuring (:func:`tirlower.tune`): one SQLite file.

A plan is found by the program (its text), the machine (the processor and what the target says) and the version. It is the
JSON of a trace, each step of which is proved anew by the build that takes it, so that a wrong file makes no wrong program.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import tirlower
from tirlower.diagnostics import TirError
from tirlower.ir.annotations import UNIT
from tirlower.ir.func import PrimFunc
from tirlower.llvm.cache import versions
from tirlower.machine.processor import Processor
from tirlower.machine.target import Target
from tirlower.support.private_files import make_folder, write_file

__all__ = ["Database", "Found", "PlanKey", "Trial"]

FORMAT: Final = 1
WAIT: Final = 10.0
"""Seconds that one waits for another process that writes."""

_PLANS: Final = "program TEXT, machine TEXT, version TEXT, sizes TEXT"
_PERMITS: Final = "tir.auto."
_TUNED: Final = "tir.auto.tuned"
_KEY: Final = "program = ? AND machine = ? AND version = ?"


class PlanKey(NamedTuple):
    """What a plan is found by, each as text."""

    program: str
    machine: str
    version: str

    @classmethod
    def of(cls, func: PrimFunc, target: Target, config: Mapping[str, object]) -> PlanKey:
        """That of a function for a target, under what a configuration permits. The names in it count, for steps find loops by
        them; its own does not, nor whether it is compiled by itself."""
        for attribute in ("global_symbol", UNIT):
            func = func.without_attr(attribute)
        text = func.script().encode()
        permits = {key: value for key, value in sorted(config.items()) if key.startswith(_PERMITS) and key != _TUNED}
        machine = f"{Processor.of(target)}; {target!r}" + (f"; {permits}" if permits else "")
        version = f"tirlower {tirlower.__version__}, LLVM {versions()['llvm']}"
        return cls(hashlib.blake2b(text, digest_size=16).hexdigest(), machine, version)


@dataclass(frozen=True)
class Trial:
    """A candidate that was measured: what it changes, in words; the seconds of a call, and those of the untuned plan in the
    same turns; or why it has none (``error``)."""

    change: str
    seconds: float = 0.0
    untuned: float = 0.0
    error: str = ""

    @property
    def ratio(self) -> float:
        """Its time as a part of the untuned plan's; infinite where it has none."""
        return self.seconds / self.untuned if not self.error and self.untuned > 0 else float("inf")


class Found(NamedTuple):
    """The best plan: the JSON of its trace, or nothing where none was faster than the untuned one; and both times."""

    trace: str
    seconds: float
    untuned: float


class Database:
    """A file of plans. Raises :class:`TirError` for one that is none, or that cannot be read or written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     plans, key = Database(Path(folder) / "plans.sqlite"), PlanKey("f", "a machine", "1")
    ...     plans.keep(key, "", Found("[]", 1e-3, 2e-3))
    ...     plans.plan(key)
    Found(trace='[]', seconds=0.001, untuned=0.002)
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(os.path.abspath(os.path.expanduser(path)))

    def plan(self, key: PlanKey, sizes: str | None = None) -> Found | None:
        """The plan of a program; of several for different sizes that of the given ones, or the one that was found last."""
        if not self.path.exists():
            return None
        where, values = (_KEY, tuple(key)) if sizes is None else (f"{_KEY} AND sizes = ?", (*key, sizes))
        with self._open() as file:
            row = file.execute(
                f"SELECT trace, seconds, untuned FROM plans WHERE {where} ORDER BY rowid DESC LIMIT 1", values
            ).fetchone()
        return None if row is None else Found(str(row[0]), float(row[1]), float(row[2]))

    def keep(self, key: PlanKey, sizes: str, found: Found) -> None:
        """Note the plan of a program, in place of an earlier one."""
        with self._open() as file:
            file.execute("INSERT OR REPLACE INTO plans VALUES (?, ?, ?, ?, ?, ?, ?)", (*key, sizes, *found))

    def trials(self, key: PlanKey, sizes: str) -> dict[str, Trial]:
        """What was measured of a program, by the digest of each trace, in the order in which it was."""
        if not self.path.exists():
            return {}
        with self._open() as file:
            rows = file.execute(
                f"SELECT trace, change, seconds, untuned, error FROM trials WHERE {_KEY} AND sizes = ? ORDER BY rowid",
                (*key, sizes),
            ).fetchall()
        return {str(trace): Trial(change, seconds, untuned, error) for trace, change, seconds, untuned, error in rows}

    def note(self, key: PlanKey, sizes: str, trace: str, trial: Trial) -> None:
        """Note what was measured of a trace, given by its digest."""
        row = (*key, sizes, trace, trial.change, trial.seconds, trial.untuned, trial.error)
        with self._open() as file:
            file.execute("INSERT OR REPLACE INTO trials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """The file, open for one change; made where there is none."""
        try:
            make_folder(self.path.parent)
            with contextlib.suppress(FileExistsError):
                write_file(self.path, b"")  # for its owner alone
            file = sqlite3.connect(self.path, timeout=WAIT, isolation_level=None)
            try:
                self._made(file)
                yield file
            finally:
                file.close()
        except (OSError, sqlite3.Error) as error:
            raise TirError(
                f"the database of plans, {self.path}: {error}", help="name another file, or remove this one"
            ) from error

    def _made(self, file: sqlite3.Connection) -> None:
        """Its tables, made where there are none: by one of those who look at the same time."""
        if self._has_tables(file):
            return
        file.execute("BEGIN IMMEDIATE")
        if not self._has_tables(file):
            key = "program, machine, version, sizes"
            file.execute(
                f"CREATE TABLE plans ({_PLANS}, trace TEXT NOT NULL, seconds REAL NOT NULL, untuned REAL NOT NULL, PRIMARY KEY ({key}))"
            )
            file.execute(
                f"CREATE TABLE trials ({_PLANS}, trace TEXT, change TEXT NOT NULL, seconds REAL NOT NULL, untuned REAL NOT NULL, "
                f"error TEXT NOT NULL, PRIMARY KEY ({key}, trace))"
            )
            file.execute(f"PRAGMA user_version = {FORMAT}")
        file.execute("COMMIT")

    def _has_tables(self, file: sqlite3.Connection) -> bool:
        [(form,)] = file.execute("PRAGMA user_version")
        if form not in (0, FORMAT):
            raise TirError(
                f"the database of plans, {self.path}, has the form {form}, and this version reads {FORMAT}",
                help="name another file, or remove this one",
            )
        return bool(form)
