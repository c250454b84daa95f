"""The life of the pool: start, change, fork, exit. What ends or splits a process runs in one of its own."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time

import pytest

from tirlower.diagnostics import ArgumentValueError, DeviceError
from tirlower.llvm.parallel import MAX_THREADS, runtime

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")


@pytest.fixture
def pool(lib):
    made = lib.Runtime(3)
    yield made
    made.shutdown()


def test_workers_start_with_the_first_region_that_wants_them(lib, pool):
    kernels = lib.Kernels(pool)
    assert (pool.num_threads, pool.num_workers) == (3, 0)
    assert kernels.count(1).complete  # one task
    assert kernels.count(9, threads=1).complete  # one thread
    assert pool.num_workers == 0
    before = threading.active_count()
    assert kernels.count(9, meet=3).num_threads == 3
    assert pool.num_workers == 2
    assert threading.active_count() == before + 2


def test_the_first_region_may_hold_the_gil(lib, pool):
    assert lib.Kernels(pool).count(9, gil=True, meet=3).num_threads == 3


def test_one_thread_needs_no_workers(lib, pool):
    pool.set_num_threads(1)
    assert lib.Kernels(pool).count(100).num_threads == 1
    assert pool.num_workers == 0


def test_changing_the_number_of_threads(lib, pool):
    kernels = lib.Kernels(pool)
    for count in (2, 7, 1, 3, 3):
        pool.set_num_threads(count)
        assert pool.num_threads == count
        assert kernels.count(100, meet=count).num_threads == count
        assert pool.num_workers == count - 1


def test_reserved_threads_are_for_regions_that_ask(lib, pool):
    kernels = lib.Kernels(pool)
    pool.reserve(2)
    assert pool.capacity == 3
    pool.reserve(6)
    assert (pool.num_threads, pool.capacity) == (3, 6)
    assert kernels.count(100, meet=3).num_threads == 3
    assert kernels.count(100, threads=6, meet=6).num_threads == 6


def test_shutdown_joins_and_the_next_region_starts_again(lib, pool):
    kernels = lib.Kernels(pool)
    before = threading.active_count()
    for _ in range(20):
        assert kernels.count(10, meet=3).num_threads == 3
        pool.shutdown()
        assert pool.num_workers == 0
        assert threading.active_count() == before
    pool.shutdown()


@pytest.mark.parametrize("count", [0, -1, MAX_THREADS + 1])
def test_impossible_numbers(pool, count):
    for change in (pool.set_num_threads, pool.reserve):
        with pytest.raises(ArgumentValueError, match=f"{change.__name__}: {count} "):
            change(count)
    assert pool.num_threads == 3


def test_a_change_from_inside_a_region_is_refused(lib, pool):
    kernels = lib.Kernels(pool)
    errors: list[str] = []

    @lib.TASK
    def task(ctx: int | None, begin: int, end: int, thread: int) -> int:
        try:
            pool.set_num_threads(2, timeout=0.05)
        except DeviceError as error:
            errors.append(error.message)
        return 0

    assert kernels.launch(ctypes.cast(task, ctypes.c_void_p).value, None, 3) == 0
    assert len(errors) == 3  # calls of one task
    assert all("set_num_threads: a parallel region is running" in e for e in errors)
    assert kernels.count(10, meet=3).num_threads == 3


def test_threads_that_cannot_be_started_are_done_without(lib, pool, monkeypatch):
    kernels = lib.Kernels(pool)
    real, calls = threading.Thread.start, []

    def start(self: threading.Thread) -> None:
        calls.append(self)
        if len(calls) == 2:
            raise RuntimeError("can't start new thread")
        real(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.warns(RuntimeWarning, match="parallel loops run with 2 of 3 threads: can't start new thread"):
        outcome = kernels.count(100, meet=2)
    assert outcome.complete and outcome.num_threads == 2
    monkeypatch.undo()
    assert kernels.count(100, meet=2).num_threads == 2  # it is not tried again at every region
    pool.set_num_threads(3)
    assert kernels.count(100, meet=3).num_threads == 3


def test_workers_that_are_slow_to_start_join_later_regions(lib, pool, monkeypatch):
    monkeypatch.setattr(sys.modules["tirlower.llvm.parallel.runtime"], "PATIENCE_AT_START", 0.0)
    kernels = lib.Kernels(pool)
    gate, worker = threading.Event(), pool._worker

    def slow(generation: int) -> None:
        gate.wait(10)
        worker(generation)

    pool._worker = slow
    assert kernels.count(100).num_threads == 1
    gate.set()
    deadline = time.monotonic() + 10
    while pool.num_workers < 2 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert kernels.count(100, meet=3).num_threads == 3


def test_a_worker_that_arrives_after_its_dismissal_leaves(lib, pool):
    kernels = lib.Kernels(pool)
    assert kernels.count(9, meet=3).num_threads == 3
    generation = 1  # making the pool began generation 1, whose workers these are
    pool.shutdown()
    late = threading.Thread(target=pool._worker, args=(generation,))
    late.start()
    late.join(10)
    assert not late.is_alive()
    assert pool.num_workers == 0
    assert kernels.count(9, meet=3).num_threads == 3


def test_the_process_has_one_pool():
    assert runtime() is runtime()
    assert set(runtime().symbols) == {"tirlower_parallel_launch", "tirlower_num_threads"}


# -- processes ----------------------------------------------------------------------------------------------------------


def test_number_of_threads_from_the_environment(script):
    text = "k = Kernels(runtime()); n = runtime().num_threads; print(n, k.count(100, meet=n).num_threads)"
    assert script(text, TIRLOWER_NUM_THREADS="5").stdout.split() == ["5", "5"]
    assert script(text, TIRLOWER_NUM_THREADS="1").stdout.split() == ["1", "1"]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs affinity masks")
def test_number_of_threads_from_the_affinity(script):
    text = """
