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


NEGATED = re.compile(r"\b(?:neg|sub|mul\.lo)\.s(?:16|32)\b")


def least(dtype: str, term: str, lanes: int = 1) -> str:
    index = f"0:{lanes}" if lanes > 1 else "0"
    terms = {name: f"{name}[{index}]" for name in "ABC"}
    module = build(
        kernel(
            ", ".join(f'{name}: T.Buffer(({lanes},), "{dtype}")' for name in "ABCD"),
            f"D[{index}] = {term.format(**terms, zero=f'T.Broadcast(T.{dtype}(0), {lanes})' if lanes > 1 else f'T.{dtype}(0)')}",
            threads=1,
        ),
        "sm_90a",
    )
    check(module)
    return module.ptx


@pytest.mark.parametrize(
    ("dtype", "lanes"), [("int32", 1), ("int32", 4), ("int16", 1), ("int16", 2), ("int16", 7), ("int16", 8)]
)
@pytest.mark.parametrize(
    "term",
    [
        "T.min(T.min({A}, {zero} - {B}), {C})",
        "T.max({C}, T.max({A}, {zero} - {B}))",
        "T.min(T.min({zero} - {A}, {zero} - {B}), {zero} - {C})",
        "T.Select({A} < {zero} - {B}, T.min({A}, {C}), T.min({zero} - {B}, {C}))",
    ],
)
def test_operands_of_minima_are_not_negated(dtype: str, lanes: int, term: str) -> None:
    ptx = least(dtype, term, lanes)
    assert NEGATED.search(ptx) is None
    assert ptx.count("not.b") >= lanes


@pytest.mark.parametrize("term", ["{zero} - {B} + {C}", "({zero} - {B}) * {C} + T.min({A}, {C})"])
def test_other_negated_numbers_stay(term: str) -> None:
    assert NEGATED.search(least("int32", term))


NEGATIONS = ["neg.s32 \t%r2, %r1", "sub.s32 \t%r2, 0, %r1", "mul.lo.s32 \t%r2, %r1, -1"]


@pytest.mark.parametrize("negation", NEGATIONS)
@pytest.mark.parametrize("use", ["min.s32 \t%r4, %r2, %r3", "max.s32 \t%r4, %r3, %r2", "setp.lt.s32 \t%p1, %r3, %r2"])
def test_every_form_of_a_negation_and_of_an_order(negation: str, use: str) -> None:
    wanted = f"\tnot.b32 \t%r2, %r1;\n\tadd.s32 \t%r2, %r2, 1;\n\t{use};\n}}\n"
    assert corrected(f"\t{negation};\n\t{use};\n}}\n") == wanted
    through = f"\t{negation};\n\tmov.b32 \t%r7, %r2;\n\t{use.replace('%r2', '%r7')};\n}}\n"
    assert NEGATED.search(corrected(through)) is None


@pytest.mark.parametrize("negation", NEGATIONS)
def test_only_the_function_of_the_minimum_is_changed(negation: str) -> None:
    text = f"\t{negation};\n}}\n\tmin.s32 \t%r4, %r2, %r3;\n}}\n"
    assert corrected(text) == text
    unsigned = f"\t{negation};\n\tmin.u32 \t%r4, %r2, %r3;\n}}\n"
    assert corrected(unsigned) == unsigned
