"""The one pool of a process: its code, its worker threads, and the events that change them.

Workers are plain :class:`threading.Thread` objects that call into the pool's code through ``ctypes``, which releases
the GIL, and stay there until they are dismissed; they never touch Python in between.

Python has no lock of its own here. What must be one step is one call into the pool's code, under the region lock; so
there is nothing to take in the wrong order, nothing that a Ctrl-C can leave half done, and nothing that a fork can leave
locked.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
import time
import warnings
from collections.abc import Callable
from typing import Final

from tirlower.diagnostics import ArgumentValueError, DeviceError
from tirlower.emit.compile import CompileOptions
from tirlower.llvm.jit import Linked, engine
from tirlower.llvm.parallel import layout, pool
from tirlower.llvm.parallel.waiting import WaitKind, system_symbols, wait_kind
from tirlower.machine import cpu as host

__all__ = ["Runtime", "runtime"]

#: Pauses between looks before a waiting thread sleeps: 0.3 to 0.8 ms (OpenMP runtimes wait as long or longer). Waking a
#: sleeper costs 50 us and more on a virtual machine, and kernels are called one after the other.
SPIN: Final = 20000
#: The same where there are more threads than CPUs: a thread that spins keeps another one from running.
SPIN_CROWDED: Final = 16
#: How long a change waits for a running region, in seconds, unless the caller says.
PATIENCE: Final = 60.0
#: How long exit waits for a region (a daemon thread may be in a kernel that never ends), and for each worker.
PATIENCE_AT_EXIT: Final = 2.0
#: How long the first region waits for the workers that it started; those that come later join the next one.
PATIENCE_AT_START: Final = 1.0

_HOOK: Final = ctypes.CFUNCTYPE(None, ctypes.c_int32)


class Runtime:
    """A thread pool for parallel regions; the process's is :func:`runtime`.

    Nothing runs until the first parallel region calls; then the workers are started, and stay.
    """

    def __init__(self, num_threads: int, *, wait: WaitKind | None = None) -> None:
        _check_count(num_threads, "runtime")
        self._library = _link_pool(wait)
        #: name -> address of what kernels import
        self.symbols: Final[dict[str, int]] = {name: self._library[name] for name in pool.IMPORTS}
        self._worker = ctypes.CFUNCTYPE(None, ctypes.c_int32)(self._library[pool.WORKER])
        self._ready = ctypes.CFUNCTYPE(ctypes.c_int32)(self._library[pool.READY])
        self._team = ctypes.CFUNCTYPE(ctypes.c_int32)(self._library[pool.NUM_THREADS])
        stop = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)
        self._stop = stop(self._library[pool.STOP])
        self._forked = ctypes.CFUNCTYPE(None, ctypes.c_int32)(self._library[pool.FORKED])
        self._hook = _HOOK(self._start_workers)
        # Never unloaded: at exit, a worker that could not be joined, or a kernel of a daemon thread, stands in the code.
        for owner in (self, engine()):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(owner))
        self._threads: list[threading.Thread] = []
        self._phase = layout.PHASE_COLD
        self._capacity = num_threads
        self._restart("runtime", num_threads, num_threads, PATIENCE)

    # -- what users see ----------------------------------------------------------------------------------------------

    @property
    def num_threads(self) -> int:
        """Threads of a region that does not ask for a number, the calling one included."""
        return int(self._team())

    @property
    def capacity(self) -> int:
        """The most threads that a region can have: :attr:`num_threads`, or more after :meth:`reserve`."""
        return self._capacity

    @property
    def num_workers(self) -> int:
        """Worker threads that are parked in the pool now: 0 before the first region."""
        return int(self._ready())

    def set_num_threads(self, count: int, *, timeout: float = PATIENCE) -> None:
        """Give later regions ``count`` threads (1: everything runs in the caller). The next region starts the workers.

        Waits up to ``timeout`` seconds for a region that is running. Not to be called from inside one.

        Raises:
            ArgumentValueError: ``count`` is not from 1 to 1023.
            DeviceError: a region is running, and did not end in time.
        """
        self._restart("set_num_threads", _check_count(count, "set_num_threads"), count, timeout)

    def reserve(self, count: int, *, timeout: float = PATIENCE) -> None:
        """Let regions that ask by their flags for up to ``count`` threads have them; the default stays as it is.

        To be called when a kernel is loaded that was compiled for a number of threads of its own.

        Raises:
            ArgumentValueError: ``count`` is not from 1 to 1023.
            DeviceError: a region is running, and did not end within ``timeout`` seconds.
        """
        if _check_count(count, "reserve") > self._capacity:
            self._restart("reserve", self.num_threads, count, timeout)

    def shutdown(self, *, timeout: float = PATIENCE) -> None:
        """Stop and join the workers. The next parallel region starts them again.

        Raises:
            DeviceError: a region is running, and did not end within ``timeout`` seconds.
        """
        self._restart("shutdown", self.num_threads, self._capacity, timeout)

    # -- the workers -------------------------------------------------------------------------------------------------

    def _start_workers(self, generation: int) -> None:
        """Called from the pool's code by the first region, under its lock.

        A worker counts for a region from the moment when it is parked in the pool's code, where it needs no GIL: the
        caller may well hold it. So whatever goes wrong here (a thread that cannot be started, a Ctrl-C), the pool is in
        order, with fewer workers. The wait only serves the region that called.
        """
        threads: list[threading.Thread] = []
        for index in range(1, self._capacity):
            name = f"tirlower-worker-{index}"
            thread = threading.Thread(target=self._worker, args=(generation,), name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # no more threads for this process, or the interpreter is on its way out
                message = f"parallel loops run with {index} of {self._capacity} threads: {error}"
                warnings.warn(message, RuntimeWarning, stacklevel=2)
                break
            threads.append(thread)
            self._threads.append(thread)
        _wait_until(lambda: self._ready() >= len(threads), PATIENCE_AT_START)

    def _restart(self, what: str, num_threads: int, capacity: int, timeout: float) -> None:
        """Stop the workers and set what the next ones will be."""
        inside = threading.current_thread() in self._threads
        spin = SPIN if capacity <= _cpus() else SPIN_CROWDED
        hook = ctypes.cast(self._hook, ctypes.c_void_p)
        if inside or not _wait_until(lambda: bool(self._stop(num_threads, spin, self._phase, hook)), timeout):
            raise DeviceError(
                f"{what}: a parallel region is running" + ("" if inside else f", and did not end within {timeout:g} s"),
                origin="parallel",
                help="change the pool between calls of kernels, not from inside one",
            )
        self._capacity = capacity
        # The workers have left the pool's code; what remains is the end of their Python frames.
        threads, self._threads = self._threads, []
        for thread in threads:
            thread.join(PATIENCE_AT_EXIT)

    # -- the end, and the other beginning ----------------------------------------------------------------------------

    def _at_exit(self) -> None:
        """Join the workers, and let every later region (of another exit handler, say) run inline.

        If a region does not end, its workers are left to the end of the process: they are daemon threads, in code that
        is never unloaded.
        """
        self._phase = layout.PHASE_CLOSED
        try:
            self.shutdown(timeout=PATIENCE_AT_EXIT)
        except DeviceError:
            return

    def _after_fork_in_child(self) -> None:
        """Only the forking thread lives on: forget the workers, and whatever other threads were doing in the pool."""
        self._threads = []
        self._forked(self._phase)


def _link_pool(wait: WaitKind | None) -> Linked:
    jit = engine()
    text = pool.pool_module(host.triple(), host.data_layout(), kind=wait).text()
    # Unoptimised: a region's time is that of the cache lines it moves (0.11 us either way), and this is 12 ms faster.
    code = jit.compile_object(text, CompileOptions.for_host(opt_level=0, pipeline="none"))
    return jit.link(code.object, pool.EXPORTS, system_symbols(wait or wait_kind(host.triple())))


def _cpus() -> int:
    """The CPUs that threads of this process can really run on at one time."""
    mask = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = host.cgroup_cpus()
    return mask if quota is None else min(mask, quota)


def _check_count(count: int, what: str) -> int:
    if not 1 <= count <= layout.MAX_THREADS:
        raise ArgumentValueError(
            f"{what}: {count} is not a number of threads", origin="parallel", help=f"use 1 to {layout.MAX_THREADS}"
        )
    return count


def _wait_until(done: Callable[[], bool], timeout: float) -> bool:
    """Poll, at first without pause; False if ``done`` did not come true in time."""
    deadline = time.monotonic() + timeout
    pause = 0.0
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(pause + 20e-6, 1e-3)
    return True


_guard = threading.Lock()
_runtime: Runtime | None = None


def runtime() -> Runtime:
    """The pool of this process, made at the first call (about 15 ms, the engine included).

    Its number of threads is ``TIRLOWER_NUM_THREADS``, else that of the CPUs it may use; no more than 1023.

    Raises:
        ArgumentValueError: the environment variable is not a positive number.
    """
    global _runtime
    if _runtime is None:
        with _guard:
            if _runtime is None:
                made = Runtime(min(host.effective_cpu_count(), layout.MAX_THREADS))
                atexit.register(made._at_exit)
                _runtime = made
    return _runtime


def _after_fork_in_child() -> None:
    global _guard
    _guard = threading.Lock()  # another thread may have held it
    if _runtime is not None:
        _runtime._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
