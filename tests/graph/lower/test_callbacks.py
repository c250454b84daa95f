"""Exceptions in Python that machine code calls back: they end the call, and reach its caller."""

from __future__ import annotations

import io
import signal
import sys
import threading

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tirlower.graph.backends import reference

PLAIN = tg.Options(optimize=False)


class Broken(io.StringIO):
    """An output that raises from the n-th line on."""

    def __init__(self, error: BaseException, after: int = 0) -> None:
        super().__init__()
        self.error, self.after = error, after

    def write(self, text: str) -> int:
        if text != "\n":
            self.after -= 1
            if self.after < 0:
                raise self.error
        return super().write(text)


def printed_twice(x):
    tg.print_(x, "first")
    tg.print_(x + 1, "second")
    return x * 2


@pytest.mark.parametrize(
    "error", [OSError("disk full"), KeyboardInterrupt(), SystemExit(3), tl.ArgumentTypeError("no")]
)
def test_what_a_print_raises_reaches_the_caller(error, monkeypatch, capsys):
    exe = tg.compile(tg.trace(printed_twice, tg.spec((2,), "float32")), options=PLAIN)
    x = np.ones(2, "float32")
    monkeypatch.setattr(sys, "stdout", broken := Broken(error, after=1))
    with pytest.raises(type(error)) as caught:
        exe(x)
    assert caught.value is error and caught.value.__context__ is None
    assert broken.getvalue() == "first: float32[2] [1., 1.]\n"
    monkeypatch.undo()
    assert exe(x).tolist() == [2, 2]  # as if nothing had been
    assert capsys.readouterr().err == ""  # nothing was ignored


def test_a_loop_that_asks_python_ends_where_it_raises(monkeypatch):
    def counted(n):
        return tg.while_loop(lambda i: i < n, lambda i: (tg.print_(i), i + 1)[1], np.int64(0))

    exe = tg.compile(tg.trace(counted, tg.spec((), "int64")), options=PLAIN)
    monkeypatch.setattr(sys, "stdout", Broken(ValueError("full"), after=3))
    with pytest.raises(ValueError, match="full"):
        exe(np.int64(2**62))


def test_the_reference_as_a_backend_raises_what_numpy_raises():
    def picked(x, i):
        return x[i] + 1

    graph = tg.trace(picked, tg.spec((3,), "float32"), tg.spec((2,), "int64"))
    exe = tg.compile(graph, backends=["numpy"])
    x = np.arange(3, dtype="float32")
    assert exe(x, np.array([2, 0])).tolist() == [3, 1]
    with pytest.raises(tg.GraphError, match="read outside its bounds"):
        exe(x, np.array([2, 7]))
    assert exe(x, np.array([1, 1])).tolist() == [2, 2]


def test_threads_get_their_own_exceptions(monkeypatch):
    graph = tg.trace(lambda x: tg.exp(x) * 2, tg.spec((), "float64"))
    exe = tg.compile(graph, backends=["numpy"])
    right = reference.run_nodes
    barrier = threading.Barrier(4)

    def failing(nodes, held, *more, **named):
        number = next(iter(held.values())).item()
        if number in (1, 3) and nodes[0].name == "exp":
            barrier.wait(10)  # both threads, and those that do not fail, are in their calls
            raise ValueError(f"thread {number:.0f}")
        if nodes[0].name == "exp":
            barrier.wait(10)
        return right(nodes, held, *more, **named)

    monkeypatch.setattr(reference, "run_nodes", failing)
    found: dict[int, object] = {}

    def call(number):
        try:
            found[number] = exe(np.float64(number)).item()
        except ValueError as error:
            found[number] = str(error)

    threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert found[1] == "thread 1" and found[3] == "thread 3"
    assert found[0] == pytest.approx(2) and found[2] == pytest.approx(2 * np.exp(2))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer")
def test_an_interrupt_in_machine_code_ends_the_call_at_the_next_callback(capsys):
    def late(n):
        def body(i, seen):
            return i + 1, seen * 3 % 7

        i, seen = tg.while_loop(lambda i, seen: i < n, body, np.int64(0), np.int64(1))
        tg.print_(seen, "after")
        return i

    exe = tg.compile(tg.trace(late, tg.spec((), "int64")), options=PLAIN)
    exe(np.int64(3))
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.02)
        with pytest.raises(KeyboardInterrupt):
            while True:  # where the timer is faster than the call, it is interrupted outside
                exe(np.int64(3_000_000))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
