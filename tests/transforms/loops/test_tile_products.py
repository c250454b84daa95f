"""Products on tile registers: every pair of types, tiles of all sizes, where sums come from and go to, and what stays."""

from __future__ import annotations

import itertools
import re

import ml_dtypes
import numpy as np
import pytest

import tirlower as tl
from tests.checking import check
from tirlower.machine.cpu import host_cpu
from tirlower.script import parse
from tirlower.transforms import TileProducts

TILE = """
@T.prim_func
def f(A: T.Buffer(({rows} * {count} * {deep} * {group},), "{a}"), B: T.Buffer(({count} * {deep} * {columns} * {group},), "{b}"), C: T.Buffer(({rows} * {pitch},), "{c}")):
    T.func_attr({{"tir.noalias": {apart}}})
    S = T.alloc_buffer(({rows} * {columns},), "{c}", scope="local")
    for r, c in T.grid({rows}, {columns}):
        {begin}
    for k in range({count}):
        for r in T.serial({rows}, annotations={{"tir.tile_product": True}}):
            for c in {lanes}({columns}):
                for h, g in T.grid({deep}, {group}):
                    {statement}
    for r, c in T.grid({rows}, {columns}):
        {end}
"""
SUM = "S[r * {columns} + c] = S[r * {columns} + c] + T.Cast('{c}', A[(r * {count} + k) * {deep} * {group} + h * {group} + g]) * T.Cast('{c}', B[((k * {deep} + h) * {columns} + c) * {group} + g])"
CLEAR, LOAD = "S[r * {columns} + c] = T.Cast('{c}', 0)", "S[r * {columns} + c] = C[r * {pitch} + c]"
COPY, ADD = "C[r * {pitch} + c] = S[r * {columns} + c]", "C[r * {pitch} + c] = S[r * {columns} + c] + T.Cast('{c}', 1)"
ALL = TileProducts(bytes=True, bfloats=True)


def tile(
    a: str = "int8",
    b: str = "uint8",
    rows: int = 5,
    columns: int = 6,
    deep: int = 3,
    count: int = 2,
    begin: str = CLEAR,
    end: str = COPY,
    statement: str = SUM,
    lanes: str = "T.vectorized",
    apart: bool = True,
    group: int = 0,
) -> tl.PrimFunc:
    """A tile of a product, as a schedule leaves it."""
    bfloat = a == "bfloat16"
    sizes: dict[str, object] = {
        "rows": rows, "columns": columns, "deep": deep, "count": count, "group": group or (2 if bfloat else 4),
        "pitch": columns + 3, "c": "float32" if bfloat else "int32", "a": a, "b": b,
    }  # fmt: skip
    parts = {name: text.format(**sizes) for name, text in (("begin", begin), ("end", end), ("statement", statement))}
    return parse(TILE.format(lanes=lanes, apart=apart, **parts, **sizes))


def arguments(func: tl.PrimFunc) -> list[np.ndarray]:
    """Small numbers, whose sums of float32 are exact in any order, and the ends of bytes."""
    rng = np.random.default_rng(0)
    made = []
    for buffer in func.buffers:
        count = buffer.shape[0].value
        if str(buffer.dtype) in ("int8", "uint8"):
            limits = np.iinfo(buffer.dtype.numpy)
            made.append(rng.choice([limits.min, limits.max, 1, 3], count).astype(buffer.dtype.numpy))
        elif buffer.dtype.is_bfloat16:
            made.append(rng.integers(-8, 9, count).astype(ml_dtypes.bfloat16))
        else:
            made.append(rng.integers(-9, 10, count).astype(buffer.dtype.numpy))
    return made


PAIRS = [*itertools.product(("int8", "uint8"), repeat=2), ("bfloat16", "bfloat16")]


@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize(("begin", "end"), [(CLEAR, COPY), (LOAD, ADD)], ids=["cleared", "loaded"])
def test_every_pair_of_types(a: str, b: str, begin: str, end: str):
    func = tile(a, b, begin=begin, end=end)
    after = check(ALL, func, inputs=[arguments(func)]).script()
    assert re.search(r"llvm\.x86\.tdpb(ss|su|us|uu|f16p)", after) and "for r in T.serial" not in after


