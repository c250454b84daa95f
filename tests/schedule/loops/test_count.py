"""``while`` loops that count become loops over their numbers."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.schedule.loops.test_reverse import again
from tirlower.autoschedule.prepare import prepared
from tirlower.diagnostics import BadArgument, NotApplicable, NotFound
from tirlower.ir import AllocBuffer, While
from tirlower.ir.query import each, has
from tirlower.script import parse

HEAD = """
@T.prim_func
def f(n: T.int32, m: T.int32, A: T.Buffer((64,), "int32"), B: T.Buffer((4,), "int32")):
"""
INPUTS = [
    [n, m, np.arange(64, dtype="int32"), np.full(4, 9, "int32")]
    for n, m in ((0, 0), (1, 0), (5, 2), (64, 3), (3, 64), (-3, -7), (7, -9), (-8, 7))
]


def counted(body: str, *names: str) -> tl.Schedule:
    """The program with loops counted; each with all checks."""
    func = parse(HEAD + body)
    sch = tl.Schedule(func, debug_mask="all")
    for name in names:
        sch.count(name)
    roundtrips(sch.mod["main"])
    executes_alike(func, sch.mod["main"], inputs=INPUTS)
    again(func, sch)
    return sch


@pytest.mark.parametrize(
    ("body", "gone"),
    [
        ("    i = 0\n    while i < n:\n        A[i] = A[i] + i\n        i += 1", True),
        ("    i = 0\n    while n > i:\n        A[i] = A[i] + i\n        i = 1 + i", True),
        ("    i: T.int32 = 2\n    while i < 60:\n        A[i] = n\n        i += 1", True),
        ("    i = T.max(n, 3)\n    while i < T.min(m, 64):\n        A[i] = m\n        i += 1", True),
        (
            "    i = 0\n    while i < n:\n        A[i] = A[i] + i\n        i += 1\n    B[0] = i",
            False,
        ),  # it is looked at
        ("    i = 0\n    while i < m:\n        i += 1\n    B[0] = i", False),  # nothing else happens
        ("    i = 0\n    B[1] = i\n    while i < n:\n        A[i] = 3\n        i += 1", False),
        ("    i = T.max(m, 0)\n    while i < n:\n        A[i] = 3\n        i += 1\n    B[2] = i", False),
    ],
)
def test_a_while_that_counts(body: str, gone: bool) -> None:
    sch = counted(body, "i")
    func = sch.mod["main"]
    assert not has(While, func.body) and has(AllocBuffer, func.body) is not gone


def test_loops_in_loops_and_one_behind_the_other() -> None:
    body = """
    i = 0
    while i < 4:
        j = i
        while j < 8:
            k = 0
            while k < 2:
                A[i * 16 + j * 2 + k] = A[k] + i * j
                k += 1
            j += 1
        i += 1
    k = 0
    while k < n:
        A[k] = A[k] * 2
        k += 1
    k = 1
    while k < n:
        A[k] = A[k] + A[k - 1]
        k += 1
