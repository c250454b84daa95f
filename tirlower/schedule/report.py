"""What is known of the steps of a schedule, as a table: on what each rests, and what its results are up to."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.schedule.state import Record
from tirlower.schedule.trace import Trace

__all__ = ["exactness_of", "report"]


def exactness_of(records: Sequence[Record]) -> str:
    """What the results are up to after steps, in words."""
    said = list(dict.fromkeys(record.exactness for record in records if record.exactness != "bitwise"))
    if not said:
        return "bitwise equal"
    words: list[str] = []
    for one in said:
        kind, _, rest = one.partition("(")
        of = rest.removesuffix(")")
        match kind:
            case "reassociated":
                words.append(f"equal up to the order of the sum into {of}")
            case "interface":
                words.append(f"with another layout of {of}")
            case "precision":
                words.append(f"at the precision of {of}")
            case _:
                words.append(f"unchecked: {of}" if kind == "unchecked" else one)
    return "; ".join(words)


def report(records: Sequence[Record]) -> str:
    """A line for each step that is no look-up: its call, verdict, exactness and time; and the sum."""
    lines = Trace.of(records).as_python(dialect="tirlower")
    rows = [
        (
            str(number),
            line,
            record.verdict + (f": {record.why}" if record.why else ""),
            record.exactness,
            f"{record.seconds * 1e3:.2f} ms",
        )
        for number, (line, record) in enumerate(zip(lines, records, strict=True), 1)
        if not record.instruction.kind.pure
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(4)] if rows else []
    made = ["  ".join([*(word.ljust(width) for word, width in zip(row, widths, strict=False)), row[4]]) for row in rows]
    return "\n".join([*made, exactness_of(records)])