@pytest.mark.parametrize("rows", [1, 16, 17, 32])
@pytest.mark.parametrize("columns", [1, 16, 31])
@pytest.mark.parametrize("deep", [1, 7])
def test_tiles_of_all_sizes(rows: int, columns: int, deep: int):
    func = tile(rows=rows, columns=columns, deep=deep, count=1)
    after = check(ALL, func, inputs=[arguments(func)]).script()
    assert after.count("tdpbsud") == -(-rows // 16) * -(-columns // 16)


@pytest.mark.parametrize(
    ("begin", "end", "cleared", "memory"),
    [(CLEAR, COPY, True, False), (LOAD, COPY, False, False), (CLEAR, ADD, True, True), (LOAD, ADD, False, True)],
    ids=["zero and copy", "load and copy", "zero and more", "load and more"],
)
def test_sums_come_and_go_by_the_tiles_themselves(begin: str, end: str, cleared: bool, memory: bool):
    func = tile(begin=begin, end=end)
    after = check(ALL, func, inputs=[arguments(func)]).script()
    assert ("tilezero" in after) is cleared
    assert ("S = T.alloc_buffer" in after) is memory
    # The sums are in registers while the loop over steps goes on.
    loop = after[after.index("for k in range(2)") : after.index("tilestored64")]
    assert loop.count("tileloadd64") == 2


@pytest.mark.parametrize(
    "changed",
    [
        {"begin": CLEAR.replace("'{c}', 0", "'{c}', 1")},
        {"begin": CLEAR.replace("r * {columns}", "({rows} - 1 - r) * {columns}")},
        {"begin": CLEAR + "\n        if r < 3:\n            S[r * {columns} + c] = 7"},
        {"end": COPY.replace("+ c] = S", "+ {columns} - 1 - c] = S")},
        {"end": COPY.replace("S[r * {columns} + c]", "S[c * {rows} + r]")},
        {"end": COPY + "\n    C[0] = S[1]"},
        {"end": COPY.replace("r * {pitch}", "r * 2")},  # rows that overlap: the last one counts
    ],
    ids=str,
)
def test_other_beginnings_and_ends_stay_in_memory(changed: dict[str, str]):
    func = tile(**changed)  # type: ignore[arg-type]
    after = check(ALL, func, inputs=[arguments(func)]).script()
    assert "tdpbsud" in after and "S = T.alloc_buffer" in after


@pytest.mark.parametrize(
    "changed",
    [
        {"a": "int8", "b": "int16"},
        {"rows": 33},
        {"columns": 33},
        {"deep": 17},
        {"group": 2},
        {"lanes": "T.parallel"},
        {"statement": SUM.replace("+ T.Cast", "- T.Cast", 1)},
        {"statement": SUM.replace(") * T.Cast", ") * 2 * T.Cast")},
        {"statement": SUM.replace("+ g]) *", "+ g * 0]) *")},
        {"statement": SUM.replace("h) * {columns}", "h * 0 + c * 0) * {columns}").replace("c) * {group}", "c * h) * {group}")},
        {"statement": SUM.replace("S[r * {columns} + c] =", "S[r * {columns} + c // 2] =")},
        {"statement": SUM.replace("S[r * {columns} + c]", "S[r * 2 + c]")},  # sums of two rows
        {"statement": SUM.replace("S[r * {columns} + c]", "S[c]")},
        {"statement": "if r < 2:\n                        " + SUM},
    ],
    ids=str,
)  # fmt: skip
def test_what_stays(changed: dict[str, object]):
    func = tile(**changed)  # type: ignore[arg-type]
    assert ALL(func) is func


def test_what_is_not_permitted_or_not_asked_for_stays():
    bfloats, bytes_ = tile("bfloat16", "bfloat16"), tile()
    assert TileProducts(bytes=True)(bfloats) is bfloats
    assert TileProducts(bfloats=True)(bytes_) is bytes_
    assert TileProducts()(bytes_) is bytes_
    plain = parse(bytes_.script().replace(', annotations={"tir.tile_product": True}', ""))
    assert ALL(plain) is plain


def test_arrays_that_may_overlap_the_sums_are_left_to_the_loops():
    text = TILE.replace('    S = T.alloc_buffer(({rows} * {columns},), "{c}", scope="local")\n', "").replace("S[", "C[")
    sizes = {
        "rows": 2,
        "columns": 3,
        "deep": 1,
        "count": 2,
        "group": 4,
        "pitch": 3,
        "c": "int32",
        "a": "int8",
        "b": "int8",
    }
    for apart in (True, False):
        parts = {"begin": "T.evaluate(0)", "end": "T.evaluate(0)", "statement": SUM.replace("S[", "C[").format(**sizes)}
        func = parse(text.format(lanes="T.serial", apart=apart, **parts, **sizes))
        assert (ALL(func) is func) is not apart


def test_tiles_are_configured_once_for_loops_that_leave_their_shapes():
    inner = """
        for i, j in T.grid(2, 2):
            for k in range(2):
                for r in T.serial({rows}, annotations={{"tir.tile_product": True}}):
                    for c, h, g in T.grid(16, 4, 4):
                        C[(i * {rows} + r) * 32 + j * 16 + c] = C[(i * {rows} + r) * 32 + j * 16 + c] + T.Cast("int32", A[(i * {rows} + r) * 32 + k * 16 + h * 4 + g]) * T.Cast("int32", B[((k * 4 + h) * 32 + j * 16 + c) * 4 + g])
"""
    head = """
@T.prim_func
def f(A: T.Buffer((1024,), "int8"), B: T.Buffer((1024,), "int8"), C: T.Buffer((1024,), "int32")):
    T.func_attr({"tir.noalias": True})
    for p in %s(3):
"""
    for kind, count in (("range", 1), ("T.parallel", 1)):
        func = parse(head % kind + inner.format(rows=8))
        after = check(ALL, func, inputs=[arguments(func)])
        assert after.script().count("ldtilecfg") == count == after.script().count("tilerelease")
        lines = after.script().splitlines()
        order = [word for line in lines for word in ("for p", "for i", "ldtilecfg", "tileloadd64") if word in line]
        # Each thread has tiles of its own.
        first = ["ldtilecfg", "for p"] if kind == "range" else ["for p", "ldtilecfg", "for i"]
        assert order[: len(first)] == first
    two = parse(head % "range" + inner.format(rows=8) + inner.format(rows=9))
    assert check(ALL, two, inputs=[arguments(two)]).script().count("ldtilecfg") == 2


@pytest.mark.skipif(not host_cpu().has("amx-tile", "amx-int8", "amx-bf16"), reason="a processor without tiles")
@pytest.mark.parametrize(("a", "b"), PAIRS)
@pytest.mark.parametrize(("rows", "columns", "deep"), [(32, 32, 3), (19, 30, 2), (2, 3, 16)])
@pytest.mark.by_day
def test_machine_code(a: str, b: str, rows: int, columns: int, deep: int):
    func = tile(a, b, rows, columns, deep, count=3, begin=LOAD)
    kernel = tl.build(func, "llvm -fast-math-dots=1", schedule="none")
    given, wanted = arguments(func), arguments(func)
    kernel(*given)
    tl.interpret(func, *wanted)
    np.testing.assert_array_equal(given[-1], wanted[-1])
    assert "tdpb" in kernel.source("asm")


def test_a_call_of_a_function_could_use_tiles_itself():
    module = parse("""
@I.ir_module
class Module:
    @T.prim_func(private=True)
    def other(C: T.Buffer((64,), "int32")):
        C[0] = C[0] + 1
    @T.prim_func
    def f(A: T.Buffer((512,), "uint8"), B: T.Buffer((512,), "int8"), C: T.Buffer((64,), "int32")):
        T.func_attr({"tir.noalias": True})
        for p in range(3):
            Module.other(C.data)
            for k in range(8):
                for r in T.serial(8, annotations={"tir.tile_product": True}):
                    for c, h, g in T.grid(8, 2, 4):
                        C[r * 8 + c] = C[r * 8 + c] + T.Cast("int32", A[r * 64 + k * 8 + h * 4 + g]) * T.Cast("int32", B[k * 64 + h * 32 + c * 4 + g])
""")
    lines = ALL(module).script().splitlines()
    at = [
        next(n for n, line in enumerate(lines) if word in line)
        for word in ("for p", "other(C.data", "ldtilecfg", "tilerelease")
    ]
    assert at == sorted(at)
