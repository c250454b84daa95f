"""Write docs/schedule_precision.md: how often the steps of schedules are refused that are legal, by verb.

The attempts are those of ``tests/fuzz/precision.py``. ``python tools/make_precision_page.py`` measures and writes the page,
``--check`` measures anew and says whether a number that may only shrink has grown.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "schedule_precision.md"
FIRST, COUNT = 0, 400
SHRINK = ("unknown", "refuted though legal", "unknown though legal")
"""What may only shrink, in sum."""

HEAD = """\
# What schedules refuse although it is legal

Steps drawn at random, half of the arguments wild, on {count} nests of affine loops and {count} chains of nests (some of them blocks), and how they
ended: *taken*; *no form* (the program has not the form that the verb needs, or the argument is out of range); *refuted*, with two
iterations that show it; *unknown*. What is refuted or unknown is taken all the same, and judged by other means: for steps that change an
order all instances of the nest are listed, and the step was legal if no two that meet are turned round; for steps that move values the
program runs before and after on random arrays, and the step counts as legal if all results are equal, which may be chance. Of steps that
are taken on programs with blocks, those are counted that TVM's own conditions (`accept="tvm"`) refuse.

Of {decided} steps that were decided, **{unknown} are unknown ({share:.1%})**, and {wrong} were refuted that may be legal. These numbers may only
shrink: `python tools/make_precision_page.py --check` measures them anew. This page is written by that tool.

"""


def page(counts: dict[str, Counter[str]]) -> str:
    """The whole page."""
    from tests.fuzz.precision import COLUMNS

    total: Counter[str] = Counter()
    for row in counts.values():
        total.update(row)
    decided = total["taken"] + total["refuted"] + total["unknown"]
    head = HEAD.format(
        count=COUNT, decided=decided, unknown=total["unknown"], share=total["unknown"] / max(decided, 1),
        wrong=total["refuted though legal"],
    )  # fmt: skip
    lines = [f"| verb | {' | '.join(COLUMNS)} |", f"| --- |{' ---: |' * len(COLUMNS)}"]
    for verb, row in [*sorted(counts.items()), ("**all**", total)]:
        lines.append(f"| {verb} | {' | '.join(str(row[column]) for column in COLUMNS)} |")
    return head + "\n".join(lines) + "\n"


def sums(text: str) -> Counter[str]:
    """The sums of a page, by column."""
    from tests.fuzz.precision import COLUMNS

    (line,) = [one for one in text.splitlines() if one.startswith("| **all** |")]
    cells = [cell.strip() for cell in line.strip("|").split("|")][1:]
    return Counter(dict(zip(COLUMNS, map(int, cells), strict=True)))


def main(argv: list[str] | None = None) -> int:
    """Write the page, or check it; 1 when the check fails."""
    parser = argparse.ArgumentParser(description=textwrap.dedent(__doc__ or ""))
    parser.add_argument("--check", action="store_true", help="measure, and compare with the page")
    args = parser.parse_args(argv)
    from tests.fuzz.precision import measured

    text = page(measured(FIRST, COUNT))
    if not args.check:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    before, now = sums(PAGE.read_text(encoding="utf-8")), sums(text)
    grown = [f"{name}: {before[name]} before, {now[name]} now" for name in SHRINK if now[name] > before[name]]
    for one in grown:
        print(one, file=sys.stderr)
    return int(bool(grown))


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT)]
    sys.exit(main())