os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
os.environ.pop("TIRLOWER_NUM_THREADS", None)
print(runtime().num_threads)
"""
    assert script(text).stdout.split() == ["1"]


def test_a_bad_environment_variable_names_itself(script):
    done = script("runtime()", check=False, TIRLOWER_NUM_THREADS="two")
    assert done.returncode == 1
    assert "TIRLOWER_NUM_THREADS is 'two'" in done.stderr


@pytest.mark.parametrize(
    "end",
    [
        "",
        "sys.exit(0)",
        "time.sleep(0.01)",
        "threading.Thread(target=lambda: [k.count(100) for _ in range(300)]).start()",
        "threading.Thread(target=lambda: [k.count(100) for _ in iter(int, 1)], daemon=True).start()",
        "threading.Thread(target=lambda: k.count(4, usec=10**9), daemon=True).start(); time.sleep(0.05)",
    ],
    ids=["at once", "exit", "asleep", "thread", "daemon thread", "endless region"],
)
def test_exit_does_not_hang(script, end):
    text = f"""
k = Kernels(runtime())
assert k.count(100, meet=3).num_threads == 3
{end}
"""
    script(text, TIRLOWER_NUM_THREADS="3")


def test_exit_handlers_may_use_the_pool(script):
    text = """
import atexit
atexit.register(lambda: print(k.count(100).num_threads, runtime().num_workers))  # runs behind the pool's own
k = Kernels(runtime())
assert k.count(100, meet=3).num_threads == 3  # no thread can be started while exiting, from Python 3.12 on
atexit.register(lambda: print(k.count(100, meet=3).num_threads, runtime().num_workers))  # runs before it
"""
    assert script(text, TIRLOWER_NUM_THREADS="3").stdout.split() == ["3", "2", "1", "0"]


@needs_fork
def test_fork_of_an_idle_pool(script):
    text = """
k = Kernels(runtime())
child = lambda: (o := k.count(100, meet=3)).complete and o.num_threads == 3 and runtime().num_workers == 2
assert in_child(child) == 0                     # before the first region
for pause in (0, 0.02):                         # workers spin, workers sleep
    for _ in range(10):
        assert k.count(100, meet=3).num_threads == 3
        time.sleep(pause)
        assert in_child(child) == 0
        assert in_child(lambda: child() and in_child(child) == 0) == 0
assert k.count(100, meet=3).num_threads == 3
"""
    script(text, TIRLOWER_NUM_THREADS="3")


@needs_fork
def test_fork_while_other_threads_are_in_regions(script):
    text = """
