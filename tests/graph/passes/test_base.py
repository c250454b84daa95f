"""Passes over graphs are values under the context that all passes have."""

import io
import subprocess
import sys

import numpy as np
import pytest

import tirlower as tl
import tirlower.graph as tg
from tirlower.graph.core.numerics import Numerics
from tirlower.graph.passes.base import GraphPass, policy
from tirlower.transforms import DumpIR, PassTimingInstrument, PrintAfterAll, find_pass


def dead():
    return tg.trace(lambda x: [x + 1, np.exp(x)][0], tg.spec((4,), "float32"))


def test_a_pass_gives_a_graph_and_the_same_one_where_nothing_changes():
    graph = dead()
    once = tg.passes.DCE()(graph)
    assert [op.name for op in once.ops] == ["add"] and len(graph.ops) == 2
    assert tg.passes.DCE()(once) is once
    assert repr(tg.passes.DCE()) == "DCE()"


def test_what_is_no_graph_is_refused():
    with pytest.raises(tg.GraphError, match=r"graph\.DCE takes a graph, got function"):
        tg.passes.DCE()(dead)
    with pytest.raises(AttributeError, match="NoSuchPass"):
        tg.passes.NoSuchPass
    assert "DCE" in dir(tg.passes)


def test_the_context_is_that_of_all_passes(tmp_path):
    graph, timing, text = dead(), PassTimingInstrument(), io.StringIO()
    with tl.PassContext(instruments=[timing, PrintAfterAll(text), DumpIR(tmp_path)], trace=True) as ctx:
        tg.passes.DEFAULT.run(graph)
    assert timing.times["graph.DCE"] > 0 if "graph.DCE" in timing.times else "graph.Expand" in timing.times
    assert "# after graph.Expand\n@tg.graph\ndef main(" in text.getvalue()
    assert "Expand" in ctx.programs_after and not ctx.ir_after
    assert any(path.name.endswith("_Expand.py") for path in tmp_path.iterdir())


def test_names_and_options_are_checked_in_a_fresh_process():
    program = (
        "import tirlower as tl\n"
        "for kw in ({'disabled_pass': ['graph.DCF']}, {'config': {'graph.DCEE': {}}}, {'config': {'graph.numerics': 'x'}}):\n"
        "    try:\n        tl.PassContext(**kw)\n    except tl.TransformError as e:\n        print(e.message, '|', e.help)\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines() == [
        "disabled_pass names no pass 'graph.DCF' | did you mean 'DCE'?",
        "unknown configuration key 'graph.DCEE' | did you mean 'graph.DCE'?",
        "graph.numerics is 'default', 'exact' or 'fast', got 'x' | None",
    ]


def test_passes_are_disabled_by_name():
    graph = tg.trace(tg.nn.softmax, tg.spec((4,), "float32"))
    for name in ("Expand", "graph.Expand"):
        with tl.PassContext(disabled_pass=[name]):
            assert tg.passes.PLAIN.run(graph) is graph
    with pytest.raises(tl.TransformError):
        find_pass("graph.Expand")  # the passes over prim funcs know of no graphs


def test_a_pass_runs_only_where_the_policy_admits_it():
    class Bold(GraphPass):
        """Drop everything but the first operation."""

        numerics = Numerics.FAST
        reaches = Numerics.FAST
        times: int = 1

        def transform(self, graph, ctx):
            return graph.with_(results=(graph.ops[self.times - 1].results[0],))

    graph = dead()
    assert policy(tl.PassContext()) is Numerics.DEFAULT
    assert Bold()(graph) is graph
    with tl.PassContext(config={"graph.numerics": "fast"}):
        assert Bold()(graph) is not graph
        assert Bold(times=2)(graph).results == graph.ops[1].results
    assert Bold().construction() is None and tg.passes.DCE().construction() == "DCE()"


def test_options_come_from_the_constructor_or_the_context():
    class Named(GraphPass):
        """Set an attribute."""

        name = "graph.TestNamed"
        word: str = "plain"

        def transform(self, graph, ctx):
            return graph.with_attr("word", self.word)

    graph = dead()
    assert Named()(graph).attrs["word"] == "plain"
    with tl.PassContext(config={"graph.TestNamed": {"word": "given"}}):
        assert Named()(graph).attrs["word"] == "given"
        assert Named(word="mine")(graph).attrs["word"] == "mine"
    with pytest.raises(tl.TransformError, match=r"the option 'word' of graph\.TestNamed is a string, got 3"):
        tl.PassContext(config={"graph.TestNamed": {"word": 3}})
