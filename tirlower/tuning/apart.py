"""Measuring in a process of its own, with a limit of time: what any executor is given to do.

The process is Python started anew; nothing of this one is in it, and no script needs a guard around its main part. Its end,
whichever it is, is the outcome of the plan that was being measured; another process goes on with the next.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from typing import IO, Final

from tirlower.driver.processes import can_start_python
from tirlower.tuning.job import Job, Outcome

__all__ = ["measured_apart"]

_START: Final = "import sys; sys.path[:] = {path!r}; from tirlower.tuning.process import serve; serve()"


def measured_apart(job: Job) -> list[Outcome]:
    """Measure the plans of a job in a process of its own. Never raises for what happens there."""
    if not can_start_python():
        return [Outcome(error=f"this program, {sys.executable}, is no Python that could be started again")] * len(
            job.plans
        )
    found: list[Outcome] = []
    while len(found) < len(job.plans):
        found += _some(replace(job, plans=job.plans[len(found) :]))
    return found


def _some(job: Job) -> list[Outcome]:
    """The outcomes of the plans of a job, up to the first one that ends the process."""
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                [sys.executable, *(["-I"] if sys.flags.isolated else []), "-c", _START.format(path=sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                start_new_session=True,  # Ctrl-C is for this process, which then ends the other
            )
        except OSError as error:
            return [Outcome(error=f"no process could be started: {error}")] * len(job.plans)
        answers: queue.SimpleQueue[Outcome | None] = queue.SimpleQueue()
        thread = threading.Thread(target=_feed, args=(process, job, answers), name="tirlower-tune", daemon=True)
        found: list[Outcome] = []
        try:
            thread.start()
            while len(found) < len(job.plans):
                outcome = answers.get(timeout=job.limit)
                found.append(outcome or Outcome(error=_how_it_ended(process, said)))
                if outcome is None:
                    break
        except queue.Empty:
            found.append(Outcome(error=f"it took more than {job.limit:g} s"))
        finally:
            _end(process)
            thread.join()
        return found


def _feed(process: subprocess.Popen[bytes], job: Job, answers: queue.SimpleQueue[Outcome | None]) -> None:
    """Tell a process its job, and hand on what it answers; None where it answers no more."""
    assert process.stdin is not None and process.stdout is not None
    with contextlib.suppress(Exception):  # whatever is wrong, there is no answer
        pickle.dump(job, process.stdin)
        process.stdin.close()
        for _ in job.plans:
            outcome = pickle.load(process.stdout)
            if not isinstance(outcome, Outcome):
                break
            answers.put(outcome)
        else:
            return
    answers.put(None)


def _how_it_ended(process: subprocess.Popen[bytes], said: IO[bytes]) -> str:
    """How a process ended that does not answer, with its last words."""
    try:
        code = process.wait(timeout=1.0)
    except subprocess.TimeoutExpired:
        return "its process answers with something else"
    how = f"its process ended with {code}"
    if code < 0:
        with contextlib.suppress(ValueError):
            how = f"its process was ended by {signal.Signals(-code).name}"
    said.seek(0)
    last = said.read().decode(errors="replace").strip().rpartition("\n")[2]
    return f"{how}: {last}" if last else how


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process, and what it started."""
    with contextlib.suppress(OSError):
        if process.poll() is None:
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
