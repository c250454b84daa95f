"""Groups of products in lanes: every pair of types, extremes, instructions of every processor, and what stays as it is."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.machine.cpu import host_cpu
from tirlower.machine.processor import Processor
from tirlower.script import parse
from tirlower.transforms import DotProducts

TILE = """
@T.prim_func
def f(A: T.Buffer(({rows} * {steps} * {group},), "{a}"), B: T.Buffer(({steps} * {width} * {group},), "{b}"), C: T.Buffer(({rows} * {width},), "{c}")):
    T.func_attr({{"tir.noalias": {apart}}})
    for k in range({steps}):
        for i in T.unroll({rows}):
            for l in T.vectorized({width}):
                for g in {inner}({group}):
                    {statement}
"""
SUM = "C[i * {width} + l] = C[i * {width} + l] + T.Cast('int32', A[(i * {steps} + k) * {group} + g]) * T.Cast('int32', B[(k * {width} + l) * {group} + g])"


def tile(
    a: str = "int8",
    b: str = "int8",
    width: int = 16,
    group: int = 4,
    rows: int = 3,
    steps: int = 5,
    statement: str = SUM,
    inner: str = "range",
    apart: bool = True,
    c: str = "int32",
) -> tl.PrimFunc:
    """A tile of a product, ready for instructions."""
    sizes = {"width": width, "group": group, "rows": rows, "steps": steps}
    return parse(TILE.format(a=a, b=b, statement=statement.format(**sizes), inner=inner, apart=apart, c=c, **sizes))


def extremes(func: tl.PrimFunc) -> list[np.ndarray]:
    """Arguments of the smallest and the largest numbers of their types, and some between."""
    rng = np.random.default_rng(0)
    made = []
    for buffer in func.buffers:
        limits = np.iinfo(buffer.dtype.numpy)
        values = rng.choice([limits.min, limits.max, 0, 1, limits.max - 3], buffer.shape[0].value)
        made.append(values.astype(buffer.dtype.numpy))
    return made


TYPES = [*itertools.product(("int8", "uint8"), repeat=2)]


@pytest.mark.parametrize(("a", "b"), TYPES)
@pytest.mark.parametrize("width", [16, 44])
def test_fours_of_bytes(a: str, b: str, width: int):
    func = tile(a, b, width, steps=2)
    after = check(DotProducts(fours=512), func).script()
    assert "vpdpbusd.512" in after and "range(4)" not in after
    # What is shifted is put right once, behind the loop.
    assert after.count("- shifts") == (a == b)


@pytest.mark.parametrize(("a", "b"), [*TYPES, ("int16", "int16"), ("int16", "uint8"), ("int8", "int16")])
@pytest.mark.parametrize(
    ("fours", "pairs", "name"), [(512, 512, "vpdpwssd.512"), (0, 512, "pmaddw.d.512"), (0, 256, "avx2.pmadd.wd")]
)
def test_pairs(a: str, b: str, fours: int, pairs: int, name: str):
    after = check(DotProducts(fours=fours, pairs=pairs), tile(a, b, 20, 2, rows=2, steps=2)).script()
    assert name in after and "range(2)" not in after.replace("for i in T.unroll(2)", "").replace(
        "for k in range(2)", ""
    )


def test_lanes_that_fill_no_vector_stay_a_loop():
    after = check(DotProducts(fours=256), tile("int8", "int8", 15, steps=2)).script()
    # 8 and 4 lanes; three are left. Each sum is put right where it stands.
    assert (
        "vpdpbusd.256" in after
        and "vpdpbusd.128" in after
        and "T.vectorized(12, 15)" in after
        and "shifts" not in after
    )


@pytest.mark.parametrize("mcpu", ["native", "haswell", "x86-64"])
@pytest.mark.parametrize(
    ("a", "b", "group"), [*((a, b, 4) for a, b in TYPES), ("int16", "int16", 2), ("int8", "uint8", 2)]
)
@pytest.mark.parametrize("width", [16, 35])
def test_machine_code_of_extremes(mcpu: str, a: str, b: str, group: int, width: int):
    func = tile(a, b, width, group)
    arguments = extremes(func)
    wanted = arguments[2].astype(np.int64).reshape(3, width)
    x, y = arguments[0].reshape(3, 5, group), arguments[1].reshape(5, width, group)
    wanted = wanted + np.einsum("ikg,klg->il", x.astype(np.int64), y.astype(np.int64))
    tl.build(func, f"llvm -mcpu={mcpu}", schedule="none")(*arguments)
    np.testing.assert_array_equal(arguments[2].reshape(3, width), wanted.astype(np.int32))


@pytest.mark.skipif(not Processor.host().dots.fours, reason="a processor without these instructions")
def test_this_processor_uses_them():
    assert "vpdpbusd" in tl.build(tile(), "llvm", schedule="none").source("asm")
    if host_cpu().has("avx512vnni"):
        assert "vpdpwssd" in tl.build(tile("int16", "int16", group=2), "llvm", schedule="none").source("asm")


@pytest.mark.parametrize(
    "changed",
    [
        {"a": "uint16"},
        {"b": "int32"},
        {"group": 3},
        {"width": 3},
        {"apart": False, "statement": SUM},
        {"inner": "T.vectorized"},
        {"statement": SUM.replace("+ g])", "+ g * 2])")},
        {"statement": SUM.replace("= C[", "= C[0 * ")},
        {"statement": SUM.replace(" + T.Cast", " - T.Cast")},
        {"statement": SUM.replace("T.Cast('int32', A[", "T.Cast('int32', A[l * 0 + l + ")},
        {"statement": SUM.replace("C[i * {width} + l]", "C[i * {width} + l // 2]")},
        {"statement": SUM.replace(") * T.Cast", ") + T.Cast")},
    ],
    ids=str,
)  # fmt: skip
def test_what_stays(changed: dict[str, object]):
    func = tile(**changed)  # type: ignore[arg-type]
    assert DotProducts(fours=512, pairs=512)(func) is func


def test_without_instructions_nothing_changes():
    func = tile()
    assert DotProducts()(func) is func


BFLOATS = SUM.replace("int32", "float32")


def bfloats(width: int, rows: int = 3, steps: int = 5) -> tl.PrimFunc:
    """A tile of a product of bfloat16."""
    return tile("bfloat16", "bfloat16", width, 2, rows, steps, BFLOATS, c="float32")


@pytest.mark.parametrize("width", [4, 16, 37])
def test_pairs_of_bfloat16(width: int):
    func = bfloats(width)
    rng = np.random.default_rng(0)
    # Sums of these are exact in any order.
    given = [rng.integers(-9, 10, buffer.shape[0].value).astype(buffer.dtype.numpy) for buffer in func.buffers]
    after = check(DotProducts(bfloats=512), func, inputs=[given]).script()
    assert "avx512bf16.dpbf16ps" in after and after.count("for g in range(2)") == (width % 4 != 0)
    assert DotProducts(fours=512, pairs=512)(func) is func  # the rounding is not permitted


@pytest.mark.skipif(not host_cpu().has("avx512bf16"), reason="a processor without these instructions")
def test_machine_code_of_pairs_of_bfloat16_is_what_the_interpreter_computes():
    func = DotProducts(bfloats=512)(bfloats(16))
    rng = np.random.default_rng(1)
    given = [rng.standard_normal(buffer.shape[0].value).astype(buffer.dtype.numpy) for buffer in func.buffers]
    wanted = [one.copy() for one in given]
    kernel = tl.build(func, "llvm", schedule="none")
    kernel(*given)
    tl.interpret(func, *wanted)
    np.testing.assert_array_equal(given[2], wanted[2])
    assert "vdpbf16ps" in kernel.source("asm")
    assert "vdpbf16ps" in tl.build(bfloats(16), "llvm -fast-math-dots=1", schedule="none").source("asm")
    assert "vdpbf16ps" not in tl.build(bfloats(16), "llvm", schedule="none").source("asm")
