"""Workers keep off the launcher's CPU, and keep what the user said of their affinity."""

from __future__ import annotations

import os
import sys

import pytest

from tirlower.emit.llvm_text import Module
from tirlower.llvm.parallel.placement import Placement

needs_cpus = pytest.mark.skipif(
    not sys.platform.startswith("linux") or len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs, and Linux"
)


def test_systems_without_affinity_are_left_alone():
    for triple in ("arm64-apple-darwin23", "x86_64-pc-windows-msvc", "mips-unknown-linux-gnu"):
        module = Module("m", triple)
        Placement(module)
        assert "define" not in module.text()


# A pool of two, its worker asleep at each launch; `here` is the launcher's CPU, `mask` the worker's.
_HEAD = """
allowed = sorted(os.sched_getaffinity(0))
pool = Runtime(2)
k = Kernels(pool)
assert k.count(8, meet=2).complete
worker = pool._threads[0].native_id
def launch_on(cpu):
    os.sched_setaffinity(0, {cpu})
    time.sleep(0.03)
    assert k.count(8, meet=2).complete
    return os.sched_getaffinity(worker)
"""


@needs_cpus
def test_a_sleeping_worker_is_woken_elsewhere(script):
    script(
        _HEAD
        + """
for _ in range(3):
    for cpu in allowed:
        assert launch_on(cpu) == set(allowed) - {cpu}
"""
    )


@needs_cpus
def test_a_mask_of_the_user_stays(script):
    script(
        _HEAD
        + """
first, second = allowed[:2]
assert launch_on(first) == set(allowed) - {first}
os.sched_setaffinity(worker, {first})
assert launch_on(second) == {first}
assert launch_on(first) == {first}  # the only one that it may use
os.sched_setaffinity(worker, set(allowed))
assert launch_on(first) == set(allowed) - {first}
"""
    )


@needs_cpus
def test_a_worker_that_shares_the_only_cpu_keeps_nobody_waiting(script):
    script(
        """
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
pool = Runtime(2)
k = Kernels(pool)
for i in range(300):
    assert k.count(64, usec=0).complete
    time.sleep(1e-4 * (i % 7))
assert k.count(8, meet=2).complete
"""
    )


@needs_cpus
def test_a_worker_that_spins_on_the_launchers_cpu_is_moved(script):
    # It is put there while it looks for work, where nobody wakes it; regions that it misses, or that wait for it, tell.
    script(
        _HEAD
        + """
cpu = allowed[0]
os.sched_setaffinity(0, {cpu})
deadline = time.monotonic() + 30
while True:
    os.sched_setaffinity(worker, {cpu})
    os.sched_setaffinity(worker, set(allowed))
    for _ in range(2000):
        assert k.count(64).complete
        if cpu not in os.sched_getaffinity(worker):
            raise SystemExit(0)
    assert time.monotonic() < deadline
"""
    )
