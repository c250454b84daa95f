"""Scratch memory of kernels: kept between calls, bounded, right in every thread."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import ArgumentValueError
from tirlower.llvm.scratch import runtime
from tirlower.script import tir as T


@T.prim_func
def shifted(A: T.Buffer(("n",), "float32"), B: T.Buffer(("n",), "float32"), k: T.int32):
    n = T.int32()
    C = T.alloc_buffer((n,), "float32")
    for i in range(n):
        C[(i + 7) % n] = A[i] + T.float32(1)
    if k == 3:
        B[0] = A[1 // (k - 3)]
    for i in range(n):
        B[i] = C[(i + 7) % n]


def test_a_kernel_s_memory_is_kept_and_freed():
    kernel = tl.build(shifted, schedule="none")
    tl.free_scratch()
    a = np.arange(1 << 20, dtype=np.float32)
    b = np.empty_like(a)
    for _ in range(3):
        kernel(a, b, 0)
        assert (b == a + 1).all()
    assert tl.free_scratch() == 4 << 20
    kernel(a[:1000], b[:1000], 0)
    kernel(a[:0], b[:0], 0)
    assert tl.free_scratch() == 0


def test_memory_comes_back_from_calls_that_raise():
    kernel = tl.build(shifted, schedule="none")
    tl.free_scratch()
    a = np.arange(1 << 20, dtype=np.float32)
    for _ in range(200):
        with pytest.raises(ZeroDivisionError):
            kernel(a, np.empty_like(a), 3)
    assert tl.free_scratch() == 4 << 20


def test_threads_have_memory_of_their_own():
    kernel = tl.build(shifted, gil=False, schedule="none")
    tl.free_scratch()
    wrong: list[int] = []

    def work(mark: int) -> None:
        a = np.full(1 << 19, mark, np.float32)
        for _ in range(30):
            b = np.zeros_like(a)
            kernel(a, b, 0)
            if not (b == mark + 1).all():
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(mark,)) for mark in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert 0 < tl.free_scratch() <= 4 * (2 << 20)


def test_the_environment_bounds_what_is_kept(monkeypatch):
    monkeypatch.setenv(runtime.LIMIT_VARIABLE, "12345")
    assert runtime.kept_bytes() == 12345
    for bad in ("-1", "1e9", "", "one", str(1 << 62), "\u0663"):
        monkeypatch.setenv(runtime.LIMIT_VARIABLE, bad)
        with pytest.raises(ArgumentValueError, match="TIRLOWER_SCRATCH_BYTES is "):
            runtime.kept_bytes()
    monkeypatch.delenv(runtime.LIMIT_VARIABLE)
    assert 0 < runtime.kept_bytes() <= 1 << 30


def test_nothing_is_kept_where_the_environment_says_so():
    text = """
import numpy as np, tirlower as tl
from tirlower.script import parse
f = parse('''
@T.prim_func
def f(A: T.Buffer((1 << 20,), "float32"), B: T.Buffer((1 << 20,), "float32")):
    C = T.alloc_buffer((1 << 20,), "float32")
    for i in range(1 << 20):
        C[(i * 5) % (1 << 20)] = A[i]
    for i in range(1 << 20):
        B[i] = C[(i * 5) % (1 << 20)]
''')
a = np.arange(1 << 20, dtype="float32")
assert (tl.build(f, outputs=["B"])(a) == a).all()
print(tl.free_scratch())
"""
    env = {**os.environ, runtime.LIMIT_VARIABLE: "0"}
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, env=env, timeout=120)
    assert (done.returncode, done.stdout.strip()) == (0, "0"), done.stderr


def test_a_child_process_has_blocks_of_its_own():
    kernel = tl.build(shifted, schedule="none")
    a = np.arange(1 << 20, dtype=np.float32)
    b = np.empty_like(a)
    kernel(a, b, 0)
    pid = os.fork()
    if pid == 0:
        kernel(a + 1, b, 0)
        os._exit(0 if (b == a + 2).all() and tl.free_scratch() >= 4 << 20 else 1)
    kernel(a, b, 0)
    assert (b == a + 1).all()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
