"""Write docs/graph_ops.md: every operation of graphs with its signature and description, by family.

All of it is read off the definitions. ``python tools/make_graph_ops_page.py`` writes the page, ``--check`` says whether it is
up to date.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from pathlib import Path

from tirlower.graph.ops.families import FAMILIES
from tirlower.graph.ops.registry import Definition, definition, names

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "graph_ops.md"

HEAD = """\
# The operations of graphs

Every operation, written as `tg.NAME(...)` in the text of a graph. This page is written by `python tools/make_graph_ops_page.py`
from the definitions in `tirlower/graph/ops/`; [graph.md](graph.md) says how graphs are made and compiled.

Parameters before the `*` are operands (`=None`: may be left out; `*xs`: any number of them), those behind it attributes.
**Made of** says what follows from the definition: `loops` is one nest of loops over elements, `operations` a graph of
other operations under a name, `opaque` a kernel and a reference of its own, which no fusion looks into.
"""


def kind(found: Definition) -> str:
    """What an operation is made of."""
    return "operations" if found.is_macro else "opaque" if found.is_opaque else "loops"


def cell(text: str) -> str:
    """Text as it stands in a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("``", "`")


def prose(doc: str) -> str:
    """What a description says before its first example."""
    return doc.split("\n>>>")[0].split("\n\n")[0].strip()


def page() -> str:
    """The page."""
    families: dict[str, list[Definition]] = {name: [] for name in FAMILIES}
    for name in names():
        found = definition(name)
        families[found.function.__module__.rpartition(".")[2]].append(found)
    lines = [HEAD]
    for family, members in families.items():
        module = importlib.import_module(f"tirlower.graph.ops.{family}")
        about = prose(inspect.getdoc(module) or "").replace("\n", " ").replace("``", "`")
        lines += [
            f"## {family.capitalize()}",
            "",
            about,
            "",
            "| operation | made of | what it does |",
            "| --- | --- | --- |",
        ]
        lines += [f"| `{cell(one.signature)}` | {kind(one)} | {cell(prose(one.doc))} |" for one in members]
        lines.append("")
    return "\n".join(lines)


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail when the page is not up to date")
    args = parser.parse_args()
    text = page()
    if not args.check:
        PAGE.write_text(text, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE.name} is not up to date: run python tools/make_graph_ops_page.py", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
