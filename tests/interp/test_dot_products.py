"""Dot products of lanes in the interpreter, against sums in Python's integers and fractions."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

import tirlower as tl
from tirlower.diagnostics import InterpreterError
from tirlower.machine.cpu import host_cpu
from tirlower.script import parse


def computed(name: str, acc: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What a call on whole vectors gives."""
    params = ", ".join(f'{x}: T.Buffer(({len(v)},), "{v.dtype}")' for x, v in zip("CAB", (acc, a, b), strict=True))
    vectors = ", ".join(f"{x}[0:{len(v)}]" for x, v in zip("CAB", (acc, a, b), strict=True))
    call = f'T.call_llvm_pure_intrin("{acc.dtype}x{len(acc)}", "llvm.x86.{name}", {vectors})'
    func = parse(f"@T.prim_func\ndef f({params}):\n    C[0:{len(acc)}] = {call}\n")
    out = acc.copy()
    tl.interpret(func, out, a, b)
    return out


@pytest.mark.parametrize("signs", ["us", "ss", "su", "uu"])
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("stops", ["", "s"])
def test_integers_wrap_or_stop_at_the_ends(signs: str, bits: int, stops: str) -> None:
    family = "avx512" if (signs == "us" and bits == 8) or (signs == "ss" and bits == 16) else "avx2"
    name = f"{family}.vpdp{'b' if bits == 8 else 'w'}{signs}d{stops}.256"
    rng = np.random.default_rng(1)
    group = 32 // bits
    for extreme in (False, True):
        kinds = [f"{'int' if s == 's' else 'uint'}{bits}" for s in signs]
        a, b = (
            np.full(8 * group, np.iinfo(kind).max, kind)
            if extreme
            else rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, 8 * group, kind, endpoint=True)
            for kind in kinds
        )
        acc = np.array([2**31 - 1, -(2**31), 5, -7, 0, 1, 2**30, -1], "int32")
        wanted = []
        for lane, start in enumerate(acc.tolist()):
            places = range(lane * group, (lane + 1) * group)
            total = start + sum(int(a[at]) * int(b[at]) for at in places)
            if stops:
                total = max(-(2**31), min(2**31 - 1, total))
            wanted.append((total + 2**31) % 2**32 - 2**31)
        assert computed(name, acc, a, b).tolist() == wanted
        # The same bits in lanes of 32 bits.
        assert computed(name, acc, a.view("int32"), b.view("uint32")).tolist() == wanted


@pytest.mark.parametrize("name", ["sse2.pmadd.wd", "avx2.pmadd.wd", "avx512.pmaddw.d.512"])
def test_pairs_of_products_are_added_to_nothing(name: str) -> None:
    lanes = {"sse2": 4, "avx2": 8, "avx512": 16}[name.split(".")[0]]
    a, b = np.random.default_rng(1).integers(-(2**15), 2**15, (2, 2 * lanes)).astype("int16")
    a[:2] = b[:2] = -(2**15)  # the one sum that leaves int32
    sums = [int(a[at]) * int(b[at]) + int(a[at + 1]) * int(b[at + 1]) for at in range(0, 2 * lanes, 2)]
    wanted = [(total + 2**31) % 2**32 - 2**31 for total in sums]
    assert wanted[0] == -(2**31) != sums[0]
    func = parse(f"""
@T.prim_func
def f(C: T.Buffer(({lanes},), "int32"), A: T.Buffer(({2 * lanes},), "int16"), B: T.Buffer(({2 * lanes},), "int16")):
    C[0:{lanes}] = T.call_llvm_pure_intrin("int32x{lanes}", "llvm.x86.{name}", A[0:{2 * lanes}], B[0:{2 * lanes}])
""")
    out = np.zeros(lanes, "int32")
    tl.interpret(func, out, a, b)
    assert out.tolist() == wanted
    if "avx512" not in name and host_cpu().has("avx2"):
        out[:] = 0
        tl.build(func)(out, a, b)
        assert out.tolist() == wanted


def _rounded(value: Fraction) -> Fraction:
    """To float32, ties to even (normal numbers)."""
    if not value:
        return value
    exponent = 0
    while abs(value) >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while abs(value) < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** (exponent - 23)
    return round(value / unit) * unit


def test_bfloat16_rounds_each_sum_the_upper_product_first() -> None:
    rng = np.random.default_rng(2)
    kind = ml_dtypes.bfloat16
    for scale in (1.0, 1e4, 1e-4):
        a, b = (rng.standard_normal(16).astype(kind), (rng.standard_normal(16) * scale).astype(kind))
        acc = rng.standard_normal(8).astype("float32")
        wanted = []
        for lane, start in enumerate(acc.tolist()):
            total = Fraction(start)
            for at in (2 * lane + 1, 2 * lane):
                total = _rounded(total + Fraction(float(a[at])) * Fraction(float(b[at])))
            wanted.append(float(total))
        assert computed("avx512bf16.dpbf16ps.256", acc, a, b).tolist() == wanted
        assert computed("avx512bf16.dpbf16ps.256", acc, a.view("int32"), b.view("uint16")).tolist() == wanted


def test_subnormal_numbers_count_as_zeros() -> None:
    tiny = np.array([2.0**-133] * 8, ml_dtypes.bfloat16)
    acc = np.array([2.0**-130, 1.0, -(2.0**-140), 0.0], "float32")
    out = computed("avx512bf16.dpbf16ps.128", acc, tiny, np.array([2.0**100] * 8, ml_dtypes.bfloat16))
    assert out.tolist() == [0.0, 1.0, 0.0, 0.0]


def test_what_is_no_dot_product_of_these_vectors_has_no_meaning() -> None:
    acc = np.zeros(8, "int32")
    for name, a in (("avx512.vpdpbusd.256", np.zeros(16, "int8")), ("avx512.vpmadd52l.uq.256", np.zeros(4, "int64"))):
        with pytest.raises(InterpreterError, match="no meaning"):
            computed(name, acc, a, a)
