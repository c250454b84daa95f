"""Write docs/index_expressions.md: the fixed set of index expressions, what each simplifies to, and whether it should.

The set is ``tests/arith/index_expressions.py``. ``python tools/make_index_page.py`` writes the page, ``--check`` says
whether it is up to date and every expression reaches its form.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "index_expressions.md"

HEAD = """\
# Index expressions

What `Analyzer().simplify` makes of {total} index expressions, as splitting, fusing, tiling, padding, im2col, swizzled and
blocked layouts, guards and C programs leave them behind. The expected forms are written down in
`tests/arith/index_expressions.py`; a test asks for exactly that form, node for node, and compares the values of both
sides over the ranges. This page is written by `python tools/make_index_page.py`, and a test keeps it current.

**{reached} of {total} reach the expected form.**

In the tables `//` and `%` floor, `tdiv` and `tmod` truncate, `iff` is `T.if_then_else`. A range `i:8` is from 0 to 7,
`i:2+8` from 2 to 9, `j:n` from 0 to `n - 1`; `n` alone is a size that is not negative. After `given` stand facts in scope.
"""

TITLES = {
    "split": "Splitting",
    "fuse": "Fusing",
    "tile": "Tiling",
    "pad": "Padding",
    "im2col": "im2col",
    "swizzle": "Swizzling",
    "layout": "Layouts",
    "guard": "Guards",
    "minmax": "Minima and maxima",
    "trunc": "Truncated division",
}


def row(case: Any) -> tuple[str, bool]:
    """The line of one case, and whether it reaches its form."""
    from evaluate import show
    from index_expressions import Problem

    from tirlower.ir.structural import structural_equal

    problem = Problem(case)
    found = problem.analyzer.simplify(problem.expr)
    reached = structural_equal(found, problem.expected)
    ranges = case.ranges + (f" given {case.facts}" if case.facts else "")
    result = case.expected if reached else f"{show(found)}, not {case.expected}"
    return f"| `{case.text}` | `{ranges}` | `{result}` | {'yes' if reached else 'NO'} |", reached


def page() -> tuple[str, bool]:
    """The whole page, and whether every expression reaches its form."""
    from index_expressions import CASES

    lines: list[str] = []
    reached = 0
    for group, title in TITLES.items():
        lines += [f"## {title}", "", "| expression | ranges | result | as expected |", "| --- | --- | --- | --- |"]
        for case in CASES:
            if case.group == group:
                line, good = row(case)
                lines.append(line)
                reached += good
        lines.append("")
    head = HEAD.format(total=len(CASES), reached=reached)
    return head + "\n" + "\n".join(lines).rstrip("\n") + "\n", reached == len(CASES)


def main(argv: list[str] | None = None) -> int:
    """Write the page, or check it; 1 when the check fails."""
    parser = argparse.ArgumentParser(description=textwrap.dedent(__doc__ or ""))
    parser.add_argument("--check", action="store_true", help="compare only")
    args = parser.parse_args(argv)
    text, complete = page()
    if not complete:
        print("some expressions do not reach their expected form", file=sys.stderr)
    if args.check:
        current = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text
        if not current:
            name = PAGE.relative_to(ROOT)
            print(f"{name} is not up to date: run python tools/make_index_page.py", file=sys.stderr)
        return 0 if current and complete else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "arith")]
    sys.exit(main())
