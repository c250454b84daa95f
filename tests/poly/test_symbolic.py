"""Random nests with symbolic sizes: a proof holds for every size tried, a refutation for the witness's sizes."""

from __future__ import annotations

import functools
import random

import pytest

from tests.poly.brute import events, parallel_conflict, vector_conflict
from tirlower.poly import extract, is_parallel, is_vectorizable
from tirlower.script import parse


def random_script(seed: int) -> str:
    """Two or three loops of symbolic and constant extents over flat and two-dimensional symbolic buffers."""
    rng = random.Random(seed)
    loops = [
        ("i", rng.choice(["n", "n", "m", "3", "n - 1", "(n + 1) // 2"])),
        ("j", rng.choice(["m", "m", "n", "2", "i + 1"])),
    ]
    if rng.random() < 0.4:
        loops.append(("k", rng.choice(["2", "n", "m"])))
    names = [name for name, _ in loops]

    def flat() -> str:
        return rng.choice(
            [
                "i * m + j", "(i + 1) * m + j", "i * m + j + 1", "j * n + i", "i * n + j", "i * m", "i", "j", "i + j",
                "(i * m + j) * 2 + 1", "i * (2 * m) + j", "n * m - 1 - (i * m + j)", "i * m + j + n", "i + n", "j * m + j",
                "i * 2 * m + j * 2",
            ]
        )  # fmt: skip

    def square() -> str:
        return rng.choice(
            ["i, j", "j, i", "i, j + 1", "i + 1, j", "i, 0", "0, j", "(i * m + j) // m, (i * m + j) % m", "i // 2, j"]
        )

    def element() -> str:
        return f"F[{flat()}]" if rng.random() < 0.6 else f"S[{square()}]"

    lines = []
    indent = "    "
    for name, extent in loops:
        lines.append(f"{indent}for {name} in range({extent}):")
        indent += "    "
    if rng.random() < 0.4:
        lines.append(f"{indent}if {rng.choice(['j < m', 'i < n and j < m', 'i + j < n', 'j < i', 'i % 2 == 0'])}:")
        indent += "    "
    for _ in range(rng.randint(1, 2)):
        lines.append(f"{indent}{element()} = {element()} + {names.index(names[-1])}")
    body = "\n".join(lines)
    return (
        "@T.prim_func\ndef f(F: T.Buffer(('n * m * 4 + 64',), 'int32'), S: T.Buffer(('n * 3 + 4', 'm + 4'), 'int32'), "
        f"n: T.int32, m: T.int32):\n    T.evaluate(T.assume(n >= 0 and m >= 0))\n{body}\n"
    )


@pytest.mark.parametrize("first", [0, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(20, 200, 20))])
def test_symbolic_verdicts_agree_with_runs(first: int):
    decided = 0
    for seed in range(first, first + 20):
        source = random_script(seed)
        func = parse(source)
        scop = extract(func)
        runs = {}
        at_witness = functools.cache(lambda n, m, func=func: events(func, {"n": n, "m": m}))
        for n in range(5):
            for m in range(5):
                try:
                    found = events(func, {"n": n, "m": m})
                except ZeroDivisionError:  # by a size of 0
                    continue
                if all(event.inside for event in found):
                    runs[n, m] = found
        for loop in scop.loops:
            for question, brute in ((is_parallel, parallel_conflict), (is_vectorizable, vector_conflict)):
                verdict = question(scop, loop)
                conflicts = {size for size, found in runs.items() if brute(found, loop.node) is not None}
                if verdict.proved:
                    assert not conflicts, (source, loop, question.__name__, conflicts)
                    decided += 1
                elif verdict.refuted:
                    assert verdict.witness is not None
                    found = at_witness(**{"n": 1, "m": 1, **verdict.witness.parameters})
                    assert brute(found, loop.node) is not None, (source, loop, question.__name__, str(verdict.witness))
                    decided += 1
                else:
                    assert conflicts or "*" in source, (source, loop, verdict.reason)
    assert decided > 40
