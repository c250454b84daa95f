"""A fixed number of hostile programs with fixed seeds, half of them by day; ``python -m tests.hostile`` runs any number."""

from __future__ import annotations

import ctypes
import faulthandler
import os
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from tests.hostile.campaign import one, run_many
from tests.hostile.generate import Argument, Base, Call, Hostile, generate
from tests.hostile.memory import Fenced
from tests.hostile.shrink import kind_of, shrink
from tests.sampling import by_day
from tirlower.diagnostics import ScriptError
from tirlower.script import parse

COUNT, EACH = 300, 30
OPEN_SEEDS: set[int] = set()
"""Seeds that show faults not mended yet: only ever taken away from."""


@pytest.fixture(autouse=True)
def without_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE", "off")


@pytest.mark.parametrize("first", by_day(range(0, COUNT, EACH)))
def test_native_code_is_the_interpreter_and_touches_nothing_else(first: int) -> None:
    report = run_many(first, EACH)
    faults = [fault for fault in report.faults if fault.seed not in OPEN_SEEDS]
    assert not faults, "\n".join(map(str, faults))
    assert report.programs == EACH


@pytest.mark.nightly
def test_many_programs() -> None:
    report = run_many(1_000_000, 20_000)
    assert not report.faults, "\n".join(map(str, report.faults[:20]))


# The machine itself


def made(body: str, *values: int) -> Hostile:
    """A program on arrays of eight elements, A and O in the memory of each their own."""
    text = 'def main(s: T.int32, A: T.Buffer((8,), "int32"), O: T.Buffer((8,), "int32")):\n' + body
    bases = (Base("int32", tuple(range(8))), Base("int32", (0,) * 8))
    arguments = (Argument(scalar=values[0] if values else 0), Argument(base=0, length=8), Argument(base=1, length=8))
    return Hostile(0, "@T.prim_func\n" + text, (Call(bases, (True, False), arguments, False),))


def test_a_seed_makes_one_program_and_every_form_occurs() -> None:
    programs = [generate(seed) for seed in range(200)]
    assert all(one.text == generate(one.seed).text for one in programs[:20])
    texts = "\n".join(one.text for one in programs)
    for form in ("T.vectorized", "T.parallel", "T.unroll", "Module.f(", "decl_buffer", "strides=", "T.abs", "T.shift_left", '"n"',
                 "T.if_then_else", "T.Select", "T.uint64", "T.int8", "T.bind", " % ", " // ", "range(T.max(T.min(X["):  # fmt: skip
        assert form in texts, form
    assert any(call.aliased for one in programs for call in one.calls)
    for each in programs[:60]:
        try:
            parse(each.text)
        except ScriptError as error:
            assert "division by zero" in str(error)


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("size", [1, 7, 4096, 5000])
def test_fenced_memory(at_end: bool, size: int) -> None:
    content = (np.arange(size) % 100).astype("int8")
    one = Fenced(content, at_end)
    assert np.array_equal(one.array, content) and one.intact()
    beside = np.ctypeslib.as_array((ctypes.c_int8 * (size + 2)).from_address(one.array.ctypes.data - 1))
    if size % 4096:
        at = 0 if at_end else size + 1
        beside[at] = 1
        assert not one.intact()
    one.free()


def dies(address_after: bool) -> int:
    """The signal of a child that reads one byte past the fence."""
    process = os.fork()
    if process == 0:
        faulthandler.disable()
        one = Fenced(np.zeros(16, "int8"), address_after)
        ctypes.string_at(one.array.ctypes.data + (16 if address_after else -1), 1)
        os._exit(0)
    return os.waitpid(process, 0)[1]


def test_the_fence_ends_who_touches_it() -> None:
    assert os.WIFSIGNALED(dies(True)) and os.WIFSIGNALED(dies(False))


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A library that trusts every access."""
    import tirlower as tl

    with tl.PassContext(config={"tir.unproved_bounds": "trust"}):
        yield


def test_a_missing_guard_is_found_on_either_side_and_made_small(unchecked: None) -> None:
    inside = made("    O[1] = A[s]\n", 3)
    assert one(inside) == []
    after = made("    O[0] = A[1]\n    if s > 2:\n        O[1] = A[s] + O[2]\n", 8)
    before = made("    O[s] = A[0]\n", -1)
    assert one(after) == ["signal SIGSEGV"] and one(before) == ["signal SIGSEGV"]
    assert shrink(after, 20).text.count("\n") == 3
    assert "beside" in one(made("    A[s] = O[0]\n", -1))[0]


def test_wrong_values_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import tirlower as tl

    real = tl.interpret
    program = made("    O[1] = A[s]\n", 3)
    assert one(program) == []
    monkeypatch.setattr(tl, "interpret", lambda func, *args: (real(func, *args), args[2].__setitem__(1, 77)))
    assert kind_of(one(program)) == "values"


def test_bounds_that_are_taken_twice_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    program = generate(17_000_060)
    assert one(program) == []
    monkeypatch.setattr("tirlower.transforms.loops.unroll.bounds_once", lambda loop: ([], loop))
    assert kind_of(one(program)) == "values"


def test_a_death_names_its_program_and_the_next_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def die(program: Hostile, counts: Counter[str], target: str) -> list[str]:
        if program.seed == 6:
            os.kill(os.getpid(), 9)
        return [f"wrong for {target}"] if program.seed == 8 else []

    monkeypatch.setattr("tests.hostile.campaign.compare", die)
    report = run_many(4, 6, target="c")
    assert [(fault.seed, fault.what) for fault in report.faults] == [(6, "signal SIGKILL"), (8, "wrong for c")]
    assert report.programs == 6