k = Kernels(runtime())
ends = threading.Event()
def work():
    while not ends.is_set():
        assert k.count(100, usec=1).complete
threads = [threading.Thread(target=work) for _ in range(2)]
for t in threads: t.start()
def child():
    return all(k.count(100, meet=3).num_threads == 3 for _ in range(5))
statuses = [in_child(child) for _ in range(40)]
ends.set()
for t in threads: t.join()
assert statuses == [0] * 40, statuses
assert k.count(100, meet=3).num_threads == 3
"""
    script(text, TIRLOWER_NUM_THREADS="3")


@needs_fork
def test_fork_while_the_pool_is_restarted(script):
    text = """
k = Kernels(runtime())
ends = threading.Event()
def work():
    while not ends.is_set():
        for n in (1, 4, 3):
            runtime().set_num_threads(n)
            k.count(10)
t = threading.Thread(target=work)
t.start()
statuses = [in_child(lambda: all(k.count(100).complete for _ in range(5))) for _ in range(40)]
ends.set()
t.join()
assert statuses == [0] * 40, statuses
"""
    script(text, TIRLOWER_NUM_THREADS="3")


@needs_fork
def test_a_child_that_exits_as_a_program_does(script):
    text = """
k = Kernels(runtime())
assert k.count(100, meet=3).num_threads == 3
pid = os.fork()
assert k.count(100, meet=3).num_threads == 3
if pid:
    assert os.waitpid(pid, 0)[1] == 0
"""
    script(text, TIRLOWER_NUM_THREADS="3")


@needs_fork
@pytest.mark.parametrize("start", [0, 1], ids=["its own share", "a share that nobody came to"])
def test_a_region_whose_process_was_forked_inside_says_so_in_the_child(script, start):
    text = f"""
START = {start}
"""
    text += """
from tirlower.llvm.parallel import RESULT_ABANDONED
pid = None
@TASK
def task(ctx, begin, end, thread):
    global pid
    if thread == 0 and begin >= START and pid is None:
        pid = os.fork()
    return 0
k = Kernels(runtime())
result = k.launch(ctypes.cast(task, ctypes.c_void_p).value, None, 3)
if pid == 0:
    os._exit(0 if result == RESULT_ABANDONED and k.count(100, meet=3).num_threads == 3 else 1)
assert result == 0
assert pid is None or os.waitpid(pid, 0)[1] == 0
"""
    for _ in range(1 + 4 * start):  # whether the launcher gets to a worker's share is up to the system
        script(text, TIRLOWER_NUM_THREADS="3")


@needs_fork
def test_multiprocessing_by_fork(script):
    text = """
import multiprocessing
k = Kernels(runtime())
def work(n):
    o = k.count(n, meet=min(n, 3))
    return int(o.counts.sum()) if o.num_threads == min(n, 3) else -1
assert work(50) == 50
with multiprocessing.get_context("fork").Pool(3) as p:
    assert p.map(work, range(1, 60)) == list(range(1, 60))
"""
    script(text, TIRLOWER_NUM_THREADS="3")


def test_signals_that_interrupt_waiting_change_nothing(script):
    text = """
import signal
k = Kernels(runtime())
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
for i in range(300):
    assert k.count(20, usec=i % 7 * 10).complete
    if i % 20 == 0:
        runtime().set_num_threads(2 + i % 3)
signal.setitimer(signal.ITIMER_REAL, 0)
"""
    script(text, TIRLOWER_NUM_THREADS="3")


def test_exceptions_of_signal_handlers_leave_the_pool_in_order(script):
    text = """
import signal
class Interrupt(Exception): pass
def handler(*_):
    raise Interrupt
k = Kernels(runtime())
signal.signal(signal.SIGALRM, handler)
done = interrupted = 0
rng = np.random.default_rng(0)
while done < 400:
    try:
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 2e-3))
        runtime().set_num_threads(1 + done % 4)
        done += k.count(20).complete
        signal.setitimer(signal.ITIMER_REAL, 0)
    except Interrupt:
        interrupted += 1
signal.setitimer(signal.ITIMER_REAL, 0)
assert interrupted > 10, interrupted
runtime().set_num_threads(3)
assert k.count(100, meet=3).num_threads == 3
"""
    script(text, check=False, TIRLOWER_NUM_THREADS="3").check_returncode()
