"""The process of a hostile program: started for it, or forked for it from one that has imported the package.

``python -m tests.hostile.process PROGRAM PART`` runs a program. Without arguments it reads orders, a line of JSON each,
and forks for each a child that runs the program in it; it answers how the child ended, as `os.waitpid` says it. Most of
a small program's time is importing what compiles it: here that is done once. Nothing has been compiled, and no thread
started, when a child begins.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import runpy
import signal
import sys
import time
import traceback
import warnings

MEMORY = 16 << 30
ENDED_BY = "ended by:"
_FAILED = 3
_BUILD = """
import sys
import numpy as np
import tirlower as tl
from tirlower.script import parse
a = np.ones(8, "float32")
func = parse('def f(A: T.Buffer((8,), "float32")):\\n    for i in T.parallel(8):\\n        A[i] = A[i] * 2.0\\n')
tl.build(func)(a)
tl.interpret(func, a)
print(*(name for name in sys.modules if name.split(".")[0] in ("tirlower", "llvmlite", "islpy", "numpy", "ml_dtypes")))
"""


def limit() -> None:
    """What holds for the process of a program; what runs in the background of a shell ignores Ctrl-C, and so would this."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _run(argv: list[str]) -> None:
    """Run a program; an exception that ends it is told by its classes."""
    sys.argv[:] = argv
    try:
        runpy.run_path(argv[0], run_name="__main__")
    except Exception as error:
        traceback.print_exc()
        print(ENDED_BY, *(kind.__name__ for kind in type(error).__mro__), file=sys.stderr)
        sys.exit(_FAILED)


def _fork() -> int:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the threads of NumPy's OpenBLAS, which knows of forks
        return os.fork()


def _import_what_a_build_imports() -> None:
    """The names come from a child, so that nothing is compiled here."""
    reads, writes = os.pipe()
    child = _fork()
    if not child:
        os.dup2(writes, 1)
        exec(_BUILD, {})
        sys.stdout.flush()
        os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as told:
        names = told.read().split()
    os.waitpid(child, 0)
    for name in names:
        importlib.import_module(name)


def _wait(child: int, seconds: float) -> int | None:
    """The status of a child, or None where it did not end in time and was killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def _serve() -> list[str] | None:
    """Fork for each order; in a child, what it runs."""
    _import_what_a_build_imports()
    for line in iter(sys.stdin.buffer.readline, b""):
        order = json.loads(line)
        child = _fork()
        if not child:
            for number, (name, mode) in enumerate(
                ((os.devnull, os.O_RDONLY), *((n, os.O_WRONLY) for n in order["to"]))
            ):
                os.dup2(os.open(name, mode), number)
            limit()
            return list(order["argv"])
        print(json.dumps(_wait(child, order["seconds"])), flush=True)
    return None


if __name__ == "__main__":
    given = sys.argv[1:] or _serve()
    if given:
        _run(given)