"""
    sch = counted(body, "k#2", "i", "k", "j", "k#0")
    assert not has(While, sch.mod["main"].body)
    assert [loop.loop_var.name for loop in each(tl.ir.For, sch.mod["main"].body)][:3] == ["i", "j", "k"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("    i = 0\n    while i < n:\n        A[i] = 1\n        i += 2", "is not counted by `i \\+= 1`"),
        ("    i = 0\n    while i < n:\n        i += 1\n        A[i - 1] = 1", "at the end of the loop alone"),
        (
            "    i = 0\n    while i < n:\n        if A[i] > 3:\n            i += 1\n        i += 1",
            "at the end of the loop alone",
        ),
        ("    i = 0\n    while i < n:\n        if A[i] > 3:\n            i += 1", "at the end of the loop alone"),
        (
            "    i = 0\n    while i < n:\n        if A[i] > 3:\n            break\n        i += 1",
            "leaves the loop early",
        ),
        ("    i = 0\n    while i < 9:\n        if A[i] > 99:\n            continue\n        i += 1", "goes on with it"),
        ("    i = 0\n    while i < B[0]:\n        A[i] = 1\n        i += 1", "reads memory"),
        ("    i = 0\n    s = 0\n    while i < s:\n        s -= 1\n        i += 1\n    B[0] = s", "reads memory"),
        ("    i = n\n    while i < m:\n        A[i] = 1\n        i += 1", "not known to be 0 or more"),
        ("    i = B[0]\n    while i < m:\n        A[i] = 1\n        i += 1", "where `i` begins is not known"),
        (
            "    i = 0\n    if n > 2:\n        i = 5\n    while i < m:\n        A[i] = 1\n        i += 1",
            "begins is not known",
        ),
        ("    B[0] = 0\n    while B[0] < n:\n        B[0] = B[0] + 1", None),
    ],
)
def test_what_does_more_than_count_stays(body: str, why: str | None) -> None:
    sch = tl.Schedule(parse(HEAD + body))
    if why is None:
        with pytest.raises(NotFound, match="such counters are: none"):
            sch.count("B")
        return
    with pytest.raises(NotApplicable, match=why):
        sch.count("i")
    assert has(While, sch.mod["main"].body)


def test_names() -> None:
    sch = tl.Schedule(parse(HEAD + "    i = 0\n    while i < n:\n        A[i] = 1\n        i += 1"))
    for name in ("j", "i#1", "", "j#0"):
        with pytest.raises(NotFound, match="such counters are: i"):
            sch.count(name)
    for name in ("i#x", "i#", "i#-1"):
        with pytest.raises(BadArgument, match="no number behind #"):
            sch.count(name)
    assert sch.count("i#0").name == "i"


ENDS = (-(2**31), -(2**31) + 1, -1, 0, 1, 5, 2**31 - 2, 2**31 - 1)


@pytest.mark.parametrize(("start", "stop"), [("0", "m"), ("5", "m + n"), ("T.max(n, 0)", "m + 1"), ("7", "n * m")])
def test_numbers_at_the_ends_of_their_type(start: str, stop: str) -> None:
    """How often a loop runs wraps where the numbers that it compares do, and not elsewhere."""
    body = f"    i = {start}\n    while i < {stop}:\n        if B[0] == 40:\n            return\n        B[0] = B[0] + 1\n        i += 1\n    B[1] = i\n"
    func = parse(HEAD + body)
    sch = tl.Schedule(func)
    sch.count("i")
    plain, made = tl.build(func, schedule="none"), tl.build(sch)
    a = np.zeros(64, "int32")
    for n in ENDS:
        for m in ENDS:
            found, wanted = np.zeros((2, 4), "int32")
            plain(n, m, a, wanted)
            made(n, m, a, found)
            np.testing.assert_array_equal(found, wanted, err_msg=f"{n}, {m}")


def test_products_that_are_written_with_while_are_products() -> None:
    text = """
def f(A: T.Buffer(("m", "k"), "float32"), B: T.Buffer(("k", "n"), "float32"), C: T.Buffer(("m", "n"), "float32")):
    i = 0
    while i < m:
        j = 0
        while j < n:
            acc = T.float32(0)
            p = 0
            while p < k:
                acc += A[i, p] * B[p, j]
                p += 1
            C[i, j] = acc
            j += 1
        i += 1
"""
    kernel, plain = tl.build(parse(text)), tl.build(parse(text), schedule="none")
    assert [one.recipe for one in kernel.report().nests] == ["contraction of any size"]
    rng = np.random.default_rng(0)
    for m, n, k in ((13, 33, 7), (1, 1, 1), (0, 3, 2), (40, 70, 50)):
        a, b, c, d = (rng.random(shape, "float32") for shape in ((m, k), (k, n), (m, n), (m, n)))
        kernel(a, b, c)
        plain(a, b, d)
        assert c.tobytes() == d.tobytes()


def test_what_is_scheduled_by_hand_keeps_its_while() -> None:
    func = parse(
        HEAD
        + """
    for q in T.parallel(4):
        i = 0
        while i < 16:
            A[q * 16 + i] = i
            i += 1
"""
    )

    made = prepared(func)
    assert made is None or has(While, made.mod["main"].body)


SEEN = """
    i = 0
    while i < {stop}:
        {body}
        i += 1
