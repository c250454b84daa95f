"""The catalog of the passes over graphs."""

import ast
import pathlib

import tirlower.graph as tg
from tirlower.graph import passes
from tirlower.rewrite.registry import GRAPH_PASSES


def test_every_pass_is_listed_with_a_line():
    entries = tg.passes.catalog()
    assert [entry.name for entry in entries] == sorted(f"graph.{name}" for name in GRAPH_PASSES)
    for entry in entries:
        assert 10 < len(entry.summary) and entry.summary.endswith(".") and str(entry).startswith(entry.name)


def test_every_class_of_a_pass_is_in_the_table_and_seen_by_the_type_checker():
    folder = pathlib.Path(passes.__file__).parent
    named = {}
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "GraphPass" for base in node.bases):
                named[node.name] = path.stem
    assert named == GRAPH_PASSES
    seen = {
        alias.name
        for node in ast.walk(ast.parse(pathlib.Path(passes.__file__).read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tirlower.graph.passes.")
        for alias in node.names
    }
    assert seen == set(passes.__all__)
