"""The settings of the process: they hold while any thread's block asks for them, and are as before afterwards."""

from __future__ import annotations

import gc
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tirlower.support import deep_recursion, import_for_good, paused_collection


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    limit, runs = sys.getrecursionlimit(), gc.isenabled()
    yield
    after = (sys.getrecursionlimit(), gc.isenabled())
    sys.setrecursionlimit(limit)
    (gc.enable if runs else gc.disable)()
    assert after == (limit, runs)


def down(n: int) -> int:
    return 0 if n == 0 else 1 + down(n - 1)


class _Other:
    """A block of another thread, begun and ended on command."""

    def __init__(self, block: object) -> None:
        self.block = block
        self.pool = ThreadPoolExecutor(1)

    def begin(self) -> None:
        self.pool.submit(self.block.__enter__).result()

    def end(self) -> None:
        self.pool.submit(self.block.__exit__, None, None, None).result()
        self.pool.shutdown()


def test_the_limit_stays_under_another_thread() -> None:
    other = _Other(deep_recursion())
    other.begin()
    with deep_recursion():
        other.end()
        assert down(20_000) == 20_000
    assert sys.getrecursionlimit() < 20_000


def test_the_limit_goes_back_when_the_last_block_ends() -> None:
    before = sys.getrecursionlimit()
    other = _Other(deep_recursion(70_000))
    with deep_recursion(60_000):
        other.begin()
        assert sys.getrecursionlimit() == 70_000
    assert sys.getrecursionlimit() == 70_000
    other.end()
    assert sys.getrecursionlimit() == before


def test_a_limit_that_somebody_sets_meanwhile_stays() -> None:
    before = sys.getrecursionlimit()
    with deep_recursion():
        sys.setrecursionlimit(70_000)
    assert sys.getrecursionlimit() == 70_000
    with deep_recursion(80_000):
        pass
    assert sys.getrecursionlimit() == 70_000
    sys.setrecursionlimit(before)


def test_a_thread_too_deep_to_put_the_limit_back_leaves_it_to_the_next() -> None:
    before = sys.getrecursionlimit()
    other = _Other(deep_recursion())
    other.begin()

    def deep(n: int) -> None:
        if n:
            deep(n - 1)
        else:
            with deep_recursion():
                other.end()

    deep(before + 500)
    assert sys.getrecursionlimit() > before
    with deep_recursion():
        pass
    assert sys.getrecursionlimit() == before


def test_the_collector_stays_paused_under_another_thread() -> None:
    assert gc.isenabled()
    other = _Other(paused_collection())
    other.begin()
    with paused_collection():
        other.end()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_did_not_run_is_not_started() -> None:
    gc.disable()
    with paused_collection(), paused_collection():
        pass
    assert not gc.isenabled()
    gc.enable()


def test_modules_are_imported_while_the_collector_rests(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "resting_module.py").write_text("import gc\nruns = gc.isenabled()\n")
    (tmp_path / "failing_module.py").write_text("raise OSError('no')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not import_for_good("resting_module").runs and gc.isenabled()
    assert import_for_good("resting_module") is sys.modules.pop("resting_module")
    with pytest.raises(OSError, match="no"):
        import_for_good("failing_module")
    assert gc.isenabled() and "failing_module" not in sys.modules


def test_an_interrupt_while_a_block_begins_leaves_nothing() -> None:
    class Interrupted(deep_recursion):
        def begin(self) -> None:
            super().begin()
            raise KeyboardInterrupt

    before = sys.getrecursionlimit()
    with pytest.raises(KeyboardInterrupt), Interrupted():
        raise AssertionError("not reached")
    assert sys.getrecursionlimit() == before and not Interrupted._open


def test_many_threads() -> None:
    def work(_: int) -> bool:
        for _ in range(200):
            with paused_collection(), deep_recursion(50_000):
                if gc.isenabled() or sys.getrecursionlimit() < 50_000:
                    return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert not deep_recursion._open and not paused_collection._open


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_keeps_no_block_of_another_thread() -> None:
    code = """
import gc, os, sys, threading
from tirlower.support import deep_recursion, paused_collection
limit = sys.getrecursionlimit()
begun, done = threading.Event(), threading.Event()
def hold():
    with deep_recursion(), paused_collection():
        begun.set(); done.wait()
thread = threading.Thread(target=hold); thread.start(); begun.wait()
child = os.fork()
if not child:
    right = gc.isenabled() and sys.getrecursionlimit() == limit
    with deep_recursion(), paused_collection():
        right = right and not gc.isenabled()
    os._exit(0 if right and gc.isenabled() else 7)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
done.set(); thread.join()
assert gc.isenabled() and sys.getrecursionlimit() == limit
with paused_collection():
    child = os.fork()
    if not child:
        os._exit(0 if not gc.isenabled() else 8)
    sys.exit(status or os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, (done.returncode, done.stderr)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("middle", ["begin", "end"])
def test_a_fork_waits_for_the_middle_of_another_thread_s_block(middle: str) -> None:
    code = f"""
import os, sys, threading, time
from tirlower.support.shared import Block
made, inside = [], threading.Event()
def slowly(where):
    if where == {middle!r}:
        inside.set(); time.sleep(0.5)
class Slow(Block):
    def begin(self):
        made.append(1); slowly("begin")
    @classmethod
    def end(cls):
        slowly("end"); made.clear()
def work():
    with Slow():
        pass
thread = threading.Thread(target=work); thread.start(); inside.wait()
child = os.fork()
if not child:
    os._exit(7 if made else 0)
thread.join()
assert not made
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stderr)


def test_two_threads_compile_deep_programs() -> None:
    code = """
import sys, threading
from tirlower.script import parse
from tirlower.transforms import Simplify
def text(depth):
    lines = ["@T.prim_func", "def f(A: T.Buffer((8,), 'int32'), n: T.int32):"]
    lines += ["    " * (k + 1) + f"if n > {k}:" for k in range(depth)]
    return "\\n".join([*lines, "    " * (depth + 1) + "A[0] = n"])
deep, flat = text(60), text(2)
sys.setswitchinterval(1e-5)
sys.setrecursionlimit(260)
failed = []
def work(source, times):
    try:
        for _ in range(times):
            Simplify()(parse(source)).script()
    except BaseException as error:
        failed.append(repr(error))
threads = [threading.Thread(target=work, args=one) for one in [(deep, 12), (flat, 150), (flat, 150)]]
for t in threads: t.start()
for t in threads: t.join()
assert not failed, failed
assert sys.getrecursionlimit() == 260
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
