"""Pictures: every edge of a graph is in them, and no name breaks out of its quotes."""

from __future__ import annotations

import pathlib
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import tirlower.graph as tg
from tirlower.graph.core.draw import dot_text, html_page
from tirlower.graph.core.nodes import Const, Graph, Op
from tirlower.graph.errors import GraphError


def edges(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^  (\w+) -> (\w+)(?: \[.*\])?;$", text, re.M)


def test_each_use_of_a_value_is_an_edge() -> None:
    w = np.arange(16, dtype="float32").reshape(4, 4)

    def program(x, y):
        h = x @ w
        return np.concatenate([h, h, y], axis=0), x

    graph = tg.trace(program, tg.spec((2, 4), "float32"), tg.spec((3, 4), "float32"))
    text = dot_text(graph)
    uses = sum(1 for op in graph.ops for v in op.operands) + len(graph.results)
    assert len(edges(text)) == uses
    drawn = set(re.findall(r"^  (\w+) \[label=", text, re.M))
    assert {name for edge in edges(text) for name in edge} <= drawn
    constants = [n for n in graph.nodes if isinstance(n, Const)]
    assert len(drawn) == len(graph.params) + len(graph.ops) + len(constants) + len(graph.results)
    assert text.count("lightgrey") == len(constants) == 1
    assert [label for label in ("matmul", "concat") if f'label="{label}\\n' not in text] == []


def test_hostile_names_stay_inside() -> None:
    builder = tg.GraphBuilder('a"b\\')
    builder.origin = 'x"; evil [label="\n<script>'
    graph: Graph = builder.finish(builder.op("exp", builder.param("x", (), "float32")))
    text = dot_text(graph, {op: '"k' for op in graph.ops if isinstance(op, Op)})
    for line in text.splitlines()[1:-1]:
        assert re.sub(r'"(?:[^"\\]|\\.)*"', "Q", line).count('"') == 0 and line.endswith(";"), line
    assert text.splitlines()[0] == 'digraph "a\\"b\\\\" {' and len(edges(text)) == 2
    page = html_page("<b>", [("<i>", ["<u>"], [["<script>"]])], text)
    assert "<script>" not in page and "<u>" not in page and "<i>" not in page


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_an_executable_draws_itself(tmp_path: pathlib.Path) -> None:
    exe = tg.compile(tg.trace(lambda x: np.exp(x @ x), tg.spec((tg.dim("N", 1, 8),) * 2, "float32")))
    exe.draw(tmp_path / "m.dot")
    text = (tmp_path / "m.dot").read_text(encoding="utf-8")
    assert "matmul_NxN" in text and len(edges(text)) == 4
    exe.draw(str(tmp_path / "m.html"))
    page = Tags()
    page.feed((tmp_path / "m.html").read_text(encoding="utf-8"))
    assert not page.open and text in page.texts and "exp_NxN" in page.texts
    with pytest.raises(GraphError, match=r"\.dot or \.html, got 'm\.png'"):
        exe.draw(tmp_path / "m.png")


def test_a_long_chain_is_drawn() -> None:
    builder = tg.GraphBuilder("chain")
    value = builder.param("x", (2,), "float32")
    for _ in range(3000):
        value = builder.op("exp", value)
    assert len(edges(dot_text(builder.finish(value)))) == 3001
