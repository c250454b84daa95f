"""Where the user's code is, and when something may be added to a trace."""

from pathlib import Path

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph import GraphBuilder, GraphError
from tirlower.graph.frontend.recording import Recording, current, place, place_of


def test_the_place_is_that_of_the_caller():
    assert place() == f"test_recording.py:{_line_of('assert place() ==')}"


def test_the_place_looks_through_numpy_and_tirlower():
    seen = []

    class Probe:
        def __array_function__(self, function, types, args, kwargs):
            seen.append(place())

    np.sum(Probe())
    # The nearest frame of the user's own is that of the probe.
    assert seen[0].startswith("test_recording.py:")
    g = tg.trace(lambda x: np.mean(np.sum(x, axis=0)), tg.spec((2, 2), "float32"))
    assert {n.origin for n in g.ops} == {f"test_recording.py:{_line_of('np.mean(np.sum')}"}


def _line_of(text):
    lines = Path(__file__).read_text().splitlines()
    return 1 + next(n for n, line in enumerate(lines) if text in line)


def test_the_place_of_an_error():
    with pytest.raises(GraphError) as caught:
        tg.spec((-1,), "float32")
    assert place_of(caught.value) == f"test_recording.py:{_line_of('tg.spec((-1,)')}"


def test_a_recording_is_current_while_it_runs():
    recording = Recording(GraphBuilder("g"))
    assert current() is None
    with recording.running():
        assert current() is recording
        recording.check("this")
    assert current() is None
    with pytest.raises(
        GraphError, match=r"this at test_recording.py:.* the trace of 'g' at test_recording.py:.* which has ended"
    ):
        recording.check("this")


def test_errors_say_the_place_once():
    recording = Recording(GraphBuilder("g"))
    with pytest.raises(GraphError) as caught, recording.adding() as builder:
        builder.op("add", 1)
    assert str(caught.value).count("test_recording.py:") == 1


def test_an_error_leaves_no_trace_running():
    with pytest.raises(ZeroDivisionError):
        tg.trace(lambda x: 1 // 0, tg.spec((2,), "float32"))
    assert current() is None