"""


@pytest.mark.parametrize(
    ("body", "stop", "exact"),
    [
        ("B[0] = (i * 100000) // 100000", "n", False),
        ("B[0] = (i * 100000) // 100000", "m % 20000", True),
        ("B[0] = T.shift_left(i, 20) % 1000", "n", False),
        ("t = i * 3\n        B[0] = t - 7", "n", False),
        ("t = i + 1\n        B[0] = t * 4 // 4", "n", False),
        ("t = i + 1\n        B[0] = t // 4", "n", True),
        ("B[0] = i * B[1] // 3", "n", True),  # what is read wraps there and here
        ("B[i % 4] = i - 1", "n", True),
        ("for j in range(i, m):\n            A[j % 64] = j", "T.min(n, 64)", True),
        ("A[i + 1] = i", "T.min(n, 63)", True),
    ],
)
def test_arithmetic_on_variables_wraps_and_on_numbers_of_loops_does_not(body: str, stop: str, exact: bool) -> None:
    func = parse(HEAD + SEEN.format(body=body, stop=stop))
    sch = tl.Schedule(func, debug_mask="all")
    if not exact:
        with pytest.raises(NotApplicable, match="wraps as long as `i` is a variable"):
            sch.count("i")
        return
    sch.count("i")
    executes_alike(func, sch.mod["main"], inputs=INPUTS)
    plain, made = tl.build(func, schedule="none"), tl.build(sch)
    for n, m in ((60000, 19999), (100, 7), (0, 0)):
        found = [(np.arange(64, dtype="int32"), np.full(4, 12345678, "int32")) for _ in range(2)]
        plain(n, m, *found[0])
        made(n, m, *found[1])
        for one, other in zip(*found, strict=True):
            np.testing.assert_array_equal(other, one)


def drawn(seed: int) -> str:
    """A program of loops that count, or nearly so."""
    rng = random.Random(seed)
    lines: list[str] = []

    def value(names: list[str]) -> str:
        one = rng.choice([*names, "n", "m", "B[1]", "A[3]", "s", str(rng.randint(0, 9))])
        forms = ("{0}", "{0} + {1}", "{0} * 3", "{0} - {1}", "T.max({0}, {1})", "{0} % 7", "({0} * 65536) // 3", "-{0}")
        return rng.choice(forms).format(one, rng.choice([*names, "n", "2"]))

    def loop(depth: int, pad: str, names: list[str]) -> None:
        name = rng.choice([n for n in "ijk" if n not in names])
        begins = rng.choice(["0", "0", "1", "T.max(n, 0)", "m", *names])
        ends = rng.choice(["n", "m", "9", "n + 1", "T.min(n, 12)", "B[0]", *(f"{one} + 3" for one in names)])
        lines.append(f"{pad}{name} = {begins}")
        if rng.random() < 0.2:
            lines.append(f"{pad}B[2] = {name}")
        lines.append(f"{pad}while {name} < {ends}:" if rng.random() < 0.8 else f"{pad}while {ends} > {name}:")
        own = [*names, name]
        for _ in range(rng.randint(1, 3)):
            match rng.randint(0, 7):
                case 0 | 1:
                    lines.append(f"{pad}    A[({value(own)}) % 64] = {value(own)}")
                case 2:
                    lines.append(f"{pad}    s = {value(own)}")
                case 3:
                    lines.append(f"{pad}    t{len(lines)} = {value(own)}")
                    lines.append(f"{pad}    B[1] = t{len(lines) - 1} % 50")
                case 4 if depth < 2:
                    loop(depth + 1, pad + "    ", own)
                case 5:
                    lines.append(f"{pad}    for q{len(lines)} in range({rng.choice(own)}, {rng.choice(own)} + 2):")
                    lines.append(f"{pad}        A[q{len(lines) - 1} % 64] = {value(own)}")
                case 6:
                    jump = rng.choice(("break", "return", f"{name} += 1"))
                    lines.extend((f"{pad}    if {value(own)} == 5:", f"{pad}        {jump}"))
                case _:
                    lines.append(f"{pad}    B[3] = B[3] + {rng.choice(own)}")
        lines.append(f"{pad}    {name} += {rng.choice((1, 1, 1, 1, 2))}")
        if rng.random() < 0.3:
            lines.append(f"{pad}B[1] = {name}")

    lines.append("    s = 0")
    for _ in range(rng.randint(1, 2)):
        loop(0, "    ", [])
    return HEAD + "\n".join([*lines, "    B[0] = s"]) + "\n"


@pytest.mark.parametrize("seed", [*range(30), *(pytest.param(n, marks=pytest.mark.nightly) for n in range(30, 1000))])
def test_random_programs_compute_the_same(seed: int) -> None:
    func = parse(drawn(seed))
    sch = tl.Schedule(func)
    left = 0
    for _ in range(8):
        try:
            sch.count(f"{'ijk'[left % 3]}#{left // 3}")
        except (NotApplicable, NotFound):
            left += 1
    inputs = [
        [n, m, np.arange(64, dtype="int32"), np.array([5, 9, 9, 9], "int32")]
        for n, m in ((0, 3), (6, 11), (13, 2), (-4, 5))
    ]
    executes_alike(func, sch.mod["main"], inputs=inputs)


def test_random_programs_are_counted() -> None:
    taken = 0
    for seed in range(60):
        sch = tl.Schedule(parse(drawn(seed)))
        for name in "ijk":
            try:
                sch.count(name)
                taken += 1
            except (NotApplicable, NotFound):
                pass
    assert 20 < taken < 100
