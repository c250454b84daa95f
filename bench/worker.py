"""Measurements in processes of their own: the peers read how many threads they have when they are loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

__all__ = ["worker_rows"]


def worker_rows(module: str, threads: int, rounds: int, only: list[str]) -> dict[str, Any]:
    """What a module prints, run with so many threads: its lines of JSON by their names. Other lines are passed on.

    Raises SystemExit where it ends with an error.
    """
    names = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    env = {**os.environ, "TIRLOWER_CACHE": "0", **dict.fromkeys(names, str(threads))}
    command = [sys.executable, "-m", module, str(threads), str(rounds), *only]
    found: dict[str, Any] = {}
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("{"):
                row = json.loads(line)
                found[row.pop("name")] = row
            else:
                print(line, end="")
    if process.returncode:
        raise SystemExit(f"the measurement on {threads} threads ended with {process.returncode}")
    return found
