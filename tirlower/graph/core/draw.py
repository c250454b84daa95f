"""Pictures of graphs: DOT text, which ``dot -Tsvg`` of Graphviz lays out, and a page of HTML with tables and that text."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence

from tirlower.graph.core.debug import Debug
from tirlower.graph.core.nodes import Const, Graph, GraphNode, Op, Value

__all__ = ["Table", "dot_text", "html_page"]

Table = tuple[str, Sequence[str], Iterable[Sequence[object]]]
"""A title, the heads of columns, rows."""


def dot_text(graph: Graph, kernels: Mapping[GraphNode, str] | None = None) -> str:
    """A graph in the language DOT: inputs and results as ellipses, operations as boxes, constants in grey.

    ``kernels`` names what each operation is computed by, which its box then says too. Numbers stand in the operations.

    >>> import tirlower.graph as tg
    >>> builder = tg.GraphBuilder("main")
    >>> x = builder.param("x", (4,), "float32")
    >>> print(dot_text(builder.finish(builder.op("exp", builder.op("add", x, 1.0)))))
    digraph "main" {
      node [fontname="sans-serif", fontsize=10];
      v0 [label="x\\nfloat32[4]", shape=ellipse];
      n1 [label="add\\n1.0", shape=box];
      v0 -> n1;
      n2 [label="exp", shape=box];
      n1 -> n2 [label="float32[4]"];
      r0 [label="result 0\\nfloat32[4]", shape=ellipse];
      n2 -> r0 [label="float32[4]"];
    }
    """
    lines = [f"digraph {_quoted(graph.name)} {{", '  node [fontname="sans-serif", fontsize=10];']
    ids: dict[Value, str] = {}
    for number, value in enumerate(graph.params):
        ids[value] = f"v{number}"
        lines.append(f"  v{number} [label={_quoted(_lines(value.name, value.type))}, shape=ellipse];")
    for number, node in enumerate(graph.nodes):
        if isinstance(node, Const) and node.data.value is not None:
            continue
        ids.update(dict.fromkeys(node.results, f"n{number}"))
        if isinstance(node, Const):
            label = _quoted(_lines(node.results[0].name, node.results[0].type))
            lines.append(f"  n{number} [label={label}, shape=box, style=filled, fillcolor=lightgrey];")
            continue
        lines.append(f"  n{number} [label={_quoted(_label(node, kernels or {}))}, shape=box];")
        for operand in node.operands:
            if operand in ids:
                shown = "" if operand.node is None else f" [label={_quoted(str(operand.type))}]"
                lines.append(f"  {ids[operand]} -> n{number}{shown};")
    for number, value in enumerate(graph.results):
        lines.append(f"  r{number} [label={_quoted(_lines(f'result {number}', value.type))}, shape=ellipse];")
        if value in ids:
            lines.append(f"  {ids[value]} -> r{number} [label={_quoted(str(value.type))}];")
    return "\n".join([*lines, "}"])


def html_page(title: str, tables: Iterable[Table], source: str) -> str:
    """A page with tables and a source text, as HTML that stands alone.

    >>> html_page("a < b", [("sizes", ["name", "bytes"], [["x", 16]])], "digraph {}").count("&lt;")
    2
    """
    name = html.escape(title)
    parts = [
        "<!DOCTYPE html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{name}</title><style>',
        "body { font-family: sans-serif; margin: 2em } table { border-collapse: collapse; margin-bottom: 2em }",
        "td, th { border: 1px solid #ccc; padding: 2px 8px; text-align: left } pre { background: #f4f4f4; padding: 1em }",
        f"</style></head><body><h1>{name}</h1>",
    ]
    for caption, heads, rows in tables:
        parts.append(f"<h2>{html.escape(caption)}</h2><table><tr>{_cells('th', heads)}</tr>")
        parts += [f"<tr>{_cells('td', row)}</tr>" for row in rows]
        parts.append("</table>")
    parts.append(f"<h2>DOT</h2><pre>{html.escape(source)}</pre></body></html>")
    return "\n".join(parts) + "\n"


def _label(node: GraphNode, kernels: Mapping[GraphNode, str]) -> str:
    name = node.name if isinstance(node, Op) else type(node).__name__.lower()
    numbers = [
        repr(v.node.data.value) for v in node.operands if isinstance(v.node, Const) and v.node.data.value is not None
    ]
    text = node.text if isinstance(node, Debug) else ""
    return _lines(name, text, ", ".join(numbers), kernels.get(node, ""), node.origin)


def _lines(*parts: object) -> str:
    return "\n".join(str(part) for part in parts if str(part))


def _cells(tag: str, values: Sequence[object]) -> str:
    return "".join(f"<{tag}>{html.escape(str(value))}</{tag}>" for value in values)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
