"""What is corrected in LLVM's PTX, and that nothing else is."""

from __future__ import annotations

import re

import pytest

from tests.gpu.codegen.building import build, check, kernel
from tirlower.gpu.codegen.assembly import corrected

PACKED = re.compile(r"add\.[su]16x2")


def added(term: str, lanes: int) -> str:
    module = build(
        kernel(
            f'A: T.Buffer(({lanes},), "int16"), B: T.Buffer(({lanes},), "int16")',
            f"B[0:{lanes}] = {term}",
            threads=1,
        ),
        "sm_90a",
    )
    check(module)
    return module.ptx


@pytest.mark.parametrize("lanes", [2, 3, 7, 8])
@pytest.mark.parametrize("constant", [1, -1, 300, 32767])
def test_constants_are_added_to_halves_one_by_one(lanes: int, constant: int) -> None:
    ptx = added(f"A[0:{lanes}] + T.Broadcast(T.int16({constant}), {lanes})", lanes)
    assert not PACKED.search(ptx)
    assert ptx.count("add.s16") >= lanes


def test_pairs_that_are_no_constants_stay_packed() -> None:
    assert PACKED.search(added("A[0:8] + B[0:8]", 8))


@pytest.mark.parametrize("constant", ["%r2", "-1", "65535"])
def test_either_operand_may_be_the_constant(constant: str) -> None:
    head = "\tmov.b32 \t%r2, 65535;\n"
    tail = "\n\tst.global.b32 \t[%rd1], %r3;\n"
    assert PACKED.search(corrected(f"{head}\tadd.s16x2 \t%r3, %r1, {constant};{tail}")) is None
    assert PACKED.search(corrected(f"{head}\tadd.u16x2 \t%r3, %r2, %r1;{tail}")) is None
    text = f"{head}\tadd.s16x2 \t%r3, %r1, %r4;{tail}"
    assert corrected(text) == text
    once = corrected(f"{head}\tadd.s16x2 \t%r3, %r1, {constant};{tail}")
    assert corrected(once) == once
