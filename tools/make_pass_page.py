"""Write docs/pass_catalog.md and docs/graph_passes.md: every pass with its description, options, and an example.

All of it is read off the passes: the description and the example are those of the class's docstring, which the tests
execute. ``python tools/make_pass_page.py`` writes the pages, ``--check`` says whether they are up to date.
"""

from __future__ import annotations

import argparse
import ast
import doctest
import inspect
import sys
import textwrap
from dataclasses import MISSING, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "pass_catalog.md"
GRAPH_PAGE = ROOT / "docs" / "graph_passes.md"

HEAD = """\
# The passes

Every pass, what it does, and an example. This page is written by `python tools/make_pass_page.py` from the passes'
docstrings; [passes.md](passes.md) says how to run and to write them. `python -m tirlower passes` prints the table.

**Stage** is what a pass's input may hold: `block` (blocks with iterators), `opaque` (blocks without iterators), `flat` (no blocks),
`1-D` (no blocks, flat buffers), `host` (the host's calling convention), or `any`.
"""


@dataclass(frozen=True)
class Example:
    """What is shown of a pass: code, a word about it, and what comes out."""

    before: str
    word: str
    after: str


def find_example(name: str, doc: str) -> Example:
    """The example of a docstring: of ``print(Pass(…)(parse('''…''')).script())`` the script and what is printed.

    Where the example has another form (of IR that no script says), it is shown whole. Raises ValueError where there is none.
    """
    examples = doctest.DocTestParser().get_examples(doc)
    printing = [one for one in examples if one.want]
    if not printing:
        raise ValueError(f"the docstring of {name} has no example: print({name}()(parse('''…''')).script()), say")
    for one in printing:
        for call in ast.walk(ast.parse(one.source)):
            if (
                isinstance(call, ast.Call)
                and len(call.args) == 1
                and isinstance(call.args[0], ast.Call)
                and ast.unparse(call.args[0].func) in ("parse", "tg.parse")
                and isinstance(text := call.args[0].args[0], ast.Constant)
            ):
                made = f"`{ast.unparse(call.func)}` makes of it"
                return Example(str(text.value).strip("\n"), made, one.want.rstrip("\n"))
    last = printing[-1]
    whole = "".join(one.source for one in examples[: examples.index(last) + 1])
    return Example(whole.rstrip("\n"), "prints", last.want.rstrip("\n"))


def prose(doc: str) -> str:
    """The text of a docstring before its first example, as Markdown."""
    text = doc.split("\n>>>")[0].strip()
    return text.replace(":class:", "").replace("``", "`")


def entry_text(name: str, cls: type, needs: tuple[str, ...], options: tuple[tuple[str, object], ...]) -> str:
    """The section of one pass."""
    short = name.removeprefix("tir.")
    doc = inspect.getdoc(cls) or ""
    example = find_example(short, doc)
    lines = [f"## {short}", "", prose(doc), ""]
    if needs:
        before = ", ".join(f"`{other.removeprefix('tir.')}`" for other in needs)
        lines += [f"In a pipeline it stands after {before}.", ""]
    if options:
        lines += ["| option | default |", "| --- | --- |"]
        lines += [f"| `{key}` | {'must be given' if value is MISSING else f'`{value!r}`'} |" for key, value in options]
        lines.append("")
    lines += ["```python", example.before, "```", "", example.word, ""]
    lines += ["```python", example.after, "```", ""]
    return "\n".join(lines)


def page() -> str:
    """The whole page."""
    from tirlower.transforms import catalog, find_pass

    entries = catalog()
    rows = [
        f"| [{e.name.removeprefix('tir.')}](#{e.name.removeprefix('tir.').lower()}) | {e.stage} "
        f"| {e.summary.replace('``', '`').replace('|', chr(92) + '|')} |"
        for e in entries
    ]
    table = "\n".join(["| pass | stage | what it does |", "| --- | --- | --- |", *rows])
    sections = [entry_text(e.name, find_pass(e.name), e.needs, e.options) for e in entries]
    return "\n".join([HEAD, table, "", *sections]).rstrip("\n") + "\n"


GRAPH_HEAD = """\
# The passes over graphs

Every pass over operator graphs, what it does, and an example; then the rules of `Canonicalize`. This page is written by
`python tools/make_pass_page.py` from the docstrings and from the rules themselves, whose examples the tests run.

`tg.passes.CSE()(graph)` runs one pass, `print(tg.passes.DEFAULT)` shows the order in which `tg.compile` runs them, and why:

```text
{pipeline}
```

**Numbers** is what a pass may do to them: `exact` changes no bit, `default` and `fast` are admitted by `tg.Options(numerics=…)`. Where
two classes stand, some of its rules are of the second one.
"""

GRAPH_RULES = """\
## Rules

What `Canonicalize` applies, until nothing changes: each with what it makes of an example, and what it leaves as it is.
"""


def graph_page() -> str:
    """The page of the passes over graphs."""
    from tirlower.graph import passes
    from tirlower.graph.passes.canonical import RULES

    entries = passes.catalog()
    classes = {entry.name: getattr(passes, entry.name.removeprefix("graph.")) for entry in entries}
    rows = ["| pass | numbers | what it does |", "| --- | --- | --- |"]
    for entry in entries:
        short = entry.name.removeprefix("graph.")
        bold = classes[entry.name].reaches.word
        words = entry.numerics.word if bold == entry.numerics.word else f"{entry.numerics.word} to {bold}"
        rows.append(f"| [{short}](#{short.lower()}) | {words} | {entry.summary.replace('``', '`')} |")
    sections = [entry_text(e.name.removeprefix("graph."), classes[e.name], (), e.options) for e in entries]
    rules = [rule_text(rule) for rule in RULES]
    head = GRAPH_HEAD.format(pipeline=passes.DEFAULT)
    return "\n".join([head, *rows, "", *sections, GRAPH_RULES, *rules]).rstrip("\n") + "\n"


def rule_text(rule: Any) -> str:
    """The section of one rule."""
    roots = ", ".join(f"`{name}`" for name in rule.roots[:6]) + (" and others" if len(rule.roots) > 6 else "")
    lines = [f"### {rule.name}", "", f"{' '.join(rule.doc.split())} At {roots}; {rule.numerics.word}.", ""]
    for word, text in (("", rule.before), ("becomes", rule.after), ("This stays as it is:", rule.refused)):
        lines += [word, ""] if word else []
        lines += ["```python", f"@tg.graph\ndef f{text}", "```", ""]
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """Write the page, or check it; 1 when the check fails."""
    parser = argparse.ArgumentParser(description=textwrap.dedent(__doc__ or ""))
    parser.add_argument("--check", action="store_true", help="compare only")
    args = parser.parse_args(argv)
    pages = {PAGE: page(), GRAPH_PAGE: graph_page()}
    if args.check:
        old = [path for path, text in pages.items() if not path.is_file() or path.read_text() != text]
        for path in old:
            print(f"{path.relative_to(ROOT)} is not up to date: run python tools/make_pass_page.py", file=sys.stderr)
        return 1 if old else 0
    for path, text in pages.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
