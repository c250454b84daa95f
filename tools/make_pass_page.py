"""Write docs/pass_catalog.md: every pass with its description, options, and an example before and after.

All of it is read off the passes: the description and the example are those of the class's docstring, which the tests
execute. ``python tools/make_pass_page.py`` writes the page, ``--check`` says whether it is up to date.
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

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "pass_catalog.md"

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
                and ast.unparse(call.args[0].func) == "parse"
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


def main(argv: list[str] | None = None) -> int:
    """Write the page, or check it; 1 when the check fails."""
    parser = argparse.ArgumentParser(description=textwrap.dedent(__doc__ or ""))
    parser.add_argument("--check", action="store_true", help="compare only")
    args = parser.parse_args(argv)
    text = page()
    if args.check:
        if not PAGE.is_file() or PAGE.read_text() != text:
            print(f"{PAGE.relative_to(ROOT)} is not up to date: run python tools/make_pass_page.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
