"""Write docs/schedule_verbs.md: every verb of a schedule with its arguments, what it does, and an example.

All of it is read off the registry: the text and the example are those of the verbs, which the tests execute.
``python tools/make_schedule_page.py`` writes the page, ``--check`` says whether it is up to date.
"""

from __future__ import annotations

import argparse
import doctest
import inspect
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "schedule_verbs.md"

HEAD = """\
# The verbs of a schedule

Every verb, its arguments, what it does, and an example. This page is written by `python tools/make_schedule_page.py` from the
registry of verbs; [schedule.md](schedule.md) teaches them. Names, arguments and traces of those of TVM are TVM's; **ours** says that
a verb, or an argument, has no form in TVM.
"""


def summary(doc: str) -> str:
    """The first sentence of a text."""
    text = " ".join(inspect.cleandoc(doc).split("\n\n")[0].split())
    for role in (":class:", ":meth:", ":func:"):
        text = text.replace(role, "")
    return text.split(". ")[0].rstrip(".").replace("``", "`").replace("|", "\\|")


def section(kind) -> str:
    """The section of one verb."""
    doc = inspect.cleandoc(kind.doc)
    prose = (
        doc.split("\n>>>")[0]
        .strip()
        .replace("``", "`")
        .replace(":class:", "")
        .replace(":meth:", "")
        .replace(":func:", "")
        .replace("~tirlower.schedule.", "")
    )
    lines = [f"## {kind.method}", "", f"`sch.{kind.method}{kind.signature}`", "", prose, ""]
    if kind.slots:
        lines += ["| argument | takes |", "| --- | --- |"]
        lines += [
            f"| `{slot.name}` | {'a list: each ' if slot.many or slot.rest else ''}{slot.takes.value}{' (ours)' if slot.extra else ''} |"
            for slot in kind.slots
        ]
        lines.append("")
    examples = doctest.DocTestParser().get_examples(doc)
    if examples:
        shown = "".join(
            "".join(
                f"{'>>>' if at == 0 else '...'} {line}\n".replace("... \n", "...\n")
                for at, line in enumerate(one.source.splitlines())
            )
            + one.want
            for one in examples
        )
        lines += ["```python", shown.rstrip("\n"), "", "```", ""]
    return "\n".join(lines)


def page() -> str:
    """The whole page."""
    from tirlower.schedule.registry import all_kinds

    kinds = sorted(all_kinds(), key=lambda kind: kind.method)
    rows = [
        f"| [{kind.method}](#{kind.method}) | {'TVM' if kind.tvm else 'ours'} | {'look-up' if kind.pure else 'step'} | {summary(kind.doc)} |"
        for kind in kinds
    ]
    table = "\n".join(["| verb | of | is a | what it does |", "| --- | --- | --- | --- |", *rows])
    return "\n".join([HEAD, table, "", *map(section, kinds)]).rstrip("\n") + "\n"


def main() -> int:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where the page is not up to date")
    args = parser.parse_args()
    text = page()
    if args.check:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != text:
            print(
                f"{PAGE.relative_to(ROOT)} is not up to date: run python tools/make_schedule_page.py", file=sys.stderr
            )
            return 1
        return 0
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
