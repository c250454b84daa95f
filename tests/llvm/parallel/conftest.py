"""Kernels for the tests of the pool, and scripts that get a process of their own."""

from __future__ import annotations

import faulthandler
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tirlower.llvm.parallel.waiting import WaitKind

_KERNELS = Path(__file__).with_name("kernels.py")
_ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def lib() -> SimpleNamespace:
    """The names of kernels.py."""
    return SimpleNamespace(**runpy.run_path(str(_KERNELS)))


@pytest.fixture(scope="module", params=[None, WaitKind.POLL], ids=["system", "polling"])
def kernels(lib, request):
    """Kernels on a pool of their own, with more threads than this machine may have CPUs."""
    pool = lib.Runtime(4, wait=request.param)
    yield lib.Kernels(pool)
    pool.shutdown()


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """A lost wake-up hangs in native code, where nothing but this can end it."""
    faulthandler.dump_traceback_later(120, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


Script = Callable[..., subprocess.CompletedProcess]


@pytest.fixture
def script() -> Script:
    """Run a text behind kernels.py in a process of its own; a hang is a failure."""

    def run(text: str, timeout: float = 90, check: bool = True, **environ: str) -> subprocess.CompletedProcess:
        env = {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONWARNINGS": "ignore::DeprecationWarning", **environ}
        whole = _KERNELS.read_text() + "\n" + text
        done = subprocess.run([sys.executable, "-c", whole], capture_output=True, text=True, timeout=timeout, env=env)
        if check:
            assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}\n{done.stderr}"
            assert done.stderr == ""
        return done

    return run
