"""``python -m bench [SECTION]... [--only WORD]...``: the tables that are named, of :data:`SECTIONS`; all without arguments.

``--only`` chooses kernels of ``by_hand`` and of ``rows``, by a class or a part of their names, and of ``forms``, ``textbook``, ``corpus`` and ``tuning``, by a part.
"""

from __future__ import annotations

import os
import sys

SECTIONS = (
    "calls", "compile", "passes", "kernels", "analyses", "families", "threads", "memory", "vectors", "by_hand", "rows", "forms", "textbook", "corpus", "tuning", "graph", "schedule", "launches", "gpu"
)  # fmt: skip


def _split(words: list[str]) -> tuple[list[str], list[str]]:
    """The sections, and what stands behind each ``--only``."""
    marks = {i for i, word in enumerate(words) if word == "--only"}
    if len(words) - 1 in marks:
        raise SystemExit("--only wants a word behind it: a class or a part of a kernel's name")
    sections = [word for i, word in enumerate(words) if i not in marks and i - 1 not in marks]
    return sections, [words[i + 1] for i in sorted(marks)]


def main(chosen: list[str]) -> int:
    """Print the chosen tables."""
    chosen, only = _split(chosen)
    unknown = [name for name in chosen if name not in SECTIONS]
    if unknown:
        print(f"unknown section {unknown[0]!r}; the sections are {', '.join(SECTIONS)}")
        return 2
    chosen = chosen or list(SECTIONS)
    from bench import (
        analyses,
        calls,
        compile_time,
        corpus,
        families,
        forms,
        gpu,
        graph,
        kernels,
        launches,
        memory,
        passes,
        schedule,
        textbook,
        threads,
        tuning,
        vectors,
    )
    from bench.by_hand.report import report as by_hand
    from bench.measure import table
    from bench.rows.report import report as rows

    if "calls" in chosen:
        print(table("calls (median)", calls.measure()), "\n")
    if "compile" in chosen:
        print(compile_time.report(), "\n")
    if "passes" in chosen:
        print(passes.report(), "\n")
    if "kernels" in chosen:
        print(table("kernels, one thread (median; above 1x: tirlower is faster)", kernels.measure(1)), "\n")
        print(table("kernels, two threads", kernels.measure(2)))
    if "analyses" in chosen:
        print(analyses.report(), "\n")
    if "families" in chosen:
        print(families.report(), "\n")
    if "threads" in chosen:
        print(threads.report(), "\n")
    if "memory" in chosen:
        print(table("memory operations, one thread (median; above 1x: tirlower is faster)", memory.measure()), "\n")
    if "vectors" in chosen:
        print(vectors.report(), "\n")
    if "by_hand" in chosen:
        print(by_hand(only), "\n")
    if "rows" in chosen:
        print(rows(only), "\n")
    if "forms" in chosen:
        print(forms.report(only), "\n")
    if "textbook" in chosen:
        print(textbook.report(only), "\n")
    if "corpus" in chosen:
        print(corpus.report(only), "\n")
    if "tuning" in chosen:
        print(tuning.report(only), "\n")
    if "graph" in chosen:
        print(graph.report(), "\n")
    if "schedule" in chosen:
        print(schedule.report(), "\n")
    if "launches" in chosen:
        print(launches.report(), "\n")
    if "gpu" in chosen:
        print(gpu.report())
    return 0


if __name__ == "__main__":
    # Peers' thread counts are read when they are loaded.
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    sys.exit(main(sys.argv[1:]))
